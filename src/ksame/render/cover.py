"""Cover faces that cannot be replaced."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import BACKGROUND_GREY
from ksame.render.blend import Box

COVER_GRID_CELLS = 16  # side of the grid on which the surrounding colours are averaged


def cover_faces(photo: NDArray[np.uint8], boxes: FloatArray) -> NDArray[np.uint8]:
    """Return the photo with an ellipse over each box (n, 4), generous at the edges.

    The ellipse has the blurred colours of its surroundings. No pixel under any ellipse is read.
    """
    if not len(boxes):
        return photo
    result = photo.copy()
    cover_in_place(result, boxes)
    return result


def cover_in_place(photo: NDArray[np.uint8], boxes: FloatArray) -> list[Box]:
    """Cover boxes (n, 4) in place, as ``cover_faces`` does, and return the changed boxes."""
    under, new = np.zeros(photo.shape[:2], np.uint8), []
    ellipses = cover_boxes(boxes).reshape(-1, 2, 2)
    for low, high in ellipses:
        _ellipse(under, low, high)
    by_size = sorted(ellipses, key=lambda box: np.ptp(box, axis=0).prod())  # large ones are painted last
    for low, high in by_size:
        margin = (high - low) / 6 + 2
        left, top = np.clip(low - margin, 0, photo.shape[1::-1]).astype(int)
        right, bottom = np.clip(np.ceil(high + margin), 0, photo.shape[1::-1]).astype(int)
        if right > left and bottom > top:
            here, own = np.s_[top:bottom, left:right], np.zeros((bottom - top, right - left), np.uint8)
            _ellipse(own, low, high, at=(left, top))
            # pixels under other ellipses are not read either, even if painted already
            cv2.copyTo(_fill_from_surroundings(photo[here], under[here]), own, photo[here])
            new.append((int(left), int(top), int(right), int(bottom)))
    return new


def _ellipse(
    mask: NDArray[np.uint8], low: FloatArray, high: FloatArray, *, at: tuple[int, int] = (0, 0)
) -> None:
    """Fill the ellipse within a box in a mask whose top left corner is at ``at`` in the photo."""
    centre, half = np.rint((low + high) / 2).astype(int) - at, np.rint((high - low) / 2).astype(int) + 1
    cv2.ellipse(mask, centre.tolist(), half.tolist(), 0, 0, 360, 255, -1)


def _fill_from_surroundings(rgb: NDArray[np.uint8], under: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an image (h, w, 3) of the nearest colours outside a mask (h, w)."""
    step = max(1, min(under.shape) // (8 * COVER_GRID_CELLS))  # eight pixels a cell are enough for a mean
    bare = (under[::step, ::step] == 0).astype(np.float32)
    colour, share = (
        cv2.resize(x, (COVER_GRID_CELLS, COVER_GRID_CELLS), interpolation=cv2.INTER_AREA).reshape(
            COVER_GRID_CELLS**2, -1
        )
        for x in (bare[..., None] * rgb[::step, ::step], bare)
    )
    if not share.any():
        return np.full_like(rgb, BACKGROUND_GREY // 2)
    near = _cell_weights()
    mean = (
        (near @ colour / (near @ share))
        .round()
        .reshape(COVER_GRID_CELLS, COVER_GRID_CELLS, 3)
        .astype(np.uint8)
    )
    return np.asarray(cv2.resize(mean, rgb.shape[1::-1], interpolation=cv2.INTER_LINEAR), np.uint8)


@cache
def _cell_weights() -> FloatArray:
    """Return the weight of each grid cell for each other one (cells, cells): by inverse distance."""
    cell = np.indices((COVER_GRID_CELLS, COVER_GRID_CELLS)).reshape(2, -1).T
    near: FloatArray = (((cell[:, None] - cell) ** 2).sum(axis=2) + 0.5) ** -2.0
    return near


def cover_boxes(boxes: FloatArray) -> FloatArray:
    """Return the boxes (n, 4) of the ellipses that ``cover_faces`` paints: half as large again.

    A box's corners lie on an ellipse of 1.42 times its sides, so nothing of it is left.
    """
    centre, half = (boxes[:, 2:] + boxes[:, :2]) / 2, 0.75 * (boxes[:, 2:] - boxes[:, :2])
    return np.hstack([centre - half, centre + half])
