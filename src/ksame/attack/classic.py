"""The classic recognisers of the papers: eigenfaces, fisherfaces, LBP, HOG, LPQ.

All take the same grey chip, 102 x 102 pixels: the face from the eyebrows to below the mouth, the
eyes 59 pixels apart, registered by eye centres and nose tip [N 2]. Hair and background are outside,
except for what shows at the sides of a narrow jaw: what those reveal is measured by the background attack.

A code is small, and a function of its own chip alone to the last bit. All learning is on the gallery,
in ``train``. Sizes and shares were chosen by the mean rank-1 on ORL, CSU and London together, so
figures on these sets flatter the classic recognisers a little.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from ksame.attack.score import Match
from ksame.core.arrays import FloatArray
from ksame.core.geometry import crop, to_frame
from ksame.spaces.eigen import principal_components

SIDE = 102  # px of a chip: minus 2, 4 and 6 it is a whole number of cells of HOG, LBP and LPQ
# the centre of the inner face, (128, 180) on the canonical frame, at two thirds of its scale
_INNER_FACE_MATRIX = np.array(
    [[2 / 3, 0, SIDE / 2 - 0.5 - 128 * 2 / 3], [0, 2 / 3, SIDE / 2 - 0.5 - 180 * 2 / 3]]
)
_TRAINING_FACES_MAX = 1000  # faces that a subspace is learnt from: [G5 5.2] take a fifth of theirs
_BLOCK = 512  # gallery faces held as floats at a time


def chips(rgb: NDArray[np.uint8], points: FloatArray) -> NDArray[np.uint8]:
    """Return the grey inner faces (n, 102, 102) with meshes (n, 468, 2) in a photo.

    Examples
    --------
    >>> chips(np.zeros((320, 256, 3), np.uint8), np.zeros((0, 468, 2))).shape
    (0, 102, 102)
    """
    views = [crop(rgb, _INNER_FACE_MATRIX @ np.vstack([to_frame(p), [0, 0, 1]]), SIDE, SIDE) for p in points]
    grey = [cv2.cvtColor(view, cv2.COLOR_RGB2GRAY) for view in views]
    return np.stack(grey) if grey else np.zeros((0, SIDE, SIDE), np.uint8)


def pixels(chips: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return half-size chips as rows Gamma (n, 2601) [N def. 2.2], their histograms equalised [S 5.4.1].

    They stay bytes: eigenfaces and fisherfaces project them once they have learnt from the gallery.

    Examples
    --------
    >>> pixels(np.zeros((4, 102, 102), np.uint8)).shape
    (4, 2601)
    """
    rows = [
        cv2.resize(cv2.equalizeHist(c), None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for c in chips
    ]
    return np.stack([row.ravel() for row in rows])


# fmt: off
# p = 8 neighbours (y, x)
_NEIGHBOURS = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))
# fmt: on
_BYTE_VALUES = np.arange(256)
_BIT_CHANGES = np.bitwise_count(_BYTE_VALUES ^ (_BYTE_VALUES >> 1 | (_BYTE_VALUES & 1) << 7))
# 0 .. 57 for the patterns with at most two changes around the ring (u2), 58 for all others
_UNIFORM = np.where(_BIT_CHANGES <= 2, np.cumsum(_BIT_CHANGES <= 2) - 1, 58).astype(np.uint8)


