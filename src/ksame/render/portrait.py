"""A surrogate face, and the portrait of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import (
    BACKGROUND_GREY,
    FRAME,
    OVAL,
)

FloatImage = NDArray[np.float32]

FEATHER_EYE_DISTANCES = 0.1  # width of the soft edge, in interocular distances


class Surrogate(NamedTuple):
    """A surrogate face: its image on the (scaled) canonical frame and its landmarks there."""

    rgb: NDArray[np.uint8]  # (h, w, 3)
    shape: FloatArray  # (m, 2), in pixels of rgb


def fade_mask(ring: FloatArray, width: int, height: int, *, edge: float, inset: float) -> FloatImage:
    """Return a mask (height, width): 0 up to ``inset`` px within a ring, 1 from ``edge`` px further."""
    mask = np.zeros((height + 2, width + 2), np.uint8)
    hull = cv2.convexHull((ring + 1).round().astype(np.int32))
    cv2.fillConvexPoly(mask, hull, 1)
    inside = cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)[1:-1, 1:-1]
    ramp = np.clip((inside - 1 - inset) / max(edge, 1.0), 0, 1)
    soft: FloatImage = cv2.GaussianBlur(smoothstep(ramp), (0, 0), max(0.8, edge / 8))
    return soft


def smoothstep(ramp: NDArray[Any]) -> NDArray[Any]:
    """Smooth a ramp from 0 to 1 at both ends."""
    smooth: NDArray[Any] = ramp * ramp * (3 - 2 * ramp)
    return smooth


def draw_portrait(face: Surrogate) -> NDArray[np.uint8]:
    """Draw the face on a plain background; the image depends on the surrogate alone."""
    height, width = face.rgb.shape[:2]
    edge = FEATHER_EYE_DISTANCES * FRAME.eye_distance * width / FRAME.width
    ring = face.shape[list(OVAL)] if len(face.shape) > max(OVAL) else face.shape
    # the outermost pixels are often hair or background: the fade begins slightly inside
    alpha = fade_mask(ring, width, height, edge=edge, inset=edge / 3)[..., None]
    return (alpha * face.rgb + (1 - alpha) * BACKGROUND_GREY).round().astype(np.uint8)
