"""Face sets, and the protocol of spaces of face codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError

__all__ = ["FaceSet", "FaceView", "Space"]


class FaceView(NamedTuple):
    """One view of a person: an image, or a part of one, and the mesh of the face in it."""

    rgb: NDArray[np.uint8]  # (h, w, 3)
    points: FloatArray  # (468, 2)


@dataclass(frozen=True, eq=False)
class FaceSet:
    """n faces as parallel arrays; indexing with a mask or an index array gives a FaceSet.

    Parameters
    ----------
    rgb : (n, h, w, 3) uint8
        The faces registered on the canonical frame (``core.geometry.FRAME``).
    points : (n, m, 2) float
        Landmarks (x, y) in pixels of the source photo.
    xyxy : (n, 4) float
        Boxes in the source photo.
    score : (n,) float
        The detector's confidence.
    source : (n,) str
        The photo that each face is from.
    subject : (n,) str
        Identity of each face. k counts subjects.
    labels : mapping of str to (n,) arrays
        Further columns: gender, expression, any column of a csv.
    """

    rgb: NDArray[np.uint8]
    points: FloatArray
    xyxy: FloatArray
    score: FloatArray
    source: NDArray[np.str_]
    subject: NDArray[np.str_]
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the arrays are parallel."""
        n = len(self)
        if self.rgb.ndim != 4 or self.rgb.shape[3] != 3 or self.rgb.dtype != np.uint8:
            raise UsageError(f"rgb must be (n, h, w, 3) uint8. Got {self.rgb.shape} {self.rgb.dtype}.")
        if self.points.ndim != 3 or self.points.shape[2] != 2:
            raise UsageError(f"points must be (n, m, 2). Got {self.points.shape}.")
        if self.xyxy.shape != (n, 4):
            raise UsageError(f"xyxy must be ({n}, 4). Got {self.xyxy.shape}.")
        columns = {"points": self.points, "score": self.score, "source": self.source, "subject": self.subject}
        for name, column in {**columns, **self.labels}.items():
            if len(column) != n:
                raise UsageError(f"{name} must have one row per face: {n}. Got {len(column)}.")
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.rgb)

    def __getitem__(self, index: slice | NDArray[Any] | list[int]) -> Self:
        """Return the faces that a slice, mask or index array selects."""
        return replace(
            self,
            rgb=self.rgb[index],
            points=self.points[index],
            xyxy=self.xyxy[index],
            score=self.score[index],
            source=self.source[index],
            subject=self.subject[index],
            labels={name: column[index] for name, column in self.labels.items()},
        )


class Space(Protocol):
    """A map from faces to codes and back; ``fit`` returns it fitted, there is no unfitted state."""

    @classmethod
    def fit(cls, faces: FaceSet) -> Self:
        """Learn the space from faces."""

    def encode(self, faces: FaceSet) -> FloatArray:
        """Return one code per face, (n, d)."""

    def decode(self, codes: FloatArray) -> NDArray[np.uint8]:
        """Return one image per code, (n, h, w, 3)."""
