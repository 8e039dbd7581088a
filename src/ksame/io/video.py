"""A video file becomes its pictures, upright and in order, one at a time; or one sentence says why not."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.sidedata.sidedata import Type
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from ksame.core.errors import InputError
from ksame.io.clip import FULL_RANGE, RGB, AudioStream, Clip, ClipFrame, ColourSpace
from ksame.io.containers import is_truncated
from ksame.io.photos import MAX_PIXELS

# What a stranger's file may reach: no playlist, so no other file and no network; no still picture.
OPEN_OPTIONS = {
    "format_whitelist": "asf,avi,flv,gif,matroska,webm,mov,mp4,mpeg,mpegts,ogg",
    "protocol_whitelist": "file",
}
STILL_BRANDS = {"avif", "heic", "heix", "mif1"}  # stills in the box of a video: ISO/IEC 23008-12 brands
BROADCAST_FORMATS = {"mpeg", "mpegts"}  # their clocks run on from file to file
# The fastest way that is exact: without both flags every picture comes out darker.
RGB_INTERPOLATION = Interpolation.BILINEAR | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
PLANAR_8BIT_FORMATS = {"yuv420p", "yuv422p", "yuv444p"}  # planes of 8 bits, which can be written in part
END_TOLERANCE_SECONDS = Fraction(1, 2)  # stated and true ends may differ by so many seconds in a whole file


def probe_video(path: str | Path) -> Clip:
    """Return what a video is; its first picture is decoded, so that a file without one is refused here.

    Parameters
    ----------
    path : str or Path
        The video.

    Raises
    ------
    InputError
        If it is not a video with at least one picture, of at most 178 million pixels.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as here:
    ...     shots = [Image.new("RGB", (8, 6), colour) for colour in ("red", "blue")]
    ...     shots[0].save(Path(here, "a.gif"), save_all=True, append_images=shots[1:], duration=40)
    ...     clip = probe_video(Path(here, "a.gif"))
    >>> clip.width, clip.height, clip.frames, str(clip.rate)
    (8, 6, 2, '25')
    """
    path = Path(path)
    with open_media(path) as file:
        stream = _stream(file, path)
        first = None
        for packet in file.demux(stream):
            try:
                first = next(iter(packet.decode()), None)
            except FFmpegError:
                continue  # a recording may begin in the middle of a picture
            if first is not None:
                if file.format.name == "gif" and not any(more.size for more in file.demux(stream)):
                    raise InputError(f"{str(path)!r} cannot be read: it is a picture, not a video.")
                return _clip(path, file, stream, first)
    raise InputError(f"{str(path)!r} cannot be read: it has no picture that can be decoded.")


def read_frames(
    path: str | Path,
    *,
    broken: list[str] | None = None,
    threads: int = 0,
    only: Container[int] | None = None,
    exact: bool = True,
    source: bool = False,
) -> Iterator[ClipFrame]:
    """Yield the pictures of a video in the order they are shown; memory does not grow with its length.

    Pictures that the decoder finds damaged, and those that build on them, are left out: in a garbled
    picture a face may be known to people and yet not be found. Nothing is left out in silence. (Two
    things cannot be noticed: damage that decodes as if it were a picture, and a broadcast cut between
    two of its packets.)

    Parameters
    ----------
    path : str or Path
        The video.
    broken : list of str, optional
        If the file is damaged, one sentence for each thing that was lost is appended, and the pictures
        that are whole are all yielded. Without a list, ``InputError`` says it after the last of them.
    threads : int
        Threads to decode with; 0 is one per core.
    only : container of int, optional
        The numbers of the pictures that are wanted: the others are passed over, at half the time.
    exact : bool
        Whether colours are as good as they can be. To look for faces they need not, and take a tenth of
        the time: half a grey level off on average, more where colours meet.
    source : bool
        Whether a picture keeps what the file has of it, if that can be written as it is.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as here:
    ...     shots = [Image.new("RGB", (8, 6), colour) for colour in ("red", "blue")]
    ...     shots[0].save(Path(here, "a.gif"), save_all=True, append_images=shots[1:], duration=40)
    ...     [(frame.pts, frame.rgb[0, 0].tolist()) for frame in read_frames(Path(here, "a.gif"))]
    [(0, [255, 0, 0]), (4, [0, 0, 255])]
    """
    path = Path(path)
    clip, said, by = probe_video(path), list[str](), VideoReformatter()
    step = max(1, round(1 / clip.rate / clip.time_base))
    began, last, holes, even = round(clip.start / clip.time_base), -step, list[str](), True
    turn = 0, 0, 0
    for index, frame in enumerate(_decoded(path, said, threads)):
        # once: a picture that was asked for its marks and the marks hold each other, until some garbage
        # collection 90 pictures later, or 1 GB of 4K
        turn = turn if index else _orientation(frame)
        pts = last + step if frame.pts is None else frame.pts - began
        if index:
            pts = max(pts, last + 1)  # damaged clocks stand still or go back
            if pts > last + 2 * step + 1:
                holes.append(
                    f"from {float(last * clip.time_base):.2f} to {float(pts * clip.time_base):.2f} s"
                )
            else:
                even = even and abs(pts - last - step) <= 1 + step // 10
        if only is None or index in only:
            own = source and _is_writable_as_is(frame, clip, turn)
            rgb = _rgb(frame, clip, turn, by, exact)
            length, seconds = frame.duration or step, pts * clip.time_base
            yield ClipFrame(index, pts, length, seconds, rgb, frame if own else None)
        last = pts
    if holes and even and not said:  # in an uneven clock holes mean nothing
        said.append(f"{str(path)!r} may be damaged: there is no new picture {' and '.join(holes)}.")
    if said and broken is None:
        raise InputError(said[0])
    if broken is not None:
        broken += said


def open_media(path: Path) -> InputContainer:
    """Open a media file, or say in one sentence why not."""
    if not path.is_file():  # a pipe would block for ever
        raise InputError(f"{str(path)!r} cannot be read: it is not a file, or links to none.")
    try:
        # an absolute path: FFmpeg takes a name such as "concat:a.mp4" for another way to open files
        return av.open(path.absolute(), options=OPEN_OPTIONS, metadata_errors="replace")
    except (FFmpegError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read: it is damaged or not a video.") from error


def is_cover_art(stream: Any) -> bool:
    """Whether a video stream is a still picture beside the sound."""
    return bool(stream.disposition & (Disposition.attached_pic | Disposition.timed_thumbnails))


def _stream(file: InputContainer, path: Path) -> VideoStream:
    """Return the stream to show: the largest that is not cover art."""
    if file.metadata.get("major_brand", "").strip() in STILL_BRANDS:
        raise InputError(f"{str(path)!r} cannot be read: it is a picture, not a video.")
    streams = [s for s in file.streams.video if s.codec_context is not None and not is_cover_art(s)]
    if not streams:
        raise InputError(f"{str(path)!r} cannot be read: it has no video stream.")
    stream = max(streams, key=lambda s: s.width * s.height)  # the first of equals
    if stream.width * stream.height > MAX_PIXELS:
        raise InputError(
            f"{str(path)!r} cannot be read: it has more than {MAX_PIXELS // 10**6} million pixels."
        )
    return stream


def _clip(path: Path, file: InputContainer, stream: VideoStream, first: VideoFrame) -> Clip:
    swap, *_ = turn = _orientation(first)
    width, height = (first.height, first.width) if swap else (first.width, first.height)
    rate = stream.average_rate or stream.guessed_rate or Fraction(25)
    clock = stream.time_base or 1 / rate
    ends = stream.duration * clock if stream.duration else Fraction(file.duration or 0, av.time_base)
    aspect = Fraction(stream.sample_aspect_ratio or 1) or Fraction(1)
    return Clip(
        path=path,
        width=width,
        height=height,
        aspect=1 / aspect if swap else aspect,
        rate=rate,
        time_base=clock,
        frames=stream.frames or max(1, round(ends * rate)),
        duration=ends or 1 / rate,
        start=Fraction(file.start_time or 0, av.time_base)
        if file.format.name in BROADCAST_FORMATS
        else Fraction(0),
        rotation={(1, 1, 0): 90, (0, 1, 1): 180, (1, 0, 1): 270}.get(turn, 0),
        codec=stream.codec_context.codec.canonical_name,
        pixels=first.format.name,
        bits=max(part.bits for part in first.format.components),
        colour=ColourSpace(
            # the j in FFmpeg's old names says: full range
            FULL_RANGE if first.format.name.startswith("yuvj") else first.color_range,
            first.colorspace,
            first.color_trc,
            first.color_primaries,
        ),
        bit_rate=stream.bit_rate or None,
        sounds=tuple(
            AudioStream(
                s.codec_context.codec.canonical_name, s.codec_context.sample_rate, s.codec_context.channels
            )
            for s in file.streams.audio
            if s.codec_context is not None
        ),
        others=tuple(
            "cover art" if s.type == "video" and is_cover_art(s) else s.type
            for s in file.streams
            if s.type != "audio" and s.index != stream.index
        ),
        variable=abs((stream.base_rate or rate) / rate - 1) > Fraction(1, 100),
    )


def _decoded(path: Path, said: list[str], threads: int) -> Iterator[VideoFrame]:
    """Yield the whole pictures; what is lost is said."""
    with open_media(path) as file:
        stream = _stream(file, path)
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = threads
        stream.codec_context.options = {"err_detect": "explode"}  # else damage is painted over, unsaid
        whole, sent, got, good, end = True, 0, 0, None, Fraction(0)
        for packet in _packets(file, stream, path, said):
            if packet.pts is not None and packet.time_base:
                end = max(end, (packet.pts + (packet.duration or 0)) * packet.time_base)
            if packet.stream_index != stream.index:
                continue
            sent += bool(packet.size and not packet.is_discard)
            try:
                frames = stream.decode(packet if packet.size else None)
            except FFmpegError:
                whole, frames = False, []
                good = got if good is None else good
            for frame in frames:
                whole = not frame.is_corrupt and (whole or bool(frame.key_frame))
                if whole:
                    got += 1
                    yield frame
        if got < sent:
            where = "" if good is None else f" after the first {good}"
            said.append(f"{str(path)!r} is damaged: {sent - got} of {sent} pictures were lost{where}.")
        stated = Fraction(max(0, file.start_time or 0) + (file.duration or 0), av.time_base)
        if not said and (stated - end > END_TOLERANCE_SECONDS or is_truncated(path)):
            said.append(f"{str(path)!r} is damaged: its end is missing after {float(end):.2f} seconds.")


def _packets(file: InputContainer, stream: VideoStream, path: Path, said: list[str]) -> Iterator[Any]:
    """Yield the packets of all streams; where reading breaks, say so and flush the decoder."""
    last = Fraction(0)
    try:
        for packet in file.demux():
            if packet.pts is not None and packet.time_base:
                last = packet.pts * packet.time_base
            yield packet
    except FFmpegError:
        said.append(f"{str(path)!r} is damaged: nothing after {float(last):.2f} seconds could be read.")
        flush = av.Packet()
        flush.stream = stream
        yield flush


def _is_writable_as_is(image: VideoFrame, clip: Clip, turn: tuple[int, int, int]) -> bool:
    """Whether a picture can be written as the file has it: upright, in whole blocks of 8 bits.

    Not one that is turned: its colours, of which there is one to each block, lie at another side of it then.
    Nor one of full range: converted to and fro its colours are half a level off, and a box would show.
    """
    size = image.width, image.height
    even = size == (clip.width, clip.height) and not any(side % 2 for side in size)
    return (
        even
        and not any(turn)
        and pixel_format_of(image) in PLANAR_8BIT_FORMATS
        and clip.colour.range != FULL_RANGE
    )


def _rgb(image: VideoFrame, clip: Clip, turn: tuple[int, int, int], by: VideoReformatter, exact: bool) -> RGB:
    swap, flip_x, flip_y = turn
    width, height = (clip.height, clip.width) if swap else (clip.width, clip.height)
    matrix, reach = clip.colour.conversion(clip.height)
    converted = by.reformat(
        image,
        width,  # a stream may change its size: what is written does not
        height,
        "gbrp" if exact else "rgb24",  # where it is exact, colour by colour takes half the time
        src_colorspace=matrix,
        src_color_range=reach,
        dst_color_range=ColorRange.JPEG,
        interpolation=RGB_INTERPOLATION if exact else Interpolation.BILINEAR,
        threads=1,
    )
    rgb = _merge_planes(converted) if exact else converted.to_ndarray()
    rgb = rgb.transpose(1, 0, 2) if swap else rgb
    return np.ascontiguousarray(rgb[:: -1 if flip_y else 1, :: -1 if flip_x else 1], np.uint8)


def _merge_planes(image: VideoFrame) -> RGB:
    """Return the pixels of a picture that is kept colour by colour, five times as fast as PyAV does."""
    green, blue, red = frame_planes(image)
    return np.asarray(cv2.merge((red, green, blue)), np.uint8)


def frame_planes(image: VideoFrame) -> list[NDArray[np.uint8]]:
    """Return the planes (h, w) of a picture of 8 bits, to read and to write."""
    return [
        np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height, : plane.width]  # type: ignore[call-overload]
        for plane in image.planes
    ]


def pixel_format_of(image: VideoFrame) -> str:
    """Return the pixel format of a picture.

    The j in FFmpeg's old names says what ``ColourSpace.range`` does.
    """
    return image.format.name.replace("yuvj", "yuv")


def _orientation(image: VideoFrame) -> tuple[int, int, int]:
    """Return whether to swap x and y, then to flip x, then y: the display matrix to the nearest quarter.

    The matrix is that of ISO/IEC 14496-12 8.3.2, rows a b u, c d v: x' = a x + c y, y' = b x + d y.
    """
    marks: Any = image.side_data  # iterates over its values, unlike the mapping that its stub calls it
    mark = next((mark for mark in marks if mark.type is Type.DISPLAYMATRIX), None)
    if mark is None:
        return 0, 0, 0
    a, b, _, c, d, *_ = np.frombuffer(bytes(mark), np.int32).tolist()
    if math.hypot(a, d) >= math.hypot(b, c):
        return 0, int(a < 0), int(d < 0)
    return 1, int(c < 0), int(b < 0)
