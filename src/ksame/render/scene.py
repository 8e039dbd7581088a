"""Photos with new faces in them, each rendered only when it is written: a large set never lies in memory."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import numpy as np

from ksame import io
from ksame.analysis.search import visible_faces
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.io.photos import read_pixels
from ksame.io.sources import Source
from ksame.render.base import RegionRenderer, SceneRenderer
from ksame.render.cover import cover_boxes, cover_faces
from ksame.render.tone import match_tone

MAX_COVER_ROUNDS = 4  # how often a finished photo is checked, and what is seen in it covered


@dataclass(frozen=True, eq=False)
class ScenePlan:
    """One photo and what happens to it."""

    source: Source
    faces: IntArray  # (r,): rows of the faces to replace, the nearest to the camera first
    covered: FloatArray  # (c, 4): boxes of faces that cannot be replaced well


@dataclass(frozen=True, eq=False)
class RenderedScenes(Mapping[str, bytes]):
    """Published files by name; ``items`` renders them in parallel, in the order of the names."""

    scenes: Mapping[str, ScenePlan]
    renderer: SceneRenderer
    context: Context
    allow_residual: bool = False
    untouched: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> bytes:
        """Return a photo with its faces replaced, encoded as its name says."""
        data, self.untouched[name] = self.render(name)
        return data

    def render(self, name: str) -> tuple[bytes, int]:
        """Return the encoded photo, and in how many places a detector still sees an untouched face."""
        scene = self.scenes[name]
        original = read_pixels(scene.source)
        known = cover_boxes(scene.covered)
        if isinstance(self.renderer, RegionRenderer) and len(scene.faces):
            photo, regions = self.renderer.render_regions(original, scene.faces, scene.covered)
            original, known = photo, np.concatenate([regions, known])  # its tone is right already
        else:
            photo = cover_faces(original, scene.covered)
            if len(scene.faces):
                photo, regions = self.renderer.render(photo, scene.faces)
                known = np.concatenate([regions, known])
        for _ in range(MAX_COVER_ROUNDS):
            data = io.encode(match_tone(photo, original), PurePosixPath(name).suffix)
            written = io.decode(data)  # what is checked is what a reader of the file will see
            left = visible_faces(written, known).xyxy
            if not len(left):
                break
            photo, known = cover_faces(photo, left), np.concatenate([known, cover_boxes(left)])
        return data, len(left)

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
        """Return the names and contents, rendered by the workers."""
        return _ParallelItems(self)

    def inspect(self, name: str, data: bytes) -> int:
        """Return how many faces a detector saw untouched when the photo was finished."""
        return self.untouched[name]


class _ParallelItems(ItemsView[str, bytes]):
    """Items in parallel: joblib holds a few at a time."""

    _mapping: RenderedScenes

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        scenes = self._mapping
        with closing(scenes.context.map(scenes.render, [*scenes], stage="rendering scenes")) as results:
            for name, (data, untouched) in zip(scenes, results, strict=True):
                scenes.untouched[name] = untouched
                if scenes.may_be_written(name):
                    yield name, data
