"""Search the codes that are not grouped yet for the nearest and the farthest, exactly and fast.

The greedy partitions repeat two queries: which k of the remaining faces are nearest to a point, and
which one is farthest from it? One single-precision product with the codes, centred and scaled,
bounds every distance within a proven rounding error. Only the few rows whose bounds reach the
answer are measured again in double precision, so the answers equal those of a full scan.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray

_BLOCK_ROWS = 1024  # rows converted to double precision at a time, to limit memory


class RemainingCodes:
    """The codes that are not grouped yet.

    Distances are ``((x - point) ** 2).sum()`` in double precision, where a point is a code or a mean of
    codes; ties go to the row that comes first in ``order``. Removed rows are overwritten by the last
    ones: the remaining rows stay contiguous, and a query costs one pass over them.

    Parameters
    ----------
    codes : (n, d) float32 or float64, C order
        One code per subject.
    order : (n,) int, optional
        A permutation of the rows that breaks ties. By default the lowest row wins.

    Examples
    --------
    >>> remaining = RemainingCodes(np.array([[0.0], [1.0], [2.0], [9.0]]))
    >>> near, far = remaining.nearest_and_farthest(remaining.code(1), 2)
    >>> near.tolist(), far
    ([1, 0], 3)
    >>> remaining.remove(near)
    >>> len(remaining), remaining.mean().tolist()
    (2, [5.5])
    """

    def __init__(self, codes: FloatArray, order: IntArray | None = None) -> None:
        n, d = codes.shape
        self._codes = codes
        self._n: int = n
        self._rows = np.arange(n)  # the first _n are the remaining rows
        self._place = np.arange(n)  # position of each row in _rows; -1 when removed
        self._rank = np.arange(n) if order is None else np.argsort(order)
        self._high, self._low = np.zeros(d), np.zeros(d)
        blocks = [slice(start, start + _BLOCK_ROWS) for start in range(0, n, _BLOCK_ROWS)]
        for block in blocks:
            self._add(_exact_sum(codes[block].astype(np.float64)))
        # about the median of some rows the norms, and so the error bounds, are small; one distant face
        # would pull the mean away from all others
        self._centre = np.median(codes[:: 1 + n // 1000].astype(np.float64), axis=0)
        spread = max((codes.max(axis=0) - self._centre).max(), (self._centre - codes.min(axis=0)).max())
        # a mean of equal rows differs from them by an ulp; near 1e-154 the squares of the full scan
        # underflow: then y vanishes in single precision and every row is measured
        ulp = np.finfo(np.float64).eps * np.abs(self._centre).max()
        self._size = max(float(spread), float(ulp), 1e-100)
        self._y = np.empty((n, d), dtype=np.float32)
        self._norm = np.empty(n, dtype=np.float32)  # |y|^2
        for block in blocks:
            self._y[block] = (codes[block] - self._centre) / self._size
            self._norm[block] = (self._y[block].astype(np.float64) ** 2).sum(axis=1)

    def __len__(self) -> int:
        """Return the number of remaining rows."""
        return self._n

    def __contains__(self, row: int) -> bool:
        """Return whether a row remains."""
        return bool(self._place[row] >= 0)

    @property
    def rows(self) -> IntArray:
        """The remaining rows, ascending."""
        return np.sort(self._rows[: self._n])

    def code(self, row: int) -> NDArray[np.float64]:
        """Return the code of a row, in double precision."""
        return np.asarray(self._codes[row], dtype=np.float64)

    def mean(self) -> NDArray[np.float64]:
        """Return the mean of the remaining rows: their sum, kept in 106 bits, rounded and divided."""
        return (self._high + self._low) / self._n

    def remove(self, rows: IntArray) -> None:
        """Remove rows, each of which must remain."""
        self._add(_exact_sum(-self._codes[rows].astype(np.float64)))
        places = self._place[rows]
        end = self._n - len(rows)
        stays = np.ones(len(rows), dtype=bool)  # which of the last rows move into the holes before them
        stays[places[places >= end] - end] = False
        source, hole = end + np.flatnonzero(stays), places[places < end]
        for column in (self._y, self._norm, self._rows):
            column[hole] = column[source]
        self._place[self._rows[hole]] = hole
        self._place[rows] = -1
        self._n = end

    def nearest(self, point: NDArray[np.float64], k: int) -> IntArray:
        """Return the k rows nearest to a point, nearest first."""
        return self._nearest(point, k, *self._brackets(point))

    def farthest(self, point: NDArray[np.float64]) -> int:
        """Return the row farthest from a point."""
        return self._farthest(point, *self._brackets(point))

    def nearest_and_farthest(self, point: NDArray[np.float64], k: int) -> tuple[IntArray, int]:
        """Return the k rows nearest to a point and the farthest of all others, in one pass."""
        low, high = self._brackets(point)
        near = self._nearest(point, k, low, high)
        high[self._place[near]] = -np.inf
        return near, self._farthest(point, low, high)

    def _add(self, term: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
        self._high, error = _two_sum(self._high, term[0])
        self._low += error + term[1]

    def _brackets(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return bounds on each |y - p|^2 - |p|^2, which hold for the double-precision distances too.

        With u the unit roundoff of single precision, the error in units of u (|y|^2 + |p|^2) is at most
        d for the product in any order of summation, 4 for the rounding of y and p, 1 for |y|^2 and 6
        for the sums here; the slack has 2 (d + 16). Its constant covers underflow.
        """
        p = ((point - self._centre) / self._size).astype(np.float32)
        y, norm = self._y[: self._n], self._norm[: self._n]
        eps = np.float32((len(p) + 16) * np.finfo(np.float32).eps)
        # not y @ p: a threaded BLAS is ten times slower when other processes use the cores
        estimate = norm - np.einsum("nd,d->n", y, 2 * p)  # (_n,)
        slack = eps * (norm + p @ p) + np.float32(1e-36 * len(p))
        return estimate - slack, estimate + slack

    def _measure(self, point: NDArray[np.float64], rows: IntArray) -> NDArray[np.float64]:
        """Return the squared distances of these rows."""
        blocks = (rows[start : start + _BLOCK_ROWS] for start in range(0, len(rows), _BLOCK_ROWS))
        return np.concatenate([((self._codes[block] - point) ** 2).sum(axis=1) for block in blocks])

    def _nearest(
        self, point: NDArray[np.float64], k: int, low: NDArray[np.float32], high: NDArray[np.float32]
    ) -> IntArray:
        # At least k lower bounds are below the k-th smallest of the minima of 8k strips, which is faster
        # to find than the k-th smallest lower bound; the upper bounds of these rows limit the k-th
        # smallest distance.
        strips = min(8 * k, len(low))
        minima = low[: len(low) // strips * strips].reshape(-1, strips).min(axis=0)
        reach = high[low <= np.partition(minima, k - 1)[k - 1]].max()
        rows: IntArray = self._rows[: self._n][low <= reach]
        first = np.lexsort((self._rank[rows], self._measure(point, rows)))[:k]
        return rows[first]

    def _farthest(
        self, point: NDArray[np.float64], low: NDArray[np.float32], high: NDArray[np.float32]
    ) -> int:
        rows = self._rows[: self._n][high >= low[high.argmax()]]
        return int(rows[np.lexsort((self._rank[rows], -self._measure(point, rows)))[0]])


def _two_sum(
    a: NDArray[np.float64], b: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rounded sum and its rounding error, whose sum is exactly a + b (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _exact_sum(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum of rows (m, d) as two (d,) terms, to twice double precision, by pairwise addition."""
    errors = np.zeros(x.shape[1])
    while len(x) > 1:
        half = len(x) // 2
        s, error = _two_sum(x[:half], x[half : 2 * half])
        errors += error.sum(axis=0)
        x = np.concatenate([s, x[2 * half :]])
    return x[0], errors
