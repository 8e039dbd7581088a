"""Draw overlays into photos and on portraits; videos draw them frame by frame themselves."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.faces import FaceView
from ksame.core.geometry import (
    BACKGROUND_GREY,
    FRAME,
    PORTRAIT_FACE_XYXY,
    replaced_boxes,
    to_frame,
    transform,
)
from ksame.render.base import Rendered
from ksame.render.cover import cover_faces
from ksame.render.overlay.face_overlay import FaceOverlay, Texture
from ksame.render.overlay.frame_code import encode_frame
from ksame.render.tone import is_monochrome, to_grey


@dataclass(frozen=True, eq=False)
class OverlayRenderer:
    """Draws each person's synthetic identity over their face; who has none is covered."""

    overlays: tuple[FaceOverlay | None, ...]  # one per identity
    identity: IntArray  # (n,): the identity of each face or track
    texture: Texture
    photos: IdentifiedPhotos | None  # None: the faces are in videos

    @property
    def face_box(self) -> FloatArray:
        """Return where the face is in a portrait."""
        return PORTRAIT_FACE_XYXY

    def surrogate(self, face: int) -> Hashable:
        """Return the face itself: every portrait has its photo's expression."""
        return face

    def portrait(self, face: int) -> NDArray[np.uint8]:
        """Return the new face on a plain background; the background alone for whom there is none."""
        background = np.full((FRAME.height, FRAME.width, 3), BACKGROUND_GREY, np.uint8)
        overlay = self.overlays[int(self.identity[face])]
        if overlay is None or self.photos is None:
            return background
        mesh, photo = self.photos.faces.points[face], self.photos.pixels(face)
        code = encode_frame(overlay.model, FaceView(photo, mesh))
        drawn = overlay.draw(background, transform(to_frame(mesh), mesh), code)
        return to_grey(drawn) if is_monochrome(photo) else drawn

    def render(self, image: NDArray[np.uint8], faces: IntArray) -> Rendered:
        """Draw the new faces into a photo; the largest face is nearest and drawn last."""
        assert self.photos is not None
        points, boxes = self.photos.faces.points, self.photos.faces.xyxy
        for face in faces[::-1].tolist():
            overlay = self.overlays[int(self.identity[face])]
            if overlay is None:
                image = cover_faces(image, boxes[[face]])
                continue
            code = encode_frame(overlay.model, FaceView(image, points[face]))
            image = overlay.draw(image, points[face], code, texture=self.texture)
        return Rendered(image, replaced_boxes(points[faces]))
