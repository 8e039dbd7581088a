"""The ad hoc methods [N 5.3, S 2.2]: they look like protection, and promise nothing.

They are here to be measured against: with the exception of black-out, whoever does the same to
other photos of the same people finds them again nearly always [N table 1]. Regions are laid out on
the canonical frame and follow the face's roll and scale in its photo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from ksame.core import FloatArray, Guarantee, RandomState, UsageError
from ksame.geometry import FRAME, MESH, to_frame
from ksame.obscure._face import Face, Picture, box, fill, grown, luma, seen_from
from ksame.obscure._shapes import blur, potato, warp
from ksame.obscure._values import (
    SPLIT,
    bar,
    black_out,
    mouth,
    negative,
    noise_bw,
    noise_grey,
    ordinal,
    pixelate,
    t_mask,
    threshold,
)

__all__ = ["GUARANTEE", "METHODS", "Method", "obscure"]

GUARANTEE = Guarantee("none")

FAR = 1e6  # px: no photo is that large
ROOM = 1.5  # the piece of the photo that is worked on is this much larger than the face


@dataclass(frozen=True)
class Method:
    """One ad hoc method: what it does, and what its strength means; ``default`` is None if it has none."""

    run: Callable[[Face, float], Picture]
    about: str
    strength: str = ""
    default: float | None = None
    low: float = 0.0
    high: float = 0.0

    def amount(self, strength: float | None) -> float:
        """Return the strength to use, checked."""
        if strength is None:
            return self.default or 0.0
        if self.default is None:
            raise UsageError(f"This method has no strength: {self.about} Got {strength}.")
        if not self.low <= strength <= self.high:
            raise UsageError(
                f"strength ({self.strength}) must be in [{self.low:g}, {self.high:g}]. Got {strength}."
            )
        return float(strength)


def obscure(
    rgb: Picture,
    points: ArrayLike,
    method: str,
    *,
    grey: bool = False,
    strength: float | None = None,
    rng: RandomState = None,
    donors: Picture | None = None,
) -> Picture:
    """Return the photo with every face obscured; nothing is promised about recognition.

    Pixels outside the faces stay as they are (black-out covers more than the face). Where faces
    overlap, no pixel is inverted twice: a face that was found twice would come back.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        A photo; it is not changed.
    points : (n, 468, 2) array
        The mesh of each face, in pixels of the photo.
    method : str
        A name of ``METHODS``.
    grey : bool
        Take the colour out of the faces first. The methods named -grey and -bw always do.
    strength : float, optional
        What it means and its default are in ``METHODS``.
    rng : int, Generator or None
        For potato, noise and warp. Noise is on the same positions of every face of a call; pass
        the same number for every photo of a run to have it so in all of them [N 5.3].
    donors : (m, 320, 256, 3) uint8, optional
        For potato: faces on the canonical frame, as ``geometry.register`` returns them.

    Examples
    --------
    >>> photo = np.full((320, 256, 3), 90, np.uint8)
    >>> obscure(photo, np.zeros((0, 468, 2)), "blur").tobytes() == photo.tobytes()
    True
    >>> print(GUARANTEE)
    No guarantee: nothing is promised about recognition.
    """
    if method not in METHODS:
        raise UsageError(f"method must be one of {', '.join(METHODS)}. Got {method!r}.")
    out, meshes = _checked(rgb, points)
    given = _checked_donors(donors, method, amount := METHODS[method].amount(strength))
    seed = int(np.random.default_rng(rng).integers(2**63))
    done = np.zeros(out.shape[:2], bool)
    for row, mesh in enumerate(meshes):
        matrix, piece = to_frame(mesh), box(grown(mesh, ROOM), out.shape)
        if not np.linalg.det(matrix[:, :2]) > 1e-9:  # regions would have no size, and cover nothing
            raise UsageError(f"The points of face {row} are not those of a face: left and right are swapped.")
        if not out[piece].size:
            continue  # the face is not in the photo
        here = mesh - np.array([piece[1].start, piece[0].start])
        mask = fill(here, out[piece].shape[:2])
        if grey:
            out[piece][mask] = luma(out[piece][mask])
        matrix = seen_from(piece, matrix)
        face = Face(out[piece], mask, mask & ~done[piece], here, matrix, seed, row, given)
        out[piece] = METHODS[method].run(face, amount)
        if grey:  # once more: blur and warp bring colour in from outside, and donors have theirs
            out[piece][mask] = luma(out[piece][mask])
        done[piece] |= mask
    return out


def _checked(rgb: Picture, points: ArrayLike) -> tuple[Picture, FloatArray]:
    """Return a copy of the photo, and the meshes."""
    photo, meshes = np.asarray(rgb), np.asarray(points, dtype=np.float64)
    if photo.dtype != np.uint8 or photo.ndim != 3 or photo.shape[2] != 3:
        raise UsageError(f"rgb must be (h, w, 3) uint8. Got {photo.shape} {photo.dtype}.")
    if meshes.ndim != 3 or meshes.shape[1:] != (MESH, 2):
        raise UsageError(f"points must be (n, {MESH}, 2). Got {meshes.shape}.")
    if not (np.abs(meshes) < FAR).all():  # a NaN fails too
        raise UsageError(f"points must be finite pixels of the photo, at most {FAR:.0e} away.")
    return photo.copy(), meshes


def _checked_donors(donors: Picture | None, method: str, amount: float) -> Picture:
    """Return the donors; there are none by default, because a part of a real face is a real face's."""
    shape = (FRAME.height, FRAME.width, 3)
    given = np.zeros((0, *shape), np.uint8) if donors is None else np.asarray(donors)
    if given.dtype != np.uint8 or given.shape[1:] != shape:
        raise UsageError(f"donors must be (m, {', '.join(map(str, shape))}) uint8. Got {given.shape}.")
    if method == "potato" and len(given) < round(amount):
        raise UsageError(
            f"potato averages {amount:g} donors for each part: pass as many faces, synthetic or averaged"
            f" ones where possible, as donors. Got {len(given)}."
        )
    return given


