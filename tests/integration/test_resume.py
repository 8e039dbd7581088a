"""A run that is stopped in the middle: nothing half done is published, and it can go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ksame.release import PRIVATE_FILES
from running import KILL, begin, digests, places, shell, tree

pytestmark = pytest.mark.weights

HOW = ("-k", 3, "--subjects", "prefix", "--seed", 5)

MOMENTS = {
    "before the first face": "from ksame.core import checkpoint as m\nm.Checkpoint.store_boxes = die",
    "when all faces are found": "from ksame.pipeline import photos as m\nm.identify_faces = die",
    "when the pictures are written": "from ksame.release import writer as m\nm.write_private_parts = die",
    "when the mapping is written": "from ksame.core import folders as m\nm.sync_to_disk = die",
    "before the release takes its place": "import pathlib\npathlib.Path.rename = die",
}


def check_leftovers(folder: Path) -> None:
    """Check what a killed run leaves: names, boxes and new faces, hidden or private; no photo, no code."""
    left = {name for name in tree(folder) if (folder / name).is_file()}
    hidden = {name for name in left if name.startswith(".out.") and ".partial/" in name}
    private = {"journal.jsonl"} | {f"{name}.part" for name in PRIVATE_FILES}
    assert left - hidden <= {f"out.private/{name}" for name in private}
    assert all(name.endswith((".png", "certificate.json", "SHA256SUMS")) for name in hidden)
    assert (folder / "out.private").stat().st_mode & 0o777 == 0o700
    for line in (folder / "out.private" / "journal.jsonl").read_text().splitlines():
        assert set(json.loads(line)) in ({"seed"}, {"name", "stamp", "xyxy", "score", "five"})


@pytest.fixture(scope="module")
def whole(people, tmp_path_factory):
    """The bytes of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    assert shell("run", people, "-o", folder / "out", *HOW).code == 0
    return digests(folder)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_leaves_no_release_and_goes_on(moment, people, tmp_path, cli, whole):
    env = places(tmp_path)
    how = ("run", people, "-o", tmp_path / "out", *HOW)
    assert shell(*how, start=KILL + MOMENTS[moment], env=env).code == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    check_leftovers(tmp_path)
    assert cli(*how, "--resume").code == 0
    assert digests(tmp_path) == whole, "the same bytes as without the interruption, and nothing else"


@pytest.mark.parametrize("moment", ["when all faces are found", "before the release takes its place"])
def test_a_killed_run_may_be_started_anew(moment, people, tmp_path, cli, whole):
    how = ("run", people, "-o", tmp_path / "out", *HOW)
    assert shell(*how, start=KILL + MOMENTS[moment]).code == -signal.SIGKILL
    assert cli(*how).code == 0
    assert digests(tmp_path) == whole


@pytest.mark.parametrize("moment", ["when all faces are found", "before the release takes its place"])
def test_a_killed_run_that_should_overwrite(moment, people, released, cli):
    before = digests(released.parent)
    how = ("run", people, "-o", released, "-k", 4, "--subjects", "prefix", "--overwrite")
    assert shell(*how, start=KILL + MOMENTS[moment]).code == -signal.SIGKILL
    assert digests(released.parent).items() >= before.items(), "the earlier release has its own mapping"
    assert cli("verify", released, "--private", f"{released}.private").code == 0
    assert cli(*how, "--resume").code == 0
    assert cli("verify", released, "--private", f"{released}.private", "--json").json["k"] == 4


@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, -15)]
)
def test_a_run_that_is_stopped_from_outside(stop, code, people, tmp_path, cli, whole):
    how = ("run", people, "-o", tmp_path / "out", *HOW)
    piped = {"stderr": subprocess.PIPE, "text": True, "env": places(tmp_path)}
    with begin(*how, "--jobs", 1, **piped) as process:
        for line in process.stderr:
            if line.startswith("finding faces: 5 of 14"):
                break
        process.send_signal(stop)
        rest = process.stderr.read()
    assert process.returncode == code
    assert "Traceback" not in rest
    assert not (tmp_path / "out").exists()
    check_leftovers(tmp_path)
    lines = (tmp_path / "out.private" / "journal.jsonl").read_text().splitlines()
    assert 5 <= len(lines) - 1 < 14, "what was found is remembered"
    assert cli(*how, "--resume").code == 0
    assert digests(tmp_path) == whole


