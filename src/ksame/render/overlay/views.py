"""Some looks at each person of some videos, on which their new faces are made and tried."""

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
MAX_FACE_SIDE_PX = 192  # px: the side of a face that is looked at, more than any recogniser takes in


def sample_views(
    films: Sequence[tuple[Path, int, Sequence[Track]]],
    *,
    max_count: int,
    progress: Callable[[int], None] | None = None,
) -> dict[str, list[FaceView]]:
    """Return views of each person, spread over the time they are seen; those who stay visible have none.

    Parameters
    ----------
    films : sequence of (Path, int, sequence of Track)
        Videos, how many pictures they have, and the faces in them.
    max_count : int
        Views of one person over all videos: memory does not grow with their length.
    progress : callable, optional
        Told how many videos were looked at.
    """
    seen: dict[str, list[tuple[int, int, Track]]] = {}
    for film, (*_, tracks) in enumerate(films):
        for track in tracks:
            if not track.keep:
                good = track.start + np.flatnonzero(track.state == "seen")
                places = [(film, at, track) for at in evenly_spaced(good.tolist(), max_count)]
                seen.setdefault(track.person, []).extend(places)
    wanted: list[dict[int, list[Track]]] = [{} for _ in films]
    for places in seen.values():
        for film, at, track in evenly_spaced(places, max_count):
            wanted[film].setdefault(at, []).append(track)
    views: dict[str, list[FaceView]] = {}
    for film, (path, count, _) in enumerate(films):
        for frame in io.read_frames_at(path, wanted[film], count):
            for track in wanted[film][frame.index]:
                views.setdefault(track.person, []).append(crop_face(frame.rgb, track.mesh(frame.index)))
        if progress:
            progress(film + 1)
    return views


def evenly_spaced(items: Sequence[T], max_count: int) -> list[T]:
    """Return some items from the first to the last, evenly spaced.

    Examples
    --------
    >>> evenly_spaced("abcdefghi", 3)
    ['a', 'e', 'i']
    """
    at = np.linspace(0, len(items) - 1, min(max_count, len(items))).round().astype(int)
    return [items[i] for i in at.tolist()]


def crop_face(rgb: NDArray[np.uint8], mesh: FloatArray) -> FaceView:
    """Return a face with what is around it, cut out and no larger than it need be: pictures cost memory."""
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
