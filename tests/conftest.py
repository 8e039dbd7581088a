"""Small pictures that are drawn, not taken: no face is needed to test files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

Save = Callable[..., Path]

settings.register_profile(
    "ksame", deadline=None
)  # a busy machine is not a failure; timings live in benchmarks/
settings.load_profile("ksame")


@pytest.fixture(scope="session")
def scene() -> np.ndarray:
    """Return (48, 64, 3): four flat quarters, no two alike, so that any turn or swap of colours shows."""
    colours = np.array([[[200, 40, 40], [40, 180, 60]], [[50, 60, 200], [230, 220, 90]]], np.uint8)
    return colours.repeat(24, axis=0).repeat(32, axis=1)


@pytest.fixture
def save(tmp_path: Path, scene: np.ndarray) -> Save:
    """Write a picture (the scene by default) under a name, with Pillow's options; return the path."""

    def write(name: str, picture: np.ndarray | Image.Image | None = None, **options: Any) -> Path:
        picture = scene if picture is None else picture
        image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, **options)
        return path

    return write
