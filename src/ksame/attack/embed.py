"""What an attacker keeps of pictures: the codes of their faces, in memory only, never the pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.analysis.photos import select_usable
from ksame.attack.background import BackgroundRecogniser
from ksame.attack.recognisers import Recogniser
from ksame.core.arrays import FloatArray, IntArray, ProgressCallback
from ksame.core.context import parallel_map
from ksame.core.errors import InputError
from ksame.core.geometry import FRAME, MESH, register
from ksame.io.photos import read_pixels
from ksame.io.sources import Source
from ksame.models.detectors import detect
from ksame.spaces import AppearanceSpace

FeatureCallback = Callable[[NDArray[np.uint8], FloatArray], Mapping[str, NDArray[Any]]]
"""From a photo and meshes (n, 468, 2) to further columns, each (n, ...)."""

_BATCH_IMAGES = 8  # pictures that a worker holds: enough for the networks, little enough for memory


@dataclass(frozen=True, eq=False)
class FaceEmbeddings:
    """n faces in m pictures, as parallel arrays.

    Parameters
    ----------
    photo : (n,) int
        The picture each face is in; faces of one picture stand together, the largest first.
    xyxy : (n, 4), points : (n, 468, 2)
        Where they are, in pixels of their picture.
    codes : mapping of str to (n, d)
        What each recogniser keeps of them.
    features : mapping of str to (n, ...)
        What else was measured.
    failures : mapping of int to str
        Pictures without a usable face, and why.
    """

    photo: IntArray
    xyxy: FloatArray
    points: FloatArray
    codes: Mapping[str, NDArray[Any]]
    features: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.photo)

    def largest(self, images: int) -> IntArray:
        """Return the row of the largest face in each of so many pictures; -1 where there is none."""
        first = np.full(images, -1, np.intp)
        first[self.photo[::-1]] = np.arange(len(self))[::-1]  # the last written is the first of its picture
        return first

    def rows(self, index: IntArray) -> FaceEmbeddings:
        """Return some faces; -1 is a face that was not found: its numbers are NaN."""
        at = np.asarray(index, np.intp)

        def take(column: NDArray[Any]) -> NDArray[Any]:
            if not (at < 0).any():
                return column[at]
            # as floats, because only they have a NaN
            rows = np.full((len(at), *column.shape[1:]), np.nan, np.result_type(column, np.float32))
            rows[at >= 0] = column[at[at >= 0]]
            return rows

        return FaceEmbeddings(
            photo=np.where(at >= 0, self.photo[at], -1) if len(self) else np.full(len(at), -1),
            xyxy=take(self.xyxy),
            points=take(self.points),
            codes={name: take(column) for name, column in self.codes.items()},
            features={name: take(column) for name, column in self.features.items()},
        )


def embed_faces(
    sources: Sequence[Source],
    recognisers: Sequence[Recogniser],
    *,
    features: FeatureCallback | None = None,
    placed: Mapping[int, FloatArray] | None = None,
    jobs: int | None = None,
    progress: ProgressCallback | None = None,
    stage: str = "looking at faces",
) -> FaceEmbeddings:
    """Look at every picture once, with all recognisers; equal ones are looked at once.

    Parameters
    ----------
    sources : sequence of Source
        The pictures.
    recognisers : sequence of Recogniser
        Who looks.
    features : callable, optional
        What else is measured on each face.
    placed : mapping of int to (c, 468, 2), optional
        Where faces are known to be in a picture: an attacker can point at a face that a detector does not
        see. Those that are pointed at come after those that are found.
    jobs, progress : see ``ksame.analysis.photos.analyse_photos``
    stage : str
        What the watch is told.
    """
    placed = placed or {}
    unlike, which = _distinct_images(sources, placed)
    batches = [unlike[start : start + _BATCH_IMAGES] for start in range(0, len(unlike), _BATCH_IMAGES)]
    tasks = (([(sources[i], placed.get(i)) for i in batch], recognisers, features) for batch in batches)
    views: list[_ImageFaces] = []
    with closing(parallel_map(_embed_batch, tasks, jobs=jobs)) as results:
        for result in results:
            views += result
            if progress:
                progress(stage, len(views), len(unlike))
    return _concatenate([views[i] for i in which])


class _ImageFaces(NamedTuple):
    """One picture's faces."""

    xyxy: FloatArray
    points: FloatArray
    codes: Mapping[str, NDArray[Any]]
    features: Mapping[str, NDArray[Any]]
    reason: str


def _embed_batch(
    batch: Sequence[tuple[Source, FloatArray | None]],
    recognisers: Sequence[Recogniser],
    features: FeatureCallback | None,
) -> list[_ImageFaces]:
    """Find the faces of a few pictures, and have all recognisers look at all of them at once."""
    finds = [_find_faces(source, place, recognisers, features) for source, place in batch]
    ends = np.cumsum([len(points) for _, points, *_ in finds])[:-1]
    codes: dict[str, list[NDArray[Any]]] = {}
    for i, who in enumerate(recognisers):
        chips = np.concatenate([chips[i] for _, _, chips, *_ in finds])
        # codes of no face, for the shape and type, would need a face: ask with a blank one
        made = who.codes(chips) if len(chips) else who.codes(np.zeros((1, *chips.shape[1:]), np.uint8))[:0]
        codes[who.name] = np.split(made, ends)
    return [
        _ImageFaces(xyxy, points, {name: parts[at] for name, parts in codes.items()}, more, reason)
        for at, (xyxy, points, _, more, reason) in enumerate(finds)
    ]


