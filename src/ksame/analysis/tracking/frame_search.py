"""Detect faces in the frames of a video, prefetching a few frames."""

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
from ksame.analysis.tracking.propagate import RGB, Grey
from ksame.core.boxes import Boxes, suppress
from ksame.core.parallel import prefetch, prefetch_count, submit
from ksame.models.detectors import (
    DETECTORS,
    detect_in_tiles,
    resize_image,
    rotate_boxes_back,
    two_pass_detect,
)

__all__ = []

SEARCH_SIDE_PX = 640  # longer side at which every frame is searched
QUICK_SEARCH_INTERVAL, THOROUGH_SEARCH_INTERVAL = 2, 25  # frames from one search of a kind to the next
SCENE_CHANGE_GREY_LEVELS = 20.0  # mean difference of two thumbnails that means fast motion or another scene
SURE_UPRIGHT_SCORE = 0.8  # detection score above which rotated searches are skipped
SEARCH_AHEAD_FRAMES = 12  # frames searched ahead: a thorough search takes as long as tracking through ten


class _SearchedFrame(NamedTuple):
    """A frame with its detections."""

    number: int
    rgb: RGB
    small: RGB
    grey: Grey  # of the small one
    cut: bool
    boxes: Boxes


def _search_frames(frames: Iterable[FrameLike], threads: int) -> Iterator[_SearchedFrame]:
    """Yield frames with their detections, searched a few frames ahead."""
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
    """Yield each frame, its reduced version in colour and grey, and its change from the previous one."""
    thumb: NDArray[np.float32] | None = None
    for frame in frames:
        small = resize_image(frame.rgb, min(1.0, SEARCH_SIDE_PX / max(frame.rgb.shape[:2])))
        grey = np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.uint8)
        before, thumb = thumb, cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA).astype(np.float32)
        yield frame, small, grey, 0.0 if before is None else _thumbnail_change(before, thumb)


def _thumbnail_change(before: NDArray[np.float32], now: NDArray[np.float32]) -> float:
    """Return the mean difference of two thumbnails in grey levels, negative if only the light differs."""
    a, b = before - before.mean(), now - now.mean()
    alike = (a * b).sum() / np.sqrt(max((a * a).sum() * (b * b).sum(), 1e-9))
    change = float(np.abs(before - now).mean())
    return change if alike < 0.5 else -change


def _decide_cut(waiting: deque[tuple[Future[_SearchedFrame], float]], last: float) -> _SearchedFrame:
    """Return the first frame of the queue and decide whether it begins another scene.

    A cut is one large change between small ones; a panning camera causes many large changes.
    """
    change, after = waiting[0][1], waiting[1][1] if len(waiting) > 1 else 0.0
    cut = change > SCENE_CHANGE_GREY_LEVELS and change > 2 * max(abs(last), abs(after))
    return waiting[0][0].result()._replace(cut=cut)


def _search_frame(index: int, rgb: RGB, small: RGB, grey: Grey, change: float) -> _SearchedFrame:
    """Search a frame: thoroughly at intervals or in a new scene, quickly every second frame."""
    boxes = Boxes.none()
    if change > SCENE_CHANGE_GREY_LEVELS or index % THOROUGH_SEARCH_INTERVAL == 0:
        boxes = _search_thoroughly(rgb, small)
    elif index % QUICK_SEARCH_INTERVAL == 0 or abs(change) > SCENE_CHANGE_GREY_LEVELS:
        ratio = np.array(rgb.shape[1::-1]) / small.shape[1::-1]
        boxes = DETECTORS["yunet"][0](small).moved(lambda p: p * ratio)
    return _SearchedFrame(index, rgb, small, grey, False, boxes)


def _search_thoroughly(rgb: RGB, small: RGB) -> Boxes:
    """Search a frame with two detectors up to 1280 px; if no face is certain, also rotated."""
    view = resize_image(rgb, min(1.0, 2 * SEARCH_SIDE_PX / max(rgb.shape[:2])))
    ratio, fine = (np.array(rgb.shape[1::-1]) / x.shape[1::-1] for x in (small, view))
    quick, other = (DETECTORS[name][0] for name in ("yunet", "blazeface"))
    beside = submit(partial(two_pass_detect, other, view))
    found = [two_pass_detect(quick, small).moved(lambda p: p * ratio)]
    if view.shape != small.shape:
        height, width = (side + -side % 32 for side in small.shape[:2])  # padded size of the network's input
        found.append(detect_in_tiles(quick, view, height, width).moved(lambda p: p * fine))
    found.append(beside.result().moved(lambda p: p * fine))
    sure = any((boxes.score >= SURE_UPRIGHT_SCORE).any() for boxes in found)
    for turns in () if sure else (1, 2, 3):
        lying = quick(np.ascontiguousarray(np.rot90(small, turns)))
        found.append(rotate_boxes_back(lying, turns, small.shape).moved(lambda p: p * ratio))
    boxes = Boxes.join(found)
    return boxes[suppress(boxes.xyxy, boxes.score)]
