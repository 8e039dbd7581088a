"""Write videos with the clock, size, codec and colours of their source, and without metadata."""

from __future__ import annotations

import errno
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import av
import numpy as np
from av.bitstream import BitStreamFilterContext
from av.container import OutputContainer
from av.container.core import Flags
from av.error import ArgumentError, FFmpegError, InvalidDataError
from av.packet import Packet
from av.stream import Stream
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter
from av.video.stream import VideoStream

from ksame.core.errors import InputError, KSameError, UsageError
from ksame.core.folders import sync_to_disk
from ksame.core.parallel import prefetch
from ksame.io.audio import copy_audio, disguise_audio
from ksame.io.clip import RGB, Clip, ClipFrame
from ksame.io.video_pixels import frame_planes, pixel_format_of

Audio = Literal["keep", "drop", "disguise"]
CONTAINERS = {".m4v": "mp4", ".mkv": "matroska", ".mov": "mov", ".mp4": "mp4", ".webm": "webm"}
DEFAULT_QUALITY = 80
QP2LAMBDA = 118  # FFmpeg's unit of a quantiser step
YUV_INTERPOLATION = Interpolation.BILINEAR | Interpolation.FULL_CHR_H_INP | Interpolation.ACCURATE_RND


@dataclass(frozen=True)
class Encoder:
    """Settings of an encoder: fast, with constant quality from ``worst`` (0) to ``best`` (100)."""

    name: str
    worst: int
    best: int
    options: tuple[tuple[str, str], ...] = ()
    uses_quantiser: bool = False  # old codecs: quantiser steps instead of a rate factor
    removed_units: str = ""  # types of NAL units in which the encoder writes its name and settings


# No B-frames: they cost time, and with them an MP4 of variable rate states a wrong duration.
# H.264 uses the lookahead of "veryfast", 10 frames: the same PSNR (50.2 and 46.5 dB on two clips) with an
# eighth to a quarter more bytes, in a third less time.
LOOKAHEAD_OPTIONS = ("mbtree", "1"), ("rc-lookahead", "10")
ENCODERS = {
    "h264": Encoder(
        "libx264", 50, 10, (("preset", "superfast"), ("bf", "0"), *LOOKAHEAD_OPTIONS), removed_units="6"
    ),
    "hevc": Encoder(
        "libx265",
        51,
        12,
        (("preset", "superfast"), ("x265-params", "log-level=none:info=0:bframes=0")),
        removed_units="39|40",
    ),
    "vp8": Encoder("libvpx", 63, 4, (("deadline", "realtime"), ("cpu-used", "6"), ("b", "100M"))),
    "vp9": Encoder("libvpx-vp9", 63, 15, (("deadline", "realtime"), ("cpu-used", "7"), ("row-mt", "1"))),
    "av1": Encoder("libsvtav1", 63, 15, (("preset", "9"),)),
    "mpeg4": Encoder("mpeg4", 11, 1, uses_quantiser=True),
    "mjpeg": Encoder("mjpeg", 11, 1, uses_quantiser=True),
}


@dataclass(frozen=True)
class WrittenVideo:
    """Size of a written video; ``notes`` are sentences on differences from the source and on privacy."""

    frames: int
    duration: Fraction
    notes: tuple[str, ...]


