"""Whether the new faces of one person stay one person, from frame to frame and video to video [S 7.5.2]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ksame.core.arrays import IntArray
from ksame.core.errors import UsageError

__all__ = ["identity_consistency"]

_BLOCK = 256  # frames at a time


def identity_consistency(
    codes: ArrayLike, persons: ArrayLike, *, folds: int = 10, others: ArrayLike | None = None
) -> float:
    """Return how often the nearest face of another fold is one of the same person [S 7.5.2].

    The frames of each person are dealt to the folds in turn, and each looks for its nearest among the
    frames of all other folds. Ties are chance: among t nearest faces of which s are the person's own it is
    right s times in t. The thesis uses LBP codes of published frames; any codes will do.
    Deviation: among one person alone every answer is right, so faces of others can be mixed in.

    Parameters
    ----------
    codes : (n, d) array
        One code per frame; rows of NaN are frames without a face, and left out.
    persons : (n,) array
        Whose face each frame shows.
    folds : int
        In how many parts the frames are dealt.
    others : (m, d) array, optional
        Codes of faces that belong to none of the persons, in no fold: whoever is nearest to one is taken
        for somebody else.

    Examples
    --------
    >>> identity_consistency([[0.0], [0.1], [5.0], [5.1]], ["A", "A", "B", "B"], folds=2)
    1.0
    """
    x, who = np.asarray(codes, dtype=np.float64), np.asarray(persons)
    if x.ndim != 2 or who.shape != x.shape[:1]:
        raise UsageError(f"Each code needs one person. Got codes {x.shape} and persons {who.shape}.")
    there = ~np.isnan(x).any(axis=1)
    x, who = x[there], who[there]
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
    """Return for each row how many rows (n,) of the same person stand before it."""
    order = np.argsort(who, kind="stable")
    _, first = np.unique(who[order], return_index=True)
    start = np.repeat(first, np.diff(np.append(first, len(who))))
    rank = np.empty(len(who), np.intp)
    rank[order] = np.arange(len(who)) - start
    return rank
