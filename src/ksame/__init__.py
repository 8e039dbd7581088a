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
from ksame.core import (
    CannotGuarantee,
    FaceSet,
    Guarantee,
    GuaranteeError,
    GuaranteeViolated,
    InputError,
    KSameError,
    Partition,
    ResidualFace,
    UsageError,
    WeightsError,
)

if TYPE_CHECKING:
    from ksame.estimator import Microaggregator
    from ksame.pipeline import deidentify
    from ksame.release import Release, verify

__version__ = "0.1.0"

__all__ = [
    "CannotGuarantee",
    "FaceSet",
    "Guarantee",
    "GuaranteeError",
    "GuaranteeViolated",
    "InputError",
    "KSameError",
    "Microaggregator",
    "Partition",
    "Release",
    "ResidualFace",
    "UsageError",
    "WeightsError",
    "deidentify",
    "partition",
    "replace",
    "verify",
]

# Loaded at first use: they bring inference, codecs and scikit-learn, which codes alone do not need.
_LATER = {"Microaggregator": "estimator", "Release": "release", "deidentify": "pipeline", "verify": "release"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'ksame' has no attribute {name!r}")
    return getattr(import_module(f"ksame.{_LATER[name]}"), name)
