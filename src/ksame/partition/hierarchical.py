"""Partition a linkage tree into groups of nearly equal size [A alg. 1]."""

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
from ksame.core.partition_type import Partition, SubjectCodes

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

    With n subjects there are m = n // k groups of floor(n/m) or ceil(n/m), the larger ones first.
    The tree is cut into as many clusters as there are groups still to form, and the next group is
    taken from the largest cluster: the lowest merge with enough subjects contributes its larger side
    whole and, from the other side, the subjects nearest to the larger side's mean. They are pruned
    from the tree, a merge with one remaining side collapses, and the tree is cut again; the linkage
    itself is computed once.

    Parameters
    ----------
    codes, k, subjects, rng
        As for every :class:`~ksame.partition.PartitionMethod`; ``rng`` is not used.
    linkage : {"ward", "single", "complete", "average"}
        Distance between two clusters [A 3.3.3].

    Notes
    -----
    Deviation: the paper gives n mod m groups k + 1 and the others k, which does not sum to n when
    n - mk > m; floor(n/m) and ceil(n/m) do. With these, and the larger ones first, the largest of
    m clusters always has enough members, so line 10 of the algorithm (cut into fewer clusters
    otherwise) is never reached.
    Deviation: the paper does not define the "lowest k members" (line 9); the authors' code takes
    the first rows and computes a new linkage for each group.

    Examples
    --------
    >>> hierarchical([[0.0], [9.0], [0.1], [9.2], [0.3], [9.1]], k=3).labels.tolist()
    [0, 1, 0, 1, 0, 1]
    """
    if linkage not in get_args(Linkage):
        raise UsageError(f"linkage must be one of {', '.join(get_args(Linkage))}. Got {linkage!r}.")
    import psutil  # here: its import takes 40 ms, and no other partition needs it

    by_subject = SubjectCodes.of(codes, k, subjects)
    x = by_subject.codes
    n = len(x)
    m = n // by_subject.k  # line 1
    # the distances and scipy's working copy: 2 * n (n - 1) / 2 doubles
    if 8 * n * (n - 1) > psutil.virtual_memory().available:
        raise UsageError(
            f"Linkage of {n} subjects needs {8e-9 * n * (n - 1):.1f} GB of memory, more than is available:"
            " use the partition mdav instead."
        )
    tree = scipy_linkage(pdist(x), linkage)  # line 3; given codes, scipy warns when they are square
    cut_tree = _CutTree(tree[:, :2], m)
    labels = np.empty(n, dtype=np.intp)
    sizes = [n // m + 1] * (n % m) + [n // m] * (m - n % m)  # line 2
    for group, members in enumerate(cut_tree.extract_groups(x, sizes)):
        labels[members] = group
    return by_subject.partition(labels)


def _squared(x: FloatArray, rows: list[int], group: list[int]) -> FloatArray:
    """Return the squared distances of rows to a group's mean."""
    return np.asarray(((x[rows] - x[group].mean(axis=0, dtype=np.float64)) ** 2).sum(axis=1))


_TOO_LARGE = -1


