"""Random groups [A 4.2]: the baseline for every other partition."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition, SubjectCodes


def random(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition at random into m = floor(n / k) groups of floor(n / m) or ceil(n / m) subjects [A 4.2].

    Parameters
    ----------
    codes, k, subjects
        As for every :class:`~ksame.partition.PartitionMethod`.
    rng : int, Generator or None
        Draws the groups.

    Examples
    --------
    >>> random([[0.0], [0.1], [5.0], [5.1], [7.0]], k=2, rng=0).sizes.tolist()
    [3, 2]
    """
    by_subject = SubjectCodes.of(codes, k, subjects)
    n = len(by_subject.codes)
    return by_subject.partition(np.random.default_rng(rng).permutation(n) % (n // by_subject.k))
