"""Interpolate the boxes of a face over every frame of its track."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d

from ksame.core.arrays import FloatArray

__all__ = ["box_speed", "interpolate", "track_boxes", "union_boxes"]


def interpolate(values: FloatArray, at: NDArray[np.intp], count: int) -> FloatArray:
    """Interpolate values (n, d) at some positions linearly to rows (count, d), constant beyond the ends."""
    t = np.arange(count)
    right = np.clip(np.searchsorted(at, t), 0, len(at) - 1)
    left = np.clip(np.searchsorted(at, t, side="right") - 1, 0, len(at) - 1)
    share = (t - at[left]) / np.maximum(at[right] - at[left], 1)
    share = np.where(left == right, 0.0, share)[:, None]
    return (1 - share) * values[left] + share * values[right]


def track_boxes(
    box: FloatArray, at: NDArray[np.intp], count: int, good: NDArray[np.bool_], seen: NDArray[np.bool_]
) -> FloatArray:
    """Return a box for every frame that covers the observed face, or where it may be between observations.

    The box has at least the size of the face in nearby frames, because an occluded face has a smaller box.
    Away from observations it moves at the speed of the nearest one and grows with every frame, up to 2.5
    times its side.
    """
    region, t = interpolate(box, at, count), np.arange(count)
    side = (region[:, 2:] - region[:, :2]).max(axis=1)
    if good.any():
        size = (box[good, 2:] - box[good, :2]).max(axis=1)
        side = np.maximum(side, maximum_filter1d(np.interp(t, at[good], size), 13, mode="nearest"))
    pace = box_speed(box, at)
    for where, end in ((t < at[0], 0), (t > at[-1], -1)):  # extrapolate beyond both ends
        region[where] += np.tile((t[where] - at[end])[:, None] * pace[end], 2)
    nearest = _nearest(at, t)
    step = np.linalg.norm(pace, axis=1)[nearest]
    unknown = np.abs(at[nearest] - t)  # frames from any observation, and from one by a detector
    unseen = np.abs(at[good | seen][_nearest(at[good | seen], t)] - t)
    grow = np.minimum(0.05 * side * unseen + 0.5 * step * unknown, 0.75 * side)
    half = np.maximum(region[:, 2:] - region[:, :2], side[:, None]) / 2 + grow[:, None]
    centre = (region[:, :2] + region[:, 2:]) / 2
    return np.concatenate([centre - half, centre + half], axis=1)


def _nearest(at: NDArray[np.intp], t: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the row of the position nearest to each t; positions are sorted."""
    after = np.clip(np.searchsorted(at, t), 1, len(at) - 1) if len(at) > 1 else np.zeros(len(t), np.intp)
    before = np.maximum(after - 1, 0)
    return np.where(np.abs(at[before] - t) <= np.abs(at[after] - t), before, after)


def box_speed(box: FloatArray, at: NDArray[np.intp]) -> FloatArray:
    """Return the speed of a box's centre in px per frame, (n, 2), averaged over a few observations."""
    if len(at) == 1:
        return np.zeros((1, 2))
    centre = (box[:, :2] + box[:, 2:]) / 2
    rows = np.arange(len(at))
    a, b = np.maximum(rows - 3, 0), np.minimum(rows + 3, len(at) - 1)
    return np.asarray((centre[b] - centre[a]) / (at[b] - at[a])[:, None])


def union_boxes(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the smallest boxes (n, 4) that contain two boxes each."""
    return np.concatenate([np.minimum(a[:, :2], b[:, :2]), np.maximum(a[:, 2:], b[:, 2:])], axis=1)
