"""Set a new face into a photo: feathering, colour matching and Poisson blending [S 6.2]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.geometry import (
    MESH,
    OVAL,
    STABLE_POINTS,
    Raster,
    moving_least_squares,
    similarity,
    transform,
    with_ring,
)
from ksame.render.portrait import Surrogate, smoothstep

FloatImage = NDArray[np.float32]
Box = tuple[int, int, int, int]


Composite = Literal["feather", "colour", "poisson"]


def blend_scene(
    photo: NDArray[np.uint8],
    points: FloatArray,
    face: Surrogate,
    shape: FloatArray,
    triangles: IntArray,
    *,
    composite: Composite = "feather",
) -> NDArray[np.uint8]:
    """Put a surrogate in the place of a face in a photo [S 6.2].

    Parameters
    ----------
    photo : (h, w, 3)
        The photo.
    points : (m, 2)
        The landmarks of the face that goes.
    face : Surrogate
        The face that comes.
    shape : (m, 2)
        Its landmarks on the canonical frame, posed as the head is.
    triangles : (t, 3)
        The mesh.
    composite : str
        ``feather``: the group's own colours, fading at the edge. ``colour``: its mean colour brought to
        the photo's. ``poisson``: gradients only, colour from the boundary (6.3).

    Notes
    -----
    The new landmarks are placed by Procrustes on points that hold still in the face, then the background
    is deformed so that the old contour meets the new one (6.4-6.5): nothing of the old face is left
    between them.
    """
    target = with_ring(
        transform(similarity(shape[list(STABLE_POINTS)], points[list(STABLE_POINTS)]), shape[:MESH])
    )
    left, top, right, bottom = padded_box(np.concatenate([target, points]), photo.shape)
    if right <= left or bottom <= top:
        return photo
    new, old = target - (left, top), points - (left, top)
    width, height = right - left, bottom - top
    background = deform_background(photo[top:bottom, left:right], old[list(OVAL)], new[list(OVAL)])
    small, at = _reduce_surrogate(face, new)
    raster = Raster.of(new, triangles, width, height)
    image = raster.pull(small, at).astype(np.float32)
    alpha = np.zeros((height, width), np.float32)
    inner = np.repeat([1.0, 0.0], [MESH, len(OVAL)])  # 1 on the face, 0 on the ring around it
    alpha[raster.covered] = smoothstep(raster.weights @ inner)
    result = photo.copy()
    result[top:bottom, left:right] = COMPOSITES[composite](background, image, alpha)
    return result


def padded_box(points: FloatArray, size: tuple[int, ...], *, margin: float = 0.35) -> Box:
    """Return the box of points with a margin, within the photo: left, top, right, bottom."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = margin * (high - low)
    left, top = np.maximum(np.floor(low - room), 0).astype(int)
    right, bottom = np.minimum(np.ceil(high + room) + 1, (size[1], size[0])).astype(int)
    return int(left), int(top), int(right), int(bottom)


def deform_background(area: NDArray[np.uint8], old: FloatArray, new: FloatArray) -> NDArray[np.uint8]:
    """Deform the background so that the old contour (36, 2) comes to lie on the new one; the rim stays."""
    height, width = area.shape[:2]
    x, y = np.linspace(0, width - 1, 5), np.linspace(0, height - 1, 5)
    rim = np.array([(a, b) for a in x for b in y if a in (x[0], x[-1]) or b in (y[0], y[-1])])
    step = max(16, max(width, height) // 24)  # the move is smooth: a large face needs no more of them
    at = moving_least_squares(
        np.concatenate([old, rim]), np.concatenate([new, rim]), width, height, alpha=1.5, step=step
    )
    moved: NDArray[np.uint8] = cv2.remap(area, at, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return moved


def _reduce_surrogate(face: Surrogate, target: FloatArray) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return the surrogate's picture and landmarks at about the target's size, so that none is skipped."""
    ratio = np.ptp(target, axis=0).max() / np.ptp(face.shape, axis=0).max()
    if ratio > 0.7:
        return face.rgb, face.shape
    height, width = face.rgb.shape[:2]
    size = max(8, round(width * ratio)), max(8, round(height * ratio))
    scale = np.array(size) / (width, height)
    small: NDArray[np.uint8] = cv2.resize(face.rgb, size, interpolation=cv2.INTER_AREA)
    return small, (face.shape + 0.5) * scale - 0.5


def _blend_feather(ground: NDArray[np.uint8], image: FloatImage, alpha: FloatImage) -> NDArray[np.uint8]:
    """Fade the new face into the ground."""
    mixed = alpha[..., None] * np.clip(image, 0, 255) + (1 - alpha[..., None]) * ground
    return mixed.round().astype(np.uint8)


def _blend_colour_matched(
    ground: NDArray[np.uint8], image: FloatImage, alpha: FloatImage
) -> NDArray[np.uint8]:
    """Bring the new face's mean colour to that of the face it replaces, in Lab, then fade it in."""
    inside = alpha > 0.5
    if not inside.any():
        return _blend_feather(ground, image, alpha)
    new, old = (
        cv2.cvtColor(np.clip(p / 255, 0, 1).astype(np.float32), cv2.COLOR_RGB2Lab) for p in (image, ground)
    )
    new += old[inside].mean(axis=0) - new[inside].mean(axis=0)
    return _blend_feather(ground, cv2.cvtColor(new, cv2.COLOR_Lab2RGB) * 255, alpha)


def _blend_poisson(ground: NDArray[np.uint8], image: FloatImage, alpha: FloatImage) -> NDArray[np.uint8]:
    """Keep the new face's gradients and take the colour at the boundary from the ground (6.3)."""
    mask = (alpha > 0.9).astype(np.uint8)  # the new face proper: its rim is where hair and ground begin
    mask[[0, -1]], mask[:, [0, -1]] = 0, 0  # the boundary condition needs a pixel of ground around it
    if not mask.any():
        return ground
    x, y, width, height = cv2.boundingRect(mask)
    centre = (x + width // 2, y + height // 2)  # OpenCV places the mask's box by its centre
    source = np.clip(image, 0, 255).round().astype(np.uint8)
    cloned: NDArray[np.uint8] = cv2.seamlessClone(source, ground, mask * 255, centre, cv2.NORMAL_CLONE)
    return cloned


COMPOSITES: dict[str, Callable[[NDArray[np.uint8], FloatImage, FloatImage], NDArray[np.uint8]]] = {
    "feather": _blend_feather,
    "colour": _blend_colour_matched,
    "poisson": _blend_poisson,
}
