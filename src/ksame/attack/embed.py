"""Find and embed the faces of images, for an attacker; kept in memory only, and never the pixels."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.analysis.photos import select_usable
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

_BATCH_IMAGES = 8  # images that a worker holds: enough for the networks, little enough for memory


@dataclass(frozen=True, eq=False)
class FaceEmbeddings:
    """n faces in m images, as parallel arrays.

    Parameters
    ----------
    photo : (n,) int
        The image each face is in; faces of one image are adjacent, the largest first.
    xyxy : (n, 4), points : (n, 468, 2)
        Their boxes and meshes, in pixels of their image.
    codes : mapping of str to (n, d)
        Their embeddings by each recogniser.
    features : mapping of str to (n, ...)
        What else was measured.
    failures : mapping of int to str
        Images without a usable face, and why.
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
        """Return the row of the largest face in each of so many images; -1 where there is none."""
        first = np.full(images, -1, np.intp)
        first[self.photo[::-1]] = np.arange(len(self))[::-1]  # the last written is the first of its image
        return first

    def by_size(self, images: Sequence[int]) -> IntArray:
        """Return a row for each entry: the first of an image is its largest face, and so on; else -1."""
        used: Counter[int] = Counter()
        rows = []
        for image in images:
            faces = np.flatnonzero(self.photo == image)
            rows.append(int(faces[used[image]]) if used[image] < len(faces) else -1)
            used[image] += 1
        return np.array(rows, np.intp)

    def meshes_by_image(self, images: Sequence[int]) -> dict[int, FloatArray]:
        """Return the meshes (c, 468, 2) that each image must show, given the image of each face; -1: none."""
        where = np.where(self.photo >= 0, np.asarray(images, np.intp), -1)
        return {int(i): self.points[where == i] for i in np.unique(where[where >= 0])}

    def match_boxes(self, images: Sequence[int], boxes: FloatArray, *, in_place: bool) -> IntArray:
        """Return the face at each box (n, 4) of an image, or its only or largest face; -1: none.

        Parameters
        ----------
        images : sequence of int
            The image of each box.
        boxes : (n, 4) array
            Where the faces were in the originals; NaN if unknown.
        in_place : bool
            Whether faces are surely where they were. Elsewhere, a face that is alone may be anywhere.
        """
        rows, expected = [], Counter(images)
        for image, box in zip(images, boxes, strict=True):
            faces = np.flatnonzero(self.photo == image)
            if not len(faces) or (expected[image] == 1 and not (in_place and np.isfinite(box).all())):
                rows.append(int(faces[0]) if len(faces) else -1)
                continue
            centre = (self.xyxy[faces, :2] + self.xyxy[faces, 2:]) / 2
            distance = np.linalg.norm(centre - (box[:2] + box[2:]) / 2, axis=1)
            nearest = int(np.nanargmin(distance)) if np.isfinite(distance).any() else -1
            is_near = nearest >= 0 and distance[nearest] < (box[2] - box[0]) / 2
            rows.append(int(faces[nearest]) if is_near else -1)
        return np.array(rows, np.intp)

    def rows(self, index: IntArray) -> FaceEmbeddings:
        """Return some faces; -1 is a face that was not found: its values are NaN."""
        at = np.asarray(index, np.intp)

        def take(column: NDArray[Any]) -> NDArray[Any]:
            if not (at < 0).any():
                return column[at]
            # as floats, because only floats have a NaN
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
    stage: str = "embedding faces",
) -> FaceEmbeddings:
    """Embed the faces of every image with all recognisers; equal images are read once.

    Parameters
    ----------
    sources : sequence of Source
        The images.
    recognisers : sequence of Recogniser
        Those that embed.
    features : callable, optional
        What else is measured on each face.
    placed : mapping of int to (c, 468, 2), optional
        Meshes of faces that are known to be in an image: an attacker can point at a face that no detector
        finds. Those that are pointed at come after those that are found.
    jobs, progress : see ``ksame.analysis.photos.analyse_photos``
    stage : str
        The stage that the progress callback gets.
    """
    placed = placed or {}
    distinct, inverse = _distinct_images(sources, placed)
    batches = [distinct[start : start + _BATCH_IMAGES] for start in range(0, len(distinct), _BATCH_IMAGES)]
    tasks = [([(sources[i], placed.get(i)) for i in batch], recognisers, features) for batch in batches]
    images: list[_ImageFaces] = []
    with closing(parallel_map(_embed_batch, tasks, jobs=jobs)) as results:
        for result in results:
            images += result
            if progress:
                progress(stage, len(images), len(distinct))
    return _concatenate([images[i] for i in inverse])


