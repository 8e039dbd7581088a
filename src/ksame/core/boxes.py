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
    """n detections as parallel arrays, in pixels of the photo; an index or a mask gives Boxes.

    Parameters
    ----------
    xyxy : (n, 4) float
        Left, top, right, bottom.
    score : (n,) float
        The detector's confidence in [0, 1].
    five : (n, 5, 2) float
        Left eye, right eye, nose tip, mouth left, mouth right; "left" is the picture's left.

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
        n = len(self.score)
        if self.xyxy.shape != (n, 4) or self.five.shape != (n, 5, 2):
            raise UsageError(
                f"Boxes need xyxy ({n}, 4) and five ({n}, 5, 2). Got {self.xyxy.shape}, {self.five.shape}."
            )

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.score)

    def __getitem__(self, index: Any) -> Boxes:
        """Return the faces that a slice, mask or index array names."""
        return Boxes(self.xyxy[index], self.score[index], self.five[index])

    @classmethod
    def none(cls) -> Boxes:
        """Return no face."""
        return cls(np.zeros((0, 4)), np.zeros(0), np.zeros((0, 5, 2)))

    @classmethod
    def join(cls, parts: Sequence[Boxes]) -> Boxes:
        """Return the faces of several passes side by side."""
        parts = [cls.none(), *parts]
        return cls(*(np.concatenate([getattr(p, c) for p in parts]) for c in ("xyxy", "score", "five")))

    def moved(self, move: Callable[[FloatArray], FloatArray]) -> Boxes:
        """Return the boxes after a map of points (..., 2) that keeps axes parallel to the axes."""
        corners = move(self.xyxy.reshape(-1, 2, 2))
        xyxy = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        return Boxes(xyxy, self.score, move(self.five))
