"""Read single frames of a video by their numbers, without decoding all of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from av.container import InputContainer
from av.error import FFmpegError
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from ksame.io.clip import ClipFrame
from ksame.io.video import main_stream, open_media, probe_video, read_frames
from ksame.io.video_pixels import display_orientation, to_rgb


def read_frames_at(path: str | Path, wanted: Collection[int], count: int) -> Iterator[ClipFrame]:
    """Yield some frames of a video as ``read_frames`` does, each once.

    Each is decoded from the key frame before it. Where the timestamps of a file do not identify its frames,
    all of it is decoded.

    Parameters
    ----------
    path : str or Path
        The video.
    wanted : collection of int
        Numbers of the frames.
    count : int
        Number of frames that ``read_frames`` yields: if the file contains another number, it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as here:
    ...     images = [Image.new("RGB", (8, 6), colour) for colour in ("red", "lime", "blue")]
    ...     images[0].save(Path(here, "a.gif"), save_all=True, append_images=images[1:], duration=40)
    ...     [(frame.index, frame.rgb[0, 0].tolist()) for frame in read_frames_at(Path(here, "a.gif"), [2], 3)]
    [(2, [0, 0, 255])]
    """
    path, missing = Path(path), set(wanted)
    with suppress(FFmpegError):  # frames that are not found are read below, where damage is handled
        for frame in _seek_frames(path, sorted(missing), count):
            missing.discard(frame.index)
            yield frame
    if missing:
        for frame in read_frames(path, broken=[], only=frozenset(missing)):
            missing.discard(frame.index)
            yield frame
            if not missing:
                break


def _seek_frames(path: Path, wanted: list[int], count: int) -> Iterator[ClipFrame]:
    """Yield the frames that can be found by seeking."""
    clip, reformatter, orientation = probe_video(path), VideoReformatter(), None
    began, step = round(clip.start / clip.time_base), max(1, round(1 / clip.rate / clip.time_base))
    with open_media(path) as file:
        stream = main_stream(file, path)
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = 0
        times, keys = _frame_times(file, stream)
        if len(times) != count:
            return
        for key, some in groupby(wanted, lambda number: bisect_right(keys, times[number])):
            due = {times[number]: number for number in some}
            file.seek(keys[max(key - 1, 0)], stream=stream)
            for frame in file.decode(stream):
                orientation = display_orientation(frame) if orientation is None else orientation
                number = None if frame.is_corrupt or frame.pts is None else due.pop(frame.pts, None)
                if number is not None:
                    pts = times[number] - began
                    rgb = to_rgb(frame, clip, orientation, reformatter)
                    yield ClipFrame(number, pts, frame.duration or step, pts * clip.time_base, rgb)
                if not due or (frame.pts is not None and frame.pts > max(due)):
                    break


def _frame_times(file: InputContainer, stream: VideoStream) -> tuple[list[int], list[int]]:
    """Return the sorted times of all frames and of key frames; two empty lists if they are not unique."""
    times, keys = list[int](), list[int]()
    for packet in file.demux(stream):
        if packet.size and not packet.is_discard:
            if packet.pts is None or packet.is_corrupt:
                return [], []
            times.append(packet.pts)
            keys += [packet.pts] if packet.is_keyframe else []
    return ([], []) if len(set(times)) < len(times) or not keys else (sorted(times), sorted(keys))
