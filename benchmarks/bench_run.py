"""The whole way on a folder of photos: photos per second, memory, where the time goes, and deface beside it.

deface is installed in an environment of its own under build/. The photos are those of
../shared/data/london where they are, otherwise the sample people of the demonstration.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ksame import pipeline
from ksame.cli import demo
from ksame.core.context import Context
from ksame.methods import METHODS

LONDON = Path(__file__).resolve().parents[2] / "shared" / "data" / "london"


def photos(room: Path) -> tuple[Path, str]:
    """Return a folder of photos, and how people are named in it."""
    if LONDON.is_dir():
        return LONDON, "prefix"
    return room / "photos", str(demo.unpack(room / "photos"))


def stages(folder: Path, subjects: str, publish: str, out: Path) -> dict[str, float]:
    """Run once in this process and return the seconds of each stage."""
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def timed(name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - start, 2)

    media = pipeline.find_media([folder])
    (photos,), method, output = pipeline.route(media, METHODS["ksame-m"], publish, {"subjects": subjects})
    context = pipeline.prepare(method, output, Context(seed=1))
    with timed("analyse and identify"):
        people = photos.identify(method, output, context)
    with timed("plan"):
        plan = photos.plan(people, method, context)
    with timed("render, write, certify"):
        pipeline.release_of(photos, people, plan, method, output, context).save(out)
    return seconds


def command(*words: str) -> tuple[float, float]:
    """Run a command; return its seconds and its peak memory in MB."""
    code = (
        "import resource, subprocess, sys, time, json; t = time.perf_counter();"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL);"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024;"
        "print(json.dumps([time.perf_counter() - t, peak]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True)
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def deface(opencv: str = "") -> str:
    """Install deface in its own environment, once, with a version of OpenCV; return its command."""
    home = Path(__file__).resolve().parents[1] / "build" / f"deface{opencv}"
    if not (home / "bin" / "deface").exists():
        venv.create(home, with_pip=True)
        packages = ["deface==1.5.0", f"opencv-python{opencv}"]
        subprocess.run([home / "bin" / "pip", "install", "-q", *packages], check=True)
    return str(home / "bin" / "deface")


def main(quick: bool) -> list[dict[str, Any]]:
    """Return the rows of the table; quick leaves deface out."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        folder, subjects = photos(room)
        files = [path for path in sorted(folder.iterdir()) if path.suffix in (".jpg", ".pgm")]
        n = len(files)
        for publish in ("portrait", "scene"):
            words = ["run", str(folder), "-o", str(room / publish), "--subjects", subjects]
            ksame = [sys.executable, "-m", "ksame", *words, "--publish", publish, "--seed", "1", "-q"]
            seconds, peak = command(*ksame)
            steps = stages(folder, subjects, publish, room / f"{publish}-steps")
            row = {"what": f"run {publish}", "n": n, "seconds": round(seconds, 2), "peak_mb": round(peak)}
            rows.append(row | {"per_second": round(n / seconds, 1), "steps": steps})
        if not quick:
            rows += _beside_deface(files, room, rows)
    return rows


def _beside_deface(files: list[Path], room: Path, ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Time deface on the same photos; a third of them is enough to know its rate."""
    copies = room / "copies"
    copies.mkdir()
    some = files[::3]
    for path in some:
        (copies / path.name).symlink_to(path)
    seconds, peak = command(deface(), *(str(copies / path.name) for path in some))
    rate = len(some) / seconds
    row = {"what": "deface 1.5.0", "n": len(some), "seconds": round(seconds, 2), "peak_mb": round(peak)}
    ratios = {f"{one['what']} / deface": round(one["per_second"] / rate, 1) for one in ours}
    return [row | {"per_second": round(rate, 2), **ratios}]


if __name__ == "__main__":
    for line in main(quick="--full" not in sys.argv):
        print(line)
