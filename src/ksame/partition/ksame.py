"""k-Same order [N fig. 10]: a random face and its k - 1 nearest, until fewer than 2k are left."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition
from ksame.partition.people import SubjectCodes
from ksame.partition.remaining import Remaining


def ksame(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition in the order of the original k-Same [N fig. 10].

    Of equally near faces the one that stands first in the random order is taken, so that copies of
    a code do not tell the order of the rows. Time O(n^2 d / k).

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    k : int
        Least number of distinct subjects in a group.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    rng : int, Generator or None
        The order in which faces are taken; None is operating-system randomness.

    Examples
    --------
    >>> ksame([[0.0], [0.1], [5.0], [5.1]], k=2, rng=0).labels.tolist()
    [0, 0, 1, 1]
    """
    people = SubjectCodes.of(codes, k, subjects)
    k = people.k
    order = np.random.default_rng(rng).permutation(len(people.codes))  # line 3: "for each face", at random
    left = Remaining(people.codes, order)
    labels = np.zeros(len(left), dtype=np.intp)  # line 5: the last k .. 2k - 1 are group 0
    faces = iter(order)
    group = 0
    while len(left) >= 2 * k:
        face = next(face for face in faces if face in left)
        near = left.nearest(left.code(face), k)  # line 6: the k best matches, the face among them
        group += 1
        labels[near] = group
        left.take(near)  # line 9
    return people.partition(labels)
