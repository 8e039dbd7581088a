"""Render whole heads into a photo: nothing inside the regions is read, whatever stands there.

The published image inside the regions is a function of the pixels outside all regions, the placements, and
each head with its region: ``render_heads`` blanks the regions before anything else looks at the photo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.models.segmentation import parse_person
from ksame.render.cover import cover_in_place
from ksame.render.head.canvas import compose, from_canvas, placement_scale, warp
from ksame.render.head.cutout import Head
from ksame.render.head.fill import patch_fill, push_pull
from ksame.render.head.neck import OWN_NECK_PX, draw_neck
from ksame.render.head.tone import add_grain, grain_sigma, match_skin, skin_target
from ksame.render.tone import is_monochrome, to_tone

__all__ = ["PlacedHead", "blank_mask", "render_heads"]

FloatImage = NDArray[np.float32]
BoolMask = NDArray[np.bool_]

BACKGROUND, CLOTHES, SKIN = 0, 1, 2
"""What a pixel outside the regions shows, as far as it may be continued inside."""
LABEL_MIN = 0.6  # probability from which on a pixel may be continued
SURROUNDINGS = 1.0  # of the longer side of all that is blank: how far around it a photo is looked at
VIEW_SIDE = 640  # px of what the parser sees of each head and its surroundings
VIEW_SCALE, VIEW_LEFT, VIEW_TOP = 2 / 3, -352.0, -250.0  # of canonical pixels: shoulders and chest are in it
_TO_VIEW = VIEW_SCALE * np.array([[1.0, 0, -VIEW_LEFT], [0, 1.0, -VIEW_TOP]])
SHOULDERS_ABOVE_CHIN_PX = 25.0  # canonical px: higher up in a region there is background only
HAIR_EDGE_PX = 3.0  # canonical px around parsed hair and face in which the matte draws their edge
NECK_TOP_PX = 60.0  # canonical px above the chin, from where on down a portrait shows its neck
SKIN_BELOW_CHIN_PX = 25.0  # canonical px: from there on down there may be skin beside the neck
SKIN_HALF_WIDTH_PX = 105.0  # canonical px from the middle of the neck, beyond which no skin is continued
COLLAR_BELOW_CHIN_PX = 40.0  # canonical px: from there on down clothes hide the neck
EDGE_FADE_PX = 4.0  # canonical px over which a head fades out at the edge of its region
SKIN_REACH_PX = 45.0  # canonical px from the region within which skin tells the tone
MIN_GRAIN_LEVELS = 0.6  # grey levels: less is not seen


class PlacedHead(NamedTuple):
    """A head and where it goes."""

    placement: FloatArray  # (2, 3): canonical to photo pixels
    head: Head
    region: BoolMask  # (640, 640): what it replaces, on the canvas


class _Window(NamedTuple):
    """A head as it lies in a part of the photo."""

    box: tuple[slice, slice]
    placed: PlacedHead
    unit: float  # photo pixels per canonical pixel
    x: FloatImage  # canonical place of each pixel
    y: FloatImage
    region: BoolMask
    alpha: FloatImage
    colour: FloatImage
    neck: FloatImage
    hair: FloatImage
    face: FloatImage


def blank_mask(shape: tuple[int, ...], placed: Sequence[PlacedHead], covered: FloatArray) -> BoolMask:
    """Return what is blanked in a photo of a shape (h, w, ...): all regions, and all covered faces (c, 4)."""
    blank = np.zeros(shape[:2], np.uint8)
    for one in placed:
        blank |= _region_in_photo(one, shape).astype(np.uint8)
    canvas = np.zeros((*shape[:2], 3), np.uint8)
    marked = canvas.copy()
    for left, top, right, bottom in cover_in_place(canvas, covered) if len(covered) else []:
        marked[top:bottom, left:right] = 1
    return np.asarray((blank > 0) | (marked[..., 0] > 0))


def render_heads(
    photo: NDArray[np.uint8], placed: Sequence[PlacedHead], covered: FloatArray | None = None
) -> NDArray[np.uint8]:
    """Return the photo with heads set in, far ones first.

    Parameters
    ----------
    photo : (h, w, 3) uint8
        The photo; only its pixels outside all regions are read.
    placed : sequence of PlacedHead
        The heads.
    covered : (c, 4), optional
        Boxes of faces that are covered instead: nothing of them is read either, and they stay blank.
    """
    boxes = np.zeros((0, 4)) if covered is None else covered
    blank = blank_mask(photo.shape, placed, boxes)
    context = photo.copy()
    context[blank] = 0
    del photo  # from here on there is nothing inside the regions
    ground = context.copy()
    ground[blank] = context[~blank].mean(axis=0) if (~blank).any() else 0
    box, corner = _working_box(blank)
    moved = [
        one._replace(placement=one.placement - np.column_stack([np.zeros((2, 2)), corner])) for one in placed
    ]
    drawn = context.copy()
    drawn[box] = _render_part(context[box], ~blank[box], moved)
    return to_tone(drawn, ground) if is_monochrome(ground) else drawn


def _working_box(blank: BoolMask) -> tuple[tuple[slice, slice], FloatArray]:
    """Return the part of the photo that is worked on, around all that is blank, and its corner (x, y)."""
    rows, columns = np.flatnonzero(blank.any(axis=1)), np.flatnonzero(blank.any(axis=0))
    if not len(rows):
        return np.s_[0 : len(blank), 0 : blank.shape[1]], np.zeros(2)
    margin = round(SURROUNDINGS * max(np.ptp(rows), np.ptp(columns))) + 16
    top, left = max(0, rows[0] - margin), max(0, columns[0] - margin)
    return np.s_[top : rows[-1] + margin, left : columns[-1] + margin], np.array([left, top], float)


def _render_part(
    context: NDArray[np.uint8], known: BoolMask, placed: Sequence[PlacedHead]
) -> NDArray[np.uint8]:
    """Return a part of a photo, blank where nothing is known, with heads set in."""
    coarse = push_pull(context, known)
    far_first = sorted(placed, key=lambda one: placement_scale(one.placement))
    windows = [_window(one, context.shape) for one in far_first]
    label, source, skin = _labels(context, coarse, known, windows)
    filled = patch_fill(context, ~known & ~_hidden(context.shape, windows), source, label)
    result: FloatImage = np.where(known[..., None], context, filled).astype(np.float32)
    grain = grain_sigma(context, known)
    for number, window in enumerate(windows):
        result[window.box] = _set_in(result[window.box], window, context, label, skin, grain, number)
    drawn = np.clip(result, 0, 255).round().astype(np.uint8)
    drawn[known] = context[known]
    return drawn


def _hidden(shape: tuple[int, ...], windows: Sequence[_Window]) -> BoolMask:
    """Return what heads hide altogether, so that it need not be filled."""
    hidden = np.zeros(shape[:2], bool)
    for window in windows:
        hidden[window.box] |= (window.alpha > 0.99) & (
            window.y < window.placed.head.chin - SHOULDERS_ABOVE_CHIN_PX
        )
    return np.asarray(cv2.erode(hidden.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0)


def _region_in_photo(one: PlacedHead, shape: tuple[int, ...]) -> BoolMask:
    """Return every pixel of a photo that a region touches."""
    inside = from_canvas((255 * one.region).astype(np.uint8), one.placement, shape)
    return np.asarray(cv2.dilate(inside, np.ones((3, 3), np.uint8)) > 0)


def _window(one: PlacedHead, shape: tuple[int, ...]) -> _Window:
    """Return the head's layers in the part of the photo around its region."""
    inside = _region_in_photo(one, shape)
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    if not len(rows):
        rows, columns = np.array([0]), np.array([0])
    margin = 8 + (np.ptp(rows) + np.ptp(columns)) // 6
    top, left = max(0, rows[0] - margin), max(0, columns[0] - margin)
    bottom, right = min(shape[0], rows[-1] + margin), min(shape[1], columns[-1] + margin)
    box = np.s_[top:bottom, left:right]
    unit, size = placement_scale(one.placement), (int(right - left), int(bottom - top))
    shifted = one.placement - np.array([[0, 0, left], [0, 0, top]])
    back = cv2.invertAffineTransform(shifted).astype(np.float32)
    v, u = np.mgrid[0 : size[1], 0 : size[0]].astype(np.float32)
    x, y = (np.asarray(back[i, 0] * u + back[i, 1] * v + back[i, 2], np.float32) for i in (0, 1))
    matrix = compose(shifted, cv2.invertAffineTransform(one.head.placement))
    layers: list[FloatImage] = [
        (warp(part, matrix, size) / 255).astype(np.float32)
        for part in (one.head.alpha, one.head.neck, one.head.hair, one.head.face)
    ]
    colour = warp(one.head.rgb, matrix, size, border=cv2.BORDER_REPLICATE).astype(np.float32)
    region = inside[box]
    padded = np.pad(region, 1, constant_values=True)  # the photo's border is no edge
    depth = cv2.distanceTransform(padded.astype(np.uint8), cv2.DIST_L2, 3)[1:-1, 1:-1]
    alpha = layers[0] * np.clip(depth / (EDGE_FADE_PX * unit), 0, 1)
    return _Window(box, one, unit, x, y, region, alpha.astype(np.float32), colour, *layers[1:])


