"""Corrupted photos and videos, seeded so that a failure can be reproduced."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
from PIL import Image

from films import film, shot

PEOPLE = tuple(f"{subject:05}aa" for subject in range(1, 13))
FORMATS = {".jpg": "JPEG", ".png": "PNG", ".webp": "WEBP", ".tif": "TIFF", ".bmp": "BMP", ".ppm": "PPM"}
CONTAINERS = (".mp4", ".mkv", ".mov", ".avi", ".ts", ".webm")

Rng = np.random.Generator
Damage = Callable[[bytes, Rng], bytes]


def flip(data: bytes, rng: Rng) -> bytes:
    """Flip some bits."""
    damaged = bytearray(data)
    for at in rng.integers(len(data), size=rng.integers(1, 40)):
        damaged[at] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def flip_header(data: bytes, rng: Rng) -> bytes:
    """Flip some bits near the beginning, where sizes and tables are."""
    return flip(data[:200], rng) + data[200:]


def scribble(data: bytes, rng: Rng) -> bytes:
    """Overwrite a part with noise or zeros."""
    begin, length = int(rng.integers(len(data))), int(rng.integers(1, 2000))
    noise = rng.bytes(length) if rng.random() < 0.5 else bytes(length)
    return data[:begin] + noise + data[begin + length :]


def cut(data: bytes, rng: Rng) -> bytes:
    """Cut off the end."""
    return data[: int(rng.integers(len(data)))]


def lose(data: bytes, rng: Rng) -> bytes:
    """Remove a part in the middle."""
    begin = int(rng.integers(len(data)))
    return data[:begin] + data[begin + int(rng.integers(1, 500)) :]


def append(data: bytes, rng: Rng) -> bytes:
    """Append bytes after the end."""
    return data + (rng.bytes(int(rng.integers(1, 5000))) if rng.random() < 0.5 else data)


def other_header(data: bytes, rng: Rng) -> bytes:
    """Overwrite the header with that of another type."""
    headers = (
        b"\xff\xd8\xff\xe0\0\x10JFIF\0", b"\x89PNG\r\n\x1a\n", b"RIFF\xff\xff\0\0WEBPVP8 ",
        b"II*\0\x08\0\0\0", b"BM", b"P6 9999 9999 255\n", b"\0\0\0\x18ftypheic", b"\x1aE\xdf\xa3",
        b"%PDF-1.7", b"GIF89a",
    )  # fmt: skip
    header = headers[int(rng.integers(len(headers)))]
    return header + data[len(header) :]


def nothing(data: bytes, rng: Rng) -> bytes:
    """Return an empty file."""
    return b""


def huge(data: bytes, rng: Rng) -> bytes:
    """State more pixels in the header than fit in memory."""
    side = int(rng.choice([30_000, 65_535, 2**31 - 1]))
    if data.startswith(b"\x89PNG"):
        header = b"IHDR" + struct.pack(">II", side, side) + data[24:29]
        return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]
    if data.startswith(b"BM"):
        return data[:18] + struct.pack("<ii", side, side) + data[26:]
    if data.startswith(b"P6"):
        return b"P6\n%d %d\n255\n" % (side, side) + data[15:]
    frame = data.find(b"\xff\xc0")
    return data if frame < 0 else data[: frame + 5] + b"\xff\xff\xff\xff" + data[frame + 9 :]


def same(data: bytes, rng: Rng) -> bytes:
    """Leave the data unchanged: only the suffix is wrong."""
    return data


DAMAGES: tuple[Damage, ...] = (
    flip, flip_header, scribble, cut, lose, append, other_header, nothing, huge, same,
)  # fmt: skip


def _bytes(image: Image.Image, form: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def odd_photos(image: Image.Image, rng: Rng) -> dict[str, bytes]:
    """Return one photo in valid but rare encodings, by the suffix of its name."""
    grey = np.asarray(image.convert("L"))
    deep = Image.fromarray(grey.astype(np.uint16) * 257)
    noise = rng.bytes(300)
    exif = Image.Exif()
    exif[0x0112] = int(rng.integers(1, 9))
    palette = image.quantize(16)
    return {
        "cmyk.jpg": _bytes(image.convert("CMYK"), "JPEG"),
        "cmyk.tif": _bytes(image.convert("CMYK"), "TIFF"),
        "deep.png": _bytes(deep, "PNG"),
        "deep.tif": _bytes(deep, "TIFF"),
        "float.tif": _bytes(Image.fromarray(grey.astype(np.float32) / 255), "TIFF"),
        "palette.png": _bytes(palette, "PNG"),
        "clear.png": _bytes(palette, "PNG", transparency=int(rng.integers(16))),
        "alpha.webp": _bytes(image.convert("RGBA"), "WEBP"),
        "grey.png": _bytes(image.convert("LA"), "PNG"),
        "bits.png": _bytes(image.convert("1"), "PNG"),
        "lab.tif": _bytes(image.convert("LAB"), "TIFF"),
        "turned.jpg": _bytes(image, "JPEG", exif=exif),
        "exif.jpg": _bytes(image, "JPEG", exif=b"Exif\0\0" + noise),
        "icc.png": _bytes(image, "PNG", icc_profile=noise),
        "pages.tif": _bytes(image, "TIFF", save_all=True, append_images=[palette.convert("RGB")]),
        "moving.webp": _bytes(image, "WEBP", save_all=True, append_images=[image.rotate(9)]),
        "dot.png": _bytes(image.resize((1, 1)), "PNG"),
        "row.png": _bytes(image.resize((int(rng.integers(2, 3000)), 1)), "PNG"),
        "column.jpg": _bytes(image.resize((1, int(rng.integers(2, 3000)))), "JPEG"),
        "flat.jpg": _bytes(image.resize((900, 30)), "JPEG"),
        "tiny.png": _bytes(image.resize((20, 26)), "PNG"),
        "large.jpg": _bytes(image.resize((image.width * 5, image.height * 5)), "JPEG"),
        "upside.png": _bytes(image.rotate(180), "PNG"),
        "aside.jpg": _bytes(image.rotate(90, expand=True), "JPEG"),
        "dark.png": _bytes(image.point(lambda value: value // 20), "PNG"),
        "few.jpg": _bytes(image, "JPEG", quality=1),
        "noise.png": _bytes(Image.fromarray(rng.integers(0, 256, (90, 70, 3), np.uint8)), "PNG"),
    }


def mutate_photos(folder: Path, count: int, seed: int) -> None:
    """Fill a folder with ``count`` corrupted photos SUBJECT_NUMBER_DAMAGE.SUFFIX."""
    rng = np.random.default_rng(seed)
    images = {name: Image.fromarray(shot(name)) for name in PEOPLE}
    for number in range(count):
        who = PEOPLE[int(rng.integers(len(PEOPLE)))]
        if number % 5 == 0:
            odd = odd_photos(images[who], rng)
            what = sorted(odd)[number // 5 % len(odd)]
            data, suffix = odd[what], ""
        else:
            form = str(rng.choice(list(FORMATS)))
            damage = DAMAGES[number % len(DAMAGES)]
            whole = {"progressive": True} if form == ".jpg" and rng.random() < 0.3 else {}
            data = damage(_bytes(images[who], FORMATS[form], **whole), rng)
            wrong = damage is same or rng.random() < 0.1
            what, suffix = damage.__name__, str(rng.choice(list(FORMATS))) if wrong else form
        (folder / f"{who[:5]}_{number:03}_{what}{suffix}").write_bytes(data)


def mutate_videos(folder: Path, count: int, seed: int) -> None:
    """Fill a folder with ``count`` corrupted videos NUMBER_DAMAGE.SUFFIX."""
    rng = np.random.default_rng(seed)
    whole = {}
    for number, suffix in enumerate(CONTAINERS):
        path = folder / f"whole{suffix}"
        names = [PEOPLE[number], PEOPLE[number + 6]]
        if suffix == ".webm":
            _webm(path, PEOPLE[number])
        else:
            film(path, names[: 1 + number % 2], frames=10, sound=1.0 if number % 2 else None)
        whole[suffix] = path.read_bytes()
        path.unlink()
    still = _bytes(Image.fromarray(shot(PEOPLE[0])), "JPEG")
    for number in range(count):
        suffix = str(rng.choice(CONTAINERS))
        damage = DAMAGES[number % len(DAMAGES)]
        data = still if damage is huge else damage(whole[suffix], rng)
        if damage is same or rng.random() < 0.1:
            suffix = str(rng.choice(CONTAINERS))
        (folder / f"{number:03}_{damage.__name__}{suffix}").write_bytes(data)


def _webm(path: Path, name: str) -> None:
    """Write a short video in VP9."""
    person = shot(name)
    height, width = (side // 2 * 2 for side in person.shape[:2])
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libvpx-vp9", rate=25, options={"deadline": "realtime", "cpu-used": "8"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for _ in range(8):
            image = np.ascontiguousarray(person[:height, :width])
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(stream.encode())
