"""Properties of a video file, and one frame of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

RGB = NDArray[np.uint8]  # (h, w, 3)
FULL_RANGE = int(ColorRange.JPEG)


@dataclass(frozen=True)
class ColourSpace:
    """Colour space as code points of ITU-T H.273; a written video keeps that of its source."""

    range: int  # 0 unknown, 1 limited, 2 full
    matrix: int
    transfer: int
    primaries: int

    def conversion(self, height: int) -> tuple[Colorspace, ColorRange]:
        """Return matrix and range for conversion; if the file does not state them, what players assume."""
        unknown = Colorspace.ITU709 if height >= 720 else Colorspace.ITU601
        known = {1: Colorspace.ITU709, 4: Colorspace.FCC, 5: Colorspace.ITU601, 6: Colorspace.ITU601}
        known |= {7: Colorspace.SMPTE240M, 9: Colorspace.BT2020, 10: Colorspace.BT2020}
        full = self.range == ColorRange.JPEG
        return known.get(self.matrix, unknown), ColorRange.JPEG if full else ColorRange.MPEG


@dataclass(frozen=True)
class AudioInfo:
    """Properties of an audio stream."""

    codec: str
    rate: int
    channels: int


@dataclass(frozen=True)
class Clip:
    """Properties of a video, from its headers and its first frame.

    Parameters
    ----------
    path : Path
        The file.
    width, height : int
        Size of an upright frame in pixels.
    aspect : Fraction
        Width of an upright pixel divided by its height.
    rate : Fraction
        Average frames per second, never rounded.
    time_base : Fraction
        Seconds per tick of ``ClipFrame.pts``.
    frames : int
        Number of frames, as stated or computed from the duration.
    duration : Fraction
        Seconds.
    start : Fraction
        Time of a broadcast's clock at the start of the file; frames and audio count from there.
    rotation : int
        Degrees clockwise by which stored frames are rotated to be upright.
    codec, pixel_format : str
        FFmpeg's names of both.
    bit_depth : int
        Bits per stored sample.
    colour : ColourSpace
        Range, matrix, transfer and primaries.
    bit_rate : int or None
        Bits per second of the video stream.
    audio_streams : tuple of AudioInfo
        The audio streams.
    other_streams : tuple of str
        Kinds of streams that are never written: further videos, cover art, subtitles, data.
    """

    path: Path
    width: int
    height: int
    aspect: Fraction
    rate: Fraction
    time_base: Fraction
    frames: int
    duration: Fraction
    start: Fraction
    rotation: int
    codec: str
    pixel_format: str
    bit_depth: int
    colour: ColourSpace
    bit_rate: int | None
    audio_streams: tuple[AudioInfo, ...]
    other_streams: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ClipFrame:
    """One frame of a video: ``rgb`` (h, w, 3) is upright; replace it with ``dataclasses.replace``.

    ``source`` is the decoded frame. With ``changed_boxes`` (left, top, right, bottom) only these boxes of
    ``rgb`` are encoded anew, and the rest is taken from ``source``.
    """

    index: int
    pts: int  # time of display in ticks of Clip.time_base
    duration: int  # ticks
    time: Fraction  # seconds
    rgb: RGB
    source: VideoFrame | None = None
    changed_boxes: tuple[tuple[int, int, int, int], ...] | None = None  # None: all of it may have changed
