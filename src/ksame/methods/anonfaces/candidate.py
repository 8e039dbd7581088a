"""PortraitCandidate portraits, the chosen portraits and their affinity to groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.guarantee import Guarantee
from ksame.methods.anonfaces.measure import DrawnPortraits, LightChange

__all__ = ["GroupAffinity", "PortraitSet"]


class GroupAffinity(NamedTuple):
    """Affinity of faces to a group rather than to others of its gender: see ``group_affinity``."""

    people: float  # to one another
    least: float  # of the person least similar to the others: how mixed the group is
    portrait: float
    is_distinct: bool  # the people are nearer to each other than to others, as people of one ancestry are
    is_mismatched: bool  # the portrait is less similar to them than it should be, or more similar to others


class PortraitSet(NamedTuple):
    """The portraits of groups."""

    codes: FloatArray  # (g, d): the codes drawn
    lights: Sequence[LightChange]  # g: the light changes applied
    drawn: Sequence[NDArray[np.uint8]]  # g images
    requested: FloatArray  # (g, a): target attributes
    seen: FloatArray  # (g, a): measured attributes; NaN where no face is found
    guarantee: Guarantee
    at_risk: IntArray  # rows of faces that a recogniser matches to their group's portrait: private
    affinity: Sequence[GroupAffinity]  # g: private


class PortraitCandidate(NamedTuple):
    """A candidate portrait."""

    code: FloatArray
    image: NDArray[np.uint8]
    seen: DrawnPortraits | None
    error: float  # largest attribute error, in tolerances
    flaws: float  # 0: the image looks like a photo of a bare-headed person
    faces: dict[str, FloatArray]  # embeddings by verifier
    risky: NDArray[np.bool_]  # (m,): members that a verifier matches to it
    light: LightChange = LightChange()
    artifact: float = 0.0  # log odds of a hat, a hand or a neighbour: see ``preview.artifact_score``
    is_final: bool = False  # attributes corrected and the published image verified