class _CutTree:
    """A linkage tree with a cut that divides it into clusters.

    Nodes are numbered as by scipy: leaves 0 .. n-1, merges n .. 2n-2 by ascending height, so that
    a number is a height without ties. A cut into m clusters undoes the m - 1 highest merges: those
    from ``cut`` up. Each extracted group lowers the number of clusters by one: either a whole
    cluster is removed and the merge above it collapses, or the lowest undone merge is restored. So
    the cut only rises, and no cut is recomputed.

    Ties: merges are ordered by height, then by the order of the linkage. Among equally large
    clusters the one with the lower root wins; among equally large sides the one with the smaller
    sum of squares about its mean, then the one with the first row; among equally near subjects the
    first row.

    In a cluster only the *minimal* merges matter: those with at least ``size`` leaves of which
    neither side has ``size``. A node above a minimal merge is ``_TOO_LARGE`` and needs no count: this
    makes pruning cheap, because a node falls below ``size`` only once. The leaves that remain of
    a minimal merge are too few for a group and are kept as a plain list.
    """

    def __init__(self, merges: NDArray[np.float64], clusters: int) -> None:
        """Read the first two columns of scipy's linkage and cut the tree into ``clusters``."""
        n = len(merges) + 1
        self.leaves = {leaf: [leaf] for leaf in range(n)}  # of nodes without children
        self.children: list[list[int]] = [[] for _ in range(n)] + merges.astype(int).tolist()
        self.top = len(self.children) - 1
        self.parent = [-1] * len(self.children)
        for node, children in enumerate(self.children):
            for child in children:
                self.parent[child] = node
        self.count = [1] * n + [_TOO_LARGE] * (n - 1)
        self.cut = len(self.children) - (clusters - 1)

    def extract_groups(self, x: FloatArray, sizes: list[int]) -> Iterator[list[int]]:
        """Yield one group of leaves per size, the larger sizes first [A alg. 1 lines 4-13]."""
        for previous, size in zip([0, *sizes], sizes, strict=False):
            if size != previous:
                self._find_minimal_merges(size)
            root = self._pop_largest()
            node = heappop(self.minimal[root])
            members, rest = self._split_merge(x, node, size)
            yield members
            self._prune(root, node, rest, size)

    def _find_minimal_merges(self, size: int) -> None:
        """Find the clusters below the cut and the minimal merges in each [A alg. 1 line 7]."""
        root = {self.top: self.top}  # cluster root of every remaining node; undefined above the cut
        for node in range(self.top, -1, -1):
            if node in root:
                root.update(
                    (child, root[node] if node < self.cut else child) for child in self.children[node]
                )
        self.minimal: dict[int, list[int]] = {}
        self.total: Counter[int] = Counter()
        for node in sorted(node for node in root if node < self.cut):
            heap = self.minimal.setdefault(root[node], [])
            if not self.children[node]:
                self.total[root[node]] += self.count[node]
            elif self._update_count(node, size):
                heap.append(node)  # ascending, hence a heap
        self.clusters = [(-total, node) for node, total in self.total.items()]
        heapify(self.clusters)

    def _update_count(self, node: int, size: int) -> bool:
        """Set a merge's count from its children's; return whether it has at least ``size`` leaves."""
        left, right = (self.count[child] for child in self.children[node])
        both = _TOO_LARGE if _TOO_LARGE in (left, right) else left + right
        self.count[node] = both if both < size else _TOO_LARGE
        return both >= size

    def _pop_largest(self) -> int:
        """Return the root of the largest cluster [A alg. 1 line 8], skipping outdated heap entries."""
        while True:
            total, root = heappop(self.clusters)
            if root in self.minimal and self.total[root] == -total:
                return root

    def _split_merge(self, x: FloatArray, node: int, size: int) -> tuple[list[int], list[int]]:
        """Split a minimal merge into a group and the members that remain [A alg. 1 line 9]."""
        one, two = (sorted(self._leaves_below(child)) for child in self.children[node])
        whole, other = sorted(
            (one, two), key=lambda side: (-len(side), _squared(x, side, side).sum(), side[0])
        )
        order = [other[i] for i in np.argsort(_squared(x, other, whole), kind="stable")]
        return whole + order[: size - len(whole)], order[size - len(whole) :]

    def _leaves_below(self, node: int) -> Iterator[int]:
        """Yield the leaves below a node."""
        stack = [node]
        while stack:
            node = stack.pop()
            stack += self.children[node]
            yield from self.leaves.get(node, ())

    def _prune(self, root: int, node: int, rest: list[int], size: int) -> None:
        """Keep only the rest of a minimal merge and cut again [A alg. 1 lines 11-12]."""
        heap, total = self.minimal.pop(root), self.total.pop(root) - size
        if rest:
            self.children[node], self.leaves[node], self.count[node] = [], rest, len(rest)
        else:
            parent, node = self.parent[node], self._collapse(node)
            root = node if root == parent else root
        if not total:
            return  # the whole cluster is removed: the undone merge above it has collapsed
        while node != root and self.count[node] != _TOO_LARGE:
            node = self.parent[node]
            if self._update_count(node, size):
                heappush(heap, node)
        self._add_cluster(root, heap, total)
        self._restore_lowest_merge(size)

    def _collapse(self, node: int) -> int:
        """Remove a node, replace its parent by its sibling and return the sibling."""
        parent = self.parent[node]
        if parent < 0:
            return node  # the last node
        sibling = next(child for child in self.children[parent] if child != node)
        self.children[parent] = []
        grandparent = self.parent[sibling] = self.parent[parent]
        if grandparent < 0:
            self.top = sibling
        else:
            self.children[grandparent] = [
                sibling if child == parent else child for child in self.children[grandparent]
            ]
        return sibling

    def _restore_lowest_merge(self, size: int) -> None:
        """Restore the lowest undone merge: two clusters become one."""
        while not self.children[self.cut]:
            self.cut += 1
        node, self.cut = self.cut, self.cut + 1
        one, two = self.children[node]
        short, heap = sorted((self.minimal.pop(one), self.minimal.pop(two)), key=len)
        if self._update_count(node, size):
            heap.append(node)
        for merge in short:
            heappush(heap, merge)
        self._add_cluster(node, heap, self.total.pop(one) + self.total.pop(two))

    def _add_cluster(self, root: int, heap: list[int], total: int) -> None:
        """Register a cluster."""
        self.minimal[root], self.total[root] = heap, total
        heappush(self.clusters, (-total, root))
