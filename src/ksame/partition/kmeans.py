"""Equal-size k-means: k-means++ seeds, a greedy filling, then exchanges until none helps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import UsageError
from ksame.core.partition_type import Partition
from ksame.partition.people import SubjectCodes

_BLOCK = 1024  # rows of a distance matrix held at a time
_CHOICES = 16  # nearest centroids that a person applies to in one round of the filling


def kmeans(
    codes: ArrayLike,
    k: int,
    *,
    subjects: ArrayLike | None = None,
    rng: RandomState = None,
    neighbours: int = 8,
) -> Partition:
    """Partition into groups of nearly equal size with small total within-group squares [A 4.2].

    With n people there are m = n // k groups of floor(n/m) or ceil(n/m). They start at m k-means++
    seeds, filled nearest first, and then trade: two people of different groups change places, or
    one moves from a larger to a smaller group, whenever that lowers the total squares. The squares
    fall with every trade, and the end is a local optimum: no trade between a group and its
    nearest ``neighbours`` groups helps any more.

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    k : int
        Least number of distinct subjects in a group.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    rng : int, Generator or None
        Draws the seeds; None is operating-system randomness.
    neighbours : int
        Groups, by nearest centroids, that each group trades with.

    Notes
    -----
    Deviation: [A 4.2] uses ELKI's same-size k-means, whose trades are weighed by distances to the
    centroids as they are; these here count how a trade moves both centroids, so they never raise
    the squares and go on where Lloyd's steps stand still.

    This is an approximation: the problem is NP-hard. Its loss in total squares, measured by
    benchmarks/bench_kmeans.py: on 2,000 x 128 codes Lloyd's steps with an exact min-cost assignment,
    started from the result, take off at most 0.2 % (mostly nothing), and started from their own
    k-means++ seeds (the package k-means-constrained) they end 1.5 to 4.5 % above it for k = 3 to 20.
    Against the true optimum of 9 to 11 people in the plane one run loses 0.1 to 4 % on average and
    at worst 69 %: very small sets deserve several seeds.

    Memory is a copy of the codes in double precision and blocks of (1024, m) distances.

    Examples
    --------
    >>> kmeans([[0.0], [9.0], [0.1], [9.2], [0.3], [9.1]], k=3, rng=0).labels.tolist()
    [0, 1, 0, 1, 0, 1]
    """
    if neighbours < 1:
        raise UsageError(f"neighbours must be at least 1. Got {neighbours}.")
    people = SubjectCodes.of(codes, k, subjects)
    n, m = len(people.codes), len(people.codes) // people.k
    if m == 1:
        return people.partition(np.zeros(n, dtype=np.intp))
    x = people.codes.astype(np.float64)
    x -= x.mean(axis=0)  # an offset would cost digits in every product below
    room = np.full(m, n // m)
    room[: n % m] += 1
    seeds = _seeds(x, m, np.random.default_rng(rng))
    start = _fill(x, x[seeds], room)
    with threadpool_limits(
        1, user_api="blas"
    ):  # products too small to share: threads only wait for each other
        return people.partition(_trade(x, start, neighbours))


def _squared(x: FloatArray, centres: FloatArray) -> FloatArray:
    """Return (n, m) squared distances, by the cosine rule: one matrix product."""
    sizes = np.einsum("nd,nd->n", x, x)[:, None] + np.einsum("md,md->m", centres, centres)
    return np.asarray(np.maximum(sizes - 2 * (x @ centres.T), 0))


def _seeds(x: FloatArray, m: int, rng: np.random.Generator) -> list[int]:
    """Draw m distinct rows, each with a chance that grows with its squared distance to those drawn.

    Arthur and Vassilvitskii 2007, k-means++.
    """
    seeds = [int(rng.integers(len(x)))]
    nearest = np.full(len(x), np.inf)
    free = np.ones(len(x), dtype=bool)
    for draw in rng.random(m - 1):
        free[seeds[-1]] = False
        np.minimum(nearest, _squared(x, x[seeds[-1:]])[:, 0], out=nearest)
        weight = np.cumsum(nearest * free)
        if not weight[-1]:  # only copies of the seeds are left
            weight = np.cumsum(free, dtype=np.float64)
        seeds.append(int(np.searchsorted(weight[:-1], draw * weight[-1], side="right")))
    return seeds


def _fill(x: FloatArray, centres: FloatArray, room: IntArray) -> IntArray:
    """Assign people to centres with room, the nearest pairs first; return labels.

    Each round looks at every person's nearest few open centres only, so that the (n, m) distances
    are never held at once; whoever finds these full applies again in the next round.
    """
    labels, room = np.full(len(x), -1), room.copy()
    while len(left := np.flatnonzero(labels < 0)):
        open_ = np.flatnonzero(room)
        few = min(_CHOICES, len(open_))
        choices, distances = np.empty((len(left), few), dtype=np.intp), np.empty((len(left), few))
        for start in range(0, len(left), _BLOCK):
            block = slice(start, start + _BLOCK)
            squared = _squared(x[left[block]], centres[open_])
            choices[block] = np.argpartition(squared, few - 1, axis=1)[:, :few]
            distances[block] = np.take_along_axis(squared, choices[block], axis=1)
        order = np.argsort(distances, axis=None, kind="stable")
        for row, centre in zip(
            left[order // few].tolist(), open_[choices.ravel()[order]].tolist(), strict=True
        ):
            if labels[row] < 0 and room[centre]:
                labels[row] = centre
                room[centre] -= 1
    return labels


def _trade(x: FloatArray, labels: IntArray, neighbours: int) -> IntArray:
    """Exchange people between groups while that lowers the total squares; return new labels."""
    groups = _Groups(x, labels)
    m = len(groups.members)
    number = np.arange(m)[:, None] * m
    pairs = number[:0]  # one number for each group and one that it trades with
    seen = np.full(m, -1)  # when each group last had nothing to trade
    while True:
        before, former = groups.clock, pairs
        near = _nearest(groups.centroid, min(neighbours, m - 1))
        pairs = number + near
        new = ~np.isin(pairs, former)
        # of two groups that name each other, the second to come need not try what the first has tried
        twice = np.isin(near * m + number // m, pairs) & (near < number // m)
        for a, others in enumerate(near):
            last = np.maximum(groups.changed[others], groups.changed[a])
            untried = (new[a] | (last > seen[a])) & ~(twice[a] & (last <= seen[others]))
            now = others[untried]
            while len(now) and groups.improve(a, now):
                now = others
            seen[a] = groups.clock
        if groups.clock == before:
            return groups.labels()


def _nearest(centroid: FloatArray, count: int) -> IntArray:
    """Return (m, count): the groups with the nearest centroids."""
    near = np.empty((len(centroid), count), dtype=np.intp)
    for start in range(0, len(centroid), _BLOCK):
        squared = _squared(centroid[start : start + _BLOCK], centroid)
        rows = np.arange(len(squared))
        squared[rows, start + rows] = np.inf
        near[start : start + _BLOCK] = np.argpartition(squared, count - 1, axis=1)[:, :count]
    return np.sort(near, axis=1)


class _Groups:
    """Groups that trade members, with their centroids and everybody's distance to the own one."""

    def __init__(self, x: FloatArray, labels: IntArray) -> None:
        """Collect the members of each group."""
        self.x = x
        self.square = np.einsum("nd,nd->n", x, x)
        # rounding is far below this, so that each trade is a true gain and the trading ends
        self.least_gain = 1e-12 * float(self.square.max())
        self.size = np.bincount(labels)
        self.members = np.split(np.argsort(labels, kind="stable"), np.cumsum(self.size)[:-1])
        self.centroid = np.empty((len(self.size), x.shape[1]))
        self.own = np.empty(len(x))  # |i - A|^2 for i of group A
        self.clock = 0
        self.changed = np.empty(len(self.size), dtype=np.intp)  # when each group last changed
        for group in range(len(self.size)):
            self._renew(group)

    def labels(self) -> IntArray:
        """Return the group of each row."""
        labels = np.empty(len(self.x), dtype=np.intp)
        for group, rows in enumerate(self.members):
            labels[rows] = group
        return labels

    def improve(self, a: int, others: IntArray) -> bool:
        """Make the best trade of group a with any of the others; return whether there was one."""
        rows = np.concatenate([self.members[b] for b in others])
        side = np.repeat(np.arange(len(others)), self.size[others])  # of each row: an index into others
        gain = self._gain(a, others, rows, side)
        best = int(gain.argmax())
        if gain.flat[best] <= self.least_gain:
            return False
        out, into = divmod(best, gain.shape[1])
        b = int(others[side[into] if into < len(rows) else into - len(rows)])
        # an index past the end takes nobody: that is a move
        leaver, comer = self.members[a][out : out + 1], rows[into : into + 1]
        place = into - np.searchsorted(side, side[into]) if len(comer) else self.size[b]
        self.members[a] = np.concatenate([self.members[a][:out], comer, self.members[a][out + 1 :]])
        self.members[b] = np.concatenate([self.members[b][:place], leaver, self.members[b][place + 1 :]])
        self.clock += 1
        self._renew(a)
        self._renew(b)
        return True

    def _gain(self, a: int, others: IntArray, rows: IntArray, side: IntArray) -> FloatArray:
        """Return by how much each trade lowers the total squares.

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

    def _renew(self, group: int) -> None:
        """Bring centroid, size and distances up to date with the members."""
        i = self.x[self.members[group]]
        self.size[group] = len(i)
        self.centroid[group] = i.mean(axis=0)
        self.own[self.members[group]] = ((i - self.centroid[group]) ** 2).sum(axis=1)
        self.changed[group] = self.clock
