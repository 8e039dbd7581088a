"""Draw the mean face of a group and portraits of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.geometry import (
    BACKGROUND_GREY,
    FRAME,
    INNER_LIPS,
    LEFT_EYE,
    OVAL,
    RIGHT_EYE,
    Raster,
)

FloatImage = NDArray[np.float32]

FEATHER_EYE_DISTANCES = 0.1  # width of the soft edge, in interocular distances
OUTLIER_GREY_LEVELS = 24.0  # difference from the group's median at which a member has half the weight
MIN_MEMBER_WEIGHT = (
    0.25  # relative to others: one member contributes at most 4/5 of a pixel at k = 2, 1/2 at 5
)


class Surrogate(NamedTuple):
    """A surrogate face: its image on the (scaled) canonical frame and its landmarks there."""

    rgb: NDArray[np.uint8]  # (h, w, 3)
    shape: FloatArray  # (m, 2), in pixels of rgb


def draw_mean_face(
    rgb: NDArray[np.uint8], shapes: FloatArray, shares: FloatArray, triangles: IntArray
) -> Surrogate:
    """Draw the weighted mean of faces: the mean image on the mean shape.

    Parameters
    ----------
    rgb : (n, h, w, 3)
        Registered images.
    shapes : (n, m, 2)
        Their landmarks on the canonical frame.
    shares : (n,)
        Weights, which sum to 1.
    triangles : (t, 3)
        The mesh.
    """
    height, width = rgb.shape[1:3]
    scale = width / FRAME.width
    shape = np.tensordot(shares, shapes, axes=1) * scale
    raster = Raster.of(shape, triangles, width, height)
    warped = [raster.pull(p, s * scale) for p, s in zip(rgb, shapes, strict=True)]
    weights = _typicality_weights(warped) * _open_mouth_weights(shapes, shape, (height, width))  # (n, h, w)
    weights = np.maximum(weights, MIN_MEMBER_WEIGHT) * shares[:, None, None].astype(np.float32)
    weights /= weights.sum(axis=0)
    mean = np.zeros((height, width, 3), np.float32)
    for weight, image in zip(weights, warped, strict=True):
        mean += weight[..., None] * image
    return Surrogate(mean.round().astype(np.uint8), shape)


def apply_variation(
    face: Surrogate, moved: FloatArray, change: FloatImage, at: FloatArray, triangles: IntArray
) -> Surrogate:
    """Change the shape and colours of a face by the offsets of a code.

    Parameters
    ----------
    face : Surrogate
        The face to change.
    moved : (m, 2)
        The new landmarks, in pixels of the face's image.
    change : (h', w', 3)
        Colours to add, on a mesh with landmarks ``at`` (m, 2).
    """
    height, width = face.rgb.shape[:2]
    raster = Raster.of(moved, triangles, width, height)
    image = raster.pull(face.rgb, face.shape).astype(np.float32) + raster.pull(change, at)
    return Surrogate(np.clip(image, 0, 255).round().astype(np.uint8), moved)


def _typicality_weights(warped: Sequence[NDArray[np.uint8]]) -> FloatImage:
    """Return weights (n, h, w) by the similarity of each member to the others at a pixel.

    Glasses, a fringe or a beard of a single member would otherwise appear as a ghost.
    """
    grey = np.stack([cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in warped])
    n, _, width = grey.shape
    if n < 3:
        return np.ones(grey.shape, np.float32)
    smooth = max(1.0, FEATHER_EYE_DISTANCES * 0.5 * FRAME.eye_distance * width / FRAME.width)
    away = np.abs(grey - np.median(grey, axis=0).astype(np.float32))
    away = np.stack([cv2.GaussianBlur(a, (0, 0), smooth) for a in away])
    like: FloatImage = (1 / (1 + (away / OUTLIER_GREY_LEVELS) ** 2)).astype(np.float32)
    return like


def _open_mouth_weights(shapes: FloatArray, mean: FloatArray, size: tuple[int, int]) -> FloatImage:
    """Return weights (n, h, w) that prefer members with open mouth and eyes inside these regions.

    A closed mouth has no teeth to average, a closed eye no iris.
    """
    n = len(shapes)
    weights = np.ones((n, *size), np.float32)
    if shapes.shape[1] <= max(INNER_LIPS):
        return weights
    for ring in (INNER_LIPS, LEFT_EYE, RIGHT_EYE):
        areas = np.array([cv2.contourArea(s[list(ring)].astype(np.float32)) for s in shapes])
        openness = np.maximum(areas / max(areas.max(), 1e-9), 0.05)
        region = np.zeros(size, np.float32)
        cv2.fillPoly(region, [mean[list(ring)].round().astype(np.int32)], 1.0)
        region = cv2.GaussianBlur(
            region, (0, 0), max(0.8, 0.012 * FRAME.eye_distance * size[1] / FRAME.width)
        )
        weights *= 1 + region * (openness[:, None, None] - 1)
    return weights


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
