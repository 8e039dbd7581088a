"""Where heads go, and the union of a group's heads: what is read off the photos before they are blanked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.geometry import FRAME, five_points, transform
from ksame.io.photos import read_pixels
from ksame.io.sources import Source
from ksame.render.head.canvas import CANVAS_SIDE, place_head, placement_scale
from ksame.render.head.region import head_mask

__all__ = ["FaceMasks", "group_placements", "hair_extent", "read_masks"]

HAIR_UNIT_PX = 40.0  # canonical px that count as much as a distance of 1 between codes of length 1


class FaceMasks(NamedTuple):
    """The heads of all faces on the canvas."""

    packed: NDArray[np.uint8]  # (n, 640 * 640 / 8): masks as bits
    parsed: NDArray[np.bool_]  # (n,): whether the parser saw the head

    def union(self, rows: IntArray) -> NDArray[np.bool_]:
        """Return the union of the masks of some faces."""
        bits = np.bitwise_or.reduce(self.packed[rows], axis=0)
        return np.unpackbits(bits).reshape(CANVAS_SIDE, CANVAS_SIDE).astype(bool)


def read_masks(people: IdentifiedPhotos, placements: Sequence[FloatArray], context: Context) -> FaceMasks:
    """Return the mask of every face; each photo is read once."""
    found = people.photos
    used = np.unique(found.photo).tolist()
    rows = [np.flatnonzero(found.photo == photo) for photo in used]
    tasks = [(found.sources[photo], some) for photo, some in zip(used, rows, strict=True)]
    read = partial(_masks_of_photo, points=people.faces.points, placements=placements)
    packed = np.zeros((len(people.faces), CANVAS_SIDE**2 // 8), np.uint8)
    parsed = np.zeros(len(people.faces), bool)
    for some, (bits, seen) in zip(rows, context.map(read, tasks, stage="outlining heads"), strict=True):
        packed[some], parsed[some] = bits, seen
    return FaceMasks(packed, parsed)


def _masks_of_photo(
    task: tuple[Source, IntArray], *, points: FloatArray, placements: Sequence[FloatArray]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the masks of one photo's faces as bits, and which the parser saw."""
    source, rows = task
    rgb = read_pixels(source)
    centres = {
        row: [*transform(placements[row], FRAME.five[:3].mean(axis=0)), placement_scale(placements[row])]
        for row in rows.tolist()
    }
    bits, parsed = [], []
    for row in rows.tolist():
        others = np.array([centre for other, centre in centres.items() if other != row]).reshape(-1, 3)
        found = head_mask(rgb, placements[row], points[row], others)
        bits.append(np.packbits(found.mask))
        parsed.append(found.parsed)
    return np.array(bits), np.array(parsed)


def hair_extent(masks: FaceMasks) -> FloatArray:
    """Return how far each head reaches down and to the sides (n, 2): long hair and wide hair.

    In units of ``HAIR_UNIT_PX``: people whose hair is alike share a small region.
    """
    extent = np.zeros((len(masks.packed), 2))
    for row in range(len(extent)):
        mask = masks.union(np.array([row]))
        y, x = np.nonzero(mask)
        extent[row] = np.quantile(y, 0.98), np.quantile(np.abs(x - x.mean()), 0.95)
    return extent / HAIR_UNIT_PX


def group_placements(points: FloatArray, groups: Sequence[IntArray]) -> list[FloatArray]:
    """Return a placement for each face (n, 468, 2) with the scale and roll of its group: the medians.

    Only where the head is remains the face's own.
    """
    own = [place_head(one) for one in points]
    angle = np.array([np.arctan2(one[1, 0], one[0, 0]) for one in own])
    scale = np.array([placement_scale(one) for one in own])
    centre, placements = FRAME.five.mean(axis=0), list(own)
    for rows in groups:
        size, roll = float(np.median(scale[rows])), float(np.median(angle[rows]))
        turn = size * np.array([[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]])
        for row in rows.tolist():
            shift = five_points(points[row]).mean(axis=0) - turn @ centre
            placements[row] = np.column_stack([turn, shift])
    return placements
