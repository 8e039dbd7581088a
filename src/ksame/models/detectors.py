"""Detect faces with one of three detectors, and check what a second one still sees.

All run in OpenVINO and are decoded here, so that photos can be searched in parallel threads.
Deviation: OpenCV has a wrapper of YuNet. It is not thread-safe and half as fast, so the tests use it as an
oracle instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import IntArray
from ksame.core.boxes import Boxes, is_explained, largest_first, suppress
from ksame.core.errors import UsageError
from ksame.core.geometry import crop
from ksame.models.runtime import infer, infer_images

__all__ = [
    "DETECTORS",
    "centerface",
    "centerface_images",
    "detect",
    "detect_in_tiles",
    "detect_second",
    "residual",
    "resize_image",
    "rotate_boxes_back",
    "two_pass_detect",
    "yunet",
    "yunet_images",
]


COARSE_SIDE_PX = 320  # longest side in the pass that finds the largest faces
TILE_OVERLAP_PX = 48  # overlap of neighbouring tiles


def detect(
    rgb: NDArray[np.uint8],
    *,
    detector: str = "yunet",
    limit: int = 1280,
    turns: Sequence[int] = (1, 2, 3),
    turned: bool = False,
    wide: bool = True,
) -> Boxes:
    """Return the faces in a photo, largest first.

    The photo is searched at its own size up to ``limit`` and once coarsely with a margin around it, for
    faces that fill it. If no face is certain, it is also searched turned by 90, 180 and 270 degrees, as its
    orientation tag may be lost.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        A photo.
    detector : str
        One of ``DETECTORS``.
    limit : int
        The longest side in pixels at which to search; faces of less than 1/100 of it are missed.
    turns : sequence of int
        The quarter turns to try if no face is certain.
    turned : bool
        Whether to try them in any case.
    wide : bool
        Whether also to search coarsely with room around it. Without, BlazeFace misses 1 in 25 of the faces
        that are 1.4 times as high as a picture of 16:9, and none that are as high as it.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or not rgb.size:
        raise UsageError(f"rgb must be (h, w, 3) uint8. Got {rgb.shape} {rgb.dtype}.")
    if detector not in DETECTORS:
        raise UsageError(f"There is no detector {detector!r}: choose one of {', '.join(DETECTORS)}.")
    look, sure = DETECTORS[detector]
    h, w = rgb.shape[:2]
    scale = min(1.0, limit / max(h, w))
    small = resize_image(rgb, scale)
    found = two_pass_detect(look, small, wide=wide)
    if turned or not len(found) or found.score.max() < sure:
        lying = [rotate_boxes_back(two_pass_detect(look, np.rot90(small, k)), k, small.shape) for k in turns]
        found = Boxes.join([found, *lying])
    sx, sy = small.shape[1] / w, small.shape[0] / h  # not quite ``scale``: sides are whole pixels
    found = found[suppress(found.xyxy, found.score)].moved(lambda p: p / [sx, sy])
    return largest_first(found)


def detect_second(rgb: NDArray[np.uint8]) -> Boxes:
    """Return the faces that the second detector sees."""
    return detect(rgb, detector="blazeface")


def residual(
    rgb: NDArray[np.uint8],
    covered: ArrayLike,
    *,
    detector: str = "blazeface",
    turns: Sequence[int] = (1, 2, 3),
    wide: bool = True,
) -> Boxes:
    """Return the faces that a second detector sees and no covered box explains.

    A box explains a face only if it holds the face's centre and more than half of the face's own
    area. A small covered box inside a large face does not explain it, so doubt counts as a face.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        What would be published.
    covered : (m, 4) array
        Boxes within which the faces were replaced.
    detector : str
        One of ``DETECTORS``.
    turns, wide
        See ``detect``.
    """
    found = detect(rgb, detector=detector, turns=turns, wide=wide)
    return found[~is_explained(found.xyxy, np.asarray(covered, dtype=np.float64).reshape(-1, 4))]


def resize_image(rgb: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    """Return a photo on another scale, by area where it shrinks."""
    if scale == 1:
        return rgb
    h, w = rgb.shape[:2]
    size = max(1, round(w * scale)), max(1, round(h * scale))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(rgb, size, interpolation=how), dtype=np.uint8)


