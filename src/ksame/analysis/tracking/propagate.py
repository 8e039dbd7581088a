"""Propagate a face from frame to frame by its mesh and the motion of its surroundings."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.boxes import Boxes
from ksame.core.geometry import (
    FRAME,
    MESH,
    SKIN_POINTS,
    crop,
    eye_distance_and_turn,
    five_points,
    mean_mesh,
    similarity,
    to_frame,
    transform,
    with_ring,
)
from ksame.models.detectors import DETECTORS
from ksame.models.landmarks import enclosing_square, eye_line_roll, predict_mesh

__all__ = [
    "Tracklet",
    "detect_near",
    "estimate_motion",
    "find_mesh_in_box",
    "fit_by_five_points",
    "fit_mesh_to_box",
    "is_same_face",
    "is_within_reach",
    "mesh_box",
    "occlusion_presence",
    "pack_meshes",
    "propagate_mesh",
    "union_box",
    "unpack_meshes",
]

RGB = NDArray[np.uint8]  # (h, w, 3)
Grey = NDArray[np.uint8]  # (h, w)
MIN_PRESENCE = 0.5  # for a mesh to count as a face
MIN_DRAWN_PRESENCE = 0.99  # for a face to be drawn: above 0.9999 if unoccluded, 0.5 to 0.99 if occluded
MIN_DRAWN_EYE_DISTANCE_PX = 8.0  # for a face to be drawn
SMALL_EYE_DISTANCE_PX = 20.0  # below it, the mesh network often misses a face
SMALL_FACE_MIN_SCORE = 0.85  # detection score of such faces, which the detector does find
MESH_STEPS_PER_SIDE = 8192  # resolution of a packed mesh in its box: 1.9 kB instead of 7.5
SKIN_VIEW_REDUCTION = 8  # factor by which the canonical frame is reduced to sample skin
# Limits of log light and of colour share by which a spot differs from skin, and number of 17 spots above them
# in a half occluded face: 2 are with hair in the face, or in the half shade of a hood.
OCCLUSION_THRESHOLDS, OCCLUDED_SPOTS_MAX = (0.5, 0.05), 4
FRONTAL_TURN_MAX = 0.3  # of a head that appears frontal: see ``eye_distance_and_turn``
OUTSIDE_SHARE_MAX = 0.25  # share of a mesh that may be outside the frame
OUTSIDE_PRESENCE_MAX = 0.9  # presence of a face further outside: it is tracked, not drawn
CODE_INTERVAL_FRAMES = 15  # frames between two embeddings of a tracklet


@dataclass(eq=False)
class Tracklet:
    """A face that is being tracked."""

    name: int
    mesh: FloatArray  # (468, 2) in its last frame
    frame: int  # its last frame
    speed: FloatArray = field(default_factory=lambda: np.zeros(2))  # px per frame
    sure: bool = False  # whether the last mesh was a face
    firm: bool = False  # whether any mesh was a face
    lost: int = 0  # frames since it was found
    meshed: int = -CODE_INTERVAL_FRAMES  # frame of the last mesh predicted from a detection
    coded: int = -CODE_INTERVAL_FRAMES  # frame of the last embedding
    codes: int = 0

    def found(self, mesh: FloatArray, frame: int, *, sure: bool) -> None:
        """Update the tracklet with a new mesh."""
        step = (mesh.mean(axis=0) - self.mesh.mean(axis=0)) / max(1, abs(frame - self.frame))
        self.speed = step if abs(frame - self.frame) == 1 else 0 * step
        self.mesh, self.frame, self.sure, self.lost = mesh, frame, sure, 0
        self.firm |= sure


def pack_meshes(mesh: FloatArray, xyxy: FloatArray) -> NDArray[np.int16]:
    """Return meshes (..., 468, 2) relative to their boxes (..., 4), in steps of 1/8192 of the longer side."""
    centre, side = _frame_of(xyxy)
    steps = (mesh - centre[..., None, :]) * (MESH_STEPS_PER_SIDE / side[..., None, None])
    return np.clip(np.rint(steps), -32767, 32767).astype(np.int16)


def unpack_meshes(shape: NDArray[np.int16], xyxy: FloatArray) -> FloatArray:
    """Return meshes (..., 468, 2) in pixels.

    Examples
    --------
    >>> mesh = np.linspace(20, 80, 468 * 2).reshape(468, 2)
    >>> box = np.array([10.0, 10, 90, 90])
    >>> bool(np.abs(unpack_meshes(pack_meshes(mesh, box), box) - mesh).max() < 0.01)
    True
    """
    centre, side = _frame_of(xyxy)
    mesh: FloatArray = shape * (side[..., None, None] / MESH_STEPS_PER_SIDE) + centre[..., None, :]
    return mesh


def _frame_of(xyxy: FloatArray) -> tuple[FloatArray, FloatArray]:
    box = np.asarray(xyxy, dtype=np.float64)
    return (box[..., :2] + box[..., 2:]) / 2, np.maximum((box[..., 2:] - box[..., :2]).max(axis=-1), 1.0)


def mesh_box(mesh: FloatArray) -> FloatArray:
    """Return the boxes (..., 4) of meshes (..., 468, 2) including the forehead."""
    ring = with_ring(mesh)[..., MESH:, :]
    return np.concatenate([ring.min(axis=-2), ring.max(axis=-2)], axis=-1)


def union_box(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the smallest box (4,) that contains two boxes."""
    return np.concatenate([np.minimum(a[:2], b[:2]), np.maximum(a[2:], b[2:])])


