"""Synthetic heads for composites: no real person; made from bundled data and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import cv2
import numpy as np

from backgrounds import smooth
from ksame.core.geometry import BROWS, LEFT_EYE, NOSE_TIP, OVAL, RIGHT_EYE, mean_mesh, transform
from ksame.methods.shift.pool import Pool
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes

CANVAS = (640, 512)  # px, height and width of a head with its shoulders
FACE_HEIGHT = 210.0  # px, from hairline to chin, on the canvas
FACE_CENTRE = np.array([256.0, 270.0])
FOREHEAD, CHIN = 10, 152  # of the mesh: the highest and the lowest point of the contour


@dataclass(frozen=True, eq=False)
class Head:
    """A head on the canvas: colours, opacity, mesh, and the outline of its visible face.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
    matte : (h, w) float32
        In [0, 1].
    mesh : (468, 2)
        Landmarks; the face is upright.
    face : (m, 2)
        Visible part of the brows and the contour below them.
    """

    rgb: np.ndarray
    matte: np.ndarray
    mesh: np.ndarray
    face: np.ndarray

    @property
    def lightness(self) -> float:
        """The mean L* of the cheeks and the nose, 0 to 100."""
        points = self.mesh[[36, 50, 205, 266, 280, 425, 5]].round().astype(int)
        lab = cv2.cvtColor(self.rgb.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
        return float(cv2.blur(lab, (9, 9))[points[:, 1], points[:, 0], 0].mean())


def bundled_heads(count: int, seed: int) -> list[Head]:
    """Return heads of the bundled pool's synthetic faces, with painted hair, neck and shoulders."""
    pool, rng = Pool.bundled(), np.random.default_rng(seed)
    heads = []
    for row in rng.permutation(len(pool))[:count].tolist():
        image = pool.image(row)
        assert image is not None, "this copy of the package has no pool with images"
        matrix = _to_canvas(mean_mesh())
        rgb, mesh = cv2.warpAffine(image, matrix, CANVAS[::-1]), transform(matrix, mean_mesh())
        matte = np.zeros(CANVAS, np.float32)
        oval = mesh[list(OVAL)]
        middle = oval.mean(axis=0)
        cv2.fillPoly(matte, [(middle + 0.97 * (oval - middle)).round().astype(np.int32)], 1.0)
        heads.append(_dressed(rgb, cv2.GaussianBlur(matte, (0, 0), 4), mesh, rng, hair=True))
    return heads


def drawn_heads(count: int, seed: int, *, spread: float = 0.8, **steer: float) -> list[Head]:
    """Return whole generated heads with soft mattes; ``steer`` changes attributes, such as yaw=20.

    Portraits without a detected face are skipped: their true box is unknown.
    """
    from ksame.models.generator import ImageGenerator
    from ksame.spaces.generator_space import GeneratorSpace

    space, generator, rng = GeneratorSpace.bundled(), ImageGenerator.bundled(), np.random.default_rng(seed)
    heads: list[Head] = []
    while len(heads) < count:
        style = space.mean[: generator.width]
        style = style + spread * (
            generator.styles(rng.standard_normal((1, generator.noise)))[0] - generator.mean
        )
        code = np.tile(style, 2)
        rgb = space.draw(
            (space.shift_attributes(code, steer) if steer else code)[None], generator, half=True
        )[0]
        found = detect(rgb)
        if len(found):
            mesh, presence = predict_meshes(rgb, found[:1])
            if presence[0] > 0.5:
                heads.append(_cut_out(rgb, mesh[0], rng))
    return heads


def _to_canvas(mesh: np.ndarray) -> np.ndarray:
    """Return the matrix (2, 3) that places a face on the canvas."""
    scale = FACE_HEIGHT / np.ptp(mesh[list(OVAL), 1])
    return np.column_stack([scale * np.eye(2), FACE_CENTRE - scale * (mesh[FOREHEAD] + mesh[CHIN]) / 2])


def _cut_out(rgb: np.ndarray, mesh: np.ndarray, rng: np.random.Generator) -> Head:
    """Return the head of a portrait: an ellipse with hair and neck that fades out at the borders."""
    matrix = _to_canvas(mesh)
    inside = np.zeros(rgb.shape[:2], np.uint8)
    inside[8:-8, 8:-8] = 1
    inside = cv2.warpAffine(inside, matrix, CANVAS[::-1])
    mesh = transform(matrix, mesh)
    ellipse = np.zeros(CANVAS, np.float32)
    middle = mesh[list(OVAL)].mean(axis=0) - (0, 0.1 * FACE_HEIGHT)
    axes = int(0.72 * np.ptp(mesh[list(OVAL), 0])), int(0.85 * FACE_HEIGHT)
    cv2.ellipse(ellipse, middle.round().astype(int).tolist(), axes, 0, 0, 360, 1.0, -1)
    matte = np.minimum(cv2.GaussianBlur(ellipse, (0, 0), 6), cv2.blur(inside.astype(np.float32), (9, 9)))
    placed = cv2.warpAffine(rgb, matrix, CANVAS[::-1], borderMode=cv2.BORDER_REPLICATE)
    return _dressed(placed, matte, mesh, rng, hair=False)


