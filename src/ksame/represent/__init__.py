"""From faces to codes (n, d) and back."""

from __future__ import annotations

from ksame.represent.appearance import AppearanceSpace
from ksame.represent.eigen import EigenSpace
from ksame.represent.pixel import PixelSpace

__all__ = ["AppearanceSpace", "EigenSpace", "PixelSpace"]
