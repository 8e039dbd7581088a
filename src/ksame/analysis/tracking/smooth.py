"""Smooth meshes over time without lag: strongly at rest, not at all in motion."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d
from scipy.sparse import csr_array

from ksame.core.arrays import FloatArray

__all__ = ["MAX_REACH_FRAMES", "smooth_meshes"]

SMOOTHING_REACHES_FRAMES = (2, 4, 8)  # half widths of the smoothing windows
MAX_REACH_FRAMES = 2 * SMOOTHING_REACHES_FRAMES[-1]  # frames to either side that influence one
NEIGHBOUR_DISTANCE = 0.06  # of the face's side: points this near are smoothed together


def smooth_meshes(mesh: FloatArray) -> FloatArray:
    """Remove jitter from meshes (t, m, 2) without lag.

    The motion of the head, a similarity per frame, and that of the face within it are smoothed separately:
    a handheld camera shakes the whole head. Both are fitted by parabolas over up to eight frames to either
    side (Savitzky and Golay 1964), as wide as these agree with the measurement within its noise: a resting
    head is smoothed, a blink or a quick turn is preserved.

    Parameters
    ----------
    mesh : (t, m, 2) array
        Meshes of consecutive frames.

    Examples
    --------
    >>> points = np.random.default_rng(0).uniform(0, 100, (468, 2))
    >>> shaky = points + np.random.default_rng(1).normal(0, 0.3, (40, 468, 2))
    >>> bool(np.std(smooth_meshes(shaky)[:, 0, 0]) < 0.6 * np.std(shaky[:, 0, 0]))
    True
    """
    given = np.asarray(mesh, dtype=np.float64)
    usual = given[len(given) // 2]
    side = float(np.ptp(usual, axis=0).max())
    if len(given) < 2 * SMOOTHING_REACHES_FRAMES[0] + 1 or not side > 0:
        return given.copy()
    z, w = usual @ [1, 1j], given @ [1, 1j]  # (m,), (t, m): a similarity is z -> a z + b
    z = z - z.mean()
    b = w.mean(axis=1, keepdims=True)
    a = (w - b) @ np.conj(z)[:, None] / (np.abs(z) ** 2).sum()  # (t, 1)
    a = np.where(np.abs(a) > 1e-3, a, 1.0)
    face = _as_real((w - b) / a)  # (t, m, 2) relative to the head
    face = _smooth_points(face, _estimate_noise(face, side, 0.01), _neighbours(usual))
    head = _as_real(np.hstack([b, b + side / 2 * a]))  # (t, 2, 2): two points that move with it
    head = _smooth_points(head, _estimate_noise(head, side, 0.004), csr_array(np.full((2, 2), 0.5)))
    b, a = head[:, :1] @ [1, 1j], (head[:, 1:] - head[:, :1]) @ [1, 1j] / (side / 2)
    return _as_real(a * (face @ [1, 1j]) + b)


def _as_real(points: NDArray[Any]) -> FloatArray:
    return np.stack([points.real, points.imag], axis=-1)


def _smooth_points(points: FloatArray, noise: float, near: csr_array) -> FloatArray:
    """Smooth points (t, m, 2) with window widths decided jointly with their neighbours (m, m)."""
    result = points
    for reach in SMOOTHING_REACHES_FRAMES:
        if len(points) < 2 * reach + 1:
            break
        fitted = (_parabolas(len(points), reach) @ points.reshape(len(points), -1)).reshape(points.shape)
        off = ((fitted - points) ** 2).mean(axis=2) @ near  # (t, m)
        # the maximum nearby in time: a motion is preserved from its beginning to its end
        off = maximum_filter1d(off, 2 * (reach // 2) + 1, axis=0, mode="nearest")
        trust = np.clip(2 - off / (1.5 * noise) ** 2, 0, 1)[..., None]
        result = trust * fitted + (1 - trust) * result
    return result


def _estimate_noise(points: FloatArray, side: float, limit: float) -> float:
    """Estimate the standard deviation of a coordinate's noise from the frames of least motion."""
    bend = points[:-2] - 2 * points[1:-1] + points[2:]  # variance of white noise: 1 + 4 + 1 times its own
    by_picture = np.sqrt((bend**2).mean(axis=(1, 2)) / 6)
    found = by_picture[by_picture > 1e-5 * side]  # interpolated frames have no curvature
    return side * float(np.clip(np.quantile(found, 0.25) / side if found.size else 0, 1e-4, limit))


def _parabolas(count: int, reach: int) -> csr_array:
    """Return a sparse (count, count) matrix that fits a parabola around each frame and evaluates it there.

    Near the ends the window stays inside, and the parabola is evaluated off its centre.
    """
    width = 2 * reach + 1
    powers = np.vander(np.arange(-reach, reach + 1), 3).astype(np.float64)  # (w, 3)
    fit = powers @ np.linalg.pinv(powers)  # (w, w): row j is the value at place j
    start = np.clip(np.arange(count) - reach, 0, count - width)
    columns = start[:, None] + np.arange(width)
    rows = np.arange(0, count * width + 1, width)
    return csr_array((fit[np.arange(count) - start].ravel(), columns.ravel(), rows), shape=(count, count))


def _neighbours(points: FloatArray) -> csr_array:
    """Return the weights (m, m) of each point's neighbours."""
    reach = NEIGHBOUR_DISTANCE * max(float(np.ptp(points, axis=0).max()), 1e-9)
    far = ((points[:, None] - points[None]) ** 2).sum(axis=2) / reach**2
    weight = np.where(far < 9, np.exp(-far / 2), 0)
    return csr_array(weight / weight.sum(axis=0))
