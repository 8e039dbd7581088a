"""List the metadata of a photo: parsed here, so that the check does not trust the writing library."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from ksame.core.errors import InputError


def metadata_of(data: bytes) -> list[str]:
    """Return the names of the metadata blocks in a JPEG, PNG or WebP file, sorted; nothing is decoded.

    Everything that is not needed to display the image counts: EXIF, XMP, IPTC, ICC profiles, comments, text,
    times, thumbnails, unknown blocks, and bytes after the end of the image.

    Parameters
    ----------
    data : bytes
        The file.

    Raises
    ------
    InputError
        If it is not such a file or is truncated.

    Examples
    --------
    >>> import numpy as np
    >>> from ksame.io import encode
    >>> metadata_of(encode(np.zeros((2, 2, 3), np.uint8), ".jpg"))
    []
    """
    for magic, blocks in ((b"\xff\xd8", _jpeg), (b"\x89PNG\r\n\x1a\n", _png), (b"RIFF", _webp)):
        if data.startswith(magic):
            try:
                return sorted(set(blocks(data)) - {""})
            except (struct.error, IndexError):
                raise InputError("The image ends too early to be checked for metadata.") from None
    raise InputError("Only JPEG, PNG and WebP files can be checked for metadata.")


_JPEG_BLOCKS = {
    (0xE1, b"Exif\0"): "EXIF",
    (0xE1, b"http://ns.adobe.com/x"): "XMP",
    (0xE2, b"ICC_PROFILE\0"): "ICC",
    (0xED, b"Photoshop 3.0\0"): "IPTC",
    (0xE0, b"JFXX\0"): "thumbnail",
    (0xFE, b""): "comment",
}


def _jpeg(data: bytes) -> Iterator[str]:
    at = 2
    while (marker := data[at + 1]) != 0xD9:  # ITU T.81 B.1.1: 0xff, the marker, length, payload
        (length,) = struct.unpack_from(">H", data, at + 2)
        block = data[at + 4 : at + 2 + length]
        if marker == 0xE0 and block.startswith(b"JFIF\0"):
            yield "thumbnail" if len(block) > 14 else ""
        elif marker == 0xEE and block.startswith(b"Adobe") and len(block) == 12:
            yield ""  # states how colours are stored: needed to display them
        elif 0xE0 <= marker <= 0xEF or marker == 0xFE:
            yield next(
                (
                    name
                    for (m, start), name in _JPEG_BLOCKS.items()
                    if m == marker and block.startswith(start)
                ),
                f"APP{marker - 0xE0}",
            )
            if b"\xff\xd8\xff" in block:
                yield "thumbnail"
        at += 2 + length
        if marker == 0xDA:  # the scan ends at the next marker that is not stuffing or a restart
            scan = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]").search(data, at)
            at = scan.start() if scan else len(data)
    yield "trailing data" if len(data) > at + 2 else ""


_PNG_BLOCKS = {
    b"eXIf": "EXIF",
    b"iCCP": "ICC",
    b"tIME": "time",
    **dict.fromkeys((b"IHDR", b"PLTE", b"tRNS", b"sRGB", b"IDAT", b"IEND"), ""),
    **dict.fromkeys((b"tEXt", b"zTXt", b"iTXt"), "text"),
}


def _png(data: bytes) -> Iterator[str]:
    at, kind = 8, b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)
        yield _PNG_BLOCKS.get(kind, kind.decode("latin-1"))
        if data.startswith(b"XML:com.adobe.xmp", at + 8):
            yield "XMP"
        at += 12 + length
    yield _end(data, at)


_WEBP_BLOCKS = {
    b"EXIF": "EXIF",
    b"XMP ": "XMP",
    b"ICCP": "ICC",
    **dict.fromkeys((b"VP8 ", b"VP8L", b"VP8X", b"ALPH"), ""),
}


def _webp(data: bytes) -> Iterator[str]:
    size, kind = struct.unpack_from("<I4s", data, 4)
    if kind != b"WEBP":
        raise InputError("Only JPEG, PNG and WebP files can be checked for metadata.")
    at, end = 12, 8 + size
    while at < end:
        kind, length = struct.unpack_from("<4sI", data, at)
        yield _WEBP_BLOCKS.get(kind, kind.decode("latin-1"))
        at += 8 + length + length % 2
    yield _end(data, end)


def _end(data: bytes, at: int) -> str:
    if len(data) < at:
        raise IndexError
    return "trailing data" if len(data) > at else ""