def is_same_face(own: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
    """Return which boxes (n, 4) are the face in a box: large overlap, or one contains most of the other."""
    low, high = np.maximum(own[:2], others[:, :2]), np.minimum(own[2:], others[:, 2:])
    common = np.clip(high - low, 0, None).prod(axis=1)
    area, theirs = (own[2:] - own[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1)
    alike, within = common > 0.3 * (area + theirs - common), common > 0.8 * np.minimum(area, theirs)
    return np.asarray(alike | within)


def propagate_mesh(rgb: RGB, chain: Tracklet) -> tuple[FloatArray, float]:
    """Predict mesh and presence of a face at the position given by its last mesh and speed."""
    best = chain.mesh, 0.0
    for speed in (chain.speed, 0 * chain.speed) if chain.speed.any() else (chain.speed,):
        start = chain.mesh + speed
        roll = eye_line_roll(five_points(start))
        centre, side = enclosing_square(start, roll)
        mesh, logit = predict_mesh(rgb, centre, side, roll)
        presence = float(1 / (1 + np.exp(-np.clip(logit, -60, 60))))
        low, high = mesh.min(axis=0), mesh.max(axis=0)
        grown = enclosing_square(mesh, eye_line_roll(five_points(mesh)))[1] / side
        strayed = float(np.linalg.norm((low + high) / 2 - centre)) / side
        if presence > best[1] and 0.7 < grown < 1.4 and strayed < 0.5:
            best = mesh, presence
        if best[1] >= MIN_PRESENCE:
            return best[0], occlusion_presence(rgb, *best)
    return best


def occlusion_presence(rgb: RGB, mesh: FloatArray, presence: float) -> float:
    """Return the presence of a face, limited below ``MIN_DRAWN_PRESENCE`` if much of it is occluded.

    The network is certain of a half face behind an occluder or at the frame's edge, and guesses the other
    half. Occluders differ from skin in light and in colour; shadows differ in light only.
    """
    if ((mesh < 0) | (mesh >= rgb.shape[1::-1])).any(axis=1).mean() > OUTSIDE_SHARE_MAX:
        return min(presence, OUTSIDE_PRESENCE_MAX)
    matrix, size = to_frame(mesh) / SKIN_VIEW_REDUCTION, np.array(FRAME.size(1 / SKIN_VIEW_REDUCTION))
    x, y = np.clip(transform(matrix, mesh[list(SKIN_POINTS)]).astype(int), 0, size - 1).T
    seen = crop(rgb, matrix, *size.tolist())[y, x]  # (17, 3)
    grey = seen.sum(axis=1, dtype=np.float64) + 8  # never 0
    shade, colour = np.log(grey / np.median(grey)), seen / grey[:, None]
    other = np.abs(colour - np.median(colour, axis=0)).max(axis=1) > OCCLUSION_THRESHOLDS[1]
    hidden = (other & (np.abs(shade) > OCCLUSION_THRESHOLDS[0])).sum() >= OCCLUDED_SPOTS_MAX
    return min(presence, OUTSIDE_PRESENCE_MAX) if hidden else presence


def fit_by_five_points(rgb: RGB, found: Boxes, mesh: FloatArray, presence: float) -> tuple[FloatArray, float]:
    """Return mesh and presence of a face; for a small face, the mean mesh fitted to the detector's points.

    Small faces can then be drawn: at their size the mean mesh is as good as their own.
    """
    apart, turn = eye_distance_and_turn(found.five[0])
    small = MIN_DRAWN_EYE_DISTANCE_PX <= apart < SMALL_EYE_DISTANCE_PX and turn < FRONTAL_TURN_MAX
    if presence >= MIN_DRAWN_PRESENCE or found.score[0] < SMALL_FACE_MIN_SCORE or not small:
        return mesh, presence
    placed = transform(similarity(five_points(mean_mesh()), found.five[0]), mean_mesh())
    return placed, occlusion_presence(rgb, placed, MIN_DRAWN_PRESENCE)


def fit_mesh_to_box(mesh: FloatArray, xyxy: FloatArray) -> FloatArray:
    """Move and scale a mesh to fit a box."""
    low, high = mesh.min(axis=0), mesh.max(axis=0)
    scale = float(np.sqrt((xyxy[2:] - xyxy[:2]).prod() / max(float((high - low).prod()), 1.0)))
    return np.asarray((mesh - (low + high) / 2) * scale + (xyxy[:2] + xyxy[2:]) / 2)


def find_mesh_in_box(rgb: RGB, mesh: FloatArray, xyxy: FloatArray) -> tuple[FloatArray, float]:
    """Predict mesh and presence of a face in a box, starting from an earlier mesh of it."""
    return propagate_mesh(rgb, Tracklet(0, fit_mesh_to_box(mesh, xyxy), 0))


def estimate_motion(before: Grey, now: Grey, xyxy: FloatArray) -> FloatArray | None:
    """Estimate the similarity (2, 3) of the motion in and around a box; None if it is inconsistent."""
    centre, half = (xyxy[:2] + xyxy[2:]) / 2, xyxy[2:] - xyxy[:2]  # twice the box
    size = before.shape[1::-1]
    low = np.clip(centre - half, 0, size).astype(int)
    high = np.clip(centre + half, 0, size).astype(int)
    if before.shape != now.shape or (high - low).min() < 16:
        return None
    part = before[low[1] : high[1], low[0] : high[0]]
    corners = cv2.goodFeaturesToTrack(part, 80, 0.01, 3)
    if corners is None or len(corners) < 8:
        return None
    start = (corners + low).astype(np.float32)
    end, found, _ = cv2.calcOpticalFlowPyrLK(before, now, start, None, winSize=(15, 15), maxLevel=3)
    hit = found[:, 0] == 1
    if hit.sum() < 8:
        return None
    cv2.setRNGSeed(0)
    move, agree = cv2.estimateAffinePartial2D(start[hit], end[hit], ransacReprojThreshold=2.0)
    if move is None or agree.sum() < 8 or agree.mean() < 0.4:
        return None
    return move if 0.8 < np.sqrt(abs(np.linalg.det(move[:, :2]))) < 1.25 else None


def is_within_reach(chain: Tracklet, xyxy: FloatArray) -> bool:
    """Return whether a box may be the face of a tracklet that was lost some frames ago."""
    own = mesh_box(chain.mesh)
    side, other = (own[2:] - own[:2]).max(), (xyxy[2:] - xyxy[:2]).max()
    far = float(np.linalg.norm((own[:2] + own[2:] - xyxy[:2] - xyxy[2:]) / 2))
    return bool(far <= side * min(1.5, 0.6 + 0.05 * chain.lost) and 0.4 < other / side < 2.5)


def detect_near(rgb: RGB, chain: Tracklet) -> Boxes:
    """Detect a lost face near its last position, upright or rotated to one side; return it or none.

    The second detector runs only if the first finds nothing, and only upright: rotated, it alone found 1
    face in 114. The other direction of rotation is tried next time.
    """
    own = mesh_box(chain.mesh)
    centre, side = (own[:2] + own[2:]) / 2, float((own[2:] - own[:2]).max())
    roll = eye_line_roll(five_points(chain.mesh))
    for name, turn in (("yunet", 0.0), ("blazeface", 0.0), ("yunet", -0.9 if chain.lost % 2 else 0.9)):
        a = 256 / (3 * side) * np.exp(-1j * (roll + turn))
        matrix = np.array([[a.real, -a.imag, 0.0], [a.imag, a.real, 0.0]])
        matrix[:, 2] = 128 - matrix[:, :2] @ centre
        found = _upright(DETECTORS[name][0](crop(rgb, matrix, 256, 256)), matrix)
        found = found[[i for i in range(len(found)) if is_within_reach(chain, found.xyxy[i])]]
        if len(found):
            return found[[int(found.score.argmax())]]
    return Boxes.none()


def _upright(seen: Boxes, matrix: FloatArray) -> Boxes:
    """Return boxes of a rotated view as boxes of the frame, of the same size and centre."""
    back = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2]
    half = (seen.xyxy[:, 2:] - seen.xyxy[:, :2]) / 2 * np.sqrt(abs(np.linalg.det(back[:, :2])))
    centre = transform(back, (seen.xyxy[:, :2] + seen.xyxy[:, 2:]) / 2)
    xyxy = np.concatenate([centre - half, centre + half], axis=1)
    return Boxes(xyxy, seen.score, transform(back, seen.five))