_HEIGHT = "height of the band, in distances between the eyes"
_LEVEL = "the least value that becomes white"
_SHARE = "share of the pixels"
METHODS: dict[str, Method] = {
    "black-out": Method(black_out, "The face is black.", "margin, as a share of the face", 0.35, 0, 0.5),
    "bar": Method(bar, "A black band lies over the eyes.", _HEIGHT, 0.7, 0.4, 2),
    "t-mask": Method(t_mask, "Eyes and nose are black.", _HEIGHT, 0.7, 0.4, 2),
    "mouth-grey": Method(partial(mouth, bw=False), "All is black but mouth and chin, in grey."),
    "mouth-bw": Method(
        partial(mouth, bw=True), "All is black but mouth and chin, in black and white.", _LEVEL, SPLIT, 0, 255
    ),
    "ordinal": Method(ordinal, "Each value becomes one of a few.", "how many values are left", 5, 2, 64),
    # [N] has blocks of 15, 20 and 30 px in pictures of 13,266 px, which are 115 px across on average
    "pixelate": Method(pixelate, "Each block has one colour.", "blocks across the face", 8, 1, 32),
    "negative-grey": Method(partial(negative, bw=False), "Grey, and dark for light."),
    "negative-bw": Method(
        partial(negative, bw=True), "Black for white, white for black.", _LEVEL, SPLIT, 0, 255
    ),
    "potato": Method(potato, "Eyes, nose and mouth are the donors'.", "donors mixed for each", 2, 1, 1000),
    "threshold": Method(threshold, "Each value becomes 0 or 255.", _LEVEL, SPLIT, 0, 255),
    # 9,000 of 13,266 pixels had to be changed until 1 % of the faces were recognised [N 5.3]
    "noise-grey": Method(noise_grey, "Grey, and some pixels are random.", _SHARE, 0.68, 0.01, 1),
    "noise-bw": Method(noise_bw, "Black and white, and some pixels are flipped.", _SHARE, 0.5, 0.01, 0.99),
    "blur": Method(blur, "The face is out of focus.", "sigma, in distances between the eyes", 0.2, 0.02, 2),
    "warp": Method(warp, "Its points are shifted.", "most, in distances between the eyes", 0.3, 0.02, 0.5),
}
