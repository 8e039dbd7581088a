"""Draw the heads of a plan into photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.render.base import Rendered
from ksame.render.cover import cover_boxes, cover_faces
from ksame.render.head.canvas import head_box
from ksame.render.head.cutout import Head
from ksame.render.head.region import template
from ksame.render.head.renderer import PlacedHead, render_heads

__all__ = ["HeadRenderer"]

COVERED_CHIN = 275.0  # canonical y of the chin of a head that is covered
COVERED_MARGIN_PX = 30.0


@dataclass(frozen=True, eq=False)
class HeadRenderer:
    """Sets a head into each photo for every face; where there is none, the whole head is covered."""

    heads: Sequence[Head]
    regions: Sequence[NDArray[np.bool_]]  # of each head, (640, 640)
    head: IntArray  # (n,): the head of each face; -1: it is covered
    placements: Sequence[FloatArray]  # n of (2, 3)

    def render(self, image: NDArray[np.uint8], faces: IntArray) -> Rendered:
        """Return the photo with these faces' heads replaced."""
        return self.render_regions(image, faces, np.zeros((0, 4)))

    def render_regions(self, image: NDArray[np.uint8], faces: IntArray, covered: FloatArray) -> Rendered:
        """Return the photo with these faces' heads replaced, and others covered with what is around them."""
        placed = [
            PlacedHead(self.placements[face], self.heads[number], self.regions[number])
            for face, number in zip(faces.tolist(), self.head[faces].tolist(), strict=True)
            if number >= 0
        ]
        whole = template(COVERED_CHIN, margin=COVERED_MARGIN_PX)
        failed = [head_box(whole, self.placements[face]) for face in faces[self.head[faces] < 0].tolist()]
        boxes = np.concatenate([np.reshape(failed, (-1, 4)), covered])
        result = cover_faces(render_heads(image, placed, boxes), boxes)
        replaced = [head_box(one.region, one.placement) for one in placed]
        return Rendered(result, np.concatenate([np.reshape(replaced, (-1, 4)), cover_boxes(boxes)]))
