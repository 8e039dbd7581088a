"""Max-distance seeds [A 4.2]: k-Same where each next group grows around the face farthest from the last."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition
from ksame.partition.people import SubjectCodes
from ksame.partition.remaining import Remaining


def maxdist(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition like k-Same, with the face farthest from the last seed as the next one [A 4.2].

    [A] names the method and leaves the first seed open: here it is the face farthest from the mean,
    as in MDAV, so that nothing is random. Ties go to the lowest row. Time O(n^2 d / k).

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
    >>> maxdist([[0.0], [9.0], [0.2], [4.0], [8.8], [4.1]], k=2).labels.tolist()
    [0, 1, 0, 2, 1, 2]
    """
    people = SubjectCodes.of(codes, k, subjects)
    k = people.k
    left = Remaining(people.codes)
    labels = np.zeros(len(left), dtype=np.intp)  # the last k .. 2k - 1 are group 0
    seed = left.farthest(left.mean())
    group = 0
    while len(left) >= 2 * k:
        near, far = left.near_and_far(left.code(seed), k)
        group += 1
        labels[near] = group
        left.take(near)
        seed = far
    return people.partition(labels)
