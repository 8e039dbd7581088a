"""The region that is replaced: one per group, the union of all its people's heads and of the new one.

The parser sees whole photos here and nowhere else. All that leaves this file is a union over a group, so that
no region tells of one person more than of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import FRAME, transform
from ksame.models.segmentation import parse_person
from ksame.render.head.canvas import CANVAS_LEFT, CANVAS_SIDE, CANVAS_TOP, CHIN, canonical_grid, sample_canvas

__all__ = ["HeadMask", "group_region", "head_mask", "template"]

BoolMask = NDArray[np.bool_]

HAIR_MIN, FACE_MIN, ACCESSORY_MIN = 0.25, 0.3, 0.4  # probabilities from which on a pixel belongs to the head
SKIN_BELOW_CHIN_PX = 10.0  # canonical px: collars survive, and the neck has room to join
ACCESSORY_ABOVE_CHIN_PX = 20.0  # earrings and glasses, not ties
FRAGMENT_MIN_PX = 500  # canonical px: smaller fragments apart from the head are noise of the parser
GROW_PX, CLOSE_PX, SMOOTH_SIGMA_PX = 13, 15, 9.0  # canonical px
PARSED_FACE_SHARE = 0.5  # of the oval of an ordinary face: with less of it the parser did not see the head
MAX_CANVAS_SHARE = 0.55  # a head that covers more of its canvas is not one
FACE_CENTRE = FRAME.five[:3].mean(axis=0)


class HeadMask(NamedTuple):
    """What one photo shows of a head, on the canvas."""

    mask: BoolMask  # (640, 640)
    parsed: bool  # whether the parser saw the head; if not, the mask is a generous template


def head_mask(
    rgb: NDArray[np.uint8], placement: FloatArray, points: FloatArray, others: FloatArray
) -> HeadMask:
    """Return hair, face, ears, and the neck just below the chin of one head in a photo.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        The photo.
    placement, points : (2, 3), (468, 2)
        Where the head is.
    others : (m, 3)
        Centre x, y and scale of the other heads in the photo, whose pixels are not this one's.
    """
    to_canonical = cv2.invertAffineTransform(placement)
    chin = float(transform(to_canonical, points[CHIN])[1])
    seen = parse_person(sample_canvas(rgb, placement))
    x, y = canonical_grid()
    head = (seen["hair"] > HAIR_MIN) | ((seen["face skin"] > FACE_MIN) & (y < chin + SKIN_BELOW_CHIN_PX))
    head |= (
        (seen["body skin"] > FACE_MIN) & (y < chin + SKIN_BELOW_CHIN_PX) & (np.abs(x - FACE_CENTRE[0]) < 110)
    )
    head |= (seen["accessories"] > ACCESSORY_MIN) & (y < chin - ACCESSORY_ABOVE_CHIN_PX)
    for centre_x, centre_y, scale in _canonical(others, to_canonical):
        own = np.hypot(x - FACE_CENTRE[0], y - FACE_CENTRE[1])
        head &= own <= np.hypot(x - centre_x, y - centre_y) / scale
    outside = np.full(rgb.shape[:2], 255, np.uint8)
    head &= sample_canvas(outside, placement, border=cv2.BORDER_CONSTANT) > 0
    oval = _ellipse(FACE_CENTRE[0], FACE_CENTRE[1], 60, 75)
    parsed = bool(head[oval].mean() >= PARSED_FACE_SHARE and head.mean() <= MAX_CANVAS_SHARE)
    return HeadMask(_connected(head) | template(chin) if parsed else template(chin, margin=40), parsed)


def group_region(masks: Iterable[BoolMask], silhouette: BoolMask) -> BoolMask:
    """Return the region of a group: all masks (640, 640) and the new head, closed, grown and smoothed.

    It contains each of them, and never shrinks when another mask is added.
    """
    union = silhouette.astype(np.uint8)
    for mask in masks:
        union |= mask.astype(np.uint8)
    closed = cv2.morphologyEx(union, cv2.MORPH_CLOSE, _disc(CLOSE_PX))
    grown = cv2.dilate(closed, _disc(GROW_PX))
    smooth = cv2.GaussianBlur(grown.astype(np.float32), (0, 0), SMOOTH_SIGMA_PX)
    return _without_holes(grown.astype(bool) | (smooth > 0.45))


def template(chin: float, *, margin: float = 0.0) -> BoolMask:
    """Return the shape of an ordinary head down to a chin (canonical y): every region contains one."""
    x, y = canonical_grid()
    middle, top, bottom = 110.0, -48.0 - margin, chin + 6 + margin
    reach = np.where(y < middle, middle - top, bottom - middle)
    return np.asarray(
        (np.abs(x - FACE_CENTRE[0]) / (104 + margin)) ** 2.2 + (np.abs(y - middle) / reach) ** 2.2 <= 1
    )


def _canonical(others: FloatArray, to_canonical: FloatArray) -> list[tuple[float, float, float]]:
    """Return centres and relative scales of other heads in this head's canonical pixels."""
    scale = float(np.sqrt(abs(np.linalg.det(to_canonical[:, :2]))))
    centres = transform(to_canonical, others[:, :2])
    return [
        (*centre, max(size * scale, 0.05))
        for centre, size in zip(centres.tolist(), others[:, 2], strict=True)
    ]


def _connected(head: BoolMask) -> BoolMask:
    """Return a mask without fragments that are small and apart from the face."""
    count, label, stats, _ = cv2.connectedComponentsWithStats(head.astype(np.uint8))
    large = [i for i in range(1, count) if stats[i, cv2.CC_STAT_AREA] > FRAGMENT_MIN_PX]
    centre = label[int(FACE_CENTRE[1] - CANVAS_TOP), int(FACE_CENTRE[0] - CANVAS_LEFT)]
    return np.isin(label, [*large, centre]) & head


def _without_holes(mask: BoolMask) -> BoolMask:
    """Return a mask with what it encloses."""
    filled = np.zeros((CANVAS_SIDE + 2, CANVAS_SIDE + 2), np.uint8)
    filled[1:-1, 1:-1] = mask
    cv2.floodFill(filled, None, (0, 0), 2)
    return np.asarray(filled[1:-1, 1:-1] != 2)


def _ellipse(x: float, y: float, half_width: float, half_height: float) -> BoolMask:
    grid_x, grid_y = canonical_grid()
    return np.asarray(((grid_x - x) / half_width) ** 2 + ((grid_y - y) / half_height) ** 2 <= 1)


def _disc(radius: int) -> NDArray[np.uint8]:
    return np.asarray(
        cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1)), np.uint8
    )
