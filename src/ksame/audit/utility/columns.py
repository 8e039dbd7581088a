"""What the measures need to know of each face, taken in one look, so that no picture need be kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.audit.utility.expression import distances
from ksame.audit.utility.proportions import proportions
from ksame.core.arrays import FloatArray
from ksame.core.errors import WeightsError
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, crop, register, to_frame, transform
from ksame.models import weights
from ksame.models.attributes import predict_face_attributes
from ksame.models.blendshapes import predict_blendshapes
from ksame.spaces import AppearanceSpace

__all__ = ["face_columns", "missing_notes"]

IMAGE_SIZE = 64, 80  # width and height in pixels
# On the canonical frame: from above the eyebrows to below the lip, cheek to cheek. All of it is face, so
# that hair and ground, which a portrait does not have, are not counted as a loss of the face.
_INNER_BOX = 64.0, 100.0, 192.0, 260.0
_ATTRIBUTE_WEIGHTS = ("gender", "age", "emotion")  # the weights of models.attributes


def face_columns(rgb: NDArray[np.uint8], points: FloatArray) -> Mapping[str, NDArray[Any]]:
    """Return what ``measures`` compares of the n faces in one photo.

    For ``embed_faces(features=face_columns)``.

    Columns whose weights are missing are left out, and ``missing_notes`` says so. A face takes about 35 ms
    on one
    core.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        A photo.
    points : (n, 468, 2) array
        The mesh of each face; n may be 0.

    Returns
    -------
    mapping of str to (n, ...) arrays
        ``picture`` (80, 64) uint8, the inner face in grey; ``appearance``, the appearance code, where 1
        is the model's standard deviation; ``proportions`` (2,), see there; ``gender_score``, ``age``,
        ``smile_score``, ``lightness``, ``ita``
        and where each is sure (``gender_sure``, ``age_sure``, ``smile_sure``, ``skin_sure``), see
        ``models.attributes``; ``predict_blendshapes`` (52,), or ``distances`` (4,) where their network is
        missing.
    """
    columns: dict[str, NDArray[Any]] = {"picture": _image_columns(rgb, points)}
    frames = [register(rgb, mesh) for mesh in points]
    faces = np.stack(frames) if frames else np.zeros((0, FRAME.height, FRAME.width, 3), np.uint8)
    columns["appearance"] = _appearance(faces, points)
    columns["proportions"] = proportions(points)
    if not _missing(_ATTRIBUTE_WEIGHTS):
        columns |= _attribute_columns(faces, points)
    if not _missing(("landmarker",)):
        columns["blendshapes"] = predict_blendshapes(rgb, points)
    else:
        columns["distances"] = distances(points)
    return columns


def missing_notes() -> tuple[str, ...]:
    """Return a sentence for everything that ``face_columns`` cannot measure on this machine."""
    says = []
    looks = _missing(_ATTRIBUTE_WEIGHTS)
    if looks:
        says.append(f"Gender, age, smiles and skin tone were not measured: {looks}")
    shapes = _missing(("landmarker",))
    if shapes:
        says.append(f"Expressions were measured by distances on the face, not by blendshapes: {shapes}")
    return tuple(says)


@cache
def _missing(names: tuple[str, ...]) -> str:
    """Return why some weights cannot be had, or nothing.

    It is asked once in a process: every face must have the same columns.
    """
    try:
        weights.fetch(names)
    except WeightsError as error:
        return str(error)
    return ""


@cache
def _model() -> tuple[AppearanceSpace, float]:
    """Return the shipped model, and the standard deviation of its codes without light and pose."""
    model = AppearanceSpace.bundled()
    return model, float(np.linalg.norm(model.deviation[~model.nuisance]))


def _image_columns(rgb: NDArray[np.uint8], points: FloatArray) -> NDArray[np.uint8]:
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
    nobody = np.full(n, "")
    codes = model.encode(FaceSet(faces, points, np.zeros((n, 4)), np.zeros(n), nobody, nobody))
    return (codes / deviation).astype(np.float32)


def _attribute_columns(faces: NDArray[np.uint8], points: FloatArray) -> dict[str, NDArray[Any]]:
    mesh = [transform(to_frame(p), p) for p in points]
    seen = predict_face_attributes(faces, np.stack(mesh) if mesh else points)
    return {
        "gender_score": seen.gender_score,
        "age": seen.age,
        "smile_score": seen.expression_score,
        "lightness": seen.lightness,
        "ita": seen.ita,
        "gender_sure": seen.sure["gender"],
        "age_sure": seen.sure["age"],
        "smile_sure": seen.sure["expression"],
        "skin_sure": seen.sure["skin"],
    }
