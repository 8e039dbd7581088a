"""How near a published picture is to its original, pixel by pixel: SSIM, squared error, PSNR."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError

__all__ = ["psnr", "squared_error", "ssim"]

_SIGMA, _REACH = 1.5, 5  # the window of Wang et al. 2004: 11 x 11
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2


def ssim(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> FloatArray:
    """Return the structural similarity of each pair of grey pictures (n, h, w): 1 if they are equal.

    As Wang et al. define it (IEEE TIP 13(4), 2004): a Gaussian window of 1.5 pixels, mean over the places
    where the whole window is inside the picture.

    Examples
    --------
    >>> ramp = np.tile(np.arange(0, 240, 10, dtype=np.uint8), (1, 16, 1))
    >>> ssim(ramp, ramp).round(6).tolist(), ssim(ramp, 255 - ramp).round(1).tolist()
    ([1.0], [-0.6])
    """
    _check(a, b)
    if min(a.shape[1:]) <= 2 * _REACH:
        raise UsageError(f"SSIM needs pictures of at least 11 x 11 pixels. Got {a.shape[1:]}.")
    similar = np.zeros(len(a))
    inside = np.s_[_REACH:-_REACH, _REACH:-_REACH]
    for row, (x, y) in enumerate(zip(a.astype(np.float64), b.astype(np.float64), strict=True)):
        five = np.stack([x, y, x * x, y * y, x * y], axis=2)
        m_x, m_y, m_xx, m_yy, m_xy = cv2.GaussianBlur(five, (11, 11), _SIGMA)[inside].transpose(2, 0, 1)
        v_x, v_y, v_xy = m_xx - m_x**2, m_yy - m_y**2, m_xy - m_x * m_y
        light = (2 * m_x * m_y + _C1) / (m_x**2 + m_y**2 + _C1)
        similar[row] = (light * (2 * v_xy + _C2) / (v_x + v_y + _C2)).mean()
    return similar


def squared_error(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> FloatArray:
    """Return the mean squared difference (n,) of pairs of grey pictures (n, h, w), in squared grey levels."""
    _check(a, b)
    error = np.zeros(len(a))
    for row, (x, y) in enumerate(zip(a, b, strict=True)):  # one by one: no large copies
        error[row] = np.mean((x.astype(np.float64) - y) ** 2)
    return error


def psnr(error: float) -> float:
    """Return the peak signal-to-noise ratio, in dB, of a mean squared error; NaN for equal pictures.

    Examples
    --------
    >>> round(psnr(100.0), 2), psnr(0.0)
    (28.13, nan)
    """
    return float(10 * np.log10(255**2 / error)) if error > 0 else float("nan")


def _check(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> None:
    if a.ndim != 3 or a.shape != b.shape:
        raise UsageError(f"Pictures must be grey and parallel, (n, h, w) both. Got {a.shape} and {b.shape}.")
