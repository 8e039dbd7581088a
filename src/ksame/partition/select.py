"""k-Same-Select [G5 alg. 4.2]: partition each stratum separately to preserve data utility."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.partition_type import Partition, SubjectCodes


@dataclass(frozen=True)
class StratumMerge:
    """A stratum with too few subjects that was merged with the nearest one.

    >>> print(StratumMerge("smiling", 2, "neutral", k=3))
    Stratum 'smiling' has 2 subjects, fewer than k = 3: merged with 'neutral'.
    """

    stratum: str
    subjects: int
    into: str
    k: int

    def __str__(self) -> str:
        """Return one sentence that names both strata and the reason."""
        return (
            f"Stratum {self.stratum!r} has {self.subjects} subject{'s' * (self.subjects > 1)}, fewer than"
            f" k = {self.k}: merged with {self.into!r}."
        )


def select(
    codes: ArrayLike,
    k: int,
    *,
    label: ArrayLike,
    partition: str | Callable[..., Partition] = "mdav",
    subjects: ArrayLike | None = None,
    rng: RandomState = None,
    small: Literal["refuse", "merge"] = "refuse",
) -> Partition:
    """Partition each stratum of equal label separately [G5 alg. 4.2].

    Parameters
    ----------
    codes, k, subjects, rng
        As for every :class:`~ksame.partition.PartitionMethod`.
    label : (n,) array
        The utility function u(x) of each face: gender, expression, both. One value per subject.
    partition : str or callable
        A name of ``METHODS``, or a function with their signature.
    small : {"refuse", "merge"}
        What to do with a stratum of fewer than k subjects. ``make_strata`` returns the merges.

    Raises
    ------
    CannotGuarantee
        If a stratum has fewer than k subjects and ``small`` is "refuse".

    Examples
    --------
    >>> codes = [[0.0], [0.1], [0.2], [0.3]]
    >>> select(codes, 2, label=["smile", "neutral", "smile", "neutral"]).labels.tolist()
    [0, 1, 0, 1]
    """
    from ksame.partition import METHODS  # not at module level: the package imports this module

    method = METHODS.get(partition) if isinstance(partition, str) else partition
    if method is None:
        raise UsageError(f"partition must be one of {', '.join(METHODS)}. Got {partition!r}.")
    strata, _ = make_strata(codes, k, label=label, subjects=subjects, small=small)
    x = np.asarray(codes)
    subject = np.arange(len(x)) if subjects is None else np.asarray(subjects)
    rng = np.random.default_rng(rng)  # one stream: the strata must not draw the same numbers
    labels = np.empty(len(x), dtype=np.intp)
    group_count = 0
    for stratum in range(strata.max() + 1):  # line 3
        rows = strata == stratum
        groups = method(x[rows], k, subjects=subject[rows], rng=rng)
        labels[rows] = groups.labels + group_count
        group_count += len(groups)
    return Partition(labels, k, subject)  # line 4


def make_strata(
    codes: ArrayLike,
    k: int,
    *,
    label: ArrayLike,
    subjects: ArrayLike | None = None,
    small: Literal["refuse", "merge"] = "refuse",
) -> tuple[IntArray, tuple[StratumMerge, ...]]:
    """Split faces by label into strata of at least k subjects each.

    The smallest stratum is merged first, with the stratum whose mean code is nearest, until every
    stratum has k subjects. Parameters are those of ``select``.

    Returns
    -------
    (n,) int
        The stratum of each face.
    tuple of StratumMerge
        The merges in order; empty unless ``small="merge"``.

    Examples
    --------
    >>> codes = [[0.0], [0.1], [9.0], [9.1], [8.0]]
    >>> strata, merges = make_strata(codes, 2, label=list("aabbc"), small="merge")
    >>> strata.tolist(), [str(merge) for merge in merges]
    ([0, 0, 1, 1, 1], ["Stratum 'c' has 1 subject, fewer than k = 2: merged with 'b'."])
    """
    if small not in ("refuse", "merge"):
        raise UsageError(f"small must be 'refuse' or 'merge'. Got {small!r}.")
    by_subject = SubjectCodes.of(codes, k, subjects)
    names, inverse = np.unique(_label_per_subject(by_subject, np.asarray(label)), return_inverse=True)
    members = {str(name): np.flatnonzero(inverse == i) for i, name in enumerate(names)}
    too_small = [f"{name!r} ({len(rows)})" for name, rows in members.items() if len(rows) < by_subject.k]
    if too_small and small == "refuse":
        raise CannotGuarantee(
            f"Each stratum needs at least k = {by_subject.k} distinct subjects; too few in"
            f" {', '.join(too_small)}: lower k, omit these faces, or merge them with the nearest stratum."
        )
    merges = _merge_small_strata(by_subject, members)
    strata = np.empty(len(by_subject.codes), dtype=np.intp)
    for i, rows in enumerate(members.values()):
        strata[rows] = i
    return strata[by_subject.subject_index], merges


def _label_per_subject(by_subject: SubjectCodes, label: NDArray[Any]) -> NDArray[np.str_]:
    """Return one label per subject; a subject with two labels would have to be in two groups."""
    index = by_subject.subject_index
    if label.shape != index.shape:
        raise UsageError(f"label must have one value per code: {len(index)}. Got {label.size}.")
    label = label.astype(str)
    chosen = np.empty(len(by_subject.codes), dtype=label.dtype)
    chosen[index] = label
    if len(differs := np.flatnonzero(chosen[index] != label)):
        subject = by_subject.subjects[differs[0]]
        found = sorted(set(label[by_subject.subjects == subject]))
        raise UsageError(
            f"Subject {str(subject)!r} has the labels {', '.join(found)}, but no subject may be in two"
            " groups: give each subject one label, or release the photos of each label separately."
        )
    return chosen


def _merge_small_strata(by_subject: SubjectCodes, members: dict[str, IntArray]) -> tuple[StratumMerge, ...]:
    """Merge strata of fewer than k subjects in place; ties go to the first name in the alphabet."""

    def centre(rows: IntArray) -> FloatArray:
        return np.asarray(by_subject.codes[rows].mean(axis=0, dtype=np.float64))

    merges = []
    while len(members[name := min(members, key=lambda key: (len(members[key]), key))]) < by_subject.k:
        rows = members.pop(name)
        distance = {
            other: float(np.linalg.norm(centre(those) - centre(rows))) for other, those in members.items()
        }
        into = min(distance, key=lambda key: (distance[key], key))
        merges.append(StratumMerge(name, len(rows), into, by_subject.k))
        members[f"{into} + {name}"] = np.concatenate([members.pop(into), rows])
    return tuple(merges)
