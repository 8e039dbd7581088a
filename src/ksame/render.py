"""From chosen faces to pictures that may be published.

A surrogate is drawn at the resolution of its sources: each member's photo is warped to the group's
mean shape and the pictures are averaged there. Since decoding is linear, this is the face of the
group's mean code, without the blur of the model's truncated axes [algorithms 1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core import FloatArray, IntArray
from ksame.geometry import (
    FRAME,
    GROUND,
    INNER_LIPS,
    LEFT_EYE,
    MESH,
    OVAL,
    RIGHT_EYE,
    STILL,
    Raster,
    moving_least_squares,
    similarity,
    transform,
    with_ring,
)

FEATHER = 0.1  # width of the soft edge, in distances between the eyes
ODD = 24.0  # grey levels: a member this far from the group's median counts half
LEAST = 0.25  # of another's weight: of a pixel one person may have 4/5 at k = 2, half at k = 5
CELLS = 16  # a side of the grid on which the colours around a covered face are mixed
Picture = NDArray[np.float32]
Box = tuple[int, int, int, int]


class Surrogate(NamedTuple):
    """A face that is nobody's: its picture on the (scaled) canonical frame, and its landmarks there."""

    rgb: NDArray[np.uint8]  # (h, w, 3)
    shape: FloatArray  # (m, 2), in pixels of rgb


def surrogate(
    rgb: NDArray[np.uint8], shapes: FloatArray, shares: FloatArray, triangles: IntArray
) -> Surrogate:
    """Draw the weighted mean of faces: mean shape, and mean picture on that shape.

    Parameters
    ----------
    rgb : (n, h, w, 3)
        Registered pictures.
    shapes : (n, m, 2)
        Their landmarks on the canonical frame.
    shares : (n,)
        How much of each; they sum to 1.
    triangles : (t, 3)
        The mesh.
    """
    height, width = rgb.shape[1:3]
    scale = width / FRAME.width
    shape = np.tensordot(shares, shapes, axes=1) * scale
    raster = Raster.of(shape, triangles, width, height)
    warped = [raster.pull(p, s * scale) for p, s in zip(rgb, shapes, strict=True)]
    weights = _usual(warped) * _open(shapes, shape, (height, width))  # (n, h, w)
    weights = np.maximum(weights, LEAST) * shares[:, None, None].astype(np.float32)
    weights /= weights.sum(axis=0)
    mean = np.zeros((height, width, 3), np.float32)
    for weight, picture in zip(weights, warped, strict=True):
        mean += weight[..., None] * picture
    return Surrogate(mean.round().astype(np.uint8), shape)


def varied(
    face: Surrogate, moved: FloatArray, change: Picture, at: FloatArray, triangles: IntArray
) -> Surrogate:
    """Return a face with another shape and colours added: a code's difference made visible.

    Parameters
    ----------
    face : Surrogate
        What it starts from.
    moved : (m, 2)
        The new landmarks, in pixels of the face's picture.
    change : (h', w', 3)
        What is added, on a mesh of its own with landmarks ``at`` (m, 2).
    """
    height, width = face.rgb.shape[:2]
    raster = Raster.of(moved, triangles, width, height)
    picture = raster.pull(face.rgb, face.shape).astype(np.float32) + raster.pull(change, at)
    return Surrogate(np.clip(picture, 0, 255).round().astype(np.uint8), moved)


def _usual(warped: Sequence[NDArray[np.uint8]]) -> Picture:
    """Return (n, h, w): how much each member is like the others here.

    Glasses, a fringe or a beard that only one has would show through as a ghost.
    """
    grey = np.stack([cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in warped])
    n, _, width = grey.shape
    if n < 3:
        return np.ones(grey.shape, np.float32)
    smooth = max(1.0, FEATHER * 0.5 * FRAME.eyes_apart * width / FRAME.width)
    away = np.abs(grey - np.median(grey, axis=0).astype(np.float32))
    away = np.stack([cv2.GaussianBlur(a, (0, 0), smooth) for a in away])
    like: Picture = (1 / (1 + (away / ODD) ** 2)).astype(np.float32)
    return like


def _open(shapes: FloatArray, mean: FloatArray, size: tuple[int, int]) -> Picture:
    """Return (n, h, w): inside mouth and eyes those count who have them open.

    A closed mouth has no teeth to average with another's, a closed eye no iris.
    """
    n = len(shapes)
    weights = np.ones((n, *size), np.float32)
    if shapes.shape[1] <= max(INNER_LIPS):
        return weights
    for ring in (INNER_LIPS, LEFT_EYE, RIGHT_EYE):
        areas = np.array([cv2.contourArea(s[list(ring)].astype(np.float32)) for s in shapes])
        openness = np.maximum(areas / max(areas.max(), 1e-9), 0.05)
        region = np.zeros(size, np.float32)
        cv2.fillPoly(region, [mean[list(ring)].round().astype(np.int32)], 1.0)
        region = cv2.GaussianBlur(region, (0, 0), max(0.8, 0.012 * FRAME.eyes_apart * size[1] / FRAME.width))
        weights *= 1 + region * (openness[:, None, None] - 1)
    return weights