def _labels(
    context: NDArray[np.uint8], coarse: FloatImage, known: BoolMask, windows: Sequence[_Window]
) -> tuple[NDArray[np.uint8], BoolMask, BoolMask]:
    """Return what each pixel shows or is to show, which may be continued, and which is skin below a head.

    The parser sees the new heads on a coarse fill, and is asked about what is outside the regions only.
    """
    rough = coarse.copy()
    for window in windows:
        alpha = window.alpha[..., None]
        rough[window.box] = rough[window.box] * (1 - alpha) + window.colour * alpha
    rough[known] = context[known]
    shown = np.clip(rough, 0, 255).astype(np.uint8)
    shape = context.shape
    best = np.zeros((3, *shape[:2]), np.float32)
    if not windows:
        best[BACKGROUND] = 1
    for window in windows:
        view = compose(_TO_VIEW, cv2.invertAffineTransform(window.placed.placement))
        seen = parse_person(warp(shown, view, (VIEW_SIDE, VIEW_SIDE), border=cv2.BORDER_REPLICATE))
        back = cv2.invertAffineTransform(view)
        parts = seen["background"], seen["clothes"], seen["body skin"] + seen["face skin"]
        for channel, part in enumerate(parts):
            best[channel] = np.maximum(best[channel], warp(part, back, (shape[1], shape[0])))
    label = best.argmax(axis=0).astype(np.uint8)
    source = known & (best.max(axis=0) > LABEL_MIN) & (np.median(best, axis=0) < LABEL_MIN)
    inside = _continue_labels(best, label, source, windows)
    label = np.where(known, label, inside).astype(np.uint8)
    return label, source, source & (label == SKIN)


