"""LBP and HOG of the classic recognisers against scikit-image, which was written by others."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
import pytest
from skimage import feature

from ksame.attack import classic

BLOCK_PX = 7  # side of the square that one pixel becomes
# scikit-image samples a circle and interpolates. On pixels enlarged to blocks these circles lie within the
# blocks of the square ring that we read, so both see the same eight values.
CIRCLE_PX = {1: 1.2 * BLOCK_PX, 2: 16.0}
CELLS = 7
HOG_CELL_PX, ORIENTATIONS = 10, 16


def blots(seed: int) -> np.ndarray:
    """Return a smooth chip, as faces are."""
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 12)).astype(np.uint8)
    return cv2.resize(coarse, (classic.SIDE, classic.SIDE), interpolation=cv2.INTER_CUBIC)


@cache
def our_labels() -> np.ndarray:
    """Return for each of scikit-image's 59 uniform labels our own: uniform patterns count by their value."""
    ours, labels = 0, np.full(59, 58)
    for pattern in range(256):
        ring = pattern >> np.arange(8) & 1
        cell = np.ones((3, 3), np.uint8)
        cell[[1, 0, 0, 0, 1, 2, 2, 2], [2, 2, 1, 0, 0, 0, 1, 2]] = 2 * ring  # anticlockwise from the right
        big = cell.repeat(BLOCK_PX, axis=0).repeat(BLOCK_PX, axis=1)
        theirs = feature.local_binary_pattern(big, 8, CIRCLE_PX[1], "nri_uniform")[
            len(big) // 2, len(big) // 2
        ]
        if (ring != np.roll(ring, 1)).sum() <= 2:
            labels[int(theirs)] = ours
            ours += 1
    return labels


@pytest.mark.parametrize("seed", range(3))
def test_lbp_counts_what_scikit_image_counts(seed):
    chip = blots(seed)
    big = chip.repeat(BLOCK_PX, axis=0).repeat(BLOCK_PX, axis=1)
    inner = slice(2 * BLOCK_PX + BLOCK_PX // 2, -2 * BLOCK_PX, BLOCK_PX)
    histograms = []
    for radius in (1, 2):
        found = feature.local_binary_pattern(big, 8, CIRCLE_PX[radius], "nri_uniform")[inner, inner]
        cells = our_labels()[found.astype(int)].reshape(CELLS, len(found) // CELLS, CELLS, -1)
        histograms += [
            np.bincount(cells[y, :, x].ravel(), minlength=59) for y in range(CELLS) for x in range(CELLS)
        ]
    np.testing.assert_array_equal(classic.lbp(chip[None])[0], np.concatenate(histograms))


@pytest.mark.parametrize("seed", range(3))
def test_hog_votes_as_scikit_image_does(seed):
    chip = blots(seed)
    theirs = feature.hog(
        cv2.equalizeHist(chip)[1:-1, 1:-1],  # ours leaves out the border, whose gradients it does not know
        orientations=ORIENTATIONS,
        pixels_per_cell=(HOG_CELL_PX, HOG_CELL_PX),
        cells_per_block=(1, 1),
        block_norm="L2",
        feature_vector=False,
    ).reshape(10, 10, ORIENTATIONS)
    ours = classic.hog(chip[None])[0].reshape(10, 10, ORIENTATIONS)
    # scikit-image takes the gradient at the border of what it is given for 0
    np.testing.assert_allclose(ours[1:-1, 1:-1], theirs[1:-1, 1:-1], atol=1e-5)
