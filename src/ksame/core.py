"""The words of the toolkit: face sets, partitions, guarantees and the ways to fail.

Everything above this module speaks in these types. They are frozen and checked at birth, so
that code which holds one need not check it again. Only numpy is imported here.

The one law (``check_law``): the published face is constant on each group, each group has at
least k distinct subjects, no subject is in two groups.

Errors, with the exit code of the command line::

    KSameError                 1   anything that went wrong here
    |-- UsageError             2   an option or argument makes no sense
    |-- GuaranteeError         3
    |   |-- CannotGuarantee        k cannot be met by these people
    |   `-- GuaranteeViolated      a claim was checked and is not true
    |-- InputError             4   a photo cannot be read or has no face
    |-- ResidualFace           5   a face is still untouched in what was written
    `-- WeightsError           1   a model file is missing and cannot be fetched
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "CannotGuarantee",
    "FaceSet",
    "FloatArray",
    "Guarantee",
    "GuaranteeError",
    "GuaranteeViolated",
    "InputError",
    "IntArray",
    "KSameError",
    "Kind",
    "Partition",
    "RandomState",
    "ResidualFace",
    "Scope",
    "Space",
    "UsageError",
    "WeightsError",
    "as_k",
    "check_law",
]

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]
RandomState = int | np.random.Generator | None
"""None is randomness of the operating system; a seed is for tests and repeated runs."""


class KSameError(Exception):
    """Anything that went wrong here; the message is one sentence that says what to do."""

    exit_code = 1


class UsageError(KSameError, ValueError):
    """An option or argument makes no sense."""

    exit_code = 2


class GuaranteeError(KSameError, ValueError):
    """A promise cannot be given, or was given and is not true."""

    exit_code = 3


class CannotGuarantee(GuaranteeError):
    """k cannot be met by these people."""


class GuaranteeViolated(GuaranteeError):
    """A claim was checked and is not true."""


class InputError(KSameError):
    """A photo cannot be read or has no face."""

    exit_code = 4


class ResidualFace(KSameError):
    """A face is still untouched in what was written."""

    exit_code = 5


class WeightsError(KSameError):
    """A model file is missing and cannot be fetched."""


def as_k(k: object, subjects: int | None = None) -> int:
    """Return k as an int, checked against the number of distinct subjects if that is known.

    >>> as_k(5, 12)
    5
    >>> as_k(20, 12)
    Traceback (most recent call last):
    ksame.core.CannotGuarantee: k must be an integer in [2, 12]: 12 distinct subjects were given. Got 20.
    """
    try:
        if isinstance(k, bool | np.bool_):
            raise TypeError
        number = operator.index(k)  # type: ignore[arg-type]  # TypeError is the answer
    except TypeError:
        raise UsageError(f"k must be an integer of at least 2. Got {k!r}.") from None
    if number < 2:
        raise UsageError(
            f"k must be an integer of at least 2: with k = {number} faces would be published as they are."
        )
    if subjects is not None and subjects < 2:
        raise CannotGuarantee(
            f"At least 2 distinct subjects are needed to hide one among others. Got {subjects}."
        )
    if subjects is not None and number > subjects:
        raise CannotGuarantee(
            f"k must be an integer in [2, {subjects}]: {subjects} distinct subjects were given. Got {number}."
        )
    return number


def check_law(outputs: ArrayLike, subjects: ArrayLike, k: int, *, several: bool = False) -> float:
    """Check the one law on who stands behind each published face; return the exact bound.

    Parameters
    ----------
    outputs : (n,) array
        What was published for each face: group labels, file hashes, anything with equality.
    subjects : (n,) array
        Who each face is.
    k : int
        The least number of distinct subjects behind one output.
    several : bool
        A subject may have several outputs if exactly the same subjects are behind each of them: then
        comparing them tells nothing. For instance a neutral and a smiling face of one group.

    Returns
    -------
    float
        The largest share of one subject among the faces with the same output: the chance of
        the best possible guess. It is 1/k when every group has k subjects with one face each.

    Raises
    ------
    GuaranteeViolated
        If an output has fewer than k distinct subjects, or a subject has two outputs.

    Examples
    --------
    >>> check_law([0, 0, 0, 0], ["A", "A", "A", "B"], k=2)
    0.75
    >>> check_law(["calm", "smile", "calm", "smile"], ["A", "A", "B", "B"], k=2, several=True)
    0.5
    """
    _, out = np.unique(np.asarray(outputs), return_inverse=True)
    names, who = np.unique(np.asarray(subjects), return_inverse=True)
    if out.shape != who.shape or out.ndim != 1:
        raise UsageError(f"Each output needs one subject. Got {out.size} outputs and {who.size} subjects.")
    if not out.size:
        raise GuaranteeViolated("There is nothing to check: no face was given.")
    # one row per (output, subject) that occurs, with the number of faces
    pairs, faces = np.unique(np.stack([out, who]), axis=1, return_counts=True)
    people = np.bincount(pairs[0])
    if people.min() < k:
        raise GuaranteeViolated(
            f"A published face stands for {people.min()} distinct subjects, fewer than k = {k}."
        )
    crowd = pairs[0]
    if several:  # outputs with the same subjects count as one
        behind = np.split(pairs[1], np.cumsum(people)[:-1])
        crowd = np.unique([some.tobytes().hex() for some in behind], return_inverse=True)[1][pairs[0]]
    spread = np.bincount(np.unique(np.stack([crowd, pairs[1]]), axis=1)[1])
    if spread.max() > 1:
        raise GuaranteeViolated(
            f"Subject {str(names[spread.argmax()])!r} is behind {spread.max()} different published faces:"
            " comparing them would narrow the guess."
        )
    return float((faces / np.bincount(out)[pairs[0]]).max())


def _frozen(array: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return a read-only copy, so that no caller can change a checked object behind its back."""
    copy = np.array(array, dtype=dtype)
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True, eq=False)
class FaceSet:
    """n faces as parallel arrays; indexing with a mask or an index array gives a FaceSet.

    Parameters
    ----------
    rgb : (n, h, w, 3) uint8
        The faces registered on the canonical frame (``geometry.FRAME``).
    points : (n, m, 2) float
        Landmarks (x, y) in pixels of the source photo.
    xyxy : (n, 4) float
        Boxes in the source photo.
    score : (n,) float
        The detector's confidence.
    source : (n,) str
        The photo each face is from.
    subject : (n,) str
        Who it is. k counts these.
    labels : mapping of str to (n,) arrays
        What else is known: gender, expression, any column of a csv.
    """

    rgb: NDArray[np.uint8]
    points: FloatArray
    xyxy: FloatArray
    score: FloatArray
    source: NDArray[np.str_]
    subject: NDArray[np.str_]
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the arrays are parallel."""
        n = len(self.rgb)
        if self.rgb.ndim != 4 or self.rgb.shape[3] != 3 or self.rgb.dtype != np.uint8:
            raise UsageError(f"rgb must be (n, h, w, 3) uint8. Got {self.rgb.shape} {self.rgb.dtype}.")
        if self.points.ndim != 3 or self.points.shape[2] != 2:
            raise UsageError(f"points must be (n, m, 2). Got {self.points.shape}.")
        if self.xyxy.shape != (n, 4):
            raise UsageError(f"xyxy must be ({n}, 4). Got {self.xyxy.shape}.")
        columns = {"points": self.points, "score": self.score, "source": self.source, "subject": self.subject}
        for name, column in {**columns, **self.labels}.items():
            if len(column) != n:
                raise UsageError(f"{name} must have one row per face: {n}. Got {len(column)}.")
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.rgb)

    def __getitem__(self, index: slice | NDArray[Any] | list[int]) -> Self:
        """Return the faces that a slice, mask or index array names."""
        return replace(
            self,
            rgb=self.rgb[index],
            points=self.points[index],
            xyxy=self.xyxy[index],
            score=self.score[index],
            source=self.source[index],
            subject=self.subject[index],
            labels={name: column[index] for name, column in self.labels.items()},
        )


class Space(Protocol):
    """A way from faces to codes and back; ``fit`` returns it finished, there is no unfitted state."""

    @classmethod
    def fit(cls, faces: FaceSet) -> Self:
        """Learn the space from faces."""

    def encode(self, faces: FaceSet) -> FloatArray:
        """Return one code per face, (n, d)."""

    def decode(self, codes: FloatArray) -> NDArray[np.uint8]:
        """Return one picture per code, (n, h, w, 3)."""


@dataclass(frozen=True, eq=False, init=False)
class Partition:
    """Groups of faces; it cannot exist unless it keeps the one law.

    Parameters
    ----------
    labels : (n,) int
        The group of each face, stored as 0 .. m-1 in the order of first appearance.
    k : int
        Each group has at least k distinct subjects.
    subjects : (n,) array, optional
        Who each face is; by default every face is another person.

    Examples
    --------
    >>> groups = Partition([7, 7, 3, 3, 3], k=2)
    >>> groups.labels.tolist(), groups.sizes.tolist(), groups.bound
    ([0, 0, 1, 1, 1], [2, 3], 0.5)
    """

    labels: IntArray
    k: int
    subjects: NDArray[Any]
    bound: float

    def __init__(self, labels: ArrayLike, k: int, subjects: ArrayLike | None = None) -> None:
        """Check the law and store the groups."""
        given = np.asarray(labels)
        who = np.arange(given.size) if subjects is None else np.asarray(subjects)
        number = as_k(k)
        bound = check_law(given, who, number)
        _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))  # rank of each label by first appearance
        object.__setattr__(self, "labels", _frozen(order[inverse], np.intp))
        object.__setattr__(self, "k", number)
        object.__setattr__(self, "subjects", _frozen(who))
        object.__setattr__(self, "bound", bound)

    def __len__(self) -> int:
        """Return the number of groups."""
        return int(self.labels.max()) + 1

    @cached_property
    def sizes(self) -> IntArray:
        """Faces in each group."""
        return _frozen(np.bincount(self.labels), np.intp)

    @cached_property
    def people(self) -> IntArray:
        """Distinct subjects in each group; never fewer than k."""
        _, who = np.unique(self.subjects, return_inverse=True)
        pairs = np.unique(np.stack([self.labels, who]), axis=1)
        return _frozen(np.bincount(pairs[0]), np.intp)

    @cached_property
    def groups(self) -> tuple[IntArray, ...]:
        """The rows of each group, ascending."""
        order = np.argsort(self.labels, kind="stable")
        return tuple(np.split(order, np.cumsum(self.sizes)[:-1]))


Kind = Literal["k-anonymity and wrong-map", "k-anonymity", "wrong-map", "none"]
Scope = Literal["file", "code"]
_SCOPE: dict[Scope, str] = {
    "file": "It covers everything computed from the new faces alone: every byte of a published portrait.",
    "code": "It covers the codes only: the published pictures also carry something of the originals, and"
    " what a recogniser makes of that is measured, not promised.",
}


@dataclass(frozen=True)
class Guarantee:
    """A claim that travels with the data, prints itself, verifies itself, and can only be lowered.

    Parameters
    ----------
    kind : str
        ``k-anonymity``, ``wrong-map``, both, or ``none``.
    k : int
        Distinct subjects behind every published face; 1 without k-anonymity.
    bound : float
        No guess is right with a higher chance; 1.0 without k-anonymity.
    scope : str
        ``file``: whatever is computed from the new codes alone. ``code``: no further than the code.
    assumptions : tuple of str
        What must be true for the claim to be true.

    Examples
    --------
    >>> strong = Guarantee("k-anonymity", k=5, bound=0.2)
    >>> weak = strong.lower(scope="code", because="the face is blended into the original photo")
    >>> weak < strong, weak.bound
    (True, 0.2)
    >>> weak.lower(scope="file", because="I wish")
    Traceback (most recent call last):
    ksame.core.GuaranteeViolated: A guarantee can only be lowered: scope cannot go from code to file.
    """

    kind: Kind
    k: int = 1
    bound: float = 1.0
    scope: Scope = "file"
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse claims that contradict themselves."""
        if self.kind not in get_args(Kind) or self.scope not in get_args(Scope):
            raise UsageError(f"There is no guarantee {self.kind!r} with scope {self.scope!r}.")
        if self.k_anonymous and not (self.k >= 2 and 0 < self.bound < 1):
            raise UsageError(
                f"k-anonymity needs k >= 2 and 0 < bound < 1. Got k = {self.k}, bound = {self.bound}."
            )
        if not self.k_anonymous and not (self.k == 1 and self.bound == 1.0):
            raise UsageError(
                f"Without k-anonymity k and bound are 1. Got k = {self.k}, bound = {self.bound}."
            )

    @property
    def k_anonymous(self) -> bool:
        """Whether any recogniser at all is held to the bound."""
        return self.kind.startswith("k-anonymity")

    @property
    def wrong_map(self) -> bool:
        """Whether the nearest original to a new code is promised to be somebody else's."""
        return self.kind.endswith("wrong-map")

    @property
    def proof(self) -> str:
        """Where statement, assumptions, proof and test stand."""
        pages = ["k-anonymity"] * self.k_anonymous + ["wrong-map"] * self.wrong_map or ["none"]
        return ", ".join(f"docs/guarantees/{page}.md" for page in pages)

    def __str__(self) -> str:
        """Say the claim in plain words."""
        says = []
        if self.k_anonymous and self.scope == "file":
            says.append(
                f"k-anonymity with k = {self.k}: behind every published face stand at least {self.k} people,"
                f" and no face recognition, present or future, can name the right one with a chance above"
                f" {self.bound:.3g}."
            )
        elif self.k_anonymous:
            says.append(
                f"k-anonymity of the face codes with k = {self.k}: the code of every new face stands for at"
                f" least {self.k} people, and by it alone none can be named with a chance above"
                f" {self.bound:.3g}."
            )
        if self.k_anonymous:
            says.append(_SCOPE[self.scope])
        if self.wrong_map:
            says.append(
                "Wrong-map of the codes: whoever looks for the nearest original in their metric is led to"
                " somebody else; this binds no other recogniser."
            )
        says = says or ["No guarantee: nothing is promised about recognition."]
        says += [f"Assumed: {assumption}." for assumption in self.assumptions]
        return " ".join(says)

    def __le__(self, other: Guarantee) -> bool:
        """Whether every claim of this one follows from the other's, under no fewer assumptions."""
        return (
            self.k_anonymous <= other.k_anonymous
            and self.wrong_map <= other.wrong_map
            and self.k <= other.k
            and self.bound >= other.bound
            and (self.scope == "code" or other.scope == "file" or self.kind == "none")
            and set(self.assumptions) >= set(other.assumptions)
        )

    def __lt__(self, other: Guarantee) -> bool:
        """Whether this claims less than the other."""
        return self <= other and not other <= self

    def meet(self, other: Guarantee) -> Guarantee:
        """Return the strongest claim that follows from either: what is true of both parts of a whole.

        >>> both = Guarantee("k-anonymity and wrong-map", 5, 0.2).meet(Guarantee("k-anonymity", 3, 0.5))
        >>> both.kind, both.k, both.bound
        ('k-anonymity', 3, 0.5)
        """
        anonymous, astray = self.k_anonymous and other.k_anonymous, self.wrong_map and other.wrong_map
        names = ["k-anonymity"] * anonymous + ["wrong-map"] * astray or ["none"]
        return Guarantee(
            kind=" and ".join(names),  # type: ignore[arg-type]  # checked at birth
            k=min(self.k, other.k),
            bound=max(self.bound, other.bound),
            scope="file" if self.scope == other.scope == "file" else "code",
            assumptions=tuple(dict.fromkeys(self.assumptions + other.assumptions)),
        )

    def lower(
        self,
        *,
        kind: Kind | None = None,
        bound: float | None = None,
        scope: Scope | None = None,
        because: str,
    ) -> Guarantee:
        """Return a weaker claim with the reason among its assumptions; a stronger one is refused."""
        kind = kind or self.kind
        keeps = kind.startswith("k-anonymity")
        weaker = Guarantee(
            kind=kind,
            k=self.k if keeps else 1,
            bound=(bound or self.bound) if keeps else 1.0,
            scope=scope or self.scope,
            assumptions=self.assumptions + ((because,) if because not in self.assumptions else ()),
        )
        if not weaker <= self:
            changes = (
                (name, getattr(self, name), getattr(weaker, name)) for name in ("kind", "bound", "scope")
            )
            name, old, new = next(change for change in changes if change[1] != change[2])
            raise GuaranteeViolated(f"A guarantee can only be lowered: {name} cannot go from {old} to {new}.")
        return weaker

    def verify(
        self, published: ArrayLike, *, subjects: ArrayLike | None = None, originals: ArrayLike | None = None
    ) -> None:
        """Check the claim on arrays; raise GuaranteeViolated if it is not true.

        Parameters
        ----------
        published : (n, ...) array
            The new codes or pictures, one per face; equal means equal to the last bit.
        subjects : (n,) array, optional
            Who each face is; by default every row is another person.
        originals : (n, d) array, optional
            The original codes; wrong-map cannot be checked without them.
        """
        new = np.asarray(published)
        new = new.reshape(len(new), -1)
        who = np.arange(len(new)) if subjects is None else np.asarray(subjects)
        if self.k_anonymous:
            # rows as bytes: as numbers 0.0 and -0.0 would count as one output
            rows = np.ascontiguousarray(new).view((np.void, new.itemsize * new.shape[1])).ravel()
            bound = check_law(np.unique(rows, return_inverse=True)[1], who, self.k)
            if bound > self.bound + 1e-12:
                raise GuaranteeViolated(
                    f"One subject has a share of {bound:.3g} in a group, over {self.bound:.3g}."
                )
        if self.wrong_map:
            if originals is None:
                raise UsageError("Wrong-map can only be verified with the original codes.")
            _check_wrong_map(new, np.asarray(originals), who)


def _check_wrong_map(new: FloatArray, old: FloatArray, who: NDArray[Any]) -> None:
    """Raise unless the nearest original to each new code belongs to another subject [S thm. 3-4]."""
    for row, code in enumerate(new):  # row by row: n x n distances in memory would be the larger cost
        distance = np.linalg.norm(old - code, axis=1)
        own = who == who[row]
        if not distance[~own].min(initial=np.inf) < distance[own].min():
            raise GuaranteeViolated(
                f"The nearest original to the new face {row} is its own: wrong-map does not hold."
            )
