"""Attacks on a release: what recognisers make of it. An attacker sees pictures, and knows the method."""

from __future__ import annotations

from ksame.attack.attacks import among, group, intersection, naive, parrot, reconstruction, reverse
from ksame.attack.score import Result

__all__ = ["Result", "among", "group", "intersection", "naive", "parrot", "reconstruction", "reverse"]
