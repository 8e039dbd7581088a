"""Face de-identification with a proof: the k-Same family, and certificates that anyone can verify.

>>> import numpy as np, ksame
>>> codes = np.random.default_rng(0).normal(size=(20, 8))
>>> groups = ksame.partition.mdav(codes, k=5)
>>> new, guarantee = ksame.replace.centroid(codes, groups)
>>> len(np.unique(new, axis=0)), guarantee.bound
(4, 0.2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ksame import partition, replace
from ksame.core.errors import (
    CannotGuarantee,
    GuaranteeError,
    GuaranteeViolated,
    InputError,
    KSameError,
    ResidualFace,
    UsageError,
    WeightsError,
)
from ksame.core.faces import FaceSet
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition

if TYPE_CHECKING:
    from ksame import attack, methods
    from ksame.audit.report.result import Report
    from ksame.audit.run import audit
    from ksame.core.context import Context
    from ksame.methods.microaggregator import Microaggregator
    from ksame.pipeline.run import deidentify, run
    from ksame.release.verify import verify
    from ksame.release.writer import Release

__version__ = "0.1.0"

__all__ = [
    "CannotGuarantee",
    "Context",
    "FaceSet",
    "Guarantee",
    "GuaranteeError",
    "GuaranteeViolated",
    "InputError",
    "KSameError",
    "Microaggregator",
    "Partition",
    "Release",
    "Report",
    "ResidualFace",
    "UsageError",
    "WeightsError",
    "attack",
    "audit",
    "deidentify",
    "methods",
    "partition",
    "replace",
    "run",
    "verify",
]

# Loaded at first use: they bring inference, codecs, tables and scikit-learn, which codes alone do not need.
_LATER = {
    "Microaggregator": "ksame.methods.microaggregator",
    "Release": "ksame.release",
    "Report": "ksame.audit.report.result",
    "attack": "ksame",
    "audit": "ksame",
    "methods": "ksame",
    "Context": "ksame.core.context",
    "deidentify": "ksame.pipeline",
    "run": "ksame.pipeline",
    "verify": "ksame.release",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'ksame' has no attribute {name!r}")
    home = _LATER[name]
    return import_module(f"ksame.{name}") if home == "ksame" else getattr(import_module(home), name)
