"""Blend a new face into a photo: feathering, colour matching and Poisson blending [S 6.2]."""

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
    """Replace a face in a photo by a surrogate [S 6.2].

    Parameters
    ----------
    photo : (h, w, 3)
        The photo.
    points : (m, 2)
        The landmarks of the face to replace.
    face : Surrogate
        The surrogate.
    shape : (m, 2)
        The surrogate's landmarks on the canonical frame, in the pose of the head.
    triangles : (t, 3)
        The mesh.
    composite : str
        ``feather``: the group's colours, fading at the edge. ``colour``: its mean colour matched to the
        photo. ``poisson``: gradients only, with colour from the boundary (6.3).

    Notes
    -----
    The new landmarks are placed by Procrustes on points that are stable under expression, then the
    background is deformed so that the old contour meets the new one (6.4-6.5): no part of the old face
    remains between them.
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
    """Return the bounding box of points with a margin, within the photo: left, top, right, bottom."""
    low, high = points.min(axis=0), points.max(axis=0)
    padding = margin * (high - low)
    left, top = np.maximum(np.floor(low - padding), 0).astype(int)
    right, bottom = np.minimum(np.ceil(high + padding) + 1, (size[1], size[0])).astype(int)
    return int(left), int(top), int(right), int(bottom)


def deform_background(area: NDArray[np.uint8], old: FloatArray, new: FloatArray) -> NDArray[np.uint8]:
    """Deform the background so that the old contour (36, 2) maps to the new one; the rim stays fixed."""
    height, width = area.shape[:2]
    x, y = np.linspace(0, width - 1, 5), np.linspace(0, height - 1, 5)
    rim = np.array([(a, b) for a in x for b in y if a in (x[0], x[-1]) or b in (y[0], y[-1])])
    step = max(16, max(width, height) // 24)  # the deformation is smooth: a large face needs no finer grid
    at = moving_least_squares(
        np.concatenate([old, rim]), np.concatenate([new, rim]), width, height, alpha=1.5, step=step
    )
    moved: NDArray[np.uint8] = cv2.remap(area, at, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return moved


def _reduce_surrogate(face: Surrogate, target: FloatArray) -> tuple[NDArray[np.uint8], FloatArray]:
    """Reduce the surrogate's image and landmarks to about the target's size, to avoid aliasing."""
    ratio = np.ptp(target, axis=0).max() / np.ptp(face.shape, axis=0).max()
    if ratio > 0.7:
        return face.rgb, face.shape
    height, width = face.rgb.shape[:2]
    size = max(8, round(width * ratio)), max(8, round(height * ratio))
    scale = np.array(size) / (width, height)
    small: NDArray[np.uint8] = cv2.resize(face.rgb, size, interpolation=cv2.INTER_AREA)
    return small, (face.shape + 0.5) * scale - 0.5


def _blend_feather(background: NDArray[np.uint8], image: FloatImage, alpha: FloatImage) -> NDArray[np.uint8]:
    """Fade the new face into the background."""
    mixed = alpha[..., None] * np.clip(image, 0, 255) + (1 - alpha[..., None]) * background
    return mixed.round().astype(np.uint8)


def _blend_colour_matched(
    background: NDArray[np.uint8], image: FloatImage, alpha: FloatImage
) -> NDArray[np.uint8]:
    """Match the new face's mean colour to the replaced face in Lab, then fade it in."""
    inside = alpha > 0.5
    if not inside.any():
        return _blend_feather(background, image, alpha)
    new, old = (
        cv2.cvtColor(np.clip(p / 255, 0, 1).astype(np.float32), cv2.COLOR_RGB2Lab)
        for p in (image, background)
    )
    new += old[inside].mean(axis=0) - new[inside].mean(axis=0)
    return _blend_feather(background, cv2.cvtColor(new, cv2.COLOR_Lab2RGB) * 255, alpha)


def _blend_poisson(background: NDArray[np.uint8], image: FloatImage, alpha: FloatImage) -> NDArray[np.uint8]:
    """Keep the new face's gradients and take the colour at the boundary from the background (6.3)."""
    mask = (alpha > 0.9).astype(np.uint8)  # without the rim, where hair and background begin
    mask[[0, -1]], mask[:, [0, -1]] = 0, 0  # the boundary condition needs a pixel of background around it
    if not mask.any():
        return background
    x, y, width, height = cv2.boundingRect(mask)
    centre = (x + width // 2, y + height // 2)  # OpenCV places the mask's box by its centre
    source = np.clip(image, 0, 255).round().astype(np.uint8)
    cloned: NDArray[np.uint8] = cv2.seamlessClone(source, background, mask * 255, centre, cv2.NORMAL_CLONE)
    return cloned


COMPOSITES: dict[str, Callable[[NDArray[np.uint8], FloatImage, FloatImage], NDArray[np.uint8]]] = {
    "feather": _blend_feather,
    "colour": _blend_colour_matched,
    "poisson": _blend_poisson,
}
