"""Five runs of the command whose results must not change unnoticed: what they publish and what they claim.

``KSAME_GOLDEN=write pytest tests/golden/test_walks.py`` records them again, in ``walks/``. The networks round
differently on different processors. On the kind of machine that a record was made on, every published
file must have the recorded sha256. On any other, a coarse signature of every image must be near, and the
claims must be the recorded ones. Every walk runs in processes of its own: a network that was asked often
is compiled for the sizes that were asked for, and rounds differently then.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

from films import film
from ksame import io
from ksame.release import MANIFEST
from running import digests, shell

pytestmark = pytest.mark.weights

WALKS = Path(__file__).parent / "walks"
GREY_LEVELS = 3.0  # by which a cell of a signature may differ on another kind of machine
GRID = 8  # cells of a signature to each side
FRAMES = 3  # of a video in its signature
LIBRARIES = ("av", "numpy", "opencv-python-headless", "openvino", "pillow", "scikit-learn", "scipy")
# what a certificate tells of the machine, or of the bytes that are compared on their own
NOT_CLAIMED = ("digest", "manifests", "software", "weights")
ATTACKERS = "lbp,sface"


def machine() -> dict[str, str]:
    """What rounding depends on: the processor's instructions and the libraries."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    flags = next((line for line in lines if line.startswith("flags")), platform.processor())
    cpu = hashlib.sha256(" ".join(sorted(flags.split())).encode()).hexdigest()[:16]
    return {"cpu": cpu, **{name: version(name) for name in LIBRARIES}}


def signature(path: Path) -> list[str]:
    """The mean colours of 8 x 8 cells of an image, or of some frames of a video, as hexadecimal bytes."""
    if path.suffix == ".mp4":
        with av.open(str(path)) as clip:
            every = [frame.to_ndarray(format="rgb24") for frame in clip.decode(video=0)]
        images = [every[i] for i in np.linspace(0, len(every) - 1, FRAMES).astype(int)]
    else:
        images = [io.read_photo(path)]
    cells = [cv2.resize(image, (GRID, GRID), interpolation=cv2.INTER_AREA) for image in images]
    return [cell.tobytes().hex() for cell in cells]


def claims(release: Path) -> dict[str, Any]:
    """What the certificate of a release says of it."""
    certificate = json.loads((release / "certificate.json").read_text())
    return {name: value for name, value in certificate.items() if name not in NOT_CLAIMED}


def run(source: Path, out: Path, *options: object) -> dict[str, Any]:
    """Make a release; return what is kept of it."""
    ran = shell("run", source, "-o", out, "--seed", 7, "--jobs", 1, *options)
    assert ran.code == 0, ran.err
    published = {name: sha for name, sha in digests(out).items() if name != "certificate.json"}
    return {
        "files": published,
        "signatures": {name: signature(out / name) for name in sorted(published) if name != MANIFEST},
        "claims": claims(out),
    }


def portrait(people: Path, folder: Path) -> dict[str, Any]:
    return run(people, folder / "out", "--subjects", "prefix", "-k", 3)


def scene(people: Path, folder: Path) -> dict[str, Any]:
    return run(people, folder / "out", "--subjects", "prefix", "-k", 3, "--publish", "scene")


def some(people: Path, folder: Path, count: int) -> Path:
    """Return a folder with the first photos only: portraits that are drawn and attacks take some seconds."""
    few = folder / "few"
    few.mkdir()
    for photo in sorted(people.glob("*.pgm"))[:count]:
        shutil.copy(photo, few)
    return few


def anonfaces(people: Path, folder: Path) -> dict[str, Any]:
    few = some(people, folder, 6)
    return run(few, folder / "out", "--method", "anonfaces", "--subjects", "prefix", "-k", 2)


def video(people: Path, folder: Path) -> dict[str, Any]:
    clip = film(folder / "a.mp4", ["00001aa", "00005aa"], frames=12)
    return run(clip, folder / "out")


def rounded(value: Any) -> Any:
    """Return figures without their last digits, which depend on how many threads summed them."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def audit(people: Path, folder: Path) -> dict[str, Any]:
    """Attack a release of portraits with a classic recogniser and a deep one."""
    few = some(people, folder, 8)
    run(few, folder / "out", "--subjects", "prefix", "-k", 3)
    ran = shell(
        "audit",
        folder / "out",
        "--originals",
        few,
        *("--attackers", ATTACKERS, "--subjects", "prefix", "--jobs", 1, "--json", folder / "a.json"),
    )
    assert ran.code == 0, ran.err
    figures = json.loads((folder / "a.json").read_text())
    said = ("attack", "recogniser", "chance", "bound", "verdict", "probes", "gallery")
    return {
        "files": {
            "a.json": hashlib.sha256(json.dumps(rounded(figures)).encode()).hexdigest(),
            "report.html": digests(folder / "out")["report.html"],
        },
        "signatures": {},
        "claims": {
            **{name: figures[name] for name in ("k", "bound", "method", "publish", "residual_faces")},
            # they are listed by their rates, which may differ a little
            "attacks": sorted([row[name] for name in said] for row in figures["attacks"]),
        },
    }


@pytest.mark.parametrize("walk", [portrait, scene, anonfaces, video, audit], ids=lambda walk: walk.__name__)
def test_a_walk_publishes_and_claims_what_it_did(walk, people, recogniser, tmp_path):
    record = WALKS / f"{walk.__name__}.json"
    kept = json.loads(json.dumps(walk(people, tmp_path), sort_keys=True))
    if os.environ.get("KSAME_GOLDEN") == "write":
        text = json.dumps({"machine": machine(), **kept}, sort_keys=True, indent=1)
        record.write_text(text + "\n", encoding="utf-8")
    golden = json.loads(record.read_text(encoding="utf-8"))
    assert kept["claims"] == golden["claims"]
    assert kept["files"].keys() == golden["files"].keys()
    if golden["machine"] == machine():
        assert kept["files"] == golden["files"]
    for name, cells in golden["signatures"].items():
        here, there = (
            np.frombuffer(bytes.fromhex("".join(frames)), np.uint8).astype(int)
            for frames in (kept["signatures"][name], cells)
        )
        assert np.abs(here - there).max() <= GREY_LEVELS, name
