"""What a frame shows of a person: the code that a mask is drawn by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.analysis.tracking.propagate import eye_distance_and_turn
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet, FaceView
from ksame.core.geometry import MESH, SKIN_POINTS, register, similarity, to_frame, transform
from ksame.models import weights
from ksame.models.landmarks import refine_landmarks
from ksame.render.blend import padded_box
from ksame.render.overlay.features import LOWER_LIP, UPPER_LIP
from ksame.render.tone import is_monochrome, to_grey
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import TEXTURE_SCALE

REFINE_MIN_EYE_DISTANCE_PX = (
    16.0  # px between the eyes: in smaller faces the closer look sees features where they are not
)
SMALL_FACE_EYE_DISTANCE_PX = (
    56.0  # px: in smaller ones a third look tells no more (smiling_talker.mp4 at half its size)
)
SKIN_SPOT_WIDTH_SHARE = 0.04  # of a face's width: over how large a spot the colour of skin is taken
FOREHEAD_SHADE_RATIO = 0.75  # of the light on a nose: a forehead that has less is under something
CHEEK_ROWS = slice(0, 6), slice(6, 12)  # of SKIN
_SKIN_PARTS = *CHEEK_ROWS, slice(12, 15), slice(15, 17)  # and nose, and forehead
# Below, left and right in the picture: beside the mouth and on the chin. Cheeks are so many times as red,
# green and blue in the median of 1,265 photos. In 6 of them they are both less red and less coloured than
# GLASS times (red, and red less blue): glasses, and odd light that would draw a greyer face too.
_BELOW_CHEEK_POINTS = (187, 212, 194, 208, 411, 432, 418, 428)
GLASSES_RATIO_MIN, GLASSES_LIMITS = (1.087, 1.08, 1.086), (1.05, 0.85)
NEUTRAL = 6.0  # levels from the lowest to the highest channel: skin with less has no colour
_MOUTH_ROWS = 8  # colours between the upper lip and the lower one
_NOSE = 1  # its tip
_COLOURED = np.array([1.0, 0.0, -1.0])
_CORNERS = [33, 263, 168, 17]  # eyes' outer corners, bridge of the nose, lower lip


def appearance_code(model: AppearanceSpace, view: FaceView) -> FloatArray:
    """Return gamma' (d,) of a face in the appearance model, light and pose included [S 7.2].

    A face without colour is given the hue of the model's mean face. On 56 grey versions of colour photos that
    halves the distance to the code of the colour photo, from 0.39 to 0.19 of the spread of codes.
    """
    face, nobody = register(view.rgb, view.points, scale=TEXTURE_SCALE), np.array([""])
    if is_monochrome(view.rgb):
        face = _with_hue(face, model.texture.reshape(-1, 3).mean(axis=0))
    faces = FaceSet(face[None], view.points[None], np.zeros((1, 4)), np.ones(1), nobody, nobody)
    gamma: FloatArray = model.encode(faces, nuisance=True)[0]
    return gamma


def _with_hue(rgb: NDArray[np.uint8], colour: FloatArray) -> NDArray[np.uint8]:
    """Return an image (h, w, 3) with its own lightness and the hue of one colour (3,)."""
    lightness = cv2.cvtColor(colour.astype(np.float32)[None, None], cv2.COLOR_RGB2GRAY).item()
    return np.asarray(np.clip(np.rint(to_grey(rgb) * (colour / lightness)), 0, 255), np.uint8)


def encode_frame(model: AppearanceSpace, view: FaceView) -> FloatArray:
    """Return what a frame shows of a face, to draw it by: (936 + 1 + 51 + 6 + 24,).

    First where a closer look sees the landmarks, as the difference from the mesh on the model's frame: lids,
    brows and lips, which the network that finds faces does not follow well. Without the weight ``landmarker``
    the differences are 0, and expressions are weaker. Then how sharp the picture is, the colours of the skin
    and below the cheeks, and those between the lips from above to below: a band of teeth, but no tooth.
    """
    left, top, right, bottom = padded_box(view.points, view.rgb.shape)
    mesh = view.points - (left, top)
    area = np.ascontiguousarray(view.rgb[top:bottom, left:right])
    apart = eye_distance_and_turn(mesh)[0]
    near = apart >= REFINE_MIN_EYE_DISTANCE_PX and weights.cached("landmarker")
    seen = (
        refine_landmarks(area, mesh, views=3 if apart >= SMALL_FACE_EYE_DISTANCE_PX else 2) if near else mesh
    )
    on_frame = similarity(mesh, model.shape)[:, :2]
    away = (seen - mesh) @ on_frame.T
    face = register(area, mesh, scale=TEXTURE_SCALE)
    flat = transform(TEXTURE_SCALE * to_frame(mesh), mesh)
    skin, below = np.split(
        sample_skin_colours(face, flat, (*SKIN_POINTS, *_BELOW_CHEEK_POINTS)), [len(SKIN_POINTS)]
    )
    below = _side_colours(below, flat)
    sharp = measure_sharpness(cv2.cvtColor(area, cv2.COLOR_RGB2GRAY), mesh)
    return np.concatenate(
        [away.ravel(), [sharp], skin.ravel(), below.ravel(), _sample_mouth(area, seen).ravel()]
    )


def refined_landmarks(points: FloatArray, code: FloatArray, model: AppearanceSpace) -> FloatArray:
    """Return the mesh (468, 2) of a frame as the closer look saw it, from ``encode_frame``."""
    away = code[: 2 * MESH].reshape(MESH, 2)
    mesh: FloatArray = points + away @ similarity(model.shape, points)[:, :2].T
    return mesh


def mouth_colours(code: FloatArray) -> FloatArray:
    """Return the colours (8, 3) between the lips of a frame, from above to below, from ``encode_frame``."""
    return code[-3 * _MOUTH_ROWS :].reshape(_MOUTH_ROWS, 3)


def frame_sharpness(code: FloatArray) -> float:
    """Return how sharp a frame is, from ``encode_frame``."""
    return float(code[2 * MESH])


def skin_colours(code: FloatArray, *, glasses: bool = False) -> FloatArray:
    """Return the colours (17, 3) of the skin at its points in a frame, from ``encode_frame``.

    Seen through ``glasses`` they are not those of the skin: then by what is below them, each side its own.
    """
    if not glasses:
        return code[2 * MESH + 1 : -3 * _MOUTH_ROWS - 6].reshape(-1, 3)
    left, right = _below_cheek_colours(code) * GLASSES_RATIO_MIN
    return np.repeat([left, right, (left + right) / 2], [6, 6, 5], axis=0)


def wears_glasses(codes: Sequence[FloatArray]) -> bool:
    """Return whether somebody's cheeks are seen through something, in most of some frames by their codes.

    Only colour tells: by lightness alone it was found in 6 of 56 grey versions of photos, and in none of the
    colour photos.
    """
    pairs = [
        (np.median(skin_colours(code)[:12], axis=0), _below_cheek_colours(code).mean(axis=0))
        for code in codes
    ]
    above, below = np.moveaxis(np.array(pairs), 1, 0)  # (n, 3) each
    if np.median(np.ptp(below, axis=1)) < NEUTRAL:
        return False
    red, coloured = above[:, 0] / below[:, 0], (above @ _COLOURED) / np.maximum(below @ _COLOURED, 1)
    return bool(np.median(red) < GLASSES_LIMITS[0] and np.median(coloured) < GLASSES_LIMITS[1])


def _below_cheek_colours(code: FloatArray) -> FloatArray:
    """Return the colours (2, 3) of the skin below either cheek, from ``encode_frame``."""
    return code[-3 * _MOUTH_ROWS - 6 : -3 * _MOUTH_ROWS].reshape(2, 3)


def sample_skin_colours(
    rgb: NDArray[Any], mesh: FloatArray, points: Sequence[int] = SKIN_POINTS
) -> FloatArray:
    """Return the colours (n, 3) of the skin around some points of a face in a picture, by default 17.

    Never black, because light is measured by division.
    """
    soft = cv2.GaussianBlur(rgb, (0, 0), SKIN_SPOT_WIDTH_SHARE * max(float(np.ptp(mesh[:, 0])), 1.0))
    colours: FloatArray = np.maximum(_sample_colours(soft, mesh[list(points)][None])[0], 8.0)
    return colours


def _side_colours(below: FloatArray, mesh: FloatArray) -> FloatArray:
    """Return the colours (2, 3) of either side from its points' (8, 3); of a turned head the near one's.

    What lies where the far one would be is no skin.
    """
    left, right = sides = below.reshape(2, -1, 3).mean(axis=1)
    one, other = np.abs(mesh[list(_BELOW_CHEEK_POINTS), 0].reshape(2, -1).mean(axis=1) - mesh[_NOSE, 0])
    if min(one, other) < max(one, other) / 2:
        sides = np.tile(left if one > other else right, (2, 1))
    return np.asarray(sides)


def mean_skin_colour(colours: FloatArray) -> FloatArray:
    """Return what colour (3,) a face has as a whole, from those at the points of its skin (17, 3).

    As many points lie on the cheeks as would outvote the rest, and cheeks are redder. A forehead that is
    dark beside the nose is under hair or a hat.

    Examples
    --------
    >>> mean_skin_colour(np.vstack([np.full((12, 3), 180.0), np.full((5, 3), 200.0)])).tolist()
    [190.0, 190.0, 190.0]
    >>> mean_skin_colour(np.vstack([np.full((15, 3), 180.0), np.full((2, 3), 20.0)])).tolist()
    [180.0, 180.0, 180.0]
    """
    *parts, nose, forehead = (np.median(colours[part], axis=0) for part in _SKIN_PARTS)
    bare = forehead.sum() >= FOREHEAD_SHADE_RATIO * nose.sum()
    return np.asarray(np.median([*parts, nose, *([forehead] if bare else [])], axis=0))


def measure_sharpness(grey: NDArray[Any], mesh: FloatArray) -> float:
    """Return how much of what a face shows from eyes to mouth is fine, 1 px against 3.

    A share, so that neither light nor strong features count; noise counts as sharp.
    """
    low, high = mesh[_CORNERS].min(axis=0), mesh[_CORNERS].max(axis=0)
    left, top = np.maximum(low, 0).astype(int)
    part = grey[top : int(high[1]) + 1, left : int(high[0]) + 1].astype(np.float32)
    if min(part.shape) < 3:
        return 0.0
    fine, coarse = (cv2.GaussianBlur(part, (0, 0), sigma) for sigma in (1, 3))
    return float(np.mean((part - fine) ** 2) / (np.mean((fine - coarse) ** 2) + 1))


def _sample_colours(rgb: NDArray[Any], places: FloatArray) -> FloatArray:
    """Return the colours (h, w, 3) of a picture at some places (h, w, 2)."""
    seen = cv2.remap(rgb, places.astype(np.float32), None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(seen, np.float64)


def _sample_mouth(rgb: NDArray[np.uint8], mesh: FloatArray) -> FloatArray:
    """Return colours (8, 3) on lines between the lips, from above to below, away from the dark corners."""
    share = (np.arange(_MOUTH_ROWS) + 0.5)[:, None, None] / _MOUTH_ROWS
    at = (1 - share) * mesh[UPPER_LIP[2:-2]] + share * mesh[LOWER_LIP[2:-2]]  # (8, 5, 2)
    colours: FloatArray = np.percentile(
        _sample_colours(rgb, at), 65, axis=1
    )  # teeth are lighter than what is between
    return colours


def smooth_codes(codes: ArrayLike, seen: ArrayLike, *, sigma: float = 0.6) -> FloatArray:
    """Return the codes (t, d) of successive frames without flicker and lag: a Gaussian of both sides.

    Parameters
    ----------
    codes : (t, d) array
        One per frame; those of frames that are not seen do not count.
    seen : (t,) bool
        The frames whose code is good. The others get that of their neighbours in time.
    sigma : float
        In frames. Three of them on either side count, so a buffer of that length will do.

    Examples
    --------
    >>> smooth_codes([[1.0], [9.0], [1.0]], [True, False, True]).ravel().tolist()
    [1.0, 1.0, 1.0]
    """
    x, good = np.asarray(codes, dtype=np.float64), np.flatnonzero(seen)
    if not len(good):
        raise UsageError("At least one frame of a face must be seen well enough to have a code.")
    time = np.arange(len(x))
    after = np.searchsorted(good, time).clip(max=len(good) - 1)
    low, high = good[np.maximum(after - (good[after] > time), 0)], good[after]
    share = np.clip((time - low) / np.maximum(high - low, 1), 0, 1)[:, None]
    whole = (1 - share) * x[low] + share * x[high]
    smoothed: FloatArray = cv2.GaussianBlur(
        whole, (1, 2 * int(np.ceil(3 * sigma)) + 1), sigmaX=1, sigmaY=sigma, borderType=cv2.BORDER_REPLICATE
    )
    return smoothed


def reanchor(smoothed: FloatArray, code: FloatArray, model: AppearanceSpace) -> FloatArray:
    """Return a code by ``smooth_codes`` with the frame's own place, size and roll of the head.

    From its own code.

    A camera in a hand shakes the head as a whole from frame to frame, and a new face that did not shake
    with it would seem to swim: features keep still better where only their play is smoothed.
    """
    moved = model.shape + (code - smoothed)[: 2 * MESH].reshape(MESH, 2)
    whole = transform(similarity(model.shape, moved), model.shape) - model.shape
    placed = smoothed.copy()
    placed[: 2 * MESH] += whole.ravel()
    return placed
