"""Cut a head out of a synthetic portrait: its matte, the colour of thin strands, and its parts."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import transform
from ksame.models.segmentation import alpha_matte, parse_person
from ksame.render.head.canvas import (
    _TO_CANVAS,
    CANVAS_SIDE,
    CHIN,
    canonical_grid,
    compose,
    place_head,
    placement_scale,
    warp,
)

__all__ = ["Head", "HeadFlaws", "cut_head", "head_flaws"]

FloatImage = NDArray[np.float32]
SOFT_EDGE_PX = 12.0  # canonical px around the parsed head in which the matte draws the edge
NECK_HALF_WIDTH_PX = 75.0  # canonical px: skin further from the middle is shoulder
NECK_LENGTH_PX = 60.0  # canonical px of the portrait's own neck that are kept below the chin
CROWN_ROUNDING_PX = 70.0  # canonical px below a cut crown from which on it is rounded
BOTTOM_FADE_PX = 8.0  # canonical px over which hair that the portrait cuts off fades out
CROWN_TOP_PX = 60.0  # canonical y above which hair at the portrait's edge is a cut crown
_SPREADS_PX = (2, 4, 8, 16, 32)  # standard deviations by which colours of opaque pixels are spread


@dataclass(frozen=True, eq=False)
class Head:
    """A head cut out of a portrait, in the portrait's own pixels.

    Parameters
    ----------
    rgb : (s, s, 3) uint8
        Colours; those of thin strands are free of the portrait's background.
    alpha : (s, s) uint8
        How opaque it is.
    neck, hair, face : (s, s) uint8
        How surely a pixel is neck, hair or face.
    placement : (2, 3)
        Canonical pixels to the portrait's.
    chin : float
        Canonical y of the chin.
    skin_lab, neck_to_face : (3,)
        Median L*a*b* of the cheeks, and how much they differ from the neck.
    neck_middle, neck_half_width : float
        Canonical px, just below the chin.
    """

    rgb: NDArray[np.uint8]
    alpha: NDArray[np.uint8]
    neck: NDArray[np.uint8]
    hair: NDArray[np.uint8]
    face: NDArray[np.uint8]
    placement: FloatArray
    chin: float
    skin_lab: FloatArray
    neck_to_face: FloatArray
    neck_middle: float
    neck_half_width: float

    def silhouette(self) -> NDArray[np.bool_]:
        """Return where the head is on the canvas (640, 640), down to just below its chin."""
        matrix = compose(_TO_CANVAS, cv2.invertAffineTransform(self.placement))
        alpha = warp(self.alpha, matrix, (CANVAS_SIDE, CANVAS_SIDE))
        _, y = canonical_grid()
        hair = warp(self.hair, matrix, (CANVAS_SIDE, CANVAS_SIDE))
        return np.asarray((alpha > 20) & ((y < self.chin + 12) | (hair > 128)))


@dataclass(frozen=True)
class HeadFlaws:
    """How much of a head its portrait cuts off, in canonical pixels along the portrait's edge."""

    crown: float
    bottom: float


