"""k-Same-Select [G5 alg. 4.2]: faces that differ in what the data is for are never mixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.partition_type import Partition
from ksame.partition.people import SubjectCodes


@dataclass(frozen=True)
class StratumMerge:
    """A part that had too few people and was merged with the nearest; it prints itself.

    >>> print(StratumMerge("smiling", 2, "neutral", k=3))
    Part 'smiling' has 2 subjects, fewer than k = 3: merged with 'neutral'.
    """

    part: str
    subjects: int
    into: str
    k: int

    def __str__(self) -> str:
        """Say what was done and why."""
        return (
            f"Part {self.part!r} has {self.subjects} subject{'s' * (self.subjects > 1)}, fewer than"
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
    """Partition each part of equal label on its own [G5 alg. 4.2].

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    k : int
        Least number of distinct subjects in a group.
    label : (n,) array
        The utility function u(x) of each face: gender, expression, both. One value per subject.
    partition : str or callable
        A name of ``METHODS``, or a function with their signature.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    rng : int, Generator or None
        For methods that draw; None is operating-system randomness.
    small : {"refuse", "merge"}
        What to do with a part of fewer than k subjects. ``make_strata`` tells which would be merged.

    Raises
    ------
    CannotGuarantee
        If a part has fewer than k subjects and may not be merged.

    Examples
    --------
    >>> codes = [[0.0], [0.1], [0.2], [0.3]]
    >>> select(codes, 2, label=["smile", "neutral", "smile", "neutral"]).labels.tolist()
    [0, 1, 0, 1]
    """
    from ksame.partition import METHODS  # here, because METHODS is made of this module's siblings

    method = METHODS.get(partition) if isinstance(partition, str) else partition
    if method is None:
        raise UsageError(f"partition must be one of {', '.join(METHODS)}. Got {partition!r}.")
    part, _ = make_strata(codes, k, label=label, subjects=subjects, small=small)
    x = np.asarray(codes)
    who = np.arange(len(x)) if subjects is None else np.asarray(subjects)
    rng = np.random.default_rng(rng)  # one stream: the parts must not draw alike
    labels = np.empty(len(x), dtype=np.intp)
    groups = 0
    for name in range(part.max() + 1):  # line 3
        rows = part == name
        of_part = method(x[rows], k, subjects=who[rows], rng=rng)
        labels[rows] = of_part.labels + groups
        groups += len(of_part)
    return Partition(labels, k, who)  # line 4


def make_strata(
    codes: ArrayLike,
    k: int,
    *,
    label: ArrayLike,
    subjects: ArrayLike | None = None,
    small: Literal["refuse", "merge"] = "refuse",
) -> tuple[IntArray, tuple[StratumMerge, ...]]:
    """Split faces by label into parts that can each be partitioned; say which had to be merged.

    The smallest part is merged first, with the part whose mean code is nearest, until every part
    has k subjects. Parameters are those of ``select``.

    Returns
    -------
    (n,) int
        The part of each face.
    tuple of Merge
        What was merged, in this order; empty unless ``small="merge"``.

    Examples
    --------
    >>> part, merges = make_strata([[0.0], [0.1], [9.0], [9.1], [8.0]], 2, label=list("aabbc"), small="merge")
    >>> part.tolist(), [str(merge) for merge in merges]
    ([0, 0, 1, 1, 1], ["Part 'c' has 1 subject, fewer than k = 2: merged with 'b'."])
    """
    if small not in ("refuse", "merge"):
        raise UsageError(f"small must be 'refuse' or 'merge'. Got {small!r}.")
    people = SubjectCodes.of(codes, k, subjects)
    names, each = np.unique(_label_per_subject(people, np.asarray(label)), return_inverse=True)
    members = {str(name): np.flatnonzero(each == i) for i, name in enumerate(names)}
    few = [f"{name!r} ({len(rows)})" for name, rows in members.items() if len(rows) < people.k]
    if few and small == "refuse":
        raise CannotGuarantee(
            f"Each part needs at least k = {people.k} distinct subjects, but there are fewer in"
            f" {', '.join(few)}: lower k, leave these faces out, or ask to merge them with the nearest part."
        )
    merges = _merge_small(people, members)
    part = np.empty(len(people.codes), dtype=np.intp)
    for i, rows in enumerate(members.values()):
        part[rows] = i
    return part[people.who], merges


def _label_per_subject(people: SubjectCodes, label: NDArray[Any]) -> NDArray[np.str_]:
    """Return one label per subject; a person with two would have to be in two groups."""
    if label.shape != people.who.shape:
        raise UsageError(f"label must have one value per code: {len(people.who)}. Got {label.size}.")
    label = label.astype(str)
    chosen = np.empty(len(people.codes), dtype=label.dtype)
    chosen[people.who] = label
    if len(differs := np.flatnonzero(chosen[people.who] != label)):
        subject = people.subjects[differs[0]]
        found = sorted(set(label[people.subjects == subject]))
        raise UsageError(
            f"Subject {str(subject)!r} has the labels {', '.join(found)}, but nobody may be in two groups:"
            " give each subject one label, or release the photos of each label apart."
        )
    return chosen


def _merge_small(people: SubjectCodes, members: dict[str, IntArray]) -> tuple[StratumMerge, ...]:
    """Merge parts with fewer than k people, in place; ties go to the first in the alphabet."""
    merges = []
    while len(members[name := min(members, key=lambda part: (len(members[part]), part))]) < people.k:
        rows = members.pop(name)
        centre = people.codes[rows].mean(axis=0, dtype=np.float64)
        distance = {
            other: float(np.linalg.norm(people.codes[those].mean(axis=0, dtype=np.float64) - centre))
            for other, those in members.items()
        }
        into = min(distance, key=lambda part: (distance[part], part))
        merges.append(StratumMerge(name, len(rows), into, people.k))
        members[f"{into} + {name}"] = np.concatenate([members.pop(into), rows])
    return tuple(merges)
