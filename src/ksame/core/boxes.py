"""Boxes of detected faces as parallel arrays: which are one face, and which others explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError

__all__ = ["NMS_IOU", "Boxes", "intersection", "is_explained", "largest_first", "suppress"]

NMS_IOU = 0.4  # intersection over union from which two boxes are one face


@dataclass(frozen=True, eq=False)
class Boxes:
    """n detections as parallel arrays, in pixels of the image; indexing gives Boxes.

    Parameters
    ----------
    xyxy : (n, 4) float
        Left, top, right, bottom.
    score : (n,) float
        The detector's confidence in [0, 1].
    five : (n, 5, 2) float
        Left eye, right eye, nose tip, mouth left, mouth right; "left" is the left of the image.

    Examples
    --------
    >>> len(Boxes.none())
    0
    """

    xyxy: FloatArray
    score: FloatArray
    five: FloatArray

    def __post_init__(self) -> None:
        """Check that the arrays are parallel."""
        n = len(self)
        if self.xyxy.shape != (n, 4) or self.five.shape != (n, 5, 2):
            raise UsageError(
                f"Boxes need xyxy ({n}, 4) and five ({n}, 5, 2). Got {self.xyxy.shape}, {self.five.shape}."
            )

    def __len__(self) -> int:
        """Return the number of detections."""
        return len(self.score)

    def __getitem__(self, index: Any) -> Boxes:
        """Return the detections that a slice, mask or index array selects."""
        return Boxes(self.xyxy[index], self.score[index], self.five[index])

    @classmethod
    def none(cls) -> Boxes:
        """Return an empty set of detections."""
        return cls(np.zeros((0, 4)), np.zeros(0), np.zeros((0, 5, 2)))

    @classmethod
    def join(cls, parts: Sequence[Boxes]) -> Boxes:
        """Return the detections of several sets in one."""
        parts = [cls.none(), *parts]
        return cls(*(np.concatenate([getattr(p, c) for p in parts]) for c in ("xyxy", "score", "five")))

    def moved(self, move: Callable[[FloatArray], FloatArray]) -> Boxes:
        """Return the boxes after a map of points (..., 2) by quarter turns, flips, scaling and shifts."""
        corners = move(self.xyxy.reshape(-1, 2, 2))
        xyxy = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        return Boxes(xyxy, self.score, move(self.five))


def largest_first(found: Boxes) -> Boxes:
    """Return the faces by the area of their boxes."""
    return found[np.argsort(-_area(found.xyxy), kind="stable")]


def is_explained(xyxy: FloatArray, covered: FloatArray) -> NDArray[np.bool_]:
    """Return which faces (n, 4) a covered box (m, 4) explains: see ``ksame.models.detectors.residual``."""
    centre = (xyxy[:, None, :2] + xyxy[:, None, 2:]) / 2  # (n, 1, 2)
    holds = ((covered[:, :2] <= centre) & (centre <= covered[:, 2:])).all(axis=2)  # (n, m)
    share = intersection(xyxy, covered) / _area(xyxy)[:, None]
    return np.asarray((holds & (share > 0.5)).any(axis=1))


def suppress(
    xyxy: FloatArray, score: FloatArray, *, overlap: float = NMS_IOU, nested: bool = False
) -> NDArray[np.intp]:
    """Return the rows to keep, best first: greedy non-maximum suppression.

    Besides boxes of a high intersection over union, a box that lies within a better one (or the other
    way round) by nine tenths goes as well, unless ``nested`` ones are kept: passes at different scales
    see one face that way.

    Examples
    --------
    >>> suppress(np.array([[0, 0, 10, 10], [1, 0, 11, 10], [30, 0, 40, 10.0]]), np.array([0.7, 0.9, 0.8]))
    array([1, 2])
    """
    order = np.argsort(-score, kind="stable")
    area, keep = _area(xyxy), []
    while order.size:
        best, order = order[0], order[1:]
        keep.append(best)
        common = intersection(xyxy[[best]], xyxy[order])[0]
        same = common > overlap * (area[best] + area[order] - common)
        within = common > 0.9 * np.minimum(area[best], area[order])
        order = order[~(same if nested else same | within)]
    return np.array(keep, dtype=np.intp)


def _area(xyxy: FloatArray) -> FloatArray:
    area: FloatArray = np.maximum(xyxy[:, 2:] - xyxy[:, :2], 1e-9).prod(axis=1)
    return area


def intersection(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the common area (n, m) of boxes (n, 4) and (m, 4)."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    common: FloatArray = np.clip(high - low, 0, None).prod(axis=2)
    return common
