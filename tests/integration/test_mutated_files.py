"""Damaged and odd files through every mode: one sentence each, and nothing unprotected is written.

A small set by default. ``KSAME_MUTANTS=500`` tries as many photos, and as many videos, in each mode.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ksame import io
from ksame.core.text import read_csv
from ksame.models.detectors import detect
from ksame.release import read_private, verify
from mutants import mutate_photos, mutate_videos
from running import Outcome, digests

pytestmark = pytest.mark.weights

MANY = int(os.environ.get("KSAME_MUTANTS", 0))
MODES = {
    "ksame-m": ("--method", "ksame-m", "-k", 2, "--subjects", "prefix"),
    "ksame-pixel": ("--method", "ksame-pixel", "-k", 2, "--subjects", "prefix", "--names", "keep"),
    "scene": ("--publish", "scene", "-k", 2, "--subjects", "prefix"),
    "shift": ("--method", "shift", "--subjects", "prefix"),
    "pixelate": ("--method", "pixelate", "--accept-no-guarantee"),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    mutate_photos(folder, MANY or 24, seed=1)
    return folder


def check(ran: Outcome, inputs: Path, out: Path) -> None:
    """Check that a run ended well: all is told, and what is published can be seen and is protected."""
    secret = out.with_name(f"{out.name}.private")
    assert ran.code in (0, 4, 5), ran.err[-2000:]
    assert "Traceback" not in ran.err + ran.out
    assert "\nksame: " not in ran.err
    told = ran.json
    assert told["untouched_faces"] == len(read_private(secret).residual), "each is listed"
    assert (ran.code == 5) == bool(told["untouched_faces"])
    failures = {row["input"]: row["reason"] for row in read_csv(secret / "failures.csv")}
    assert failures == {one["input"]: one["reason"] for one in told["failures"]}
    assert all(failures.values())
    rows = read_private(secret).mapping
    published = {path.relative_to(out).as_posix() for path in (out / "images").rglob("*") if path.is_file()}
    assert {row.output for row in rows} <= published
    for name in published:
        if Path(name).suffix in io.VIDEO_SUFFIXES:
            # a clock with a hole in it stays so, and is read as a sign of damage
            assert sum(1 for _ in io.read_frames(out / name, broken=[])) > 0
        else:
            assert io.read_photo(out / name).size
    there = {path.name for path in inputs.iterdir()}
    kept = {Path(name).name for name in published}
    done = {name for name in there if name in kept or f"{name}.mp4" in kept} | {row.input for row in rows}
    assert there == done | failures.keys(), "each is published or listed"
    verify(out, private=secret)
    if told["publish"] == "scene" and not told["videos"]:
        for photo, output in {(row.input, row.output) for row in rows}:
            check_faces(inputs / photo, out / output)


def check_faces(original: Path, published: Path) -> None:
    """Check that no face of a photo is published as it was, whatever a second detector says."""
    old, new = io.read_photo(original), io.read_photo(published)
    as_it_was = io.decode(io.encode(old, published.suffix)).astype(int)
    for left, top, right, bottom in detect(old).xyxy.astype(int):
        face = (slice(max(top, 0), bottom + 1), slice(max(left, 0), right + 1))
        assert np.abs(new[face] - as_it_was[face]).mean() > 0.3, published


@pytest.mark.parametrize("mode", MODES)
def test_mutated_photos(mode, photos, recogniser, tmp_path, cli):
    before = digests(photos)
    ran = cli("run", photos, "-o", tmp_path / "out", *MODES[mode], "--seed", 1, "--json", "-q")
    check(ran, photos, tmp_path / "out")
    assert digests(photos) == before


def test_mutated_videos(recogniser, tmp_path, cli):
    videos = tmp_path / "videos"
    videos.mkdir()
    mutate_videos(videos, MANY or 10, seed=1)
    before = digests(videos)
    ran = cli("run", videos, "-o", tmp_path / "out", "--seed", 1, "--json", "-q")
    check(ran, videos, tmp_path / "out")
    assert digests(videos) == before
