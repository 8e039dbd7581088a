"""Pictures of new faces: their sizes and their rims."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core import FloatArray
from ksame.geometry import OVAL, nearest
from ksame.masking.features import disc
from ksame.masking.look import sharpness

Picture = NDArray[np.float32]

SOFTER = (0.5, 0.8, 1.2, 1.8, 2.7, 4.0)  # px
SOFTEST = 0.025  # of a face's width: more would take the eyes of a small one
LEVELS = 3  # the new face at full, half and quarter size: a small face must not alias
RIM = 0.93  # of a face: what lies further out is half hair and ground, in colours of the axes
WIDER = 0.88  # likewise of a portrait, whose hair is its own


def scaled(picture: Picture, scale: float, size: tuple[int, int]) -> Picture:
    """Return a picture on another scale, on which point x lies at x times it."""
    matrix = np.array([[scale, 0, 0], [0, scale, 0]])
    moved: Picture = cv2.warpAffine(picture, matrix, size, borderMode=cv2.BORDER_REPLICATE)
    return moved


def spread(picture: Picture, shape: FloatArray, rim: float = RIM) -> Picture:
    """Carry the skin of a face outwards, softened: its rim is half hair and ground, in wild colours."""
    oval = shape[list(OVAL)]
    middle, wide = oval.mean(axis=0), float(np.ptp(oval[:, 0]))
    inside = np.zeros(picture.shape[:2], np.float32)
    cv2.fillPoly(inside, [(middle + rim * (oval - middle)).round().astype(np.int32)], 1.0)
    covered = inside > 0
    filled = cv2.GaussianBlur(picture, (0, 0), 0.03 * wide)[covered][nearest(covered)]
    filled = cv2.GaussianBlur(filled, (0, 0), 0.06 * wide)
    share = cv2.GaussianBlur(cv2.erode(inside, disc(0.05 * wide)), (0, 0), 0.025 * wide)[..., None]
    result: Picture = filled + share * (picture - filled)
    return result


def softened(picture: Picture, mesh: FloatArray, sharp: float) -> Picture:
    """Return a face no sharper than a frame is: a portrait in a blurred frame would look pasted in.

    Parameters
    ----------
    picture : (h, w, 3) float32
        The face.
    mesh : (468, 2)
        Its landmarks.
    sharp : float
        The frame's ``sharpness``.
    """
    grey: Picture = cv2.transform(picture, np.full((1, 3), 1 / 3, np.float32))  # blurs as the colours would
    less, last = 0.0, sharpness(grey, mesh)
    for sigma in SOFTER:
        if last <= sharp or sigma > SOFTEST * np.ptp(mesh[:, 0]):
            break
        now = sharpness(cv2.GaussianBlur(grey, (0, 0), sigma), mesh)
        if now <= sharp:  # between the two: in steps it would flicker
            share = np.float32((last - sharp) / max(last - now, 1e-9))
            before, after = _blurred(picture, less), _blurred(picture, sigma)
            return before + share * (after - before)
        less, last = sigma, now
    return _blurred(picture, less)


def _blurred(picture: Picture, sigma: float) -> Picture:
    soft: Picture = cv2.GaussianBlur(picture, (0, 0), sigma) if sigma else picture
    return soft


def pyramid(picture: Picture) -> tuple[Picture, ...]:
    """Return a picture at full, half and quarter size; point x of the first lies at x / 2 in the second."""
    height, width = picture.shape[:2]
    smaller = (
        scaled(cv2.GaussianBlur(picture, (0, 0), 2**level / 2), 0.5**level, (width >> level, height >> level))
        for level in range(1, LEVELS)
    )
    return (picture, *smaller)
