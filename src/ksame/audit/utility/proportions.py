"""What a face is built like, beyond its colour: features that people of one descent have in common."""

from __future__ import annotations

from ksame.core.arrays import FloatArray
from ksame.spaces.generator_space import shape_attributes

__all__ = ["PROPORTIONS", "proportions"]

PROPORTIONS: tuple[str, ...] = ("width of the nose", "fullness of the lips")


def proportions(points: FloatArray) -> FloatArray:
    """Return how wide the nose is and how full both lips are (n, 2), as shares of the width of the face.

    Shares of the face itself change little with its size, its place, its roll, and small turns. Means of
    many people and generators that saw few of some descent draw these towards those of the others, while
    the skin may still have the right tone. Lips that smile are thinner: compare like with like.

    Parameters
    ----------
    points : (n, 468, 2)
        Meshes.

    Examples
    --------
    >>> import numpy as np
    >>> mesh = np.zeros((1, 468, 2))
    >>> mesh[0, 454, 0], mesh[0, 358, 0], mesh[0, [13, 14], 1], mesh[0, 17, 1] = 100, 25, 6, 14
    >>> proportions(mesh).tolist()
    [[0.25, 0.14]]
    """
    built = shape_attributes(points)
    shares: FloatArray = built[:, 1:3] / built[:, 3:]  # nose and lips, by the width of the face
    return shares