def two_pass_detect(
    look: Callable[[NDArray[np.uint8]], Boxes], rgb: NDArray[np.uint8], *, wide: bool = True
) -> Boxes:
    """Return what is seen at the photo's size, and coarsely with a margin of a quarter around it."""
    rgb = np.ascontiguousarray(rgb)
    h, w = rgb.shape[:2]
    scale = COARSE_SIDE_PX / max(h, w)
    if scale < 1 and not wide:
        return look(rgb)
    coarse = resize_image(rgb, scale)
    my, mx = coarse.shape[0] // 4, coarse.shape[1] // 4
    padded = cv2.copyMakeBorder(coarse, my, my, mx, mx, cv2.BORDER_REPLICATE)
    sx, sy = coarse.shape[1] / w, coarse.shape[0] / h
    far = look(padded).moved(lambda p: (p - [mx, my]) / [sx, sy])
    return Boxes.join([far] if scale >= 1 else [look(rgb), far])


def detect_in_tiles(
    look: Callable[[NDArray[np.uint8]], Boxes], rgb: NDArray[np.uint8], height: int, width: int
) -> Boxes:
    """Return the small faces of a photo, searched in overlapping parts of one size.

    A network keeps memory for the largest picture that it saw; parts need a quarter of it. A face that the
    edge of a part cuts is left out: small ones are whole in the next part, large ones are for
    ``two_pass_detect``.
    """
    size, part = np.array(rgb.shape[:2]), np.minimum((height, width), rgb.shape[:2])
    count = np.ceil((size - TILE_OVERLAP_PX) / np.maximum(part - TILE_OVERLAP_PX, 1)).astype(int).clip(1)
    tops, lefts = (np.linspace(0, size[i] - part[i], count[i]).round().astype(int) for i in (0, 1))
    found = []
    for top, left in product(tops.tolist(), lefts.tolist()):
        seen = look(np.ascontiguousarray(rgb[top : top + part[0], left : left + part[1]]))
        seen = seen.moved(lambda p, at=(left, top): p + at)  # type: ignore[misc]
        low, high = np.array([left, top]), np.array([left + part[1], top + part[0]])
        cut = ((seen.xyxy[:, :2] < low + 1) & (low > 0)) | (
            (seen.xyxy[:, 2:] > high - 1) & (high < size[::-1])
        )
        found.append(seen[~cut.any(axis=1)])
    return Boxes.join(found)


def rotate_boxes_back(found: Boxes, turns: int, shape: tuple[int, ...]) -> Boxes:
    """Return boxes of ``np.rot90(photo, turns)`` as boxes of the photo."""
    h, w = shape[:2]
    for left in range(turns, 0, -1):
        wide = w if left % 2 else h  # the width before this turn: (x, y) went to (y, width - x)
        found = found.moved(lambda p, wide=wide: np.stack([wide - p[..., 1], p[..., 0]], axis=-1))  # type: ignore[misc]
    return found


def _pad_to_stride(rgb: NDArray[np.uint8], order: Sequence[int] = (0, 1, 2)) -> NDArray[np.float32]:
    """Return the photo as (1, 3, h, w) with sides that 32 divides, as strides of 32 want."""
    h, w = rgb.shape[:2]
    room = np.zeros((1, 3, h + -h % 32, w + -w % 32), np.float32)
    colours = cv2.split(np.ascontiguousarray(rgb))  # numpy takes three times as long
    for plane, colour in zip(room[0], order, strict=True):
        plane[:h, :w] = colours[colour]
    return room


def yunet(rgb: NDArray[np.uint8], *, least: float = 0.6, specialise: bool = True) -> Boxes:
    """Return what YuNet sees: anchor-free, one prediction per cell at strides 8, 16 and 32."""
    x = _pad_to_stride(rgb, (2, 1, 0))  # trained on BGR
    outputs = infer("yunet", x, shape=(1, 3, -1, -1), specialise=specialise)
    found, _ = _decode_yunet(outputs, len(x), x.shape[3], least)
    return found[suppress(found.xyxy, found.score)]


def yunet_images(bgr: NDArray[np.uint8], *, least: float) -> tuple[Boxes, IntArray]:
    """Return all detections of YuNet in images (n, h, w, 3), and the image that each is in.

    The sides must be multiples of 32, of few sizes (see ``infer_images``). There is no suppression.
    """
    return _decode_yunet(infer_images("yunet", bgr), len(bgr), bgr.shape[2], least)


