"""A face through time without jitter: zero-phase, calm where it rests, untouched where it moves."""

from __future__ import annotations

import numpy as np
from scipy.signal import savgol_filter

from ksame.core import FloatArray

__all__ = ["smooth"]

REACHES = (2, 4, 8)  # pictures to either side over which a mesh is smoothed where it is still
CHUNK = 2048  # pictures that are smoothed at a time


def smooth(mesh: FloatArray) -> FloatArray:
    """Return meshes (t, 468, 2) without jitter and without lag.

    Each point follows parabolas fitted over up to eight pictures to either side (Savitzky and Golay
    1964), as wide as they agree with what was found within its own noise: a head that rests is calm,
    a blink or a quick turn is left as it is.

    Parameters
    ----------
    mesh : (t, m, 2) array
        Consecutive pictures.
    """
    t = len(mesh)
    if t < 2 * REACHES[0] + 1:
        return np.array(mesh, dtype=np.float64)
    noise = _noise(mesh)
    parts = []
    for begin in range(0, t, CHUNK):
        low, high = max(0, begin - 3 * REACHES[-1]), min(t, begin + CHUNK + 3 * REACHES[-1])
        part = _smoothed(np.asarray(mesh[low:high], dtype=np.float64), noise)
        parts.append(part[begin - low : begin - low + CHUNK])
    return np.concatenate(parts)


def _noise(mesh: FloatArray) -> float:
    """Return the standard deviation of a coordinate about its neighbours in time, where it is calmest."""
    bend = mesh[:-2] - 2 * mesh[1:-1] + mesh[2:]  # variance of white noise: 1 + 4 + 1 times its own
    by_picture = np.sqrt((bend**2).mean(axis=(1, 2)) / 6)
    side = float(np.ptp(mesh[len(mesh) // 2], axis=0).max())
    return float(np.clip(np.quantile(by_picture, 0.25), 1e-4 * side, 4e-3 * side))


def _smoothed(mesh: FloatArray, noise: float) -> FloatArray:
    result = mesh
    near = _neighbours(mesh)
    for reach in REACHES:
        if len(mesh) < 2 * reach + 1:
            break
        fitted = savgol_filter(mesh, 2 * reach + 1, 2, axis=0, mode="interp")
        off = ((fitted - mesh) ** 2).mean(axis=2) @ near  # (t, m): what neighbours say together
        off = _widest(off, reach)
        trust = np.clip(2 - off / (2 * noise) ** 2, 0, 1)[..., None]
        result = trust * fitted + (1 - trust) * result
    return result


def _widest(off: FloatArray, reach: int) -> FloatArray:
    """Return the largest value within half a reach in time: a motion is spared from its beginning."""
    half = max(1, reach // 2)
    padded = np.pad(off, ((half, half), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=0)
    return np.asarray(windows.max(axis=-1))


def _neighbours(mesh: FloatArray) -> FloatArray:
    """Return weights (m, m) by which each point listens to those around it."""
    mean = mesh[len(mesh) // 2]
    reach = 0.06 * max(float(np.ptp(mean, axis=0).max()), 1e-9)
    weight = np.exp(-((mean[:, None] - mean[None]) ** 2).sum(axis=2) / (2 * reach**2))
    return np.asarray(weight / weight.sum(axis=0))
