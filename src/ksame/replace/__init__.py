"""Replace codes (n, d) by new codes and state the guarantee that holds for them.

``centroid`` and ``mix`` publish one face per group of a Partition; ``furthest`` and ``kdiff`` form
their own pairs of clusters; ``shift`` needs a pool of synthetic faces and no other subjects. For
proofs, assumptions and tests see docs/explanation/guarantees/.
"""

from __future__ import annotations

from ksame.replace.centroid import centroid
from ksame.replace.furthest import FurthestPairs, furthest, furthest_pairs
from ksame.replace.kdiff import kdiff
from ksame.replace.mix import RiskWeights, mix, risk_weights
from ksame.replace.shift import assign_identities, shift

__all__ = [
    "FurthestPairs",
    "RiskWeights",
    "assign_identities",
    "centroid",
    "furthest",
    "furthest_pairs",
    "kdiff",
    "mix",
    "risk_weights",
    "shift",
]
