"""Greedy k-member clustering (Byun et al. 2007): each group adds the face of least information loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition, SubjectCodes
from ksame.partition.remaining import RemainingCodes


def kmember(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> Partition:
    """Partition by greedy k-member clustering (Byun et al., DASFAA 2007; [A 4.2]).

    A group starts from the face farthest from the previous start and adds, k - 1 times, the face of
    least information loss; then each of the fewer than k remaining faces joins the group whose loss
    rises least. Ties go to the lowest row, then to the oldest group. Time O(n^2 d): k times MDAV.

    Deviation: the paper's loss is for tables of categories and numbers; for codes it is the
    within-group squared error, which rises by g / (g + 1) |x - mu|^2 when x joins g others.

    Parameters
    ----------
    codes, k, subjects
        As for every :class:`~ksame.partition.PartitionMethod`.
    rng : int, Generator or None
        Draws the face from which the first start is farthest.

    Examples
    --------
    >>> kmember([[0.0], [9.0], [0.2], [4.0], [8.8], [4.1], [4.6]], k=2, rng=0).labels.tolist()
    [0, 1, 0, 2, 1, 2, 2]
    """
    by_subject = SubjectCodes.of(codes, k, subjects)
    n, k = len(by_subject.codes), by_subject.k
    remaining = RemainingCodes(by_subject.codes)
    labels = np.zeros(n, dtype=np.intp)
    totals = np.zeros((n // k, by_subject.codes.shape[1]))  # (m, d): the sum of each group's codes
    start = remaining.code(int(np.random.default_rng(rng).integers(n)))
    for group, total in enumerate(totals):
        row = remaining.farthest(start)
        start = remaining.code(row)
        for size in range(1, k + 1):
            labels[row] = group
            total += remaining.code(row)
            remaining.remove(np.array([row]))
            if size < k:
                row = int(remaining.nearest(total / size, 1)[0])  # least g / (g + 1) |x - mu|^2 at this g
    sizes = np.full(len(totals), k)
    for row in remaining.rows:
        x = remaining.code(row)
        rise = sizes / (sizes + 1) * ((totals / sizes[:, None] - x) ** 2).sum(axis=1)  # (m,)
        best = rise.argmin()
        labels[row] = best
        totals[best] += x
        sizes[best] += 1
    return by_subject.partition(labels)
