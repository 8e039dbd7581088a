"""Form pairs of distant clusters [S alg. 3-5] and check that a swap maps nobody to themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import CannotGuarantee
from ksame.core.partition_type import as_k

_MAX_DISTANCES = 1 << 22  # distances held in memory at a time: 32 MB


class ClusterPair(NamedTuple):
    """Two clusters of subjects in order of growth: C_c around a random face, C_f far from it."""

    c: IntArray
    f: IntArray


class UnassignedCodes:
    """The subjects not yet in a cluster, with the terms from which all distances follow.

    ||gamma - mu||^2 = ||gamma||^2 - 2 gamma.s / j + constant, where s is the sum of the j members with
    mean mu: adding a member costs one product with the remaining rows.
    """

    def __init__(self, x: FloatArray) -> None:
        self.x = x - x.mean(axis=0)  # centred, to lose less precision in the difference of squares
        self.subjects: IntArray = np.arange(len(x))
        self.square: FloatArray = (self.x**2).sum(axis=1)
        self.unassigned = np.ones(len(x), dtype=bool)

    @property
    def remaining(self) -> IntArray:
        """The unassigned rows."""
        return np.flatnonzero(self.unassigned)

    def take_pair(
        self, k: int, rng: np.random.Generator, *, no_overlap: bool = False, grow_single: bool = False
    ) -> ClusterPair:
        """Take two clusters of k subjects, or with ``no_overlap`` as many as fit without overlap."""
        self._compact()
        c = [self._take(int(rng.choice(self.remaining)))]
        sum_c = self._dots(c[0])
        # line 6: the furthest from gamma_c
        f = [self._take(int(np.where(self.unassigned, self.square - 2 * sum_c, -np.inf).argmax()))]
        sum_f = self._dots(f[0])
        for j in range(1, k):
            if no_overlap and (len(self.remaining) < 2 or self._nearest(sum_f, j) == self._nearest(sum_c, j)):
                break  # [S alg. 4 line 15]: both clusters would take the same face
            f.append(self._take(self._nearest(sum_f, j)))  # line 10
            c.append(self._take(self._nearest(sum_c, j)))  # line 11, from the rows that line 10 leaves
            if no_overlap and _overlap(self.x[c], self.x[f]):
                self.unassigned[[c.pop(), f.pop()]] = True  # line 16
                break
            sum_f, sum_c = sum_f + self._dots(f[-1]), sum_c + self._dots(c[-1])
        if grow_single and len(c) == 1:
            c.append(self._take(self._nearest(sum_c, 1)))  # [S alg. 5 lines 1-6]
        return ClusterPair(self.subjects[c], self.subjects[f])

    def take_rest(self) -> IntArray:
        """Take all remaining subjects."""
        rows = self.remaining
        self.unassigned[rows] = False
        return self.subjects[rows]

    def _take(self, row: int) -> int:
        self.unassigned[row] = False
        return row

    def _dots(self, row: int) -> FloatArray:
        dots: FloatArray = self.x @ self.x[row]  # (n, d) @ (d,): twice the speed of two columns at once
        return dots

    def _nearest(self, sums: FloatArray, j: int) -> int:
        return int(np.where(self.unassigned, self.square - (2 / j) * sums, np.inf).argmin())

    def _compact(self) -> None:
        """Drop the assigned rows once they are a quarter of all, so that scans shrink."""
        if 4 * len(self.remaining) < 3 * len(self.unassigned):
            keep = self.unassigned
            self.x, self.subjects, self.square = self.x[keep], self.subjects[keep], self.square[keep]
            self.unassigned = np.ones(len(self.subjects), dtype=bool)


def _overlap(c: FloatArray, f: FloatArray) -> bool:
    """Return whether r_c + r_f >= ||mu_c - mu_f|| [S 4.1-4.3]."""
    mu_c, mu_f = c.mean(axis=0), f.mean(axis=0)
    r_c, r_f = (np.linalg.norm(x - mu, axis=1).max() for x, mu in ((c, mu_c), (f, mu_f)))
    return bool(r_c + r_f >= np.linalg.norm(mu_c - mu_f))


def as_pair_k(k: object, subjects: int) -> int:
    """Return k as an int, checked for two clusters of k subjects each [S thm. 3-4]."""
    number = as_k(k, subjects)
    if subjects < 2 * number:
        raise CannotGuarantee(
            f"Two clusters of k subjects each are needed: {2 * number} distinct subjects for k = {number}."
            f" Got {subjects}."
        )
    return number


def maps_to_own(new: FloatArray, owner: IntArray, codes: FloatArray, owners: IntArray) -> NDArray[np.bool_]:
    """Return which new codes have no original of another owner nearer than all of their own originals.

    Parameters
    ----------
    new, owner : (m, d) and (m,)
        New codes and their owners: subjects, or groups that share a code. With groups, no member
        maps to their own face exactly when the nearest original is outside the group.
    codes, owners : (n, d) and (n,)
        All originals and their owners.
    """
    order = np.argsort(owners, kind="stable")  # each owner's originals are then one range of columns
    first, last = (np.searchsorted(owners[order], owner, side) for side in ("left", "right"))
    shift = codes.mean(axis=0, dtype=np.float64)
    old, moved = codes[order] - shift, new - shift
    square = (old**2).sum(axis=1)
    # a difference within the rounding of the codes' precision is a tie, which counts as a match to own
    slack = 64 * np.finfo(codes.dtype).eps * square.max()
    own, others = np.empty(len(new)), np.empty(len(new))
    step = max(1, _MAX_DISTANCES // len(codes))
    for start in range(0, len(new), step):
        distance = square - 2 * (moved[start : start + step] @ old.T)  # + ||new||^2, constant in a row
        for row, i in zip(distance, range(start, len(new)), strict=False):
            own[i] = row[first[i] : last[i]].min()
            row[first[i] : last[i]] = np.inf
        others[start : start + step] = distance.min(axis=1)
    own_nearest: NDArray[np.bool_] = others + slack >= own
    return own_nearest
