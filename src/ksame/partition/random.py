"""Random groups [A 4.2]: the baseline that every other partition has to beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition
from ksame.partition.people import SubjectCodes


def random(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition at random into m = floor(n / k) groups of floor(n / m) or ceil(n / m) subjects [A 4.2].

    Parameters
    ----------
    codes : (n, d) array
        One code per face; only their number counts.
    k : int
        Least number of distinct subjects in a group.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    rng : int, Generator or None
        None is operating-system randomness.

    Examples
    --------
    >>> random([[0.0], [0.1], [5.0], [5.1], [7.0]], k=2, rng=0).sizes.tolist()
    [3, 2]
    """
    people = SubjectCodes.of(codes, k, subjects)
    n = len(people.codes)
    return people.partition(np.random.default_rng(rng).permutation(n) % (n // people.k))
