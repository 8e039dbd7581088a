"""Synthetic faces, decoded from random codes of the bundled appearance model."""

from functools import cache

import numpy as np

from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, INNER_LIPS, LEFT_EYE, OVAL, RIGHT_EYE, register
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import landmarks_on_frame

# another landmark scheme: 68 points without known meanings
SIXTY_EIGHT = [*OVAL, *LEFT_EYE[::2], *RIGHT_EYE[::2], *INNER_LIPS[::2], 1, 2, 5, 61, 168, 291]


@cache
def model():
    return AppearanceSpace.bundled()


def photos(n, seed=0, spread=0.7):
    """Return images (n, h, w, 3) of random faces on a grey background, and their landmarks (n, 468, 2)."""
    space = model()
    codes = np.random.default_rng(seed).normal(size=(n, len(space.deviation))) * space.deviation * spread
    rgb = space.decode(codes)
    rgb[(rgb == 0).all(axis=3)] = 150
    return rgb, space.shapes(codes) * rgb.shape[2] / FRAME.width


def people(n=8, seed=0, scale=0.375, spread=0.7):
    """Return n random faces, registered."""
    rgb, points = photos(n, seed, spread)
    faces = np.stack([register(photo, p, scale=scale) for photo, p in zip(rgb, points, strict=True)])
    names = np.arange(n).astype(str)
    return FaceSet(faces, points, np.zeros((n, 4)), np.ones(n), names, names)


def sixty_eight(n=8, seed=0, scale=0.375):
    """Return n random faces with 68 landmarks, in pixels of the frame."""
    faces = people(n, seed, scale)
    return FaceSet(
        faces.rgb,
        landmarks_on_frame(faces)[:, SIXTY_EIGHT],
        faces.xyxy,
        faces.score,
        faces.source,
        faces.subject,
    )
