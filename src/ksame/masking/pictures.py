"""Pictures of new faces: their sizes and their rims."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core import FloatArray, IntArray
from ksame.geometry import OVAL
from ksame.masking.features import disc

Picture = NDArray[np.float32]

LEVELS = 3  # the new face at full, half and quarter size: a small face must not alias
_RIM = 0.93  # of a face: what lies further out is half hair and ground, in colours of the axes


def scaled(picture: Picture, scale: float, size: tuple[int, int]) -> Picture:
    """Return a picture on another scale, on which point x lies at x times it."""
    matrix = np.array([[scale, 0, 0], [0, scale, 0]])
    moved: Picture = cv2.warpAffine(picture, matrix, size, borderMode=cv2.BORDER_REPLICATE)
    return moved


def nearest(covered: NDArray[np.bool_]) -> IntArray:
    """Return for each pixel (h, w) the number of the nearest covered one, counted in reading order."""
    outside = (~covered).astype(np.uint8)
    _, label = cv2.distanceTransformWithLabels(outside, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    number = np.zeros(int(label.max()) + 1, np.intp)
    number[label[covered]] = np.arange(int(covered.sum()))
    found: IntArray = number[label]
    return found


def spread(picture: Picture, shape: FloatArray) -> Picture:
    """Carry the skin of a face outwards, softened: its rim is half hair and ground, in wild colours."""
    oval = shape[list(OVAL)]
    middle, wide = oval.mean(axis=0), float(np.ptp(oval[:, 0]))
    inside = np.zeros(picture.shape[:2], np.float32)
    cv2.fillPoly(inside, [(middle + _RIM * (oval - middle)).round().astype(np.int32)], 1.0)
    covered = inside > 0
    filled = cv2.GaussianBlur(picture, (0, 0), 0.03 * wide)[covered][nearest(covered)]
    filled = cv2.GaussianBlur(filled, (0, 0), 0.06 * wide)
    share = cv2.GaussianBlur(cv2.erode(inside, disc(0.05 * wide)), (0, 0), 0.025 * wide)[..., None]
    result: Picture = filled + share * (picture - filled)
    return result


def pyramid(picture: Picture) -> tuple[Picture, ...]:
    """Return a picture at full, half and quarter size; point x of the first lies at x / 2 in the second."""
    height, width = picture.shape[:2]
    smaller = (
        scaled(cv2.GaussianBlur(picture, (0, 0), 2**level / 2), 0.5**level, (width >> level, height >> level))
        for level in range(1, LEVELS)
    )
    return (picture, *smaller)
