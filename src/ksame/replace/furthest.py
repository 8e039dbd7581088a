"""k-Same-furthest [S alg. 3]: replace each cluster by the mean of a cluster far away from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition
from ksame.replace.centroid import as_codes, refuse_real_faces, row_means, subject_index
from ksame.replace.pairs import UnassignedCodes, as_pair_k, maps_to_own

_MAX_TRIES = 10
WRONG_MAP_FAILED = "wrong-map was attempted and does not hold: some faces are nearest to their own new face"


@dataclass(frozen=True, eq=False)
class FurthestPairs:
    """Clusters, and the cluster whose mean replaces each; keep this private.

    Parameters
    ----------
    partition : Partition
        The clusters as groups of faces.
    means : (m, d) array
        The mean mu of each cluster's first k subjects.
    sources : (m,) int
        The cluster whose mean is published for each cluster.
    in_mean : (n,) bool
        Faces of the first k subjects of their cluster, which the means average.
    wrong_map : bool
        Whether the nearest original to every new face belongs to another subject.
    """

    partition: Partition
    means: FloatArray
    sources: IntArray
    in_mean: NDArray[np.bool_]
    wrong_map: bool

    @property
    def codes(self) -> FloatArray:
        """The new codes (n, d), constant to the last bit on each cluster."""
        return self.means[self.sources[self.partition.labels]]

    @property
    def guarantee(self) -> Guarantee:
        """k-anonymity [S thm. 1], and wrong-map [S thm. 3] if these codes satisfy it."""
        both = Guarantee("k-anonymity and wrong-map", self.partition.k, self.partition.bound)
        return both if self.wrong_map else both.lower(kind="k-anonymity", because=WRONG_MAP_FAILED)

    @property
    def members(self) -> tuple[IntArray, ...]:
        """For each cluster, the rows of the faces that its new face averages."""
        averaged = [rows[self.in_mean[rows]] for rows in self.partition.groups]
        return tuple(averaged[source] for source in self.sources)


def furthest(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> tuple[FloatArray, Guarantee]:
    """Replace every face by the mean of a cluster of k subjects far away from it [S alg. 3].

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    k : int
        Least number of distinct subjects in a cluster; 2k are needed.
    subjects : (n,) array, optional
        Subject of each face; by default every row is a distinct subject.
    rng : int, Generator or None
        Draws the face that starts each pair; None draws from the operating system.

    Returns
    -------
    new : (n, d) array
        The new codes, constant to the last bit on each cluster.
    guarantee : Guarantee
        k-anonymity [S thm. 1], and wrong-map [S thm. 3] if these codes satisfy it.

    k-anonymity [S thm. 1], and wrong-map [S thm. 3] if these codes satisfy it.
    ------
    CannotGuarantee
        If there are fewer than 2k subjects, or a surrogate equals a real face up to rounding.

    Examples
    --------
    >>> new, guarantee = furthest([[0.0], [1.0], [10.0], [12.0]], k=2, rng=0)
    >>> new.ravel().tolist(), guarantee.kind
    ([11.0, 11.0, 0.5, 0.5], 'k-anonymity and wrong-map')
    """
    pairs = furthest_pairs(codes, k, subjects=subjects, rng=rng)
    return pairs.codes, pairs.guarantee


def furthest_pairs(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> FurthestPairs:
    """Form the pairs of clusters that ``furthest`` swaps; the parameters are the same.

    Deviation: the paper freezes both means when the clusters begin to overlap. In many dimensions that
    happens at the first addition, and the frozen "mean" is one real face. Here growth continues, so that
    every surrogate averages k subjects; theorem 3 then covers the clusters that stay apart, and all are
    checked.

    Examples
    --------
    >>> pairs = furthest_pairs([[0.0], [1.0], [10.0], [12.0]], k=2, rng=0)
    >>> pairs.partition.labels.tolist(), pairs.sources.tolist(), pairs.means.tolist()
    ([0, 0, 1, 1], [1, 0], [[0.5], [11.0]])
    """
    x = as_codes(codes)
    subject = subject_index(subjects, len(x))
    gamma = row_means(x, subject).astype(x.dtype)  # (m, d), person-specific [N 3]
    k = as_pair_k(k, len(gamma))
    generator = np.random.default_rng(rng)
    for _ in range(_MAX_TRIES):  # restart where no exchange of sources achieves wrong-map
        cluster, means, in_mean = _clusters(gamma, k, generator)
        labels = cluster[subject]
        sources = _exchange_sources(np.arange(len(means)) ^ 1, means, x, labels)
        wrong_map = not maps_to_own(means[sources], np.arange(len(means)), x, labels).any()
        if wrong_map:
            break
    refuse_real_faces(means, x)
    partition = Partition(labels, k, np.arange(len(x)) if subjects is None else subjects)
    order = labels[np.unique(partition.labels, return_index=True)[1]]  # the partition's numbering
    sources = np.argsort(order)[sources[order]]
    return FurthestPairs(partition, means[order], sources, in_mean[subject], wrong_map)


def _clusters(
    x: FloatArray, k: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray, NDArray[np.bool_]]:
    """Return each subject's cluster, the means and who is averaged; 2i and 2i + 1 form a pair [S alg. 3]."""
    unassigned = UnassignedCodes(x)
    labels = np.full(len(x), -1, dtype=np.intp)
    for i in range(len(x) // (2 * k)):
        pair = unassigned.take_pair(k, rng)
        labels[pair.c], labels[pair.f] = 2 * i, 2 * i + 1
    chosen = labels >= 0
    means = row_means(x[chosen], labels[chosen]).astype(x.dtype)
    rest = np.flatnonzero(~chosen)
    # lines 29-35: the rest join the nearer of the last two clusters, whose means do not change
    to_c, to_f = (np.linalg.norm(x[rest] - mu, axis=1) for mu in means[-2:])
    labels[rest] = np.where(to_f > to_c, len(means) - 2, len(means) - 1)
    return labels, means, chosen


def _exchange_sources(sources: IntArray, means: FloatArray, x: FloatArray, labels: IntArray) -> IntArray:
    """Exchange sources with another pair where a new face is nearest to the cluster's own originals."""
    sources = sources.copy()
    for g in np.flatnonzero(maps_to_own(means[sources], np.arange(len(means)), x, labels)):
        # far clusters first: the source of g should stay unlike g
        for other in np.argsort(-np.linalg.norm(means[sources] - means[g], axis=1))[:_MAX_TRIES]:
            swap = np.array([g, other])
            if not maps_to_own(means[sources[swap[::-1]]], swap, x, labels).any():
                sources[swap] = sources[swap[::-1]]
                break
    return sources
