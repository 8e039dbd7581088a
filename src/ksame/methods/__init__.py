"""Methods: what each de-identification method groups, replaces and promises.

>>> METHODS["ksame-m"].k, METHODS["shift"].media
(5, ('photos', 'videos'))
"""

from __future__ import annotations

from typing import Any

from ksame.methods.anonfaces.method import AnonFaces
from ksame.methods.base import Method, Plan
from ksame.methods.heads.method import Heads
from ksame.methods.ksame import KDiffFurthest, KSame, KSameEigen, KSameFurthest, KSamePixel
from ksame.methods.obscure import Obscure
from ksame.methods.shift.method import Shift
from ksame.render.obscure import METHODS as AD_HOC

__all__ = [
    "AD_HOC",
    "METHODS",
    "AnonFaces",
    "Heads",
    "KDiffFurthest",
    "KSame",
    "KSameEigen",
    "KSameFurthest",
    "KSamePixel",
    "Method",
    "Obscure",
    "Plan",
    "Shift",
]

_METHODS: tuple[Method[Any], ...] = (
    KSame(),
    KSamePixel(),
    KSameEigen(),
    KSameFurthest(),
    KDiffFurthest(),
    AnonFaces(),
    Heads(),
    Shift(),
    *(Obscure(name=name) for name in AD_HOC),
)
METHODS = {method.name: method for method in _METHODS}
"""Every method by its name, with its default options."""
