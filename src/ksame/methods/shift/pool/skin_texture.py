"""Extract the skin texture of a generated portrait for video, without its light, hair and hands."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import (
    BROWS,
    FRAME,
    INNER_LIPS,
    LEFT_EYE,
    OUTER_LIPS,
    OVAL,
    RIGHT_EYE,
    Raster,
    nearest_covered,
)
from ksame.spaces import AppearanceSpace

__all__ = ["extract_skin_texture", "is_clean_skin", "is_neutral"]

_LUMA_WEIGHTS = np.array([0.299, 0.587, 0.114], np.float32)
_LIGHT_SIGMA_PX = 22.0  # scale that separates light (coarser) from the face (finer)
_MAX_LIGHT_GAIN = 1.7  # factor by which shadows are lifted at most
_HIGHLIGHT_L = 14.0  # L* above the skin at which a highlight begins; a third of it is kept
# (L*, a*b*, share): pixels that differ from the skin by more than either are hair, a hand or a shadow; at
# most this share of the face may be
_NON_SKIN_LIMITS = ((16.0, 10.0, 0.03), (12.0, 8.0, 0.12))
_HAIR_LIMITS = 6.0, 0.04  # L* by which hairs and wrinkles differ from their surroundings; share allowed
_FRINGE_SHARE_MAX = 0.15  # of the forehead that may be other than skin
_MIN_SKIN_L, _SKIN_HUE_RANGE, _MAX_SKIN_CHROMA = 40.0, (15.0, 85.0), 42.0  # beyond, the light is coloured
_RIM_PX = 11  # width of the rim that is not skin
_GLABELLA_POINT = 9  # between the brows
_NOSTRILS = (98, 97, 2, 326, 327, 94)
_OPEN_MOUTH_RATIO = 0.03  # distance of the lips relative to the mouth's width
_OPEN_EYE_RATIO = 0.2  # height of an eye relative to its width


def extract_skin_texture(
    image: NDArray[np.uint8], mesh: FloatArray, space: AppearanceSpace
) -> NDArray[np.uint8]:
    """Return the face of a portrait on the mean shape in the canonical frame, in frontal light.

    Side light is balanced and highlights are dimmed: the light is added from the video later.

    Parameters
    ----------
    image : (h, w, 3) uint8
        The portrait.
    mesh : (468, 2)
        Its landmarks.
    space : AppearanceSpace
        The model with the mean shape.
    """
    raster, skin = _skin_region(space)
    face = raster.pull(image, mesh).astype(np.float32)
    low = _low_frequency_light(face @ _LUMA_WEIGHTS, skin)
    face *= np.clip(np.sqrt(low[:, ::-1] / low), 1 / _MAX_LIGHT_GAIN, _MAX_LIGHT_GAIN)[..., None]
    lab = cv2.cvtColor(np.clip(face, 0, 255) / 255, cv2.COLOR_RGB2LAB)
    over = lab[..., 0] - np.median(lab[skin, 0]) - _HIGHLIGHT_L
    lab[..., 0] -= 2 / 3 * np.maximum(over, 0) * cv2.GaussianBlur(skin.astype(np.float32), (0, 0), 2)
    even = 255 * np.clip(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB), 0, 1)
    spread = even[raster.covered][nearest_covered(raster.covered)]  # extended beyond its edge
    return np.asarray(spread.round(), np.uint8)


def is_clean_skin(face: NDArray[np.uint8], space: AppearanceSpace) -> bool:
    """Return whether the skin of a face on the mean shape is uncovered and evenly lit in neutral light."""
    skin = _skin_region(space)[1]
    lab, soft = (
        cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
        for image in (face, cv2.GaussianBlur(face, (0, 0), 2))
    )
    middle = np.median(soft[skin], axis=0)
    hue, vivid = np.degrees(np.arctan2(middle[2], middle[1])), np.hypot(*middle[1:])
    if (
        middle[0] < _MIN_SKIN_L
        or not _SKIN_HUE_RANGE[0] < hue < _SKIN_HUE_RANGE[1]
        or vivid > _MAX_SKIN_CHROMA
    ):
        return False
    off = np.abs(soft - middle)
    light, colour = off[..., 0], np.hypot(off[..., 1], off[..., 2])
    strands = np.abs(lab[..., 0] - cv2.GaussianBlur(lab[..., 0], (0, 0), 5))[skin] > _HAIR_LIMITS[0]
    if strands.mean() > _HAIR_LIMITS[1]:
        return False
    forehead = skin & (np.arange(len(skin)) < space.shape[_GLABELLA_POINT, 1])[:, None]
    others = [((light > a) | (colour > b), most) for a, b, most in _NON_SKIN_LIMITS]
    even = all(other[skin].mean() <= most for other, most in others)
    return bool(even and others[-1][0][forehead].mean() <= _FRINGE_SHARE_MAX)


def is_neutral(mesh: FloatArray) -> bool:
    """Return whether the lips of a mesh (468, 2) are closed and its eyes are open."""

    def far(a: int, b: int) -> float:
        return float(np.linalg.norm(mesh[a] - mesh[b]))

    eyes = [far(ring[4], ring[12]) / far(ring[0], ring[8]) for ring in (LEFT_EYE, RIGHT_EYE)]
    return (
        far(13, 14) < _OPEN_MOUTH_RATIO * far(INNER_LIPS[0], INNER_LIPS[10]) and min(eyes) > _OPEN_EYE_RATIO
    )


def _low_frequency_light(grey: NDArray[np.float32], skin: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the lightness of the skin around each pixel (h, w), at least 1."""
    share = skin.astype(np.float32)
    total, weight = (cv2.GaussianBlur(part, (0, 0), _LIGHT_SIGMA_PX) for part in (grey * share, share))
    low: NDArray[np.float32] = np.maximum(total / np.maximum(weight, 1e-4), 1)
    return low


@lru_cache(maxsize=2)
def _skin_region(space: AppearanceSpace) -> tuple[Raster, NDArray[np.bool_]]:
    """Return the mean shape in the canonical frame and the mask of its skin (h, w)."""
    width, height = FRAME.size(1)
    raster = Raster.of(space.shape, space.triangles, width, height)

    def hull(points: tuple[int, ...], grow: int) -> NDArray[np.uint8]:
        drawn = np.zeros((height, width), np.uint8)
        outline = cv2.convexHull(space.shape[list(points)].round().astype(np.int32))
        cv2.fillConvexPoly(drawn, outline, 1)
        return np.asarray(cv2.dilate(drawn, np.ones((grow, grow), np.uint8)))

    skin = cv2.erode(hull(OVAL, 1), np.ones((2 * _RIM_PX + 1, 2 * _RIM_PX + 1), np.uint8))
    eyes = (hull(ring, 19) for ring in (LEFT_EYE, RIGHT_EYE))
    brows = (hull(brow, 15) for brow in BROWS)
    for other in (*eyes, *brows, hull(OUTER_LIPS, 13), hull(_NOSTRILS, 9)):
        skin[other > 0] = 0
    return raster, skin > 0