def _dressed(
    rgb: np.ndarray, matte: np.ndarray, mesh: np.ndarray, rng: np.random.Generator, *, hair: bool
) -> Head:
    """Return a face or head over painted shoulders and neck, and over hair if it has none."""
    (height, width), (x, y) = CANVAS, FACE_CENTRE.astype(int).tolist()
    below, under = np.zeros((*CANVAS, 3), np.float32), np.zeros(CANVAS, np.float32)
    skin = cv2.blur(rgb, (15, 15))[mesh[CHIN].astype(int)[1] - 25, x].astype(np.float32)
    chin, half = int(mesh[CHIN, 1]), int(np.ptp(mesh[list(OVAL), 0]) / 2)
    strands = cv2.resize(rng.standard_normal((12, 128)).astype(np.float32), (width, height))[..., None]
    cloth = (rng.uniform(30, 200) + rng.normal(0, 25, 3)).astype(np.float32) + 10 * smooth(
        rng, height, width, 40
    )[..., None]
    parts = [("shoulders", cloth), ("neck", 0.8 * skin + 3 * strands)]
    if hair:
        parts.insert(0, ("hair", rng.uniform(15, 150) * np.array([1, 0.8, 0.65], np.float32) + 14 * strands))
    long = rng.uniform(0.35, 1.0)  # length of the hair
    for part, colour in parts:
        shape = np.zeros(CANVAS, np.float32)
        if part == "shoulders":
            cv2.ellipse(
                shape,
                (x, height),
                (int(2.1 * half), height - chin + (-18 if hair else 5)),
                0,
                0,
                360,
                1.0,
                -1,
            )
        elif part == "neck":
            cv2.rectangle(
                shape, (x - int(0.55 * half), chin - 40), (x + int(0.55 * half), chin + 45), 1.0, -1
            )
        else:
            cv2.ellipse(shape, (x, y - 35), (int(1.15 * half), 140), 0, 0, 360, 1.0, -1)
            cv2.rectangle(
                shape, (x - int(1.15 * half), y - 35), (x + int(1.15 * half), y + int(110 * long)), 1.0, -1
            )
        shape = cv2.GaussianBlur(shape, (0, 0), 3)
        below += shape[..., None] * (colour - below)
        under = np.maximum(under, shape)
    mixed = below + matte[..., None] * (rgb - below)
    brows = [*BROWS[0], *BROWS[1]]
    outline = mesh[list(OVAL)]
    face = np.concatenate([mesh[brows], outline[outline[:, 1] > mesh[brows, 1].min()]])
    return Head(np.clip(mixed, 0, 255).astype(np.uint8), np.maximum(under, matte), mesh, face)


def _post(head: Head) -> Head:
    """Hide the left half of a face behind a post, as high as the canvas."""
    nose = int(head.mesh[NOSE_TIP, 0])
    hidden = _filled(head, np.s_[:, nose - 130 : nose], (96, 92, 88))
    return replace(hidden, face=np.maximum(head.face, (nose, 0)))


def _wall(head: Head) -> Head:
    """Hide everything below the nose behind a wall."""
    nose = int(head.mesh[NOSE_TIP, 1])
    hidden = _filled(head, np.s_[nose:, 60:-60], (140, 120, 105))
    return replace(hidden, face=np.minimum(head.face, (np.inf, nose)))


def _filled(head: Head, where: tuple[slice, slice], colour: tuple[int, int, int]) -> Head:
    rgb, matte = head.rgb.copy(), head.matte.copy()
    rgb[where], matte[where] = colour, 1
    return replace(head, rgb=rgb, matte=matte)


def _masked(head: Head) -> Head:
    """Put a medical mask on, from the bridge of the nose to the chin."""
    low = [point for point in OVAL if head.mesh[point, 1] > head.mesh[NOSE_TIP, 1] - 12]
    shape = cv2.convexHull(head.mesh[[*low, 197]].round().astype(np.int32))
    rgb = cv2.fillConvexPoly(head.rgb.copy(), shape, (168, 200, 212), cv2.LINE_AA)
    for fold in (0.3, 0.5, 0.7):
        y = int((1 - fold) * head.mesh[NOSE_TIP, 1] + fold * head.mesh[CHIN, 1])
        cv2.line(rgb, (int(FACE_CENTRE[0]) - 45, y), (int(FACE_CENTRE[0]) + 45, y), (140, 172, 186), 2)
    return replace(head, rgb=rgb)


def _shaded(head: Head) -> Head:
    """Put sunglasses on."""
    rgb = head.rgb.copy()
    eyes = [head.mesh[list(eye)].mean(axis=0).round().astype(int) for eye in (LEFT_EYE, RIGHT_EYE)]
    cv2.line(rgb, eyes[0].tolist(), eyes[1].tolist(), (15, 15, 15), 6)
    for eye in eyes:
        cv2.ellipse(rgb, eye.tolist(), (33, 25), 0, 0, 360, (18, 18, 20), -1, cv2.LINE_AA)
    return replace(head, rgb=rgb)


OCCLUSIONS: dict[str, Callable[[Head], Head]] = {
    "left half": _post,
    "lower half": _wall,
    "mask": _masked,
    "sunglasses": _shaded,
    "mask, sunglasses": lambda head: _shaded(_masked(head)),
}
