"""The new faces: a plan says who shares which face, and here they are drawn.

A mean of people is drawn from their photos at full resolution; any other code is drawn as its
difference from such a mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.faces import FaceSet, Space
from ksame.core.geometry import (
    FRAME,
    INNER_LIPS,
    MESH,
    MOUTH_LEFT,
    MOUTH_RIGHT,
    NOSE_TIP,
    separate_lips,
    with_ring,
)
from ksame.core.guarantee import Guarantee
from ksame.render import portrait as render_portrait
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import landmarks_on_frame


class Plan(NamedTuple):
    """Which new face each face gets, and of whom the new faces are made."""

    output: IntArray  # (n,): the new face of each face
    members: tuple[IntArray, ...]  # for each new face, the rows of the faces it is the mean of
    codes: FloatArray  # (n, d): the new codes
    guarantee: Guarantee


@dataclass(frozen=True)
class Surrogates:
    """The picture that stands for each face: drawn ones can be set into a scene."""

    space: Space
    shapes: FloatArray  # (n, m, 2): the old faces' landmarks on the canonical frame
    output: IntArray  # (n,): the new face of each face
    drawn: Sequence[render_portrait.Surrogate]  # one per new face, if the space draws
    images: Sequence[NDArray[np.uint8]]  # one per new face, if it does not
    expression_delta: FloatArray | None  # (n, d): change of code by expression, if it is kept

    def portrait(self, row: int) -> NDArray[np.uint8]:
        """Return the picture published for a face."""
        return (
            render_portrait.draw_portrait(self.of(row)) if self.drawn else self.images[int(self.output[row])]
        )

    def of(self, row: int) -> render_portrait.Surrogate:
        """Return the new face of a face, with its expression if that is kept."""
        face = self.drawn[int(self.output[row])]
        if self.expression_delta is None or not self.expression_delta[row].any():
            return face
        assert isinstance(self.space, AppearanceSpace)  # no other draws
        changed: render_portrait.Surrogate = _apply_code_changes(
            self.space, face, self.expression_delta[[row]]
        )[0]
        return changed


def draw_surrogates(space: Space, faces: FaceSet, plan: Plan, expression: str) -> Surrogates:
    """Make the new faces: drawn at the photos' resolution, or decoded."""
    shapes = landmarks_on_frame(faces)
    if not isinstance(space, AppearanceSpace):
        _, firsts = np.unique(plan.output, return_index=True)
        return Surrogates(space, shapes, plan.output, (), list(space.decode(plan.codes[firsts])), None)
    unfit = _photo_penalty(faces, shapes)
    moved = _expression_deltas(space, faces, _mouth_openness(shapes)) if expression == "keep" else None
    return Surrogates(
        space, shapes, plan.output, _draw_surrogates(space, faces, shapes, unfit, plan), (), moved
    )


def _draw_surrogates(
    space: AppearanceSpace, faces: FaceSet, shapes: FloatArray, unfit: FloatArray, plan: Plan
) -> list[render_portrait.Surrogate]:
    """Draw each new face, at the resolution of the photos."""

    def mean(rows: IntArray) -> render_portrait.Surrogate:
        one = _best_photo_each(rows, faces.subject, unfit)
        shares = np.full(len(one), 1 / len(one))
        return render_portrait.draw_mean_face(
            faces.rgb[one], with_ring(shapes[one]), shares, space.ring_triangles
        )

    if plan.members:
        return [mean(rows) for rows in plan.members]
    # A code that is no mean of photos is drawn as its difference from the mean of all: the detail is
    # everybody's, and of one person only what the code holds.
    people = np.unique(faces.subject)
    some = np.isin(faces.subject, people[:: max(1, len(people) // 25)])  # 25 to 49 of them: memory is finite
    return _apply_code_changes(space, mean(np.flatnonzero(some)), plan.codes - plan.codes.mean(axis=0))


def _apply_code_changes(
    space: AppearanceSpace, face: render_portrait.Surrogate, codes: FloatArray
) -> list[render_portrait.Surrogate]:
    """Return the face changed by each difference of codes (n, d); further than 2.5 sd no face is found."""
    most = 2.5 * space.deviation
    codes = np.clip(codes, -most, most)
    scale = face.rgb.shape[1] / FRAME.width
    moved = with_ring(separate_lips(face.shape[:MESH] + space.shape_offset(codes) * scale))
    at = with_ring(space.small_shape)
    return [
        render_portrait.apply_variation(face, shape, space.texture_offset(code), at, space.ring_triangles)
        for shape, code in zip(moved, codes, strict=True)
    ]


def _expression_deltas(space: AppearanceSpace, faces: FaceSet, mouth: FloatArray) -> FloatArray:
    """Return gamma' - gamma (n, d): each photo's difference from its person's neutral photo [S 7.2].

    That is one with ``neutral`` in the csv's column ``expression``, or else the one with the calmest mouth.
    """
    codes = space.encode(faces)  # without light and pose: those belong to the photo, not to the expression
    _, who = np.unique(faces.subject, return_inverse=True)
    calmest = np.zeros(who.max() + 1, np.intp)
    said = faces.labels["expression"] == "neutral" if "expression" in faces.labels else np.zeros(len(faces))
    order = np.lexsort((-mouth, said))  # a photo that the csv calls neutral comes after all others
    calmest[who[order]] = order  # the last written is the calmest
    moved: FloatArray = codes - codes[calmest[who]]
    return moved


def _mouth_openness(shapes: FloatArray) -> FloatArray:
    """Return how far from calm each mouth is: its width and twice its opening."""
    width = np.linalg.norm(shapes[:, MOUTH_RIGHT] - shapes[:, MOUTH_LEFT], axis=1)
    calm: FloatArray = width + 2 * np.ptp(shapes[:, list(INNER_LIPS), 1], axis=1)
    return calm


def _photo_penalty(faces: FaceSet, shapes: FloatArray) -> FloatArray:
    """Return how ill each photo serves to draw its person: open or wide mouth, turned head, blur.

    All in pixels of the canonical frame; a photo half as sharp counts as 6 of them.
    """
    turned = np.abs(shapes[:, NOSE_TIP, 0] - (shapes[..., 0].min(axis=1) + shapes[..., 0].max(axis=1)) / 2)
    sharp = np.array([cv2.Laplacian(rgb[..., 1], cv2.CV_32F).std() for rgb in faces.rgb])
    unfit: FloatArray = _mouth_openness(shapes) + turned - 6 * np.log2(sharp + 0.1)
    return unfit


def _best_photo_each(rows: IntArray, subjects: NDArray[Any], unfit: FloatArray) -> IntArray:
    """Return each person's fittest photo: a mean of smiling and closed mouths is neither."""
    order = rows[np.argsort(unfit[rows], kind="stable")]
    _, first = np.unique(subjects[order], return_index=True)
    return order[first]
