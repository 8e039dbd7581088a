"""Observations of faces in a video, as parallel arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.tracking.mesh_store import Meshes
from ksame.analysis.tracking.propagate import RGB
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.geometry import MESH

__all__ = ["EmbedCallback", "FrameLike", "Observations"]


EmbedCallback = Callable[[RGB, FloatArray], FloatArray]
"""Map a frame and meshes (n, 468, 2) to embeddings (n, d)."""


class FrameLike(Protocol):
    """A frame of a video, such as ``io.ClipFrame``."""

    @property
    def index(self) -> int:
        """The number of the frame, from 0."""

    @property
    def rgb(self) -> RGB:
        """The pixels (h, w, 3)."""


@dataclass(frozen=True, eq=False)
class Observations:
    """n observations of faces as parallel arrays, in the order of frames.

    Parameters
    ----------
    width, height, frames : int
        Size and number of the frames.
    cuts : (c,) int
        Frames that begin another scene.
    frame : (n,) int
        Number of the frame.
    chain : (n,) int
        Number of the tracklet: its observations were propagated from frame to frame and are one face.
    xyxy : (n, 4) float32
        Extent of the face: the detector's box united with the mesh and its forehead.
    score : (n,) float32
        The detector's confidence; 0 where the face was only propagated.
    shape : (n, 468, 2) int16
        The packed mesh, an array or in a store; ``unpack_meshes`` returns pixels.
    presence : (n,) float32
        Confidence that the mesh is a face, in [0, 1].
    codes : tuple of ((d,) array or None)
        A recogniser's embeddings of a few good views.
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
            raise UsageError(f"codes must have one entry per observation: {n}. Got {len(self.codes)}.")

    def __len__(self) -> int:
        """Return the number of observations."""
        return len(self.frame)
