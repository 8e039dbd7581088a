"""Replacements: codes (n, d) and groups in, new codes and the claim that is true of them out."""

from __future__ import annotations

from ksame.replace.mean import centroid

__all__ = ["centroid"]
