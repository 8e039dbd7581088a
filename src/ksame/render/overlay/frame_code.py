"""Encode what a frame shows of a person: the code by which an overlay is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet, FaceView
from ksame.core.geometry import (
    MESH,
    SKIN_POINTS,
    eye_distance_and_turn,
    register,
    similarity,
    to_frame,
    transform,
)
from ksame.models import weights
from ksame.models.landmarks import refine_landmarks
from ksame.render.blend import padded_box
from ksame.render.overlay.features import LOWER_LIP, UPPER_LIP
from ksame.render.tone import is_monochrome, to_grey
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import TEXTURE_SCALE

REFINE_MIN_EYE_DISTANCE_PX = 16.0  # below it, landmark refinement misplaces features
SMALL_FACE_EYE_DISTANCE_PX = (
    56.0  # below it, a third refinement gains nothing (smiling_talker.mp4 at half size)
)
SKIN_SPOT_WIDTH_SHARE = 0.04  # of a face's width: standard deviation of the spot over which skin is averaged
FOREHEAD_SHADE_RATIO = 0.75  # of the light on the nose: a darker forehead is covered by hair or a hat
CHEEK_ROWS = slice(0, 6), slice(6, 12)  # of SKIN_POINTS
_SKIN_PARTS = *CHEEK_ROWS, slice(12, 15), slice(15, 17)  # cheeks, nose and forehead
# Left and right in the image: beside the mouth and on the chin. CHEEK_COLOUR_RATIO is the colour of cheeks
# relative to these points, in the median of 1,265 photos. In 6 of them cheeks have both less red and less
# red-blue difference than GLASSES_LIMITS times: glasses, or unusual light that would also draw a greyer face.
_BELOW_CHEEK_POINTS = (187, 212, 194, 208, 411, 432, 418, 428)
CHEEK_COLOUR_RATIO, GLASSES_LIMITS = (1.087, 1.08, 1.086), (1.05, 0.85)
MIN_SKIN_COLOUR_RANGE = 6.0  # levels from the lowest to the highest channel: below it skin has no colour
_MOUTH_ROWS = 8  # number of colours sampled between the upper and the lower lip
_NOSE = 1  # its tip
_COLOURED = np.array([1.0, 0.0, -1.0])
_CORNERS = [33, 263, 168, 17]  # outer corners of the eyes, bridge of the nose, lower lip


def appearance_code(model: AppearanceSpace, view: FaceView) -> FloatArray:
    """Return gamma' (d,) of a face in the appearance model, light and pose included [S 7.2].

    A monochrome face is given the hue of the model's mean face. On 56 grey versions of colour photos that
    halves the distance to the code of the colour photo, from 0.39 to 0.19 of the spread of codes.
    """
    face, unnamed = register(view.rgb, view.points, scale=TEXTURE_SCALE), np.array([""])
    if is_monochrome(view.rgb):
        face = _with_hue(face, model.texture.reshape(-1, 3).mean(axis=0))
    faces = FaceSet(face[None], view.points[None], np.zeros((1, 4)), np.ones(1), unnamed, unnamed)
    gamma: FloatArray = model.encode(faces, nuisance=True)[0]
    return gamma


def _with_hue(rgb: NDArray[np.uint8], colour: FloatArray) -> NDArray[np.uint8]:
    """Return an image (h, w, 3) with its own lightness and the hue of one colour (3,)."""
    lightness = cv2.cvtColor(colour.astype(np.float32)[None, None], cv2.COLOR_RGB2GRAY).item()
    return np.asarray(np.clip(np.rint(to_grey(rgb) * (colour / lightness)), 0, 255), np.uint8)


def encode_frame(model: AppearanceSpace, view: FaceView) -> FloatArray:
    """Return the code of a face in a frame, (936 + 1 + 51 + 6 + 24,).

    It holds the refined landmarks as offsets from the mesh in the model's frame (lids, brows and lips, which
    the detector's mesh does not follow well; without the weights ``landmarker`` they are 0 and expressions
    are weaker), the sharpness of the frame, the colours of the skin and below the cheeks, and the colours
    between the lips from top to bottom, which show the band of teeth but no single tooth.
    """
    left, top, right, bottom = padded_box(view.points, view.rgb.shape)
    mesh = view.points - (left, top)
    area = np.ascontiguousarray(view.rgb[top:bottom, left:right])
    eye_distance = eye_distance_and_turn(mesh)[0]
    refined = mesh
    if eye_distance >= REFINE_MIN_EYE_DISTANCE_PX and weights.cached("landmarker"):
        refined = refine_landmarks(area, mesh, views=3 if eye_distance >= SMALL_FACE_EYE_DISTANCE_PX else 2)
    on_frame = similarity(mesh, model.shape)[:, :2]
    offset = (refined - mesh) @ on_frame.T
    face = register(area, mesh, scale=TEXTURE_SCALE)
    flat = transform(TEXTURE_SCALE * to_frame(mesh), mesh)
    skin, below = np.split(
        sample_skin_colours(face, flat, (*SKIN_POINTS, *_BELOW_CHEEK_POINTS)), [len(SKIN_POINTS)]
    )
    below = _side_colours(below, flat)
    sharp = measure_sharpness(cv2.cvtColor(area, cv2.COLOR_RGB2GRAY), mesh)
    return np.concatenate(
        [offset.ravel(), [sharp], skin.ravel(), below.ravel(), _sample_mouth(area, refined).ravel()]
    )


def refined_landmarks(points: FloatArray, code: FloatArray, model: AppearanceSpace) -> FloatArray:
    """Return the refined mesh (468, 2) of a frame from its code."""
    offset = code[: 2 * MESH].reshape(MESH, 2)
    mesh: FloatArray = points + offset @ similarity(model.shape, points)[:, :2].T
    return mesh


def mouth_colours(code: FloatArray) -> FloatArray:
    """Return the colours (8, 3) between the lips, from top to bottom, from a frame's code."""
    return code[-3 * _MOUTH_ROWS :].reshape(_MOUTH_ROWS, 3)


