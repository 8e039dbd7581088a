"""Hats, hands and neighbours that nobody asked for: told by what a generator has in mind at a glance.

A generator knows that it draws a hat before it draws it: one line through a layer of 16 x 16 tells. Pixels of
a glance do not (half of all hands), and styles less well. What was learnt, and how, is on the card.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.models.generator import ImageGenerator

__all__ = ["ARTIFACT_KINDS", "ArtifactDetector"]

ARTIFACT_KINDS = ("hat", "hand", "neighbour")
"""Hats and scarves; hands and what is held before a face; pieces of other people at the edge."""
_NAME = "artifacts.npz"


@dataclass(frozen=True, eq=False)
class ArtifactDetector:
    """How to tell what nobody asked for, learnt from labelled pictures of one generator.

    Parameters
    ----------
    generator : str
        The digest of the generator.
    slope, level : (kinds, c, places), (kinds,)
        Of the layer within: a sum above 0 is there.
    """

    generator: str
    slope: FloatArray
    level: FloatArray

    @classmethod
    @cache
    def bundled(cls) -> Self:
        """Return what comes with the package: learnt from MobileStyleGAN."""
        file = files("ksame").joinpath("models", "data", _NAME)
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            slope = stored["slope"].astype(np.float64) * stored["step"]
            return cls(str(stored["generator"]), slope, stored["level"].astype(np.float64))

    @classmethod
    def of(cls, generator: ImageGenerator) -> Self | None:
        """Return what is known of a generator; None of all but the shipped one: nobody labelled theirs."""
        known = cls.bundled()
        return known if known.generator == generator.digest else None

    def seen(self, inner: NDArray[np.float32]) -> list[dict[str, float]]:
        """Return for each glance (n, c, 8, 8) how surely each kind is there; above 0 it rather is."""
        flat = inner.reshape(len(inner), -1).astype(np.float64)
        sure = flat @ self.slope.reshape(len(ARTIFACT_KINDS), -1).T + self.level
        return [dict(zip(ARTIFACT_KINDS, row.tolist(), strict=True)) for row in sure]
