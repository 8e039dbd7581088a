"""List the metadata of a video: parsed here, so that the check does not trust the writing library."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ksame.core.errors import InputError
from ksame.io.containers import read_box, read_bytes, read_vint
from ksame.io.metadata import metadata_of
from ksame.io.video import open_media


def metadata_of_video(path: str | Path) -> list[str]:
    """Return the names of the metadata in an MP4, MOV, Matroska or WebM file, sorted; nothing is decoded.

    Everything that is not needed to play the video counts: tags, times, titles, places, languages, chapters,
    attachments, tracks other than video and audio, unknown boxes, and messages that encoders write between
    frames. What all files of one writer have in common, such as the name of a handler, does not count. The
    audio data are not inspected: they are copied bit for bit.

    Parameters
    ----------
    path : str or Path
        The file.

    Raises
    ------
    InputError
        If it is not such a file or is truncated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     _ = Path(here, "a.mp4").write_bytes(b"not a video")
    ...     metadata_of_video(Path(here, "a.mp4"))
    Traceback (most recent call last):
    ksame.core.errors.InputError: Only MP4, MOV, Matroska and WebM files can be checked for metadata.
    """
    path = Path(path)
    with path.open("rb") as file:
        start, end = file.read(12), path.stat().st_size
        walk = _boxes if start[4:8] == b"ftyp" else _elements if start.startswith(b"\x1aE\xdf\xa3") else None
        if walk is None:
            raise InputError("Only MP4, MOV, Matroska and WebM files can be checked for metadata.")
        try:
            names = set(walk(file, 0, end))
        except (struct.error, IndexError):
            raise InputError(f"{str(path)!r} ends too early to be checked for metadata.") from None
    return sorted((names | set(_encoder_notes(path))) - {""})


# ISO/IEC 14496-12: boxes that contain boxes, and boxes that are needed for playback
_CONTAINER_BOXES = {b"moov", b"trak", b"edts", b"mdia", b"minf", b"dinf", b"stbl", b"udta"}
_REQUIRED_BOXES = (
    b"ftyp mdat elst vmhd smhd nmhd dref stsd stts stss ctts cslg stsc stsz stco co64 sgpd sbgp sdtp".split()
)
_TIME_BOXES = {b"mvhd", b"tkhd", b"mdhd"}
_HANDLERS = {b"", b"VideoHandler", b"SoundHandler", b"DataHandler"}  # FFmpeg's own, the same in every file
_UND = 0x55C4  # "und", packed: undetermined language


def _boxes(file: BinaryIO, at: int, end: int) -> Iterator[str]:
    while at < end:
        size, kind, body = read_box(file, at, end)
        if kind in _CONTAINER_BOXES:
            yield from _boxes(file, body, at + size)
        elif kind == b"meta":  # a full box: four bytes of version and flags come first
            yield from _boxes(file, body + 4, at + size)
        elif kind in _TIME_BOXES or kind == b"hdlr":
            yield from _fields(kind, read_bytes(file, body, at + size - body))
        elif kind in (b"free", b"skip", b"wide"):
            yield "padding" if any(read_bytes(file, body, at + size - body)) else ""
        elif kind == b"ilst":
            yield "tags" if size > body - at else ""
        elif kind not in _REQUIRED_BOXES:
            yield kind.decode("latin-1")
        at += size


def _fields(kind: bytes, data: bytes) -> Iterator[str]:
    if kind == b"hdlr":
        handler = data[8:12]
        yield "" if handler in (b"vide", b"soun", b"mdir", b"url ") else f"track {handler.decode('latin-1')}"
        # QuickTime writes the length first
        name = data[24:].strip(b"\0")
        yield "" if {name, name[1:]} & _HANDLERS else "handler name"
        return
    created = data[4:20] if data[0] else data[4:12]
    yield "time" if any(created) else ""
    if kind == b"mdhd":
        (language,) = struct.unpack_from(">H", data, 32 if data[0] else 20)
        yield "" if language in (_UND, 0x7FFF) else "language"


# RFC 9559: elements that contain elements, and the names of those that are metadata
_MASTER_ELEMENTS = {0x18538067, 0x1549A966, 0x1654AE6B, 0xAE, 0x1254C367, 0x7373, 0x67C8}
_METADATA_ELEMENTS = {0x4461: "time", 0x7BA9: "title", 0x536E: "track name", 0x1043A770: "chapters"}
_METADATA_ELEMENTS |= {0x1941A469: "attachments", 0x22B59D: "language", 0x73A4: "identifier"}
_PADDING, _TAG, _LANGUAGE, _WRITERS = 0xEC, 0x45A3, 0x22B59C, (0x4D80, 0x5741)


def _elements(file: BinaryIO, at: int, end: int) -> Iterator[str]:
    while at < end:
        kind, body = read_vint(file, at, keep=True)
        size, body = read_vint(file, body)
        if body + size > end:
            raise IndexError  # also for live streams of unknown size
        if kind in _MASTER_ELEMENTS:
            yield from _elements(file, body, body + size)
        elif kind in (_TAG, _LANGUAGE, *_WRITERS, _PADDING):
            data = read_bytes(file, body, size)
            expected = {_TAG: b"DURATION", _LANGUAGE: b"und", _PADDING: bytes(size)}.get(kind, b"Lavf")
            name = {_TAG: "tags", _LANGUAGE: "language", _PADDING: "padding"}.get(kind, "writer")
            yield "" if data == expected else name
        else:
            yield _METADATA_ELEMENTS.get(kind, "")
        at = body + size


def _encoder_notes(path: Path) -> Iterator[str]:
    """Yield a name if an encoder wrote messages between the frames."""
    with open_media(path) as file:
        for packet in file.demux(video=0) if file.streams.video else ():
            data, codec = bytes(packet), packet.stream.codec_context.name
            if codec == "mjpeg" and data:
                yield from metadata_of(data)
            elif codec == "mpeg4":
                yield "encoder notes" if b"\0\0\1\xb2" in data else ""  # ISO/IEC 14496-2: user data
            elif codec in ("h264", "hevc"):
                yield "encoder notes" if any(_is_note(unit, codec) for unit in _units(data)) else ""


def _units(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 4 < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _is_note(unit: bytes, codec: str) -> bool:
    """Whether a NAL unit is supplemental information: ITU-T H.264 table 7-1, H.265 table 7-1."""
    first = unit[0] if unit else 0
    return first & 31 == 6 if codec == "h264" else first >> 1 & 63 in (39, 40)
