"""Faces that a search leaves untouched, by condition: ksame, CenterFace alone and deface beside it.

The photos are composites of synthetic faces (tests/composites.py). A face is left if its centre lies in no
cover, or if covers hide less than 80 % of its box, brow to chin and ear to ear. ksame and CenterFace are
covered as ``ksame run`` covers, deface by its own larger ellipses. ``--full`` takes faces that the generator
draws, photos of up to 12,000 px, deface in an environment of its own, and whole runs of the command, whose
published pixels are compared with the photo. deface takes 8 GB for a photo of 12,000 x 3,000 px.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from benchmarks.bench_run import deface

import composites
from composites import Case, covered_share, hidden_by
from heads import Head, bundled_heads, drawn_heads
from ksame.analysis.search import search
from ksame.models.detectors import detect
from ksame.render.cover import cover_boxes

SEED = 20261118  # not that of tests/integration/test_recall.py
UNTOUCHED = 0.2  # of a face's central pixels that may be as they were in a published photo
# Grey levels by which a pixel differs less to count as unchanged. Photos are PNG, so what was not touched is
# identical. Within 8 levels are also a third of the pixels of a replaced face: its skin keeps its colour.
UNCHANGED = {"identical": 0.5, "within 8 levels": 8.0}
RUN = ("--method", "shift", "--publish", "scene", "--subjects", "auto")
DEFACE = """
import json, sys, time
import numpy as np
from deface.centerface import CenterFace
network = CenterFace()
print("ready", flush=True)
for line in sys.stdin:
    image = np.load(line.strip())
    start = time.perf_counter()
    found, _ = network(image, threshold=0.2)
    print(json.dumps([time.perf_counter() - start, [row[:4].tolist() for row in found]]), flush=True)
"""

Covers = Callable[[np.ndarray], tuple[np.ndarray, float]]
"""Given a photo, returns the boxes (m, 4) of the ellipses that would be covered, and the seconds it took."""


def timed(find: Callable[[np.ndarray], Any]) -> Covers:
    """Return a search of ksame as its covers."""

    def covers(image: np.ndarray) -> tuple[np.ndarray, float]:
        start = time.perf_counter()
        found = find(image)
        return cover_boxes(found.xyxy), time.perf_counter() - start

    return covers


class Deface:
    """deface's own network in its own environment, kept running; a context manager."""

    def __init__(self, room: Path) -> None:
        self.file = room / "photo.npy"

    def __enter__(self) -> Covers:
        python = Path(deface()).with_name("python")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([python, "-c", DEFACE], **pipes)
        while "ready" not in self.process.stdout.readline():
            if self.process.poll() is not None:
                raise RuntimeError("deface did not start.")
        return self.covers

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()

    def covers(self, image: np.ndarray) -> tuple[np.ndarray, float]:
        """Return what deface would blur by default: ellipses, 0.3 of the box larger on each side."""
        np.save(self.file, image)
        self.process.stdin.write(f"{self.file}\n")
        self.process.stdin.flush()
        seconds, found = json.loads(self.process.stdout.readline())
        boxes = np.array(found, dtype=np.float64).reshape(-1, 4)
        margin = 0.3 * (boxes[:, 2:] - boxes[:, :2])
        return np.hstack([boxes[:, :2] - margin, boxes[:, 2:] + margin]), seconds


def cases(quick: bool) -> Iterator[Case]:
    """Yield all photos; quick takes bundled faces and photos of 1,600 and 4,000 px."""
    rng = np.random.default_rng(SEED)
    heads = bundled_heads(24, SEED) if quick else drawn_heads(24, SEED)
    for shape in composites.PHOTOS[: 2 if quick else None]:
        # deface takes minutes for the largest photo
        yield from composites.sizes(heads, rng, shape=shape, photos=1 if quick or max(shape) > 10_000 else 2)
    for name, condition in composites.CONDITIONS.items():
        if quick or name != "skin":  # the generator draws a wider range of skin, below
            yield from condition(heads, rng)
    if not quick:
        yield from drawn_conditions(rng)
    yield from composites.empty(rng, count=4 if quick else 12)


def drawn_conditions(rng: np.random.Generator) -> Iterator[Case]:
    """Yield what only the generator can draw: heads turned to either side, and dark skin."""
    sides = drawn_heads(10, SEED + 1, yaw=60.0), drawn_heads(10, SEED + 2, yaw=-60.0)
    yield from composites.turned([*sides[0], *sides[1]], rng)
    dark: Sequence[Head] = drawn_heads(12, SEED + 3, light=-20.0)
    yield from composites.tones(
        [*dark, *drawn_heads(12, SEED + 4), *drawn_heads(12, SEED + 5, light=12.0)], rng
    )


def measure(programs: Mapping[str, Covers], photos: Iterator[Case]) -> list[dict[str, Any]]:
    """Return a row for each condition and level: how many faces each program leaves; then covers, seconds.

    The rows of a condition are printed when it is done, so that a run that is stopped loses nothing.
    """
    table: list[dict[str, Any]] = []
    false: dict[str, list[float]] = {name: [0, 0] for name in programs}
    seconds = dict.fromkeys(programs, 0.0)
    empty = pixels = 0
    for condition, group in groupby(photos, key=lambda case: case.condition):
        faces: Counter[str] = Counter()
        left: dict[str, Counter[str]] = {name: Counter() for name in programs}
        for case in group:
            rows = [f"{condition}: {level.strip()}" for level in case.levels]
            faces.update(rows)
            empty, pixels = empty + (not rows), pixels + case.image.shape[0] * case.image.shape[1]
            for name, program in programs.items():
                covers, took = program(case.image)
                seconds[name] += took
                hidden = hidden_by(case.boxes, covers)
                left[name].update(row for row, ok in zip(rows, hidden, strict=True) if not ok)
                if not rows:
                    false[name][0] += len(covers)
                    false[name][1] += covered_share(covers, case.image.shape)
        for row, count in faces.items():
            table.append(
                {"what": f"left, {row}", "faces": count, **{name: left[name][row] for name in programs}}
            )
            print(table[-1], flush=True)
    return [*table, *totals(table, false, seconds, empty, pixels)]


