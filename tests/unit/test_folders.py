"""Folders of unfinished work: their owner's while it lives, nobody's after."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ksame.core import folders
from ksame.models import runtime, weights
from running import tree

OWNER = """
import sys, time
from pathlib import Path
from ksame.core import folders
with folders.scratch_folder(Path(sys.argv[1]), ".out.", ".partial") as room:
    (room / "a.png").touch()
    print(room.name, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner(tmp_path):
    """A process that holds a folder, and the folder."""
    with subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], stdout=subprocess.PIPE) as process:
        room = tmp_path / process.stdout.readline().decode().strip()
        yield process, room
        process.kill()


def test_a_folder_is_swept_once_its_owner_is_gone(owner, tmp_path):
    process, room = owner
    for _ in range(2):
        folders.remove_ownerless(tmp_path, ".out.", ".partial")
        assert tree(room) == {"a.png"}, "its owner lives"
    process.kill()
    process.wait()
    folders.remove_ownerless(tmp_path, ".out.", ".replaced")
    assert tree(room) == {"a.png"}, "another kind"
    with folders.scratch_folder(tmp_path, ".out.", ".partial") as mine:
        assert [path.name for path in tmp_path.iterdir()] == [mine.name]
        assert mine.stat().st_mode & 0o777 == 0o700
        with folders.scratch_folder(tmp_path, ".out.", ".partial") as other:
            assert mine.is_dir() and other.is_dir(), "one process may hold several"
    assert not tree(tmp_path)


def test_what_is_not_ours_stays(tmp_path):
    for name in (
        ".out.partial",
        ".out.0123456g.partial",
        ".other.01234567.partial",
        "x.out.01234567.partial",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / ".out.01234567.partial").write_text("a file")
    (tmp_path / "target").mkdir()
    (tmp_path / ".out.89abcdef.partial").symlink_to(tmp_path / "target")
    before = tree(tmp_path)
    folders.remove_ownerless(tmp_path, ".out.", ".partial")
    assert tree(tmp_path) == before
    folders.remove_ownerless(tmp_path / "nowhere", ".out.", ".partial")


def test_a_folder_that_was_renamed_stays(tmp_path):
    with folders.scratch_folder(tmp_path, ".out.", ".partial") as room:
        room.rename(tmp_path / "out")
    assert tree(tmp_path) == {"out"}


@pytest.mark.weights
@pytest.mark.parametrize("writable", [True, False])
def test_a_network_in_a_bundle_is_unpacked_once(writable, tmp_path, monkeypatch):
    bundle, temp = weights.path("landmarker"), tmp_path / "temp"
    temp.mkdir()
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / bundle.name).symlink_to(bundle)
    monkeypatch.setenv("KSAME_CACHE", str(cache))
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    if not writable:  # root may write anywhere: the cache refuses by itself

        def refuse():
            raise PermissionError

        monkeypatch.setattr(weights, "unfinished", refuse)
    inner = "face_blendshapes.tflite"
    for _ in range(2):
        with runtime._file_of("landmarker", inner) as file:
            data = file.read_bytes()
            assert file.suffix == ".tflite"
            assert (file.parent == cache) == writable
        if writable:
            file.write_bytes(b"tampered with")
    assert data[4:8] == b"TFL3"
    assert not tree(temp)
    assert tree(cache) == {bundle.name} | ({f"landmarker-{inner}"} if writable else set())
