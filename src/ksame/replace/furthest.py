"""k-Same-furthest [S alg. 3]: each cluster gets the mean of the cluster far away from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition
from ksame.replace.codes import as_codes, person_index, refuse_real_faces, row_means
from ksame.replace.pairs import UnassignedCodes, as_pair_k, maps_to_own

_MAX_TRIES = 10
WRONG_MAP_FAILED = "wrong-map was tried for and does not hold: some faces are nearest to their own new face"


@dataclass(frozen=True, eq=False)
class FurthestPairs:
    """Who is in which cluster, and which cluster's mean stands for whom; this must stay private.

    Parameters
    ----------
    partition : Partition
        The clusters as groups of faces.
    means : (m, d) array
        The mean mu of each cluster's first k people.
    gets : (m,) int
        The cluster whose mean is published for each cluster.
    first : (n,) bool
        Faces of the first k people of their cluster: the means are made of these.
    wrong_map : bool
        Whether the nearest original to every new face was found to be somebody else's.
    """

    partition: Partition
    means: FloatArray
    gets: IntArray
    first: NDArray[np.bool_]
    wrong_map: bool

    @property
    def codes(self) -> FloatArray:
        """The new codes (n, d), constant to the last bit on each cluster."""
        return self.means[self.gets[self.partition.labels]]

    @property
    def guarantee(self) -> Guarantee:
        """k-anonymity [S thm. 1], and wrong-map [S thm. 3] if it was found true of these codes."""
        both = Guarantee("k-anonymity and wrong-map", self.partition.k, self.partition.bound)
        return both if self.wrong_map else both.lower(kind="k-anonymity", because=WRONG_MAP_FAILED)

    @property
    def members(self) -> tuple[IntArray, ...]:
        """For each cluster, the rows of the faces that its new face is the mean of."""
        founders = [rows[self.first[rows]] for rows in self.partition.groups]
        return tuple(founders[other] for other in self.gets)


def furthest(
    codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
) -> tuple[FloatArray, Guarantee]:
    """Replace every face by the mean of a cluster of k people far away from it [S alg. 3].

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    k : int
        Least number of distinct subjects in a cluster; 2k are needed.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    rng : int, Generator or None
        The faces that start a pair; None is operating-system randomness.

    Returns
    -------
    new : (n, d) array
        The new codes, constant to the last bit on each cluster.
    guarantee : Guarantee
        k-anonymity [S thm. 1], and wrong-map [S thm. 3] if it was found true of these codes.

    Raises
    ------
    CannotGuarantee
        If there are fewer than 2k people, or a surrogate would be a real face up to rounding.

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

    Deviation: the paper freezes both means when the clusters begin to overlap. In many dimensions that is
    at the first addition, and the frozen "mean" is one real face. Here growth goes on, so that every
    surrogate averages k people; theorem 3 then covers the clusters that stay apart, and all are checked.

    Examples
    --------
    >>> pairs = furthest_pairs([[0.0], [1.0], [10.0], [12.0]], k=2, rng=0)
    >>> pairs.partition.labels.tolist(), pairs.gets.tolist(), pairs.means.tolist()
    ([0, 0, 1, 1], [1, 0], [[0.5], [11.0]])
    """
    x = as_codes(codes)
    who = person_index(subjects, len(x))
    people = row_means(x, who).astype(x.dtype)  # (m, d), person-specific [N 3]
    k = as_pair_k(k, len(people))
    source = np.random.default_rng(rng)
    for _ in range(_MAX_TRIES):  # another start is the cure where there is no pair to exchange partners with
        labels, means, first = _clusters(people, k, source)
        gets = _exchange(np.arange(len(means)) ^ 1, means, x, labels[who])
        wrong_map = not maps_to_own(means[gets], np.arange(len(means)), x, labels[who]).any()
        if wrong_map:
            break
    refuse_real_faces(means, x)
    partition = Partition(labels[who], k, np.arange(len(x)) if subjects is None else subjects)
    order = labels[who][np.unique(partition.labels, return_index=True)[1]]  # the partition's numbering
    return FurthestPairs(partition, means[order], np.argsort(order)[gets[order]], first[who], wrong_map)


def _clusters(
    x: FloatArray, k: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray, NDArray[np.bool_]]:
    """Return each person's cluster, the means, and whose they are; 2i and 2i + 1 are a pair [S alg. 3]."""
    gamma = UnassignedCodes(x)
    labels = np.full(len(x), -1, dtype=np.intp)
    for i in range(len(x) // (2 * k)):
        pair = gamma.pair(k, rng)
        labels[pair.c], labels[pair.f] = 2 * i, 2 * i + 1
    chosen = labels >= 0
    means = row_means(x[chosen], labels[chosen]).astype(x.dtype)
    left = np.flatnonzero(~chosen)
    # lines 29-35: the rest join the nearer of the last two clusters, whose means stay as they are
    to_c, to_f = (np.linalg.norm(x[left] - mu, axis=1) for mu in means[-2:])
    labels[left] = np.where(to_f > to_c, len(means) - 2, len(means) - 1)
    return labels, means, chosen


def _exchange(gets: IntArray, means: FloatArray, x: FloatArray, labels: IntArray) -> IntArray:
    """Exchange surrogates with another pair where a cluster's own people are nearest to what it gets."""
    gets = gets.copy()
    for g in np.flatnonzero(maps_to_own(means[gets], np.arange(len(means)), x, labels)):
        # the far clusters first: what g gets should stay unlike g
        for other in np.argsort(-np.linalg.norm(means[gets] - means[g], axis=1))[:_MAX_TRIES]:
            swap = np.array([g, other])
            if not maps_to_own(means[gets[swap[::-1]]], swap, x, labels).any():
                gets[swap] = gets[swap[::-1]]
                break
    return gets
