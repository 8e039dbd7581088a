"""Attacks on a release: what recognisers make of it. An attacker sees pictures, and knows the method."""

from __future__ import annotations

from ksame.attack.attacks import automatic_parrot, enhancement, group, naive, parrot, reconstruction, reverse
from ksame.attack.groups import intersection, top_guesses
from ksame.attack.score import Result

__all__ = [
    "Result",
    "automatic_parrot",
    "enhancement",
    "group",
    "intersection",
    "naive",
    "parrot",
    "reconstruction",
    "reverse",
    "top_guesses",
]
