"""Target attributes of a group's portrait, and the error of an image."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ksame.core.arrays import FloatArray
from ksame.core.partition_type import Partition
from ksame.methods.anonfaces.measure import DrawnPortraits
from ksame.spaces.generator_space import ATTRIBUTES

__all__ = [
    "ATTRIBUTE_TOLERANCES",
    "REQUESTED_LOGITS",
    "SURE_MALE_LOGIT",
    "SURE_NEUTRAL_LOGIT",
    "SURE_SMILE_LOGIT",
    "attribute_dict",
    "attribute_error",
    "group_targets",
    "sufficient_range",
]

SURE_MALE_LOGIT, SURE_SMILE_LOGIT, SURE_NEUTRAL_LOGIT = 4.0, 3.0, -1.5  # log odds that are unambiguous
# Log odds that suffice, measured in an image and predicted for a code
_SEEN_LOGITS, REQUESTED_LOGITS = {"gender": 2.0, "smile": 1.0}, {"gender": 3.0, "smile": 2.0}
PLAIN_BACKGROUND = 1.0  # target busyness
ATTRIBUTE_TOLERANCES = {"gender": 2.0, "age": 6.0, "smile": 1.5, "light": 1.5, "tone": 10.0, "yaw": 5.0}
ATTRIBUTE_TOLERANCES |= {"nose": 2.5, "lips": 2.5, "width": 6.0}


def group_targets(attributes: FloatArray, partition: Partition, plain: bool) -> list[dict[str, float]]:
    """Return the target attributes of each group's portrait: its subjects' mean, of unambiguous gender."""
    alone = np.arange(len(attributes))
    subject = alone if partition.subjects is None else np.unique(partition.subjects, return_inverse=True)[1]
    targets = []
    for rows in partition.groups:
        own = subject[rows]
        people = np.stack([attributes[rows[own == one]].mean(axis=0) for one in np.unique(own)])
        mean = dict(zip(ATTRIBUTES, people.mean(axis=0).tolist(), strict=True))
        target = {name: mean[name] for name in ("age", "light", "tone", "nose", "lips", "width")}
        smiling = (attributes[rows, ATTRIBUTES.index("smile")] > 0).mean() > 0.5
        target |= {
            "gender": float(np.copysign(SURE_MALE_LOGIT, mean["gender"])),
            "smile": SURE_SMILE_LOGIT if smiling else SURE_NEUTRAL_LOGIT,
        }
        target |= {"yaw": 0.0} | {name: mean[name] for name in ("glasses", "hat") if mean[name] > 0}
        targets.append(target | ({"background": PLAIN_BACKGROUND} if plain else {}))
    return targets


def attribute_error(target: Mapping[str, float], seen: Mapping[str, float]) -> dict[str, float]:
    """Return the error of each attribute; log odds beyond the target count as 0."""
    off = {name: target[name] - seen[name] for name in ATTRIBUTE_TOLERANCES}
    for name, enough in _SEEN_LOGITS.items():
        low, high = sufficient_range(target[name], enough)
        if low <= seen[name] <= high:
            off[name] = 0.0
    return off


def sufficient_range(target: float, enough: float) -> tuple[float, float]:
    """Return the range of log odds that suffices for a target."""
    least = min(enough, abs(target))
    return (least, np.inf) if target > 0 else (-np.inf, -least)


def attribute_dict(seen: DrawnPortraits) -> dict[str, float]:
    """Return the attributes of the first portrait by name."""
    return dict(zip(ATTRIBUTES, seen.attributes[0].tolist(), strict=True))
