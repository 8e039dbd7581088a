"""The canvas on which heads are compared: canonical pixels, a margin around the canonical frame.

A placement M is the (2, 3) similarity that takes canonical pixels, with the eyes 88 px apart, to the photo.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import FRAME, five_points, similarity, transform

__all__ = [
    "CANVAS_SIDE",
    "CHIN",
    "canonical_grid",
    "compose",
    "from_canvas",
    "head_box",
    "place_head",
    "placement_scale",
    "sample_canvas",
    "warp",
]

CANVAS_LEFT, CANVAS_TOP, CANVAS_SIDE = -192, -190, 640
"""Where the canvas lies, in canonical pixels, and its side."""
CHIN = 152  # the index of the chin among mesh points
_TO_CANVAS = np.array([[1.0, 0, -CANVAS_LEFT], [0, 1.0, -CANVAS_TOP]])  # canonical to canvas pixels
_FROM_CANVAS = np.array([[1.0, 0, CANVAS_LEFT], [0, 1.0, CANVAS_TOP]])


def place_head(points: FloatArray) -> FloatArray:
    """Return the placement (2, 3) of a face with mesh points (468, 2): a similarity from five of them."""
    return similarity(FRAME.five, five_points(points))


def placement_scale(placement: FloatArray) -> float:
    """Return the photo pixels per canonical pixel."""
    return float(np.sqrt(abs(np.linalg.det(placement[:, :2]))))


def compose(outer: FloatArray, inner: FloatArray) -> FloatArray:
    """Return the affine map that applies ``inner`` first, then ``outer``."""
    square = np.vstack([inner, [0, 0, 1]])
    result: FloatArray = outer @ square
    return result


def warp(
    image: NDArray[Any], matrix: FloatArray, size: tuple[int, int], *, border: int = cv2.BORDER_CONSTANT
) -> NDArray[Any]:
    """Return an image as a matrix (2, 3) places it in one of a size (width, height), without aliasing."""
    scale = placement_scale(matrix)
    if scale < 0.5:
        step = 2 ** int(np.log2(min(1 / scale, *image.shape[:2])))
        width, height = (max(1, side // step) for side in image.shape[1::-1])
        image = cv2.resize(
            image[: height * step, : width * step], (width, height), interpolation=cv2.INTER_AREA
        )
        middle = (step - 1) / 2  # pixel centres
        matrix = matrix @ np.array([[step, 0, middle], [0, step, middle], [0, 0, 1]])
    moved: NDArray[Any] = cv2.warpAffine(image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=border)
    return moved


def sample_canvas(
    image: NDArray[Any], placement: FloatArray, *, border: int = cv2.BORDER_REPLICATE
) -> NDArray[Any]:
    """Return the canvas (640, 640, ...) of a photo with a head placed in it."""
    matrix = compose(_TO_CANVAS, cv2.invertAffineTransform(placement))
    return warp(image, matrix, (CANVAS_SIDE, CANVAS_SIDE), border=border)


def from_canvas(image: NDArray[Any], placement: FloatArray, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a canvas as it lies in a photo of a shape (h, w, ...)."""
    return warp(image, compose(placement, _FROM_CANVAS), (shape[1], shape[0]))


def canonical_grid() -> tuple[FloatArray, FloatArray]:
    """Return the canonical x and y of every pixel of the canvas, (640, 640) each."""
    y, x = np.mgrid[0:CANVAS_SIDE, 0:CANVAS_SIDE].astype(np.float32)
    return x + CANVAS_LEFT, y + CANVAS_TOP


def head_box(region: NDArray[np.bool_], placement: FloatArray) -> FloatArray:
    """Return the box (4,) xyxy in the photo of a region (640, 640) of the canvas."""
    y, x = np.nonzero(region)
    corners = np.array([[a, b] for a in (x.min(), x.max() + 1) for b in (y.min(), y.max() + 1)], float)
    there = transform(compose(placement, _FROM_CANVAS), corners)
    return np.concatenate([there.min(axis=0), there.max(axis=0)])
