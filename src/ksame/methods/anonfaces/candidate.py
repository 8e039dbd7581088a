"""Candidates for portraits, the portraits that were chosen, and their affinity to groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.guarantee import Guarantee
from ksame.methods.anonfaces.measure import (
    DrawnPortraits,
    LightChange,
)

__all__ = ["GroupAffinity", "PortraitSet"]


class GroupAffinity(NamedTuple):
    """How much nearer faces are to a group's people than to others of its gender: see ``group_affinity``."""

    people: float  # to one another
    least: float  # of the person who is least like the others: how mixed the group is
    portrait: float
    apart: bool  # the people stand apart, as those of one descent do
    unlike: bool  # the portrait is less like them than it should be, or more like others


class PortraitSet(NamedTuple):
    """The portraits of groups."""

    codes: FloatArray  # (g, d): what was drawn
    lights: Sequence[LightChange]  # g: how it was exposed then
    drawn: Sequence[NDArray[np.uint8]]  # g pictures
    wished: FloatArray  # (g, a): the attributes that were asked for
    seen: FloatArray  # (g, a): those that the pictures have; NaN where no face is found
    guarantee: Guarantee
    at_risk: IntArray  # rows of faces that a recogniser takes for their group's portrait: private
    affinity: Sequence[GroupAffinity]  # g: private


class Candidate(NamedTuple):
    """One try at a portrait."""

    code: FloatArray
    image: NDArray[np.uint8]
    seen: DrawnPortraits | None
    error: float  # of the attribute that is farthest off, in what is near enough
    flaws: float  # 0: it looks like a photo of a bare-headed person
    faces: dict[str, FloatArray]  # what recognisers make of it
    risky: NDArray[np.bool_]  # (m,): whom of the group they take it for
    light: LightChange = LightChange()  # how it is exposed
    odd: float = 0.0  # how surely it shows a hat, a hand or a neighbour: see `glance.odd`
    done: bool = False  # its attributes were corrected
