"""Measure the utility of a video: identity consistency, expressions over time, flicker.

These functions work on some frames or their embeddings; none reads a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ksame.audit.utility.features import DISTANCES
from ksame.core.arrays import FloatArray, IntArray
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
    "identity_consistency",
    "is_unchanged",
    "pairs_alike",
    "time_correlation",
]

# A part of the original that changes by less from frame to frame is still; averaged over a window, so that
# noise alone does not choose the pixels.
STILL_GREY_LEVELS = 4.0
STILL_WINDOW_PX = 9
AT_REST_SHARE = 0.02  # of its width: a face that moves more from frame to frame is not at rest
_MIN_MOTION_POINTS = 8  # points that must be tracked to estimate the motion
UNCHANGED_GREY_LEVELS = 4.0  # largest mean change of an unchanged face by coding
UNCHANGED_CORRELATION = 0.98  # least correlation of its pixels; a flat cover correlates with nothing
_BLOCK = 256  # frames compared at a time

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
"""The columns of both measures of expression that make up a smile, and so on."""


def pairs_alike(codes: ArrayLike, persons: ArrayLike, threshold: float) -> float:
    """Return the share of pairs of one person's frames that a recogniser matches.

    Parameters
    ----------
    codes : (n, d) array
        One code per frame; rows of NaN are frames without a face, and left out.
    persons : (n,) array
        The person of each frame.
    threshold : float
        The distance up to which two embeddings match.

    Returns
    -------
    float
        NaN if nobody has two frames.

    Examples
    --------
    >>> pairs_alike([[0.0], [0.1], [5.0], [7.0]], ["A", "A", "A", "B"], 0.5)
    0.3333333333333333
    """
    x, who = _faces_with_person(codes, persons)
    near = pairs = 0
    for person in np.unique(who):
        mine = x[who == person]
        pairs += len(mine) * (len(mine) - 1) // 2
        for start in range(0, len(mine), _BLOCK):
            far = cdist(mine[start : start + _BLOCK], mine)
            later = np.arange(len(mine)) > np.arange(start, start + len(far))[:, None]  # each pair once
            near += int((later & (far <= threshold)).sum())
    return near / pairs if pairs else float("nan")


def _faces_with_person(codes: ArrayLike, persons: ArrayLike) -> tuple[FloatArray, NDArray[Any]]:
    """Return the embeddings that are not NaN, and the person of each."""
    x, who = np.asarray(codes, dtype=np.float64), np.asarray(persons)
    if x.ndim != 2 or who.shape != x.shape[:1]:
        raise UsageError(f"Each code needs one person. Got codes {x.shape} and persons {who.shape}.")
    is_face = ~np.isnan(x).any(axis=1)
    return x[is_face], who[is_face]


def time_correlation(before: ArrayLike, after: ArrayLike, persons: ArrayLike) -> float:
    """Return the correlation over time of a value of the original faces with that of the new ones.

    Each person's own mean is subtracted first, so that a new face that smiles less throughout still follows
    the original; people whose value varies more have more weight.

    Parameters
    ----------
    before, after : (n,) arrays
        The value in each frame; NaN where there is no face, which is left out.
    persons : (n,) array
        The person of each frame.

    Returns
    -------
    float
        Pearson's r within people; NaN if nothing varies.

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
    # a constant minus its mean is rounding error
    if not spread.size or (spread <= 1e-9 * np.sqrt(max(len(who), 1))).any():
        return float("nan")
    return float(pair[0] @ pair[1] / spread.prod())


class Flicker(NamedTuple):
    """The change of still parts from one frame to the next: sums over pixels, so that they can be added."""

    before: float
    after: float
    pixels: int


