"""Renderers: what draws the new faces of a plan, as portraits or into a photo."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray

__all__ = ["ImageRenderer", "PortraitRenderer", "RegionRenderer", "Rendered", "SceneRenderer"]


class Rendered(NamedTuple):
    """A photo with new faces in it."""

    rgb: NDArray[np.uint8]  # (h, w, 3)
    regions: FloatArray  # (m, 4): boxes xyxy of what was replaced


@runtime_checkable
class PortraitRenderer(Protocol):
    """Draws the whole published image of a face; faces are rows of the set that was planned for."""

    @property
    def face_box(self) -> FloatArray | None:
        """Where the surrogate is in a portrait (1, 4); None: every face in it is synthetic."""

    def surrogate(self, face: int) -> Hashable:
        """Return what the portrait depends on: faces with the same surrogate share every byte."""

    def portrait(self, face: int) -> NDArray[np.uint8]:
        """Return the published image of a face."""


@runtime_checkable
class SceneRenderer(Protocol):
    """Draws new faces into a photo."""

    def render(self, image: NDArray[np.uint8], faces: IntArray) -> Rendered:
        """Return the photo with these faces replaced, the first of which is nearest to the camera."""


@runtime_checkable
class RegionRenderer(SceneRenderer, Protocol):
    """Replaces regions of a photo, and reads nothing of what stands in them."""

    def render_regions(self, image: NDArray[np.uint8], faces: IntArray, covered: FloatArray) -> Rendered:
        """Return the photo with these faces replaced, and others (c, 4) covered."""


@dataclass(frozen=True, eq=False)
class ImageRenderer:
    """Portraits that are there already: one for each identity."""

    images: Sequence[NDArray[np.uint8]]
    identity: IntArray  # (n,): the image of each face
    face_box: FloatArray | None

    def surrogate(self, face: int) -> Hashable:
        """Return the identity of a face."""
        return int(self.identity[face])

    def portrait(self, face: int) -> NDArray[np.uint8]:
        """Return the image of a face's identity."""
        return self.images[int(self.identity[face])]
