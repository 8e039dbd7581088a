"""Measure a partition [A 4.2]: distances within groups, silhouette, within-group squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist, squareform

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.partition_type import Partition, SubjectCodes

_MAX_DISTANCES = 2**22  # distances held in memory at a time


@dataclass(frozen=True)
class PartitionQuality:
    """Similarity of the subjects within groups, in the units of the codes.

    Parameters
    ----------
    least, mean, greatest : float
        The smallest, the mean and the largest distance between two subjects of one group, each
        averaged over the groups [A fig. 2].
    silhouette : float
        The mean over subjects of (b - a) / max(a, b), with a the mean distance to the others of
        their group and b to the subjects of the nearest other group [A fig. 3]; nan with one group.
    squares : float
        The sum of squared distances to the group means.
    """

    least: float
    mean: float
    greatest: float
    silhouette: float
    squares: float


def partition_quality(codes: ArrayLike, partition: Partition) -> PartitionQuality:
    """Measure a partition by one mean code per subject.

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face, in any space, not only in the partitioned one.
    partition : Partition
        The groups of these faces.

    Examples
    --------
    >>> partition_quality([[0.0], [1.0], [10.0], [13.0]], Partition([0, 0, 1, 1], k=2)).squares
    5.0
    """
    by_subject = SubjectCodes.of(codes, partition.k, partition.subjects)
    labels = np.empty(len(by_subject.codes), dtype=np.intp)
    labels[by_subject.subject_index] = partition.labels
    order = np.argsort(labels, kind="stable")  # groups become runs of rows
    x = by_subject.codes[order].astype(np.float64)
    x -= x.mean(axis=0)
    starts = np.searchsorted(labels[order], np.arange(len(partition)))
    groups = np.split(x, starts[1:])
    distances = [pdist(group) for group in groups]
    least, mean, greatest = np.mean([(d.min(), d.mean(), d.max()) for d in distances], axis=0)
    return PartitionQuality(
        least=float(least),
        mean=float(mean),
        greatest=float(greatest),
        silhouette=_silhouette(x, starts, np.concatenate([_mean_to_others(d) for d in distances])),
        squares=float(sum(((group - group.mean(axis=0)) ** 2).sum() for group in groups)),
    )


def _mean_to_others(distances: FloatArray) -> FloatArray:
    """Return each subject's mean distance to the others of a group, from condensed distances."""
    square = squareform(distances)
    return np.asarray(square.sum(axis=1) / (len(square) - 1))


def _silhouette(x: FloatArray, starts: IntArray, a: FloatArray) -> float:
    """Return the mean silhouette of rows sorted by group, given their mean distances within it."""
    n, m = len(x), len(starts)
    if m == 1:
        return np.nan
    sizes = np.diff(starts, append=n)
    own = np.repeat(np.arange(m), sizes)
    square = np.einsum("nd,nd->n", x, x)
    total = 0.0
    block = max(1, _MAX_DISTANCES // n)
    for start in range(0, n, block):  # n x n distances are never held at once
        rows = slice(start, start + block)
        both = square[rows, None] + square
        distance = both - 2 * (x[rows] @ x.T)
        # near copies are lost in the rounding of that product: measure their rows directly
        lost = ((distance < 1e-9 * both) & (own[rows, None] != own)).any(axis=1)
        np.sqrt(np.maximum(distance, 0, out=distance), out=distance)
        distance[lost] = cdist(x[rows][lost], x)
        to_group = np.add.reduceat(distance, starts, axis=1) / sizes  # (block, m)
        to_group[np.arange(len(to_group)), own[rows]] = np.inf
        b = to_group.min(axis=1)
        widest = np.maximum(a[rows], b)
        total += ((b - a[rows]) / np.where(widest > 0, widest, 1)).sum()
    return float(total / n)
