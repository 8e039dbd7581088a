"""How strong an expression is, where no network reads it: a few distances on the mesh [S 7.5.1]."""

from __future__ import annotations

import numpy as np

from ksame.core.arrays import FloatArray
from ksame.core.geometry import MOUTH_LEFT, MOUTH_RIGHT, five_points

__all__ = ["DISTANCES", "distances"]

DISTANCES: tuple[str, ...] = ("smile width", "mouth open", "eyes open", "brows raised")
_LIDS = ((159, 145), (386, 374))  # upper and lower, left and right of the picture
_BROW_MIDDLES = (105, 334)  # the middle of each brow


def distances(points: FloatArray) -> FloatArray:
    """Return how wide the mouth is, how open mouth and eyes are, and how high the brows stand, (n, 4).

    In units of the distance between the eyes, so that the size of a face does not matter. This is what is
    measured where the network for ``models.blendshapes`` is missing.
    """
    five = five_points(points)  # (n, 5, 2)

    def apart(a: FloatArray, b: FloatArray) -> FloatArray:
        far: FloatArray = np.linalg.norm(a - b, axis=-1)
        return far

    upper, lower = (points[:, [lid[side] for lid in _LIDS]] for side in (0, 1))
    lines = np.stack(
        [
            apart(points[:, MOUTH_LEFT], points[:, MOUTH_RIGHT]),
            apart(points[:, 13], points[:, 14]),  # the middle of the inner lips
            apart(upper, lower).mean(axis=1),
            apart(points[:, list(_BROW_MIDDLES)], five[:, :2]).mean(axis=1),
        ],
        axis=1,
    )
    shares: FloatArray = lines / np.maximum(apart(five[:, 0], five[:, 1]), 1e-9)[:, None]
    return shares
