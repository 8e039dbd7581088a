"""Attacks on a release. An attacker sees images and knows the method, and tries to name the people."""

from __future__ import annotations

from ksame.attack.attacks import (
    automatic_parrot,
    enhancement,
    group,
    intersection,
    naive,
    parrot,
    reconstruction,
    reverse,
    top_guesses,
)
from ksame.attack.score import AttackResult

__all__ = [
    "AttackResult",
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
