"""Equal-size k-means: k-means++ seeds, greedy assignment, then exchanges to a local optimum."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import UsageError
from ksame.core.partition_type import Partition, SubjectCodes

_BLOCK_ROWS = 1024  # rows of the distance matrix computed at a time
_CANDIDATE_CENTRES = 16  # nearest open centres that a round of the assignment considers per subject


def kmeans(
    codes: ArrayLike,
    k: int,
    *,
    subjects: ArrayLike | None = None,
    rng: RandomState = None,
    neighbours: int = 8,
) -> Partition:
    """Partition into groups of nearly equal size with small total within-group squares [A 4.2].

    With n subjects there are m = n // k groups of floor(n/m) or ceil(n/m). Subjects are assigned to
    m k-means++ seeds, nearest pairs first, and then exchanged: two subjects of different groups swap
    places, or one moves from a larger to a smaller group, whenever that lowers the total squares.
    The squares fall with every exchange, and the result is a local optimum: no exchange between a
    group and its nearest ``neighbours`` groups lowers them further.

    Parameters
    ----------
    codes, k, subjects
        As for every :class:`~ksame.partition.PartitionMethod`.
    rng : int, Generator or None
        Draws the seeds; None is operating-system randomness.
    neighbours : int
        Number of groups, by nearest centroids, with which each group exchanges subjects.

    Notes
    -----
    Deviation: [A 4.2] uses ELKI's same-size k-means, which scores an exchange by distances to the
    current centroids; this implementation includes the movement of both centroids, so an exchange
    never raises the squares, and exchanges continue where Lloyd's steps have converged.

    This is an approximation: the problem is NP-hard. Its loss in total squares, measured by
    benchmarks/bench_kmeans.py: on 2,000 x 128 codes Lloyd's steps with an exact min-cost assignment,
    started from the result, gain at most 0.2 % (mostly nothing); started from their own k-means++
    seeds (the package k-means-constrained) they end 1.5 to 4.5 % above it for k = 3 to 20.
    Against the true optimum of 9 to 11 subjects in the plane one run loses 0.1 to 4 % on average and
    at worst 69 %: run very small sets with several seeds.

    Memory: a copy of the codes in double precision and blocks of (1024, m) distances.

    Examples
    --------
    >>> kmeans([[0.0], [9.0], [0.1], [9.2], [0.3], [9.1]], k=3, rng=0).labels.tolist()
    [0, 1, 0, 1, 0, 1]
    """
    if neighbours < 1:
        raise UsageError(f"neighbours must be at least 1. Got {neighbours}.")
    by_subject = SubjectCodes.of(codes, k, subjects)
    n, m = len(by_subject.codes), len(by_subject.codes) // by_subject.k
    if m == 1:
        return by_subject.partition(np.zeros(n, dtype=np.intp))
    x = by_subject.codes.astype(np.float64)
    x -= x.mean(axis=0)  # an offset would lose digits in every product below
    capacity = np.full(m, n // m)
    capacity[: n % m] += 1
    seeds = _draw_seeds(x, m, np.random.default_rng(rng))
    start = _assign(x, x[seeds], capacity)
    with threadpool_limits(1, user_api="blas"):  # the products are too small to gain from threads
        return by_subject.partition(_exchange(x, start, neighbours))


def _squared_distances(x: FloatArray, centres: FloatArray) -> FloatArray:
    """Return the (n, m) squared distances, computed by the cosine rule from one matrix product."""
    sizes = np.einsum("nd,nd->n", x, x)[:, None] + np.einsum("md,md->m", centres, centres)
    return np.asarray(np.maximum(sizes - 2 * (x @ centres.T), 0))


def _draw_seeds(x: FloatArray, m: int, rng: np.random.Generator) -> list[int]:
    """Draw m distinct rows, each with a probability proportional to its squared distance to those drawn.

    Arthur and Vassilvitskii 2007, k-means++.
    """
    seeds = [int(rng.integers(len(x)))]
    nearest = np.full(len(x), np.inf)
    free = np.ones(len(x), dtype=bool)
    for draw in rng.random(m - 1):
        free[seeds[-1]] = False
        np.minimum(nearest, _squared_distances(x, x[seeds[-1:]])[:, 0], out=nearest)
        weight = np.cumsum(nearest * free)
        if not weight[-1]:  # only copies of the seeds remain
            weight = np.cumsum(free, dtype=np.float64)
        seeds.append(int(np.searchsorted(weight[:-1], draw * weight[-1], side="right")))
    return seeds


def _assign(x: FloatArray, centres: FloatArray, capacity: IntArray) -> IntArray:
    """Assign subjects to centres of limited capacity, the nearest pairs first; return labels.

    Each round considers only every subject's nearest few open centres, so that the (n, m) distances
    are never held at once; a subject whose candidates are all full is assigned in a later round.
    """
    labels, capacity = np.full(len(x), -1), capacity.copy()
    while len(rows := np.flatnonzero(labels < 0)):
        open_ = np.flatnonzero(capacity)
        count = min(_CANDIDATE_CENTRES, len(open_))
        candidates, distances = np.empty((len(rows), count), dtype=np.intp), np.empty((len(rows), count))
        for start in range(0, len(rows), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            squared = _squared_distances(x[rows[block]], centres[open_])
            candidates[block] = np.argpartition(squared, count - 1, axis=1)[:, :count]
            distances[block] = np.take_along_axis(squared, candidates[block], axis=1)
        order = np.argsort(distances, axis=None, kind="stable")
        for row, centre in zip(
            rows[order // count].tolist(), open_[candidates.ravel()[order]].tolist(), strict=True
        ):
            if labels[row] < 0 and capacity[centre]:
                labels[row] = centre
                capacity[centre] -= 1
    return labels


def _exchange(x: FloatArray, labels: IntArray, neighbours: int) -> IntArray:
    """Exchange subjects between groups while that lowers the total squares; return new labels."""
    groups = _Groups(x, labels)
    m = len(groups.members)
    number = np.arange(m)[:, None] * m
    pairs = number[:0]  # one number per pair of neighbouring groups
    exhausted = np.full(m, -1)  # when each group last had no exchange that helps
    while True:
        clock_before, previous_pairs = groups.clock, pairs
        near = _nearest_groups(groups.centroid, min(neighbours, m - 1))
        pairs = number + near
        new = ~np.isin(pairs, previous_pairs)
        # of two groups that are neighbours of each other, the second need not repeat the first's search
        mutual = np.isin(near * m + number // m, pairs) & (near < number // m)
        for a, others in enumerate(near):
            last = np.maximum(groups.changed[others], groups.changed[a])
            untried = (new[a] | (last > exhausted[a])) & ~(mutual[a] & (last <= exhausted[others]))
            candidates = others[untried]
            while len(candidates) and groups.improve(a, candidates):
                candidates = others
            exhausted[a] = groups.clock
        if groups.clock == clock_before:
            return groups.labels()


def _nearest_groups(centroid: FloatArray, count: int) -> IntArray:
    """Return for each group the ``count`` groups with the nearest centroids, (m, count)."""
    near = np.empty((len(centroid), count), dtype=np.intp)
    for start in range(0, len(centroid), _BLOCK_ROWS):
        squared = _squared_distances(centroid[start : start + _BLOCK_ROWS], centroid)
        rows = np.arange(len(squared))
        squared[rows, start + rows] = np.inf
        near[start : start + _BLOCK_ROWS] = np.argpartition(squared, count - 1, axis=1)[:, :count]
    return np.sort(near, axis=1)


class _Groups:
    """Groups that exchange members, with their centroids and each member's distance to its centroid."""

    def __init__(self, x: FloatArray, labels: IntArray) -> None:
        """Collect the members of each group."""
        self.x = x
        self.square = np.einsum("nd,nd->n", x, x)
        # rounding is far below this, so that each exchange is a true gain and the loop terminates
        self.least_gain = 1e-12 * float(self.square.max())
        self.size = np.bincount(labels)
        self.members = np.split(np.argsort(labels, kind="stable"), np.cumsum(self.size)[:-1])
        self.centroid = np.empty((len(self.size), x.shape[1]))
        self.own = np.empty(len(x))  # |i - A|^2 for i of group A
        self.clock = 0
        self.changed = np.empty(len(self.size), dtype=np.intp)  # when each group last changed
        for group in range(len(self.size)):
            self._update(group)

    def labels(self) -> IntArray:
        """Return the group of each row."""
        labels = np.empty(len(self.x), dtype=np.intp)
        for group, rows in enumerate(self.members):
            labels[rows] = group
        return labels

    def improve(self, a: int, others: IntArray) -> bool:
        """Make the best exchange of group a with any of the others; return whether one was found."""
        rows = np.concatenate([self.members[b] for b in others])
        side = np.repeat(np.arange(len(others)), self.size[others])  # of each row: an index into others
        gain = self._gain(a, others, rows, side)
        best = int(gain.argmax())
        if gain.flat[best] <= self.least_gain:
            return False
        out, into = divmod(best, gain.shape[1])
        b = int(others[side[into] if into < len(rows) else into - len(rows)])
        # an index past the end selects nobody: the exchange is a move
        leaver, comer = self.members[a][out : out + 1], rows[into : into + 1]
        place = into - np.searchsorted(side, side[into]) if len(comer) else self.size[b]
        self.members[a] = np.concatenate([self.members[a][:out], comer, self.members[a][out + 1 :]])
        self.members[b] = np.concatenate([self.members[b][:place], leaver, self.members[b][place + 1 :]])
        self.clock += 1
        self._update(a)
        self._update(b)
        return True

    def _gain(self, a: int, others: IntArray, rows: IntArray, side: IntArray) -> FloatArray:
        """Return by how much each exchange lowers the total squares.

        With groups A and B, their centroids and their sizes a and b: swapping i of A and j of B
        gives |i - A|^2 - |i - B|^2 + |j - B|^2 - |j - A|^2 + (1/a + 1/b) |i - j|^2, and moving i
        from A to a smaller B gives |i - A|^2 a / (a - 1) - |i - B|^2 b / (b + 1).

        Returns
        -------
        (a, r) or (a + 1, r + m') array
            A row per member of A, a column per row of the other groups. If sizes differ, there is a
            last row for moves to A and a last column per other group for moves from A.
        """
        mine, centre, centres = self.members[a], self.centroid[a], self.centroid[others]
        i = self.x[mine]
        products = np.vstack([i, centre]) @ self.x[rows].T  # (a + 1, d) @ (d, r)
        size_a, size_b = self.size[a], self.size[others]
        ii, i_a = self.square[mine][:, None], self.own[mine][:, None]  # (a, 1): |i|^2, |i - A|^2
        jj, j_b = self.square[rows], self.own[rows]  # (r,): |j|^2, |j - B|^2
        i_b = ii - 2 * (i @ centres.T) + np.einsum("md,md->m", centres, centres)  # (a, m')
        j_a = jj - 2 * products[-1] + centre @ centre  # (r,)
        swap: FloatArray = (1 / size_a + 1 / size_b)[side] * (ii + jj - 2 * products[:-1])  # (a, r)
        swap += (i_a - i_b)[:, side]
        swap += j_b - j_a
        if (size_b == size_a).all():
            return swap
        leave = i_a * size_a / (size_a - 1) - i_b * size_b / (size_b + 1)  # (a, m')
        leave[:, size_b >= size_a] = -np.inf
        size_b = size_b[side]
        come = j_b * size_b / (size_b - 1) - j_a * size_a / (size_a + 1)  # (r,)
        come[size_b <= size_a] = -np.inf
        return np.block([[swap, leave], [come, np.full(len(others), -np.inf)]])

    def _update(self, group: int) -> None:
        """Update a group's size, centroid and distances from its members."""
        i = self.x[self.members[group]]
        self.size[group] = len(i)
        self.centroid[group] = i.mean(axis=0)
        self.own[self.members[group]] = ((i - self.centroid[group]) ** 2).sum(axis=1)
        self.changed[group] = self.clock
