"""A neck between the new head and the skin below the region."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.render.head.cutout import Head
from ksame.render.head.fill import push_pull

__all__ = ["Neck", "draw_neck"]

FloatImage = NDArray[np.float32]
BoolMask = NDArray[np.bool_]

NEAR_EDGE_PX = 8.0  # canonical px: skin that near to the region tells where the neck arrives
MIDDLE_PX = 120.0  # canonical px from the middle: skin further out is not the neck
FLARE = 1.6  # how late the neck widens towards the shoulders
MAX_FLARE_PX = 32.0  # canonical px: further out the fill continues what is around
SOFT_PX = 2.5  # canonical px of the neck's edge
OWN_NECK_PX = (2.0, 24.0)  # canonical px below the chin between which the head's own neck gives way


class Neck(NamedTuple):
    """A neck as it lies in a window of a photo."""

    alpha: FloatImage  # (h, w)
    colour: FloatImage  # (h, w, 3)


def draw_neck(
    head: Head,
    x: FloatImage,
    y: FloatImage,
    region: BoolMask,
    skin: BoolMask,
    context: NDArray[np.uint8],
    layer: FloatImage,
    own_neck: FloatImage,
) -> Neck:
    """Return the neck from the jaw of a head to the skin outside of its region.

    Parameters
    ----------
    head : Head
        The head, for its width.
    x, y : (h, w)
        Canonical place of every pixel.
    region, skin : (h, w) bool
        The region, and skin outside all regions.
    context : (h, w, 3) uint8
        The photo, blank in all regions.
    layer, own_neck : (h, w, 3), (h, w)
        The head's colours in the photo's light, and where they are neck.
    """
    top = head.chin + 6
    low, high, bottom = _arrival(head, x, y, region, skin)
    down = np.clip((y - top) / max(bottom - top, 1.0), 0, 1) ** FLARE
    left = head.neck_middle - head.neck_half_width
    right = head.neck_middle + head.neck_half_width
    inside = np.minimum(x - (left + (low - left) * down), right + (high - right) * down - x)
    alpha = np.clip(inside / SOFT_PX + 0.5, 0, 1) * (y > head.chin - 45) * region
    sure = region & (own_neck > 0.6) & (y < head.chin + OWN_NECK_PX[1])
    if not (sure | skin).any():
        sure = region & (np.abs(x - head.neck_middle) < 40) & (np.abs(y - head.chin + 25) < 12)
    source = np.where(region[..., None], layer, context)
    colour = push_pull(source, np.where(region, sure, skin).astype(np.float32))
    return Neck(alpha.astype(np.float32), colour)


def _arrival(
    head: Head, x: FloatImage, y: FloatImage, region: BoolMask, skin: BoolMask
) -> tuple[float, float, float]:
    """Return from where to where, and at which height, the neck meets what is below: canonical px."""
    left = head.neck_middle - head.neck_half_width
    right = head.neck_middle + head.neck_half_width
    unit = float(np.hypot(x[0, 1] - x[0, 0], y[0, 1] - y[0, 0])) if x.shape[1] > 1 else 1.0  # canonical px
    distance = cv2.distanceTransform((~region).astype(np.uint8), cv2.DIST_L2, 3)
    near = skin & (distance * unit < NEAR_EDGE_PX) & (np.abs(x - 128) < MIDDLE_PX) & (y > head.chin - 10)
    if near.sum() * unit > 30:
        low, high = np.percentile(x[near], [2, 98])
        bottom = float(np.quantile(y[near], 0.2))
        low, high = max(float(low), left - MAX_FLARE_PX), min(float(high), right + MAX_FLARE_PX)
        return min(low, left + 8), max(high, right - 8), bottom
    below = region & (np.abs(x - head.neck_middle) < 40)
    bottom = float(y[below].max()) + 4 if below.any() else head.chin + 40
    return left - 8, right + 8, bottom
