"""Predict the 468-point mesh of each face, by the mesh network or by a larger landmark network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.boxes import Boxes
from ksame.core.geometry import MESH, crop, five_points, to_frame, transform
from ksame.models.runtime import infer, preload

__all__ = [
    "enclosing_square",
    "eye_line_roll",
    "predict_mesh",
    "predict_meshes",
    "preload_landmarker",
    "refine_landmarks",
    "refine_upright",
]

MESH_INPUT_PX = 192  # side of the network's input
VIEW_MARGIN = 1.5  # side of the view divided by that of the face
# The network's logit was at least 13 on 95 % of 331 upright photos of five sets, and at most 13 on 102 upside
# down, which the detector takes for upright: below this the other three rolls are tried.
UPRIGHT_LOGIT = 15.0
LANDMARKER_INPUT_PX = 256  # side of the input of the larger network, which follows lids, brows and lips
# Scale, shift down (px) and roll (radians) of a face in each view. Brows predicted from two views correlate
# by 0.89 only over the frames of a clip: the mean of several views is more accurate.
LANDMARKER_VIEWS = (1.0, 0.0, 0.0), (0.92, 4.0, 0.03), (1.08, -4.0, -0.03)
_INNER = "face_landmarks_detector.tflite"


def predict_meshes(rgb: NDArray[np.uint8], boxes: Boxes) -> tuple[FloatArray, FloatArray]:
    """Return the mesh of each face, in pixels of the image, and the probability that it is a face.

    The first view is placed by the box and the eyes, the second by the points of the first. This halves the
    effect of shifting the box by 5 %: points move by 1.5 instead of 3.4 % of the distance between the eyes.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        An image.
    boxes : Boxes
        The faces in it.

    Returns
    -------
    points : (n, 468, 2) float64
        The mesh; ``geometry`` names some of its points.
    presence : (n,) float64
        In [0, 1]; below about 0.5 there is no usable face.
    """
    points, logit = np.zeros((len(boxes), MESH, 2)), np.zeros(len(boxes))
    for row in range(len(boxes)):
        points[row], logit[row] = _mesh(rgb, boxes.xyxy[row], boxes.five[row])
    return points, 1 / (1 + np.exp(-np.clip(logit, -60, 60)))


def _mesh(rgb: NDArray[np.uint8], xyxy: FloatArray, five: FloatArray) -> tuple[FloatArray, float]:
    """Return the mesh and the logit of one face."""
    corners = xyxy[[[0, 1], [2, 1], [2, 3], [0, 3]]]
    roll = eye_line_roll(five)
    # the box is aligned with the image whatever the roll of the face
    centre, side = enclosing_square(corners, 0.0)
    best = predict_mesh(rgb, centre, side, roll)
    if best[1] < UPRIGHT_LOGIT:
        others = (predict_mesh(rgb, centre, side, roll + turn * np.pi / 2) for turn in (1, 2, 3))
        best = max(best, *others, key=lambda result: result[1])
    roll = eye_line_roll(five_points(best[0]))
    return predict_mesh(rgb, *enclosing_square(best[0], roll), roll)


def eye_line_roll(five: FloatArray) -> float:
    """Return the angle of the line through the eyes in radians."""
    x, y = five[1] - five[0]
    return float(np.arctan2(y, x))


def enclosing_square(points: FloatArray, roll: float) -> tuple[FloatArray, float]:
    """Return centre and side of the smallest square with this roll around some points."""
    upright = np.array([[np.cos(roll), np.sin(roll)], [-np.sin(roll), np.cos(roll)]])
    turned = points @ upright.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    return (low + high) / 2 @ upright, float(max(*(high - low), 1.0))


def predict_mesh(
    rgb: NDArray[np.uint8], centre: FloatArray, side: float, roll: float
) -> tuple[FloatArray, float]:
    """Return the mesh and the face logit of a rotated square of the image."""
    a = MESH_INPUT_PX / (VIEW_MARGIN * side) * np.exp(-1j * roll)  # as in geometry.similarity: z -> a z + b
    matrix = np.array([[a.real, -a.imag, 0.0], [a.imag, a.real, 0.0]])
    matrix[:, 2] = MESH_INPUT_PX / 2 - matrix[:, :2] @ centre
    view = crop(rgb, matrix, MESH_INPUT_PX, MESH_INPUT_PX)
    mesh, logit = infer("mesh", np.divide(view[None], 255, dtype=np.float32))
    back = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2]
    return transform(back, mesh.reshape(MESH, 3)[:, :2]), float(logit.item())


def refine_landmarks(rgb: NDArray[np.uint8], mesh: FloatArray, *, views: int = 3) -> FloatArray:
    """Return the mesh (468, 2) of the larger network, averaged over upright views around a given mesh."""
    meshes = []
    for view in LANDMARKER_VIEWS[:views]:
        points, matrix = refine_upright(rgb, mesh, view)
        back = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2]
        meshes.append(transform(back, points[:MESH]))
    return np.asarray(np.mean(meshes, axis=0))


def refine_upright(
    rgb: NDArray[np.uint8], mesh: FloatArray, view: tuple[float, float, float] = LANDMARKER_VIEWS[0]
) -> tuple[FloatArray, FloatArray]:
    """Return all 478 points of the larger network, in pixels of its view, and the matrix of the view.

    The last ten are those of the irises. ``view`` is one of ``LANDMARKER_VIEWS``.
    """
    scale, down_px, roll = view
    matrix = to_frame(mesh)
    flat = transform(matrix, mesh)
    low, high = flat.min(axis=0), flat.max(axis=0)
    a = (
        scale * LANDMARKER_INPUT_PX / (VIEW_MARGIN * float((high - low).max())) * np.exp(1j * roll)
    )  # z -> a z + b
    matrix = np.array([[a.real, -a.imag], [a.imag, a.real]]) @ matrix
    middle = transform(matrix, mesh).min(axis=0) + transform(matrix, mesh).max(axis=0)
    matrix[:, 2] += LANDMARKER_INPUT_PX / 2 + np.array([0, down_px]) - middle / 2
    image = np.divide(
        crop(rgb, matrix, LANDMARKER_INPUT_PX, LANDMARKER_INPUT_PX)[None], 255, dtype=np.float32
    )
    points = infer("landmarker", image, inner=_INNER, shape=(1, LANDMARKER_INPUT_PX, LANDMARKER_INPUT_PX, 3))[
        0
    ]
    return points.reshape(-1, 3)[:, :2], matrix


def preload_landmarker() -> None:
    """Load the larger network."""
    preload("landmarker", inner=_INNER, shape=(1, LANDMARKER_INPUT_PX, LANDMARKER_INPUT_PX, 3))
