"""A face through time without jitter: zero-phase, calm where it rests, untouched where it moves."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import maximum_filter1d
from scipy.sparse import csr_array

from ksame.core import FloatArray

__all__ = ["REACH", "smooth"]

REACHES = (2, 4, 8)  # pictures to either side over which a mesh is smoothed where it is still
REACH = 2 * REACHES[-1]  # pictures to either side that have a say in one
NEAR = 0.06  # of the face's side: points within this distance move together


def smooth(mesh: FloatArray) -> FloatArray:
    """Return meshes (t, m, 2) without jitter and without lag.

    Each point follows parabolas fitted over up to eight pictures to either side (Savitzky and Golay
    1964), as wide as they agree with what was found within its own noise: a head that rests is calm,
    a blink or a quick turn is left as it is.

    Parameters
    ----------
    mesh : (t, m, 2) array
        Consecutive pictures.

    Examples
    --------
    >>> points = np.random.default_rng(0).uniform(0, 100, (468, 2))
    >>> shaky = points + np.random.default_rng(1).normal(0, 0.3, (40, 468, 2))
    >>> bool(np.std(smooth(shaky)[:, 0, 0]) < 0.6 * np.std(shaky[:, 0, 0]))
    True
    """
    given = np.asarray(mesh, dtype=np.float64)
    result = given
    if len(given) < 2 * REACHES[0] + 1:
        return result.copy()
    noise, near = _noise(given), _neighbours(given[len(given) // 2])
    for reach in REACHES:
        if len(given) < 2 * reach + 1:
            break
        fitted = (_parabolas(len(given), reach) @ given.reshape(len(given), -1)).reshape(given.shape)
        off = ((fitted - given) ** 2).mean(axis=2) @ near  # (t, m): what neighbours say together
        # the largest nearby in time: a motion is spared from its beginning to its end
        off = maximum_filter1d(off, 2 * (reach // 2) + 1, axis=0, mode="nearest")
        trust = np.clip(2 - off / (2 * noise) ** 2, 0, 1)[..., None]
        result = trust * fitted + (1 - trust) * result
    return result


def _noise(mesh: FloatArray) -> float:
    """Return the standard deviation of a coordinate about its neighbours in time, where it is calmest."""
    bend = mesh[:-2] - 2 * mesh[1:-1] + mesh[2:]  # variance of white noise: 1 + 4 + 1 times its own
    by_picture = np.sqrt((bend**2).mean(axis=(1, 2)) / 6)
    side = float(np.ptp(mesh[len(mesh) // 2], axis=0).max())
    return float(np.clip(np.quantile(by_picture, 0.25), 1e-4 * side, 4e-3 * side)) or 1.0


def _parabolas(count: int, reach: int) -> csr_array:
    """Return (count, count) sparse: each row fits a parabola to the pictures around and gives its own place.

    Near the ends the window stays inside, and the parabola is read off beside its middle.
    """
    width = 2 * reach + 1
    powers = np.vander(np.arange(-reach, reach + 1), 3).astype(np.float64)  # (w, 3)
    fit = powers @ np.linalg.pinv(powers)  # (w, w): row j is the value at place j
    start = np.clip(np.arange(count) - reach, 0, count - width)
    columns = start[:, None] + np.arange(width)
    rows = np.arange(0, count * width + 1, width)
    return csr_array((fit[np.arange(count) - start].ravel(), columns.ravel(), rows), shape=(count, count))


def _neighbours(points: FloatArray) -> csr_array:
    """Return weights (m, m) by which each point listens to those around it."""
    reach = NEAR * max(float(np.ptp(points, axis=0).max()), 1e-9)
    far = ((points[:, None] - points[None]) ** 2).sum(axis=2) / reach**2
    weight = np.where(far < 9, np.exp(-far / 2), 0)
    return csr_array(weight / weight.sum(axis=0))
