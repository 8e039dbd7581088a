"""k-Same order [N fig. 10]: group a random face with its k - 1 nearest until fewer than 2k remain."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition, SubjectCodes
from ksame.partition.remaining import RemainingCodes


def ksame(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition in the order of the original k-Same [N fig. 10].

    Ties between equally near faces are broken by the random order, so that duplicates of a code do
    not reveal the order of the rows. Time O(n^2 d / k).

    Parameters
    ----------
    codes, k, subjects
        As for every :class:`~ksame.partition.PartitionMethod`.
    rng : int, Generator or None
        Draws the order in which faces are grouped.

    Examples
    --------
    >>> ksame([[0.0], [0.1], [5.0], [5.1]], k=2, rng=0).labels.tolist()
    [0, 0, 1, 1]
    """
    by_subject = SubjectCodes.of(codes, k, subjects)
    k = by_subject.k
    order = np.random.default_rng(rng).permutation(
        len(by_subject.codes)
    )  # line 3: "for each face", at random
    remaining = RemainingCodes(by_subject.codes, order)
    labels = np.zeros(len(remaining), dtype=np.intp)  # line 5: the last k .. 2k - 1 form group 0
    faces = iter(order)
    group = 0
    while len(remaining) >= 2 * k:
        face = next(face for face in faces if face in remaining)
        near = remaining.nearest(remaining.code(face), k)  # line 6: the k best matches, including the face
        group += 1
        labels[near] = group
        remaining.remove(near)  # line 9
    return by_subject.partition(labels)