def fade(ring: FloatArray, width: int, height: int, *, edge: float, inset: float) -> Picture:
    """Return (height, width): 0 outside a ring and ``inset`` pixels within it, 1 after ``edge`` more."""
    mask = np.zeros((height + 2, width + 2), np.uint8)
    hull = cv2.convexHull((ring + 1).round().astype(np.int32))
    cv2.fillConvexPoly(mask, hull, 1)
    inside = cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)[1:-1, 1:-1]
    ramp = np.clip((inside - 1 - inset) / max(edge, 1.0), 0, 1)
    soft: Picture = cv2.GaussianBlur(smooth(ramp), (0, 0), max(0.8, edge / 8))
    return soft


def smooth(ramp: NDArray[Any]) -> NDArray[Any]:
    """Return a ramp from 0 to 1 without a visible kink at either end."""
    smooth: NDArray[Any] = ramp * ramp * (3 - 2 * ramp)
    return smooth


def portrait(face: Surrogate) -> NDArray[np.uint8]:
    """Return the face on a plain ground: the whole picture is a function of the surrogate alone."""
    height, width = face.rgb.shape[:2]
    edge = FEATHER * FRAME.eyes_apart * width / FRAME.width
    ring = face.shape[list(OVAL)] if len(face.shape) > max(OVAL) else face.shape
    # the outermost pixels are often hair or ground: the fade begins a little inside
    alpha = fade(ring, width, height, edge=edge, inset=edge / 3)[..., None]
    return (alpha * face.rgb + (1 - alpha) * GROUND).round().astype(np.uint8)


Composite = Literal["feather", "picture", "poisson"]


