"""Some pictures of a video, by their numbers, without reading all of it."""

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
from ksame.io.video import _orientation, _rgb, _stream, open_media, probe_video, read_frames


def read_frames_at(path: str | Path, wanted: Collection[int], count: int) -> Iterator[ClipFrame]:
    """Yield some pictures of a video as ``read_frames`` does, each once.

    Each is decoded from the key picture before it. Where the file's clock does not tell which number a
    picture has, all of it is read.

    Parameters
    ----------
    path : str or Path
        The video.
    wanted : collection of int
        Their numbers.
    count : int
        How many pictures ``read_frames`` yields: if the file says otherwise, something in it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as here:
    ...     shots = [Image.new("RGB", (8, 6), colour) for colour in ("red", "lime", "blue")]
    ...     shots[0].save(Path(here, "a.gif"), save_all=True, append_images=shots[1:], duration=40)
    ...     [(frame.index, frame.rgb[0, 0].tolist()) for frame in read_frames_at(Path(here, "a.gif"), [2], 3)]
    [(2, [0, 0, 255])]
    """
    path, left = Path(path), set(wanted)
    with suppress(FFmpegError):  # what is not found so is read below, where damage is dealt with
        for frame in _seek_frames(path, sorted(left), count):
            left.discard(frame.index)
            yield frame
    if left:
        for frame in read_frames(path, broken=[], only=frozenset(left)):
            left.discard(frame.index)
            yield frame
            if not left:
                break


def _seek_frames(path: Path, wanted: list[int], count: int) -> Iterator[ClipFrame]:
    """Yield what can be found by seeking."""
    clip, by, turn = probe_video(path), VideoReformatter(), None
    began, step = round(clip.start / clip.time_base), max(1, round(1 / clip.rate / clip.time_base))
    with open_media(path) as file:
        stream = _stream(file, path)
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = 0
        times, keys = _frame_times(file, stream)
        if len(times) != count:
            return
        for key, some in groupby(wanted, lambda number: bisect_right(keys, times[number])):
            due = {times[number]: number for number in some}
            file.seek(keys[max(key - 1, 0)], stream=stream)
            for frame in file.decode(stream):
                turn = _orientation(frame) if turn is None else turn
                number = None if frame.is_corrupt or frame.pts is None else due.pop(frame.pts, None)
                if number is not None:
                    pts = times[number] - began
                    rgb = _rgb(frame, clip, turn, by, True)
                    yield ClipFrame(number, pts, frame.duration or step, pts * clip.time_base, rgb)
                if not due or (frame.pts is not None and frame.pts > max(due)):
                    break


def _frame_times(file: InputContainer, stream: VideoStream) -> tuple[list[int], list[int]]:
    """Return when each picture is shown, in order, and when each key picture is; nothing if nobody tells."""
    times, keys = list[int](), list[int]()
    for packet in file.demux(stream):
        if packet.size and not packet.is_discard:
            if packet.pts is None or packet.is_corrupt:
                return [], []
            times.append(packet.pts)
            keys += [packet.pts] if packet.is_keyframe else []
    return ([], []) if len(set(times)) < len(times) or not keys else (sorted(times), sorted(keys))