def write_video(
    clip: Clip,
    target: str | Path,
    frames: Iterable[ClipFrame],
    *,
    audio: Audio = "keep",
    quality: int | None = None,
    threads: int = 0,
) -> WrittenVideo:
    """Write a video with the clock, size, codec, colours and audio of its source, without metadata.

    The file is written completely or not at all. Frames are stored upright. A codec or pixel format that
    cannot be encoded here is replaced, and a note says by which.

    Parameters
    ----------
    clip : Clip
        The source, as ``probe_video`` returns it.
    target : str or Path
        A new file; it ends in .mp4, .m4v, .mov, .mkv or .webm.
    frames : iterable of ClipFrame
        Those of ``read_frames(clip.path)`` in order, all of them, with new pixels of the same size. Each
        keeps its own time, so that a variable frame rate is preserved.
    audio : str
        ``keep`` copies the audio bit for bit, ``drop`` leaves it out, ``disguise`` shifts its pitch.
    quality : int, optional
        0 to 100. At the default, 80, no loss should be visible.
    threads : int
        Threads to encode with; 0 is one per core.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> from ksame.io import read_frames, metadata_of_video, probe_video
    >>> images = [Image.new("RGB", (8, 6), colour) for colour in ("red", "green", "blue")]
    >>> with tempfile.TemporaryDirectory() as here:
    ...     source, target = Path(here, "in.gif"), Path(here, "out.mp4")
    ...     images[0].save(source, save_all=True, append_images=images[1:], duration=40)
    ...     written = write_video(probe_video(source), target, read_frames(source))
    ...     written.frames, str(written.duration), metadata_of_video(target)
    (3, '3/25', [])
    """
    target = Path(target)
    quality = DEFAULT_QUALITY if quality is None else quality
    _check(target, audio, quality)
    notes = _notes(clip, audio)
    with _partial(target) as partial, _output(partial, target, clip) as out:
        stream = _stream(clip, out, quality, threads, notes)
        packets: Iterator[Packet[Stream]] = iter(())
        if audio != "drop":
            packets = {"keep": copy_audio, "disguise": disguise_audio}[audio](clip, out, notes)
        count, duration = _interleave(clip, out, stream, frames, packets)
    return WrittenVideo(count, duration, tuple(notes))


def _interleave(
    clip: Clip,
    out: OutputContainer,
    stream: VideoStream,
    frames: Iterable[ClipFrame],
    audio: Iterator[Packet[Stream]],
) -> tuple[int, Fraction]:
    """Mux frames and audio by time, so that neither accumulates in memory."""
    units = next(e.removed_units for e in ENCODERS.values() if e.name == stream.codec_context.codec.name)
    clean = BitStreamFilterContext(f"filter_units=remove_types={units}", stream) if units else None
    packet = next(audio, None)
    count, begin, end = 0, 0, 0
    for frame, image in prefetch(_encoder_frames(frames, clip, stream), 1):
        while packet is not None and packet.dts * packet.time_base <= frame.time:  # type: ignore[operator]
            out.mux(packet)
            packet = next(audio, None)
        _mux(out, stream, clean, stream.encode(image))
        begin = begin if count else frame.pts
        count, end = count + 1, frame.pts + frame.duration
    if not count:
        raise InputError("There is no frame to write.")
    _mux(out, stream, clean, stream.encode(None))
    while packet is not None:
        out.mux(packet)
        packet = next(audio, None)
    return count, (end - begin) * clip.time_base


def _mux(
    out: OutputContainer,
    stream: VideoStream,
    clean: BitStreamFilterContext | None,
    packets: list[Packet[Stream]],
) -> None:
    for packet in packets:
        clock = packet.time_base  # the filter empties the packet
        for part in [packet] if clean is None else clean.filter(packet):
            part.stream, part.time_base = stream, clock
            out.mux(part)


def _encoder_frames(
    frames: Iterable[ClipFrame], clip: Clip, stream: VideoStream
) -> Iterator[tuple[ClipFrame, VideoFrame]]:
    """Yield each frame and its form for the encoder."""
    pixel_format = stream.codec_context.pix_fmt
    assert pixel_format is not None  # ``_stream`` has set it
    reformatter = VideoReformatter()
    for count, frame in enumerate(frames):
        _check_frame(frame, clip, count)
        yield frame, to_encoder_frame(frame, clip, pixel_format, reformatter)


def to_encoder_frame(
    frame: ClipFrame, clip: Clip, pixel_format: str, reformatter: VideoReformatter
) -> VideoFrame:
    """Return a frame in the encoder's pixel format; unchanged boxes keep their decoded planes if possible."""
    matrix, colour_range = clip.colour.conversion(clip.height)

    def converted(rgb: RGB) -> VideoFrame:
        return reformatter.reformat(
            VideoFrame.from_numpy_buffer(np.ascontiguousarray(rgb)),
            format=pixel_format,
            src_color_range=ColorRange.JPEG,
            dst_colorspace=matrix,
            dst_color_range=colour_range,
            interpolation=YUV_INTERPOLATION,
            threads=1,
        )

    source, boxes = frame.source, frame.changed_boxes
    if source is None or boxes is None or pixel_format_of(source) != pixel_format:
        image = converted(frame.rgb)
    else:
        image = _replace_boxes(source, frame.rgb, boxes, converted)
    colour = clip.colour
    image.color_range, image.colorspace = colour.range, colour.matrix
    image.color_trc, image.color_primaries = colour.transfer, colour.primaries
    image.pts, image.duration, image.time_base = frame.pts, frame.duration, clip.time_base
    image.pict_type = 0  # the encoder chooses the key frames
    return image