def _find_faces(
    source: Source,
    place: FloatArray | None,
    recognisers: Sequence[Recogniser],
    features: FeatureCallback | None,
) -> tuple[FloatArray, FloatArray, list[NDArray[np.uint8]], Mapping[str, NDArray[Any]], str]:
    """Return one picture's boxes, meshes, chips for each recogniser, further columns, and what was wrong."""
    reason = ""
    rgb = np.zeros((1, 1, 3), np.uint8)
    xyxy: FloatArray = np.zeros((0, 4))
    points: FloatArray = np.zeros((0, MESH, 2))
    lost = points
    try:
        rgb = read_pixels(source)
    except InputError as error:
        reason = str(error)
    else:
        boxes = detect(rgb)
        mesh, good = select_usable(rgb, boxes)
        xyxy, points = boxes.xyxy[good], mesh[good]
        reason = "" if len(good) else "no face was found"
        lost = points[:0] if place is None else place[_undetected(place, xyxy)]
    parts = [_chips(rgb, rgb, points, points, recognisers, features)] if len(points) or not len(lost) else []
    if len(lost):  # only what is covered: faces that are found are looked at as they are
        inner, meshes = _inner_faces(rgb, lost)
        parts.append(_chips(rgb, inner, lost, meshes, recognisers, features))
        xyxy = np.vstack([xyxy, np.hstack([lost.min(axis=1), lost.max(axis=1)])])
        points = np.concatenate([points, lost])
    chips = [np.concatenate([some[i] for some, _ in parts]) for i in range(len(recognisers))]
    more = {name: np.concatenate([columns[name] for _, columns in parts]) for name in parts[0][1]}
    return xyxy, points, chips, more, reason


def _chips(
    rgb: NDArray[np.uint8],
    inner: NDArray[np.uint8],
    points: FloatArray,
    meshes: FloatArray,
    recognisers: Sequence[Recogniser],
    features: FeatureCallback | None,
) -> tuple[list[NDArray[np.uint8]], Mapping[str, NDArray[Any]]]:
    """Return the chips of some faces for each recogniser, and further columns."""
    made: dict[object, NDArray[np.uint8]] = {}  # several recognisers may look at the same chips
    looks = [(who.chips, isinstance(who, BackgroundRecogniser)) for who in recognisers]
    for view, beyond in looks:
        if (view, beyond) not in made:
            made[view, beyond] = view(rgb, points) if beyond else view(inner, meshes)
    return [made[look] for look in looks], features(inner, meshes) if features else {}


def _undetected(place: FloatArray, xyxy: FloatArray) -> NDArray[np.bool_]:
    """Return which of the faces that must be there (c, 468, 2) are none of those found (n, 4)."""
    low, high = place.min(axis=1), place.max(axis=1)
    centre = (xyxy[:, :2] + xyxy[:, 2:]) / 2
    off = np.linalg.norm(centre[None] - ((low + high) / 2)[:, None], axis=2)  # (c, n)
    gone: NDArray[np.bool_] = ~(off < (high - low)[:, :1] / 2).any(axis=1)
    return gone


def _inner_faces(rgb: NDArray[np.uint8], points: FloatArray) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return nothing but the inside of these faces, side by side on grey, and one mesh for all of them.

    Whoever points at a covered face sees hair and background too; what those tell is for the background
    attack, and would be mixed up with the face here. An ellipse and a mean mesh, because a person's contour
    and landmarks are not in the picture any more: two black faces must be equal to the last bit.
    """
    inside = np.zeros((FRAME.height, FRAME.width, 1), np.uint8)
    cv2.ellipse(inside, (128, 186), (62, 78), 0, 0, 360, 1, -1)  # eyebrows to mouth, no jaw
    faces = [np.where(inside, register(rgb, mesh), np.uint8(128)) for mesh in points]
    mean = AppearanceSpace.bundled().shape
    return np.hstack(faces), mean + FRAME.width * np.arange(len(faces))[:, None, None] * [1, 0]


def _distinct_images(
    sources: Sequence[Source], placed: Mapping[int, FloatArray]
) -> tuple[list[int], list[int]]:
    """Return the first of each kind of equal pictures, and for every source which of those it equals."""
    kinds: dict[object, int] = {}
    firsts: list[int] = []
    which = []
    for i, (_, image) in enumerate(sources):
        key: object = i
        place = placed[i].tobytes() if i in placed else b""
        if isinstance(image, np.ndarray):
            key = (hashlib.sha256(image.tobytes()).digest(), image.shape, image.dtype.str, place)
        elif isinstance(image, Path) and image.is_file():
            key = (hashlib.sha256(image.read_bytes()).digest(), place)
        if key not in kinds:
            kinds[key] = len(firsts)
            firsts.append(i)
        which.append(kinds[key])
    return firsts, which


def _concatenate(views: Sequence[_ImageFaces]) -> FaceEmbeddings:
    """Put the faces of all pictures side by side."""

    def column(
        part: Callable[[_ImageFaces], Mapping[str, NDArray[Any]]],
    ) -> Iterator[tuple[str, NDArray[Any]]]:
        for name in part(views[0]) if views else ():
            yield name, np.concatenate([part(view)[name] for view in views])

    return FaceEmbeddings(
        photo=np.repeat(np.arange(len(views)), [len(view.points) for view in views]),
        xyxy=np.concatenate([np.zeros((0, 4)), *(view.xyxy for view in views)]),
        points=np.concatenate([np.zeros((0, MESH, 2)), *(view.points for view in views)]),
        codes=dict(column(lambda view: view.codes)),
        features=dict(column(lambda view: view.features)),
        failures={i: view.reason for i, view in enumerate(views) if view.reason},
    )
