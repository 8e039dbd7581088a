"""Photos with new faces in them, each made only when it is written: a large set never lies in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, ItemsView, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.photos import AnalysedPhotos, replaced_boxes
from ksame.analysis.search import Effort, visible_faces
from ksame.core.arrays import FloatArray
from ksame.core.errors import Faceless, Failure
from ksame.core.parallel import parallel_map
from ksame.core.text import fit_name
from ksame.io.sources import Source, read_pixels
from ksame.render.cover import cover_boxes, cover_faces
from ksame.render.tone import match_tone

PaintCallback = Callable[[NDArray[np.uint8], int], NDArray[np.uint8]]
"""Given a photo and a face's row, returns the photo with that face replaced."""

COVER_ROUNDS = 4  # how often a finished photo is checked, and what is seen in it covered
WRITABLE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".mp4", ".m4v", ".mov", ".mkv", ".webm")


@dataclass(frozen=True)
class ScenePolicy:
    """How scenes are searched, and what is done where that is not enough.

    Parameters
    ----------
    search : str
        ``full`` or ``fast``: see ``ksame.analysis.search.search``.
    faceless : str
        Photos in which no detector sees a face: ``publish`` them without their metadata, or ``skip`` them.
    allow_residual : bool
        Whether a photo is published although a face is still seen in it after it was covered.
    """

    search: Effort = "full"
    faceless: Literal["publish", "skip"] = "skip"
    allow_residual: bool = False


DEFAULT_POLICY = ScenePolicy()


@dataclass(frozen=True, eq=False)
class ScenePlan:
    """One photo and what happens to it: rows of faces to replace, boxes to cover."""

    source: Source
    rows: tuple[int, ...]
    replaced: FloatArray  # (r, 4) boxes of those faces
    covered: FloatArray  # (c, 4) boxes of faces that cannot be replaced well


@dataclass(frozen=True, eq=False)
class RenderedScenes(Mapping[str, bytes]):
    """Published files by name; ``items`` makes them in parallel, in the order of the names."""

    scenes: Mapping[str, ScenePlan]
    paint: PaintCallback
    jobs: int | None = None
    allow_residual: bool = False
    untouched: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> bytes:
        """Return a photo with its faces replaced, encoded as its name says."""
        scene = self.scenes[name]
        original = read_pixels(scene.source)
        photo = cover_faces(original, scene.covered)
        for row in reversed(scene.rows):  # the largest face is nearest: it is painted last
            photo = self.paint(photo, row)
        known = np.concatenate([scene.replaced, cover_boxes(scene.covered)])
        for _ in range(COVER_ROUNDS):
            data = io.encode(match_tone(photo, original), PurePosixPath(name).suffix)
            seen = io.decode(data)  # what is looked through is what a reader of the file will see
            left = visible_faces(seen, known).xyxy
            if not len(left):
                break
            photo, known = cover_faces(photo, left), np.concatenate([known, cover_boxes(left)])
        self.untouched[name] = len(left)
        return data

    def may_be_written(self, name: str) -> bool:
        """Return whether a finished photo may be published."""
        return self.allow_residual or not self.untouched[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.scenes)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.scenes)

    def items(self) -> ItemsView[str, bytes]:
        """Return the names and contents, made side by side on all cores."""
        return _ParallelItems(self)

    def inspect(self, name: str, data: bytes) -> int:
        """Return how many faces a second detector saw untouched when the photo was finished."""
        return self.untouched[name]


class _ParallelItems(ItemsView[str, bytes]):
    """Items in parallel: joblib holds a few at a time."""

    _mapping: RenderedScenes

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        scenes = self._mapping
        with closing(parallel_map(scenes.__getitem__, zip(scenes, strict=True), jobs=scenes.jobs)) as made:
            yield from (item for item in zip(scenes, made, strict=True) if scenes.may_be_written(item[0]))


class Painted(NamedTuple):
    """Photos to publish, the file of each face, and the photos in which nobody is replaced."""

    files: RenderedScenes
    outputs: list[str]
    faceless: tuple[Faceless, ...]
    failures: tuple[Failure, ...]


def render_scenes(
    found: AnalysedPhotos,
    paint: PaintCallback,
    *,
    names: str,
    seed: int,
    jobs: int | None,
    policy: ScenePolicy,
) -> Painted:
    """Return the photos with every usable face painted over and the others covered."""
    used = set(found.photo.tolist())
    covered = {photo for photo, boxes in enumerate(found.unusable) if len(boxes)} - used
    empty = {photo for photo, readable in enumerate(found.readable) if readable} - used - covered
    without = sorted(covered | empty if policy.faceless == "publish" else covered)
    published = sorted([*used, *without])
    outputs = published_names([found.sources[photo].name for photo in published], names=names, seed=seed)
    scenes = {}
    for name, photo in sorted(zip(outputs, published, strict=True)):
        rows = np.flatnonzero(found.photo == photo)
        boxes = replaced_boxes(found.faces.points[rows])
        scenes[name] = ScenePlan(found.sources[photo], tuple(rows.tolist()), boxes, found.unusable[photo])
    by_photo = dict(zip(published, outputs, strict=True))
    faceless = tuple(
        Faceless(found.sources[photo].name, by_photo[photo], len(found.unusable[photo])) for photo in without
    )
    done = {one.input for one in faceless}
    failures = tuple(failure for failure in found.failures if failure.input not in done)
    files = RenderedScenes(scenes, paint, jobs, policy.allow_residual)
    return Painted(files, [by_photo[photo] for photo in found.photo.tolist()], faceless, failures)


def published_names(sources: Sequence[str], *, names: str, seed: int, suffix: str | None = None) -> list[str]:
    """Return where each of these is published: under its own name, or under one that tells nothing."""
    kept: dict[str, None] = {}
    for source in sources:
        kept[_kept_name(source, suffix, kept)] = None
    if names == "keep":
        return list(kept)
    # A keyed hash and not the generator's output: published numbers must not give away its state. The key
    # is costly to derive, so that a short seed is not found by trying them all.
    key = hashlib.scrypt(seed.to_bytes(32, "big"), salt=b"ksame names", n=2**14, r=8, p=1, dklen=32)
    hashes = (hashlib.blake2b(str(row).encode(), key=key, digest_size=8) for row in range(len(sources)))
    return [
        f"images/{h.hexdigest()}{PurePosixPath(name).suffix}" for h, name in zip(hashes, kept, strict=True)
    ]


def _kept_name(source: str, suffix: str | None, taken: Container[str]) -> str:
    """Return where a photo is published when its name is kept: in the same tree, and no name twice.

    Without a suffix given, the type stays where we write it, and becomes PNG otherwise.
    """
    path = PurePosixPath("images", source)
    if suffix is None:
        suffix = path.suffix.lower() if path.suffix.lower() in WRITABLE_SUFFIXES else ".png"
    stem, number = path.with_suffix("").as_posix(), 1
    while (name := fit_name(stem, (f"_{number}" if number > 1 else "") + suffix)) in taken:
        number += 1
    return name
