"""Detect grey and toned images, and give drawn faces the tone of their photo.

Measured on 1,465 colour photos (london, canada, congress, portraits), and on 90 of them made grey or toned
(sepia, cyanotype), as PNG, as JPEG of quality 60 to 95, and with noise in each channel. Chroma is in L*a*b*.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray

__all__ = ["is_grey", "is_monochrome", "match_tone", "to_grey", "to_tone", "tone_curve"]

MEASURED_SIDE_PX = 256  # longer side of the reduced image on which colour is measured
CELL_PX = 8  # px of the reduced image: chroma is averaged over cells, so that noise and JPEG artefacts cancel
# Chroma of the most coloured cell: at most 1.7 in grey photos with noise of 6 levels, 3.9 with noise of 12 or
# a cast of 4 levels; at least 14.8 in colour photos.
GREY_CHROMA_MAX = 6.0
# Distance of the cell that is farthest from the photo's own tone, as a share of the highest chroma: at most
# 0.14 in sepia and cyanotype photos, at least 0.30 in colour photos. A share: pale colours remain colours.
TONE_SPREAD_MAX = 0.2
CURVE_SIGMA_GREY_LEVELS = 6.0  # standard deviation of the kernel that smooths a tone curve

UInt8Image = NDArray[np.uint8]


def is_grey(rgb: UInt8Image) -> bool:
    """Return whether an image (h, w, 3) has no colour but noise.

    Examples
    --------
    >>> is_grey(np.full((32, 32, 3), 128, np.uint8)), is_grey(np.full((32, 32, 3), (180, 140, 120), np.uint8))
    (True, False)
    """
    return _highest_chroma(_reduce_image(rgb)) < GREY_CHROMA_MAX


def is_monochrome(rgb: UInt8Image) -> bool:
    """Return whether an image (h, w, 3) is grey, or toned: its colour follows from its lightness.

    A weak tone (chroma of about 10) with noise is taken for colour.
    """
    small = _reduce_image(rgb)
    highest = _highest_chroma(small)
    if highest < GREY_CHROMA_MAX:
        return True
    grey = _grey(small)
    toned = grey[..., None] + tone_curve(small, np.ones(grey.shape, bool))[grey]
    away = _cells(small)[..., 1:] - _cells(toned.astype(np.float32))[..., 1:]
    return bool(np.linalg.norm(away, axis=-1).max() < TONE_SPREAD_MAX * highest)


def to_grey(rgb: UInt8Image) -> UInt8Image:
    """Return an image (h, w, 3) without colour: three equal channels.

    Examples
    --------
    >>> to_grey(np.array([[[200, 100, 50], [7, 7, 7]]], np.uint8)).tolist()
    [[[124, 124, 124], [7, 7, 7]]]
    """
    return np.repeat(_grey(rgb)[..., None], 3, axis=2)


def match_tone(drawn: UInt8Image, photo: UInt8Image) -> UInt8Image:
    """Return a drawn image in the tone of its photo if the photo is monochrome, else unchanged.

    Parameters
    ----------
    drawn, photo : (h, w, 3) uint8
        With and without new faces.
    """
    return to_tone(drawn, photo) if is_monochrome(photo) else drawn


def to_tone(drawn: UInt8Image, photo: UInt8Image) -> UInt8Image:
    """Apply the tone of a photo to an image where the two differ.

    The tone is measured on the pixels that do not differ, so never on a replaced face. If the channels of
    the photo are equal, those of the result are equal to the bit.
    """
    changed = (drawn != photo).any(axis=2)
    levels = np.arange(256)[:, None] + tone_curve(photo, ~changed)
    result = drawn.copy()
    result[changed] = np.clip(np.rint(levels), 0, 255).astype(np.uint8)[_grey(drawn)[changed]]
    return result


def tone_curve(rgb: UInt8Image, where: NDArray[np.bool_]) -> FloatArray:
    """Return the offsets of red, green and blue from each grey level, (256, 3), over some pixels (h, w).

    A mean weighted by the distance in grey levels; 0 where there are no pixels.
    """
    colours = rgb[where]  # (p, 3)
    grey = _grey(rgb)[where]
    count = np.bincount(grey, minlength=256)
    offset = [np.bincount(grey, c.astype(np.float64) - grey, minlength=256) for c in colours.T]
    level = np.arange(256)
    kernel = np.exp(-0.5 * ((level[:, None] - level) / CURVE_SIGMA_GREY_LEVELS) ** 2)
    kernel += 1e-12  # far from all levels, the mean
    curve: FloatArray = kernel @ np.stack(offset, axis=1) / np.maximum(kernel @ count, 1e-12)[:, None]
    return curve


def _grey(rgb: UInt8Image) -> UInt8Image:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)


def _reduce_image(rgb: UInt8Image) -> UInt8Image:
    """Return an image with its longer side at most ``MEASURED_SIDE_PX``."""
    scale = MEASURED_SIDE_PX / max(rgb.shape[:2])
    if scale >= 1:
        return rgb
    size = [max(1, round(side * scale)) for side in rgb.shape[1::-1]]
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def _cells(rgb: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the colour of each cell in L*a*b*, (h', w', 3)."""
    size = [max(1, side // CELL_PX) for side in rgb.shape[1::-1]]
    mean = cv2.resize(rgb.astype(np.float32) / 255, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(mean, cv2.COLOR_RGB2LAB), np.float32)


def _highest_chroma(small: UInt8Image) -> float:
    return float(np.linalg.norm(_cells(small)[..., 1:], axis=-1).max())
