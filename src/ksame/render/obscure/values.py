"""Ad hoc methods that cover a region or change pixel values in place."""

from __future__ import annotations

import numpy as np

from ksame.core.arrays import FloatArray
from ksame.core.geometry import FRAME
from ksame.render.obscure.face_region import (
    EYE_DISTANCE,
    BoolMask,
    FaceRegion,
    UInt8Image,
    fill_hull,
    grow_mesh,
    luma,
)

EYE_LINE = float(FRAME.five[0, 1])
FACE_WIDTH = 2.1 * EYE_DISTANCE  # mean of 20 face contours in the frame
BINARY_LEVEL = 128.0  # threshold of black and white, unless strength sets it
UNDER_NOSE = 2  # mesh point between nose and upper lip


def _split(values: UInt8Image, t: float) -> UInt8Image:
    """Return 255 where a value is at least t, and 0 elsewhere."""
    return np.where(values >= t, np.uint8(255), np.uint8(0))


def _to_grey(rgb: UInt8Image, t: float, bw: bool) -> UInt8Image:
    """Return colours (..., 3) as greys, or as black and white."""
    return _split(luma(rgb), t) if bw else luma(rgb)


def _band(top: float, bottom: float) -> FloatArray:
    """Return the corners of a horizontal band of the frame, wider than any face."""
    return np.array(
        [
            [-4 * EYE_DISTANCE, top],
            [8 * EYE_DISTANCE, top],
            [8 * EYE_DISTANCE, bottom],
            [-4 * EYE_DISTANCE, bottom],
        ]
    )


def black_out(face: FaceRegion, margin: float) -> UInt8Image:
    """Cover the face and a margin [N 5.3]."""
    return face.painted(fill_hull(grow_mesh(face.points, 1 + margin), face.mask.shape), 0)


def _bar_region(face: FaceRegion, height: float) -> BoolMask:
    """Return the band over eyes and brows, two thirds of it above the centres of the eyes."""
    return face.region(_band(EYE_LINE - height * EYE_DISTANCE * 2 / 3, EYE_LINE + height * EYE_DISTANCE / 3))


def bar(face: FaceRegion, height: float) -> UInt8Image:
    """Cover the eyes with a band [N 5.3]."""
    return face.painted(_bar_region(face, height), 0)


def t_mask(face: FaceRegion, height: float) -> UInt8Image:
    """Cover eyes and nose [N 5.3]; the stem ends below this face's nose, also on a turned head."""
    x, y = face.on_frame(UNDER_NOSE)
    half, foot = 0.45 * EYE_DISTANCE, y + 0.1 * EYE_DISTANCE
    middle = FRAME.width / 2
    stem = [[middle - half, EYE_LINE], [middle + half, EYE_LINE], [x + half, foot], [x - half, foot]]
    return face.painted(_bar_region(face, height) | face.region(stem), 0)


def mouth(face: FaceRegion, t: float, *, bw: bool) -> UInt8Image:
    """Cover all but mouth and chin, and remove their colour [N 5.3]."""
    end = float(face.on_frame(UNDER_NOSE)[1]) + 0.05 * EYE_DISTANCE
    bare = face.region(_band(end, 8 * EYE_DISTANCE))
    new = face.painted(face.mask & ~bare, 0)
    new[bare] = _to_grey(new[bare], t, bw)
    return new


def ordinal(face: FaceRegion, bins: float) -> UInt8Image:
    """Replace each value by the centre of its bin [N 5.3]; five bins are 25, 76, 128, 179, 230."""
    n = round(bins)
    middles = ((2 * (np.arange(256) * n // 256) + 1) * 256 // (2 * n)).astype(np.uint8)
    return face.painted(face.mask, middles[face.rgb[face.mask]])


def pixelate(face: FaceRegion, blocks: float) -> UInt8Image:
    """Replace each block by its mean over pixels of the face [N 5.3]."""
    column, row = face.cells(face.mask, FACE_WIDTH / blocks)
    column, row = column - column.min(initial=0), row - row.min(initial=0)
    which = row * (column.max(initial=0) + 1) + column
    count = np.maximum(np.bincount(which), 1)
    values = face.rgb[face.mask]  # (p, 3)
    means = [np.rint(np.bincount(which, channel) / count)[which] for channel in values.T]
    return face.painted(face.mask, np.stack(means, axis=1))


def negative(face: FaceRegion, t: float, *, bw: bool) -> UInt8Image:
    """Invert values: replace x by 255 - x [N 5.3]."""
    return face.painted(face.fresh, 255 - _to_grey(face.rgb[face.fresh], t, bw))


def threshold(face: FaceRegion, t: float) -> UInt8Image:
    """Replace each value by 0 or 255 [N 5.3]; in colour, channel by channel [S 2.2]."""
    return face.painted(face.mask, _split(face.rgb[face.mask], t))


def _noise_positions(face: FaceRegion, mask: BoolMask, share: float) -> tuple[BoolMask, UInt8Image]:
    """Return which pixels of a mask get noise, and its values (p, 1) there.

    Positions are pixels of the frame, the same on every face [N 5.3], each with the same probability
    [S 2.2]. On a face larger than the frame the pattern repeats.
    """
    rng = np.random.default_rng(face.seed)
    hit = rng.random((FRAME.height, FRAME.width)) < share
    values = rng.integers(256, size=(FRAME.height, FRAME.width, 1), dtype=np.uint8)
    column, row = face.cells(mask, 1.0)
    at = row % FRAME.height, column % FRAME.width
    return hit[at], values[at]


def noise_grey(face: FaceRegion, share: float) -> UInt8Image:
    """Replace some pixels by random greys [N 5.3]."""
    hit, values = _noise_positions(face, face.mask, share)
    return face.painted(face.mask, np.where(hit[:, None], values, luma(face.rgb[face.mask])))


def noise_bw(face: FaceRegion, share: float) -> UInt8Image:
    """Convert the face to black and white and invert some pixels [N 5.3]."""
    hit, _ = _noise_positions(face, face.fresh, share)
    values = _to_grey(face.rgb[face.fresh], BINARY_LEVEL, True)
    return face.painted(face.fresh, np.where(hit[:, None], 255 - values, values))