def _replace_boxes(
    source: VideoFrame,
    rgb: RGB,
    boxes: Iterable[tuple[int, int, int, int]],
    converted: Callable[[RGB], VideoFrame],
) -> VideoFrame:
    """Return a copy of a decoded frame with new pixels in some boxes.

    A copy, because the decoder still needs its frame as a reference and attaches side data to it.
    """
    frame = VideoFrame(source.width, source.height, pixel_format_of(source))
    own = frame_planes(frame)
    for plane, old in zip(own, frame_planes(source), strict=True):
        plane[:] = old
    for left, top, right, bottom in boxes:
        left, top, right, bottom = (
            left & -2,
            top & -2,
            right + 1 & -2,
            bottom + 1 & -2,
        )  # whole chroma samples
        for plane, new in zip(own, frame_planes(converted(rgb[top:bottom, left:right])), strict=True):
            y, x = (full // part for full, part in zip(own[0].shape, plane.shape, strict=True))
            plane[top // y : bottom // y, left // x : right // x] = new
    return frame


def _stream(clip: Clip, out: OutputContainer, quality: int, threads: int, notes: list[str]) -> VideoStream:
    """Add a video stream like the source's, or the closest one that can be encoded."""
    os.environ.setdefault("SVT_LOG", "1")  # errors only: libsvtav1 prints its settings otherwise
    supported = out.supported_codecs
    for codec in dict.fromkeys((clip.codec, "h264", "vp9")):
        encoder = ENCODERS.get(codec)
        if encoder is None or encoder.name not in supported:
            continue
        for pixels in _pixels(clip):
            if pixels in _formats(encoder.name) and _encoder_accepts(clip, encoder, pixels):
                if codec != clip.codec:
                    notes.append(f"The video codec is {codec}: {clip.codec} cannot be written here.")
                if pixels != _pixels(clip)[0]:
                    notes.append(f"The pixel format is {pixels}: {clip.pixel_format} cannot be written here.")
                stream = out.add_stream(encoder.name, clip.rate, options=_options(encoder, quality))
                assert isinstance(stream, VideoStream)
                _set(stream.codec_context, clip, pixels)
                stream.codec_context.thread_count = threads
                stream.time_base = clip.time_base
                if codec == "hevc" and out.format.name in ("mp4", "mov"):
                    stream.codec_context.codec_tag = "hvc1"  # the other tag does not play on Apple's devices
                return stream
    raise InputError(f"Frames of {clip.width} x {clip.height} cannot be written into this type of file.")


def _pixels(clip: Clip) -> tuple[str, ...]:
    """Return the pixel formats to try, best first; odd sizes cannot have subsampled chroma."""
    own = clip.pixel_format.replace("yuvj", "yuv").replace("yuva", "yuv")
    deep = ("yuv420p10le", "yuv444p10le") if clip.bit_depth > 8 else ()
    return tuple(dict.fromkeys((own, *deep, "yuv420p", "yuv444p")))


@cache
def _formats(encoder: str) -> set[str]:
    return {form.name for form in av.Codec(encoder, "w").video_formats or ()}


def _options(encoder: Encoder, quality: int) -> dict[str, str]:
    step = round(encoder.worst + (encoder.best - encoder.worst) * quality / 100)
    # bitexact: or some write their name and version. frame_duration: keeps the duration of the last frame
    flags = "+bitexact+frame_duration"
    if encoder.uses_quantiser:
        return {"flags": flags + "+qscale", "global_quality": str(step * QP2LAMBDA)}
    return dict(encoder.options) | {"flags": flags, "crf": str(step)}


def _set(context: VideoCodecContext, clip: Clip, pixels: str) -> None:
    context.width, context.height, context.pix_fmt = clip.width, clip.height, pixels
    context.time_base, context.framerate = clip.time_base, clip.rate
    context.sample_aspect_ratio = clip.aspect
    colour = clip.colour
    context.color_range, context.colorspace = colour.range, colour.matrix
    context.color_trc, context.color_primaries = colour.transfer, colour.primaries


def _encoder_accepts(clip: Clip, encoder: Encoder, pixels: str) -> bool:
    """Whether an encoder accepts this size, clock and pixel format; tried, because the rules are many."""
    context = av.CodecContext.create(encoder.name, "w")
    assert isinstance(context, VideoCodecContext)
    _set(context, clip, pixels)
    context.options = _options(encoder, DEFAULT_QUALITY)
    try:
        context.open()
    except (FFmpegError, ValueError):
        return False
    return True


def _notes(clip: Clip, audio: Audio) -> list[str]:
    notes = []
    if clip.bit_depth > 8:
        notes.append(f"Colours were rounded from {clip.bit_depth} to 8 bits.")
    if clip.other_streams:
        notes.append(f"Left out: {', '.join(sorted(set(clip.other_streams)))}.")
    if clip.audio_streams:
        notes.append(
            {
                "keep": "The voices are unchanged: people can be recognised by them.",
                "disguise": "The voices are shifted in pitch: this is no guarantee, for it can be reversed.",
                "drop": "The audio was left out.",
            }[audio]
        )
    return notes


def _check(target: Path, audio: str, quality: int) -> None:
    if target.suffix.lower() not in CONTAINERS:
        raise UsageError(f"Videos are written as {', '.join(sorted(CONTAINERS))}. Got {target.name!r}.")
    if target.exists():
        raise UsageError(f"{str(target)!r} exists already: choose another name.")
    if audio not in get_args(Audio):
        raise UsageError(f"audio must be one of {', '.join(get_args(Audio))}. Got {audio!r}.")
    if not 0 <= quality <= 100:
        raise UsageError(f"quality must be an integer from 0 to 100. Got {quality}.")


def _check_frame(frame: ClipFrame, clip: Clip, count: int) -> None:
    if frame.index != count:
        raise UsageError(f"Frames must come in order, none left out: {count} is expected. Got {frame.index}.")
    if frame.rgb.shape != (clip.height, clip.width, 3) or frame.rgb.dtype != np.uint8:
        raise UsageError(
            f"Frame {count} must be ({clip.height}, {clip.width}, 3) uint8."
            f" Got {frame.rgb.shape} {frame.rgb.dtype}."
        )


@contextmanager
def _output(partial: Path, target: Path, clip: Clip) -> Iterator[OutputContainer]:
    """Open a container without metadata; close it also after an error."""
    form = CONTAINERS[target.suffix.lower()]
    ticks = math.lcm(clip.time_base.denominator, *(audio.rate for audio in clip.audio_streams))
    options = {} if form not in ("mp4", "mov") or ticks >= 2**31 else {"movie_timescale": str(ticks)}
    out = av.open(partial, "w", format=form, container_options=options)  # or start times are rounded to 1 ms
    out.flags |= Flags.bitexact.value  # type: ignore[operator]  # an int, despite its stub
    try:
        yield out
    except BaseException:
        with suppress(Exception):  # an incomplete file is removed anyway
            out.close()
        raise
    out.close()


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Yield a hidden path next to the target; it is renamed to the target when it is complete."""
    # without the target's name, which may already have the maximum length
    partial = target.absolute().with_name(f".{secrets.token_hex(8)}.partial")
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        sync_to_disk(partial)
        partial.rename(target)
        sync_to_disk(partial.parent)
    except (OSError, FFmpegError) as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise KSameError(f"The disk is full: {str(target)!r} was not written.") from error
        if isinstance(error, ArgumentError | InvalidDataError):  # not the disk: the data are damaged
            raise InputError("its frames or its audio cannot be written and may be damaged.") from error
        raise KSameError(f"{str(target)!r} could not be written: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)  # already renamed if all went well
