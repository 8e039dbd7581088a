"""Guarantees: a claim that travels with the data, prints itself, verifies itself, and can only be lowered."""

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
    " everything outside the regions, every byte of the picture is the same whichever of these people it was."
    " Not covered: that placement, the neck, clothes and the place, and hair beyond the region.",
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
        ``file``: whatever is computed from the new codes alone. ``head``: what is inside the head regions of
        a scene. ``code``: no further than the code.
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
        """Whether any recogniser at all is held to the bound."""
        return self.kind.startswith("k-anonymity")

    @property
    def wrong_map(self) -> bool:
        """Whether the nearest original to a new code is promised to be somebody else's."""
        return self.kind.endswith("wrong-map")

    @property
    def proof(self) -> str:
        """Where statement, assumptions, proof and test stand."""
        heads = self.k_anonymous and self.scope == "head"
        pages = ["k-anonymity"] * self.k_anonymous + ["heads"] * heads + ["wrong-map"] * self.wrong_map
        pages = pages or ["none"]
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
        elif self.k_anonymous and self.scope == "head":
            says.append(
                f"k-anonymity of the heads with k = {self.k}: every new head stands for at least {self.k}"
                f" people, and by it alone none can be named with a chance above {self.bound:.3g}."
            )
        elif self.k_anonymous:
            says.append(
                f"k-anonymity of the face codes with k = {self.k}: the code of every new face stands for at"
                f" least {self.k} people, and by it alone none can be named with a chance above"
                f" {self.bound:.3g}."
            )
        if self.k_anonymous:
            says.append(_SCOPE_SENTENCES[self.scope])
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
            and (_narrower(self.scope, other.scope) == self.scope or self.kind == "none")
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


def _narrower(one: Scope, other: Scope) -> Scope:
    """Return which of two scopes covers less."""
    return max(one, other, key=get_args(Scope).index)


def _check_wrong_map(new: FloatArray, old: FloatArray, who: NDArray[Any]) -> None:
    """Raise unless the nearest original to each new code belongs to another subject [S thm. 3-4]."""
    for row, code in enumerate(new):  # row by row: n x n distances in memory would be the larger cost
        distance = np.linalg.norm(old - code, axis=1)
        own = who == who[row]
        if not distance[~own].min(initial=np.inf) < distance[own].min():
            raise GuaranteeViolated(
                f"The nearest original to the new face {row} is its own: wrong-map does not hold."
            )
