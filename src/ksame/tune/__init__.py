"""Which k: privacy against utility over k and methods [A 4.4]."""

from __future__ import annotations

from ksame.tune.run import METHODS, tune
from ksame.tune.tuning import Tuning

__all__ = ["METHODS", "Tuning", "tune"]
