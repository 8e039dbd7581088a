"""Ad hoc methods that cover a region, or change values where they stand."""

from __future__ import annotations

import numpy as np

from ksame.core import FloatArray
from ksame.geometry import FRAME
from ksame.obscure._face import EYES, Face, Mask, Picture, fill, grown, luma

EYE_LINE = float(FRAME.five[0, 1])
WIDTH = 2.1 * EYES  # of a face: the mean of 20 ovals on the frame
SPLIT = 128.0  # black or white, where that is not what strength says
UNDER_NOSE = 2  # mesh point where the nose meets the upper lip


def _split(values: Picture, t: float) -> Picture:
    """Return 255 where a value is at least t, and 0 elsewhere."""
    return np.where(values >= t, np.uint8(255), np.uint8(0))


def _ink(rgb: Picture, t: float, bw: bool) -> Picture:
    """Return colours (..., 3) as greys, or as black and white."""
    return _split(luma(rgb), t) if bw else luma(rgb)


def _band(top: float, bottom: float) -> FloatArray:
    """Return the corners of a band of the frame, wider than any face."""
    return np.array([[-4 * EYES, top], [8 * EYES, top], [8 * EYES, bottom], [-4 * EYES, bottom]])


def black_out(face: Face, margin: float) -> Picture:
    """Cover everything [N 5.3], and a margin."""
    return face.painted(fill(grown(face.points, 1 + margin), face.mask.shape), 0)


def _bar_region(face: Face, height: float) -> Mask:
    """Return the band over eyes and brows: two thirds of it are above the eyes' centres."""
    return face.region(_band(EYE_LINE - height * EYES * 2 / 3, EYE_LINE + height * EYES / 3))


def bar(face: Face, height: float) -> Picture:
    """Cover the eyes with a band [N 5.3]."""
    return face.painted(_bar_region(face, height), 0)


def t_mask(face: Face, height: float) -> Picture:
    """Cover eyes and nose [N 5.3]; the stem ends where this face's nose does, also on a turned head."""
    x, y = face.on_frame(UNDER_NOSE)
    half, foot = 0.45 * EYES, y + 0.1 * EYES
    middle = FRAME.width / 2
    stem = [[middle - half, EYE_LINE], [middle + half, EYE_LINE], [x + half, foot], [x - half, foot]]
    return face.painted(_bar_region(face, height) | face.region(stem), 0)


def mouth(face: Face, t: float, *, bw: bool) -> Picture:
    """Cover all but mouth and chin, which lose their colour [N 5.3]."""
    end = float(face.on_frame(UNDER_NOSE)[1]) + 0.05 * EYES
    bare = face.region(_band(end, 8 * EYES))
    new = face.painted(face.mask & ~bare, 0)
    new[bare] = _ink(new[bare], t, bw)
    return new


def ordinal(face: Face, bins: float) -> Picture:
    """Replace each value by the middle of its bin [N 5.3]; five bins are 25, 76, 128, 179, 230."""
    n = round(bins)
    middles = ((2 * (np.arange(256) * n // 256) + 1) * 256 // (2 * n)).astype(np.uint8)
    return face.painted(face.mask, middles[face.rgb[face.mask]])


def pixelate(face: Face, blocks: float) -> Picture:
    """Replace each block by its mean [N 5.3]; only the face's own pixels are averaged."""
    column, row = face.cells(face.mask, WIDTH / blocks)
    column, row = column - column.min(initial=0), row - row.min(initial=0)
    which = row * (column.max(initial=0) + 1) + column
    count = np.maximum(np.bincount(which), 1)
    values = face.rgb[face.mask]  # (p, 3)
    means = [np.rint(np.bincount(which, channel) / count)[which] for channel in values.T]
    return face.painted(face.mask, np.stack(means, axis=1))


def negative(face: Face, t: float, *, bw: bool) -> Picture:
    """Replace x by 255 - x, and so black by white and white by black [N 5.3]."""
    return face.painted(face.fresh, 255 - _ink(face.rgb[face.fresh], t, bw))


def threshold(face: Face, t: float) -> Picture:
    """Replace each value by 0 or 255 [N 5.3]; in colour, channel by channel [S 2.2]."""
    return face.painted(face.mask, _split(face.rgb[face.mask], t))


def _chosen(face: Face, mask: Mask, share: float) -> tuple[Mask, Picture]:
    """Return which pixels of a mask noise hits, and its values (p, 1) there.

    Positions are pixels of the frame: they are the same on every face [N 5.3]. Each is hit with the
    same chance [S 2.2]. A face that is larger than the frame meets the same noise again.
    """
    rng = np.random.default_rng(face.seed)
    hit = rng.random((FRAME.height, FRAME.width)) < share
    values = rng.integers(256, size=(FRAME.height, FRAME.width, 1), dtype=np.uint8)
    column, row = face.cells(mask, 1.0)
    at = row % FRAME.height, column % FRAME.width
    return hit[at], values[at]


def noise_grey(face: Face, share: float) -> Picture:
    """Replace some pixels by random greys [N 5.3]."""
    hit, values = _chosen(face, face.mask, share)
    return face.painted(face.mask, np.where(hit[:, None], values, luma(face.rgb[face.mask])))


def noise_bw(face: Face, share: float) -> Picture:
    """Turn the face black and white, and flip some pixels [N 5.3]."""
    hit, _ = _chosen(face, face.fresh, share)
    values = _ink(face.rgb[face.fresh], SPLIT, True)
    return face.painted(face.fresh, np.where(hit[:, None], 255 - values, values))