def lbp(chips: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return local binary patterns (n, 5782): 7 x 7 cells, radius 1 and 2, 59 uniform patterns [S 3.13].

    Deviation: neighbours are the pixels of a square ring, not interpolated on a circle. They separated
    people as well, and no change of brightness or contrast changes the code at all.

    Examples
    --------
    >>> lbp(np.zeros((4, 102, 102), np.uint8)).shape
    (4, 5782)
    """
    return np.stack(
        [np.concatenate([_histograms(_UNIFORM[_ring(chip, r)], 59, 7) for r in (1, 2)]) for chip in chips]
    )


def _ring(chip: NDArray[np.uint8], radius: int) -> NDArray[np.uint8]:
    """Return LBP_{8,r} of every pixel that has two pixels on all sides [S 3.13-3.14]."""
    h, w = chip.shape
    g_c = chip[2 : h - 2, 2 : w - 2]
    pattern = np.zeros(g_c.shape, np.uint8)
    for i, (dy, dx) in enumerate(_NEIGHBOURS):
        y, x = 2 + radius * dy, 2 + radius * dx
        g_i = chip[y : y + h - 4, x : x + w - 4]
        pattern |= (g_i >= g_c).astype(np.uint8) << i  # s(g_i - g_c) 2^i
    return pattern


def _histograms(values: NDArray[np.uint8], bins: int, grid: int) -> NDArray[np.uint8]:
    """Return the histogram of each cell of a grid, row by row; cells are up to 255 pixels."""
    h, w = values.shape
    cell = np.arange(h)[:, None] * grid // h * grid + np.arange(w) * grid // w
    counts = np.bincount((cell * bins + values).ravel(), minlength=grid * grid * bins)
    return counts.astype(np.uint8)


_CELL_PX, _ORIENTATIONS = 10, 16  # [S table 6.2]


@cache
def _gradients() -> tuple[NDArray[np.intp], FloatArray]:
    """Return orientation and length of every gradient between bytes, indexed by (255 + dy, 255 + dx)."""
    dy, dx = np.mgrid[-255:256, -255:256]
    turn = np.arctan2(dy, dx) / np.pi % 1  # unsigned: from dark to light as from light to dark
    # the small margin: a diagonal lies on the edge of a bin, and must not be assigned by rounding
    return (turn * _ORIENTATIONS + 1e-9).astype(np.intp) % _ORIENTATIONS, np.hypot(dy, dx)


def hog(chips: NDArray[np.uint8]) -> FloatArray:
    """Return histograms of oriented gradients (n, 1600): cells of 10 x 10 pixels, 16 orientations [S 6.3].

    Each cell is of unit length, or zero where the chip is flat; histograms are equalised.

    Examples
    --------
    >>> hog(np.zeros((4, 102, 102), np.uint8)).shape
    (4, 1600)
    """
    return np.stack([_hog(cv2.equalizeHist(chip)) for chip in chips])


def _hog(chip: NDArray[np.uint8]) -> FloatArray:
    """Return the histograms of one chip, each of unit length."""
    x = chip.astype(np.intp)
    at = 255 + x[2:, 1:-1] - x[:-2, 1:-1], 255 + x[1:-1, 2:] - x[1:-1, :-2]
    orientation, length = (table[at] for table in _gradients())
    h, w = orientation.shape
    rows, columns = h // _CELL_PX, w // _CELL_PX
    cell = np.arange(h)[:, None] // _CELL_PX * columns + np.arange(w) // _CELL_PX
    votes = np.bincount(
        (cell * _ORIENTATIONS + orientation).ravel(), length.ravel(), rows * columns * _ORIENTATIONS
    )
    return _unit(votes.reshape(-1, _ORIENTATIONS).astype(np.float32)).ravel()


_LPQ_WINDOW_PX = 7  # px: M of LPQ


@cache
def _lpq_filters() -> FloatArray:
    """Return the 8 filters (8, M, M) of LPQ: the lowest frequencies in a window, decorrelated [S 3.3.2].

    The frequencies are (1, 0), (0, 1), (1, 1) and (1, -1) / M, real and imaginary parts. Neighbouring
    pixels are assumed to correlate by 0.9. Deviation: decorrelated by Cholesky's factor, which is unique,
    not by eigenvectors, some of which have equal eigenvalues here and so depend on the machine.
    """
    y, x = (part.ravel() for part in np.mgrid[:_LPQ_WINDOW_PX, :_LPQ_WINDOW_PX] - _LPQ_WINDOW_PX // 2)
    phase = 2 * np.pi / _LPQ_WINDOW_PX * np.array([x, y, x + y, x - y])
    w = np.vstack([np.cos(phase), np.sin(phase)])  # (8, M M)
    place = np.stack([x, y], axis=1)
    covariance = w @ 0.9 ** cdist(place, place) @ w.T  # (8, 8)
    return np.linalg.solve(np.linalg.cholesky(covariance), w).reshape(8, _LPQ_WINDOW_PX, _LPQ_WINDOW_PX)


def lpq(chips: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return local phase quantisation (n, 16384): 8 x 8 cells of 256 bins [S 3.3.2]; robust to blur.

    Deviation: cells of 12 x 12 pixels, not 10 x 10, so that they fill the chip.

    Examples
    --------
    >>> lpq(np.zeros((4, 102, 102), np.uint8)).shape
    (4, 16384)
    """
    return np.stack([_histograms(_phases(chip), 256, 8) for chip in chips])


def _phases(chip: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the signs of the 8 coefficients of every pixel with a complete window, as one byte."""
    half = _LPQ_WINDOW_PX // 2
    whole = np.s_[half : chip.shape[0] - half, half : chip.shape[1] - half]
    code = np.zeros(chip[whole].shape, np.uint8)
    for i, wave in enumerate(_lpq_filters()):
        # not > 0: where the chip is flat, rounding would decide
        code |= (cv2.filter2D(chip, cv2.CV_64F, wave)[whole] > 1e-6).astype(np.uint8) << i
    return code


def eigenfaces(gallery: NDArray[Any], subjects: NDArray[Any]) -> Match:
    """Return the Euclidean distance on the gallery's eigenfaces, 95 % of the variance [N fig. 9]."""
    psi, v, _ = principal_components(_floats(_training_subset(gallery, subjects)[0]), keep=0.95)
    return _nearest(gallery, psi, v)


def mahalanobis(gallery: NDArray[Any], subjects: NDArray[Any]) -> Match:
    """Return the Mahalanobis distance on the gallery's eigenfaces, 98 % of the variance [G5 3.1]."""
    psi, v, variance = principal_components(_floats(_training_subset(gallery, subjects)[0]), keep=0.98)
    return _nearest(gallery, psi, v / np.sqrt(variance)[:, None])


def fisherfaces(gallery: NDArray[Any], subjects: NDArray[Any]) -> Match:
    """Return the Euclidean distance on the gallery's fisherfaces [S 3.12].

    Deviation: textbooks keep n - c eigenfaces of n photos of c people, and take S_w as it is. With few
    photos of each that is hardly better than chance. Here the eigenfaces keep 98 % of the variance, and
    S_w is shrunk towards the total scatter by the number of people per photo, c / n. With one photo of
    each person nothing can be learnt about changes within people, c / n is 1, and the distance is that of
    ``mahalanobis``.
    """
    some, who = _training_subset(gallery, subjects)
    psi, v, _ = principal_components(_floats(some), keep=0.98)
    if not len(v):  # all photos are equal
        return _nearest(gallery, psi, v)
    mix, s_b = _scatter(_project(some, psi, v), who)
    people = len(np.unique(who))
    phi = eigh(s_b, mix)[1][:, ::-1][:, : max(people - 1, 1)]  # (m, c - 1): S_b phi = lambda S_w phi
    return _nearest(gallery, psi, phi.T @ v)


def _scatter(y: FloatArray, subjects: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Return S_w, shrunk to the total scatter, and S_b of centred codes (n, m), per degree of freedom."""
    _, who, count = np.unique(subjects, return_inverse=True, return_counts=True)
    n, c = len(y), len(count)
    means = np.zeros((c, y.shape[1]))
    np.add.at(means, who, y)
    means /= count[:, None]
    within, between = y - means[who], means[who] - y.mean(axis=0)
    s_w, s_b = within.T @ within / max(n - c, 1), between.T @ between / max(n - 1, 1)
    s_t = np.cov(y, rowvar=False).reshape(s_w.shape) if n > 1 else s_w
    return (1 - c / n) * s_w + c / n * s_t, s_b


def chi_square(gallery: NDArray[Any], subjects: NDArray[Any]) -> Match:
    """Return the chi-square distance of histograms, sum (p - q)^2 / (p + q) [S table 6.2]."""
    return _blockwise_distance(gallery, _chi_square, 32)  # so few fit the processor's cache: 4 times as fast


def _chi_square(p: FloatArray, q: FloatArray) -> FloatArray:
    far = np.empty((len(p), len(q)), p.dtype)
    some = np.maximum(q, 1e-9)  # where both are 0 nothing is added
    for i, row in enumerate(p):
        difference = q - row
        np.einsum("ij,ij->i", difference, difference / (some + row), out=far[i])
    return far


def cosine(gallery: NDArray[Any], subjects: NDArray[Any]) -> Match:
    """Return one minus the cosine [S table 6.2]; a code of zeros is equally far from all."""
    far = _blockwise_distance(gallery, lambda p, q: 1 - p @ _unit(q).T, _BLOCK)
    return lambda probes: far(_unit(_floats(probes)))


def _blockwise_distance(
    gallery: NDArray[Any], distance: Callable[[FloatArray, FloatArray], FloatArray], size: int
) -> Match:
    """Return a distance that holds one part of the gallery as floats at a time, and uses all cores."""
    starts = range(0, len(gallery), size)

    def match(probes: NDArray[Any]) -> FloatArray:
        p = _floats(probes)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = pool.map(lambda start: distance(p, _floats(gallery[start : start + size])), starts)
            return np.hstack(list(parts))

    return match


def _nearest(gallery: NDArray[Any], psi: FloatArray, axes: FloatArray) -> Match:
    """Return the Euclidean distance after projection on axes (m, N)."""
    projected = _project(gallery, psi, axes)
    return lambda probes: np.asarray(cdist(_project(probes, psi, axes), projected))


def _project(x: NDArray[Any], psi: FloatArray, axes: FloatArray) -> FloatArray:
    """Return Omega = V^T (Gamma - Psi), (n, m) [N fig. 8]."""
    blocks: Iterator[NDArray[Any]] = (x[start : start + _BLOCK] for start in range(0, len(x), _BLOCK))
    return np.concatenate([((_floats(block) - psi) @ axes.T).astype(np.float64) for block in blocks])


def _training_subset(gallery: NDArray[Any], subjects: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return all photos of as many people as a subspace needs, spread evenly over the names."""
    who = np.unique(subjects, return_inverse=True)[1]
    some = who % -(-len(gallery) // _TRAINING_FACES_MAX) == 0
    return gallery[some], subjects[some]


def _floats(x: NDArray[Any]) -> NDArray[np.float32]:
    return x.astype(np.float32)


def _unit(x: FloatArray) -> FloatArray:
    """Return rows of unit length; zeros stay zeros."""
    unit: FloatArray = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    return unit
