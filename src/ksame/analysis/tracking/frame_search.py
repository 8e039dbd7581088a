"""Search the frames of a video for faces, a few frames ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.analysis.tracking.observations import FrameLike
from ksame.analysis.tracking.propagate import (
    RGB,
    Grey,
)
from ksame.core.boxes import Boxes
from ksame.core.parallel import prefetch, prefetch_count, submit
from ksame.models.detectors import (
    DETECTORS,
    detect_in_tiles,
    resize_image,
    rotate_boxes_back,
    suppress,
    two_pass_detect,
)

__all__ = []


SEARCH_SIDE_PX = 640  # px: the longest side at which each picture is searched
QUICK_SEARCH_INTERVAL, THOROUGH_SEARCH_INTERVAL = (
    2,
    25,
)  # pictures from one quick search to the next, and from one thorough search to the next
SCENE_CHANGE_GREY_LEVELS = (
    20.0  # mean difference of two thumbnails, in grey levels, that means haste or another scene
)
SURE_UPRIGHT_SCORE = 0.8  # score from which a face is surely upright
SEARCH_AHEAD_FRAMES = (
    12  # pictures that are searched ahead: a thorough search takes as long as following through ten
)


class _SearchedFrame(NamedTuple):
    """One picture on its way: what a worker found in it."""

    number: int
    rgb: RGB
    small: RGB
    grey: Grey  # of the small one
    cut: bool
    boxes: Boxes


def _search_frames(frames: Iterable[FrameLike], threads: int) -> Iterator[_SearchedFrame]:
    """Yield the pictures with what the detectors find, searched a few ahead."""
    waiting: deque[tuple[Future[_SearchedFrame], float]] = deque()
    last = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for frame, small, grey, change in prefetch(_reduce_frames(frames)):
            waiting.append((pool.submit(_search_frame, frame.index, frame.rgb, small, grey, change), change))
            if len(waiting) > prefetch_count(
                frame.rgb.nbytes, least=2 * threads, max_count=SEARCH_AHEAD_FRAMES
            ):
                yield _decide_cut(waiting, last)
                last = waiting.popleft()[1]
        while waiting:
            yield _decide_cut(waiting, last)
            last = waiting.popleft()[1]


def _reduce_frames(frames: Iterable[FrameLike]) -> Iterator[tuple[FrameLike, RGB, Grey, float]]:
    """Yield each picture, the same reduced, that in grey, and how much it differs from the one before."""
    thumb: NDArray[np.float32] | None = None
    for frame in frames:
        small = resize_image(frame.rgb, min(1.0, SEARCH_SIDE_PX / max(frame.rgb.shape[:2])))
        grey = np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.uint8)
        before, thumb = thumb, cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA).astype(np.float32)
        yield frame, small, grey, 0.0 if before is None else _thumbnail_change(before, thumb)


def _thumbnail_change(before: NDArray[np.float32], now: NDArray[np.float32]) -> float:
    """Return by how many grey levels two thumbnails differ, negative if by their light alone."""
    a, b = before - before.mean(), now - now.mean()
    alike = (a * b).sum() / np.sqrt(max((a * a).sum() * (b * b).sum(), 1e-9))
    change = float(np.abs(before - now).mean())
    return change if alike < 0.5 else -change


def _decide_cut(waiting: deque[tuple[Future[_SearchedFrame], float]], last: float) -> _SearchedFrame:
    """Return the first picture in the queue, and say whether it begins another scene.

    A cut is one large change between small ones; a camera that is swung round makes many.
    """
    change, after = waiting[0][1], waiting[1][1] if len(waiting) > 1 else 0.0
    cut = change > SCENE_CHANGE_GREY_LEVELS and change > 2 * max(abs(last), abs(after))
    return waiting[0][0].result()._replace(cut=cut)


def _search_frame(index: int, rgb: RGB, small: RGB, grey: Grey, change: float) -> _SearchedFrame:
    """Search one picture: thoroughly now and then or in a new scene, quickly every second time."""
    boxes = Boxes.none()
    if change > SCENE_CHANGE_GREY_LEVELS or index % THOROUGH_SEARCH_INTERVAL == 0:
        boxes = _search_thoroughly(rgb, small)
    elif index % QUICK_SEARCH_INTERVAL == 0 or abs(change) > SCENE_CHANGE_GREY_LEVELS:
        ratio = np.array(rgb.shape[1::-1]) / small.shape[1::-1]
        boxes = DETECTORS["yunet"][0](small).moved(lambda p: p * ratio)
    return _SearchedFrame(index, rgb, small, grey, False, boxes)


def _search_thoroughly(rgb: RGB, small: RGB) -> Boxes:
    """Search a picture with two detectors up to 1280 px; where no face is sure, also turned."""
    view = resize_image(rgb, min(1.0, 2 * SEARCH_SIDE_PX / max(rgb.shape[:2])))
    ratio, fine = (np.array(rgb.shape[1::-1]) / x.shape[1::-1] for x in (small, view))
    quick, other = (DETECTORS[name][0] for name in ("yunet", "blazeface"))
    beside = submit(partial(two_pass_detect, other, view))
    found = [two_pass_detect(quick, small).moved(lambda p: p * ratio)]
    if view.shape != small.shape:
        height, width = (side + -side % 32 for side in small.shape[:2])  # what the network pads it to
        found.append(detect_in_tiles(quick, view, height, width).moved(lambda p: p * fine))
    found.append(beside.result().moved(lambda p: p * fine))
    sure = any((boxes.score >= SURE_UPRIGHT_SCORE).any() for boxes in found)
    for turns in () if sure else (1, 2, 3):
        lying = quick(np.ascontiguousarray(np.rot90(small, turns)))
        found.append(rotate_boxes_back(lying, turns, small.shape).moved(lambda p: p * ratio))
    boxes = Boxes.join(found)
    return boxes[suppress(boxes.xyxy, boxes.score)]
