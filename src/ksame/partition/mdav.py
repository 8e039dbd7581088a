"""MDAV-generic [S alg. 2]: groups around the two most distant faces, from the outside in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition
from ksame.partition.people import SubjectCodes
from ksame.partition.remaining import Remaining


def mdav(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition by maximum distance to the average vector, MDAV-generic [S alg. 2].

    Nothing is random. The groups are those of a full scan in double precision where each distance
    is ``((x - c) ** 2).sum()``, the mean is the exact sum, rounded, by the count, and ties go to the
    lowest row. (Sums are kept in 106 bits: exact unless a column's numbers differ in size by 2^30 or
    more; then a tie within that rounding may fall the other way.)

    Time O(n^2 d / k), memory half of double-precision codes above the codes themselves.

    Parameters
    ----------
    codes : (n, d) array
        One code per face.
    k : int
        Least number of distinct subjects in a group.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    rng : int, Generator or None
        Not used: all partitions have the same signature.

    Examples
    --------
    >>> mdav([[0.0], [9.0], [0.2], [4.0], [8.8], [4.1]], k=2).labels.tolist()
    [0, 1, 0, 2, 1, 2]
    """
    people = SubjectCodes.of(codes, k, subjects)
    k = people.k
    left = Remaining(people.codes)
    labels = np.zeros(len(left), dtype=np.intp)  # those the loop leaves are group 0, lines 15 and 17
    group = 0
    while len(left) >= 2 * k:
        r = left.farthest(left.mean())  # lines 3-4 and 12-13
        # Deviation: s is sought among the faces that r leaves, for line 8 needs it in H. Only when
        # all faces are equally far from r does that differ from line 5.
        near, s = left.near_and_far(left.code(r), k)  # lines 5-6
        pair = len(left) >= 3 * k
        group += 1
        labels[near] = group
        left.take(near)  # line 7
        if pair:
            group += 1
            near = left.nearest(left.code(s), k)  # line 8
            labels[near] = group
            left.take(near)  # line 9
    return people.partition(labels)
