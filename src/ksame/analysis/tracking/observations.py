"""What was observed of faces in a video, as parallel arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.tracking.mesh_store import Meshes
from ksame.analysis.tracking.propagate import (
    RGB,
)
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.geometry import MESH

__all__ = ["EmbedCallback", "FrameLike", "Observations"]


EmbedCallback = Callable[[RGB, FloatArray], FloatArray]
"""From a picture and meshes (n, 468, 2) to codes (n, d)."""


class FrameLike(Protocol):
    """One picture of a video; ``io.ClipFrame`` is one."""

    @property
    def index(self) -> int:
        """Its number, from 0."""

    @property
    def rgb(self) -> RGB:
        """The pixels (h, w, 3)."""


@dataclass(frozen=True, eq=False)
class Observations:
    """n sightings of faces as parallel arrays, in the order of pictures.

    Parameters
    ----------
    width, height, frames : int
        Size and number of the pictures.
    cuts : (c,) int
        Pictures that begin another scene.
    frame : (n,) int
        The picture.
    chain : (n,) int
        Sightings of one chain were followed from picture to picture: they are one face.
    xyxy : (n, 4) float32
        What the face takes up: the detector's box and the mesh with its forehead.
    score : (n,) float32
        The detector's confidence; 0 where the face was only followed.
    shape : (n, 468, 2) int16
        The mesh, an array or on a shelf; ``unpack`` gives it in pixels.
    presence : (n,) float32
        How surely the mesh is a face, in [0, 1].
    codes : tuple of ((d,) array or None)
        What a recogniser made of a few good views.
    """

    width: int
    height: int
    frames: int
    cuts: NDArray[np.intp]
    frame: NDArray[np.intp]
    chain: NDArray[np.intp]
    xyxy: NDArray[np.float32]
    score: NDArray[np.float32]
    shape: Meshes
    presence: NDArray[np.float32]
    codes: tuple[FloatArray | None, ...]

    def __post_init__(self) -> None:
        """Check that the arrays are parallel."""
        n = len(self.frame)
        shapes = {"xyxy": (n, 4), "shape": (n, MESH, 2), "chain": (n,), "score": (n,), "presence": (n,)}
        for name, wanted in shapes.items():
            if getattr(self, name).shape != wanted:
                raise UsageError(f"{name} must be {wanted}. Got {getattr(self, name).shape}.")
        if len(self.codes) != n:
            raise UsageError(f"codes must have one entry per sighting: {n}. Got {len(self.codes)}.")

    def __len__(self) -> int:
        """Return the number of sightings."""
        return len(self.frame)
