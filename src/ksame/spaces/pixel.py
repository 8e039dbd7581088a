"""The pixel space [N 2]: the vector of a registered face's pixels inside a common outline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.geometry import BACKGROUND_GREY, FRAME, OVAL, to_frame, transform

FEATHER_PX = 7  # width of the blend between face and background


@dataclass(frozen=True, eq=False)
class PixelSpace:
    """Registered colour pixels inside one outline that all faces of the set share.

    Parameters
    ----------
    alpha : (h, w) float32
        1 inside the outline, falling to 0 at its edge; only pixels above 0 are encoded.
    """

    alpha: FloatArray

    @classmethod
    def fit(cls, faces: FaceSet) -> Self:
        """Use the mean outline of the set for all faces, so that it reveals no single face."""
        if not len(faces):
            raise UsageError("A face space needs at least one face.")
        height, width = faces.rgb.shape[1:3]
        outlines = [transform(to_frame(p), p[list(OVAL)]) for p in faces.points]
        mask = np.zeros((height, width), np.uint8)
        mean = np.mean(outlines, axis=0) * width / FRAME.width
        outline = cv2.convexHull(mean.round().astype(np.int32))
        cv2.fillConvexPoly(mask, outline, 1, lineType=cv2.LINE_8)
        inside = cv2.distanceTransform(np.pad(mask, 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
        return cls(np.clip(inside / FEATHER_PX, 0, 1).astype(np.float32))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The pixels that are encoded, (h, w)."""
        return self.alpha > 0

    def encode(self, faces: FaceSet) -> FloatArray:
        """Return (n, 3p) float32: the p masked pixels of each registered face."""
        return faces.rgb[:, self.mask].reshape(len(faces), -1).astype(np.float32)

    def decode(self, codes: FloatArray) -> NDArray[np.uint8]:
        """Return images (n, h, w, 3): the pixels on a plain background, with a soft edge."""
        n = len(codes)
        image = np.full((n, *self.alpha.shape, 3), BACKGROUND_GREY, np.uint8)
        alpha = self.alpha[self.mask][:, None]  # (p, 1)
        for row in range(n):  # one at a time: float copies of a large set would not fit in memory
            face = alpha * np.clip(codes[row].reshape(-1, 3), 0, 255) + (1 - alpha) * BACKGROUND_GREY
            image[row, self.mask] = face.round().astype(np.uint8)
        return image
