"""The evidence: a release is attacked and measured, and one page tells what was found."""

from __future__ import annotations

from ksame.report.examine import audit
from ksame.report.record import Pair, Report

__all__ = ["Pair", "Report", "audit"]
