"""Hierarchical partition [A alg. 1]: one linkage tree, cut and pruned until nobody is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import pdist

from ksame.core.arrays import FloatArray, RandomState
from ksame.core.errors import UsageError
from ksame.core.partition_type import Partition
from ksame.partition.people import SubjectCodes

Linkage = Literal["ward", "single", "complete", "average"]


def hierarchical(
    codes: ArrayLike,
    k: int,
    *,
    subjects: ArrayLike | None = None,
    rng: RandomState = None,
    linkage: Linkage = "ward",
) -> Partition:
    """Partition along a linkage tree into groups of nearly equal size [A alg. 1].

    With n people there are m = n // k groups of floor(n/m) or ceil(n/m), the larger ones first.
    Each group comes from the largest subtree of the tree cut into as many clusters as groups are
    still to be made, and is the *lowest* of its members: the lowest merge that gathers enough
    people gives its larger side whole and, of the other side, those nearest to the larger side's
    mean. They are pruned from the tree, a merge left with one side collapses, and the tree is cut
    again; the linkage itself is computed once.

    Ties: merges are ordered by height and then as the linkage made them. Of equally large
    subtrees the one with the lower last merge is taken, of equally large sides the one with less
    squares about its mean, then the one with the first row, of equally near people the first row.

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    k : int
        Least number of distinct subjects in a group.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    rng : int, Generator or None
        Not used: nothing here is random.
    linkage : {"ward", "single", "complete", "average"}
        What the distance of two clusters is [A 3.3.3].

    Notes
    -----
    Deviation: the paper gives n mod m groups k + 1 and the others k, which does not sum to n when
    n - mk > m; floor(n/m) and ceil(n/m) do. With these, and the larger ones first, the largest of
    m clusters always has enough members, so that line 10 of the algorithm (cut into fewer when it
    has not) is never reached.
    Deviation: what the "lowest k members" (line 9) are is not defined in the paper; the authors'
    code takes those that come first in the rows and computes a new linkage for each group.

    Time after the linkage is O(n d + n log n), against O(n^2 d) for the linkage.

    Examples
    --------
    >>> hierarchical([[0.0], [9.0], [0.1], [9.2], [0.3], [9.1]], k=3).labels.tolist()
    [0, 1, 0, 1, 0, 1]
    """
    if linkage not in get_args(Linkage):
        raise UsageError(f"linkage must be one of {', '.join(get_args(Linkage))}. Got {linkage!r}.")
    import psutil  # here: its import takes 40 ms, and no other partition needs it

    people = SubjectCodes.of(codes, k, subjects)
    x = people.codes
    n = len(x)
    m = n // people.k  # line 1
    # the distances and the copy that scipy works on: 2 * n (n - 1) / 2 doubles
    if 8 * n * (n - 1) > psutil.virtual_memory().available:
        raise UsageError(
            f"Linkage of {n} people needs {8e-9 * n * (n - 1):.1f} GB of memory, more than there is:"
            " use the partition mdav instead."
        )
    tree = scipy_linkage(pdist(x), linkage)  # line 3; of bare codes, scipy warns when they are square
    forest = _Forest(tree[:, :2], m)
    labels = np.empty(n, dtype=np.intp)
    sizes = [n // m + 1] * (n % m) + [n // m] * (m - n % m)  # line 2
    for group, members in enumerate(forest.harvest(x, sizes)):
        labels[members] = group
    return people.partition(labels)


def _squared(x: FloatArray, rows: list[int], group: list[int]) -> FloatArray:
    """Return the squared distances of rows to a group's mean."""
    return np.asarray(((x[rows] - x[group].mean(axis=0, dtype=np.float64)) ** 2).sum(axis=1))


_BIG = -1


