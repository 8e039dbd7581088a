"""Points, transforms and triangle meshes; (x, y) in pixels, float64, shapes (..., m, 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, Self

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError

# The 468-point face mesh: the indices that the toolkit refers to by name. "Left" is the left of the image.
MESH = 468
LEFT_EYE = (33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246)
RIGHT_EYE = (263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466)
NOSE_TIP, MOUTH_LEFT, MOUTH_RIGHT = 1, 61, 291
STABLE_POINTS = (
    33,
    133,
    168,
    1,
    362,
    263,
)  # eye corners, bridge and tip of the nose: expressions move them least
# fmt: off
BROWS = ((70, 63, 105, 66, 107, 55, 65, 52, 53, 46), (300, 293, 334, 296, 336, 285, 295, 282, 283, 276))
OUTER_LIPS = (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 409, 270, 269, 267, 0, 37, 39, 40, 185)
INNER_LIPS = (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308, 324, 318, 402, 317, 14, 87, 178, 88, 95)
OVAL = (10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377,
        152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109)
# fmt: on
# on the cheeks, the nose and the middle of the forehead: away from beards, hair, brows and glasses
SKIN_POINTS = (36, 50, 101, 117, 118, 205, 266, 280, 330, 346, 347, 425, 5, 195, 197, 9, 151)


BACKGROUND_GREY = 236  # grey level of the background of a portrait, 0 to 255


class CanonicalFrame(NamedTuple):
    """The canonical frame on which faces are registered: its size and the places of five points."""

    width: int
    height: int
    five: FloatArray  # (5, 2): left eye, right eye, nose tip, mouth left, mouth right
    eye_distance: float  # between the first two

    def size(self, scale: float) -> tuple[int, int]:
        """Return width and height of the frame at another scale."""
        return round(self.width * scale), round(self.height * scale)


FRAME = CanonicalFrame(
    256, 320, np.array([[84.0, 136], [172, 136], [128, 186], [94, 228], [162, 228]]), 172 - 84.0
)
PORTRAIT_FACE_XYXY = np.array([[18.0, 30.0, 238.0, 315.0]])  # box of the face of a portrait


@cache
def mean_mesh() -> FloatArray:
    """Return the mean mesh (468, 2) of the bundled appearance model, on the canonical frame."""
    with resources.as_file(resources.files("ksame") / "models" / "data" / "appearance.npz") as path:
        mesh: FloatArray = np.load(path)["shape"]
    mesh.flags.writeable = False
    return mesh


def five_points(points: ArrayLike) -> FloatArray:
    """Return eye centres, nose tip and mouth corners (..., 5, 2) of mesh points (..., 468, 2)."""
    p = np.asarray(points, dtype=np.float64)
    if p.ndim < 2 or p.shape[-2:] != (MESH, 2):
        raise UsageError(f"points must be (..., {MESH}, 2). Got {p.shape}.")
    eyes = [p[..., index, :].mean(axis=-2) for index in (LEFT_EYE, RIGHT_EYE)]
    rest = [p[..., index, :] for index in (NOSE_TIP, MOUTH_LEFT, MOUTH_RIGHT)]
    return np.stack(eyes + rest, axis=-2)


def similarity(source: ArrayLike, target: ArrayLike) -> FloatArray:
    """Return the (2, 3) rotation, scale and shift that maps source to target in the least-squares sense.

    Examples
    --------
    >>> similarity([[0, 0], [1, 0], [0, 1]], [[3, 3], [3, 5], [1, 3]]).round(6).astype(int).tolist()
    [[0, -2, 3], [2, 0, 3]]
    """
    # In complex numbers a similarity is z -> a z + b, and least squares is one division.
    z, w = (np.asarray(p, dtype=np.float64) @ [1, 1j] for p in (source, target))
    z0, w0 = z.mean(), w.mean()
    spread = (np.abs(z - z0) ** 2).sum()
    if z.shape != w.shape or not spread > 0:
        raise UsageError(
            "A similarity needs as many target points as source points, and not all at the same place."
        )
    a = (np.conj(z - z0) * (w - w0)).sum() / spread
    b = w0 - a * z0
    return np.array([[a.real, -a.imag, b.real], [a.imag, a.real, b.imag]])


def transform(matrix: FloatArray, points: ArrayLike) -> FloatArray:
    """Apply a (2, 3) affine matrix to points (..., 2)."""
    result: FloatArray = np.asarray(points, dtype=np.float64) @ matrix[:, :2].T + matrix[:, 2]
    return result


def crop(rgb: NDArray[np.uint8], matrix: FloatArray, width: int, height: int) -> NDArray[np.uint8]:
    """Return the (height, width, 3) crop that an affine matrix maps to, without aliasing when it shrinks.

    Pixels outside the image repeat its border: a black wedge would look like a feature of the face.
    """
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
    if scale < 0.5:  # bilinear sampling skips pixels below one half: shrink by area first
        step = 2 ** int(np.log2(min(1 / scale, *rgb.shape[:2])))  # at least one pixel remains
        left, top, right, bottom = _visible_box(rgb, matrix, (width, height), step)
        part = rgb[top:bottom, left:right]
        h, w = part.shape[:2]  # complete the last block by repeating the border
        part = cv2.copyMakeBorder(part, 0, -h % step, 0, -w % step, cv2.BORDER_REPLICATE)
        rgb = cv2.resize(part, (part.shape[1] // step, part.shape[0] // step), interpolation=cv2.INTER_AREA)
        # pixel centres: x_big = (x_small + 1/2) step - 1/2 + left
        middle = (step - 1) / 2
        matrix = matrix @ np.array([[step, 0, middle + left], [0, step, middle + top], [0, 0, 1]])
    size, border = (width, height), cv2.BORDER_REPLICATE
    warped: NDArray[np.uint8] = cv2.warpAffine(rgb, matrix, size, flags=cv2.INTER_LINEAR, borderMode=border)
    return warped


def _visible_box(
    rgb: NDArray[np.uint8], matrix: FloatArray, size: tuple[int, int], step: int
) -> tuple[int, int, int, int]:
    """Return the box of the image that a crop shows, aligned to blocks of ``step`` pixels."""
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * np.array(size)
    blocks = transform(cv2.invertAffineTransform(matrix), corners) / step
    count = -(-np.array(rgb.shape[1::-1]) // step)  # at least one block, whose edge is repeated
    low = np.clip(np.floor(blocks.min(axis=0)) - 1, 0, count - 1).astype(int) * step
    high = np.clip(np.ceil(blocks.max(axis=0)) + 2, 1, count).astype(int) * step
    return (*low.tolist(), *np.maximum(high, low + step).tolist())


def with_ring(shapes: FloatArray) -> FloatArray:
    """Return meshes (..., 468, 2) with an enlarged face oval added, (..., 504, 2).

    The ring encloses what belongs to a face and lies outside its mesh: the forehead up to the hairline, and
    the edge of cheeks and jaw.
    """
    oval = shapes[..., list(OVAL), :]
    centre = oval.mean(axis=-2, keepdims=True)
    up = np.cos(np.linspace(0, 2 * np.pi, len(OVAL), endpoint=False))  # the oval begins at the top
    factor = 1.05 + 0.13 * np.maximum(up, 0)
    return np.concatenate([shapes, centre + factor[:, None] * (oval - centre)], axis=-2)


def separate_lips(shapes: FloatArray) -> FloatArray:
    """Return upright meshes (n, 468, 2) in which no upper lip lies below the lower one.

    A change of shape can move the lips past each other; the mesh would fold over and tear the texture.
    """
    half = len(INNER_LIPS) // 2
    upper, lower = list(INNER_LIPS[1:half]), list(INNER_LIPS[:half:-1])  # corner to corner, in pairs
    separated = shapes.copy()
    top, bottom = shapes[:, upper, 1], shapes[:, lower, 1]
    middle = (top + bottom) / 2
    separated[:, upper, 1], separated[:, lower, 1] = np.minimum(top, middle), np.maximum(bottom, middle)
    return separated


def align(shapes: FloatArray, target: FloatArray) -> FloatArray:
    """Return shapes (n, m, 2), each aligned to a target (m, 2) by its own similarity."""
    z, w = shapes @ [1, 1j], target @ [1, 1j]  # (n, m), (m,): see ``similarity``
    z, w0 = z - z.mean(axis=1, keepdims=True), w.mean()
    a = np.conj(z) @ (w - w0) / (np.abs(z) ** 2).sum(axis=1)  # (n,)
    moved = a[:, None] * z + w0
    return np.stack([moved.real, moved.imag], axis=-1)


def procrustes(shapes: FloatArray, *, rounds: int = 20) -> tuple[FloatArray, FloatArray]:
    """Return shapes (n, m, 2) without differences in position, size and roll, and their mean [S 3.1.2].

    Generalised Procrustes analysis: align all to the mean and take the mean again until it converges. The
    mean keeps the position and size of the mean of the given shapes.
    """
    first = shapes.mean(axis=0)
    mean, aligned = first, shapes
    for _ in range(rounds):
        aligned = align(shapes, mean)
        new = align(aligned.mean(axis=0)[None], first)[0]  # or it would shrink in every round
        if np.abs(new - mean).max() < 1e-9 * np.ptp(first):
            break
        mean = new
    return aligned, mean


def to_frame(points: FloatArray) -> FloatArray:
    """Return the (2, 3) similarity that registers a mesh by eye centres and nose tip [N 2]."""
    return similarity(five_points(points)[:3], FRAME.five[:3])


def register(rgb: NDArray[np.uint8], points: FloatArray, *, scale: float = 1.0) -> NDArray[np.uint8]:
    """Return the face with these mesh points on the canonical frame, or a scaled copy of it."""
    return crop(rgb, to_frame(points) * scale, *FRAME.size(scale))


def register_faces(rgb: NDArray[np.uint8], points: FloatArray, *, scale: float = 1.0) -> NDArray[np.uint8]:
    """Return the faces with meshes (n, 468, 2), each registered on its own, (n, h, w, 3)."""
    faces = np.empty((len(points), *FRAME.size(scale)[::-1], 3), np.uint8)
    for row, mesh in enumerate(points):
        faces[row] = register(rgb, mesh, scale=scale)
    return faces


def eye_distance_and_turn(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eye distance and turn of the head, of meshes (..., 468, 2) or their five points (..., 5, 2).

    The turn is that of the nose tip beside the middle of the eyes, in their distance: 0 is frontal.
    """
    five = points if points.shape[-2] == len(FRAME.five) else five_points(points)
    eyes = five[..., 1, :] - five[..., 0, :]
    apart = np.maximum(np.linalg.norm(eyes, axis=-1), 1e-9)
    nose = five[..., 2, :] - five[..., :2, :].mean(axis=-2)
    return apart, np.abs((nose * eyes).sum(axis=-1)) / apart**2


