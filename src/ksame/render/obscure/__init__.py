"""Ad hoc methods [N 5.3, S 2.2], which obscure faces without any guarantee.

They serve as baselines: except for black-out, an attacker who applies the same method to other photos
of the same people re-identifies nearly all of them [N table 1]. Regions are defined in the canonical
frame and follow the roll and scale of the face in its photo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import FloatArray, RandomState
from ksame.core.errors import UsageError
from ksame.core.geometry import FRAME, MESH, to_frame
from ksame.core.guarantee import Guarantee
from ksame.render.obscure.face_region import (
    FaceRegion,
    UInt8Image,
    bounding_slices,
    crop_matrix,
    fill_hull,
    grow_mesh,
    luma,
)
from ksame.render.obscure.shapes import blur, potato, warp
from ksame.render.obscure.values import (
    BINARY_LEVEL,
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

__all__ = ["METHODS", "NO_GUARANTEE", "ObscureMethod", "obscure"]

NO_GUARANTEE = Guarantee("none")

MAX_COORDINATE_PX = 1e6  # larger than any photo
CROP_MARGIN = 1.5  # size of the processed crop relative to the face


@dataclass(frozen=True)
class ObscureMethod:
    """An ad hoc method and the meaning of its strength; ``default`` is None if it has no strength."""

    run: Callable[[FaceRegion, float], UInt8Image]
    about: str
    strength: str = ""
    default: float | None = None
    low: float = 0.0
    high: float = 0.0

    def amount(self, strength: float | None) -> float:
        """Return the checked strength, or its default."""
        if strength is None:
            return self.default or 0.0
        if self.default is None:
            raise UsageError(f"This method takes no strength: {self.about} Got {strength}.")
        if not self.low <= strength <= self.high:
            raise UsageError(
                f"strength ({self.strength}) must be in [{self.low:g}, {self.high:g}]. Got {strength}."
            )
        return float(strength)


def obscure(
    rgb: UInt8Image,
    points: ArrayLike,
    method: str,
    *,
    grey: bool = False,
    strength: float | None = None,
    rng: RandomState = None,
    donors: UInt8Image | None = None,
) -> UInt8Image:
    """Return the photo with every face obscured; there is no guarantee about recognition.

    Pixels outside the faces are not changed (black-out covers more than the face). Where faces
    overlap, no pixel is inverted twice: otherwise a face detected twice would be restored.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        The photo; it is not modified.
    points : (n, 468, 2) array
        The mesh of each face, in pixels of the photo.
    method : str
        A name of ``METHODS``.
    grey : bool
        Remove the colour of the faces first. The methods named -grey and -bw always do.
    strength : float, optional
        For its meaning and default see ``METHODS``.
    rng : int, Generator or None
        For potato, noise and warp. Noise has the same positions on every face of a call; pass the same
        number for every photo of a run to have the same positions in all of them [N 5.3].
    donors : (m, 320, 256, 3) uint8, optional
        For potato: faces on the canonical frame, as ``core.geometry.register`` returns them.

    Examples
    --------
    >>> photo = np.full((320, 256, 3), 90, np.uint8)
    >>> obscure(photo, np.zeros((0, 468, 2)), "blur").tobytes() == photo.tobytes()
    True
    """
    if method not in METHODS:
        raise UsageError(f"method must be one of {', '.join(METHODS)}. Got {method!r}.")
    out, meshes = _check_photo(rgb, points)
    given = _check_donors(donors, method, amount := METHODS[method].amount(strength))
    seed = int(np.random.default_rng(rng).integers(2**63))
    done = np.zeros(out.shape[:2], bool)
    for row, mesh in enumerate(meshes):
        matrix, piece = _frame_matrix(mesh, row), bounding_slices(grow_mesh(mesh, CROP_MARGIN), out.shape)
        if not out[piece].size:
            continue  # the face is not in the photo
        points_in_piece = mesh - np.array([piece[1].start, piece[0].start])
        mask = fill_hull(points_in_piece, out[piece].shape[:2])
        if grey:
            out[piece][mask] = luma(out[piece][mask])
        matrix = crop_matrix(piece, matrix)
        face = FaceRegion(out[piece], mask, mask & ~done[piece], points_in_piece, matrix, seed, row, given)
        out[piece] = METHODS[method].run(face, amount)
        if grey:  # again: blur, warp and donors bring in colour from outside
            out[piece][mask] = luma(out[piece][mask])
        done[piece] |= mask
    return out


def _frame_matrix(mesh: FloatArray, row: int) -> FloatArray:
    """Return the matrix from the photo to the frame, checked: degenerate regions would cover nothing."""
    matrix = to_frame(mesh)
    if not np.linalg.det(matrix[:, :2]) > 1e-9:
        raise UsageError(f"The points of face {row} are not a valid mesh: left and right are swapped.")
    return matrix


def _check_photo(rgb: UInt8Image, points: ArrayLike) -> tuple[UInt8Image, FloatArray]:
    """Return a copy of the photo and the meshes, checked."""
    photo, meshes = np.asarray(rgb), np.asarray(points, dtype=np.float64)
    if photo.dtype != np.uint8 or photo.ndim != 3 or photo.shape[2] != 3:
        raise UsageError(f"rgb must be (h, w, 3) uint8. Got {photo.shape} {photo.dtype}.")
    if meshes.ndim != 3 or meshes.shape[1:] != (MESH, 2):
        raise UsageError(f"points must be (n, {MESH}, 2). Got {meshes.shape}.")
    if not (np.abs(meshes) < MAX_COORDINATE_PX).all():  # a NaN fails too
        raise UsageError(f"points must be finite and within {MAX_COORDINATE_PX:.0e} pixels.")
    return photo.copy(), meshes


def _check_donors(donors: UInt8Image | None, method: str, amount: float) -> UInt8Image:
    """Return the checked donors; there is no default, because parts of real faces identify people."""
    shape = (FRAME.height, FRAME.width, 3)
    given = np.zeros((0, *shape), np.uint8) if donors is None else np.asarray(donors)
    if given.dtype != np.uint8 or given.shape[1:] != shape:
        raise UsageError(f"donors must be (m, {', '.join(map(str, shape))}) uint8. Got {given.shape}.")
    if method == "potato" and len(given) < round(amount):
        raise UsageError(
            f"potato averages {amount:g} donors for each part: pass at least as many faces as donors, if"
            f" possible synthetic or averaged ones. Got {len(given)}."
        )
    return given


_HEIGHT = "height of the band, in interocular distances"
_LEVEL = "lowest value that becomes white"
_SHARE = "share of the pixels"
METHODS: dict[str, ObscureMethod] = {
    "black-out": ObscureMethod(
        black_out, "The face is black.", "margin, as a share of the face", 0.35, 0, 0.5
    ),
    "bar": ObscureMethod(bar, "A black band lies over the eyes.", _HEIGHT, 0.7, 0.4, 2),
    "t-mask": ObscureMethod(t_mask, "Eyes and nose are black.", _HEIGHT, 0.7, 0.4, 2),
    "mouth-grey": ObscureMethod(partial(mouth, bw=False), "Only mouth and chin are visible, in grey."),
    "mouth-bw": ObscureMethod(
        partial(mouth, bw=True),
        "Only mouth and chin are visible, in black and white.",
        _LEVEL,
        BINARY_LEVEL,
        0,
        255,
    ),
    "ordinal": ObscureMethod(ordinal, "Each value is quantised.", "number of values", 5, 2, 64),
    # [N] has blocks of 15, 20 and 30 px in images of 13,266 px, which are 115 px across on average
    "pixelate": ObscureMethod(pixelate, "Each block has one colour.", "blocks across the face", 8, 1, 32),
    "negative-grey": ObscureMethod(partial(negative, bw=False), "Grey levels are inverted."),
    "negative-bw": ObscureMethod(
        partial(negative, bw=True), "Black and white, inverted.", _LEVEL, BINARY_LEVEL, 0, 255
    ),
    "potato": ObscureMethod(
        potato, "Eyes, nose and mouth are the donors'.", "donors averaged for each part", 2, 1, 1000
    ),
    "threshold": ObscureMethod(threshold, "Each value becomes 0 or 255.", _LEVEL, BINARY_LEVEL, 0, 255),
    # 9,000 of 13,266 pixels had to be changed until 1 % of the faces were recognised [N 5.3]
    "noise-grey": ObscureMethod(noise_grey, "Grey, and some pixels are random.", _SHARE, 0.68, 0.01, 1),
    "noise-bw": ObscureMethod(
        noise_bw, "Black and white, and some pixels are flipped.", _SHARE, 0.5, 0.01, 0.99
    ),
    "blur": ObscureMethod(blur, "The face is blurred.", "sigma, in interocular distances", 0.2, 0.02, 2),
    "warp": ObscureMethod(
        warp, "Its points are shifted.", "largest shift, in interocular distances", 0.3, 0.02, 0.5
    ),
}
