"""Bring a new head to the light of a photo: skin tone and grain, both measured outside the regions."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray

__all__ = ["add_grain", "grain_sigma", "match_skin", "skin_target", "to_lab", "to_rgb"]

FloatImage = NDArray[np.float32]
BoolMask = NDArray[np.bool_]

MAX_TONE_SHIFT = (9.0, 5.0, 7.0)  # of L*, a*, b*
MIN_SKIN_PX = 40
_GRAIN_KERNEL = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)  # [Immerkaer 1996]
_GRAIN_BLUR_PX = 0.6


def to_lab(rgb: NDArray[Any]) -> FloatImage:
    """Return L*a*b* of colours on the 0 to 255 scale."""
    return np.asarray(
        cv2.cvtColor(np.clip(rgb, 0, 255).astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32
    )


def to_rgb(lab: FloatImage) -> FloatImage:
    """Return colours on the 0 to 255 scale."""
    return np.asarray(
        np.clip(cv2.cvtColor(lab.astype(np.float32), cv2.COLOR_LAB2RGB) * 255, 0, 255), np.float32
    )


def skin_target(photo: NDArray[np.uint8], skin: BoolMask) -> FloatArray | None:
    """Return the median L*a*b* of skin outside the regions; None without skin."""
    if skin.sum() < MIN_SKIN_PX:
        return None
    lab = to_lab(photo[skin][None])[0]
    return np.asarray(np.median(lab, axis=0), np.float64)


def match_skin(rgb: FloatImage, skin: FloatArray, target: FloatArray | None) -> FloatImage:
    """Return a head (h, w, 3) whose skin of one colour is brought towards a target, at most so far.

    Dark pixels, hair and eyes, are moved less than light ones.
    """
    if target is None:
        return rgb
    lab = to_lab(rgb)
    by = np.clip(target - skin, -np.array(MAX_TONE_SHIFT), MAX_TONE_SHIFT).astype(np.float32)
    share = np.clip(lab[..., :1] / max(float(skin[0]), 1.0), 0, 1.1)
    return to_rgb(lab + share * by)


def grain_sigma(photo: NDArray[np.uint8], known: BoolMask) -> float:
    """Return the standard deviation of the grain of some pixels, in grey levels."""
    grey = cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY).astype(np.float32)
    inner = cv2.erode(known.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    values = np.abs(cv2.filter2D(grey, -1, _GRAIN_KERNEL))[inner]
    return float(np.median(values) / 0.6745 / 6) if len(values) > 500 else 0.0


def add_grain(rgb: FloatImage, sigma: float, rng: np.random.Generator) -> FloatImage:
    """Return an image with grain of a standard deviation added."""
    noise = cv2.GaussianBlur(rng.normal(0, 1, rgb.shape[:2]).astype(np.float32), (0, 0), _GRAIN_BLUR_PX)
    return np.asarray(rgb + (sigma / max(float(noise.std()), 1e-6)) * noise[..., None], np.float32)
