"""Brows of a new face: as high as they are seen to be, and read as the person's are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ksame import weights
from ksame.ahead import by_two
from ksame.core import FloatArray
from ksame.faces.blendshapes import BLENDSHAPES, blendshapes
from ksame.faces.follow import pose
from ksame.faces.landmarks import closer
from ksame.geometry import BROWS, align
from ksame.masking.features import CORNERS, EYES, NEAR
from ksame.masking.look import LARGE, View, landmarks_of
from ksame.masking.looks import spread
from ksame.masking.mask import Mask, Texture

ASKED = 4  # views: with 8 or 16, and two looks at each, brows followed no better
LESS = 0.75  # of the way that brows are moved is seen
# What a px of the model's frame makes brows read higher by: raised less lowered, as blendshapes are, .03 to
# .05 on three people. Further than FAR they would come off the forehead's bones.
READ, FAR = 0.04, 2.5
_BOTH = [*BROWS[0], *BROWS[1]]
_RAISED, _LOWERED = (
    [row for row, name in enumerate(BLENDSHAPES) if name.startswith("brow") and ("Down" in name) is down]
    for down in (False, True)
)


def settled(mask: Mask, views: Sequence[View], codes: Sequence[FloatArray], *, texture: Texture) -> Mask:
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
        See ``Mask.draw``.
    """
    large = [(v, c) for v, c in zip(views, codes, strict=True) if pose(v.points)[0] >= LARGE]
    if not large or not weights.cached("landmarker"):
        return mask
    some = spread(large, ASKED)
    lower = np.mean(by_two(lambda one: _lower(mask, *one, texture), some), axis=0) / LESS  # (20,)
    high = _raised(mask, lower)
    less = float(np.mean(by_two(lambda one: _less(high, *one, texture), some))) / READ
    return _raised(high, np.full(len(_BOTH), np.clip(less, -FAR, FAR)))


def _raised(mask: Mask, by: FloatArray) -> Mask:
    """Return a mask with the points of its brows raised by so much (20,), and what is near them with them."""
    share = np.exp(-((np.linalg.norm(mask.own[:, None] - mask.own[_BOTH], axis=2) / NEAR) ** 2))  # (468, 20)
    up = share.max(axis=1) * (share @ by) / np.maximum(share.sum(axis=1), 1e-9)
    up[_BOTH], up[EYES] = by, 0
    return replace(mask, move=mask.move - up[:, None] * (0, 1))


def _lower(mask: Mask, view: View, code: FloatArray, texture: Texture) -> FloatArray:
    """Return how much lower (20,) brows are seen on a new face than on the old one, on the model's frame."""
    old = landmarks_of(view.points, code, mask.model)
    seen = closer(mask.draw(view.rgb, view.points, code, texture=texture), mask.worn(old), looks=1)
    before, after = (_heights(align(mesh[None], mask.model.shape)[0]) for mesh in (old, seen))
    return before - after


def _less(mask: Mask, view: View, code: FloatArray, texture: Texture) -> float:
    """Return how much less raised, or more lowered, brows are read on a new face than on the old one."""
    new = mask.draw(view.rgb, view.points, code, texture=texture)
    worn = mask.worn(landmarks_of(view.points, code, mask.model))
    before, after = (
        blendshapes(rgb, mesh[None], looks=1)[0] for rgb, mesh in ((view.rgb, view.points), (new, worn))
    )
    change = before - after
    return float(change[_RAISED].mean() - change[_LOWERED].mean())


def _heights(upright: FloatArray) -> FloatArray:
    """Return how high (20,) the points of the brows lie above the corners of the eyes."""
    pairs = zip(CORNERS, BROWS, strict=True)
    return np.concatenate([upright[eye, 1].mean() - upright[list(brow), 1] for eye, brow in pairs])
