"""Boxes of detected faces, as parallel arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError

__all__ = ["Boxes"]


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