def cut_head(portrait: NDArray[np.uint8], points: FloatArray) -> Head:
    """Cut the head with mesh points (468, 2) out of a portrait (s, s, 3)."""
    placement = place_head(points)
    to_canonical = cv2.invertAffineTransform(placement)
    x, y = _pixel_grid(portrait.shape, to_canonical)
    chin = float(transform(to_canonical, points[CHIN])[1])
    parts = parse_person(portrait)
    neck = parts["body skin"] * (np.abs(x - 128) < NECK_HALF_WIDTH_PX)
    face = parts["face skin"] + parts["accessories"] * (y < chin - 20)
    alpha = _head_alpha(alpha_matte(portrait), face + parts["hair"] + neck, parts["clothes"], placement)
    alpha = _rounded_crown(alpha, parts["hair"], x, y)
    alpha *= np.clip((chin + NECK_LENGTH_PX - y) / 10, 0, 1) ** (parts["hair"] < 0.5)
    alpha *= np.clip((y.max() - y) / BOTTOM_FADE_PX, 0, 1)
    rgb = _opaque_colours(portrait, alpha, face + parts["hair"] + neck > 0.5, placement)
    lab = cv2.cvtColor(rgb.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    skin, step = _skin_colours(lab, face, neck, alpha, y)
    middle, half = _neck_width(neck * alpha, x, y, chin)
    alpha8, neck8, hair8, face8 = (_to_bytes(part) for part in (alpha, neck, parts["hair"], face))
    return Head(rgb, alpha8, neck8, hair8, face8, placement, chin, skin, step, middle, half)


def head_flaws(portrait: NDArray[np.uint8], points: FloatArray) -> HeadFlaws:
    """Return how much hair a portrait's edge cuts off."""
    to_canonical = cv2.invertAffineTransform(place_head(points))
    hair = parse_person(portrait)["hair"] > 0.4
    y = _pixel_grid(portrait.shape, to_canonical)[1]
    edge = np.zeros_like(hair)
    edge[[0, 1, -2, -1]] = edge[:, [0, 1, -2, -1]] = True
    unit = placement_scale(to_canonical) / 2  # the edge is two pixels wide
    top, bottom = y < CROWN_TOP_PX, y > 200
    return HeadFlaws(float((hair & edge & top).sum()) * unit, float((hair & edge & bottom).sum()) * unit)


def _pixel_grid(shape: tuple[int, ...], to_canonical: FloatArray) -> tuple[FloatImage, FloatImage]:
    """Return canonical x and y of every pixel."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float32)
    a = to_canonical.astype(np.float32)
    return a[0, 0] * x + a[0, 1] * y + a[0, 2], a[1, 0] * x + a[1, 1] * y + a[1, 2]


def _head_alpha(
    matte: FloatImage, head: FloatImage, clothes: FloatImage, placement: FloatArray
) -> FloatImage:
    """Return the head's alpha: the matte's edge against the background, the parser's against clothes."""
    reach = max(1, round(SOFT_EDGE_PX * placement_scale(placement)))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    near = cv2.dilate((head > 0.5).astype(np.uint8), disc) > 0
    soft = np.where(near, np.minimum(matte, 1 - np.clip(1.2 * clothes - 0.1, 0, 1)), 0)
    sure = cv2.erode((head > 0.7).astype(np.uint8), disc[::2, ::2]) > 0
    return np.clip(np.where(sure, 1, soft), 0, 1).astype(np.float32)


def _rounded_crown(alpha: FloatImage, hair: FloatImage, x: FloatImage, y: FloatImage) -> FloatImage:
    """Return alpha in which a crown that the upper edge cuts is rounded by an ellipse through the sides."""
    if (alpha[1] > 0.3).sum() < 8:
        return alpha
    top = float(y[0].mean())
    row = int(np.argmin(np.abs(y[:, y.shape[1] // 2] - top - CROWN_ROUNDING_PX)))
    wide = np.flatnonzero(alpha[row] > 0.5)
    if not len(wide):
        return alpha
    left, right = x[row, wide[0]], x[row, wide[-1]]
    up = np.clip((y[row].mean() - y) / (CROWN_ROUNDING_PX - 3), 0, None)
    limit = np.sqrt(np.clip(1 - up**2.6, 0, 1)) * ((right - left) / 2 + 4)
    soft = np.clip((limit - np.abs(x - (left + right) / 2)) / 3 + 0.5, 0, 1)
    return np.where(y < y[row].mean(), alpha * soft, alpha).astype(np.float32)


def _opaque_colours(
    portrait: NDArray[np.uint8], alpha: FloatImage, head: NDArray[np.bool_], placement: FloatArray
) -> NDArray[np.uint8]:
    """Return the portrait with colours of thin pixels drawn from opaque ones nearby: no rim of background."""
    sure = cv2.erode(((alpha > 0.95) & head).astype(np.float32), np.ones((3, 3)))
    source = portrait.astype(np.float32)
    spread, left = source.copy(), sure < 0.5
    for sigma in _SPREADS_PX:
        reach = sigma * placement_scale(placement) / 2
        weight = cv2.GaussianBlur(sure, (0, 0), reach)
        colour = cv2.GaussianBlur(source * sure[..., None], (0, 0), reach)
        known = left & (weight > 0.02)
        spread[known] = colour[known] / weight[known][:, None]
        left &= ~known
    share = np.where(sure > 0.5, 1, alpha)[..., None] ** 2
    return np.clip(share * source + (1 - share) * spread, 0, 255).round().astype(np.uint8)


def _skin_colours(
    lab: FloatImage, face: FloatImage, neck: FloatImage, alpha: FloatImage, y: FloatImage
) -> tuple[FloatArray, FloatArray]:
    """Return the median L*a*b* of the cheeks, and by how much they differ from the neck."""
    cheeks = (face > 0.8) & (alpha > 0.95) & (y > 150) & (y < 225)
    skin = np.median(lab[cheeks], axis=0) if cheeks.any() else np.array([62.0, 14, 18])
    below = (neck > 0.7) & (alpha > 0.9)
    step = skin - np.median(lab[below], axis=0) if below.sum() > 300 else np.array([7.0, 1, 0])
    return skin, np.clip(step, [-4, -3, -4], [14, 6, 6])


def _to_bytes(part: FloatImage) -> NDArray[np.uint8]:
    return np.clip(255 * part, 0, 255).astype(np.uint8)


def _neck_width(neck: FloatImage, x: FloatImage, y: FloatImage, chin: float) -> tuple[float, float]:
    """Return the middle and half width of the neck just below the chin, in canonical px."""
    at = (np.abs(y - chin - 6) < 1) & (neck > 0.5)
    if at.sum() < 20:
        return 128.0, 58.0
    low, high = np.percentile(x[at], [1, 99])
    return float(np.clip((low + high) / 2, 100, 156)), float(np.clip((high - low) / 2, 50, 66))
