"""Guarantees: claims that travel with the data, verify themselves and can only be lowered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import GuaranteeViolated, UsageError
from ksame.core.partition_type import check_law

__all__ = ["Guarantee", "Kind", "Scope"]


Kind = Literal["k-anonymity and wrong-map", "k-anonymity", "wrong-map", "none"]
Scope = Literal["file", "head", "code"]  # from the widest to the narrowest
_SCOPE_SENTENCES: dict[Scope, str] = {
    "file": "It covers everything computed from the new faces alone: every byte of a published portrait.",
    "head": "It covers the head regions only: given where a head is, its size, tilt and pose bin, and"
    " everything outside the regions, every byte of the image is the same whichever of these people it was."
    " Not covered: that placement, the neck, clothes and the place, and hair beyond the region.",
    "code": "It covers the codes only: the published images also carry parts of the originals, and what"
    " recognisers make of those is measured, not guaranteed.",
}


@dataclass(frozen=True)
class Guarantee:
    """A claim that travels with the data, verifies itself and can only be lowered.

    Parameters
    ----------
    kind : str
        ``k-anonymity``, ``wrong-map``, both, or ``none``.
    k : int
        Distinct subjects behind every published face; 1 without k-anonymity.
    bound : float
        Upper bound on the chance that a guess is right; 1.0 without k-anonymity.
    scope : str
        ``file``: everything that is computed from the new codes alone. ``head``: what is inside the head
        regions of a scene. ``code``: the code itself only.
    assumptions : tuple of str
        What must be true for the claim to hold.

    Examples
    --------
    >>> strong = Guarantee("k-anonymity", k=5, bound=0.2)
    >>> weak = strong.lower(scope="code", because="the face is blended into the original photo")
    >>> weak < strong, weak.bound
    (True, 0.2)
    >>> weak.lower(scope="file", because="it would be nice")
    Traceback (most recent call last):
    ksame.core.errors.GuaranteeViolated: A guarantee can only be lowered: scope cannot go from code to file.
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
        """Whether the bound holds for every recogniser."""
        return self.kind.startswith("k-anonymity")

    @property
    def wrong_map(self) -> bool:
        """Whether the original nearest to each new code is claimed to be another subject's."""
        return self.kind.endswith("wrong-map")

    @property
    def proof(self) -> str:
        """The documentation pages with statement, assumptions, proof and test."""
        heads = self.k_anonymous and self.scope == "head"
        pages = ["k-anonymity"] * self.k_anonymous + ["heads"] * heads + ["wrong-map"] * self.wrong_map
        return ", ".join(f"docs/explanation/guarantees/{page}.md" for page in pages or ["none"])

    def __str__(self) -> str:
        """Return the claim as sentences."""
        sentences = []
        if self.k_anonymous and self.scope == "file":
            sentences.append(
                f"k-anonymity with k = {self.k}: behind every published face stand at least {self.k} people,"
                f" and no face recognition, present or future, can name the right one with a chance above"
                f" {self.bound:.3g}."
            )
        elif self.k_anonymous and self.scope == "head":
            sentences.append(
                f"k-anonymity of the heads with k = {self.k}: every new head stands for at least {self.k}"
                f" people, and by it alone none can be named with a chance above {self.bound:.3g}."
            )
        elif self.k_anonymous:
            sentences.append(
                f"k-anonymity of the face codes with k = {self.k}: the code of every new face stands for at"
                f" least {self.k} people, and by it alone none can be named with a chance above"
                f" {self.bound:.3g}."
            )
        if self.k_anonymous:
            sentences.append(_SCOPE_SENTENCES[self.scope])
        if self.wrong_map:
            sentences.append(
                "Wrong-map of the codes: in their metric the original nearest to a new code is another"
                " person's; this says nothing about other recognisers."
            )
        sentences = sentences or ["No guarantee: nothing is promised about recognition."]
        sentences += [f"Assumed: {assumption}." for assumption in self.assumptions]
        return " ".join(sentences)

    def __le__(self, other: Guarantee) -> bool:
        """Whether every claim of this one follows from the other's, under at least its assumptions."""
        return (
            self.k_anonymous <= other.k_anonymous
            and self.wrong_map <= other.wrong_map
            and self.k <= other.k
            and self.bound >= other.bound
            and (_narrower(self.scope, other.scope) == self.scope or self.kind == "none")
            and set(self.assumptions) >= set(other.assumptions)
        )

    def __lt__(self, other: Guarantee) -> bool:
        """Whether this claims less than the other."""
        return self <= other and not other <= self

    def meet(self, other: Guarantee) -> Guarantee:
        """Return the strongest claim that follows from each of the two: it holds for both parts of a release.

        >>> both = Guarantee("k-anonymity and wrong-map", 5, 0.2).meet(Guarantee("k-anonymity", 3, 0.5))
        >>> both.kind, both.k, both.bound
        ('k-anonymity', 3, 0.5)
        """
        k_anonymous, wrong_map = self.k_anonymous and other.k_anonymous, self.wrong_map and other.wrong_map
        names = ["k-anonymity"] * k_anonymous + ["wrong-map"] * wrong_map or ["none"]
        return Guarantee(
            kind=" and ".join(names),  # type: ignore[arg-type]  # checked in __post_init__
            k=min(self.k, other.k),
            bound=max(self.bound, other.bound),
            scope=_narrower(self.scope, other.scope),
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
        """Return a weaker claim with the reason added to its assumptions; a stronger one is refused."""
        kind = kind or self.kind
        keeps_k = kind.startswith("k-anonymity")
        weaker = Guarantee(
            kind=kind,
            k=self.k if keeps_k else 1,
            bound=(bound or self.bound) if keeps_k else 1.0,
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
        """Check the claim on arrays; raise GuaranteeViolated if it does not hold.

        Parameters
        ----------
        published : (n, ...) array
            The new codes or images, one per face; equal means bit-identical.
        subjects : (n,) array, optional
            Identity of each face; by default every row is another subject.
        originals : (n, d) array, optional
            The original codes; wrong-map cannot be checked without them.
        """
        new = np.asarray(published)
        new = new.reshape(len(new), -1)
        who = np.arange(len(new)) if subjects is None else np.asarray(subjects)
        if self.k_anonymous:
            # compared as bytes: as numbers 0.0 and -0.0 would count as one output
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


def _narrower(one: Scope, other: Scope) -> Scope:
    """Return which of two scopes covers less."""
    return max(one, other, key=get_args(Scope).index)


def _check_wrong_map(new: FloatArray, old: FloatArray, who: NDArray[Any]) -> None:
    """Raise unless the nearest original to each new code belongs to another subject [S thm. 3-4]."""
    for row, code in enumerate(new):  # one row at a time: n x n distances would not fit in memory
        distance = np.linalg.norm(old - code, axis=1)
        own = who == who[row]
        if not distance[~own].min(initial=np.inf) < distance[own].min():
            raise GuaranteeViolated(
                f"The nearest original to the new face {row} is its own: wrong-map does not hold."
            )
