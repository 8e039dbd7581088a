"""Face de-identification with a proof: the k-Same family, certificates, and attacks on your own release."""

from __future__ import annotations

from ksame import partition
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

__version__ = "0.1.0"

__all__ = [
    "CannotGuarantee",
    "FaceSet",
    "Guarantee",
    "GuaranteeError",
    "GuaranteeViolated",
    "InputError",
    "KSameError",
    "Partition",
    "ResidualFace",
    "UsageError",
    "WeightsError",
    "partition",
]
