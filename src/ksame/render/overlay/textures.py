"""Textures of new faces: scale, sharpness, skin colour and rim."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import OVAL, nearest_covered
from ksame.render.overlay.features import disc_kernel
from ksame.render.overlay.frame_code import measure_sharpness

FloatImage = NDArray[np.float32]

BLUR_SIGMAS_PX = (0.5, 0.8, 1.2, 1.8, 2.7, 4.0)
MAX_BLUR_WIDTH_SHARE = 0.025  # of a face's width: more would remove the eyes of a small face
MAX_SKIN_L_CHANGE = 15.0  # L*: skin in the same light differs by at most this; more is a difference of light
SKIN_L_TOLERANCE = 12.0  # L*: colours closer to the skin than this are skin
PYRAMID_LEVELS = 3  # the new face at full, half and quarter size, so that small faces do not alias
FACE_RIM_SHARE = 0.93  # of a face: further out the model blends hair and background in false colours
PORTRAIT_RIM_SHARE = 0.88  # of a generated portrait, which has hair of its own


def rescale_image(image: FloatImage, scale: float, size: tuple[int, int]) -> FloatImage:
    """Scale an image so that point x moves to ``scale`` times x."""
    matrix = np.array([[scale, 0, 0], [0, scale, 0]])
    moved: FloatImage = cv2.warpAffine(image, matrix, size, borderMode=cv2.BORDER_REPLICATE)
    return moved


def extend_skin(image: FloatImage, shape: FloatArray, rim: float = FACE_RIM_SHARE) -> FloatImage:
    """Extend the skin of a face beyond its rim, softened: the rim itself blends hair and background."""
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
    """Return a face with skin of another colour (3,), within the range of skin tones in equal light.

    Black stays black and grey stays grey; small differences from the skin are kept, as is the redness of
    lips, but less in darker skin. Plain multiplication would double the contrast of a dark face that
    becomes light.

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
    """Blur a face until it is no sharper than its frame.

    Parameters
    ----------
    image : (h, w, 3) float32
        The face.
    mesh : (468, 2)
        Its landmarks.
    sharp : float
        The frame's ``measure_sharpness``.
    """
    grey: FloatImage = cv2.transform(image, np.full((1, 3), 1 / 3, np.float32))  # linear, like the blur
    less, last = 0.0, measure_sharpness(grey, mesh)
    for sigma in BLUR_SIGMAS_PX:
        if last <= sharp or sigma > MAX_BLUR_WIDTH_SHARE * np.ptp(mesh[:, 0]):
            break
        now = measure_sharpness(cv2.GaussianBlur(grey, (0, 0), sigma), mesh)
        if now <= sharp:  # interpolate between two blurs: discrete steps would flicker
            share = np.float32((last - sharp) / max(last - now, 1e-9))
            before, after = _blur_image(image, less), _blur_image(image, sigma)
            return before + share * (after - before)
        less, last = sigma, now
    return _blur_image(image, less)


def _blur_image(image: FloatImage, sigma: float) -> FloatImage:
    soft: FloatImage = cv2.GaussianBlur(image, (0, 0), sigma) if sigma else image
    return soft


def image_pyramid(image: FloatImage) -> tuple[FloatImage, ...]:
    """Return an image at full, half and quarter size; point x of one level lies at x / 2 in the next."""
    height, width = image.shape[:2]
    smaller = (
        rescale_image(
            cv2.GaussianBlur(image, (0, 0), 2**level / 2), 0.5**level, (width >> level, height >> level)
        )
        for level in range(1, PYRAMID_LEVELS)
    )
    return (image, *smaller)
