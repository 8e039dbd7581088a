"""From photos to faces: each photo read, its faces found and registered, in parallel and resumable."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.search import Effort, search
from ksame.core.arrays import FloatArray
from ksame.core.boxes import Boxes, is_explained
from ksame.core.checkpoint import file_stamp
from ksame.core.context import Context
from ksame.core.errors import Failure, InputError
from ksame.core.faces import FaceSet
from ksame.core.geometry import (
    FRAME,
    MESH,
    distinct_meshes,
    eye_distance_and_turn,
    register_faces,
    replaced_boxes,
)
from ksame.io.photos import read_pixels
from ksame.io.sources import Source
from ksame.models.landmarks import predict_meshes

# Below this many pixels between the eyes a registered face is a smear that says little of anyone.
MIN_EYE_DISTANCE_PX = 10.0
MIN_PRESENCE = 0.5
# A face counts as a person only from the score that detection usually asks for: what is seen in doubt is
# covered, because k must not count what may be nobody.
MIN_SCORE = 0.6
# How far the nose tip stands beside the middle of the eyes, in their distance: of 1,021 portraits one was
# at 0.33; beyond 0.4 half of the face is out of sight.
MAX_HEAD_TURN = 0.4


class PhotoFaces(NamedTuple):
    """What one photo gave: its usable faces, largest first, or the reason why there are none."""

    boxes: Boxes | None  # all detections, for the journal; None if the photo could not be read
    rgb: NDArray[np.uint8]  # (n, h, w, 3) registered
    points: FloatArray  # (n, 468, 2)
    xyxy: FloatArray  # (n, 4)
    score: FloatArray  # (n,)
    rank: NDArray[np.intp]  # (n,): which of the photo's faces, by size
    unusable: FloatArray  # (c, 4): boxes of the others
    reason: str = ""


@dataclass(frozen=True, eq=False)
class AnalysedPhotos:
    """All faces of all photos; the faces are nobody's yet (``subject`` is empty)."""

    sources: tuple[Source, ...]
    faces: FaceSet
    photo: NDArray[np.intp]  # (n,): which of the photos each face is from
    unusable: tuple[FloatArray, ...]  # for each photo the boxes (c, 4) of faces that cannot be used
    rank: NDArray[np.intp]  # (n,): 0 for the largest face of its photo, which may be one that is unusable
    failures: tuple[Failure, ...]  # photos without a usable face
    readable: tuple[bool, ...] = ()  # for each photo whether it could be read


def analyse_photos(
    sources: Sequence[Source],
    context: Context,
    *,
    scale: float | None = None,
    effort: Effort = "fast",
) -> AnalysedPhotos:
    """Find the faces in every photo.

    Parameters
    ----------
    sources : sequence of Source
        The photos.
    context : Context
        Its checkpoint stores detections, so that an interrupted run can be resumed.
    scale : float, optional
        Size of the registered images relative to the canonical frame; by default that of the photos.
    effort : str
        How thoroughly photos are searched: see ``ksame.analysis.search.search``.

    Raises
    ------
    InputError
        If no photo has a usable face.
    """
    analyse = partial(_analyse_photo, scale=scale or _choose_scale(sources), effort=effort)
    checkpoint = context.checkpoint
    photos: list[tuple[Source, Boxes | None]] = []
    for source in sources:
        stamp = file_stamp(source.pixels, effort)
        photos.append((source, checkpoint.load_boxes(source.name, stamp) if checkpoint else None))
    found: list[PhotoFaces] = []
    with closing(context.map(analyse, photos, stage="finding faces")) as results:
        for (source, known), result in zip(photos, results, strict=True):
            if checkpoint and known is None and result.boxes is not None:
                checkpoint.store_boxes(source.name, file_stamp(source.pixels, effort), result.boxes)
            found.append(result)
    return _concatenate(sources, found)


