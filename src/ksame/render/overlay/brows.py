"""Brows of a new face: as high as they are seen to be, and read as the person's are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ksame.analysis.tracking.propagate import eye_distance_and_turn
from ksame.core.arrays import FloatArray
from ksame.core.faces import FaceView
from ksame.core.geometry import BROWS, align
from ksame.core.parallel import map_pairs
from ksame.models import weights
from ksame.models.blendshapes import BLENDSHAPES, predict_blendshapes
from ksame.models.landmarks import refine_landmarks
from ksame.render.overlay.face_overlay import FaceOverlay, Texture
from ksame.render.overlay.features import EYE_CORNERS, EYE_POINTS, FEATURE_REACH_PX
from ksame.render.overlay.frame_code import REFINE_MIN_EYE_DISTANCE_PX, refined_landmarks
from ksame.render.overlay.views import evenly_spaced

SAMPLED_VIEWS = 4  # views: with 8 or 16, and two looks at each, brows followed no better
BROW_MOVE_SHARE = 0.75  # of the way that brows are moved is seen
# What a px of the model's frame makes brows read higher by: raised less lowered, as blendshapes are, .03 to
# .05 on three people. Further than FAR they would come off the forehead's bones.
BLENDSHAPE_TOLERANCE, MAX_BROW_MOVE = 0.04, 2.5
_BROW_POINTS = [*BROWS[0], *BROWS[1]]
_RAISED, _LOWERED = (
    [row for row, name in enumerate(BLENDSHAPES) if name.startswith("brow") and ("Down" in name) is down]
    for down in (False, True)
)


def adjust_brows(
    mask: FaceOverlay, views: Sequence[FaceView], codes: Sequence[FloatArray], *, texture: Texture
) -> FaceOverlay:
    """Return a mask whose brows a closer look sees as high above the eyes as the person's, in the mean.

    Where it sees brows depends on how thick and dark they are and on the hair above: some were seen a sixth
    of an eye lower than they were drawn, and there the network that reads expressions tells a raised brow
    hardly from one at rest. Then as high as that network reads them in the mean: under brows of another form
    a frown was half a frown. On three people with five to ten faces brows raised and lowered followed at .82
    and .78 as drawn, at .83 and .79 as high, at .84 and .82 as read. Recognisers find the face nearer to the
    old one by .05 to .1 of ``hides``: it must be tried.

    Parameters
    ----------
    mask : Mask
        A new face.
    views, codes : sequences of View and of (d,)
        Looks at the person, and what they show: see ``code_of``.
    texture : str
        See ``FaceOverlay.draw``.
    """
    large = [
        (v, c)
        for v, c in zip(views, codes, strict=True)
        if eye_distance_and_turn(v.points)[0] >= REFINE_MIN_EYE_DISTANCE_PX
    ]
    if not large or not weights.cached("landmarker"):
        return mask
    some = evenly_spaced(large, SAMPLED_VIEWS)
    lower = (
        np.mean(map_pairs(lambda one: _brow_height_error(mask, *one, texture), some), axis=0)
        / BROW_MOVE_SHARE
    )  # (20,)
    high = _raise_brows(mask, lower)
    less = (
        float(np.mean(map_pairs(lambda one: _brow_blendshape_error(high, *one, texture), some)))
        / BLENDSHAPE_TOLERANCE
    )
    return _raise_brows(high, np.full(len(_BROW_POINTS), np.clip(less, -MAX_BROW_MOVE, MAX_BROW_MOVE)))


def _raise_brows(mask: FaceOverlay, by: FloatArray) -> FaceOverlay:
    """Return a mask with the points of its brows raised by so much (20,), and what is near them with them."""
    share = np.exp(
        -((np.linalg.norm(mask.own[:, None] - mask.own[_BROW_POINTS], axis=2) / FEATURE_REACH_PX) ** 2)
    )  # (468, 20)
    up = share.max(axis=1) * (share @ by) / np.maximum(share.sum(axis=1), 1e-9)
    up[_BROW_POINTS], up[EYE_POINTS] = by, 0
    return replace(mask, move=mask.move - up[:, None] * (0, 1))


def _brow_height_error(mask: FaceOverlay, view: FaceView, code: FloatArray, texture: Texture) -> FloatArray:
    """Return how much lower (20,) brows are seen on a new face than on the old one, on the model's frame."""
    old = refined_landmarks(view.points, code, mask.model)
    seen = refine_landmarks(
        mask.draw(view.rgb, view.points, code, texture=texture), mask.warp_to_mesh(old), views=1
    )
    before, after = (_brow_heights(align(mesh[None], mask.model.shape)[0]) for mesh in (old, seen))
    return before - after


def _brow_blendshape_error(mask: FaceOverlay, view: FaceView, code: FloatArray, texture: Texture) -> float:
    """Return how much less raised, or more lowered, brows are read on a new face than on the old one."""
    new = mask.draw(view.rgb, view.points, code, texture=texture)
    worn = mask.warp_to_mesh(refined_landmarks(view.points, code, mask.model))
    before, after = (
        predict_blendshapes(rgb, mesh[None], views=1)[0]
        for rgb, mesh in ((view.rgb, view.points), (new, worn))
    )
    change = before - after
    return float(change[_RAISED].mean() - change[_LOWERED].mean())


def _brow_heights(upright: FloatArray) -> FloatArray:
    """Return how high (20,) the points of the brows lie above the corners of the eyes."""
    pairs = zip(EYE_CORNERS, BROWS, strict=True)
    return np.concatenate([upright[eye, 1].mean() - upright[list(brow), 1] for eye, brow in pairs])
