"""Pictures that must not change unnoticed: small, of nobody, and listed in tests/data/PROVENANCE.md."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from ksame import io
from ksame.spaces import AppearanceSpace

HERE = Path(__file__).parent


def strip() -> np.ndarray:
    """The shipped model's mean face, and it made broader and darker by its own axes."""
    model = AppearanceSpace.bundled()
    codes = np.zeros((3, len(model.deviation)))
    shapes = len(model.shape_axes)
    identity = np.flatnonzero(~model.nuisance)
    codes[1, identity[0]] = 2 * model.deviation[identity[0]]
    codes[2, identity[identity >= shapes][0]] = -1.5 * model.deviation[identity[identity >= shapes][0]]
    return np.hstack(
        [cv2.resize(face, (64, 80), interpolation=cv2.INTER_AREA) for face in model.decode(codes)]
    )


@pytest.mark.parametrize("name", ["model.png"])
def test_the_shipped_model_draws_the_same_faces(name):
    golden = io.read_photo(HERE / name).astype(int)
    new = strip().astype(int)
    assert new.shape == golden.shape
    # libraries round differently: a level or two per pixel is theirs, more is ours
    assert np.abs(new - golden).mean() < 1.0
    assert (np.abs(new - golden) > 12).mean() < 0.01
