"""Measure features of each face once, so that no image need be kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import WeightsError
from ksame.core.faces import FaceSet
from ksame.core.geometry import (
    FRAME,
    MOUTH_LEFT,
    MOUTH_RIGHT,
    crop,
    five_points,
    register,
    to_frame,
    transform,
)
from ksame.models import weights
from ksame.models.attributes import predict_face_attributes
from ksame.models.blendshapes import predict_blendshapes
from ksame.spaces import AppearanceSpace
from ksame.spaces.generator_space import shape_attributes

__all__ = ["DISTANCES", "PROPORTIONS", "distances", "face_columns", "missing_notes", "proportions"]

IMAGE_SIZE = 64, 80  # width and height of the grey inner face in pixels
# On the canonical frame: from above the eyebrows to below the lip, cheek to cheek. All of it is face:
# hair and background, which a portrait does not have, must not count as a loss.
_INNER_BOX = 64.0, 100.0, 192.0, 260.0
_ATTRIBUTE_WEIGHTS = ("gender", "age", "emotion")  # the weights of models.attributes


def face_columns(rgb: NDArray[np.uint8], points: FloatArray) -> Mapping[str, NDArray[Any]]:
    """Measure what ``measures`` compares of the n faces in one photo; for ``embed_faces(features=...)``.

    Columns whose weights are missing are left out, and ``missing_notes`` says so. A face takes about 35 ms
    on one core.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        A photo.
    points : (n, 468, 2) array
        The mesh of each face; n may be 0.

    Returns
    -------
    mapping of str to (n, ...) arrays
        ``image`` (80, 64) uint8, the inner face in grey; ``appearance``, the appearance code in standard
        deviations of the model; ``proportions`` (2,), see there; ``gender_score``, ``age``,
        ``smile_score``, ``lightness``, ``ita`` and whether each is certain (``gender_sure``, ``age_sure``,
        ``smile_sure``, ``skin_sure``), see ``models.attributes``; ``blendshapes`` (52,), or ``distances``
        (4,) where their network is missing.
    """
    frames = [register(rgb, mesh) for mesh in points]
    faces = np.stack(frames) if frames else np.zeros((0, FRAME.height, FRAME.width, 3), np.uint8)
    columns: dict[str, NDArray[Any]] = {
        "image": _inner_faces(rgb, points),
        "appearance": _appearance(faces, points),
        "proportions": proportions(points),
    }
    if not _missing(_ATTRIBUTE_WEIGHTS):
        columns |= _attribute_columns(faces, points)
    if not _missing(("landmarker",)):
        columns["blendshapes"] = predict_blendshapes(rgb, points)
    else:
        columns["distances"] = distances(points)
    return columns


def missing_notes() -> tuple[str, ...]:
    """Return a sentence for everything that ``face_columns`` cannot measure on this machine."""
    notes = []
    if why := _missing(_ATTRIBUTE_WEIGHTS):
        notes.append(f"Gender, age, smiles and skin tone were not measured: {why}")
    if why := _missing(("landmarker",)):
        notes.append(f"Expressions were measured by distances on the face, not by blendshapes: {why}")
    return tuple(notes)


@cache
def _missing(names: tuple[str, ...]) -> str:
    """Return why some weights are not available, or an empty string; once, so that all columns agree."""
    try:
        weights.fetch(names)
    except WeightsError as error:
        return str(error)
    return ""


@cache
def _model() -> tuple[AppearanceSpace, float]:
    """Return the bundled model, and the standard deviation of its codes without light and pose."""
    model = AppearanceSpace.bundled()
    return model, float(np.linalg.norm(model.deviation[~model.nuisance]))


def _inner_faces(rgb: NDArray[np.uint8], points: FloatArray) -> NDArray[np.uint8]:
    width, height = IMAGE_SIZE
    left, top, right, _ = _INNER_BOX
    scale = width / (right - left)
    images = np.zeros((len(points), height, width), np.uint8)
    for row, mesh in enumerate(points):
        matrix = scale * to_frame(mesh)
        # pixel centres: x_small = (x_big + 1/2) s - 1/2
        matrix[:, 2] += scale * (0.5 - np.array([left, top])) - 0.5
        images[row] = cv2.cvtColor(crop(rgb, matrix, width, height), cv2.COLOR_RGB2GRAY)
    return images


def _appearance(faces: NDArray[np.uint8], points: FloatArray) -> NDArray[np.float32]:
    model, deviation = _model()
    n = len(faces)
    if not n:
        return np.zeros((0, len(model.nuisance)), np.float32)
    unknown = np.full(n, "")
    codes = model.encode(FaceSet(faces, points, np.zeros((n, 4)), np.zeros(n), unknown, unknown))
    return (codes / deviation).astype(np.float32)


def _attribute_columns(faces: NDArray[np.uint8], points: FloatArray) -> dict[str, NDArray[Any]]:
    mesh = [transform(to_frame(p), p) for p in points]
    predicted = predict_face_attributes(faces, np.stack(mesh) if mesh else points)
    return {
        "gender_score": predicted.gender_score,
        "age": predicted.age,
        "smile_score": predicted.expression_score,
        "lightness": predicted.lightness,
        "ita": predicted.ita,
        "gender_sure": predicted.sure["gender"],
        "age_sure": predicted.sure["age"],
        "smile_sure": predicted.sure["expression"],
        "skin_sure": predicted.sure["skin"],
    }


DISTANCES: tuple[str, ...] = ("smile width", "mouth open", "eyes open", "brows raised")
_LIDS = ((159, 145), (386, 374))  # upper and lower, left and right in the image
_BROW_MIDDLES = (105, 334)  # the middle of each brow


def distances(points: FloatArray) -> FloatArray:
    """Measure the width of the mouth, the opening of mouth and eyes, and the height of the brows, (n, 4).

    In units of the distance between the eyes [S 7.5.1]. They replace ``models.blendshapes`` where its
    network is missing.
    """
    five = five_points(points)  # (n, 5, 2)

    def distance(a: FloatArray, b: FloatArray) -> FloatArray:
        length: FloatArray = np.linalg.norm(a - b, axis=-1)
        return length

    upper, lower = (points[:, [lid[side] for lid in _LIDS]] for side in (0, 1))
    lengths = np.stack(
        [
            distance(points[:, MOUTH_LEFT], points[:, MOUTH_RIGHT]),
            distance(points[:, 13], points[:, 14]),  # the centre of the inner lips
            distance(upper, lower).mean(axis=1),
            distance(points[:, list(_BROW_MIDDLES)], five[:, :2]).mean(axis=1),
        ],
        axis=1,
    )
    shares: FloatArray = lengths / np.maximum(distance(five[:, 0], five[:, 1]), 1e-9)[:, None]
    return shares


PROPORTIONS: tuple[str, ...] = ("width of the nose", "fullness of the lips")


def proportions(points: FloatArray) -> FloatArray:
    """Measure the width of the nose and the fullness of both lips (n, 2), as shares of the width of the face.

    They hardly change with the size, position, roll and small turns of a face. Means of many people, and
    generators that were trained on few people of some descent, shift these shares towards those of the
    majority, while the skin tone may stay right. Smiling lips are thinner: compare like with like.

    Parameters
    ----------
    points : (n, 468, 2)
        Meshes.

    Examples
    --------
    >>> mesh = np.zeros((1, 468, 2))
    >>> mesh[0, 454, 0], mesh[0, 358, 0], mesh[0, [13, 14], 1], mesh[0, 17, 1] = 100, 25, 6, 14
    >>> proportions(mesh).tolist()
    [[0.25, 0.14]]
    """
    widths = shape_attributes(points)
    shares: FloatArray = widths[:, 1:3] / widths[:, 3:]  # nose and lips, by the width of the face
    return shares
