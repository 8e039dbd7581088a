"""A face in a crop of its photo, and its position in the canonical frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import FRAME, transform

UInt8Image = NDArray[np.uint8]
BoolMask = NDArray[np.bool_]

EYE_DISTANCE = float(FRAME.five[1, 0] - FRAME.five[0, 0])  # interocular distance in the frame, px


@dataclass(frozen=True, eq=False)
class FaceRegion:
    """A face in a crop of its photo."""

    rgb: UInt8Image  # (h, w, 3): the crop, after earlier faces were obscured
    mask: BoolMask  # (h, w): the hull of the mesh
    fresh: BoolMask  # (h, w): the mask without pixels that an earlier face changed
    points: FloatArray  # (468, 2) in the crop
    matrix: FloatArray  # (2, 3): from the crop to the frame
    seed: int  # the same for all faces of a call
    row: int
    donors: UInt8Image  # (m, height, width, 3) in the frame

    @property
    def eyes(self) -> float:
        """Interocular distance in pixels of the photo, by the scale of the frame."""
        return EYE_DISTANCE / float(np.sqrt(np.linalg.det(self.matrix[:, :2])))

    def on_frame(self, point: int) -> FloatArray:
        """Return a mesh point in coordinates of the frame."""
        return transform(self.matrix, self.points[point])

    def region(self, polygon: ArrayLike) -> BoolMask:
        """Return the part of the mask in a convex polygon (m, 2) of the frame."""
        corners = transform(cv2.invertAffineTransform(self.matrix), polygon)
        return self.mask & fill_hull(corners, self.mask.shape)

    def cells(self, mask: BoolMask, size: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return column and row of the frame's cell in which each pixel of a mask lies."""
        y, x = np.nonzero(mask)
        # half a pixel: cells consist of whole pixels, whose centres have integer coordinates
        column, row = ((a * x + b * y + c + 0.5) / size for a, b, c in self.matrix)
        return np.floor(column).astype(np.intp), np.floor(row).astype(np.intp)

    def painted(self, where: BoolMask, values: Any) -> UInt8Image:
        """Return the crop with new values in some of its pixels."""
        new = self.rgb.copy()
        new[where] = values
        return new


def grow_mesh(mesh: FloatArray, factor: float) -> FloatArray:
    """Scale a mesh about its centre."""
    middle = (mesh.min(axis=0) + mesh.max(axis=0)) / 2
    larger: FloatArray = middle + factor * (mesh - middle)
    return larger


def bounding_slices(points: FloatArray, shape: tuple[int, ...]) -> tuple[slice, slice]:
    """Return the rows and columns of an image that contain points; empty if all lie outside."""
    most = np.array(shape[1::-1])
    low = np.clip(np.floor(points.min(axis=0)), 0, most).astype(int)
    high = np.clip(np.ceil(points.max(axis=0)) + 1, 0, most).astype(int)
    return slice(low[1], high[1]), slice(low[0], high[0])


def crop_matrix(piece: tuple[slice, slice], matrix: FloatArray) -> FloatArray:
    """Return a (2, 3) matrix of an image as the matrix of a crop of it."""
    shift = matrix[:, :2] @ [piece[1].start, piece[0].start]
    return np.column_stack([matrix[:, :2], matrix[:, 2] + shift])


def fill_hull(points: FloatArray, shape: tuple[int, ...]) -> BoolMask:
    """Return the pixels (h, w) in the convex hull of points, including its edge.

    OpenCV's polygons would omit pixels that lie up to a third of a pixel inside.
    """
    corners = cv2.convexHull(points.astype(np.float32), clockwise=True, returnPoints=False)
    hull = points[corners[:, 0]]  # (m, 2): down on the left of the image and up on the right
    (x, y), (dx, dy) = hull.T, (np.roll(hull, -1, axis=0) - hull).T
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])
    crossing = x + dx * (rows - y) / np.where(dy, dy, 1)  # (h, m): intersection of each row and side
    left = np.where(dy > 0, crossing, -np.inf).max(axis=1, keepdims=True)
    right = np.where(dy < 0, crossing, np.inf).min(axis=1, keepdims=True)
    mask: BoolMask = (columns >= left) & (columns <= right) & (rows >= y.min()) & (rows <= y.max())
    return mask


def luma(rgb: UInt8Image) -> UInt8Image:
    """Return colours (..., 3) as greys, in integer arithmetic, so that grey is unchanged."""
    total = rgb.astype(np.int32) @ np.array([299, 587, 114], np.int32)
    return np.repeat(((total + 500) // 1000).astype(np.uint8)[..., None], 3, axis=-1)