def flicker(before: NDArray[np.uint8], after: NDArray[np.uint8], region: NDArray[np.bool_]) -> Flicker:
    """Return how much a face changes between two frames where the original is still, apart from its light.

    The original's change of light, one factor for the face, is removed from both: a new face that stays dark
    while the light changes flickers as much as one that brightens on its own.

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
    still = region & (cv2.blur(old, (STILL_WINDOW_PX, STILL_WINDOW_PX)) <= STILL_GREY_LEVELS)
    return Flicker(float(old[still].sum()), float(new[still].sum()), int(still.sum()))


def _light_ratio(pair: NDArray[np.uint8]) -> float:
    """Return the factor by which the second of two images is brighter."""
    first, then = pair.astype(np.float64)
    return float(np.median(then / np.maximum(first, 1)))


def align_frames(pair: NDArray[np.uint8], move: FloatArray) -> NDArray[np.uint8]:
    """Return two frames (2, h, w), the first warped onto the second: see ``estimate_rest_motion``."""
    height, width = pair.shape[1:]
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    first = cv2.warpAffine(pair[0], move, (width, height), flags=how, borderMode=cv2.BORDER_REPLICATE)
    return np.stack([np.asarray(first, np.uint8), pair[1]])


def estimate_rest_motion(pair: NDArray[np.uint8], points: FloatArray) -> FloatArray | None:
    """Return the motion (2, 3) of a face at rest from the second frame to the first; None if it moves.

    A hand-held camera moves it a little, and the new face must move with it: that is no flicker. Where a
    face moves much, turns or speaks, flicker cannot be measured.

    Parameters
    ----------
    pair : (2, h, w) uint8
        Two successive frames of the original in grey.
    points : (468, 2) array
        Its mesh in the second.
    """
    marks = points[[*LEFT_EYE, *RIGHT_EYE, *INNER_LIPS, *STILL_POINTS]].astype(np.float32)[:, None]
    as_light = cv2.convertScaleAbs(pair[0], alpha=_light_ratio(pair))  # a change of light looks like motion
    moved, found, _ = cv2.calcOpticalFlowPyrLK(pair[1], as_light, marks, None)
    hit = found.ravel() == 1
    far = np.linalg.norm(moved - marks, axis=2)[hit]
    if len(far) < _MIN_MOTION_POINTS or np.median(far) > AT_REST_SHARE * np.ptp(points[:, 0]):
        return None
    cv2.setRNGSeed(0)
    move, _ = cv2.estimateAffinePartial2D(marks[hit], moved[hit], ransacReprojThreshold=1.0)
    return None if move is None else np.asarray(move, np.float64)


def is_unchanged(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    """Return whether a part of a frame is published unchanged, apart from coding.

    Parameters
    ----------
    before, after : (h, w) uint8
        The part in grey, of the original and of what was published.
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
    """Yield rows of a table: the correlation of expressions over time, and their mean difference [S 7.5.1].

    Parameters
    ----------
    before, after : mapping of str to (n, ...) arrays
        Features by ``face_columns``, of which ``blendshapes`` or ``distances`` is read.
    persons : (n,) array
        The person of each frame.

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
            difference = np.abs(old - new)
            if np.isfinite(difference).any():
                yield f"{name}, difference ({kind})", float("nan"), float(np.nanmean(difference))


def expression_strength(
    features: Mapping[str, NDArray[Any]], kind: str, columns: tuple[int, ...]
) -> FloatArray:
    """Return the strength of an expression in each frame (n,): the mean of its columns."""
    mean: FloatArray = features[kind][:, list(columns)].astype(np.float64).mean(axis=1)
    return mean


def identity_consistency(
    codes: ArrayLike, persons: ArrayLike, *, folds: int = 10, others: ArrayLike | None = None
) -> float:
    """Return how often the nearest face of another fold is one of the same person [S 7.5.2].

    The frames of each person are assigned to the folds in turn, and each is matched with the nearest of all
    other folds. Ties are chance: among t nearest faces of which s are the person's own it is right s times in
    t. The thesis uses LBP codes of published frames; any embeddings will do.
    Deviation: with one person alone every answer is right, so faces of others can be added.

    Parameters
    ----------
    codes : (n, d) array
        One code per frame; rows of NaN are frames without a face, and left out.
    persons : (n,) array
        The person of each frame.
    folds : int
        Number of parts.
    others : (m, d) array, optional
        Embeddings of other people, in no fold: a frame whose nearest face is one of them is wrong.

    Examples
    --------
    >>> identity_consistency([[0.0], [0.1], [5.0], [5.1]], ["A", "A", "B", "B"], folds=2)
    1.0
    """
    x, who = _faces_with_person(codes, persons)
    if not 2 <= folds <= len(x):
        raise UsageError(f"folds must be in [2, {len(x)}]: {len(x)} frames show a face. Got {folds}.")
    fold = _rank(who) % folds
    decoys = np.zeros((0, x.shape[1])) if others is None else np.asarray(others, dtype=np.float64)
    decoys = decoys[~np.isnan(decoys).any(axis=1)]
    right = 0.0
    for start in range(0, len(x), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(x)))
        far = cdist(x[rows], x)
        far[fold[rows][:, None] == fold] = np.inf
        far = np.hstack([far, cdist(x[rows], decoys)])
        nearest = np.isfinite(far) & (far == far.min(axis=1, keepdims=True))
        own = nearest[:, : len(x)] & (who[rows][:, None] == who)
        right += float((own.sum(axis=1) / np.maximum(nearest.sum(axis=1), 1)).sum())
    return right / len(x)


def _rank(who: NDArray[Any]) -> IntArray:
    """Return for each row how many rows (n,) of the same person come before it."""
    order = np.argsort(who, kind="stable")
    _, first = np.unique(who[order], return_index=True)
    start = np.repeat(first, np.diff(np.append(first, len(who))))
    rank = np.empty(len(who), np.intp)
    rank[order] = np.arange(len(who)) - start
    return rank
