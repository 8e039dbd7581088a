"""What a group's portrait should look like, and how far a picture is from it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ksame.core import FloatArray, Partition
from ksame.portraits.measure import Drawn
from ksame.represent.generator import ATTRIBUTES

__all__ = ["ASKED", "MALE", "NEAR", "NEUTRAL", "SMILING", "missed", "named", "span", "wishes_of"]

MALE, SMILING, NEUTRAL = 4.0, 3.0, -1.5  # log odds at which nobody doubts it
_SEEN, ASKED = {"gender": 2.0, "smile": 1.0}, {"gender": 3.0, "smile": 2.0}  # log odds that are enough
PLAIN = 1.0  # of the ground
NEAR = {"gender": 2.0, "age": 6.0, "smile": 1.5, "light": 1.5, "tone": 10.0, "yaw": 5.0}
NEAR |= {"nose": 2.5, "lips": 2.5, "width": 6.0}  # near enough


def wishes_of(attributes: FloatArray, partition: Partition, plain: bool) -> list[dict[str, float]]:
    """Return what each group's portrait should look like: its people's mean, without doubt of gender."""
    alone = np.arange(len(attributes))
    who = alone if partition.subjects is None else np.unique(partition.subjects, return_inverse=True)[1]
    wishes = []
    for rows in partition.groups:
        people = np.stack([attributes[rows[who[rows] == one]].mean(axis=0) for one in np.unique(who[rows])])
        mean = dict(zip(ATTRIBUTES, people.mean(axis=0).tolist(), strict=True))
        wish = {name: mean[name] for name in ("age", "light", "tone", "nose", "lips", "width")}
        smiling = (attributes[rows, ATTRIBUTES.index("smile")] > 0).mean() > 0.5
        wish |= {"gender": float(np.copysign(MALE, mean["gender"])), "smile": SMILING if smiling else NEUTRAL}
        wish |= {"yaw": 0.0} | {name: mean[name] for name in ("glasses", "hat") if mean[name] > 0}
        wishes.append(wish | ({"ground": PLAIN} if plain else {}))
    return wishes


def missed(wish: Mapping[str, float], seen: Mapping[str, float]) -> dict[str, float]:
    """Return by how much a picture misses each wish; who looks more like a man than wished misses none."""
    off = {name: wish[name] - seen[name] for name in NEAR}
    for name, enough in _SEEN.items():
        low, high = span(wish[name], enough)
        if low <= seen[name] <= high:
            off[name] = 0.0
    return off


def span(wish: float, enough: float) -> tuple[float, float]:
    """Return the log odds, from and to, that are enough for a wish."""
    least = min(enough, abs(wish))
    return (least, np.inf) if wish > 0 else (-np.inf, -least)


def named(seen: Drawn) -> dict[str, float]:
    """Return the attributes of the first of drawn portraits by their names."""
    return dict(zip(ATTRIBUTES, seen.attributes[0].tolist(), strict=True))
