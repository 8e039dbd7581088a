"""Partitions of faces, and the law that they must satisfy.

The law (``check_law``): the published face is constant on each group, each group has at
least k distinct subjects, no subject is in two groups.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import IntArray, frozen_copy
from ksame.core.errors import CannotGuarantee, GuaranteeViolated, UsageError

__all__ = ["Partition", "as_k", "check_law"]


def as_k(k: object, subjects: int | None = None) -> int:
    """Return k as an int, checked against the number of distinct subjects if that is known.

    >>> as_k(5, 12)
    5
    >>> as_k(20, 12)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ksame.core.errors.CannotGuarantee: k must be an integer in [2, 12]: 12 distinct subjects were given...
    """
    try:
        if isinstance(k, bool | np.bool_):
            raise TypeError
        number = operator.index(k)  # type: ignore[arg-type]  # a TypeError is handled below
    except TypeError:
        raise UsageError(f"k must be an integer of at least 2. Got {k!r}.") from None
    if number < 2:
        raise UsageError(
            f"k must be an integer of at least 2: with k = {number} faces would be published unchanged."
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


def check_law(outputs: ArrayLike, subjects: ArrayLike, k: int, *, allow_several: bool = False) -> float:
    """Check the law on the subjects behind each published face; return the exact bound.

    Parameters
    ----------
    outputs : (n,) array
        The published face of each row: group labels, file hashes, anything with equality.
    subjects : (n,) array
        Identity of each face.
    k : int
        Minimum number of distinct subjects behind one output.
    allow_several : bool
        A subject may have several outputs if exactly the same subjects are behind each of them: comparing
        those gains an attacker nothing. Example: a neutral and a smiling face of one group.

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
    >>> check_law(["calm", "smile", "calm", "smile"], ["A", "A", "B", "B"], k=2, allow_several=True)
    0.5
    """
    _, out = np.unique(np.asarray(outputs), return_inverse=True)
    names, who = np.unique(np.asarray(subjects), return_inverse=True)
    if out.shape != who.shape or out.ndim != 1:
        raise UsageError(f"Each output needs one subject. Got {out.size} outputs and {who.size} subjects.")
    if not out.size:
        raise GuaranteeViolated("There is nothing to check: no faces were given.")
    # one row per (output, subject) that occurs, with the number of faces
    pairs, faces = np.unique(np.stack([out, who]), axis=1, return_counts=True)
    people = np.bincount(pairs[0])
    if people.min() < k:
        raise GuaranteeViolated(
            f"A published face stands for {people.min()} distinct subjects, fewer than k = {k}."
        )
    merged = pairs[0]  # the output, or outputs that count as one
    if allow_several:
        behind = np.split(pairs[1], np.cumsum(people)[:-1])
        merged = np.unique([some.tobytes().hex() for some in behind], return_inverse=True)[1][pairs[0]]
    outputs_per_subject = np.bincount(np.unique(np.stack([merged, pairs[1]]), axis=1)[1])
    if outputs_per_subject.max() > 1:
        subject = str(names[outputs_per_subject.argmax()])
        raise GuaranteeViolated(
            f"Subject {subject!r} is behind {outputs_per_subject.max()} different published faces:"
            " comparing them would narrow the guess."
        )
    return float((faces / np.bincount(out)[pairs[0]]).max())


@dataclass(frozen=True, eq=False, init=False)
class Partition:
    """Groups of faces; creating one that violates the law raises an error.

    Parameters
    ----------
    labels : (n,) int
        The group of each face, stored as 0 .. m-1 in the order of first appearance.
    k : int
        Each group has at least k distinct subjects.
    subjects : (n,) array, optional
        Identity of each face; by default every face is another subject.

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
        object.__setattr__(self, "labels", frozen_copy(order[inverse], np.intp))
        object.__setattr__(self, "k", number)
        object.__setattr__(self, "subjects", frozen_copy(who))
        object.__setattr__(self, "bound", bound)

    def __len__(self) -> int:
        """Return the number of groups."""
        return int(self.labels.max()) + 1

    @cached_property
    def sizes(self) -> IntArray:
        """Faces in each group."""
        return frozen_copy(np.bincount(self.labels), np.intp)

    @cached_property
    def people(self) -> IntArray:
        """Distinct subjects in each group; never fewer than k."""
        _, who = np.unique(self.subjects, return_inverse=True)
        pairs = np.unique(np.stack([self.labels, who]), axis=1)
        return frozen_copy(np.bincount(pairs[0]), np.intp)

    @cached_property
    def groups(self) -> tuple[IntArray, ...]:
        """The rows of each group, ascending."""
        order = np.argsort(self.labels, kind="stable")
        return tuple(np.split(order, np.cumsum(self.sizes)[:-1]))