def frame_sharpness(code: FloatArray) -> float:
    """Return the sharpness of a frame from its code."""
    return float(code[2 * MESH])


def skin_colours(code: FloatArray, *, glasses: bool = False) -> FloatArray:
    """Return the colours (17, 3) at the skin points from a frame's code.

    Behind ``glasses`` the cheeks do not have the colour of skin; then estimate it from below the cheeks.
    """
    if not glasses:
        return code[2 * MESH + 1 : -3 * _MOUTH_ROWS - 6].reshape(-1, 3)
    left, right = _below_cheek_colours(code) * CHEEK_COLOUR_RATIO
    return np.repeat([left, right, (left + right) / 2], [6, 6, 5], axis=0)


def wears_glasses(codes: Sequence[FloatArray]) -> bool:
    """Return whether a person's cheeks are behind glasses in most of some frames, by their codes.

    Decided by colour only: by lightness alone, glasses were found in 6 of 56 grey versions of photos and in
    none of the colour photos.
    """
    pairs = [
        (np.median(skin_colours(code)[:12], axis=0), _below_cheek_colours(code).mean(axis=0))
        for code in codes
    ]
    above, below = np.moveaxis(np.array(pairs), 1, 0)  # (n, 3) each
    if np.median(np.ptp(below, axis=1)) < MIN_SKIN_COLOUR_RANGE:
        return False
    red, coloured = above[:, 0] / below[:, 0], (above @ _COLOURED) / np.maximum(below @ _COLOURED, 1)
    return bool(np.median(red) < GLASSES_LIMITS[0] and np.median(coloured) < GLASSES_LIMITS[1])


def _below_cheek_colours(code: FloatArray) -> FloatArray:
    """Return the colours (2, 3) of the skin below either cheek from a frame's code."""
    return code[-3 * _MOUTH_ROWS - 6 : -3 * _MOUTH_ROWS].reshape(2, 3)


