"""Partition codes (n, d) into groups of at least k distinct subjects.

One module and one function per algorithm, all with the signature of ``PartitionMethod``. To add one,
write its module, import its function here and list it in ``METHODS``: the command line, the contract
tests and ``select`` read that table.
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
    """The signature that all partitions share."""

    def __call__(
        self, codes: ArrayLike, k: int, *, subjects: ArrayLike | None = None, rng: RandomState = None
    ) -> Partition:
        """Return groups of at least k distinct subjects.

        Parameters
        ----------
        codes : (n, d) array
            One code gamma per face.
        k : int
            Least number of distinct subjects in a group.
        subjects : (n,) array, optional
            Subject of each face; by default every row is a distinct subject.
        rng : int, Generator or None
            Seed of a random method; None draws from the operating system.

        Raises
        ------
        CannotGuarantee
            If there are fewer than k distinct subjects.
        """


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
