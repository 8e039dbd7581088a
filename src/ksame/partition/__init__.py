"""Partitions: codes (n, d) and k in, groups of at least k distinct subjects out.

One function per method, all with the signature ``(codes, k, *, subjects=None, rng=None)``.
"""

from __future__ import annotations

from ksame.partition.ksame import ksame

METHODS = {"ksame": ksame}

__all__ = ["METHODS", "ksame"]