class _ImageFaces(NamedTuple):
    """The faces of one image."""

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
    """Find the faces of a few images, and embed all of them at once with each recogniser."""
    finds = [_find_faces(source, place, recognisers, features) for source, place in batch]
    ends = np.cumsum([len(points) for _, points, *_ in finds])[:-1]
    codes: dict[str, list[NDArray[Any]]] = {}
    for i, one in enumerate(recognisers):
        chips = np.concatenate([chips[i] for _, _, chips, *_ in finds])
        # without a face, the shape and type of the embeddings are those of a blank chip
        made = one.codes(chips) if len(chips) else one.codes(np.zeros((1, *chips.shape[1:]), np.uint8))[:0]
        codes[one.name] = np.split(made, ends)
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
    """Return an image's boxes, meshes, chips for each recogniser, further columns, and what was wrong."""
    reason = ""
    rgb = np.zeros((1, 1, 3), np.uint8)
    xyxy: FloatArray = np.zeros((0, 4))
    points: FloatArray = np.zeros((0, MESH, 2))
    lost = points  # the faces that are pointed at because none was found there
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
    if len(lost):
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
    columns = features(inner, meshes) if features else {}
    made: dict[object, NDArray[np.uint8]] = {}  # several recognisers may share their chips
    views = [(one.chips, one.surroundings) for one in recognisers]
    for chips, surroundings in views:
        if (chips, surroundings) not in made:
            made[chips, surroundings] = chips(rgb, points) if surroundings else chips(inner, meshes)
    return [made[view] for view in views], columns


def _undetected(place: FloatArray, xyxy: FloatArray) -> NDArray[np.bool_]:
    """Return which of the faces that must be there (c, 468, 2) are none of those found (n, 4)."""
    low, high = place.min(axis=1), place.max(axis=1)
    centre = (xyxy[:, :2] + xyxy[:, 2:]) / 2
    off = np.linalg.norm(centre[None] - ((low + high) / 2)[:, None], axis=2)  # (c, n)
    gone: NDArray[np.bool_] = ~(off < (high - low)[:, :1] / 2).any(axis=1)
    return gone


def _inner_faces(rgb: NDArray[np.uint8], points: FloatArray) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return the inside of these faces alone, side by side on grey, with the mean mesh for each of them.

    An attacker who points at a covered face sees hair and background too; what those reveal is measured by
    the background attack, and must not be mixed up with the face here. An ellipse and a mean mesh, because
    a person's outline and landmarks are no longer in the image: two black faces must be equal to the last
    bit.
    """
    inside = np.zeros((FRAME.height, FRAME.width, 1), np.uint8)
    cv2.ellipse(inside, (128, 186), (62, 78), 0, 0, 360, 1, -1)  # eyebrows to mouth, no jaw
    faces = [np.where(inside, register(rgb, mesh), np.uint8(128)) for mesh in points]
    mean = AppearanceSpace.bundled().shape
    return np.hstack(faces), mean + FRAME.width * np.arange(len(faces))[:, None, None] * [1, 0]


def _distinct_images(
    sources: Sequence[Source], placed: Mapping[int, FloatArray]
) -> tuple[list[int], list[int]]:
    """Return the index of each distinct image, and for every source which of those it equals."""
    number: dict[object, int] = {}
    distinct: list[int] = []
    inverse = []
    for i, (_, image) in enumerate(sources):
        key: object = i
        place = placed[i].tobytes() if i in placed else b""
        if isinstance(image, np.ndarray):
            key = (hashlib.sha256(image.tobytes()).digest(), image.shape, image.dtype.str, place)
        elif isinstance(image, Path) and image.is_file():
            key = (hashlib.sha256(image.read_bytes()).digest(), place)
        if key not in number:
            number[key] = len(distinct)
            distinct.append(i)
        inverse.append(number[key])
    return distinct, inverse


def _concatenate(images: Sequence[_ImageFaces]) -> FaceEmbeddings:
    """Put the faces of all images into one table."""

    def column(
        part: Callable[[_ImageFaces], Mapping[str, NDArray[Any]]],
    ) -> Iterator[tuple[str, NDArray[Any]]]:
        for name in part(images[0]) if images else ():
            yield name, np.concatenate([part(image)[name] for image in images])

    return FaceEmbeddings(
        photo=np.repeat(np.arange(len(images)), [len(image.points) for image in images]),
        xyxy=np.concatenate([np.zeros((0, 4)), *(image.xyxy for image in images)]),
        points=np.concatenate([np.zeros((0, MESH, 2)), *(image.points for image in images)]),
        codes=dict(column(lambda image: image.codes)),
        features=dict(column(lambda image: image.features)),
        failures={i: image.reason for i, image in enumerate(images) if image.reason},
    )


def concatenate_embeddings(parts: Sequence[FaceEmbeddings]) -> FaceEmbeddings:
    """Return faces of several sets of images as one table; ``photo`` keeps counting within each set."""
    features = set.intersection(*(set(part.features) for part in parts))
    return FaceEmbeddings(
        photo=np.concatenate([part.photo for part in parts]),
        xyxy=np.concatenate([part.xyxy for part in parts]),
        points=np.concatenate([part.points for part in parts]),
        codes={name: np.concatenate([part.codes[name] for part in parts]) for name in parts[0].codes},
        features={
            name: np.concatenate([part.features[name] for part in parts])
            for name in parts[0].features
            if name in features
        },
    )
