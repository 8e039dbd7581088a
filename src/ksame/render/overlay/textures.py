"""Pictures of new faces: their sizes and their rims."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import OVAL, nearest_covered
from ksame.render.overlay.features import disc_kernel
from ksame.render.overlay.frame_code import measure_sharpness

FloatImage = NDArray[np.float32]

BLUR_SIGMAS_PX = (0.5, 0.8, 1.2, 1.8, 2.7, 4.0)  # px
MAX_BLUR_WIDTH_SHARE = 0.025  # of a face's width: more would take the eyes of a small one
MAX_SKIN_L_CHANGE = (
    15.0  # L*: skin differs by as much from skin in the same light; what is more is the light's
)
SKIN_L_TOLERANCE = 12.0  # L*: what differs from the skin by less is skin
PYRAMID_LEVELS = 3  # the new face at full, half and quarter size: a small face must not alias
FACE_RIM_SHARE = 0.93  # of a face: what lies further out is half hair and ground, in colours of the axes
PORTRAIT_RIM_SHARE = 0.88  # likewise of a portrait, whose hair is its own


def rescale_image(image: FloatImage, scale: float, size: tuple[int, int]) -> FloatImage:
    """Return a picture on another scale, on which point x lies at x times it."""
    matrix = np.array([[scale, 0, 0], [0, scale, 0]])
    moved: FloatImage = cv2.warpAffine(image, matrix, size, borderMode=cv2.BORDER_REPLICATE)
    return moved


def extend_skin(image: FloatImage, shape: FloatArray, rim: float = FACE_RIM_SHARE) -> FloatImage:
    """Carry the skin of a face outwards, softened: its rim is half hair and ground, in wild colours."""
    oval = shape[list(OVAL)]
    middle, wide = oval.mean(axis=0), float(np.ptp(oval[:, 0]))
    inside = np.zeros(image.shape[:2], np.float32)
    cv2.fillPoly(inside, [(middle + rim * (oval - middle)).round().astype(np.int32)], 1.0)
    covered = inside > 0
    filled = cv2.GaussianBlur(image, (0, 0), 0.03 * wide)[covered][nearest_covered(covered)]
    filled = cv2.GaussianBlur(filled, (0, 0), 0.06 * wide)
    share = cv2.GaussianBlur(cv2.erode(inside, disc_kernel(0.05 * wide)), (0, 0), 0.025 * wide)[..., None]
    result: FloatImage = filled + share * (image - filled)
    return result


def match_skin(image: NDArray[np.uint8], skin: FloatArray, wanted: FloatArray) -> FloatImage:
    """Return a face whose skin has another colour (3,), as far as skin and not light makes the difference.

    Black stays black and grey stays grey; what is a little darker or lighter than the skin stays so by as
    much, and so do lips that are redder, but less in darker skin. Merely multiplied, a dark face that
    becomes a light one would have twice the contrast.

    Examples
    --------
    >>> face = np.array([[[150, 110, 90], [10, 10, 10], [200, 200, 200]]], np.uint8)
    >>> match_skin(face, np.array([150.0, 110, 90]), np.array([180.0, 140, 120])).round().astype(int).tolist()
    [[[180, 140, 120], [13, 13, 13], [212, 212, 212]]]
    """
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    (old, *hue), (new, *other) = (
        cv2.cvtColor(np.asarray(colour, np.float32)[None, None] / 255, cv2.COLOR_RGB2LAB)[0, 0].tolist()
        for colour in (skin, wanted)
    )
    old, fade = float(np.clip(old, 1, 99)), min(1.0, new / max(old, 1.0))
    new = float(np.clip(new, max(old - MAX_SKIN_L_CHANGE, 1), min(old + MAX_SKIN_L_CHANGE, 99)))
    knots = [0.0, max(old - SKIN_L_TOLERANCE, 0.5 * old), old, 100.0]
    below, above = min(1.0, new / old), min(1.0, (100 - new) / (100 - old))
    levels = [0.0, new - below * (old - knots[1]), new, new + above * (100 - old)]
    lab[..., 0] = np.interp(lab[..., 0], knots, levels)
    like = np.clip(lab[..., 1:] @ np.float32(hue) / max(float(np.hypot(*hue)) ** 2, 1.0), 0, 1)  # 0: grey
    before, after = (like[..., None] * np.float32(ab) for ab in (hue, other))
    lab[..., 1:] = after + np.float32(fade) * (lab[..., 1:] - before)
    result: FloatImage = 255 * np.clip(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB), 0, 1)
    return result


def match_sharpness(image: FloatImage, mesh: FloatArray, sharp: float) -> FloatImage:
    """Return a face no sharper than a frame is: a portrait in a blurred frame would look pasted in.

    Parameters
    ----------
    image : (h, w, 3) float32
        The face.
    mesh : (468, 2)
        Its landmarks.
    sharp : float
        The frame's ``measure_sharpness``.
    """
    grey: FloatImage = cv2.transform(image, np.full((1, 3), 1 / 3, np.float32))  # blurs as the colours would
    less, last = 0.0, measure_sharpness(grey, mesh)
    for sigma in BLUR_SIGMAS_PX:
        if last <= sharp or sigma > MAX_BLUR_WIDTH_SHARE * np.ptp(mesh[:, 0]):
            break
        now = measure_sharpness(cv2.GaussianBlur(grey, (0, 0), sigma), mesh)
        if now <= sharp:  # between the two: in steps it would flicker
            share = np.float32((last - sharp) / max(last - now, 1e-9))
            before, after = _blur_image(image, less), _blur_image(image, sigma)
            return before + share * (after - before)
        less, last = sigma, now
    return _blur_image(image, less)


def _blur_image(image: FloatImage, sigma: float) -> FloatImage:
    soft: FloatImage = cv2.GaussianBlur(image, (0, 0), sigma) if sigma else image
    return soft


def image_pyramid(image: FloatImage) -> tuple[FloatImage, ...]:
    """Return a picture at full, half and quarter size; point x of the first lies at x / 2 in the second."""
    height, width = image.shape[:2]
    smaller = (
        rescale_image(
            cv2.GaussianBlur(image, (0, 0), 2**level / 2), 0.5**level, (width >> level, height >> level)
        )
        for level in range(1, PYRAMID_LEVELS)
    )
    return (image, *smaller)
