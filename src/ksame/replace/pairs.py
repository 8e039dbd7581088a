"""Pairs of clusters that lie far apart [S alg. 3-5], and the check that a swap leads a matcher astray."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import CannotGuarantee
from ksame.core.partition_type import as_k

_DISTANCES_AT_ONCE = 1 << 22  # distances held at once: 32 MB


class ClusterPair(NamedTuple):
    """Two clusters of people in the order of growth: C_c about a random face, C_f far from it."""

    c: IntArray
    f: IntArray


class UnassignedCodes:
    """The people who are not yet in a cluster, with the sums from which all distances follow.

    ||gamma - mu||^2 = ||gamma||^2 - 2 gamma.s / j + constant, where s is the sum of the j members with
    mean mu: a new member costs one product with the remaining rows.
    """

    def __init__(self, x: FloatArray) -> None:
        self.x = x - x.mean(axis=0)  # centred: less is lost in the difference of squares
        self.people: IntArray = np.arange(len(x))
        self.square: FloatArray = (self.x**2).sum(axis=1)
        self.open = np.ones(len(x), dtype=bool)

    @property
    def left(self) -> IntArray:
        """The rows not taken."""
        return np.flatnonzero(self.open)

    def pair(
        self, k: int, rng: np.random.Generator, *, apart: bool = False, no_single: bool = False
    ) -> ClusterPair:
        """Take two clusters of k, or, if they must stay apart, of as many as fit without overlap."""
        self._compact()
        c = [self._take(int(rng.choice(self.left)))]
        sum_c = self._dots(c[0])
        # line 6: the furthest from gamma_c
        f = [self._take(int(np.where(self.open, self.square - 2 * sum_c, -np.inf).argmax()))]
        sum_f = self._dots(f[0])
        for j in range(1, k):
            if apart and (len(self.left) < 2 or self._nearest(sum_f, j) == self._nearest(sum_c, j)):
                break  # [S alg. 4 line 15]: both would take the same face
            f.append(self._take(self._nearest(sum_f, j)))  # line 10
            c.append(self._take(self._nearest(sum_c, j)))  # line 11, from what line 10 has left
            if apart and _overlap(self.x[c], self.x[f]):
                self.open[[c.pop(), f.pop()]] = True  # line 16
                break
            sum_f, sum_c = sum_f + self._dots(f[-1]), sum_c + self._dots(c[-1])
        if no_single and len(c) == 1:
            c.append(self._take(self._nearest(sum_c, 1)))  # [S alg. 5 lines 1-6]
        return ClusterPair(self.people[c], self.people[f])

    def rest(self) -> IntArray:
        """Take all who are left."""
        rows = self.left
        self.open[rows] = False
        return self.people[rows]

    def _take(self, row: int) -> int:
        self.open[row] = False
        return row

    def _dots(self, row: int) -> FloatArray:
        dots: FloatArray = self.x @ self.x[row]  # (n, d) @ (d,): twice the speed of two columns at once
        return dots

    def _nearest(self, sums: FloatArray, j: int) -> int:
        return int(np.where(self.open, self.square - (2 / j) * sums, np.inf).argmin())

    def _compact(self) -> None:
        """Forget the taken rows once they are a quarter, so that scans shrink with what is left."""
        if 4 * len(self.left) < 3 * len(self.open):
            keep = self.open
            self.x, self.people, self.square = self.x[keep], self.people[keep], self.square[keep]
            self.open = np.ones(len(self.people), dtype=bool)


def _overlap(c: FloatArray, f: FloatArray) -> bool:
    """Whether r_c + r_f >= ||mu_c - mu_f|| [S 4.1-4.3]."""
    mu_c, mu_f = c.mean(axis=0), f.mean(axis=0)
    r_c, r_f = (np.linalg.norm(x - mu, axis=1).max() for x, mu in ((c, mu_c), (f, mu_f)))
    return bool(r_c + r_f >= np.linalg.norm(mu_c - mu_f))


def as_pair_k(k: object, people: int) -> int:
    """Return k as an int; two clusters of k people are needed [S thm. 3-4]."""
    number = as_k(k, people)
    if people < 2 * number:
        raise CannotGuarantee(
            f"Two clusters of k people each are needed: {2 * number} distinct subjects for k = {number}."
            f" Got {people}."
        )
    return number


def maps_to_own(new: FloatArray, owner: IntArray, codes: FloatArray, owners: IntArray) -> NDArray[np.bool_]:
    """Tell for which new codes no original of another owner is nearer than every one of their own.

    Parameters
    ----------
    new, owner : (m, d) and (m,)
        New codes and whose they are: a person, or a group all of which gets the code. Then nobody in
        the group is led to himself exactly when the nearest original is outside the group.
    codes, owners : (n, d) and (n,)
        All originals and whose they are.
    """
    order = np.argsort(owners, kind="stable")  # each owner's originals are then one range of columns
    first, last = (np.searchsorted(owners[order], owner, side) for side in ("left", "right"))
    shift = codes.mean(axis=0, dtype=np.float64)
    old, moved = codes[order] - shift, new - shift
    square = (old**2).sum(axis=1)
    # a difference within the rounding of the codes' own precision is a tie, and a tie is no lead
    slack = 64 * np.finfo(codes.dtype).eps * square.max()
    own, others = np.empty(len(new)), np.empty(len(new))
    step = max(1, _DISTANCES_AT_ONCE // len(codes))
    for start in range(0, len(new), step):
        distance = square - 2 * (moved[start : start + step] @ old.T)  # + ||new||^2, constant in a row
        for row, i in zip(distance, range(start, len(new)), strict=False):
            own[i] = row[first[i] : last[i]].min()
            row[first[i] : last[i]] = np.inf
        others[start : start + step] = distance.min(axis=1)
    home: NDArray[np.bool_] = others + slack >= own
    return home