def _decode_yunet(
    outputs: Sequence[NDArray[np.float32]], batch: int, width: int, least: float
) -> tuple[Boxes, IntArray]:
    """Return all predictions above a score, and the image of the batch that each is in.

    The network concatenates the cells of all images of a batch.
    """
    parts, rows = [], []
    for level, stride in enumerate((8, 16, 32)):
        cls, obj, bbox, kps = (
            x.reshape(batch, -1, x.shape[-1]) for x in (outputs[level + 3 * head] for head in range(4))
        )
        score = np.sqrt(np.clip(cls, 0, 1) * np.clip(obj, 0, 1))[..., 0]
        hit = row, at = np.nonzero(score > least)
        columns = width // stride
        cell = np.stack([at % columns, at // columns], axis=1)  # (n, 2) as (x, y)
        centre, side = cell + bbox[hit][:, :2], np.exp(bbox[hit][:, 2:])
        five = cell[:, None] + kps[hit].reshape(-1, 5, 2)
        xyxy = np.concatenate([centre - side / 2, centre + side / 2], axis=1)
        parts.append(Boxes(stride * xyxy.astype(np.float64), score[hit], stride * five.astype(np.float64)))
        rows.append(row)
    return Boxes.join(parts), np.concatenate(rows)


def centerface(rgb: NDArray[np.uint8], *, least: float = 0.4) -> Boxes:
    """Return what CenterFace sees: a heat map of centres at stride 4, with sizes and offsets."""
    found, _ = _decode_centerface(infer("centerface", _pad_to_stride(rgb), shape=(1, 3, -1, -1)), least)
    return found[suppress(found.xyxy, found.score)]


def centerface_images(rgb: NDArray[np.uint8], *, least: float) -> tuple[Boxes, IntArray]:
    """Return all detections of CenterFace in RGB images, as ``yunet_images`` does for BGR."""
    return _decode_centerface(infer_images("centerface", rgb), least)


def _decode_centerface(outputs: Sequence[NDArray[np.float32]], least: float) -> tuple[Boxes, IntArray]:
    """Return all predictions above a score, and the image of the batch that each is in."""
    heat, size, offset, five = outputs
    image, _, row, column = np.nonzero(heat > least)
    at = np.s_[image, :, row, column]
    side = 4 * np.exp(size[at][:, ::-1])  # (n, 2) as (width, height)
    centre = 4 * (np.stack([column, row], axis=1) + offset[at][:, ::-1] + 0.5)
    low = (centre - side / 2).astype(np.float64)
    points = five[at].reshape(-1, 5, 2)[..., ::-1] * side[:, None] + low[:, None]
    return Boxes(np.concatenate([low, low + side], axis=1), heat[image, 0, row, column], points), image


def _blazeface(rgb: NDArray[np.uint8]) -> Boxes:
    """Return what BlazeFace sees in the photo, and in overlapping squares of half its size."""
    h, w = rgb.shape[:2]
    long = max(h, w)
    squares = [((w - long) / 2, (h - long) / 2, long)]
    if long > 2.5 * COARSE_SIDE_PX:  # its input is 192 px: smaller faces need a closer look
        half = long / 2
        rest = [max(0.0, side - half) for side in (w, h)]
        xs, ys = (np.linspace(0, room, 1 + int(np.ceil(2 * room / half))) for room in rest)
        squares += [(x, y, half) for x in xs for y in ys]
    found = Boxes.join([_blaze_square(rgb, *square) for square in squares])
    return found[suppress(found.xyxy, found.score)]


def _blaze_square(rgb: NDArray[np.uint8], left: float, top: float, side: float) -> Boxes:
    """Return what BlazeFace full range sees in one square: 48 x 48 cells, one anchor each."""
    scale = 192 / side
    matrix = np.array([[scale, 0, -left * scale], [0, scale, -top * scale]])
    view = crop(rgb, matrix, 192, 192)
    boxes, logit = infer("blazeface", view[None].astype(np.float32) / 127.5 - 1)
    hit = np.flatnonzero(logit[0, :, 0] > 0)  # a score above one half
    score = 1 / (1 + np.exp(-logit[0, hit, 0].astype(np.float64)))
    cell = 4 * (np.stack([hit % 48, hit // 48], axis=1) + 0.5)  # (n, 2): anchor centres in pixels
    raw = boxes[0, hit].astype(np.float64)  # (n, 16): centre, size, then six points
    centre, half = cell + raw[:, :2], raw[:, 2:4] / 2
    eyes_nose, mouth = np.split(cell[:, None] + raw[:, 4:12].reshape(-1, 4, 2), [3], axis=1)
    # it knows the mouth's centre only: the corners lie about a third of the eyes' distance off
    reach = (eyes_nose[:, [1]] - eyes_nose[:, [0]]) / 3
    five = np.concatenate([eyes_nose, mouth - reach, mouth + reach], axis=1)
    found = Boxes(np.concatenate([centre - half, centre + half], axis=1), score, five)
    return found.moved(lambda p: p / scale + [left, top])


# How one picture is searched, and the score from which a face is surely upright: below it the face may
# be one that lies on its side.
DETECTORS: dict[str, tuple[Callable[[NDArray[np.uint8]], Boxes], float]] = {
    "yunet": (yunet, 0.8),
    "blazeface": (_blazeface, 0.6),
    "centerface": (centerface, 0.6),
}
