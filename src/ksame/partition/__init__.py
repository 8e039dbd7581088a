"""Partitions: codes (n, d) and k in, groups of at least k distinct subjects out.

One function per method, all with the signature ``(codes, k, *, subjects=None, rng=None)``.
"""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from ksame.core.arrays import RandomState
from ksame.core.partition_type import Partition
from ksame.partition.hierarchical import hierarchical
from ksame.partition.kmeans import kmeans
from ksame.partition.kmember import kmember
from ksame.partition.ksame import ksame
from ksame.partition.maxdist import maxdist
from ksame.partition.mdav import mdav
from ksame.partition.quality import PartitionQuality, partition_quality
from ksame.partition.random import random
from ksame.partition.select import StratumMerge, make_strata, select


class PartitionMethod(Protocol):
    """What all partitions have in common."""

    def __call__(
        self, codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
    ) -> Partition:
        """Return groups of at least k distinct subjects."""


METHODS: dict[str, PartitionMethod] = {
    "mdav": mdav,
    "ksame": ksame,
    "hierarchical": hierarchical,
    "kmeans": kmeans,
    "kmember": kmember,
    "maxdist": maxdist,
    "random": random,
}

__all__ = [
    "METHODS",
    "PartitionMethod",
    "PartitionQuality",
    "StratumMerge",
    "hierarchical",
    "kmeans",
    "kmember",
    "ksame",
    "make_strata",
    "maxdist",
    "mdav",
    "partition_quality",
    "random",
    "select",
]
