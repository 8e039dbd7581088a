"""Read videos: probe a file, and decode its frames upright and in order, one at a time."""

from __future__ import annotations

from collections.abc import Container, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer
from av.error import FFmpegError
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from ksame.core.errors import InputError
from ksame.io.clip import FULL_RANGE, AudioInfo, Clip, ClipFrame, ColourSpace
from ksame.io.containers import is_truncated
from ksame.io.photos import MAX_PIXELS
from ksame.io.video_pixels import Orientation, display_orientation, is_writable_as_is, to_rgb

# Containers that an untrusted file may use: no playlists, so no other file and no network; no still images.
OPEN_OPTIONS = {
    "format_whitelist": "asf,avi,flv,gif,matroska,webm,mov,mp4,mpeg,mpegts,ogg",
    "protocol_whitelist": "file",
}
STILL_BRANDS = {"avif", "heic", "heix", "mif1"}  # still images in a video container: ISO/IEC 23008-12 brands
BROADCAST_FORMATS = {"mpeg", "mpegts"}  # their clocks do not start at 0 in every file
END_TOLERANCE_SECONDS = Fraction(1, 2)  # by which stated and true ends of an undamaged file may differ


def probe_video(path: str | Path) -> Clip:
    """Return the properties of a video; its first frame is decoded, so a file without frames is refused.

    Parameters
    ----------
    path : str or Path
        The video.

    Raises
    ------
    InputError
        If it is not a video with at least one frame, of at most 178 million pixels.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as here:
    ...     images = [Image.new("RGB", (8, 6), colour) for colour in ("red", "blue")]
    ...     images[0].save(Path(here, "a.gif"), save_all=True, append_images=images[1:], duration=40)
    ...     clip = probe_video(Path(here, "a.gif"))
    >>> clip.width, clip.height, clip.frames, str(clip.rate)
    (8, 6, 2, '25')
    """
    path = Path(path)
    with open_media(path) as file:
        stream = main_stream(file, path)
        first = None
        for packet in file.demux(stream):
            try:
                first = next(iter(packet.decode()), None)
            except FFmpegError:
                continue  # a recording may begin in the middle of a frame
            if first is not None:
                if file.format.name == "gif" and not any(more.size for more in file.demux(stream)):
                    raise InputError(f"{str(path)!r} cannot be read: it is a still image, not a video.")
                return _clip(path, file, stream, first)
    raise InputError(f"{str(path)!r} cannot be read: no frame of it can be decoded.")


def read_frames(
    path: str | Path,
    *,
    broken: list[str] | None = None,
    threads: int = 0,
    only: Container[int] | None = None,
    exact: bool = True,
    source: bool = False,
) -> Iterator[ClipFrame]:
    """Yield the frames of a video in display order; memory does not grow with its length.

    Frames that the decoder finds damaged, and those that depend on them, are left out and reported: people
    might recognise a face in a garbled frame that no detector finds. (Damage that decodes without an error,
    and a broadcast that was cut between two packets, cannot be noticed.)

    Parameters
    ----------
    path : str or Path
        The video.
    broken : list of str, optional
        Gets a sentence for each loss in a damaged file; without it ``InputError`` is raised at the end.
    threads : int
        Threads to decode with; 0 is one per core.
    only : container of int, optional
        Numbers of the wanted frames: the others are skipped, in half the time.
    exact : bool
        Convert colours exactly; otherwise ten times as fast, half a grey level off on average.
    source : bool
        Whether a frame keeps its decoded planes, if they can be written as they are.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as here:
    ...     red, black, path = Image.new("RGB", (8, 6), "red"), Image.new("RGB", (8, 6)), Path(here, "a.gif")
    ...     red.save(path, save_all=True, append_images=[black])
    ...     [(frame.index, frame.rgb[0, 0].tolist()) for frame in read_frames(path)]
    [(0, [255, 0, 0]), (1, [0, 0, 0])]
    """
    path = Path(path)
    clip, damage, reformatter = probe_video(path), list[str](), VideoReformatter()
    clock = _FrameClock(clip)
    orientation: Orientation = 0, 0, 0
    for index, frame in enumerate(_decode_frames(path, damage, threads)):
        if not index:
            # only once: reading side data keeps a frame alive until garbage is collected, 1 GB of 4K frames
            orientation = display_orientation(frame)
        pts = clock.next_pts(frame)
        if only is None or index in only:
            own = source and is_writable_as_is(frame, clip, orientation)
            rgb = to_rgb(frame, clip, orientation, reformatter, exact=exact)
            ticks = frame.duration or clock.step
            yield ClipFrame(index, pts, ticks, pts * clip.time_base, rgb, frame if own else None)
    if clock.gaps and clock.is_even and not damage:  # with uneven frames gaps mean nothing
        damage.append(f"{str(path)!r} may be damaged: there is no new frame {' and '.join(clock.gaps)}.")
    if broken is not None:
        broken += damage
    elif damage:
        raise InputError(damage[0])


