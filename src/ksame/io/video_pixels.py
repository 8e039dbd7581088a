"""Pixels of a decoded video frame: upright RGB, or the planes as the file stores them."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from av.sidedata.sidedata import Type
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter
from numpy.typing import NDArray

from ksame.io.clip import FULL_RANGE, RGB, Clip

Orientation = tuple[int, int, int]
"""Whether to swap x and y, then to flip x, then y."""

# The fastest exact conversion: without both flags every image comes out darker.
RGB_INTERPOLATION = Interpolation.BILINEAR | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
PLANAR_8BIT_FORMATS = {"yuv420p", "yuv422p", "yuv444p"}  # planes of 8 bits, of which parts can be replaced


def is_writable_as_is(image: VideoFrame, clip: Clip, orientation: Orientation) -> bool:
    """Whether parts of a frame can be replaced while the rest is written as the file stores it.

    It must be upright (or subsampled colours would shift to another side of their block), of even size, in
    8 bits, and of limited range (converted both ways, full range is off by half a level: boxes would show).
    """
    size = image.width, image.height
    even = size == (clip.width, clip.height) and not any(side % 2 for side in size)
    return (
        even
        and not any(orientation)
        and pixel_format_of(image) in PLANAR_8BIT_FORMATS
        and clip.colour.range != FULL_RANGE
    )


def to_rgb(
    image: VideoFrame,
    clip: Clip,
    orientation: Orientation,
    reformatter: VideoReformatter,
    *,
    exact: bool = True,
) -> RGB:
    """Return a frame as upright RGB (h, w, 3) of the clip's size; not ``exact`` is ten times as fast."""
    swap, flip_x, flip_y = orientation
    width, height = (clip.height, clip.width) if swap else (clip.width, clip.height)
    matrix, colour_range = clip.colour.conversion(clip.height)
    converted = reformatter.reformat(
        image,
        width,  # a stream may change its size, the output does not
        height,
        "gbrp" if exact else "rgb24",  # exact conversion to planes takes half the time
        src_colorspace=matrix,
        src_color_range=colour_range,
        dst_color_range=ColorRange.JPEG,
        interpolation=RGB_INTERPOLATION if exact else Interpolation.BILINEAR,
        threads=1,
    )
    rgb = _merge_planes(converted) if exact else converted.to_ndarray()
    rgb = rgb.transpose(1, 0, 2) if swap else rgb
    return np.ascontiguousarray(rgb[:: -1 if flip_y else 1, :: -1 if flip_x else 1], np.uint8)


def _merge_planes(image: VideoFrame) -> RGB:
    """Return the pixels of a planar frame, five times as fast as PyAV does."""
    green, blue, red = frame_planes(image)
    return np.asarray(cv2.merge((red, green, blue)), np.uint8)


def frame_planes(image: VideoFrame) -> list[NDArray[np.uint8]]:
    """Return writable views of the planes (h, w) of an 8-bit frame."""
    return [
        np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height, : plane.width]  # type: ignore[call-overload]
        for plane in image.planes
    ]


def pixel_format_of(image: VideoFrame) -> str:
    """Return the pixel format of a frame without the j of FFmpeg's old names, which stands for full range."""
    return image.format.name.replace("yuvj", "yuv")


def display_orientation(image: VideoFrame) -> Orientation:
    """Return the display matrix of a frame, rounded to quarter turns and flips.

    The matrix is that of ISO/IEC 14496-12 8.3.2, rows a b u, c d v: x' = a x + c y, y' = b x + d y.
    """
    side_data: Any = image.side_data  # iterates over its values, though its stub says mapping
    display = next((entry for entry in side_data if entry.type is Type.DISPLAYMATRIX), None)
    if display is None:
        return 0, 0, 0
    a, b, _, c, d, *_ = np.frombuffer(bytes(display), np.int32).tolist()
    if math.hypot(a, d) >= math.hypot(b, c):
        return 0, int(a < 0), int(d < 0)
    return 1, int(c < 0), int(b < 0)