def _concatenate(sources: Sequence[Source], found: list[PhotoFaces]) -> AnalysedPhotos:
    """Put the faces of all photos side by side."""
    failures = tuple(Failure(s.name, f.reason) for s, f in zip(sources, found, strict=True) if f.reason)
    counts = [len(f.rgb) for f in found]
    if not sum(counts):
        more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
        first = f": {failures[0].input}: {failures[0].reason}{more}." if failures else "."
        raise InputError(f"No face could be used in the {len(sources)} photos given{first}")
    rank = np.concatenate([f.rank for f in found])
    photo = np.repeat(np.arange(len(sources)), counts)
    unusable = tuple(f.unusable for f in found)
    readable = tuple(f.boxes is not None for f in found)
    faces = FaceSet(
        rgb=_stack_images(found),
        points=np.concatenate([f.points for f in found]),
        xyxy=np.concatenate([f.xyxy for f in found]),
        score=np.concatenate([f.score for f in found]),
        source=np.repeat(np.array([s.name for s in sources]), counts),
        subject=np.full(sum(counts), ""),
    )
    return AnalysedPhotos(tuple(sources), faces, photo, unusable, rank, failures, readable)


def _choose_scale(sources: Sequence[Source], *, tries: int = 9, memory: float = 5e8) -> float:
    """Return the scale at which the frame shows faces as large as the photos do, if memory allows.

    A few photos are looked at; a tenth more than their median keeps what two resamplings would blur.
    """
    some = sources[:: max(1, len(sources) // tries)]
    points = [
        found.points
        for found in (_analyse_photo((source, None), scale=0.25, effort="fast") for source in some)
        if len(found.points)
    ]
    if not points:
        return 1.0
    apart, _ = eye_distance_and_turn(np.concatenate(points))
    wanted = 1.1 * np.median(apart) / FRAME.eye_distance
    most = np.sqrt(memory / (len(sources) * 3 * FRAME.width * FRAME.height))
    return float(np.clip(min(wanted, most), 0.5, 3.0))


def _stack_images(found: list[PhotoFaces]) -> NDArray[np.uint8]:
    """Return all images in one array; those of each photo are freed as they are copied."""
    rgb = np.empty((sum(len(f.rgb) for f in found), *found[0].rgb.shape[1:]), np.uint8)
    start = 0
    for index, one in enumerate(found):
        rgb[start : start + len(one.rgb)] = one.rgb
        start += len(one.rgb)
        found[index] = one._replace(rgb=one.rgb[:0].copy())
    return rgb


def _analyse_photo(photo: tuple[Source, Boxes | None], *, scale: float, effort: Effort) -> PhotoFaces:
    """Read one photo and register its faces, detected or known; what is wrong with it becomes the reason."""
    source, known = photo
    try:
        rgb = read_pixels(source)
    except InputError as error:
        return _no_faces(None, str(error), scale)
    boxes = search(rgb, effort=effort) if known is None else known
    points, good = select_usable(rgb, boxes)
    good = distinct_meshes(points, good[boxes.score[good] >= MIN_SCORE])  # several boxes may lead to one face
    if not len(good):
        reason = "no face was found" if not len(boxes) else "its faces are too small or too turned to be used"
        return _no_faces(boxes, reason, scale)
    unusable = np.delete(boxes.xyxy, good, axis=0)
    return PhotoFaces(
        boxes=boxes,
        rgb=register_faces(rgb, points[good], scale=scale),
        points=points[good],
        xyxy=boxes.xyxy[good],
        score=boxes.score[good],
        rank=good,
        unusable=unusable[~is_explained(unusable, replaced_boxes(points[good]))],
    )


def select_usable(rgb: NDArray[np.uint8], boxes: Boxes) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the mesh (n, 468, 2) of every detected face, and the rows of those that can be used."""
    points, presence = predict_meshes(rgb, boxes)
    apart, turn = eye_distance_and_turn(points)
    return points, np.flatnonzero(
        (presence >= MIN_PRESENCE) & (apart >= MIN_EYE_DISTANCE_PX) & (turn <= MAX_HEAD_TURN)
    )


def _no_faces(boxes: Boxes | None, reason: str, scale: float) -> PhotoFaces:
    """Return what a photo without a usable face gives."""
    rgb = np.zeros((0, *FRAME.size(scale)[::-1], 3), np.uint8)
    none = np.zeros
    unusable = boxes.xyxy if boxes is not None else none((0, 4))
    return PhotoFaces(
        boxes, rgb, none((0, MESH, 2)), none((0, 4)), none(0), none(0, np.intp), unusable, reason
    )
