"""Partitions of faces, the law that they must satisfy, and the codes that they group.

The law (``check_law``): the published face is constant on each group, each group has at
least k distinct subjects, no subject is in two groups.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import CannotGuarantee, GuaranteeViolated, UsageError

__all__ = ["Partition", "SubjectCodes", "as_k", "check_law"]

_MAX_CODE_VALUE = 1e150


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


@dataclass(frozen=True, eq=False)
class SubjectCodes:
    """A person-specific set [N 3]: one code per subject, so that k counts subjects and not photos.

    The photos of one subject are averaged; each photo then joins its subject's group.
    Single-precision codes stay in single precision, so that a large set is not copied.
    """

    codes: FloatArray  # (m, d): one row per subject
    k: int
    subject_index: IntArray  # (n,): the row of each face's subject
    subjects: NDArray[Any]  # (n,)

    @classmethod
    def of(cls, codes: ArrayLike, k: int, subjects: ArrayLike | None) -> Self:
        """Check the arguments of a partition and average each subject's codes."""
        try:
            x = np.asarray(codes, order="C")  # one layout, so that sums are rounded equally
            if x.dtype not in (np.float32, np.float64):
                x = x.astype(np.float64, casting="unsafe" if x.dtype == object else "same_kind")
        except (TypeError, ValueError):
            raise UsageError("codes must be an (n, d) array of real numbers.") from None
        if x.ndim != 2 or not x.shape[1]:
            raise UsageError(f"codes must be an (n, d) array with d of at least 1. Got shape {x.shape}.")
        if not (float(x.min(initial=0)) > -_MAX_CODE_VALUE and float(x.max(initial=0)) < _MAX_CODE_VALUE):
            raise UsageError(  # a NaN fails too
                f"codes must be finite and smaller than {_MAX_CODE_VALUE:.0e}, so that distances are finite."
            )
        if subjects is None:
            return cls(x, as_k(k, len(x)), np.arange(len(x)), np.arange(len(x)))
        given = np.asarray(subjects)
        if given.shape != (len(x),):
            raise UsageError(f"subjects must have one entry per code: {len(x)}. Got {given.size}.")
        # by first appearance, so that the result depends on the order of rows and not on the names
        _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
        index = np.argsort(np.argsort(first))[inverse]
        number = as_k(k, len(first))
        if len(first) == len(x):
            return cls(x, number, index, given)
        order = np.argsort(index, kind="stable")
        starts = np.searchsorted(index[order], np.arange(len(first)))
        means = np.add.reduceat(x[order], starts, axis=0) / np.bincount(index)[:, None].astype(x.dtype)
        return cls(means, number, index, given)

    def partition(self, labels: ArrayLike) -> Partition:
        """Return the Partition of the faces, given one group label per subject."""
        return Partition(np.asarray(labels)[self.subject_index], self.k, self.subjects)


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
    sizes: IntArray = field(repr=False)  # (m,): faces in each group
    people: IntArray = field(repr=False)  # (m,): distinct subjects in each group, never fewer than k
    groups: tuple[IntArray, ...] = field(repr=False)  # the rows of each group, ascending

    def __init__(self, labels: ArrayLike, k: int, subjects: ArrayLike | None = None) -> None:
        """Check the law and store the groups."""
        given = np.asarray(labels)
        who = np.arange(given.size) if subjects is None else np.asarray(subjects)
        number = as_k(k)
        bound = check_law(given, who, number)
        _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
        group = np.argsort(np.argsort(first))[inverse]  # by the first appearance of each label
        names, index = np.unique(who, return_inverse=True)
        pairs = np.unique(group * len(names) + index)  # one for each subject of a group
        sizes = np.bincount(group)
        rows = np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])
        for name, value in (
            ("labels", _frozen(group)),
            ("k", number),
            ("subjects", _frozen(who)),
            ("bound", bound),
            ("sizes", _frozen(sizes)),
            ("people", _frozen(np.bincount(pairs // len(names)))),
            ("groups", tuple(rows)),
        ):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.groups)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy, so that what was checked cannot be changed later."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy
