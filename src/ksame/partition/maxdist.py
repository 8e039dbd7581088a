"""Max-distance seeds [A 4.2]: k-Same in which each seed is the face farthest from the previous one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition, SubjectCodes
from ksame.partition.remaining import RemainingCodes


def maxdist(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition like k-Same, with the face farthest from the previous seed as the next seed [A 4.2].

    [A] does not define the first seed: here it is the face farthest from the mean, as in MDAV, so
    that the partition is deterministic. Ties go to the lowest row. Time O(n^2 d / k).

    Parameters
    ----------
    codes, k, subjects, rng
        As for every :class:`~ksame.partition.PartitionMethod`; ``rng`` is not used.

    Examples
    --------
    >>> maxdist([[0.0], [1.0], [4.0], [5.0], [14.0], [20.0]], k=2).labels.tolist()
    [0, 0, 1, 1, 2, 2]
    """
    by_subject = SubjectCodes.of(codes, k, subjects)
    k = by_subject.k
    remaining = RemainingCodes(by_subject.codes)
    labels = np.zeros(len(remaining), dtype=np.intp)  # the last k .. 2k - 1 form group 0
    seed = remaining.farthest(remaining.mean())
    group = 0
    while len(remaining) >= 2 * k:
        near, far = remaining.nearest_and_farthest(remaining.code(seed), k)
        group += 1
        labels[near] = group
        remaining.remove(near)
        seed = far
    return by_subject.partition(labels)
