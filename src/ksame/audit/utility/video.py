"""What is left of a video: one face throughout, its expressions over time, and still parts that are still.

Functions on what was seen of some frames; nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ksame.audit.utility.expression import DISTANCES
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.geometry import INNER_LIPS, LEFT_EYE, RIGHT_EYE
from ksame.core.geometry import STABLE_POINTS as STILL_POINTS
from ksame.models.blendshapes import BLENDSHAPES

__all__ = [
    "SHAPES",
    "Flicker",
    "align_frames",
    "estimate_rest_motion",
    "expression_rows",
    "flicker",
    "is_unchanged",
    "pairs_alike",
    "time_correlation",
]

STILL_GREY_LEVELS = (
    4.0  # grey levels: a part of the original that changes less from frame to frame does not move
)
STILL_WINDOW_PX = (
    9  # px: over how large a part that is judged, so that its noise alone does not choose the pixels
)
AT_REST_SHARE = 0.02  # of its width: a face that moves more from frame to frame is not at rest
_MIN_MOTION_POINTS = 8  # points that must be found again for its motion to be known
UNCHANGED_GREY_LEVELS = 4.0  # grey levels that coding changes an untouched face by at most, and
UNCHANGED_CORRELATION = 0.98  # how well its pixels then agree: a flat cover agrees with nothing
_BLOCK = 256  # frames at a time

_LEFT_RIGHT = "Left", "Right"
SHAPES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "blendshapes": {
        name: tuple(BLENDSHAPES.index(part) for part in parts)
        for name, parts in {
            "smile": [f"mouthSmile{side}" for side in _LEFT_RIGHT],
            "jaw": ["jawOpen"],
            "blink": [f"eyeBlink{side}" for side in _LEFT_RIGHT],
            "brow": ["browInnerUp", *(f"browOuterUp{side}" for side in _LEFT_RIGHT)],
            "brow down": [f"browDown{side}" for side in _LEFT_RIGHT],
        }.items()
    },
    "distances": {
        name: (DISTANCES.index(part),)
        for name, part in zip(("smile", "jaw", "blink", "brow"), DISTANCES, strict=True)
    },
}
"""Which columns of the two measures of expression are what people call a smile, and so on."""


def pairs_alike(codes: ArrayLike, persons: ArrayLike, threshold: float) -> float:
    """Return the share of pairs of one person's frames that a recogniser takes for one person.

    Parameters
    ----------
    codes : (n, d) array
        One code per frame; rows of NaN are frames without a face, and left out.
    persons : (n,) array
        Whose face each frame shows.
    threshold : float
        The distance up to which two codes are one person's.

    Returns
    -------
    float
        NaN if nobody has two frames.

    Examples
    --------
    >>> pairs_alike([[0.0], [0.1], [5.0], [7.0]], ["A", "A", "A", "B"], 0.5)
    0.3333333333333333
    """
    x, who = np.asarray(codes, dtype=np.float64), np.asarray(persons)
    if x.ndim != 2 or who.shape != x.shape[:1]:
        raise UsageError(f"Each code needs one person. Got codes {x.shape} and persons {who.shape}.")
    there = ~np.isnan(x).any(axis=1)
    near = pairs = 0
    for person in np.unique(who[there]):
        mine = x[there & (who == person)]
        pairs += len(mine) * (len(mine) - 1) // 2
        for start in range(0, len(mine), _BLOCK):
            far = cdist(mine[start : start + _BLOCK], mine)
            later = np.arange(len(mine)) > np.arange(start, start + len(far))[:, None]  # each pair once
            near += int((later & (far <= threshold)).sum())
    return near / pairs if pairs else float("nan")


def time_correlation(before: ArrayLike, after: ArrayLike, persons: ArrayLike) -> float:
    """Return how well something of the new faces follows that of the old ones: a correlation over time.

    Each person's own means are taken away first, so that a new face that smiles less throughout follows
    as well as any; and people who move more count for more, because others have nothing to be followed.

    Parameters
    ----------
    before, after : (n,) arrays
        How strong it is in each frame; NaN where there is no face, and both are left out.
    persons : (n,) array
        Whose face each frame shows.

    Returns
    -------
    float
        Pearson's r within people; NaN if nothing moves.

    Examples
    --------
    >>> round(time_correlation([0, 1, 0, 5, 6, 5], [3, 5, 3, 0, 2, 0], list("AAABBB")), 6)
    1.0
    """
    pair = np.stack([np.asarray(before, np.float64), np.asarray(after, np.float64)])  # (2, n)
    who = np.asarray(persons)
    if pair.ndim != 2 or who.shape != pair.shape[1:]:
        raise UsageError(f"Each frame needs one person. Got {pair.shape[1:]} frames, {who.shape} persons.")
    there = ~np.isnan(pair).any(axis=0)
    pair, who = pair[:, there], who[there]
    for person in np.unique(who):
        pair[:, who == person] -= pair[:, who == person].mean(axis=1, keepdims=True)
    spread = np.sqrt((pair**2).sum(axis=1))
    # what is left of a constant after its mean is taken away is rounding
    if not spread.size or (spread <= 1e-9 * np.sqrt(max(len(who), 1))).any():
        return float("nan")
    return float(pair[0] @ pair[1] / spread.prod())


class Flicker(NamedTuple):
    """How much still parts change from a frame to the next: sums over their pixels, so that they add up."""

    before: float
    after: float
    pixels: int


def flicker(before: NDArray[np.uint8], after: NDArray[np.uint8], region: NDArray[np.bool_]) -> Flicker:
    """Return how much a face changes between two frames where the original does not move, light aside.

    The original's change of light, one factor for the face, is taken out of both: a new face that stays dark
    while the sun comes out flickers as much as one that turns bright on its own.

    Parameters
    ----------
    before, after : (2, h, w) uint8
        Two successive frames in grey, of the original and of what was published, ``align_frames``.
    region : (h, w) bool
        The face.

    Examples
    --------
    >>> still = np.full((2, 8, 8), 90, np.uint8)
    >>> flicker(still, still + np.array([0, 2], np.uint8)[:, None, None], np.ones((8, 8), bool))
    Flicker(before=0.0, after=128.0, pixels=64)
    """
    if not region.any():
        return Flicker(0.0, 0.0, 0)
    light = _light_ratio(before[:, region])
    old, new = (cv2.absdiff(pair[1].astype(np.float64), pair[0] * light) for pair in (before, after))
    calm = region & (cv2.blur(old, (STILL_WINDOW_PX, STILL_WINDOW_PX)) <= STILL_GREY_LEVELS)
    return Flicker(float(old[calm].sum()), float(new[calm].sum()), int(calm.sum()))


def _light_ratio(pair: NDArray[np.uint8]) -> float:
    """Return by which factor the second of two pictures is lighter."""
    first, then = pair.astype(np.float64)
    return float(np.median(then / np.maximum(first, 1)))


def align_frames(pair: NDArray[np.uint8], move: FloatArray) -> NDArray[np.uint8]:
    """Return two frames (2, h, w), of which the first is moved to where the second is.

    See ``estimate_rest_motion``.
    """
    height, width = pair.shape[1:]
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    first = cv2.warpAffine(pair[0], move, (width, height), flags=how, borderMode=cv2.BORDER_REPLICATE)
    return np.stack([np.asarray(first, np.uint8), pair[1]])


def estimate_rest_motion(pair: NDArray[np.uint8], points: FloatArray) -> FloatArray | None:
    """Return from where (2, 3) in the first of two frames a face at rest came; None if it does not rest.

    A hand-held camera moves it by a little, and the new face must move with it: that is no flicker. Where a
    face moves much, turns or speaks, flicker cannot be told.

    Parameters
    ----------
    pair : (2, h, w) uint8
        Two successive frames of the original in grey.
    points : (468, 2) array
        Its mesh in the second.
    """
    marks = points[[*LEFT_EYE, *RIGHT_EYE, *INNER_LIPS, *STILL_POINTS]].astype(np.float32)[:, None]
    as_light = cv2.convertScaleAbs(pair[0], alpha=_light_ratio(pair))  # what brightens seems to move
    moved, found, _ = cv2.calcOpticalFlowPyrLK(pair[1], as_light, marks, None)
    hit = found.ravel() == 1
    far = np.linalg.norm(moved - marks, axis=2)[hit]
    if len(far) < _MIN_MOTION_POINTS or np.median(far) > AT_REST_SHARE * np.ptp(points[:, 0]):
        return None
    cv2.setRNGSeed(0)
    move, _ = cv2.estimateAffinePartial2D(marks[hit], moved[hit], ransacReprojThreshold=1.0)
    return None if move is None else np.asarray(move, np.float64)


def is_unchanged(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    """Return whether a piece of a frame is published as it was, but for what coding does to it.

    Parameters
    ----------
    before, after : (h, w) uint8
        The piece in grey, of the original and of what was published.
    """
    a, b = before.astype(np.float64).ravel(), after.astype(np.float64).ravel()
    if not a.size or np.abs(a - b).mean() > UNCHANGED_GREY_LEVELS:
        return False
    a, b = a - a.mean(), b - b.mean()
    spread = np.sqrt((a @ a) * (b @ b))
    return bool(spread > 0 and a @ b / spread >= UNCHANGED_CORRELATION)


def expression_rows(
    before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]], persons: ArrayLike
) -> Iterator[tuple[str, float, float]]:
    """Yield rows of a table: how expressions follow over time, and how far they are off [S 7.5.1].

    Parameters
    ----------
    before, after : mapping of str to (n, ...) arrays
        What ``features`` gives, of which ``blendshapes`` or ``distances`` is read.
    persons : (n,) array
        Whose face each frame shows.

    Yields
    ------
    tuple
        The measure, NaN for the originals, and its value.
    """
    for kind, parts in SHAPES.items():
        if kind not in before or kind not in after:
            continue
        for name, columns in parts.items():
            old, new = expression_strength(before, kind, columns), expression_strength(after, kind, columns)
            yield f"{name} over time (correlation)", float("nan"), time_correlation(old, new, persons)
            off = np.abs(old - new)
            if np.isfinite(off).any():
                yield f"{name}, difference ({kind})", float("nan"), float(np.nanmean(off))


def expression_strength(seen: Mapping[str, NDArray[Any]], kind: str, columns: tuple[int, ...]) -> FloatArray:
    """Return how strong an expression is in each frame (n,): the mean of its columns."""
    mean: FloatArray = seen[kind][:, list(columns)].astype(np.float64).mean(axis=1)
    return mean
