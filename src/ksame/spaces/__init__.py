"""Encode faces as codes (n, d) and decode them."""

from __future__ import annotations

from ksame.spaces.appearance import AppearanceSpace
from ksame.spaces.eigen import EigenSpace
from ksame.spaces.pixel import PixelSpace

__all__ = ["AppearanceSpace", "EigenSpace", "PixelSpace"]