def _continue_labels(
    best: FloatImage, label: NDArray[np.uint8], source: BoolMask, windows: Sequence[_Window]
) -> NDArray[np.uint8]:
    """Return labels for the regions: background above the jaw, below it what the parser expects there.

    Beside a neck there is no skin, and further down only straight above skin.
    """
    skin = (_label_below(label, source) == SKIN) & (best[CLOTHES] + best[SKIN] > best[BACKGROUND])
    inside = np.where(best[CLOTHES] > best[BACKGROUND], CLOTHES, BACKGROUND).astype(np.uint8)
    for window in windows:
        here, below_chin = inside[window.box], window.y - window.placed.head.chin
        here[window.region & (below_chin < -SHOULDERS_ABOVE_CHIN_PX)] = BACKGROUND
        near = np.abs(window.x - window.placed.head.neck_middle) < SKIN_HALF_WIDTH_PX
        here[window.region & (below_chin > SKIN_BELOW_CHIN_PX) & near & skin[window.box]] = SKIN
    return inside


def _label_below(label: NDArray[np.uint8], source: BoolMask) -> NDArray[np.uint8]:
    """Return the label of the next source pixel further down; background where there is none."""
    height = len(label)
    row = np.where(source, np.arange(height)[:, None], height)
    following = np.minimum.accumulate(row[::-1], axis=0)[::-1]
    found = np.take_along_axis(label, np.minimum(following, height - 1), axis=0)
    return np.where(following < height, found, BACKGROUND).astype(np.uint8)


def _hair_and_face(window: _Window) -> FloatImage:
    """Return where a head may cover the photo beside its neck: not with its own neck and clothes."""
    reach = max(1, round(HAIR_EDGE_PX * window.unit))
    above = window.y < window.placed.head.chin - NECK_TOP_PX
    kept = ((window.hair + window.face > 0.5) | above).astype(np.uint8)
    grown = cv2.dilate(kept, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)).astype(np.float32)
    soft = cv2.GaussianBlur(grown, (0, 0), max(0.6, reach / 2))
    return np.asarray(soft * np.clip(1.5 - 2 * window.neck * (window.hair < 0.5), 0, 1), np.float32)


def _set_in(
    under: FloatImage,
    window: _Window,
    context: NDArray[np.uint8],
    label: NDArray[np.uint8],
    skin: BoolMask,
    grain: float,
    number: int,
) -> FloatImage:
    """Return a part of the photo with its neck and head set in."""
    head, y = window.placed.head, window.y
    here, outside = context[window.box], ~window.region
    skin_here = skin[window.box] & outside & (y > head.chin - 30) & (np.abs(window.x - 128) < 150)
    distance = cv2.distanceTransform(outside.astype(np.uint8), cv2.DIST_L2, 3)
    near = skin_here & (distance < SKIN_REACH_PX * window.unit)
    found = skin_target(here, near)
    colour = match_skin(window.colour, head.skin_lab, None if found is None else found + head.neck_to_face)
    own_neck = window.neck * (window.alpha > 0.9)
    neck = draw_neck(head, window.x, y, window.region, skin_here, here, colour, own_neck)
    hidden = (label[window.box] == CLOTHES) & (y > head.chin + COLLAR_BELOW_CHIN_PX)
    neck = neck._replace(alpha=neck.alpha * cv2.GaussianBlur((~hidden).astype(np.float32), (0, 0), 1.0))
    gives_way = np.clip((y - head.chin - OWN_NECK_PX[0]) / (OWN_NECK_PX[1] - OWN_NECK_PX[0]), 0, 1)
    is_neck = np.clip(window.neck * 2 - 0.5, 0, 1) * (window.hair < 0.5)
    alpha = window.alpha * (1 - is_neck * gives_way) * np.maximum(neck.alpha, _hair_and_face(window))
    rng = np.random.default_rng(number)
    for layer, cover in ((neck.colour, neck.alpha), (colour, alpha)):
        grained = add_grain(layer, grain, rng) if grain > MIN_GRAIN_LEVELS else layer
        under = under * (1 - cover[..., None]) + grained * cover[..., None]
    return np.asarray(under, np.float32)
