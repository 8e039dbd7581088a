"""Composites: photos with synthetic faces at known positions, to measure which faces a search misses.

They show no real person. Heads come from the bundled pool of synthetic portraits (``bundled_heads``, fast,
hair and shoulders are painted around the face) or are drawn by the generator (``drawn_heads``, whole heads).
Everything is determined by a seed. The size of a face is its height from hairline to chin, as detectors box
it; its true box is smaller, from brow to chin and from ear to ear, and of the visible part only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import cv2
import numpy as np

from backgrounds import background, distract
from heads import FACE_CENTRE, FACE_HEIGHT, OCCLUSIONS, Head
from ksame.core.boxes import Boxes
from ksame.core.geometry import transform
from ksame.render.cover import cover_boxes

SIZES = (12, 14, 16, 18, 20, 24, 32, 44, 60, 80, 100, 140, 200, 220)  # px
ROLLS = tuple(range(0, 360, 15))  # degrees
SMALL_PHOTO = (1200, 1600)
PHOTOS = (SMALL_PHOTO, (3000, 4000), (3024, 4032), (3000, 12000))  # height, width
MIXED = (24, 44, 80, 140)  # px: the sizes for all other conditions
COVERED = 0.8  # share of the true box that covers must hide


@dataclass(frozen=True, eq=False)
class Case:
    """A photo, the true boxes (n, 4) of its faces, the condition under test, and its level for each face."""

    image: np.ndarray
    boxes: np.ndarray
    condition: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Face:
    """How a head is put into a photo: height in px, roll in degrees clockwise, share of its width."""

    size: float
    level: str
    roll: float = 0.0
    squeeze: float = 1.0


def compose(
    heads: Sequence[Head],
    faces: Sequence[Face],
    rng: np.random.Generator,
    condition: str,
    *,
    shape: tuple[int, int] = SMALL_PHOTO,
    distractors: int = 5,
) -> Case:
    """Return a photo with these faces, without overlap; heads are used in rotation."""
    image = background(rng, *shape)
    distract(rng, image, distractors)
    places: list[tuple[float, float, float]] = []
    order = sorted(faces, key=lambda face: -face.size)
    boxes = np.array(
        [_paste(image, heads[i % len(heads)], face, places, rng) for i, face in enumerate(order)]
    )
    return Case(image, boxes.reshape(-1, 4), condition, tuple(face.level for face in order))


def _paste(
    image: np.ndarray,
    head: Head,
    face: Face,
    places: list[tuple[float, float, float]],
    rng: np.random.Generator,
) -> np.ndarray:
    """Put a head where it hides no other face; return the true box (4,) of its face."""
    x, y = _free_place(image.shape, face.size, places, rng)
    finer = int(np.clip(FACE_HEIGHT / face.size, 1, 4))  # drawn larger, then averaged against aliasing
    side = 2 * int(1.9 * face.size) + 2
    turn, scale = np.deg2rad(face.roll), finer * face.size / FACE_HEIGHT
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    turned = scale * turned * (face.squeeze, 1)
    left, top = round(x - side / 2), round(y - side / 2)
    centre = finer * np.array([x - left, y - top])  # of the face, on the patch
    matrix = np.column_stack([turned, centre - turned @ FACE_CENTRE])
    matte = head.matte[..., None]
    colours = np.dstack([head.rgb * matte * rng.uniform(0.85, 1.05), matte])
    softened = cv2.GaussianBlur(colours, (0, 0), 0.4 / scale)
    drawn = cv2.warpAffine(softened, matrix, (finer * side, finer * side))
    patch = cv2.resize(drawn, (side, side), interpolation=cv2.INTER_AREA)
    low, high = np.maximum((left, top), 0), np.minimum((left + side, top + side), image.shape[1::-1])
    here = np.s_[low[1] : high[1], low[0] : high[0]]
    part = patch[low[1] - top : high[1] - top, low[0] - left : high[0] - left]
    noise = rng.normal(0, 2.5, (*part.shape[:2], 1)) * part[..., 3:]
    image[here] = np.clip(image[here] * (1 - part[..., 3:]) + part[..., :3] + noise, 0, 255)
    outline = transform(matrix, head.face) / finer + (left, top)
    return np.concatenate([outline.min(axis=0), outline.max(axis=0)])


def _free_place(
    shape: tuple[int, ...], size: float, places: list[tuple[float, float, float]], rng: np.random.Generator
) -> tuple[float, float]:
    """Return a free position for a whole face and record it."""
    for _ in range(2000):
        x, y = (rng.uniform(0.75 * size, side - 0.75 * size) for side in (shape[1], shape[0]))
        if all(np.hypot(x - a, y - b) > 1.7 * max(size, c) + 0.75 * min(size, c) for a, b, c in places):
            places.append((x, y, size))
            return x, y
    raise ValueError(f"No room for another face of {size} px: ask for fewer faces or a larger photo.")


def sizes(
    heads: Sequence[Head], rng: np.random.Generator, *, shape: tuple[int, int] = SMALL_PHOTO, photos: int = 2
) -> Iterator[Case]:
    """Yield photos of one shape with faces of all sizes: four of each, and one of the large ones."""
    faces = [Face(size, f"{size:3} px") for size in SIZES for _ in range(4 if size < 100 else 1)]
    for _ in range(photos):
        yield compose(heads, faces, rng, f"size, photo of {shape[1]:,} px", shape=shape)


def rolls(
    heads: Sequence[Head], rng: np.random.Generator, *, of: Sequence[int] = (20, 28, 44, 80), step: int = 15
) -> Iterator[Case]:
    """Yield photos with faces at all rolls: upright ones must not end the search for the others."""
    for size in of:
        faces = [Face(size, f"{roll:3} deg", roll=roll) for roll in ROLLS[:: step // 15]]
        yield compose(heads, faces, rng, "roll")


def yaws(heads: Sequence[Head], rng: np.random.Generator) -> Iterator[Case]:
    """Yield photos of faces squeezed horizontally, as a substitute for turned heads."""
    for share in (0.7, 0.5, 0.3):
        faces = [Face(size, f"width x {share}", squeeze=share) for size in MIXED for _ in range(4)]
        yield compose(heads, faces, rng, "squeezed")


def blurs(heads: Sequence[Head], rng: np.random.Generator) -> Iterator[Case]:
    """Yield photos blurred by a Gaussian and by motion, in shares of the face's height."""
    for size, how in product((32, 80), ("gaussian 0.04", "gaussian 0.08", "motion 0.2", "motion 0.4")):
        case = compose(heads, [Face(size, how)] * 12, rng, "blur")
        kind, share = how.split()
        reach = float(share) * size
        if kind == "gaussian":
            yield replace(case, image=cv2.GaussianBlur(case.image, (0, 0), reach))
        else:
            side = 2 * int(reach / 2) + 1
            kernel = np.zeros((side, side), np.float32)
            turn = rng.uniform(0, np.pi)
            step = (reach / 2 * np.array([np.cos(turn), np.sin(turn)])).round().astype(int)
            middle = np.array([side // 2, side // 2])
            cv2.line(kernel, (middle - step).tolist(), (middle + step).tolist(), 1.0)
            yield replace(case, image=cv2.filter2D(case.image, -1, kernel / kernel.sum()))


def occlusions(heads: Sequence[Head], rng: np.random.Generator) -> Iterator[Case]:
    """Yield photos of faces that are partly hidden; their true box is that of the visible part."""
    for level, hide in OCCLUSIONS.items():
        faces = [Face(size, level) for size in MIXED for _ in range(4)]
        yield compose([hide(head) for head in heads], faces, rng, "hidden")


def lights(heads: Sequence[Head], rng: np.random.Generator) -> Iterator[Case]:
    """Yield photos that are dark, bright, of low contrast, noisy, negative, and of backlit faces."""
    for level, change in LIGHTS.items():
        case = compose(heads, [Face(size, level) for size in MIXED for _ in range(4)], rng, "light")
        changed = change(case.image.astype(np.float32), rng)
        yield replace(case, image=np.clip(changed, 0, 255).astype(np.uint8))
    dark = [replace(head, rgb=(0.3 * head.rgb).astype(np.uint8)) for head in heads]
    case = compose(dark, [Face(size, "backlit") for size in MIXED for _ in range(4)], rng, "light")
    yield replace(case, image=np.clip(case.image * 1.4 + 25, 0, 255).astype(np.uint8))


def tones(heads: Sequence[Head], rng: np.random.Generator) -> Iterator[Case]:
    """Yield photos of the lightest, the middle and the darkest third of the heads, by measured L*."""
    ordered = sorted(heads, key=lambda head: head.lightness)
    for level, part in zip(
        ("darkest", "middle", "lightest"), np.array_split(np.arange(len(ordered)), 3), strict=True
    ):
        some = [ordered[i] for i in part]
        mean = np.mean([head.lightness for head in some])
        faces = [Face(size, f"{level} third, L* {mean:.0f}") for size in (18, *MIXED) for _ in range(4)]
        yield compose(some, faces, rng, "skin")


def qualities(heads: Sequence[Head], rng: np.random.Generator) -> Iterator[Case]:
    """Yield photos compressed as JPEG."""
    for quality in (75, 40, 20, 10):
        faces = [Face(size, f"quality {quality}") for size in (18, *MIXED) for _ in range(4)]
        case = compose(heads, faces, rng, "jpeg")
        _, data = cv2.imencode(".jpg", case.image, [cv2.IMWRITE_JPEG_QUALITY, quality])
        yield replace(case, image=cv2.imdecode(data, cv2.IMREAD_COLOR))  # both ways BGR: the colours stay


def empty(
    rng: np.random.Generator, *, count: int, shape: tuple[int, int] = SMALL_PHOTO, distractors: int = 25
) -> Iterator[Case]:
    """Yield photos with face-like objects but without a face."""
    for _ in range(count):
        image = background(rng, *shape)
        distract(rng, image, distractors)
        yield Case(image, np.zeros((0, 4)), "no face", ())


def turned(heads: Sequence[Head], rng: np.random.Generator) -> Iterator[Case]:
    """Yield a photo of heads that the generator drew turned: as they are, without a squeeze."""
    yield compose(heads, [Face(size, "drawn so") for size in (18, *MIXED) for _ in range(4)], rng, "turned")


CONDITIONS: dict[str, Callable[[Sequence[Head], np.random.Generator], Iterator[Case]]] = {
    "roll": rolls, "squeezed": yaws, "blur": blurs, "hidden": occlusions, "light": lights, "skin": tones,
    "jpeg": qualities,
}  # fmt: skip
"""Conditions besides size, by name: each takes heads and a random generator."""


LIGHTS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "dark": lambda image, _: 0.2 * image,
    "bright": lambda image, _: 1.6 * image + 60,
    "low contrast": lambda image, _: 0.2 * image + 110,
    "noise": lambda image, rng: image + rng.normal(0, 30, image.shape),
    "negative": lambda image, _: 255 - image,
}


def is_covered(true: np.ndarray, found: Boxes) -> np.ndarray:
    """Return (n,) bool: which true boxes (n, 4) would be hidden if the detections were covered."""
    return hidden_by(true, cover_boxes(found.xyxy))


def hidden_by(true: np.ndarray, covers: np.ndarray) -> np.ndarray:
    """Return (n,) bool: which true boxes (n, 4) the ellipses within covers (m, 4) hide.

    A face is hidden if its centre lies in the box of a cover and all ellipses together hide ``COVERED`` of
    its box.
    """
    return np.array([_is_hidden(box, covers) for box in true], dtype=bool)


def _is_hidden(box: np.ndarray, covers: np.ndarray) -> bool:
    covers = covers[((covers[:, :2] < box[2:]) & (covers[:, 2:] > box[:2])).all(axis=1)]
    centre = (box[:2] + box[2:]) / 2
    if not ((covers[:, :2] <= centre) & (centre <= covers[:, 2:])).all(axis=1).any():
        return False
    x, y = (np.linspace(box[i], box[i + 2], 33)[:, None] for i in (0, 1))
    middle, half = (covers[:, :2] + covers[:, 2:]) / 2, (covers[:, 2:] - covers[:, :2]) / 2
    dx, dy = ((axis - middle[:, i]) / half[:, i] for i, axis in enumerate((x, y)))  # (33, m) each
    return bool(((dx[None] ** 2 + dy[:, None] ** 2).min(axis=2) <= 1).mean() >= COVERED)


def covered_share(covers: np.ndarray, shape: tuple[int, ...]) -> float:
    """Return the share of a photo that ellipses within boxes (m, 4) hide."""
    under = np.zeros(shape[:2], np.uint8)
    for low, high in covers.reshape(-1, 2, 2):
        middle, half = np.rint((low + high) / 2).astype(int), np.rint((high - low) / 2).astype(int)
        cv2.ellipse(under, middle.tolist(), half.tolist(), 0, 0, 360, 1, -1)
    return float(under.mean())
