"""MDAV-generic [S alg. 2]: form groups around the two most distant faces, from the outside inwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition, SubjectCodes
from ksame.partition.remaining import RemainingCodes


def mdav(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition by maximum distance to the average vector, MDAV-generic [S alg. 2].

    The partition is deterministic. The groups equal those of a full scan in double precision where
    each distance is ``((x - c) ** 2).sum()``, the mean is the exact sum, rounded, divided by the count,
    and ties go to the lowest row. (Sums are kept in 106 bits: exact unless the values of a column
    differ in magnitude by 2^30 or more; then a tie within that rounding may be broken differently.)

    Time O(n^2 d / k). Extra memory: half the size of the codes in double precision.

    Parameters
    ----------
    codes, k, subjects, rng
        As for every :class:`~ksame.partition.PartitionMethod`; ``rng`` is not used.

    Examples
    --------
    >>> mdav([[0.0], [9.0], [0.2], [4.0], [8.8], [4.1]], k=2).labels.tolist()
    [0, 1, 0, 2, 1, 2]
    """
    by_subject = SubjectCodes.of(codes, k, subjects)
    k = by_subject.k
    remaining = RemainingCodes(by_subject.codes)
    labels = np.zeros(len(remaining), dtype=np.intp)  # the remainder forms group 0, lines 15 and 17
    group = 0
    while len(remaining) >= 2 * k:
        r = remaining.farthest(remaining.mean())  # lines 3-4 and 12-13
        # Deviation: s is searched among the faces that r's group leaves, because line 8 needs it in H.
        # That differs from line 5 only when all faces are equally far from r.
        near, s = remaining.nearest_and_farthest(remaining.code(r), k)  # lines 5-6
        pair = len(remaining) >= 3 * k
        group += 1
        labels[near] = group
        remaining.remove(near)  # line 7
        if pair:
            group += 1
            near = remaining.nearest(remaining.code(s), k)  # line 8
            labels[near] = group
            remaining.remove(near)  # line 9
    return by_subject.partition(labels)
