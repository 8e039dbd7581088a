"""Detect unrequested hats, hands and neighbouring faces in the inner layer of a generator's preview.

A linear classifier of a layer of 16 x 16 finds them before the image is drawn. The pixels of a preview miss
half of all hands, and styles predict them less well. The model card describes the training.
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
"""Hats and scarves; hands and objects held before a face; parts of other people at the edge."""
_NAME = "artifacts.npz"


@dataclass(frozen=True, eq=False)
class ArtifactDetector:
    """A linear detector of artefacts, learnt from labelled images of one generator.

    Parameters
    ----------
    generator : str
        Digest of the generator.
    slope, level : (kinds, c, places), (kinds,)
        Weights of the inner layer and intercepts; a sum above 0 is a detection.
    """

    generator: str
    slope: FloatArray
    level: FloatArray

    @classmethod
    @cache
    def bundled(cls) -> Self:
        """Return the bundled detector, learnt from MobileStyleGAN."""
        file = files("ksame").joinpath("models", "data", _NAME)
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            slope = stored["slope"].astype(np.float64) * stored["step"]
            return cls(str(stored["generator"]), slope, stored["level"].astype(np.float64))

    @classmethod
    def for_generator(cls, generator: ImageGenerator) -> Self | None:
        """Return the detector of a generator; None for all but the bundled one, which alone is labelled."""
        bundled = cls.bundled()
        return bundled if bundled.generator == generator.digest else None

    def detect(self, inner: NDArray[np.float32]) -> list[dict[str, float]]:
        """Return the log odds of each kind for inner layers of previews (n, c, 8, 8)."""
        flat = inner.reshape(len(inner), -1).astype(np.float64)
        log_odds = flat @ self.slope.reshape(len(ARTIFACT_KINDS), -1).T + self.level
        return [dict(zip(ARTIFACT_KINDS, row.tolist(), strict=True)) for row in log_odds]
