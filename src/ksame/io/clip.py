"""What a video file says of itself, and one frame of it."""

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
    """How numbers become colours: code points of ITU-T H.273, kept from the source to the target."""

    range: int  # 0 unknown, 1 limited, 2 full
    matrix: int
    transfer: int
    primaries: int

    def conversion(self, height: int) -> tuple[Colorspace, ColorRange]:
        """Return matrix and range to convert by; where the file is silent, those that players assume."""
        unknown = Colorspace.ITU709 if height >= 720 else Colorspace.ITU601
        known = {1: Colorspace.ITU709, 4: Colorspace.FCC, 5: Colorspace.ITU601, 6: Colorspace.ITU601}
        known |= {7: Colorspace.SMPTE240M, 9: Colorspace.BT2020, 10: Colorspace.BT2020}
        full = self.range == ColorRange.JPEG
        return known.get(self.matrix, unknown), ColorRange.JPEG if full else ColorRange.MPEG


@dataclass(frozen=True)
class AudioStream:
    """One audio stream."""

    codec: str
    rate: int
    channels: int


@dataclass(frozen=True)
class Clip:
    """What a video file says of itself, and its first picture shows.

    Parameters
    ----------
    path : Path
        The file.
    width, height : int
        The size of an upright picture in pixels.
    aspect : Fraction
        Width of an upright pixel by its height.
    rate : Fraction
        Pictures a second, on average; never rounded.
    time_base : Fraction
        Seconds of one tick of ``ClipFrame.pts``.
    frames : int
        How many pictures, as stated or reckoned from the duration.
    duration : Fraction
        Seconds.
    start : Fraction
        Where a broadcast's clock stood when the file began; pictures and sound are counted from there.
    rotation : int
        Degrees clockwise by which stored pictures are turned to stand upright.
    codec, pixels : str
        The codec and the pixel format, in FFmpeg's words.
    bits : int
        Bits of a stored sample.
    colour : Colour
        Range, matrix, transfer and primaries.
    bit_rate : int or None
        Of the pictures, a second.
    sounds : tuple of Sound
        The audio streams.
    others : tuple of str
        Kinds of streams that are never written: further videos, cover art, subtitles, data.
    variable : bool
        Whether the file says that its pictures are not equally long.
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
    pixels: str
    bits: int
    colour: ColourSpace
    bit_rate: int | None
    sounds: tuple[AudioStream, ...]
    others: tuple[str, ...]
    variable: bool


@dataclass(frozen=True, eq=False)
class ClipFrame:
    """One picture of a video: ``rgb`` (h, w, 3) is upright; ``dataclasses.replace`` puts another there.

    ``source`` is what the file has of it. Whoever puts another picture there may say in which boxes (left,
    top, right, bottom) it is ``new``: then the rest is written as the file has it.
    """

    index: int
    pts: int  # when it is shown, in ticks of Clip.time_base
    duration: int  # ticks
    time: Fraction  # seconds
    rgb: RGB
    source: VideoFrame | None = None
    new: tuple[tuple[int, int, int, int], ...] | None = None  # None: it may be new anywhere
