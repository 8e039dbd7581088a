"""Synthetic portraits that heads are cut from: drawn by the generator, or a folder of the user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ksame.core.arrays import FloatArray
from ksame.core.errors import InputError, UsageError
from ksame.core.partition_type import Partition
from ksame.io.photos import read_pixels
from ksame.io.sources import find_sources
from ksame.methods.anonfaces.measure import largest_faces, portrait_attributes
from ksame.methods.anonfaces.targets import ATTRIBUTE_TOLERANCES, group_targets
from ksame.render.head.cutout import head_flaws
from ksame.spaces.generator_space import ATTRIBUTES

__all__ = ["choose_portraits", "cut_flaw", "largest_face_points"]

FINE_CUT_PX = 12.0  # canonical px of hair that a portrait's edge may cut off
CUT_UNIT_PX = 150.0  # canonical px of cut hair that count as a whole flaw
CHOICE_ATTRIBUTES = ("gender", "age", "light", "tone")


def cut_flaw(portrait: NDArray[np.uint8], points: FloatArray) -> float:
    """Return how wrong a portrait is to cut a head from: hair cut off by its edge; 0 is right."""
    flaws = head_flaws(portrait, points)
    cut = max(flaws.crown, 0.6 * flaws.bottom)
    return 0.0 if cut <= FINE_CUT_PX else min(1.0, 0.05 + cut / CUT_UNIT_PX)


def largest_face_points(portrait: NDArray[np.uint8]) -> FloatArray | None:
    """Return the mesh points (468, 2) of a portrait's largest face; None if there is none."""
    rows, faces = largest_faces(portrait[None])
    return faces.points[0] if len(rows) else None


def choose_portraits(
    folder: str | Path, attributes: FloatArray, groups: Partition
) -> list[NDArray[np.uint8]]:
    """Return one portrait of a folder for each group, each used once: those most like the groups' people.

    Raises
    ------
    UsageError
        If the folder holds too few portraits from which a head can be cut.
    """
    found: list[tuple[NDArray[np.uint8], FloatArray]] = []
    for source in find_sources([folder]):
        try:
            portrait = read_pixels(source)
        except InputError:
            continue
        rows, faces = largest_faces(portrait[None])
        if len(rows):
            flaw = cut_flaw(portrait, faces.points[0])
            found.append((portrait, np.append(portrait_attributes(faces, np.zeros((1, 0)), None)[0], flaw)))
    if len(found) < len(groups.groups):
        raise UsageError(
            f"{folder} holds {len(found)} portraits with a face, fewer than the {len(groups.groups)} groups:"
            " add portraits, or leave out --heads."
        )
    columns = [ATTRIBUTES.index(name) for name in CHOICE_ATTRIBUTES]
    scale = np.array([ATTRIBUTE_TOLERANCES[name] for name in CHOICE_ATTRIBUTES])
    wanted = np.array(
        [[t[name] for name in CHOICE_ATTRIBUTES] for t in group_targets(attributes, groups, False)]
    )
    seen = np.array([row for _, row in found])
    cost = (((wanted[:, None] - seen[None, :, columns]) / scale) ** 2).sum(axis=2) + 20 * seen[:, -1]
    _, chosen = linear_sum_assignment(cost)
    return [found[row][0] for row in chosen]
