"""k-Same order [N fig. 10]: a random face and its k - 1 nearest, until fewer than 2k are left."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core import Partition, RandomState
from ksame.partition._people import People


def ksame(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition in the order of the original k-Same [N fig. 10].

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
    people = People.of(codes, k, subjects)
    x, k = people.codes, people.k
    labels = np.zeros(len(x), dtype=np.intp)
    left = np.random.default_rng(rng).permutation(len(x))  # line 3: "for each face", in random order
    group = 0
    while len(left) >= 2 * k:
        distance = ((x[left] - x[left[0]]) ** 2).sum(axis=1)  # (len(left),)
        near = np.argpartition(distance, k - 1)[:k]  # line 6: the k best matches, the face among them
        labels[left[near]] = group
        left = np.delete(left, near)  # line 9
        group += 1
    labels[left] = group  # line 5: the last k .. 2k - 1
    return people.partition(labels)
