"""Parse the structure of video containers: boxes, elements and their sizes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO


def is_truncated(path: Path) -> bool:
    """Whether a file is shorter than its container states; False for types that state no size."""
    end = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(12)
        try:
            if start.startswith(b"\x1aE\xdf\xa3"):  # Matroska: header and segment, RFC 9559
                size, body = read_vint(file, 4)
                _, at = read_vint(file, body + size, keep=True)
                size, body = read_vint(file, at)
                live = size == (1 << 7 * (body - at)) - 1  # all ones: size unknown at writing
                return not live and body + size > end
            if start.startswith(b"RIFF"):
                return 8 + int.from_bytes(start[4:8], "little") > end
            if start.startswith(b"G") and end >= 189 and read_bytes(file, 188, 1) == b"G":
                return end % 188 > 0  # MPEG-TS: packets of 188 bytes, ISO/IEC 13818-1 2.4.3.2
            at = 0
            while start[4:8] == b"ftyp" and at < end:
                at += read_box(file, at, end)[0]
        except (struct.error, IndexError):
            return True
    return False


def read_box(file: BinaryIO, at: int, end: int) -> tuple[int, bytes, int]:
    """Return the size of a box, its type, and the offset of its body."""
    size, kind = struct.unpack(">I4s", read_bytes(file, at, 8))
    body = at + 8
    if size == 1:
        (size,) = struct.unpack(">Q", read_bytes(file, body, 8))
        body += 8
    size = size or end - at
    if size < body - at or at + size > end:
        raise IndexError
    return size, kind, body


def read_vint(file: BinaryIO, at: int, *, keep: bool = False) -> tuple[int, int]:
    """Return a number of variable length (RFC 8794, 4), with or without its marker, and its end offset."""
    first = read_bytes(file, at, 1)[0]
    length = 9 - first.bit_length()
    if length > 8:
        raise IndexError
    value = int.from_bytes(read_bytes(file, at, length), "big")
    return value if keep else value & ((1 << 7 * length) - 1), at + length


def read_bytes(file: BinaryIO, at: int, size: int) -> bytes:
    """Return ``size`` bytes from an offset, or raise IndexError."""
    file.seek(at)
    data = file.read(size)
    if len(data) < size:
        raise IndexError
    return data