def test_a_run_whose_parent_ignores_ctrl_c_ignores_it_too(people, tmp_path, whole):
    """A shell starts background jobs so that Ctrl-C for the job in front does not reach them."""
    how = ("run", people, "-o", tmp_path / "out", *HOW, "--jobs", 1)
    command = ["sh", "-c", "trap '' INT; exec \"$@\"", "-", sys.executable, "-m", "ksame", *map(str, how)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("finding faces: 5 of 14"):
                process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert digests(tmp_path) == whole


def test_the_seed_of_a_stopped_run_is_kept(people, tmp_path, cli):
    how = ("run", people, "-o", tmp_path / "out", "-k", 3, "--subjects", "prefix", "--method", "ksame-pixel")
    assert shell(*how, start=KILL + MOMENTS["when all faces are found"]).code == -signal.SIGKILL
    first = (tmp_path / "out.private" / "journal.jsonl").read_text().splitlines()[0]
    assert cli(*how, "--resume").code == 0
    settings = json.loads((tmp_path / "out.private" / "settings.json").read_text())
    assert settings["seed"] == json.loads(first)["seed"]


def test_faces_that_are_remembered_are_not_searched_again(people, tmp_path, cli, monkeypatch):
    how = ("run", people, "-o", tmp_path / "out", "-k", 3, "--subjects", "prefix", "--method", "ksame-pixel")
    assert shell(*how, start=KILL + MOMENTS["when all faces are found"]).code == -signal.SIGKILL
    monkeypatch.setattr("ksame.analysis.photos.search", lambda rgb, **_: pytest.fail("it was known"))
    assert cli(*how, "--resume").code == 0


def test_a_mistake_while_resuming_does_not_cost_what_was_found(people, tmp_path, cli):
    how = ("run", people, "-o", tmp_path / "out", *HOW)
    assert shell(*how, start=KILL + MOMENTS["when all faces are found"]).code == -signal.SIGKILL
    journal = (tmp_path / "out.private" / "journal.jsonl").read_bytes()
    assert cli(*how, "--resume", "--partition", "mdva").code == 2
    assert cli(*how, "--resume", "-k", 13).code == 3
    assert (tmp_path / "out.private" / "journal.jsonl").read_bytes() == journal


def test_resuming_what_is_finished_or_never_began(people, tmp_path, cli):
    how = ("run", people, "-o", tmp_path / "out", "-k", 3, "--subjects", "prefix", "--method", "ksame-pixel")
    assert cli(*how, "--resume").code == 0, "a script may always say --resume"
    ran = cli(*how, "--resume")
    assert (ran.code, "nothing to resume" in ran.sentence) == (2, True)
    (tmp_path / "out").rename(tmp_path / "published")
    ran = cli(*how, "--resume")
    assert (ran.code, "mapping of an earlier release" in ran.sentence) == (2, True)


def test_a_photo_that_changed_meanwhile_is_searched_again(photos, tmp_path, cli):
    how = ("run", photos, "-o", tmp_path / "out", "-k", 3, "--subjects", "prefix", "--method", "ksame-pixel")
    assert shell(*how, start=KILL + MOMENTS["when all faces are found"]).code == -signal.SIGKILL
    (photos / "00001_aa.pgm").write_bytes((photos / "00001_ab.pgm").read_bytes())
    (photos / "00012_aa.pgm").write_bytes(b"P5 200 200 255\n" + b"\x80" * 40_000)
    ran = cli(*how, "--resume", "--json")
    assert ran.code == 4
    assert [failure["reason"] for failure in ran.json["failures"]] == ["no face was found"]
