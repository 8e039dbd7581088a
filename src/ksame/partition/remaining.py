"""The faces that are in no group yet: who is nearest, who is farthest, exactly and fast.

The greedy partitions ask two questions again and again: which k of the faces left are nearest to a
point, and which one is farthest from it? One single-precision product with the codes, centred and
scaled, brackets every distance within a proven rounding error. Only the few rows whose bracket
reaches the answer are measured again, in double precision, so the answers are those of a full scan.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray

_BLOCK = 1024  # rows converted to double precision at a time: the extra memory stays small


class Remaining:
    """The codes that are not grouped yet.

    Distances are ``((x - point) ** 2).sum()`` in double precision, where a point is a code or a mean of
    codes; ties go to the row that stands first in ``order``. Rows that are taken are overwritten by the
    last ones: what is left stays one block, and a question costs one pass over it.

    Parameters
    ----------
    codes : (n, d) float32 or float64, C order
        One code per person.
    order : (n,) int, optional
        A permutation of the rows; it decides ties. By default the lowest row wins.

    Examples
    --------
    >>> left = Remaining(np.array([[0.0], [1.0], [2.0], [9.0]]))
    >>> near, far = left.near_and_far(left.code(1), 2)
    >>> near.tolist(), far
    ([1, 0], 3)
    >>> left.take(near)
    >>> len(left), left.mean().tolist()
    (2, [5.5])
    """

    def __init__(self, codes: FloatArray, order: IntArray | None = None) -> None:
        n, d = codes.shape
        self._codes = codes
        self._n: int = n
        self._rows = np.arange(n)  # the first _n are the rows left
        self._place = np.arange(n)  # where each row stands in _rows; -1 when it is taken
        self._rank = np.arange(n) if order is None else np.argsort(order)
        self._high, self._low = np.zeros(d), np.zeros(d)
        blocks = [slice(start, start + _BLOCK) for start in range(0, n, _BLOCK)]
        for block in blocks:
            self._add(_exact_sum(codes[block].astype(np.float64)))
        # about the median of some rows the norms, and with them the brackets, are small; one face far
        # off would draw the mean away from all others
        self._centre = np.median(codes[:: 1 + n // 1000].astype(np.float64), axis=0)
        spread = max((codes.max(axis=0) - self._centre).max(), (self._centre - codes.min(axis=0)).max())
        # a mean of equal rows is an ulp beside them; near 1e-154 the squares of the full scan underflow:
        # then y vanishes in single precision and every row is measured
        ulp = np.finfo(np.float64).eps * np.abs(self._centre).max()
        self._size = max(float(spread), float(ulp), 1e-100)
        self._y = np.empty((n, d), dtype=np.float32)
        self._norm = np.empty(n, dtype=np.float32)  # |y|^2
        for block in blocks:
            self._y[block] = (codes[block] - self._centre) / self._size
            self._norm[block] = (self._y[block].astype(np.float64) ** 2).sum(axis=1)

    def __len__(self) -> int:
        """Return how many are left."""
        return self._n

    def __contains__(self, row: int) -> bool:
        """Whether this row is left."""
        return bool(self._place[row] >= 0)

    @property
    def rows(self) -> IntArray:
        """The rows left, ascending."""
        return np.sort(self._rows[: self._n])

    def code(self, row: int) -> NDArray[np.float64]:
        """Return the code of a row, in double precision."""
        return np.asarray(self._codes[row], dtype=np.float64)

    def mean(self) -> NDArray[np.float64]:
        """Return the mean of the rows left: their sum, kept in 106 bits, rounded and divided."""
        return (self._high + self._low) / self._n

    def take(self, rows: IntArray) -> None:
        """Remove rows, which must be left."""
        self._add(_exact_sum(-self._codes[rows].astype(np.float64)))
        places = self._place[rows]
        end = self._n - len(rows)
        stays = np.ones(len(rows), dtype=bool)  # of the last rows, those that fill the holes before them
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

    def near_and_far(self, point: NDArray[np.float64], k: int) -> tuple[IntArray, int]:
        """Return the k rows nearest to a point and, of all others, the farthest; in one pass."""
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
        # not y @ p: a threaded BLAS is ten times slower when other processes want the cores
        estimate = norm - np.einsum("nd,d->n", y, 2 * p)  # (left,)
        slack = eps * (norm + p @ p) + np.float32(1e-36 * len(p))
        return estimate - slack, estimate + slack

    def _measure(self, point: NDArray[np.float64], rows: IntArray) -> NDArray[np.float64]:
        """Return the squared distances of these rows."""
        blocks = (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
        return np.concatenate([((self._codes[block] - point) ** 2).sum(axis=1) for block in blocks])

    def _nearest(
        self, point: NDArray[np.float64], k: int, low: NDArray[np.float32], high: NDArray[np.float32]
    ) -> IntArray:
        # At least k lows are below the k-th smallest of the minima of 8k strips, which is quicker to
        # find than the k-th smallest low; the highs of these rows bound the k-th smallest distance.
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
    """Return the rounded sum and its rounding error: together they are a + b exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _exact_sum(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum of rows, (m, d) -> two (d,), to twice the double precision, by halves."""
    errors = np.zeros(x.shape[1])
    while len(x) > 1:
        half = len(x) // 2
        s, error = _two_sum(x[:half], x[half : 2 * half])
        errors += error.sum(axis=0)
        x = np.concatenate([s, x[2 * half :]])
    return x[0], errors