class _Forest:
    """The tree under and over the cut.

    Nodes are numbered as by scipy: leaves 0 .. n-1, merges n .. 2n-2 by ascending height, so that
    a number is a height without ties. A cut into m clusters undoes the m - 1 highest merges: those
    from ``line`` up. Each harvest lowers the number of clusters by one: either a whole cluster
    goes and the merge over it collapses, or the lowest undone merge is done again. So the line
    only rises, and no cut is computed anew.

    In a cluster only the *ripe* merges matter: those that gather at least ``size`` leaves while
    neither side does. A node over a ripe one is ``_BIG`` and needs no count: this makes pruning
    cheap, because a node turns from big to small once in its life. What a harvest leaves of a
    ripe merge is too few for any group of its own and is kept as a plain list of leaves.
    """

    def __init__(self, merges: NDArray[np.float64], clusters: int) -> None:
        """Take the first two columns of scipy's linkage, to be cut into so many clusters."""
        n = len(merges) + 1
        self.leaves = {leaf: [leaf] for leaf in range(n)}  # of nodes without sides
        self.sides: list[list[int]] = [[] for _ in range(n)] + merges.astype(int).tolist()
        self.top = len(self.sides) - 1
        self.parent = [-1] * len(self.sides)
        for node, sides in enumerate(self.sides):
            for side in sides:
                self.parent[side] = node
        self.count = [1] * n + [_BIG] * (n - 1)
        self.line = len(self.sides) - (clusters - 1)

    def harvest(self, x: FloatArray, sizes: list[int]) -> Iterator[list[int]]:
        """Yield one group of leaves per size, the larger sizes first [A alg. 1 lines 4-13]."""
        for earlier, size in zip([0, *sizes], sizes, strict=False):
            if size != earlier:
                self._survey(size)
            root = self._largest()
            node = heappop(self.ripe[root])
            members, rest = self._lowest(x, node, size)
            yield members
            self._prune(root, node, rest, size)

    def _survey(self, size: int) -> None:
        """Find the clusters under the line and the ripe merges in each [A alg. 1 line 7]."""
        root = {self.top: self.top}  # of every node that is left; over the line it means nothing
        for node in range(self.top, -1, -1):
            if node in root:
                root.update((side, root[node] if node < self.line else side) for side in self.sides[node])
        self.ripe: dict[int, list[int]] = {}
        self.total: Counter[int] = Counter()
        for node in sorted(node for node in root if node < self.line):
            heap = self.ripe.setdefault(root[node], [])
            if not self.sides[node]:
                self.total[root[node]] += self.count[node]
            elif self._settle(node, size):
                heap.append(node)  # ascending, hence a heap
        self.clusters = [(-total, node) for node, total in self.total.items()]
        heapify(self.clusters)

    def _settle(self, node: int, size: int) -> bool:
        """Set a merge's count from its sides'; return whether it is ripe."""
        left, right = (self.count[side] for side in self.sides[node])
        both = _BIG if _BIG in (left, right) else left + right
        self.count[node] = both if both < size else _BIG
        return both >= size

    def _largest(self) -> int:
        """Return the root of the largest cluster [A alg. 1 line 8], past entries of former ones."""
        while True:
            total, root = heappop(self.clusters)
            if root in self.ripe and self.total[root] == -total:
                return root

    def _lowest(self, x: FloatArray, node: int, size: int) -> tuple[list[int], list[int]]:
        """Return the members that a ripe merge gives and those it keeps [A alg. 1 line 9]."""
        one, two = (sorted(self._under(side)) for side in self.sides[node])
        whole, other = sorted(
            (one, two), key=lambda side: (-len(side), _squared(x, side, side).sum(), side[0])
        )
        order = [other[i] for i in np.argsort(_squared(x, other, whole), kind="stable")]
        return whole + order[: size - len(whole)], order[size - len(whole) :]

    def _under(self, node: int) -> Iterator[int]:
        """Yield the leaves under a node."""
        stack = [node]
        while stack:
            node = stack.pop()
            stack += self.sides[node]
            yield from self.leaves.get(node, ())

    def _prune(self, root: int, node: int, rest: list[int], size: int) -> None:
        """Leave only the rest of a ripe merge and cut again [A alg. 1 lines 11-12]."""
        heap, total = self.ripe.pop(root), self.total.pop(root) - size
        if rest:
            self.sides[node], self.leaves[node], self.count[node] = [], rest, len(rest)
        else:
            over, node = self.parent[node], self._collapse(node)
            root = node if root == over else root
        if not total:
            return  # the whole cluster went: the undone merge over it has collapsed
        while node != root and self.count[node] != _BIG:
            node = self.parent[node]
            if self._settle(node, size):
                heappush(heap, node)
        self._add(root, heap, total)
        self._redo(size)

    def _collapse(self, node: int) -> int:
        """Take a node out of the tree, so that its sibling stands for their merge; return the sibling."""
        over = self.parent[node]
        if over < 0:
            return node  # the last of all
        heir = next(side for side in self.sides[over] if side != node)
        self.sides[over] = []
        above = self.parent[heir] = self.parent[over]
        if above < 0:
            self.top = heir
        else:
            self.sides[above] = [heir if side == over else side for side in self.sides[above]]
        return heir

    def _redo(self, size: int) -> None:
        """Do the lowest undone merge again: two clusters become one."""
        while not self.sides[self.line]:
            self.line += 1
        node, self.line = self.line, self.line + 1
        one, two = self.sides[node]
        short, heap = sorted((self.ripe.pop(one), self.ripe.pop(two)), key=len)
        if self._settle(node, size):
            heap.append(node)
        for ripe in short:
            heappush(heap, ripe)
        self._add(node, heap, self.total.pop(one) + self.total.pop(two))

    def _add(self, root: int, heap: list[int], total: int) -> None:
        """Enter a cluster."""
        self.ripe[root], self.total[root] = heap, total
        heappush(self.clusters, (-total, root))