def totals(
    table: Sequence[Mapping[str, Any]],
    false: Mapping[str, Sequence[float]],
    seconds: Mapping[str, float],
    empty: int,
    pixels: int,
) -> Iterator[dict[str, Any]]:
    """Yield the rows over all photos: faces left, false covers and their area, seconds."""
    faces = sum(row["faces"] for row in table)
    yield {"what": "left, all", "faces": faces, **{name: sum(row[name] for row in table) for name in false}}
    yield {"what": f"false covers in {empty} photos", **{name: int(n) for name, (n, _) in false.items()}}
    share = {name: round(100 * area / max(empty, 1), 3) for name, (_, area) in false.items()}
    yield {"what": "their area, % of the photo", **share}
    yield {"what": "s a megapixel", **{name: round(s * 1e6 / pixels, 3) for name, s in seconds.items()}}
    if slowest := seconds.get("deface"):
        yield {"what": "time beside deface", **{name: round(s / slowest, 2) for name, s in seconds.items()}}


def published(photos: Sequence[Case], *options: str) -> list[dict[str, Any]]:
    """Run the command on photos and return how many faces are published unchanged, by condition and level.

    A face is unchanged if more than a fifth of the pixels in the middle of its box are: see ``UNCHANGED``.
    Faces of photos that are not published are counted as held back.
    """
    faces, held = Counter[str](), Counter[str]()
    left: dict[str, Counter[str]] = {name: Counter() for name in UNCHANGED}
    with tempfile.TemporaryDirectory() as folder:
        released = run(photos, Path(folder), *options)
        for i, case in enumerate(photos):
            rows = [f"{case.condition}: {level.strip()}" for level in case.levels]
            faces.update(rows)
            files = [*released.rglob(f"{i:03}.png")]
            if not files:
                held.update(rows)
                continue
            after = cv2.imread(str(files[0]))[..., ::-1]
            for name, levels in UNCHANGED.items():
                shares = unchanged(case, after, levels)
                left[name].update(row for row, share in zip(rows, shares, strict=True) if share > UNTOUCHED)
    what = " ".join(("run", *options))
    table = [
        {"what": f"{what}, {row}", "faces": count}
        | {name: left[name][row] for name in UNCHANGED}
        | {"held back": held[row]}
        for row, count in faces.items()
    ]
    total = {name: left[name].total() for name in UNCHANGED}
    return [*table, {"what": f"{what}, all", "faces": faces.total(), **total, "held back": held.total()}]


def run(photos: Sequence[Case], room: Path, *options: str) -> Path:
    """Write photos, run the command on them and return the folder of the release."""
    (room / "photos").mkdir()
    for i, case in enumerate(photos):
        cv2.imwrite(str(room / "photos" / f"{i:03}.png"), case.image[..., ::-1])
    words = ["run", str(room / "photos"), "-o", str(room / "out"), *RUN, "--seed", "1", "-q", *options]
    done = subprocess.run([sys.executable, "-m", "ksame", *words], capture_output=True, text=True)
    if done.returncode not in (0, 4, 5):  # 4: some photos were not used; 5: a detector still sees faces
        raise RuntimeError(done.stderr)
    return room / "out"


def unchanged(case: Case, after: np.ndarray, levels: float) -> list[float]:
    """Return the share of pixels in the middle of each face, half its box wide and high, that stayed."""
    shares = []
    for box in case.boxes.reshape(-1, 2, 2):
        middle, quarter = box.mean(axis=0), (box[1] - box[0]) / 4
        (left, top), (right, bottom) = (middle - quarter).astype(int), np.ceil(middle + quarter).astype(int)
        before, now = (image[top:bottom, left:right].astype(np.float64) for image in (case.image, after))
        shares.append(float((np.abs(before - now).mean(axis=2) < levels).mean()))
    return shares


def main(quick: bool) -> list[dict[str, Any]]:
    """Return the rows of the table; quick leaves out deface, drawn faces and whole runs."""
    programs: dict[str, Covers] = {
        "full": timed(lambda image: search(image, effort="full")),
        "fast": timed(lambda image: search(image, effort="fast")),
        "centerface": timed(lambda image: detect(image, detector="centerface")),
    }
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        if not quick:
            programs["deface"] = running.enter_context(Deface(Path(name)))
        rows = measure(programs, cases(quick))
    if not quick:
        for effort in ("full", "fast"):
            rows += published(whole_runs(), "--search", effort)
    return rows


def whole_runs() -> list[Case]:
    """Return the photos on which the whole command is tried."""
    rng, heads = np.random.default_rng(SEED + 9), bundled_heads(24, SEED + 9)
    return [
        *composites.sizes(heads, rng),
        *composites.rolls(heads, rng, of=(20, 44)),
        *composites.yaws(heads, rng),
    ]


if __name__ == "__main__":
    for line in main(quick="--full" not in sys.argv):
        print(line)
