"""Sample, scale and soften images of new faces."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.render.overlay.features import MOUTH_POINTS
from ksame.render.portrait import smoothstep

FloatImage = NDArray[np.float32]
SHAPE_SHARE = 0.6  # of the way to the shape of a pool face with an image: protects, and mouths still move
LIP_EDGE_PX = (
    12.0  # px of the model's frame: transition at the top of the lips, above which the share may differ
)


def shape_weights(shape: FloatArray, upper: float) -> FloatArray:
    """Return the share (468, 1) of the way to a pool face's shape for each point: see ``FaceOverlay.of``."""
    below = np.clip((shape[:, 1:] - shape[MOUTH_POINTS, 1].min()) / LIP_EDGE_PX + 0.5, 0, 1)
    share: FloatArray = upper + (SHAPE_SHARE - upper) * below
    return share


def interpolate_mesh_values(
    target: FloatArray, triangles: IntArray, values: FloatArray, size: tuple[int, ...]
) -> FloatImage:
    """Interpolate values (m, c) of mesh points (m, 2) to every pixel, (h, w, c).

    A fast ``Raster``: exact within triangles, up to half a pixel off at their edges, 0 outside.
    """
    corners, value = target[triangles], values[triangles]  # (t, 3, 2), (t, 3, c)
    edges, rise = corners[:, 1:] - corners[:, :1], value[:, 1:] - value[:, :1]  # (t, 2, 2), (t, 2, c)
    twice = edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]  # (t,) twice the area
    thin = np.abs(twice) < 0.5  # square pixels: shut lids, closed lips
    edges[thin], rise[thin] = np.eye(2), 0
    planes = np.zeros((len(triangles) + 1, 3, values.shape[1]), np.float32)  # value = x a + y b + c
    slope = planes[:-1, :2] = np.linalg.solve(edges, rise)
    middle = corners.mean(axis=1, keepdims=True)
    planes[:-1, 2] = value.mean(axis=1) - (middle @ slope)[:, 0]
    label = np.full(size[:2], len(triangles), np.int32)  # the last plane is 0: outside
    for which, corner in enumerate(np.rint(corners * 8).astype(np.int32)):
        cv2.fillConvexPoly(label, corner, which, cv2.LINE_8, 3)  # in eighths of a pixel
    y, x = np.ogrid[: size[0], : size[1]]
    found = np.empty((*label.shape, values.shape[1]), np.float32)
    for c in range(values.shape[1]):  # channel by channel: gathering whole planes takes three times as long
        a, b, rest = (np.take(planes[:, part, c], label, mode="clip") for part in range(3))
        found[..., c] = a * x.astype(np.float32) + b * y.astype(np.float32) + rest
    # an edge pixel of a slim triangle lies outside it: limit its value to those of the corners
    longest = np.abs(edges).sum(axis=(1, 2))
    slim = np.flatnonzero(np.append(np.abs(twice) < 2 * longest, False)[label])
    low, high = (end(value, axis=1).astype(np.float32)[label.ravel()[slim]] for end in (np.min, np.max))
    flat = found.reshape(-1, values.shape[1])
    flat[slim] = np.clip(flat[slim], low, high)
    return found


def sample_colours(image: FloatImage, places: FloatImage) -> FloatImage:
    """Sample an image at places (h, w, 2), bilinearly."""
    at = np.ascontiguousarray(places)
    colours: FloatImage = cv2.remap(image, at, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return colours


def reduce_image(image: FloatImage, times: int) -> FloatImage:
    """Reduce an image by an integer factor."""
    height, width = image.shape[:2]
    size = width // times, height // times
    less: FloatImage = image if times == 1 else cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return less


def soft_alpha(inside: FloatImage, width: float) -> FloatImage:
    """Return the opacity of a face: 1 up to its contour, fading over the ring, without triangle corners."""
    step = max(3, round(0.03 * width))
    alpha: FloatImage = smoothstep(np.minimum(1.2 * cv2.blur(np.clip(inside, 0, 1), (step, step)), 1))
    return alpha
