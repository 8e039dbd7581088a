"""Draw the new faces of the appearance model: means of people, and codes that are not.

A mean of people is drawn from their photos at full resolution; any other code is drawn as its
difference from such a mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.faces import FaceSet
from ksame.core.geometry import (
    FRAME,
    INNER_LIPS,
    LEFT_EYE,
    MESH,
    MOUTH_LEFT,
    MOUTH_RIGHT,
    NOSE_TIP,
    PORTRAIT_FACE_XYXY,
    RIGHT_EYE,
    Raster,
    replaced_boxes,
    separate_lips,
    with_ring,
)
from ksame.render.base import Rendered
from ksame.render.blend import Composite, blend_scene
from ksame.render.portrait import FEATHER_EYE_DISTANCES, FloatImage, Surrogate, draw_portrait
from ksame.spaces.appearance import AppearanceSpace, landmarks_on_frame

SHARPNESS_WEIGHT_PX = 6  # a photo half as sharp counts as a mouth this much wider, in pixels of the frame
MAX_CODE_DEVIATIONS = 2.5  # further from the mean there are no faces
BACKDROP_PEOPLE = 25  # at least so many, fewer than twice as many, are the mean that codes differ from
OUTLIER_GREY_LEVELS = 24.0  # difference from the group's median at which a member has half the weight
MIN_MEMBER_WEIGHT = (
    0.25  # relative to others: one member contributes at most 4/5 of a pixel at k = 2, 1/2 at 5
)


@dataclass(frozen=True, eq=False)
class MeanFaceRenderer:
    """Draws each face as its identity's surrogate, with the face's own expression where that is kept."""

    space: AppearanceSpace
    surrogates: Sequence[Surrogate]  # one per identity
    identity: IntArray  # (n,): the surrogate of each face
    points: FloatArray  # (n, m, 2): the landmarks of the faces that are replaced, in their photos
    shapes: FloatArray  # (n, m, 2): and on the canonical frame
    composite: Composite
    expression_delta: FloatArray | None  # (n, d): change of code by expression, where it is kept

    @property
    def face_box(self) -> FloatArray:
        """Return where the face is in a portrait."""
        box: FloatArray = PORTRAIT_FACE_XYXY * (self.surrogates[0].rgb.shape[1] / FRAME.width)
        return box

    def surrogate(self, face: int) -> Hashable:
        """Return the identity of a face, and the face itself where it keeps its expression."""
        return int(self.identity[face]) if self.expression_delta is None else (int(self.identity[face]), face)

    def portrait(self, face: int) -> NDArray[np.uint8]:
        """Return the new face on a plain background."""
        return draw_portrait(self._drawn(face))

    def render(self, image: NDArray[np.uint8], faces: IntArray) -> Rendered:
        """Blend the new faces into a photo; the largest face is nearest and painted last."""
        for face in faces[::-1].tolist():
            new = self._drawn(face)
            posed = self.space.transfer_pose(
                new.shape[:MESH] / (new.rgb.shape[1] / FRAME.width), self.shapes[face]
            )
            image = blend_scene(
                image, self.points[face], new, posed, self.space.ring_triangles, composite=self.composite
            )
        return Rendered(image, replaced_boxes(self.points[faces]))

    def _drawn(self, face: int) -> Surrogate:
        """Return the surrogate of a face, with its expression if that is kept."""
        new = self.surrogates[int(self.identity[face])]
        if self.expression_delta is None or not self.expression_delta[face].any():
            return new
        return _apply_code_changes(self.space, new, self.expression_delta[[face]])[0]


def draw_mean_faces(space: AppearanceSpace, faces: FaceSet, groups: Sequence[IntArray]) -> list[Surrogate]:
    """Draw the mean face of each group of rows, from one photo of each person."""
    shapes = landmarks_on_frame(faces)
    penalty = _photo_penalty(faces, shapes)
    return [_mean_face(space, faces, shapes, penalty, rows) for rows in groups]


def draw_codes(space: AppearanceSpace, faces: FaceSet, codes: FloatArray) -> list[Surrogate]:
    """Draw codes that are no means of photos, as their differences from the mean of all.

    The detail is everybody's; of one person there is only what the code holds.
    """
    people = np.unique(faces.subject)
    some = np.isin(faces.subject, people[:: max(1, len(people) // BACKDROP_PEOPLE)])  # memory is finite
    shapes = landmarks_on_frame(faces)
    mean = _mean_face(space, faces, shapes, _photo_penalty(faces, shapes), np.flatnonzero(some))
    return _apply_code_changes(space, mean, codes - codes.mean(axis=0))


def expression_deltas(space: AppearanceSpace, faces: FaceSet) -> FloatArray:
    """Return gamma' - gamma (n, d): each photo's difference from its person's neutral photo [S 7.2].

    That is one with ``neutral`` in the csv's column ``expression``, or else the one with the calmest mouth.
    """
    codes = space.encode(faces)  # without light and pose: those belong to the photo, not to the expression
    _, who = np.unique(faces.subject, return_inverse=True)
    calmest = np.zeros(who.max() + 1, np.intp)
    neutral = (
        faces.labels["expression"] == "neutral" if "expression" in faces.labels else np.zeros(len(faces))
    )
    order = np.lexsort((-_mouth_openness(landmarks_on_frame(faces)), neutral))  # neutral ones come last
    calmest[who[order]] = order  # the last written is the calmest
    deltas: FloatArray = codes - codes[calmest[who]]
    return deltas


def _mean_face(
    space: AppearanceSpace, faces: FaceSet, shapes: FloatArray, penalty: FloatArray, rows: IntArray
) -> Surrogate:
    """Draw the mean of some faces at the resolution of the photos, one photo of each person."""
    one = _best_photo_each(rows, faces.subject, penalty)
    shares = np.full(len(one), 1 / len(one))
    return draw_mean_face(faces.rgb[one], with_ring(shapes[one]), shares, space.ring_triangles)


def _apply_code_changes(space: AppearanceSpace, face: Surrogate, codes: FloatArray) -> list[Surrogate]:
    """Return the face changed by each difference of codes (n, d)."""
    limit = MAX_CODE_DEVIATIONS * space.deviation
    codes = np.clip(codes, -limit, limit)
    scale = face.rgb.shape[1] / FRAME.width
    moved = with_ring(separate_lips(face.shape[:MESH] + space.shape_offset(codes) * scale))
    at = with_ring(space.small_shape)
    return [
        apply_variation(face, shape, space.texture_offset(code), at, space.ring_triangles)
        for shape, code in zip(moved, codes, strict=True)
    ]


def _mouth_openness(shapes: FloatArray) -> FloatArray:
    """Return how far from closed each mouth is: its width and twice its opening."""
    width = np.linalg.norm(shapes[:, MOUTH_RIGHT] - shapes[:, MOUTH_LEFT], axis=1)
    openness: FloatArray = width + 2 * np.ptp(shapes[:, list(INNER_LIPS), 1], axis=1)
    return openness


def _photo_penalty(faces: FaceSet, shapes: FloatArray) -> FloatArray:
    """Return how badly each photo serves to draw its person: open or wide mouth, turned head, blur.

    In pixels of the canonical frame.
    """
    turned = np.abs(shapes[:, NOSE_TIP, 0] - (shapes[..., 0].min(axis=1) + shapes[..., 0].max(axis=1)) / 2)
    sharp = np.array([cv2.Laplacian(rgb[..., 1], cv2.CV_32F).std() for rgb in faces.rgb])
    penalty: FloatArray = _mouth_openness(shapes) + turned - SHARPNESS_WEIGHT_PX * np.log2(sharp + 0.1)
    return penalty


def _best_photo_each(rows: IntArray, subjects: NDArray[Any], penalty: FloatArray) -> IntArray:
    """Return the best photo of each person: a mean of smiling and closed mouths is neither."""
    order = rows[np.argsort(penalty[rows], kind="stable")]
    _, first = np.unique(subjects[order], return_index=True)
    return order[first]


def draw_mean_face(
    rgb: NDArray[np.uint8], shapes: FloatArray, shares: FloatArray, triangles: IntArray
) -> Surrogate:
    """Draw the weighted mean of faces: the mean image on the mean shape.

    Parameters
    ----------
    rgb : (n, h, w, 3)
        Registered images.
    shapes : (n, m, 2)
        Their landmarks on the canonical frame.
    shares : (n,)
        Weights, which sum to 1.
    triangles : (t, 3)
        The mesh.
    """
    height, width = rgb.shape[1:3]
    scale = width / FRAME.width
    shape = np.tensordot(shares, shapes, axes=1) * scale
    raster = Raster.of(shape, triangles, width, height)
    warped = [raster.pull(p, s * scale) for p, s in zip(rgb, shapes, strict=True)]
    weights = _typicality_weights(warped) * _open_mouth_weights(shapes, shape, (height, width))  # (n, h, w)
    weights = np.maximum(weights, MIN_MEMBER_WEIGHT) * shares[:, None, None].astype(np.float32)
    weights /= weights.sum(axis=0)
    mean = np.zeros((height, width, 3), np.float32)
    for weight, image in zip(weights, warped, strict=True):
        mean += weight[..., None] * image
    return Surrogate(mean.round().astype(np.uint8), shape)


def apply_variation(
    face: Surrogate, moved: FloatArray, change: FloatImage, at: FloatArray, triangles: IntArray
) -> Surrogate:
    """Change the shape and colours of a face by the offsets of a code.

    Parameters
    ----------
    face : Surrogate
        The face to change.
    moved : (m, 2)
        The new landmarks, in pixels of the face's image.
    change : (h', w', 3)
        Colours to add, on a mesh with landmarks ``at`` (m, 2).
    """
    height, width = face.rgb.shape[:2]
    raster = Raster.of(moved, triangles, width, height)
    image = raster.pull(face.rgb, face.shape).astype(np.float32) + raster.pull(change, at)
    return Surrogate(np.clip(image, 0, 255).round().astype(np.uint8), moved)


def _typicality_weights(warped: Sequence[NDArray[np.uint8]]) -> FloatImage:
    """Return weights (n, h, w) by the similarity of each member to the others at a pixel.

    Glasses, a fringe or a beard of a single member would otherwise appear as a ghost.
    """
    grey = np.stack([cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in warped])
    n, _, width = grey.shape
    if n < 3:
        return np.ones(grey.shape, np.float32)
    smooth = max(1.0, FEATHER_EYE_DISTANCES * 0.5 * FRAME.eye_distance * width / FRAME.width)
    away = np.abs(grey - np.median(grey, axis=0).astype(np.float32))
    away = np.stack([cv2.GaussianBlur(a, (0, 0), smooth) for a in away])
    like: FloatImage = (1 / (1 + (away / OUTLIER_GREY_LEVELS) ** 2)).astype(np.float32)
    return like


def _open_mouth_weights(shapes: FloatArray, mean: FloatArray, size: tuple[int, int]) -> FloatImage:
    """Return weights (n, h, w) that prefer members with open mouth and eyes inside these regions.

    A closed mouth has no teeth to average, a closed eye no iris.
    """
    n = len(shapes)
    weights = np.ones((n, *size), np.float32)
    if shapes.shape[1] <= max(INNER_LIPS):
        return weights
    for ring in (INNER_LIPS, LEFT_EYE, RIGHT_EYE):
        areas = np.array([cv2.contourArea(s[list(ring)].astype(np.float32)) for s in shapes])
        openness = np.maximum(areas / max(areas.max(), 1e-9), 0.05)
        region = np.zeros(size, np.float32)
        cv2.fillPoly(region, [mean[list(ring)].round().astype(np.int32)], 1.0)
        region = cv2.GaussianBlur(
            region, (0, 0), max(0.8, 0.012 * FRAME.eye_distance * size[1] / FRAME.width)
        )
        weights *= 1 + region * (openness[:, None, None] - 1)
    return weights
