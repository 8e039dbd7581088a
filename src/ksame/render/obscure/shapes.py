"""Ad hoc methods that displace or replace content of the face: blur, warp, parts of other faces."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from ksame.core.arrays import FloatArray
from ksame.core.geometry import FRAME, OVAL, five_points, moving_least_squares, transform
from ksame.render.obscure.face_region import (
    EYE_DISTANCE,
    FaceRegion,
    UInt8Image,
    bounding_slices,
    crop_matrix,
)

# Corners of eyes and mouth, brows, nose, chin: the points that warp shifts; denser ones would fold the face
KEY_POINTS = (33, 133, 362, 263, 105, 334, 1, 61, 291, 199)
# Centre and half axes of each part in the frame, and the draw of donors it uses
PART_ELLIPSES = (
    ((82, 124), (42, 34), 0),  # left eye and brow
    ((174, 124), (42, 34), 0),
    ((128, 168), (37, 38), 1),  # nose
    ((128, 227), (58, 31), 2),  # mouth
)
PART_EDGE_PX = 7  # px of the frame: width of a part's soft edge


def blur(face: FaceRegion, sigma: float) -> UInt8Image:
    """Convolve with a Gaussian [S 2.2].

    A wide Gaussian is applied to a reduced image, so that the cost does not grow with sigma: its sigma
    is still four reduced pixels, and both resamplings widen it by less than 1 %.
    """
    sigma = sigma * face.eyes
    height, width = face.mask.shape
    step = max(1.0, sigma / 4)
    size = (max(1, round(width / step)), max(1, round(height / step)))
    small = cv2.GaussianBlur(cv2.resize(face.rgb, size, interpolation=cv2.INTER_AREA), (0, 0), sigma / step)
    smooth = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
    return face.painted(face.mask, smooth[face.mask])


def warp(face: FaceRegion, amount: float) -> UInt8Image:
    """Shift key points at random and deform the rest of the face accordingly [S 2.2].

    Shifts fade towards the edge of the face, which stays fixed, so that there is no visible seam.
    """
    rng = np.random.default_rng([face.seed, face.row])
    turn, far = rng.uniform(0, 2 * np.pi, len(KEY_POINTS)), np.sqrt(rng.uniform(size=len(KEY_POINTS)))
    shift = (
        amount * EYE_DISTANCE * far[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    )  # on the frame
    keys, still = face.points[list(KEY_POINTS)], face.points[list(OVAL)]
    moved = transform(cv2.invertAffineTransform(face.matrix), transform(face.matrix, keys) + shift)
    height, width = face.mask.shape
    step = max(8, max(height, width) // 28)
    source = moving_least_squares(
        np.concatenate([keys, still]), np.concatenate([moved, still]), width, height, step=step
    )
    depth = cv2.distanceTransform(face.mask.astype(np.uint8), cv2.DIST_L2, 5)
    fade = np.minimum(depth / (0.4 * face.eyes), 1)[..., None].astype(np.float32)
    place = np.stack(np.meshgrid(*map(np.arange, (width, height))), axis=-1).astype(np.float32)
    source = place + fade * (source - place)
    new = cv2.remap(face.rgb, source, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return face.painted(face.mask, new[face.mask])


@cache
def _soft(half: tuple[int, int]) -> FloatArray:
    """Return the mask of an ellipse with soft edge, padded by the width of the edge."""
    (x, y), room = half, 3 * PART_EDGE_PX
    weight = np.zeros((2 * (y + room) + 1, 2 * (x + room) + 1), np.float32)
    cv2.ellipse(weight, (x + room, y + room), half, 0, 0, 360, 1.0, -1)
    soft: FloatArray = cv2.GaussianBlur(weight, (0, 0), PART_EDGE_PX)
    return soft


def potato(face: FaceRegion, mixed: float) -> UInt8Image:
    """Replace eyes, nose and mouth by those of donor faces [N 5.3], in this face's light.

    Deviation: only faces passed by the caller are used, and each part is the mean of at least two of
    them unless the strength is 1: [N] takes parts of the gallery, and so publishes the eyes of real
    people without their consent. Pass synthetic or averaged faces. If the donors are other faces of the
    same set, exclude the face itself.
    """
    rng = np.random.default_rng([face.seed, face.row])
    takes = [rng.choice(len(face.donors), round(mixed), replace=False) for _ in range(3)]
    here, there = (_anchors(five) for five in (transform(face.matrix, five_points(face.points)), FRAME.five))
    laid = np.zeros((*face.mask.shape, 4), np.float32)  # colour times weight; weight
    for (middle, half, whose), move in zip(PART_ELLIPSES, here - there, strict=True):
        weight = _soft(half)
        (height, width), low = weight.shape, np.subtract(middle, half) - 3 * PART_EDGE_PX
        patch = face.donors[takes[whose], low[1] : low[1] + height, low[0] : low[0] + width]
        to_patch = face.matrix.copy()
        to_patch[:, 2] -= low + move
        _add_patch(laid, face, np.dstack([patch.mean(axis=0, dtype=np.float32), weight]), to_patch)
    colour, weight = np.split(laid[face.mask], [3], axis=1)
    new = colour / np.maximum(weight, 1) + face.rgb[face.mask] * (1 - np.minimum(weight, 1))
    return face.painted(face.mask, np.clip(np.rint(new), 0, 255))


def _anchors(five: FloatArray) -> FloatArray:
    """Return the position of each of ``PART_ELLIPSES``: eyes, nose, centre of the mouth."""
    return np.concatenate([five[:3], five[3:].mean(axis=0, keepdims=True)])


def _add_patch(laid: FloatArray, face: FaceRegion, patch: FloatArray, matrix: FloatArray) -> None:
    """Accumulate a patch (h, w, 4), with its weight last; the matrix maps the photo to the patch."""
    height, width = patch.shape[:2]
    ends = transform(cv2.invertAffineTransform(matrix), [[0, 0], [width, 0], [width, height], [0, height]])
    at = bounding_slices(ends, laid.shape)
    if not laid[at].size:
        return  # this part of the face is outside the photo
    size, flags = laid[at].shape[1::-1], cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    colour, weight = np.split(cv2.warpAffine(patch, crop_matrix(at, matrix), size, flags=flags), [3], axis=2)
    weight = weight * face.mask[at][..., None]
    rim = weight * (1 - weight)  # around the part, where both get the same mean colour
    own, other = ((rim * rgb).sum(axis=(0, 1)) for rgb in (face.rgb[at], colour))
    laid[at] += weight * np.dstack([colour * ((own + 1e-3) / (other + 1e-3)), np.ones_like(weight)])
