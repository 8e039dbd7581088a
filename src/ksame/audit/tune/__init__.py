"""Which k: privacy against utility over k and methods [A 4.4]."""

from __future__ import annotations

from ksame.audit.tune.result import TuningResult
from ksame.audit.tune.run import METHODS, tune

__all__ = ["METHODS", "TuningResult", "tune"]
