"""Search a photo for faces of any size and roll, and a finished one for faces that are still visible.

The full search has two stages. YuNet looks at overlapping tiles of the photo, enlarged and on a ladder of
scales, upright and turned by quarter turns, stretched sideways and as a negative, and proposes whatever might
be a face. Each proposal that is in doubt is then turned upright by its own landmarks, enlarged, and shown to
YuNet again; if that is not enough, CenterFace, which was trained on other data, is asked about a close-up,
and the sum of both scores decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.boxes import NMS_IOU, Boxes, intersection, is_explained, largest_first, suppress
from ksame.models.detectors import centerface_images, detect, yunet_images

__all__ = ["Effort", "search", "visible_faces"]

Effort = Literal["fast", "full"]
Image = NDArray[np.uint8]

FINEST_SCALE = 1.5  # at which faces of 12 px are as large as the smallest that YuNet knows
STRETCHED_SCALES = (2.25, 0.75)  # width and height: a face of 0.3 of its width looks like a face again
NEGATIVE_SCALE = 0.75
COARSEST_SIDE_PX = 200  # scales are halved until the photo's longest side is no longer than this
TILE_SIDES_PX = (
    320,
    512,
)  # compiled for: smaller ones overlap more, larger ones miss the cache
TILE_OVERLAP_PX = 40  # faces up to this size are whole in one tile; larger ones are on a coarser scale
FLAT_RANGE = 6  # grey levels within 20 px: where there is less than that, there is no face

# A face that is turned by 45 degrees has a score above this in one of the two nearest quarter turns: of 180
# composites of 12 to 44 px at random rolls all had, and with a score of 0.2 three had not.
PROPOSAL_SCORE = 0.1
DOUBTFUL_SCORE = 0.15  # YuNet's score, turned upright, from which CenterFace is asked
LARGE_DOUBTFUL_SCORE = 0.4  # the same for large faces
CONFIDENT_SCORE = 0.5  # the sum of both scores from which there is a face
# Large faces are seen on several scales, and on one of them clearly: on composites of 110 px hardly any of
# any kind was below 0.6 to YuNet alone, while shoulders and hair are seen large and in doubt.
LARGE_FACE_PX = 64
LARGE_CONFIDENT_SCORE = 0.6
CERTAIN_SCORE = 0.8  # YuNet's, from which there is one face and nothing else in its place
BLAZEFACE_CONFIDENT_SCORE = 0.75  # below, BlazeFace takes hands, shirts and curtains for faces
LEAST_SCORE = 0.02  # of what is seen in a close-up: scores are added, so small ones count too


class Alteration(NamedTuple):
    """How an image is altered before a detector sees it."""

    stretch: float = 1.0
    negative: bool = False


PLAIN, NEGATIVE, STRETCHED = 0, 1, 2
ALTERATIONS = (Alteration(), Alteration(negative=True), Alteration(stretch=3.0))


class SearchView(NamedTuple):
    """How a photo is looked at: at which scales, turned by which quarter turns, and altered in which way."""

    width_scale: float
    height_scale: float
    turns: tuple[int, ...]
    alteration: int


class Tile(NamedTuple):
    """A square part of a view: the matrix (2, 3) that takes the photo to it, and its side in pixels."""

    matrix: FloatArray
    side: int


class CloseUp(NamedTuple):
    """How a detector is shown one face: a square chip with the face in the middle."""

    look: Callable[..., tuple[Boxes, IntArray]]
    side_px: int
    face_px: int
    batch: int  # chips at a time, as the network is compiled for


YUNET_CLOSE_UP = CloseUp(yunet_images, 64, 26, 16)
YUNET_WIDE_CLOSE_UP = CloseUp(yunet_images, 96, 40, 4)
CENTERFACE_CLOSE_UP = CloseUp(lambda bgr, least: centerface_images(bgr[..., ::-1], least=least), 96, 40, 4)


class Proposals(NamedTuple):
    """Boxes that may be faces, and the row of ``ALTERATIONS`` that each was seen with."""

    boxes: Boxes
    alteration: IntArray

    def rows(self, index: NDArray[np.bool_] | IntArray) -> Proposals:
        """Return some of them."""
        return Proposals(self.boxes[index], self.alteration[index])

    @classmethod
    def join(cls, parts: list[Proposals]) -> Proposals:
        """Return all of them side by side."""
        rows = [np.zeros(0, np.intp), *(part.alteration for part in parts)]
        return cls(Boxes.join([part.boxes for part in parts]), np.concatenate(rows))


def search(rgb: Image, *, effort: Effort = "full") -> Boxes:
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
    pyramid = _pyramid(rgb)
    proposed = _propose(pyramid)
    proposed = Proposals.join([proposed, _look_again(pyramid, proposed)])
    asked = proposed.rows(_best_of_each_turn(proposed))
    best, boxes = _votes(asked.boxes, proposed.boxes)
    confirmed = boxes[_is_confirmed(pyramid, asked, best)]
    confirmed = confirmed[suppress(confirmed.xyxy, confirmed.score)]
    return largest_first(confirmed[~_part_of_a_certain_face(confirmed)])


def visible_faces(rgb: Image, known: ArrayLike) -> Boxes:
    """Return the faces that any of three detectors sees and no known box explains.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        What would be published.
    known : (m, 4) array
        Boxes within which faces were replaced or covered; see ``ksame.core.boxes.is_explained``.
    """
    boxes = np.asarray(known, dtype=np.float64).reshape(-1, 4)
    certain = Boxes.join([detect(rgb, detector=name, turned=True) for name in ("yunet", "centerface")])
    doubtful = detect(rgb, detector="blazeface", turned=True)
    certain, doubtful = (found[~is_explained(found.xyxy, boxes)] for found in (certain, doubtful))
    sure = doubtful.score >= BLAZEFACE_CONFIDENT_SCORE
    doubted = Proposals(doubtful[~sure], np.full(int((~sure).sum()), PLAIN))
    pyramid = _pyramid(rgb) if len(doubted.boxes) else []
    # BlazeFace's score is no part of the sum: it is at least one half wherever it sees anything
    score = sum(
        _seen_close_up(pyramid, doubted, how)[1] for how in (CENTERFACE_CLOSE_UP, YUNET_WIDE_CLOSE_UP)
    )
    found = Boxes.join([certain, doubtful[sure], doubted.boxes[score >= CONFIDENT_SCORE]])
    return found[suppress(found.xyxy, found.score)]


def views(height: int, width: int) -> Iterator[SearchView]:
    """Yield the views of a photo that the full search looks at, each on its ladder of scales."""
    for scales, turns, alteration in (
        ((FINEST_SCALE, FINEST_SCALE), (0, 1, 2, 3), PLAIN),
        (STRETCHED_SCALES, (0,), STRETCHED),
        ((NEGATIVE_SCALE, NEGATIVE_SCALE), (0,), NEGATIVE),
    ):
        wide, high = scales
        yield SearchView(wide, high, turns, alteration)
        while max(wide * width, high * height) > COARSEST_SIDE_PX:
            wide, high = wide / 2, high / 2
            yield SearchView(wide, high, turns, alteration)


def _propose(pyramid: list[Image]) -> Proposals:
    """Return what YuNet sees in any view, also where it is in doubt."""
    parts = []
    height, width, _ = pyramid[0].shape
    for view in views(height, width):
        for tile in tiles_of((height, width), view):
            image = _sample(pyramid, tile.matrix, tile.side)
            if _is_flat(image):
                continue
            image = _altered(image, view.alteration)
            for turn in view.turns:
                turned = np.asarray(cv2.rotate(image, 3 - turn)) if turn else image  # as np.rot90
                found, _ = yunet_images(turned[None], least=PROPOSAL_SCORE)
                found = found[suppress(found.xyxy, found.score)]
                matrix = _quarter_turns(turn, tile.side) @ np.vstack([tile.matrix, [0, 0, 1]])
                rows = np.full(len(found), view.alteration)
                parts.append(Proposals(_in_photo(found, np.repeat(matrix[None], len(found), axis=0)), rows))
    return Proposals.join(parts)


def _best_of_each_turn(proposed: Proposals) -> NDArray[np.intp]:
    """Return the best rows of each place, of each quarter turn and alteration apart.

    Nested boxes stay: a wrong large one must not hide a small face. So do other turns: the one with the best
    score may have its landmarks wrong.
    """
    x, y = (proposed.boxes.five[:, 1] - proposed.boxes.five[:, 0]).T
    turn = np.round(np.arctan2(y, x) / (np.pi / 2)) % 4
    apart = 2 * np.abs(proposed.boxes.xyxy).max(initial=0.0) + 1
    group = len(ALTERATIONS) * turn + proposed.alteration
    return suppress(proposed.boxes.xyxy + apart * group[:, None], proposed.boxes.score, nested=True)


def _look_again(pyramid: list[Image], proposed: Proposals) -> Proposals:
    """Return what YuNet sees of the proposals that are in doubt, each turned upright and enlarged."""
    doubted = proposed.rows(proposed.boxes.score < CERTAIN_SCORE)
    turns = doubted.rows(_best_of_each_turn(doubted))
    best = turns.rows(suppress(turns.boxes.xyxy, turns.boxes.score, nested=True))
    upright = Proposals.join(
        [
            Proposals(turns.boxes, np.full(len(turns.boxes), PLAIN)),
            Proposals(best.boxes, np.full(len(best.boxes), NEGATIVE)),
            turns.rows(turns.alteration == STRETCHED),
        ]
    )
    seen, score = _seen_close_up(pyramid, upright, YUNET_CLOSE_UP)
    return Proposals(seen, upright.alteration).rows(score >= DOUBTFUL_SCORE)


def _votes(found: Boxes, proposed: Boxes) -> tuple[FloatArray, Boxes]:
    """Return the best score in each place (n,), and boxes that are the mean of all views, by their scores.

    Of a face that is half hidden the best view alone may show the forehead only.
    """
    best, mean = np.zeros(len(found)), np.zeros((len(found), 4))
    area, areas = ((b.xyxy[:, 2:] - b.xyxy[:, :2]).prod(axis=1) for b in (found, proposed))
    for start in range(0, len(found), 64):  # of a large photo all at once would not fit in memory
        rows = slice(start, start + 64)
        common = intersection(found.xyxy[rows], proposed.xyxy)  # (64, m)
        vote = (common > NMS_IOU * (area[rows, None] + areas - common)) * proposed.score
        best[rows], mean[rows] = vote.max(axis=1), vote @ proposed.xyxy / vote.sum(axis=1, keepdims=True)
    return best, Boxes(mean, found.score, found.five)


def _is_confirmed(pyramid: list[Image], found: Proposals, best: FloatArray) -> NDArray[np.bool_]:
    """Return of which proposals YuNet is confident, or both detectors together.

    ``best`` (n,) is YuNet's best score in the place of each: where its landmarks are right it may see less.
    """
    boxes = found.boxes
    is_large = (boxes.xyxy[:, 2:] - boxes.xyxy[:, :2]).max(axis=1) >= LARGE_FACE_PX
    wanted = np.where(is_large, LARGE_CONFIDENT_SCORE, CONFIDENT_SCORE)
    doubtful = best >= np.where(is_large, LARGE_DOUBTFUL_SCORE, DOUBTFUL_SCORE)
    asked = np.flatnonzero(doubtful & (best < wanted))
    confirmed: NDArray[np.bool_] = boxes.score >= wanted
    confirmed[asked] = (
        best[asked] + _seen_close_up(pyramid, found.rows(asked), CENTERFACE_CLOSE_UP)[1] >= wanted[asked]
    )
    return confirmed


def _part_of_a_certain_face(found: Boxes) -> NDArray[np.bool_]:
    """Return which boxes (n,) share half of the smaller area with a certain face of a better score.

    Half a face, or a face with much around it, looks like one in some view.
    """
    common = intersection(found.xyxy, found.xyxy)  # (n, n)
    area = np.diagonal(common)
    better = (found.score[None] > found.score[:, None]) & (found.score[None] >= CERTAIN_SCORE)
    return np.asarray((better & (common > 0.5 * np.minimum(area[None], area[:, None]))).any(axis=1))


def _seen_close_up(pyramid: list[Image], proposals: Proposals, how: CloseUp) -> tuple[Boxes, FloatArray]:
    """Return what a detector sees in place of each proposal, turned upright, and its score or 0."""
    boxes, count = proposals.boxes, len(proposals.boxes)
    matrices = _close_up_matrices(proposals, how)
    parts, rows = [Boxes.none()], [np.zeros(0, np.intp)]
    for start in range(0, count, how.batch):
        chips = np.zeros((how.batch, how.side_px, how.side_px, 3), np.uint8)
        for i, matrix in enumerate(matrices[start : start + how.batch]):
            chips[i] = _altered(_sample(pyramid, matrix, how.side_px), int(proposals.alteration[start + i]))
        seen, row = how.look(chips, least=LEAST_SCORE)
        corners = seen.xyxy.reshape(-1, 2, 2)
        size = np.ptp(corners, axis=1)
        holds = (np.abs(corners.mean(axis=1) - how.side_px / 2) < size / 2).all(axis=1)
        ratio = size.max(axis=1) / how.face_px
        same = holds & (ratio > 0.4) & (ratio < 2.5) & (start + row < count)
        parts.append(seen[same])
        rows.append(start + row[same])
    seen, row = Boxes.join(parts), np.concatenate(rows)
    order = np.argsort(-seen.score, kind="stable")
    asked, first = np.unique(row[order], return_index=True)
    best = _in_photo(seen[order[first]], matrices[asked])
    score = np.zeros(count)
    score[asked] = best.score
    xyxy, five = boxes.xyxy.copy(), boxes.five.copy()
    xyxy[asked], five[asked] = best.xyxy, best.five
    return Boxes(xyxy, score, five), score


def _close_up_matrices(proposals: Proposals, how: CloseUp) -> FloatArray:
    """Return the matrices (n, 2, 3) that take the photo to a chip with each face upright in the middle."""
    low, high = proposals.boxes.xyxy[:, :2], proposals.boxes.xyxy[:, 2:]
    stretch = np.array([ALTERATIONS[i].stretch for i in proposals.alteration]).reshape(-1)
    x, y = (proposals.boxes.five[:, 1] - proposals.boxes.five[:, 0]).T
    angle = np.arctan2(y, stretch * x)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    linear = turn * (how.face_px / (high - low).max(axis=1))[:, None, None]
    linear[:, :, 0] *= stretch[:, None]
    shift = (how.side_px - 1) / 2 - (linear @ ((low + high) / 2)[:, :, None])
    return np.concatenate([linear, shift], axis=2)


def tiles_of(size: tuple[int, int], view: SearchView) -> list[Tile]:
    """Return square tiles that overlap and cover a photo (h, w) in one view."""
    scales = np.array([view.width_scale, view.height_scale])
    length = np.array(size[::-1]) * scales
    plans = {
        side: np.maximum(1, np.ceil((length - TILE_OVERLAP_PX) / (side - TILE_OVERLAP_PX))).astype(int)
        for side in TILE_SIDES_PX
    }
    side = min(plans, key=lambda side: side**2 * int(plans[side].prod()))
    lefts, tops = (_starts(n, count, side) for n, count in zip(length, plans[side], strict=True))
    # pixel centres: x_view = (x_photo + 1/2) scale - 1/2
    offset = (scales - 1) / 2
    return [
        Tile(np.column_stack([np.diag(scales), offset - (left, top)]), side) for top in tops for left in lefts
    ]


def _starts(length: float, count: int, side: int) -> list[float]:
    """Return where tiles start that cover a length evenly; a single one has it in the middle."""
    if count == 1:
        return [(length - side) / 2]
    return [float(start) for start in np.linspace(0, length - side, count)]


def _quarter_turns(count: int, side: int) -> FloatArray:
    """Return the matrix (2, 3) that takes a square image to its ``np.rot90``."""
    turned = np.eye(3)
    for _ in range(count):
        turned = np.array([[0.0, 1, 0], [-1, 0, side - 1], [0, 0, 1]]) @ turned
    return turned[:2]


def _pyramid(rgb: Image) -> list[Image]:
    """Return the photo in BGR, as YuNet wants it, and halved copies, so that no tile skips pixels."""
    levels = [np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), np.uint8)]
    while max(levels[-1].shape[:2]) > COARSEST_SIDE_PX and min(levels[-1].shape[:2]) > 1:
        h, w = (side // 2 for side in levels[-1].shape[:2])
        levels.append(
            np.asarray(cv2.resize(levels[-1][: 2 * h, : 2 * w], (w, h), interpolation=cv2.INTER_AREA))
        )
    return levels


def _sample(pyramid: list[Image], matrix: FloatArray, side: int) -> Image:
    """Return the pixels (side, side, 3) of a part of the photo; beside the photo its border is repeated."""
    scale = np.linalg.norm(matrix[:, :2], axis=1).min()
    level = int(np.clip(np.log2(0.6 / scale) + 1, 0, len(pyramid) - 1))  # not below 0.6 of the copy's pixels
    step = 2.0**level  # pixel centres: x_photo = (x_copy + 1/2) step - 1/2
    middle = (step - 1) / 2
    matrix = matrix @ np.array([[step, 0, middle], [0, step, middle], [0, 0, 1]])
    size, border = (side, side), cv2.BORDER_REPLICATE
    return np.asarray(cv2.warpAffine(pyramid[level], matrix, size, flags=cv2.INTER_LINEAR, borderMode=border))


def _altered(image: Image, alteration: int) -> Image:
    """Return an image as its alteration wants it; it was stretched when it was sampled."""
    return 255 - image if ALTERATIONS[alteration].negative else image


def _is_flat(bgr: Image) -> bool:
    """Return whether there is too little contrast anywhere in a tile for a face."""
    grey = cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY)
    grey = cv2.resize(grey, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
    around = np.ones((5, 5), np.uint8)
    return int(cv2.subtract(cv2.dilate(grey, around), cv2.erode(grey, around)).max()) < FLAT_RANGE


def _in_photo(found: Boxes, matrices: FloatArray) -> Boxes:
    """Return boxes of tiles as boxes of the photo: those of the ellipses in them, turned back.

    ``matrices`` (n, 2, 3) take the photo to the tile of each box.
    """
    inverse = np.linalg.inv(matrices[:, :, :2])  # (n, 2, 2)

    def back(points: FloatArray) -> FloatArray:  # (n, p, 2)
        moved: FloatArray = (points - matrices[:, None, :, 2]) @ inverse.transpose(0, 2, 1)
        return moved

    corners = found.xyxy.reshape(-1, 2, 2)
    centre = back(corners.mean(axis=1, keepdims=True))[:, 0]
    half_sides = np.ptp(corners, axis=1) / 2
    reach = np.sqrt((inverse**2 @ (half_sides**2)[:, :, None])[:, :, 0])
    return Boxes(np.hstack([centre - reach, centre + reach]), found.score, back(found.five))
