"""A face in its piece of the photo, and where that is on the canonical frame."""

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

EYE_DISTANCE = float(FRAME.five[1, 0] - FRAME.five[0, 0])  # between the eye centres: the unit of the frame


@dataclass(frozen=True, eq=False)
class FaceRegion:
    """One face in its piece of the photo."""

    rgb: UInt8Image  # (h, w, 3): the piece, as the faces before this one left it
    mask: BoolMask  # (h, w): the hull of the mesh
    fresh: BoolMask  # (h, w): the mask without what an earlier face has changed
    points: FloatArray  # (468, 2) in the piece
    matrix: FloatArray  # (2, 3): from the piece to the frame
    seed: int  # the same for all faces of a call
    row: int
    donors: UInt8Image  # (m, height, width, 3) on the frame

    @property
    def eyes(self) -> float:
        """Pixels of the photo between the eye centres, as the frame has them."""
        return EYE_DISTANCE / float(np.sqrt(np.linalg.det(self.matrix[:, :2])))

    def on_frame(self, point: int) -> FloatArray:
        """Return where a mesh point is on the frame."""
        return transform(self.matrix, self.points[point])

    def region(self, polygon: ArrayLike) -> BoolMask:
        """Return the part of the mask in a convex polygon (m, 2) of the frame."""
        corners = transform(cv2.invertAffineTransform(self.matrix), polygon)
        return self.mask & fill_hull(corners, self.mask.shape)

    def cells(self, mask: BoolMask, size: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return column and row of the square of the frame in which each pixel of a mask lies."""
        y, x = np.nonzero(mask)
        # half a pixel: squares are made of whole pixels of the frame, whose middles are whole numbers
        column, row = ((a * x + b * y + c + 0.5) / size for a, b, c in self.matrix)
        return np.floor(column).astype(np.intp), np.floor(row).astype(np.intp)

    def painted(self, where: BoolMask, values: Any) -> UInt8Image:
        """Return the piece with other values in some of its pixels."""
        new = self.rgb.copy()
        new[where] = values
        return new


def grow_mesh(mesh: FloatArray, factor: float) -> FloatArray:
    """Return the mesh, larger or smaller about its middle."""
    middle = (mesh.min(axis=0) + mesh.max(axis=0)) / 2
    larger: FloatArray = middle + factor * (mesh - middle)
    return larger


def bounding_slices(points: FloatArray, shape: tuple[int, ...]) -> tuple[slice, slice]:
    """Return the rows and columns of a picture that points lie in; empty if they lie outside."""
    most = np.array(shape[1::-1])
    low = np.clip(np.floor(points.min(axis=0)), 0, most).astype(int)
    high = np.clip(np.ceil(points.max(axis=0)) + 1, 0, most).astype(int)
    return slice(low[1], high[1]), slice(low[0], high[0])


def crop_matrix(piece: tuple[slice, slice], matrix: FloatArray) -> FloatArray:
    """Return a (2, 3) matrix of a picture as that of a piece of it."""
    shift = matrix[:, :2] @ [piece[1].start, piece[0].start]
    return np.column_stack([matrix[:, :2], matrix[:, 2] + shift])


def fill_hull(points: FloatArray, shape: tuple[int, ...]) -> BoolMask:
    """Return the pixels (h, w) in the hull of points, with those on its edge.

    Not OpenCV's polygons: these leave out pixels that lie up to a third of a pixel inside.
    """
    corners = cv2.convexHull(points.astype(np.float32), clockwise=True, returnPoints=False)
    hull = points[corners[:, 0]]  # (m, 2): in the picture, down on the left and up on the right
    (x, y), (dx, dy) = hull.T, (np.roll(hull, -1, axis=0) - hull).T
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])
    crossing = x + dx * (rows - y) / np.where(dy, dy, 1)  # (h, m): where each row meets each side
    left = np.where(dy > 0, crossing, -np.inf).max(axis=1, keepdims=True)
    right = np.where(dy < 0, crossing, np.inf).min(axis=1, keepdims=True)
    mask: BoolMask = (columns >= left) & (columns <= right) & (rows >= y.min()) & (rows <= y.max())
    return mask


def luma(rgb: UInt8Image) -> UInt8Image:
    """Return colours (..., 3) as grey ones; exact, so that grey stays as it is."""
    total = rgb.astype(np.int32) @ np.array([299, 587, 114], np.int32)
    return np.repeat(((total + 500) // 1000).astype(np.uint8)[..., None], 3, axis=-1)