def distinct_meshes(points: FloatArray, rows: IntArray) -> IntArray:
    """Return the rows of meshes (n, 468, 2) without those that lie on an earlier one."""
    kept: list[int] = []
    apart, _ = eye_distance_and_turn(points)
    for row in rows.tolist():
        away = np.linalg.norm(points[kept, NOSE_TIP] - points[row, NOSE_TIP], axis=1)
        if not (away < 0.5 * np.maximum(apart[kept], apart[row])).any():
            kept.append(row)
    return np.array(kept, dtype=np.intp)


def replaced_boxes(points: FloatArray) -> FloatArray:
    """Return the boxes (n, 4) of what is replaced where faces have meshes (n, 468, 2)."""
    around = with_ring(points)
    return np.hstack([around.min(axis=1), around.max(axis=1)])


@dataclass(frozen=True, eq=False)
class Raster:
    """A triangle mesh rasterised on a pixel grid: the covered pixels and their barycentric coordinates.

    Parameters
    ----------
    covered : (h, w) bool
        The pixels inside the mesh.
    weights : (p, m) sparse
        One row for each of the p covered pixels: barycentric coordinates on the m points.
    """

    covered: NDArray[np.bool_]
    weights: csr_array

    @classmethod
    def of(cls, target: FloatArray, triangles: IntArray, width: int, height: int) -> Self:
        """Rasterise a mesh with points target (m, 2) and triangles (t, 3).

        Solved in float64: in float32 the error exceeds a thousandth of a pixel.
        """
        corners = np.concatenate([target[triangles], np.ones((len(triangles), 3, 1))], axis=2)  # (t, 3, 3)
        keep = np.abs(np.linalg.det(corners)) > 1e-9  # a triangle without area covers no pixel of its own
        triangles, to_weights = triangles[keep], np.linalg.inv(corners[keep])
        which, x, y = _boxes(target[triangles], width, height)
        a = to_weights[which]  # (c, 3, 3)
        weights = x[:, None] * a[:, 0] + y[:, None] * a[:, 1] + a[:, 2]  # (c, 3) barycentric coordinates
        inside = np.flatnonzero((weights >= -1e-9).all(axis=1))
        # a pixel on an edge is found in both triangles with the same result: one is kept
        pixel, first = np.unique(y[inside] * width + x[inside], return_index=True)
        inside = inside[first]
        covered = np.zeros((height, width), bool)
        covered.flat[pixel] = True
        rows = np.arange(0, 3 * len(inside) + 1, 3)
        cells = (weights[inside].ravel(), triangles[which[inside]].ravel(), rows)
        return cls(covered, csr_array(cells, shape=(len(inside), len(target))))

    def pull(self, image: NDArray[Any], source: FloatArray) -> NDArray[Any]:
        """Warp an image (h', w', c) piecewise so that its points source fall on the target's.

        Pixels that the mesh does not cover are 0.
        """
        at = self.places(source)
        warped: NDArray[Any] = cv2.remap(image, at, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        warped[~self.covered] = 0
        return warped

    def places(self, source: FloatArray) -> NDArray[np.float32]:
        """Return the source position of each pixel, (h, w, 2), for mesh points at source (m, 2)."""
        found = np.zeros((*self.covered.shape, 2), np.float32)
        found[self.covered] = self.weights @ source
        return found


def nearest_covered(covered: NDArray[np.bool_]) -> IntArray:
    """Return for each pixel (h, w) the index of the nearest covered one, in row-major order."""
    outside = (~covered).astype(np.uint8)
    _, label = cv2.distanceTransformWithLabels(outside, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    number = np.zeros(int(label.max()) + 1, np.intp)
    number[label[covered]] = np.arange(int(covered.sum()))
    found: IntArray = number[label]
    return found


def _boxes(corners: FloatArray, width: int, height: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return every pixel in the bounding box of every triangle (t, 3, 2): index of the triangle, x, y."""
    most = np.array([width - 1, height - 1])
    low = np.clip(np.ceil(corners.min(axis=1)), 0, most + 1).astype(np.intp)  # (t, 2)
    size = np.clip(np.floor(corners.max(axis=1)), -1, most).astype(np.intp) - low + 1
    size = np.maximum(size, 0)
    count = size.prod(axis=1)
    which = np.repeat(np.arange(len(corners)), count)
    at = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)  # 0 .. count-1 in each box
    rows, columns = np.divmod(at, size[which, 0])
    return which, low[which, 0] + columns, low[which, 1] + rows


def moving_least_squares(
    source: FloatArray, target: FloatArray, width: int, height: int, *, alpha: float = 1.0, step: int = 8
) -> NDArray[np.float32]:
    """Return the source position of each pixel of the deformed image, (height, width, 2) [S 6.4-6.5].

    Affine moving least squares maps each target point to its source point and interpolates smoothly between
    them. It is solved on a grid of the given step.

    Parameters
    ----------
    source, target : (m, 2) arrays
        Control points in the sampled image and in the resulting one.
    alpha : float
        Weights are 1 / |p - v|^(2 alpha): a larger alpha keeps the effect closer to the points.
    """
    gx, gy = (np.append(np.arange(0, size - 1, step), size - 1).astype(float) for size in (width, height))
    v = np.stack(np.meshgrid(gx, gy), axis=-1).reshape(-1, 1, 2)  # (g, 1, 2)
    p, q = target[None], source[None]  # (1, m, 2): v is in the target image
    w = 1 / np.maximum(((p - v) ** 2).sum(axis=2), 1e-8) ** alpha  # (g, m)
    w /= w.sum(axis=1, keepdims=True)
    p_star, q_star = w @ target, w @ source  # (g, 2): weighted centroids
    p_hat, q_hat = p - p_star[:, None], q - q_star[:, None]  # (g, m, 2)
    weighted = (w[..., None] * p_hat).transpose(0, 2, 1)  # (g, 2, m)
    inner = weighted @ p_hat  # (g, 2, 2)
    inner += 1e-9 * (np.trace(inner, axis1=1, axis2=2)[:, None, None] + 1e-12) * np.eye(2)  # points in a line
    matrix = np.linalg.solve(inner, weighted @ q_hat)  # (g, 2, 2)
    moved = np.einsum("gi,gij->gj", v[:, 0] - p_star, matrix) + q_star - v[:, 0]
    return _interpolate_displacements(moved.reshape(len(gy), len(gx), 2), gx, gy, width, height)


def _interpolate_displacements(
    moved: FloatArray, gx: FloatArray, gy: FloatArray, width: int, height: int
) -> NDArray[np.float32]:
    """Interpolate displacements on grid lines gx, gy to every pixel; add the pixel's own position."""
    x, y = np.arange(width), np.arange(height)
    columns = np.interp(x, gx, np.arange(len(gx))).astype(np.float32)
    rows = np.interp(y, gy, np.arange(len(gy))).astype(np.float32)
    at_x, at_y = np.meshgrid(columns, rows)
    place: NDArray[np.float32] = cv2.remap(moved.astype(np.float32), at_x, at_y, cv2.INTER_LINEAR)
    place[..., 0] += x.astype(np.float32)
    place[..., 1] += y.astype(np.float32)[:, None]
    return place