def sample_skin_colours(
    rgb: NDArray[Any], mesh: FloatArray, points: Sequence[int] = SKIN_POINTS
) -> FloatArray:
    """Return the colours (n, 3) around some points of a face in an image, by default 17 on the skin.

    Values have a lower limit, because light is measured as a ratio.
    """
    soft = cv2.GaussianBlur(rgb, (0, 0), SKIN_SPOT_WIDTH_SHARE * max(float(np.ptp(mesh[:, 0])), 1.0))
    colours: FloatArray = np.maximum(_sample_colours(soft, mesh[list(points)][None])[0], 8.0)
    return colours


def _side_colours(below: FloatArray, mesh: FloatArray) -> FloatArray:
    """Return the mean colour (2, 3) of each side from its points (8, 3).

    For a turned head both are those of the near side: the far points are not on the skin.
    """
    left, right = sides = below.reshape(2, -1, 3).mean(axis=1)
    one, other = np.abs(mesh[list(_BELOW_CHEEK_POINTS), 0].reshape(2, -1).mean(axis=1) - mesh[_NOSE, 0])
    if min(one, other) < max(one, other) / 2:
        sides = np.tile(left if one > other else right, (2, 1))
    return np.asarray(sides)


def mean_skin_colour(colours: FloatArray) -> FloatArray:
    """Return the colour (3,) of a face from the colours at its skin points (17, 3).

    Parts are weighted equally, because most points lie on the cheeks, which are redder. A forehead that is
    darker than the nose is covered by hair or a hat and ignored.

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
    """Return the ratio of fine (1 px) to coarse (3 px) detail between eyes and mouth.

    A ratio does not depend on light or on strong features; noise counts as sharp.
    """
    low, high = mesh[_CORNERS].min(axis=0), mesh[_CORNERS].max(axis=0)
    left, top = np.maximum(low, 0).astype(int)
    part = grey[top : int(high[1]) + 1, left : int(high[0]) + 1].astype(np.float32)
    if min(part.shape) < 3:
        return 0.0
    fine, coarse = (cv2.GaussianBlur(part, (0, 0), sigma) for sigma in (1, 3))
    return float(np.mean((part - fine) ** 2) / (np.mean((fine - coarse) ** 2) + 1))


def _sample_colours(rgb: NDArray[Any], places: FloatArray) -> FloatArray:
    """Sample an image at places (h, w, 2), bilinearly; return colours (h, w, 3)."""
    colours = cv2.remap(
        rgb, places.astype(np.float32), None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(colours, np.float64)


def _sample_mouth(rgb: NDArray[np.uint8], mesh: FloatArray) -> FloatArray:
    """Return colours (8, 3) on lines between the lips, from top to bottom, away from the dark corners."""
    share = (np.arange(_MOUTH_ROWS) + 0.5)[:, None, None] / _MOUTH_ROWS
    at = (1 - share) * mesh[UPPER_LIP[2:-2]] + share * mesh[LOWER_LIP[2:-2]]  # (8, 5, 2)
    # teeth are lighter than the gaps between them
    colours: FloatArray = np.percentile(_sample_colours(rgb, at), 65, axis=1)
    return colours


def smooth_codes(codes: ArrayLike, seen: ArrayLike, *, sigma: float = 0.6) -> FloatArray:
    """Smooth the codes (t, d) of successive frames with a Gaussian, which removes flicker without lag.

    Parameters
    ----------
    codes : (t, d) array
        One per frame; codes of frames that are not ``seen`` are ignored.
    seen : (t,) bool
        Frames with a valid code. The others are interpolated from their neighbours in time.
    sigma : float
        Standard deviation in frames. The kernel reaches three of them to either side.

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
    """Return a smoothed code with the position, size and roll of the head from the frame's own code.

    A handheld camera moves the whole head from frame to frame; a new face that did not move with it would
    appear to float. Smoothing only the motion of features within the head avoids this.
    """
    moved = model.shape + (code - smoothed)[: 2 * MESH].reshape(MESH, 2)
    whole = transform(similarity(model.shape, moved), model.shape) - model.shape
    placed = smoothed.copy()
    placed[: 2 * MESH] += whole.ravel()
    return placed
