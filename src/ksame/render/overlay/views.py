"""Sample views of each person in a set of videos, on which new faces are created and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.tracking.track import Track
from ksame.core.arrays import FloatArray
from ksame.core.faces import FaceView

T = TypeVar("T")
MAX_FACE_SIDE_PX = 192  # side of a sampled face: more than the input of any recogniser


def sample_views(
    videos: Sequence[tuple[Path, int, Sequence[Track]]],
    *,
    max_count: int,
    progress: Callable[[int], None] | None = None,
) -> dict[str, list[FaceView]]:
    """Return views of each person, evenly spaced over their detections; persons to keep have none.

    Parameters
    ----------
    videos : sequence of (Path, int, sequence of Track)
        Videos, their numbers of frames and their tracks.
    max_count : int
        Greatest number of views per person over all videos: memory does not grow with their length.
    progress : callable, optional
        Called with the number of videos processed.
    """
    detections: dict[str, list[tuple[int, int, Track]]] = {}
    for video, (*_, tracks) in enumerate(videos):
        for track in tracks:
            if not track.keep:
                good = track.start + np.flatnonzero(track.state == "seen")
                places = [(video, at, track) for at in evenly_spaced(good.tolist(), max_count)]
                detections.setdefault(track.person, []).extend(places)
    sampled: list[dict[int, list[Track]]] = [{} for _ in videos]
    for places in detections.values():
        for video, at, track in evenly_spaced(places, max_count):
            sampled[video].setdefault(at, []).append(track)
    views: dict[str, list[FaceView]] = {}
    for video, (path, count, _) in enumerate(videos):
        for frame in io.read_frames_at(path, sampled[video], count):
            for track in sampled[video][frame.index]:
                views.setdefault(track.person, []).append(crop_face(frame.rgb, track.mesh(frame.index)))
        if progress:
            progress(video + 1)
    return views


def evenly_spaced(items: Sequence[T], max_count: int) -> list[T]:
    """Return at most ``max_count`` items from the first to the last, evenly spaced.

    Examples
    --------
    >>> evenly_spaced("abcdefghi", 3)
    ['a', 'e', 'i']
    """
    at = np.linspace(0, len(items) - 1, min(max_count, len(items))).round().astype(int)
    return [items[i] for i in at.tolist()]


def crop_face(rgb: NDArray[np.uint8], mesh: FloatArray) -> FaceView:
    """Crop a face with its surroundings, reduced to ``MAX_FACE_SIDE_PX`` to save memory."""
    low, high = mesh.min(axis=0), mesh.max(axis=0)
    side = float((high - low).max())
    left, top = np.maximum(low - 0.6 * side, 0).astype(int)
    right, bottom = np.minimum(high + 0.6 * side, rgb.shape[1::-1]).astype(int)
    part, points = rgb[top:bottom, left:right], mesh - (left, top)
    if side <= MAX_FACE_SIDE_PX:
        return FaceView(part.copy(), points)
    size = (np.array(part.shape[1::-1]) * (MAX_FACE_SIDE_PX / side)).round().astype(int)
    small = np.asarray(cv2.resize(part, size.tolist(), interpolation=cv2.INTER_AREA), np.uint8)
    return FaceView(small, (points + 0.5) * (size / part.shape[1::-1]) - 0.5)