class _FrameClock:
    """When each frame is shown, in ticks from the start of the file, and the gaps between frames."""

    def __init__(self, clip: Clip) -> None:
        self.step = max(1, round(1 / clip.rate / clip.time_base))  # ticks of an average frame
        self.gaps: list[str] = []
        self.is_even = True  # whether all frames between the gaps are equally long
        self._time_base, self._start = clip.time_base, round(clip.start / clip.time_base)
        self._last: int | None = None

    def next_pts(self, frame: VideoFrame) -> int:
        """Return when the next frame is shown, later than the one before also where the clock is damaged."""
        last = self._last
        expected = 0 if last is None else last + self.step
        pts = expected if frame.pts is None else frame.pts - self._start
        if last is not None:
            pts = max(pts, last + 1)  # damaged clocks stand still or go back
            if pts > last + 2 * self.step + 1:
                begin, end = (float(ticks * self._time_base) for ticks in (last, pts))
                self.gaps.append(f"from {begin:.2f} to {end:.2f} s")
            else:
                self.is_even = self.is_even and abs(pts - expected) <= 1 + self.step // 10
        self._last = pts
        return pts


def open_media(path: Path) -> InputContainer:
    """Open a media file, or raise InputError."""
    if not path.is_file():  # a pipe would block forever
        raise InputError(f"{str(path)!r} cannot be read: it is not a file, or links to none.")
    try:
        # an absolute path: FFmpeg reads a name such as "concat:a.mp4" as a protocol
        return av.open(path.absolute(), options=OPEN_OPTIONS, metadata_errors="replace")
    except (FFmpegError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read: it is damaged or not a video.") from error


def is_cover_art(stream: Any) -> bool:
    """Whether a video stream is a still image that belongs to the audio."""
    return bool(stream.disposition & (Disposition.attached_pic | Disposition.timed_thumbnails))


def main_stream(file: InputContainer, path: Path) -> VideoStream:
    """Return the largest video stream that is not cover art."""
    if file.metadata.get("major_brand", "").strip() in STILL_BRANDS:
        raise InputError(f"{str(path)!r} cannot be read: it is a still image, not a video.")
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
    swap, *_ = orientation = display_orientation(first)
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
        rotation={(1, 1, 0): 90, (0, 1, 1): 180, (1, 0, 1): 270}.get(orientation, 0),
        codec=stream.codec_context.codec.canonical_name,
        pixel_format=first.format.name,
        bit_depth=max(part.bits for part in first.format.components),
        colour=ColourSpace(
            # the j in FFmpeg's old names stands for full range
            FULL_RANGE if first.format.name.startswith("yuvj") else first.color_range,
            first.colorspace,
            first.color_trc,
            first.color_primaries,
        ),
        bit_rate=stream.bit_rate or None,
        audio_streams=tuple(
            AudioInfo(
                s.codec_context.codec.canonical_name, s.codec_context.sample_rate, s.codec_context.channels
            )
            for s in file.streams.audio
            if s.codec_context is not None
        ),
        other_streams=tuple(
            "cover art" if s.type == "video" and is_cover_art(s) else s.type
            for s in file.streams
            if s.type != "audio" and s.index != stream.index
        ),
    )


def _decode_frames(path: Path, damage: list[str], threads: int) -> Iterator[VideoFrame]:
    """Yield the undamaged frames; append a sentence to ``damage`` for what is lost."""
    with open_media(path) as file:
        stream = main_stream(file, path)
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = threads
        stream.codec_context.options = {"err_detect": "explode"}  # else damage is concealed
        intact, sent, got, good, end = True, 0, 0, None, Fraction(0)
        for packet in _packets(file, stream, path, damage):
            if packet.pts is not None and packet.time_base:
                end = max(end, (packet.pts + (packet.duration or 0)) * packet.time_base)
            if packet.stream_index != stream.index:
                continue
            sent += bool(packet.size and not packet.is_discard)
            try:
                frames = stream.decode(packet if packet.size else None)
            except FFmpegError:
                intact, frames = False, []
                good = got if good is None else good
            for frame in frames:
                intact = not frame.is_corrupt and (intact or bool(frame.key_frame))
                if intact:
                    got += 1
                    yield frame
        if got < sent:
            where = "" if good is None else f" after the first {good}"
            damage.append(f"{str(path)!r} is damaged: {sent - got} of {sent} frames were lost{where}.")
        stated = Fraction(max(0, file.start_time or 0) + (file.duration or 0), av.time_base)
        if not damage and (stated - end > END_TOLERANCE_SECONDS or is_truncated(path)):
            damage.append(f"{str(path)!r} is damaged: its end is missing after {float(end):.2f} seconds.")


def _packets(file: InputContainer, stream: VideoStream, path: Path, damage: list[str]) -> Iterator[Any]:
    """Yield the packets of all streams; where reading fails, report it and flush the decoder."""
    last = Fraction(0)
    try:
        for packet in file.demux():
            if packet.pts is not None and packet.time_base:
                last = packet.pts * packet.time_base
            yield packet
    except FFmpegError:
        damage.append(f"{str(path)!r} is damaged: nothing after {float(last):.2f} seconds could be read.")
        flush = av.Packet()
        flush.stream = stream
        yield flush
