"""A run that is killed leaves nothing of the originals, and the next one removes what it leaves."""

from __future__ import annotations

import signal
import subprocess

import pytest

from films import film
from ksame.models import weights
from ksame.release import PRIVATE_FILES
from running import KILL, begin, digests, places, shell, tree

pytestmark = pytest.mark.weights

MOMENTS = {
    "when a network is opened": "from ksame.models import runtime as m\nm._int8_weights = die",
    "when a bundled network is unpacked and the cache cannot be written": (
        "from ksame.models import runtime as m\n"
        "def refuse():\n"
        "    raise PermissionError\n"
        "m.weights.unfinished, write = refuse, m.Path.write_bytes\n"
        "m.Path.write_bytes = lambda path, data: (write(path, data), die())"
    ),
    "when the first pictures are written": (
        "from ksame.pipeline import video_render as m\n"
        "write = m.io.write_video\n"
        "def some(drawn):\n"
        "    yield next(drawn)\n"
        "    yield next(drawn)\n"
        "    die()\n"
        "m.io.write_video = lambda clip, path, drawn, **how: write(clip, path, some(drawn), **how)"
    ),
    "when the mapping is written": "from ksame.core import folders as m\nm._set_times_and_sync = die",
}


@pytest.fixture(scope="module")
def clip(recogniser, tmp_path_factory):
    return film(tmp_path_factory.mktemp("clip") / "a.mp4", ["00001aa"], frames=8, sound=None)


def test_the_next_run_removes_what_killed_ones_left(clip, tmp_path, tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")  # one in which no bundle has been unpacked
    for weight in weights.CATALOGUE:
        if file := weights.cached(weight):
            (cache / file.name).symlink_to(file)
    env = places(tmp_path) | {"KSAME_CACHE": str(cache)}
    how = ("run", clip, "-o", tmp_path / "out", "--seed", 5, "-q")
    seen: set[str] = set()
    for moment, start in MOMENTS.items():
        assert shell(*how, start=KILL + start, env=env).code == -signal.SIGKILL, moment
        left = {name for name in tree(tmp_path) if (tmp_path / name).is_file()}
        journal = {"out.private/journal.jsonl", *(f"out.private/{name}.part" for name in PRIVATE_FILES)}
        hidden = {name for name in left if name.startswith(".out.") and ".partial/" in name}
        finished = {name for name in left if name.startswith("out.private/finished/")}
        networks = {name for name in left if name.startswith("temp/ksame-network-")}
        assert left <= journal | hidden | finished | networks, moment
        assert all(name.endswith("face_landmarks_detector.tflite") for name in networks)
        assert not (tmp_path / "out").exists()
        seen |= networks
    assert hidden and finished and seen, "there was something to remove"
    assert shell(*how, env=env).code == 0
    private = {f"out.private/{name}" for name in (*PRIVATE_FILES, "tracks", "tracks/a.mp4.json")}
    release = {"out", "out/certificate.json", "out/SHA256SUMS", "out/images", "out/images/a.mp4"}
    assert tree(tmp_path) == {"temp", "out.private"} | private | release
    assert not [name for name in tree(cache) if name.startswith(".")]


def test_a_run_that_is_refused_removes_them_too(people, tmp_path):
    env = places(tmp_path)
    how = ("run", people, "-o", tmp_path / "out", "--subjects", "prefix", "--method", "ksame-pixel", "-q")
    assert shell(*how, start=KILL + MOMENTS["when the mapping is written"], env=env).code == -signal.SIGKILL
    assert any(name.endswith(".partial") for name in tree(tmp_path))
    assert shell(*how, "-k", 13, env=env).code == 3
    assert tree(tmp_path) == {"temp"}


def test_a_run_leaves_that_of_another_one_alone(people, tmp_path):
    """Two runs at once to one folder: the second may fail, and neither spoils what the other writes."""
    how = ("run", people, "-o", tmp_path / "out", "--subjects", "prefix", "--method", "ksame-pixel", "-q")
    wait = "from ksame.core import folders as m\nsync = m.sync_to_disk\n"
    wait += "def slow(path):\n    print('here', flush=True)\n    sys.stdin.readline()\n    sync(path)\n"
    wait += "m.sync_to_disk = slow"
    with begin(*how, start=wait, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        first.stdout.readline()
        held = next(tmp_path.glob(".out.*.partial"))
        before = digests(held)
        assert shell(*how, "-k", 13).code == 3
        assert digests(held) == before
        first.stdin.close()
        assert first.wait() == 0
    assert shell("verify", tmp_path / "out").code == 0