def scene(
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
        ``feather``: the group's own colours, fading at the edge. ``picture``: its mean colour brought to
        the photo's. ``poisson``: gradients only, colour from the boundary (6.3).

    Notes
    -----
    The new landmarks are placed by Procrustes on points that hold still in the face, then the background
    is deformed so that the old contour meets the new one (6.4-6.5): nothing of the old face is left
    between them.
    """
    target = with_ring(transform(similarity(shape[list(STILL)], points[list(STILL)]), shape[:MESH]))
    left, top, right, bottom = around(np.concatenate([target, points]), photo.shape)
    if right <= left or bottom <= top:
        return photo
    new, old = target - (left, top), points - (left, top)
    width, height = right - left, bottom - top
    ground = meet(photo[top:bottom, left:right], old[list(OVAL)], new[list(OVAL)])
    small, at = _shrunk(face, new)
    raster = Raster.of(new, triangles, width, height)
    picture = raster.pull(small, at).astype(np.float32)
    alpha = np.zeros((height, width), np.float32)
    inner = np.repeat([1.0, 0.0], [MESH, len(OVAL)])  # 1 on the face, 0 on the ring around it
    alpha[raster.covered] = smooth(raster.weights @ inner)
    result = photo.copy()
    result[top:bottom, left:right] = COMPOSITES[composite](ground, picture, alpha)
    return result


def around(points: FloatArray, size: tuple[int, ...], *, margin: float = 0.35) -> Box:
    """Return the box of points with a margin, within the photo: left, top, right, bottom."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = margin * (high - low)
    left, top = np.maximum(np.floor(low - room), 0).astype(int)
    right, bottom = np.minimum(np.ceil(high + room) + 1, (size[1], size[0])).astype(int)
    return int(left), int(top), int(right), int(bottom)


def meet(area: NDArray[np.uint8], old: FloatArray, new: FloatArray) -> NDArray[np.uint8]:
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


def _shrunk(face: Surrogate, target: FloatArray) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return the surrogate's picture and landmarks at about the target's size, so that none is skipped."""
    ratio = np.ptp(target, axis=0).max() / np.ptp(face.shape, axis=0).max()
    if ratio > 0.7:
        return face.rgb, face.shape
    height, width = face.rgb.shape[:2]
    size = max(8, round(width * ratio)), max(8, round(height * ratio))
    scale = np.array(size) / (width, height)
    small: NDArray[np.uint8] = cv2.resize(face.rgb, size, interpolation=cv2.INTER_AREA)
    return small, (face.shape + 0.5) * scale - 0.5


def _feather(ground: NDArray[np.uint8], picture: Picture, alpha: Picture) -> NDArray[np.uint8]:
    """Fade the new face into the ground."""
    mixed = alpha[..., None] * np.clip(picture, 0, 255) + (1 - alpha[..., None]) * ground
    return mixed.round().astype(np.uint8)


def _picture(ground: NDArray[np.uint8], picture: Picture, alpha: Picture) -> NDArray[np.uint8]:
    """Bring the new face's mean colour to that of the face it replaces, in Lab, then fade it in."""
    inside = alpha > 0.5
    if not inside.any():
        return _feather(ground, picture, alpha)
    new, old = (
        cv2.cvtColor(np.clip(p / 255, 0, 1).astype(np.float32), cv2.COLOR_RGB2Lab) for p in (picture, ground)
    )
    new += old[inside].mean(axis=0) - new[inside].mean(axis=0)
    return _feather(ground, cv2.cvtColor(new, cv2.COLOR_Lab2RGB) * 255, alpha)


def _poisson(ground: NDArray[np.uint8], picture: Picture, alpha: Picture) -> NDArray[np.uint8]:
    """Keep the new face's gradients and take the colour at the boundary from the ground (6.3)."""
    mask = (alpha > 0.9).astype(np.uint8)  # the new face proper: its rim is where hair and ground begin
    mask[[0, -1]], mask[:, [0, -1]] = 0, 0  # the boundary condition needs a pixel of ground around it
    if not mask.any():
        return ground
    x, y, width, height = cv2.boundingRect(mask)
    centre = (x + width // 2, y + height // 2)  # OpenCV places the mask's box by its centre
    source = np.clip(picture, 0, 255).round().astype(np.uint8)
    cloned: NDArray[np.uint8] = cv2.seamlessClone(source, ground, mask * 255, centre, cv2.NORMAL_CLONE)
    return cloned


COMPOSITES: dict[str, Callable[[NDArray[np.uint8], Picture, Picture], NDArray[np.uint8]]] = {
    "feather": _feather,
    "picture": _picture,
    "poisson": _poisson,
}


def cover(photo: NDArray[np.uint8], boxes: FloatArray) -> NDArray[np.uint8]:
    """Return the photo with an ellipse over each box (n, 4), generous at the edges.

    It has the colours of what is around it, run into one another. Nothing under any of them is looked at.
    """
    if not len(boxes):
        return photo
    result = photo.copy()
    cover_on(result, boxes)
    return result


def cover_on(photo: NDArray[np.uint8], boxes: FloatArray) -> list[Box]:
    """Cover boxes (n, 4) in a photo itself, as ``cover`` does, and return where it is new."""
    under, new = np.zeros(photo.shape[:2], np.uint8), []
    ellipses = covered_by(boxes).reshape(-1, 2, 2)
    for low, high in ellipses:
        _ellipse(under, low, high)
    by_size = sorted(ellipses, key=lambda box: np.ptp(box, axis=0).prod())  # large ones hide small ones
    for low, high in by_size:
        margin = (high - low) / 6 + 2
        left, top = np.clip(low - margin, 0, photo.shape[1::-1]).astype(int)
        right, bottom = np.clip(np.ceil(high + margin), 0, photo.shape[1::-1]).astype(int)
        if right > left and bottom > top:
            here, own = np.s_[top:bottom, left:right], np.zeros((bottom - top, right - left), np.uint8)
            _ellipse(own, low, high, at=(left, top))
            # what is under another one and painted already is not looked at either
            cv2.copyTo(_run_in(photo[here], under[here]), own, photo[here])
            new.append((int(left), int(top), int(right), int(bottom)))
    return new


def _ellipse(
    mask: NDArray[np.uint8], low: FloatArray, high: FloatArray, *, at: tuple[int, int] = (0, 0)
) -> None:
    """Fill the ellipse within a box in a mask whose corner lies somewhere in a photo."""
    centre, half = np.rint((low + high) / 2).astype(int) - at, np.rint((high - low) / 2).astype(int) + 1
    cv2.ellipse(mask, centre.tolist(), half.tolist(), 0, 0, 360, 255, -1)


def _run_in(rgb: NDArray[np.uint8], under: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture (h, w, 3) of colours that are not under a mask (h, w), everywhere the near ones."""
    step = max(1, min(under.shape) // (8 * CELLS))  # enough pixels for a mean
    bare = (under[::step, ::step] == 0).astype(np.float32)
    colour, share = (
        cv2.resize(x, (CELLS, CELLS), interpolation=cv2.INTER_AREA).reshape(CELLS**2, -1)
        for x in (bare[..., None] * rgb[::step, ::step], bare)
    )
    if not share.any():
        return np.full_like(rgb, GROUND // 2)
    near = _nearness()
    mean = (near @ colour / (near @ share)).round().reshape(CELLS, CELLS, 3).astype(np.uint8)
    return np.asarray(cv2.resize(mean, rgb.shape[1::-1], interpolation=cv2.INTER_LINEAR), np.uint8)


@cache
def _nearness() -> FloatArray:
    """How much each cell of a grid says of each other one: (cells, cells)."""
    cell = np.indices((CELLS, CELLS)).reshape(2, -1).T
    near: FloatArray = (((cell[:, None] - cell) ** 2).sum(axis=2) + 0.5) ** -2.0
    return near


def covered_by(boxes: FloatArray) -> FloatArray:
    """Return the boxes (n, 4) of the ellipses that ``cover`` paints: half as large again.

    A box's corners lie on an ellipse of 1.42 times its sides, so nothing of it is left.
    """
    centre, half = (boxes[:, 2:] + boxes[:, :2]) / 2, 0.75 * (boxes[:, 2:] - boxes[:, :2])
    return np.hstack([centre - half, centre + half])
