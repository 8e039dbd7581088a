"""What is left: faces in a finished picture that nothing explains, seen by a second detector."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.tracking.propagate import is_same_face, mesh_box
from ksame.core.arrays import FloatArray
from ksame.core.boxes import Boxes, is_explained
from ksame.core.geometry import crop
from ksame.models.detectors import DETECTORS, residual, resize_image
from ksame.models.landmarks import predict_meshes

__all__ = ["grow_boxes", "residual_faces"]

SEARCH_SIDE_PX = 640  # px: the longest side at which the second detector searches
SURE_SCORE = 0.75  # the score from which the second detector needs nobody to agree
BOX_TOLERANCE_PX = 10.0  # px by which a track's box may be off at each side
CONFIRM_VIEW_PX = 256  # px: the closer view that the first detector is given where the second is in doubt


def residual_faces(rgb: NDArray[np.uint8], covered: FloatArray, number: int | None = None) -> FloatArray:
    """Return the boxes (n, 4) of the faces outside covered ones (m, 4) that a second detector sees.

    Where it is not sure it takes hands, shirts and curtains for faces, in one picture in three. There a
    second witness is asked, at the picture's own size: the mesh, or the first detector in a closer view. If
    what that sees is a covered face, it was this one.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        What would be published.
    covered : (m, 4) array
        The faces that were replaced, covered, or asked to stay.
    number : int, optional
        That of a picture among others, one after another: faces that lie down and faces larger than the
        picture last a while, and are not looked for in each. By default they are.
    """
    turns, wide = ((1, 2, 3), True) if number is None else _search_plan(number)
    small, known = min(1.0, SEARCH_SIDE_PX / max(rgb.shape[:2])), grow_boxes(covered)
    left = residual(resize_image(rgb, small), known * small, turns=turns, wide=wide)
    left = left.moved(lambda points: points / small)
    doubted = np.flatnonzero(left.score < SURE_SCORE)
    denied = [
        row for row in doubted.tolist() if is_explained(_confirming_boxes(rgb, left[[row]]), known).all()
    ]
    return np.delete(left.xyxy, denied, axis=0)


def _search_plan(number: int) -> tuple[tuple[int, ...], bool]:
    """Return by which quarter turns a picture is searched, and whether with room around it.

    Examples
    --------
    >>> [_search_plan(number) for number in range(5)]
    [((1,), True), ((), False), ((), False), ((2,), True), ((), False)]
    """
    return ((), False) if number % 3 else ((1 + number // 3 % 3,), True)


def _confirming_boxes(rgb: NDArray[np.uint8], face: Boxes) -> FloatArray:
    """Return where (n, 4) a mesh fits on what may be a face, and where the first detector sees one."""
    meshes, presence = predict_meshes(rgb, face)
    centre, scale = face.xyxy[0].reshape(2, 2).mean(axis=0), CONFIRM_VIEW_PX / (3 * np.ptp(face.xyxy[0, ::2]))
    matrix = np.hstack(
        [scale * np.eye(2), (CONFIRM_VIEW_PX / 2 - scale * centre)[:, None]]
    )  # thrice the box, enlarged
    seen = DETECTORS["yunet"][0](crop(rgb, matrix, CONFIRM_VIEW_PX, CONFIRM_VIEW_PX)).xyxy
    seen = seen[is_same_face(np.array([1.0, 1, 2, 2]) * CONFIRM_VIEW_PX / 3, seen)]
    there = (seen.reshape(-1, 2, 2) - CONFIRM_VIEW_PX / 2) / scale + centre
    return np.concatenate([mesh_box(meshes[presence >= 0.5]), there.reshape(-1, 4)])


def grow_boxes(boxes: FloatArray) -> FloatArray:
    """Return boxes (n, 4) a quarter larger: a detector's box of a new face is not quite the track's.

    Those of small faces by more: there it sees the head, with hair or a turban.
    """
    half = np.maximum((boxes[:, 2:] - boxes[:, :2]) / 8, BOX_TOLERANCE_PX)
    return np.hstack([boxes[:, :2] - half, boxes[:, 2:] + half])
