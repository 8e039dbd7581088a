"""Search a photo for faces of any size and roll, and a finished one for faces that are still visible.

The full search looks at overlapping tiles of the photo at its own resolution and enlarged, on a ladder of
scales and turned by every 45 degrees; it also looks for negatives, faces in poor light and faces that are
squeezed. YuNet proposes; where it is in doubt, CenterFace, which was trained on its own, is asked about a
close-up, and what both say together decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.boxes import Boxes
from ksame.core.geometry import crop, transform
from ksame.models.detectors import (
    NMS_IOU,
    centerface,
    detect,
    intersection,
    is_explained,
    largest_first,
    suppress,
    yunet,
)

__all__ = ["Effort", "search", "visible_faces"]

Effort = Literal["fast", "full"]
RGB = NDArray[np.uint8]

# Measured on composites of 64 faces each, every roll, at a scale of 1.5 and every 45 degrees: 0 of 192 missed
# at 20 px and more, 3 at 16 px, 6 at 12 px. At scale 1 and every 30 degrees 46 at 12 px.
FINEST_SCALE = 1.5
UPRIGHT_SCALE = 2.25  # half a face behind a post has half the pixels, and most faces are upright
ALTERED_SCALE = 1.125  # negatives, poor light, squeezed faces
COARSEST_SIDE_PX = 200  # scales are halved until the photo's longest side is no longer than this
MAX_TILE_PX = 960  # a network's memory grows with what it sees at a time
TILE_OVERLAP_PX = 48  # faces up to this size are whole in one tile; larger ones are on a coarser scale
FLAT_RANGE = 6  # grey levels within 20 px: where there is less than that, there is nothing to see

PROPOSAL_SCORE = 0.2  # YuNet's score from which CenterFace is asked
ALTERED_SCORE = 0.4  # the same in altered views, about which CenterFace cannot be asked
CONFIDENT_SCORE = 0.5  # the sum of both scores from which there is a face
# Large faces are seen on several scales, and on one of them clearly: on composites of 110 px hardly any of
# any kind was below 0.6 to YuNet alone, while shoulders and hair are seen large and in doubt.
LARGE_FACE_PX = 64
LARGE_CONFIDENT_SCORE = 0.6
CERTAIN_SCORE = 0.8  # YuNet's, from which there is one face and nothing else in its place
CLOSE_UP_PX = 128
CLOSE_UP_FACE_PX = 56
BLAZEFACE_CONFIDENT_SCORE = 0.75  # below, BlazeFace takes hands, shirts and curtains for faces


class SearchView(NamedTuple):
    """How a photo is looked at: at which scale, turned by how much, and altered in which way."""

    scale: float
    roll_deg: float = 0.0
    altered: Literal["", "negative", "contrast", "stretched"] = ""


class Tile(NamedTuple):
    """A part of a view: the matrix (2, 3) that takes the photo to it, and its size in pixels."""

    matrix: FloatArray
    width: int
    height: int


def search(rgb: RGB, *, effort: Effort = "full") -> Boxes:
    """Return the faces in a photo, largest first.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        A photo.
    effort : str
        ``full``: every face of at least 12 px, whatever its roll. ``fast``: upright faces of at least
        1/100 of the photo's longest side.
    """
    if effort == "fast":
        return detect(rgb)
    proposed = _propose(rgb)
    # Nested boxes wait until after the second opinion: a wrong large one must not hide a small face.
    found = _voted(proposed[suppress(proposed.xyxy, proposed.score, nested=True)], proposed)
    found = _confirmed(rgb, found)
    found = found[suppress(found.xyxy, found.score)]
    return largest_first(found[~_part_of_a_certain_face(found)])


def visible_faces(rgb: RGB, known: ArrayLike) -> Boxes:
    """Return the faces that any of three detectors sees and no known box explains.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        What would be published.
    known : (m, 4) array
        Boxes within which faces were replaced or covered; see ``detect.explained``.
    """
    boxes = np.asarray(known, dtype=np.float64).reshape(-1, 4)
    certain = Boxes.join([detect(rgb, detector=name, turned=True) for name in ("yunet", "centerface")])
    doubtful = detect(rgb, detector="blazeface", turned=True)
    certain, doubtful = (found[~is_explained(found.xyxy, boxes)] for found in (certain, doubtful))
    sure = doubtful.score >= BLAZEFACE_CONFIDENT_SCORE
    doubted = doubtful[~sure]
    # BlazeFace's score is no part of the sum: it is at least one half wherever it sees anything
    agreed = [
        _close_up_score(rgb, doubted[[row]], both=True) >= CONFIDENT_SCORE for row in range(len(doubted))
    ]
    found = Boxes.join([certain, doubtful[sure], doubted[np.array(agreed, bool)]])
    return found[suppress(found.xyxy, found.score)]


def views(height: int, width: int) -> Iterator[SearchView]:
    """Yield the views of a photo that the full search looks at, each on its ladder of scales."""
    plain = [(FINEST_SCALE, roll, "") for roll in range(45, 360, 45)]
    turned_negatives = [(ALTERED_SCALE / 2, roll, "negative") for roll in (90, 180, 270)]
    altered = [(ALTERED_SCALE, 0, how) for how in ("negative", "contrast", "stretched")]
    for scale, roll, how in [(UPRIGHT_SCALE, 0, ""), *plain, *altered, *turned_negatives]:
        yield SearchView(scale, roll, how)  # type: ignore[arg-type]  # a tuple of literals is no Literal
        while scale * max(height, width) > COARSEST_SIDE_PX:
            scale /= 2
            yield SearchView(scale, roll, how)  # type: ignore[arg-type]


def _propose(rgb: RGB) -> Boxes:
    """Return what YuNet sees in any view, also where it is in doubt."""
    pyramid = _pyramid(rgb)
    found = []
    for view in views(*rgb.shape[:2]):
        least = ALTERED_SCORE if view.altered else PROPOSAL_SCORE
        for tile in tiles_of(rgb.shape[:2], view):
            image = _sample(pyramid, tile)
            if not _is_flat(image):
                found.append(
                    _in_photo(yunet(_altered(image, view), least=least, specialise=False), tile.matrix)
                )
    return Boxes.join(found)


def _voted(found: Boxes, proposed: Boxes) -> Boxes:
    """Return faces with the mean box of all views in which they were seen, by score.

    Of a face that is half hidden the best view alone may show the forehead only.
    """
    common = intersection(found.xyxy, proposed.xyxy)  # (n, m)
    area, areas = ((b.xyxy[:, 2:] - b.xyxy[:, :2]).prod(axis=1) for b in (found, proposed))
    vote = (common > NMS_IOU * (area[:, None] + areas - common)) * proposed.score
    return Boxes(vote @ proposed.xyxy / vote.sum(axis=1, keepdims=True), found.score, found.five)


def _confirmed(rgb: RGB, found: Boxes) -> Boxes:
    """Return the faces about which the scores of two detectors together are confident."""
    is_large = (found.xyxy[:, 2:] - found.xyxy[:, :2]).max(axis=1) >= LARGE_FACE_PX
    wanted = np.where(is_large, LARGE_CONFIDENT_SCORE, CONFIDENT_SCORE)
    evidence = found.score.astype(np.float64)
    worth_asking = evidence >= np.where(is_large, ALTERED_SCORE, PROPOSAL_SCORE)
    for row in np.flatnonzero(worth_asking & (evidence < wanted)):
        evidence[row] += _close_up_score(rgb, found[[row]])
    return found[evidence >= wanted]


def _part_of_a_certain_face(found: Boxes) -> NDArray[np.bool_]:
    """Return which boxes (n,) share half of the smaller area with a certain face of a better score.

    Half a face, or a face with much around it, looks like one in some view.
    """
    common = intersection(found.xyxy, found.xyxy)  # (n, n)
    area = np.diagonal(common)
    better = (found.score[None] > found.score[:, None]) & (found.score[None] >= CERTAIN_SCORE)
    return np.asarray((better & (common > 0.5 * np.minimum(area[None], area[:, None]))).any(axis=1))


def _close_up_score(rgb: RGB, face: Boxes, *, both: bool = False) -> float:
    """Return CenterFace's score of one face, seen upright and close up, or the sum of both detectors'."""
    low, high = face.xyxy[0].reshape(2, 2)
    x, y = face.five[0, 1] - face.five[0, 0]
    linear = CLOSE_UP_FACE_PX / (high - low).max() * _turn(np.arctan2(y, x))
    matrix = np.hstack([linear, (CLOSE_UP_PX / 2 - linear @ (low + high) / 2)[:, None]])
    image = crop(rgb, matrix, CLOSE_UP_PX, CLOSE_UP_PX)
    score = 0.0
    for look in (centerface, yunet) if both else (centerface,):
        seen = look(image, least=0.02)
        middle, size = seen.xyxy.reshape(-1, 2, 2).mean(axis=1), np.ptp(seen.xyxy.reshape(-1, 2, 2), axis=1)
        holds = (np.abs(middle - CLOSE_UP_PX / 2) < size / 2).all(axis=1)
        ratio = size.max(axis=1) / CLOSE_UP_FACE_PX
        score += float(seen.score[holds & (ratio > 0.4) & (ratio < 2.5)].max(initial=0.0))
    return score


def _turn(angle: float) -> FloatArray:
    """Return the rotation (2, 2) after which what is turned by an angle is upright."""
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def tiles_of(size: tuple[int, ...], view: SearchView) -> list[Tile]:
    """Return tiles that overlap and cover a photo (h, w) in one view."""
    stretch = np.diag([2.0 if view.altered == "stretched" else 1.0, 1.0])
    linear = view.scale * stretch @ _turn(np.deg2rad(view.roll_deg))
    outline = (np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * size[::-1] - 0.5) @ linear.T  # (4, 2)
    if np.ptp(outline, axis=0).max() < 2 * COARSEST_SIDE_PX:  # room around, for faces that fill the photo
        outline = 1.5 * outline - 0.5 * outline.mean(axis=0)
    low, high = outline[:, 1].min(), outline[:, 1].max()
    fewest = len(_spans(low, high, MAX_TILE_PX))
    plans = [_rows(outline, linear, count) for count in range(fewest, fewest + 4)]  # lower rows waste less
    return min(plans, key=lambda tiles: sum(tile.width * tile.height for tile in tiles))


def _rows(outline: FloatArray, linear: FloatArray, count: int) -> list[Tile]:
    """Return tiles that cover the inside of an outline (4, 2), in a number of rows."""
    (x0, y0), (x1, y1) = outline.T, np.roll(outline, -1, axis=0).T  # its edges
    rise = np.where(np.abs(y1 - y0) < 1e-6, 1e-6, y1 - y0)
    low, high = y0.min(), y0.max()
    tiles = []
    for top, bottom in _spans(low, high, (high - low - TILE_OVERLAP_PX) / count + TILE_OVERLAP_PX + 1e-6):
        inside = (np.minimum(y0, y1) <= bottom) & (np.maximum(y0, y1) >= top)
        share = np.clip((np.array([[top], [bottom]]) - y0) / rise, 0, 1)  # (2, 4)
        x = (x0 + share * (x1 - x0))[:, inside]
        for left, right in _spans(x.min(), x.max(), MAX_TILE_PX):
            shape = 32 * np.ceil(np.array([right - left, bottom - top]) / 32).astype(int)
            corner = (np.array([left + right, top + bottom]) - shape) / 2
            tiles.append(Tile(np.hstack([linear, -corner[:, None]]), *shape.tolist()))
    return tiles


def _spans(low: float, high: float, longest: float) -> list[tuple[float, float]]:
    """Return the fewest equal spans that overlap, cover a range, and are no longer than allowed."""
    count = max(1, int(np.ceil((high - low - TILE_OVERLAP_PX) / max(longest - TILE_OVERLAP_PX, 1.0))))
    length = (high - low + (count - 1) * TILE_OVERLAP_PX) / count
    return [(start, start + length) for start in low + np.arange(count) * (length - TILE_OVERLAP_PX)]


def _pyramid(rgb: RGB) -> list[RGB]:
    """Return the photo and halved copies, so that no tile skips pixels."""
    levels = [rgb]
    while max(levels[-1].shape[:2]) > COARSEST_SIDE_PX and min(levels[-1].shape[:2]) > 1:
        h, w = (side // 2 for side in levels[-1].shape[:2])
        levels.append(
            np.asarray(cv2.resize(levels[-1][: 2 * h, : 2 * w], (w, h), interpolation=cv2.INTER_AREA))
        )
    return levels


def _sample(pyramid: list[RGB], tile: Tile) -> RGB:
    """Return the pixels (h, w, 3) of a tile; beside the photo its border is repeated."""
    scale = np.sqrt(abs(np.linalg.det(tile.matrix[:, :2])))
    level = int(np.clip(np.log2(0.6 / scale) + 1, 0, len(pyramid) - 1))  # not below 0.6 of the copy's pixels
    step = 2.0**level  # pixel centres: x_photo = (x_copy + 1/2) step - 1/2
    middle = (step - 1) / 2
    matrix = tile.matrix @ np.array([[step, 0, middle], [0, step, middle], [0, 0, 1]])
    size, border = (tile.width, tile.height), cv2.BORDER_REPLICATE
    return np.asarray(cv2.warpAffine(pyramid[level], matrix, size, flags=cv2.INTER_LINEAR, borderMode=border))


def _altered(image: RGB, view: SearchView) -> RGB:
    """Return a tile as its view wants it."""
    if view.altered == "negative":
        return 255 - image
    if view.altered != "contrast":
        return image
    lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
    cells = [max(1, side // 80) for side in image.shape[1::-1]]  # of 80 px: about two faces
    lab[..., 0] = cv2.createCLAHE(4.0, cells).apply(lab[..., 0])
    return np.asarray(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))


def _is_flat(image: RGB) -> bool:
    """Return whether there is too little contrast anywhere in a tile for a face."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    grey = cv2.resize(grey, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
    around = np.ones((5, 5), np.uint8)
    return int(cv2.subtract(cv2.dilate(grey, around), cv2.erode(grey, around)).max()) < FLAT_RANGE


def _in_photo(found: Boxes, matrix: FloatArray) -> Boxes:
    """Return the boxes of a tile as boxes of the photo: those of the ellipses in them, turned back."""
    inverse = cv2.invertAffineTransform(matrix)
    corners = found.xyxy.reshape(-1, 2, 2)
    centre = transform(inverse, corners.mean(axis=1))
    reach = np.sqrt((np.ptp(corners, axis=1) / 2) ** 2 @ inverse[:, :2].T ** 2)
    return Boxes(np.hstack([centre - reach, centre + reach]), found.score, transform(inverse, found.five))
