"""A video from end to end: fps, CPU time, memory at two lengths, and deface beside it.

The clip is ../shared/data/video/pan.mp4 where it is, otherwise a face of the demonstration that moves over
a 720p frame. Everything is one command each, start-up included; deface is that of ``bench_run``. Beside
other work only processor seconds mean anything: both are printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from benchmarks.bench_run import deface

from ksame.cli import demo

PAN = Path(__file__).resolve().parents[2] / "shared" / "data" / "video" / "pan.mp4"
TIMED = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
spent = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([time.perf_counter() - start, spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1024]))
"""


def film(room: Path, frames: int = 250) -> Path:
    """Write a 720p clip in which one sample face moves slowly sideways."""
    demo.unpack(room / "photos")
    photo = cv2.imread(str(sorted((room / "photos").rglob("*.pgm"))[0]))
    face = cv2.resize(photo, None, fx=480 / len(photo), fy=480 / len(photo), interpolation=cv2.INTER_CUBIC)
    with av.open(str(room / "film.mp4"), "w") as out:
        stream = out.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        for i in range(frames):
            image = np.full((720, 1280, 3), 150, np.uint8)
            image[120:600, 300 + i : 300 + i + face.shape[1]] = face
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="bgr24")))
        out.mux(stream.encode())
    return room / "film.mp4"


def repeated(clip: Path, target: Path, times: int) -> Path:
    """Write a clip several times in a row, its packets as they are and without sound."""
    with av.open(str(target), "w") as out:
        stream, begin = None, 0
        for _ in range(times):
            with av.open(str(clip)) as source:
                images = source.streams.video[0]
                stream = stream or out.add_stream_from_template(images)
                end = begin
                for packet in source.demux(images):
                    if packet.size:
                        end = max(end, begin + packet.pts + packet.duration)
                        packet.pts, packet.dts, packet.stream = packet.pts + begin, packet.dts + begin, stream
                        out.mux(packet)
                begin = end
    return target


def command(what: str, clip: Path, *words: str) -> dict[str, Any]:
    """Run a command on a clip and return a row: seconds, processor seconds, memory, rate."""
    done = subprocess.run([sys.executable, "-c", TIMED, *words], check=True, capture_output=True, text=True)
    seconds, spent, peak = json.loads(done.stdout)
    with av.open(str(clip)) as file:
        frames = file.streams.video[0].frames
    row = {"what": what, "n": frames, "seconds": round(seconds, 2), "cpu_seconds": round(spent, 2)}
    return row | {"peak_mb": round(peak), "per_second": round(frames / seconds, 2)}


def ours(what: str, clip: Path, out: Path) -> dict[str, Any]:
    """Run ksame on a clip."""
    return command(
        what, clip, sys.executable, "-m", "ksame", "run", str(clip), "-o", str(out), "--seed", "1", "-q"
    )


def main(quick: bool) -> list[dict[str, Any]]:
    """Return the rows of the table; quick leaves out deface and the long clip."""
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        clip = PAN if PAN.is_file() else film(room)
        rows = [ours(f"video {clip.stem}", clip, room / "out")]
        if not quick:
            long = repeated(clip, room / "long.mp4", 10)
            rows.append(ours(f"video {clip.stem} x 10", long, room / "long"))
            mine = dict(zip((clip, long), rows, strict=True))
            # its networks run in OpenCV, whose version 5 is half as fast again
            for opencv, one in (("", clip), ("", long), ("<5", clip)):
                words = (deface(opencv), str(one), "-o", str(room / f"deface-{one.stem}{opencv}.mp4"))
                row = command(f"video deface 1.5.0, opencv-python{opencv}, {one.stem}", one, *words)
                rows.append(row | {"ours / deface": round(mine[one]["per_second"] / row["per_second"], 2)})
    return rows


if __name__ == "__main__":
    for line in main(quick="--full" not in sys.argv):
        print(line)
