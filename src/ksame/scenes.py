"""Photos with new faces in them, each made only when it is written: a large set never lies in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, ItemsView, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ksame import media
from ksame.core import FloatArray
from ksame.faces.detect import residual
from ksame.gather import Gathered, Source, pixels, side_by_side
from ksame.geometry import with_ring
from ksame.render import cover, covered_by
from ksame.text import fit_name
from ksame.tone import match_tone

Paint = Callable[[NDArray[np.uint8], int], NDArray[np.uint8]]
"""Given a photo and a face's row, returns the photo with that face replaced."""

WRITTEN = (".jpg", ".jpeg", ".png", ".webp", ".mp4", ".m4v", ".mov", ".mkv", ".webm")


@dataclass(frozen=True, eq=False)
class Scene:
    """One photo and what happens to it: rows of faces to replace, boxes to cover."""

    source: Source
    rows: tuple[int, ...]
    replaced: FloatArray  # (r, 4) boxes of those faces
    covered: FloatArray  # (c, 4) boxes of faces that cannot be replaced well


@dataclass(frozen=True, eq=False)
class Scenes(Mapping[str, bytes]):
    """Published files by name; ``items`` makes them in parallel, in the order of the names."""

    scenes: Mapping[str, Scene]
    paint: Paint
    jobs: int | None = None
    untouched: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> bytes:
        """Return a photo with its faces replaced, encoded as its name says."""
        scene = self.scenes[name]
        original = pixels(scene.source)
        photo = cover(original, scene.covered)
        for row in reversed(scene.rows):  # the largest face is nearest: it is painted last
            photo = self.paint(photo, row)
        data = media.encode(match_tone(photo, original), PurePosixPath(name).suffix)
        seen = media.decode(data)  # what is looked through is what a reader of the file will see
        self.untouched[name] = len(
            residual(seen, np.concatenate([scene.replaced, covered_by(scene.covered)]))
        )
        return data

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.scenes)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.scenes)

    def items(self) -> ItemsView[str, bytes]:
        """Return the names and contents, made side by side on all cores."""
        return _Side(self)

    def inspect(self, name: str, data: bytes) -> int:
        """Return how many faces a second detector saw untouched when the photo was finished."""
        return self.untouched[name]


class _Side(ItemsView[str, bytes]):
    """Items in parallel: joblib holds a few at a time."""

    _mapping: Scenes

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        scenes = self._mapping
        with closing(side_by_side(scenes.__getitem__, zip(scenes, strict=True), jobs=scenes.jobs)) as made:
            yield from zip(scenes, made, strict=True)


def painted(
    found: Gathered, paint: Paint, *, names: str, seed: int, jobs: int | None
) -> tuple[Scenes, list[str]]:
    """Return the photos with every usable face painted over and the others covered, and each face's file."""
    used = np.unique(found.photo).tolist()
    outputs = file_names([found.sources[photo].name for photo in used], names=names, seed=seed)
    scenes = {}
    for name, photo in sorted(zip(outputs, used, strict=True)):
        rows = np.flatnonzero(found.photo == photo)
        around = with_ring(found.faces.points[rows])
        boxes = np.hstack([around.min(axis=1), around.max(axis=1)])
        scenes[name] = Scene(found.sources[photo], tuple(rows.tolist()), boxes, found.unusable[photo])
    by_photo = dict(zip(used, outputs, strict=True))
    return Scenes(scenes, paint, jobs), [by_photo[photo] for photo in found.photo.tolist()]


def file_names(sources: Sequence[str], *, names: str, seed: int, suffix: str | None = None) -> list[str]:
    """Return where each of these is published: under its own name, or under one that tells nothing."""
    kept: dict[str, None] = {}
    for source in sources:
        kept[_kept(source, suffix, kept)] = None
    if names == "keep":
        return list(kept)
    # A keyed hash and not the generator's output: published numbers must not give away its state. The key
    # is costly to derive, so that a short seed is not found by trying them all.
    key = hashlib.scrypt(seed.to_bytes(32, "big"), salt=b"ksame names", n=2**14, r=8, p=1, dklen=32)
    hashes = (hashlib.blake2b(str(row).encode(), key=key, digest_size=8) for row in range(len(sources)))
    return [
        f"images/{h.hexdigest()}{PurePosixPath(name).suffix}" for h, name in zip(hashes, kept, strict=True)
    ]


def _kept(source: str, suffix: str | None, taken: Container[str]) -> str:
    """Return where a photo is published when its name is kept: in the same tree, and no name twice.

    Without a suffix given, the type stays where we write it, and becomes PNG otherwise.
    """
    path = PurePosixPath("images", source)
    if suffix is None:
        suffix = path.suffix.lower() if path.suffix.lower() in WRITTEN else ".png"
    stem, number = path.with_suffix("").as_posix(), 1
    while (name := fit_name(stem, (f"_{number}" if number > 1 else "") + suffix)) in taken:
        number += 1
    return name
