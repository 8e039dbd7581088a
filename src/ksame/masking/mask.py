"""The mask and its drawing [S 7.3].

A mask is made once per person from some views of them. To draw a frame then costs its light and a warp of
the face's own region; nothing is done to the rest of the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame import weights
from ksame.core import FloatArray, IntArray
from ksame.faces.landmarks import closer
from ksame.geometry import (
    FRAME,
    MESH,
    OVAL,
    SKIN,
    align,
    lips_apart,
    nearest,
    similarity,
    with_ring,
)
from ksame.masking.features import (
    EYES,
    MOUTH,
    Lids,
    eyeballs,
    in_form,
    lids,
    livelier,
    shut,
    with_eyes,
)
from ksame.masking.look import (
    CHEEKS,
    View,
    code_of,
    colours_of,
    gamma_of,
    in_glasses,
    landmarks_of,
    mouth_of,
    overall,
    sharpness_of,
    skin_of,
)
from ksame.masking.mouth import paint as paint_mouth
from ksame.masking.pictures import LEVELS, RIM, WIDER, pyramid, recoloured, scaled, softened, spread
from ksame.render import Box, around, meet, smooth
from ksame.represent import AppearanceSpace
from ksame.represent.appearance import TEXTURE

Picture = NDArray[np.float32]
Texture = Literal["code", "pixel"]

MOST = 2.0  # standard deviations: further out the model draws blotches
FORM = 0.6  # of the way to the form of a face that is worn as a picture: its skin hides, and mouths move
EDGE = 12.0  # px of the model's frame around the top of the lips: above them a face may go further
FIELD = 40, 32  # parts of a face that have a light of their own
WIDE = 30.0  # px of the model's frame: from how far around a part takes it
BRIGHTER = 2.0  # times as much light falls on one cheek as on the other at most
PATCHY = 1.2  # times as much on a part as on the face at most, besides: beyond are hair, hands and glasses
TINTED = 1.12  # likewise in each colour
SMALL, TIMES = 128.0, 8  # px: smaller faces are drawn so many times larger at most, or lips would be ragged
# 1 on the face, 0 on the ring around it, 1 on the eyes
_INSIDE = np.repeat([1.0, 0.0, 1.0], [MESH, len(OVAL), len(EYES)])[:, None]


@dataclass(frozen=True, eq=False)
class Mask:
    """The new face of one person.

    Parameters
    ----------
    model : AppearanceSpace
        What it is drawn with.
    gamma_d : (d,)
        The code of the new face. Its shape is the person's, shifted (7.5). Deviation: its texture is the
        pool's and nothing of the person's (gamma_d - gamma in the words of 7.2): with the pool's estimate of
        gamma (7.4) glasses showed through, and recognisers were up to a fifth nearer.
    shift : (d,)
        gamma_hat_d - gamma_hat (7.4).
    move : (468, 2)
        From the person's mean shape to the new one, on the model's frame. Deviation: the thesis draws each
        frame's shape on the axes (7.5); ours are those of portraits, and speech and blinks would be lost.
        So a frame's difference from the person's mean shape is kept whole, and of the mean nothing but
        what the axes hold. Eyes and brows, and the mouth, move as a whole: see ``features.in_form``.
    own : (468, 2)
        The person's mean shape, on the model's frame.
    skin : (3,)
        The colour of the person's skin in their lightest view.
    glasses : bool
        Whether the person's cheeks are seen through something: see ``skin_of``.
    picture : (h, w, 3) uint8, optional
        The new face on the mean shape and the canonical frame; without one the model draws it.
    """

    model: AppearanceSpace
    gamma_d: FloatArray
    shift: FloatArray
    move: FloatArray
    own: FloatArray
    skin: FloatArray
    glasses: bool = False
    picture: NDArray[np.uint8] | None = None

    @classmethod
    def of(
        cls,
        model: AppearanceSpace,
        views: Sequence[View],
        hat: FloatArray,
        hat_d: FloatArray,
        *,
        codes: Sequence[FloatArray] | None = None,
        gamma: FloatArray | None = None,
        picture: NDArray[np.uint8] | None = None,
        upper: float = FORM,
    ) -> Self:
        """Make a person's mask from some views and a pool face (d,), before and after k-Diff-furthest.

        ``codes`` are those of the views and ``gamma`` is their mean in the model, if they are known. A pool
        face with a ``picture`` is worn as it is: the shift then goes from the person to it, and above the
        lips ``upper`` of the way to its form. All of it hides better than ``FORM``, and brows and lids follow
        less well.
        """
        codes = codes or [code_of(model, view) for view in views]
        gamma = np.mean([gamma_of(model, view) for view in views], axis=0) if gamma is None else gamma
        most = MOST * model.deviation
        shift = np.where(model.nuisance, 0, hat_d - (hat if picture is None else gamma))
        textured = np.arange(len(gamma)) >= len(model.shape_axes)
        wanted = np.clip(np.where(textured, hat_d, gamma + shift), -most, most)
        gamma_d = np.where(model.nuisance, gamma, wanted)  # the frame's own [S 7.3.2]
        seen = [landmarks_of(view.points, code, model) for view, code in zip(views, codes, strict=True)]
        own = align(np.stack(seen), model.shape).mean(axis=0)
        far = 1.0 if picture is None else _far(model.shape, upper)
        move = in_form(far * (model.shapes(gamma_d[None])[0] - own), own)
        glasses = in_glasses(codes)
        skin = max((overall(skin_of(code, glasses=glasses)) for code in codes), key=np.sum)
        return cls(model, gamma_d, shift, move, own, skin, glasses, picture)

    @cached_property
    def base(self) -> tuple[Picture, ...]:
        """The new face on the mean shape, in three sizes: t_bar + Phi_t beta_d (7.6), without light."""
        model, (height, width) = self.model, self.model.detail.shape[:2]
        if self.picture is None:
            change = self._texture(np.where(model.nuisance, 0.0, self.gamma_d)) - model.texture
            picture = model.detail + scaled(
                self._small(change.astype(np.float32)), self._scale / TEXTURE, (width, height)
            )
            return pyramid(spread(picture, model.shape * self._scale, RIM))
        worn = recoloured(self.picture, overall(colours_of(self.picture, model.shape)), self.skin)
        worn = spread(worn, model.shape, WIDER)
        return pyramid(cv2.resize(worn, (width, height), interpolation=cv2.INTER_CUBIC))

    def worn(self, points: FloatArray) -> FloatArray:
        """Return the new mesh (468, 2) for a frame's own: moved as its size and roll say (7.5)."""
        back = similarity(self.model.shape, points)[:, :2]
        upright = align(points[None], self.model.shape)[0]
        new = lips_apart((livelier(upright, self.own) + self.move)[None])[0]
        moved: FloatArray = points + (new - upright) @ back.T
        return moved

    def draw(
        self, rgb: NDArray[np.uint8], points: FloatArray, code: FloatArray, *, texture: Texture = "code"
    ) -> NDArray[np.uint8]:
        """Return a frame with the new face over the old one, up to its contour and a ring beyond.

        Parameters
        ----------
        rgb : (h, w, 3) uint8
            The frame.
        points : (468, 2)
            The mesh of the old face, smoothed in time.
        code : (d,)
            What the frame shows, smoothed in time: see ``code_of`` and ``calm``.
        texture : str
            ``code``: of the frame's texture only its light reaches the new face (7.6). Deviation: by the
            colours of 17 spots of skin, not by the model's axes: see ``expressing``.
            ``pixel``: the old pixels are changed (7.7). Gaze and wrinkles stay, and so do moles and scars.
        """
        result = rgb.copy()
        self.draw_on(result, points, code, texture=texture)
        return result

    def draw_on(
        self, rgb: NDArray[np.uint8], points: FloatArray, code: FloatArray, *, texture: Texture = "code"
    ) -> list[Box]:
        """Draw into a frame itself, as ``draw`` does, and return where it is new, if anywhere."""
        points = landmarks_of(points, code, self.model)
        new = with_ring(self.worn(points))
        left, top, right, bottom = box = around(np.concatenate([new, points]), rgb.shape)
        if right <= left or bottom <= top:
            return []
        ground = rgb[top:bottom, left:right]
        area = ground.copy()
        new, old = new - (left, top), points - (left, top)
        ground[:] = meet(area, old[list(OVAL)], new[list(OVAL)])
        left, top, right, bottom = around(new, area.shape, margin=0.05)
        if right > left and bottom > top:
            here = ground[top:bottom, left:right]
            paint = self._painted if texture == "code" else self._changed
            picture, inside = paint(area, old, new - (left, top), code, here.shape)
            if self.picture is not None and texture == "code":
                picture = softened(picture, new - (left, top), sharpness_of(code))
            alpha = _soft(inside, float(np.ptp(new[:, 0])))
            face = cv2.convertScaleAbs(np.maximum(picture, 0))  # to 8 bits
            here[:] = cv2.blendLinear(face, np.ascontiguousarray(here), alpha, 1 - alpha)
        return [box]

    def _painted(
        self,
        area: NDArray[np.uint8],
        old: FloatArray,
        new: FloatArray,
        code: FloatArray,
        size: tuple[int, ...],
    ) -> tuple[Picture, Picture]:
        """Return the new face on its place, and where it is opaque: t_bar + Phi_t beta (7.6)."""
        times = int(np.clip(np.ceil(SMALL / max(float(np.ptp(new, axis=0).max()), 1.0)), 1, TIMES))
        new, drawn = times * new + (times - 1) / 2, (times * size[0], times * size[1])
        large = np.ptp(new, axis=0).max() / (np.ptp(self.model.shape, axis=0).max() * self._scale)
        level = int(np.clip(np.floor(0.3 - np.log2(max(large, 1e-6))), 0, LEVELS - 1))
        at = np.vstack([with_ring(self.landmarks), eyeballs(self.landmarks, new)]) * self._scale / 2**level
        mesh = np.vstack([new, new[EYES]])
        found = spread_over(mesh, self._triangles, np.hstack([at, _INSIDE]), drawn)
        picture = _seen(self.expressing(code, level, eyes=shut(new)), found[..., :2])
        paint_mouth(picture, new, mouth_of(code), np.median(skin_of(code, glasses=self.glasses), axis=0))
        return _smaller(picture, times), _smaller(found[..., 2], times)

    def _changed(
        self,
        area: NDArray[np.uint8],
        old: FloatArray,
        new: FloatArray,
        code: FloatArray,
        size: tuple[int, ...],
    ) -> tuple[Picture, Picture]:
        """Return the old face on the new one's place with Phi_t dbeta added: t' + Phi_t dbeta (7.7).

        Deviation: the change has no mean colour, or neck and face would differ.
        """
        at = with_ring(self.model.small_shape)
        values = np.hstack([with_ring(old), at, _INSIDE[: len(at)]])
        found = spread_over(new, self.model.ringed, values, size)
        change = self._texture(self.shift) - self.model.texture.astype(np.float32)
        change = self._small(change - np.tile(change.reshape(-1, 3).mean(axis=0), len(change) // 3))
        picture = _seen(area.astype(np.float32), found[..., :2]) + _seen(change, found[..., 2:4])
        return picture, found[..., 4]

    def expressing(
        self, code: FloatArray, level: int = 0, *, eyes: tuple[float, float] = (0.0, 0.0)
    ) -> Picture:
        """Return the new face on the mean shape as a frame with this code has it: + gamma' - gamma [S 7.2].

        ``eyes`` says how far each is shut. Deviation: a face in half the light has half the contrast, which
        no sum of axes says; so the light is a factor, by the colours of the skin. The axes brought glasses
        and shadows of the person along, and recognisers were nearer.
        """
        base = self.base[level]
        light = self._light(skin_of(code, glasses=self.glasses), base.shape)
        face: Picture = light * base
        for eye, much in zip(self._lids[level], eyes, strict=True):
            eye.paint(face, much, light)
        return face

    def _light(self, skin: FloatArray, size: tuple[int, ...]) -> Picture:
        """Return how much lighter (h, w, 3) than the new face a frame with these colours of skin (17, 3) is.

        It differs from part to part: a head that turns into the sun is half in it.
        """
        lighter = skin / self._skin
        usual = overall(lighter)
        local = lighter / usual
        grey = local.mean(axis=1, keepdims=True)
        one, other = (grey[cheek].mean() for cheek in CHEEKS)
        across = np.clip(other / one, 1 / BRIGHTER, BRIGHTER) ** self._aside
        bright = across * np.clip(grey / across, 1 / PATCHY, PATCHY)
        tint = np.clip(local / grey, 1 / TINTED, TINTED)
        field = (self._near @ (usual * bright * tint)).reshape(*FIELD, 3).astype(np.float32)
        light: Picture = cv2.resize(field, size[1::-1], interpolation=cv2.INTER_LINEAR)
        return light

    @cached_property
    def _aside(self) -> FloatArray:
        """Where each point of the skin lies across the face, (17, 1): the cheeks 1 apart."""
        x = self.model.shape[list(SKIN), :1]
        one, other = (x[cheek].mean() for cheek in CHEEKS)
        aside: FloatArray = (x - (one + other) / 2) / (other - one)
        return aside

    @cached_property
    def _near(self) -> FloatArray:
        """How much each point of the skin says of the light on each part of a face, (40 x 32, 17)."""
        row, column = np.indices(FIELD).reshape(2, -1)
        middle = (np.stack([column, row], axis=1) + 0.5) * FRAME.width / FIELD[1]
        far = ((middle[:, None] - self.model.shape[list(SKIN)]) ** 2).sum(axis=2)
        weight = np.exp(-(far - far.min(axis=1, keepdims=True)) / (2 * WIDE**2))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    @cached_property
    def landmarks(self) -> FloatArray:
        """Where the closer look sees the landmarks (468, 2) of the new face, on the model's frame.

        Lids, brows and lips of a pool face lie up to a fifth of an eye from those of the mean shape. Drawn by
        the mean shape they would not be where a frame has them: an eye stayed half open that was shut.
        """
        shape = self.model.shape
        if self.picture is not None or not weights.cached("landmarker"):
            return shape  # a picture was put on the shape by its own landmarks
        picture = np.clip(self.base[0], 0, 255).astype(np.uint8)
        seen = closer(picture, shape * self._scale) / self._scale
        oval = shape[list(OVAL)].astype(np.float32)
        deep = np.array([cv2.pointPolygonTest(oval, tuple(p), True) for p in shape.tolist()])
        # at the contour the picture has nothing to see
        share = np.clip(deep / (0.12 * np.ptp(shape[:, 0])), 0, 1)[:, None]
        return shape + share * (seen - shape)

    @cached_property
    def _lids(self) -> tuple[tuple[Lids, Lids], ...]:
        """Lids of the new face, in three sizes."""
        meshes = [self.landmarks * self._scale / 2**level for level in range(LEVELS)]
        return tuple(lids(base, mesh) for base, mesh in zip(self.base, meshes, strict=True))

    @cached_property
    def _skin(self) -> FloatArray:
        """The colours (17, 3) of the new face's skin."""
        return colours_of(self.base[-1], self.landmarks * self._scale / 2 ** (LEVELS - 1))

    @cached_property
    def _triangles(self) -> IntArray:
        """Triangles over the mesh, the ring around it and the eyes."""
        return with_eyes(self.model.ringed, MESH + len(OVAL))

    @property
    def _scale(self) -> float:
        """The size of the model's picture relative to the canonical frame."""
        return float(self.model.detail.shape[1] / FRAME.width)

    @cached_property
    def _axes(self) -> Picture:
        return np.ascontiguousarray(self.model.texture_axes, np.float32)

    @cached_property
    def _nearest(self) -> IntArray:
        """For each pixel of a small picture, (h, w), which of the covered ones is nearest."""
        return nearest(self.model.raster.covered)

    def _texture(self, code: FloatArray) -> Picture:
        """Return t_bar + Phi_t beta (3p,) (3.9)."""
        beta = code[len(self.model.shape_axes) :].astype(np.float32)
        t: Picture = self.model.texture.astype(np.float32) + beta @ self._axes
        return t

    def _small(self, texture: Picture) -> Picture:
        """Return a texture (3p,) as a small picture, its edge carried outwards."""
        small: Picture = texture.reshape(-1, 3)[self._nearest]
        return small


def _far(shape: FloatArray, upper: float) -> FloatArray:
    """Return how far (468, 1) each point of a face that is worn goes to its form: see ``Mask.of``."""
    below = np.clip((shape[:, 1:] - shape[MOUTH, 1].min()) / EDGE + 0.5, 0, 1)
    far: FloatArray = upper + (FORM - upper) * below
    return far


def spread_over(
    target: FloatArray, triangles: IntArray, values: FloatArray, size: tuple[int, ...]
) -> Picture:
    """Return values (m, c) of the points of a mesh (m, 2), interpolated to every pixel: (h, w, c).

    A quick ``Raster``: exact within triangles, up to half a pixel off on their edges; outside 0.
    """
    corners, value = target[triangles], values[triangles]  # (t, 3, 2), (t, 3, c)
    edges, rise = corners[:, 1:] - corners[:, :1], value[:, 1:] - value[:, :1]  # (t, 2, 2), (t, 2, c)
    twice = edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]  # (t,) the area
    thin = np.abs(twice) < 0.5  # square pixels: a lid that is shut, lips that touch
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
    for c in range(values.shape[1]):  # number by number: to fetch whole planes takes thrice the time
        a, b, rest = (np.take(planes[:, part, c], label, mode="clip") for part in range(3))
        found[..., c] = a * x.astype(np.float32) + b * y.astype(np.float32) + rest
    # a pixel on the edge of a slim triangle lies outside it: no value is beyond those of its corners
    longest = np.abs(edges).sum(axis=(1, 2))
    slim = np.flatnonzero(np.append(np.abs(twice) < 2 * longest, False)[label])
    low, high = (end(value, axis=1).astype(np.float32)[label.ravel()[slim]] for end in (np.min, np.max))
    flat = found.reshape(-1, values.shape[1])
    flat[slim] = np.clip(flat[slim], low, high)
    return found


def _seen(picture: Picture, places: Picture) -> Picture:
    at = np.ascontiguousarray(places)
    seen: Picture = cv2.remap(picture, at, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return seen


def _smaller(picture: Picture, times: int) -> Picture:
    """Return a picture a whole number of times smaller."""
    height, width = picture.shape[:2]
    size = width // times, height // times
    less: Picture = picture if times == 1 else cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    return less


def _soft(inside: Picture, width: float) -> Picture:
    """Return how opaque a face is: 1 to its contour, fading over the ring, without the triangles' corners."""
    step = max(3, round(0.03 * width))
    alpha: Picture = smooth(np.minimum(1.2 * cv2.blur(np.clip(inside, 0, 1), (step, step)), 1))
    return alpha
