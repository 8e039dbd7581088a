"""The overlay of a new face and its drawing [S 7.3].

An overlay is created once per person from some views. Drawing a frame then costs the light and a warp of
the face region; the rest of the frame is not processed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.faces import FaceView
from ksame.core.geometry import (
    FRAME,
    MESH,
    OVAL,
    SKIN_POINTS,
    align,
    nearest_covered,
    separate_lips,
    similarity,
    with_ring,
)
from ksame.models import weights
from ksame.models.landmarks import refine_landmarks
from ksame.render.blend import Box, deform_background, padded_box
from ksame.render.overlay.features import (
    EYE_POINTS,
    Eyelid,
    amplify_expression,
    eye_closure,
    eyeballs,
    make_eyelids,
    rigid_feature_move,
    split_eye_triangles,
)
from ksame.render.overlay.frame_code import (
    CHEEK_ROWS,
    appearance_code,
    encode_frame,
    frame_sharpness,
    mean_skin_colour,
    mouth_colours,
    refined_landmarks,
    sample_skin_colours,
    skin_colours,
    wears_glasses,
)
from ksame.render.overlay.mouth import paint_mouth
from ksame.render.overlay.sampling import (
    SHAPE_SHARE,
    interpolate_mesh_values,
    reduce_image,
    sample_colours,
    shape_weights,
    soft_alpha,
)
from ksame.render.overlay.textures import (
    FACE_RIM_SHARE,
    PORTRAIT_RIM_SHARE,
    PYRAMID_LEVELS,
    extend_skin,
    image_pyramid,
    match_sharpness,
    match_skin,
    rescale_image,
)
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import TEXTURE_SCALE

FloatImage = NDArray[np.float32]
Texture = Literal["code", "pixel"]

MAX_CODE_DEVIATIONS = 2.0  # standard deviations: further out the model draws artefacts
LIGHT_GRID = 40, 32  # rows and columns of the grid on which light is estimated
LIGHT_SIGMA_PX = 30.0  # px of the model's frame: width of the kernel that smooths light
MAX_CHEEK_LIGHT_RATIO = 2.0  # of the light on one cheek to that on the other
MAX_LOCAL_LIGHT_RATIO = 1.2  # of the light on a part to that on the face: beyond are hair, hands and glasses
MAX_TINT_RATIO = 1.12  # of one colour channel to the mean of the channels
UPSCALED_FACE_PX = 128.0  # smaller faces are drawn larger and reduced, or lips would be jagged
MAX_UPSCALE = 8  # factor by which they are drawn larger
# 1 on the face, 0 on the ring around it, 1 on the eyes
_INSIDE = np.repeat([1.0, 0.0, 1.0], [MESH, len(OVAL), len(EYE_POINTS)])[:, None]


@dataclass(frozen=True, eq=False)
class FaceOverlay:
    """The new face of one person.

    Parameters
    ----------
    model : AppearanceSpace
        The model that draws it.
    gamma_d : (d,)
        The code of the new face. Its shape is the person's, shifted (7.5). Deviation: its texture is the
        pool face's and contains nothing of the person's (gamma_d - gamma in 7.2): with the pool's estimate
        of gamma (7.4) glasses showed through, and recognisers found it up to a fifth nearer.
    shift : (d,)
        gamma_hat_d - gamma_hat (7.4).
    move : (468, 2)
        Displacement from the person's mean shape to the new one, in the model's frame. Deviation: the thesis
        projects each frame's shape onto the axes (7.5); these axes are learnt from portraits, so speech and
        blinks would be lost. Therefore a frame's difference from the person's mean shape is kept in full,
        and only the axes' part of the mean. Eyes with brows, and the mouth, move rigidly: see
        ``features.rigid_feature_move``.
    own : (468, 2)
        The person's mean shape, in the model's frame.
    skin : (3,)
        The colour of the person's skin in their lightest view.
    glasses : bool
        Whether the person's cheeks are behind glasses: see ``skin_colours``.
    image : (h, w, 3) uint8, optional
        Image of the new face on the mean shape in the canonical frame; if None, the model draws it.
    """

    model: AppearanceSpace
    gamma_d: FloatArray
    shift: FloatArray
    move: FloatArray
    own: FloatArray
    skin: FloatArray
    glasses: bool = False
    image: NDArray[np.uint8] | None = None

    @classmethod
    def of(
        cls,
        model: AppearanceSpace,
        views: Sequence[FaceView],
        hat: FloatArray,
        hat_d: FloatArray,
        *,
        codes: Sequence[FloatArray] | None = None,
        gamma: FloatArray | None = None,
        image: NDArray[np.uint8] | None = None,
        upper: float = SHAPE_SHARE,
    ) -> Self:
        """Create a person's overlay from some views and a pool face (d,), before and after k-Diff-furthest.

        ``codes`` are those of the views and ``gamma`` is their mean in the model, if known. A pool face with
        an ``image`` is used as it is: the shift then leads from the person to it, and the shape above the
        lips covers the share ``upper`` of the way. A share of 1 protects better than ``SHAPE_SHARE``, but
        brows and lids follow less well.
        """
        codes = codes or [encode_frame(model, view) for view in views]
        gamma = np.mean([appearance_code(model, view) for view in views], axis=0) if gamma is None else gamma
        limit = MAX_CODE_DEVIATIONS * model.deviation
        shift = np.where(model.nuisance, 0, hat_d - (hat if image is None else gamma))
        textured = np.arange(len(gamma)) >= len(model.shape_axes)
        target = np.clip(np.where(textured, hat_d, gamma + shift), -limit, limit)
        gamma_d = np.where(model.nuisance, gamma, target)  # light and pose are the frame's [S 7.3.2]
        meshes = [
            refined_landmarks(view.points, code, model) for view, code in zip(views, codes, strict=True)
        ]
        own = align(np.stack(meshes), model.shape).mean(axis=0)
        share = 1.0 if image is None else shape_weights(model.shape, upper)
        move = rigid_feature_move(share * (model.shapes(gamma_d[None])[0] - own), own)
        glasses = wears_glasses(codes)
        skin = max((mean_skin_colour(skin_colours(code, glasses=glasses)) for code in codes), key=np.sum)
        return cls(model, gamma_d, shift, move, own, skin, glasses, image)

    @cached_property
    def base(self) -> tuple[FloatImage, ...]:
        """The new face on the mean shape, in three sizes: t_bar + Phi_t beta_d (7.6), without light."""
        model, (height, width) = self.model, self.model.detail.shape[:2]
        if self.image is None:
            change = self._texture(np.where(model.nuisance, 0.0, self.gamma_d)) - model.texture
            image = model.detail + rescale_image(
                self._small(change.astype(np.float32)), self._scale / TEXTURE_SCALE, (width, height)
            )
            return image_pyramid(extend_skin(image, model.shape * self._scale, FACE_RIM_SHARE))
        own_skin = mean_skin_colour(sample_skin_colours(self.image, model.shape))
        image = extend_skin(match_skin(self.image, own_skin, self.skin), model.shape, PORTRAIT_RIM_SHARE)
        return image_pyramid(cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC))

    def warp_to_mesh(self, points: FloatArray) -> FloatArray:
        """Return the new mesh (468, 2) for a frame's mesh, moved according to its size and roll (7.5)."""
        back = similarity(self.model.shape, points)[:, :2]
        upright = align(points[None], self.model.shape)[0]
        new = separate_lips((amplify_expression(upright, self.own) + self.move)[None])[0]
        moved: FloatArray = points + (new - upright) @ back.T
        return moved

    def draw(
        self, rgb: NDArray[np.uint8], points: FloatArray, code: FloatArray, *, texture: Texture = "code"
    ) -> NDArray[np.uint8]:
        """Return a frame with the new face drawn over the old one, up to a ring around its contour.

        Parameters
        ----------
        rgb : (h, w, 3) uint8
            The frame.
        points : (468, 2)
            The mesh of the old face, smoothed in time.
        code : (d,)
            The code of the frame, smoothed in time: see ``encode_frame`` and ``smooth_codes``.
        texture : str
            ``code``: only the light of the frame's texture affects the new face (7.6). Deviation: measured
            by the colours of 17 skin points, not by the model's axes: see ``relight``.
            ``pixel``: the old pixels are modified (7.7). Gaze and wrinkles remain, as do moles and scars.
        """
        result = rgb.copy()
        self.draw_on(result, points, code, texture=texture)
        return result

    def draw_on(
        self, rgb: NDArray[np.uint8], points: FloatArray, code: FloatArray, *, texture: Texture = "code"
    ) -> list[Box]:
        """Draw into the frame itself, like ``draw``, and return the box that changed, if any."""
        points = refined_landmarks(points, code, self.model)
        new = with_ring(self.warp_to_mesh(points))
        left, top, right, bottom = box = padded_box(np.concatenate([new, points]), rgb.shape)
        if right <= left or bottom <= top:
            return []
        background = rgb[top:bottom, left:right]
        area = background.copy()
        new, old = new - (left, top), points - (left, top)
        background[:] = deform_background(area, old[list(OVAL)], new[list(OVAL)])
        left, top, right, bottom = padded_box(new, area.shape, margin=0.05)
        if right > left and bottom > top:
            target = background[top:bottom, left:right]
            render = self._render_code if texture == "code" else self._render_pixels
            image, inside = render(area, old, new - (left, top), code, target.shape)
            if self.image is not None and texture == "code":
                image = match_sharpness(image, new - (left, top), frame_sharpness(code))
            alpha = soft_alpha(inside, float(np.ptp(new[:, 0])))
            face = cv2.convertScaleAbs(np.maximum(image, 0))  # to 8 bits
            target[:] = cv2.blendLinear(face, np.ascontiguousarray(target), alpha, 1 - alpha)
        return [box]

    def _render_code(
        self,
        area: NDArray[np.uint8],
        old: FloatArray,
        new: FloatArray,
        code: FloatArray,
        size: tuple[int, ...],
    ) -> tuple[FloatImage, FloatImage]:
        """Return the new face at its place and its opacity: t_bar + Phi_t beta (7.6)."""
        upscale = UPSCALED_FACE_PX / max(float(np.ptp(new, axis=0).max()), 1.0)
        times = int(np.clip(np.ceil(upscale), 1, MAX_UPSCALE))
        new, drawn = times * new + (times - 1) / 2, (times * size[0], times * size[1])
        scale = np.ptp(new, axis=0).max() / (np.ptp(self.model.shape, axis=0).max() * self._scale)
        level = int(np.clip(np.floor(0.3 - np.log2(max(scale, 1e-6))), 0, PYRAMID_LEVELS - 1))
        at = np.vstack([with_ring(self.landmarks), eyeballs(self.landmarks, new)]) * self._scale / 2**level
        mesh = np.vstack([new, new[EYE_POINTS]])
        values = interpolate_mesh_values(mesh, self._triangles, np.hstack([at, _INSIDE]), drawn)
        image = sample_colours(self.relight(code, level, eyes=eye_closure(new)), values[..., :2])
        skin = np.median(skin_colours(code, glasses=self.glasses), axis=0)
        paint_mouth(image, new, mouth_colours(code), skin)
        return reduce_image(image, times), reduce_image(values[..., 2], times)

    def _render_pixels(
        self,
        area: NDArray[np.uint8],
        old: FloatArray,
        new: FloatArray,
        code: FloatArray,
        size: tuple[int, ...],
    ) -> tuple[FloatImage, FloatImage]:
        """Return the old face at the place of the new one with Phi_t dbeta added: t' + Phi_t dbeta (7.7).

        Deviation: the mean colour of the change is removed, or neck and face would differ.
        """
        at = with_ring(self.model.small_shape)
        vertex_values = np.hstack([with_ring(old), at, _INSIDE[: len(at)]])
        values = interpolate_mesh_values(new, self.model.ring_triangles, vertex_values, size)
        change = self._texture(self.shift) - self.model.texture.astype(np.float32)
        change = self._small(change - np.tile(change.reshape(-1, 3).mean(axis=0), len(change) // 3))
        old_image = sample_colours(area.astype(np.float32), values[..., :2])
        return old_image + sample_colours(change, values[..., 2:4]), values[..., 4]

    def relight(
        self, code: FloatArray, level: int = 0, *, eyes: tuple[float, float] = (0.0, 0.0)
    ) -> FloatImage:
        """Return the new face on the mean shape in the light of a frame: + gamma' - gamma [S 7.2].

        ``eyes`` is the closure of each eye. Deviation: a face in half the light has half the contrast, which
        no sum of axes expresses; therefore light is a factor, measured by the colours of the skin. The axes
        also carried glasses and shadows of the person, and recognisers found the face nearer.
        """
        base = self.base[level]
        light = self._light(skin_colours(code, glasses=self.glasses), base.shape)
        face: FloatImage = light * base
        for eyelid, closure in zip(self._eyelids[level], eyes, strict=True):
            eyelid.paint(face, closure, light)
        return face

    def _light(self, skin: FloatArray, size: tuple[int, ...]) -> FloatImage:
        """Return the ratio (h, w, 3) of a frame's light to the new face's, from skin colours (17, 3).

        It varies over the face: a head that turns towards the sun is half in shade.
        """
        ratio = skin / self._skin_colours
        mean = mean_skin_colour(ratio)
        local = ratio / mean
        grey = local.mean(axis=1, keepdims=True)
        one, other = (grey[cheek].mean() for cheek in CHEEK_ROWS)
        across = (
            np.clip(other / one, 1 / MAX_CHEEK_LIGHT_RATIO, MAX_CHEEK_LIGHT_RATIO) ** self._cheek_position
        )
        bright = across * np.clip(grey / across, 1 / MAX_LOCAL_LIGHT_RATIO, MAX_LOCAL_LIGHT_RATIO)
        tint = np.clip(local / grey, 1 / MAX_TINT_RATIO, MAX_TINT_RATIO)
        field = (self._light_weights @ (mean * bright * tint)).reshape(*LIGHT_GRID, 3).astype(np.float32)
        light: FloatImage = cv2.resize(field, size[1::-1], interpolation=cv2.INTER_LINEAR)
        return light

    @cached_property
    def _cheek_position(self) -> FloatArray:
        """Horizontal position of each skin point, (17, 1), in units of the distance between the cheeks."""
        x = self.model.shape[list(SKIN_POINTS), :1]
        one, other = (x[cheek].mean() for cheek in CHEEK_ROWS)
        position: FloatArray = (x - (one + other) / 2) / (other - one)
        return position

    @cached_property
    def _light_weights(self) -> FloatArray:
        """Weight of each skin point for the light on each cell of the grid, (40 x 32, 17)."""
        row, column = np.indices(LIGHT_GRID).reshape(2, -1)
        centre = (np.stack([column, row], axis=1) + 0.5) * FRAME.width / LIGHT_GRID[1]
        squared = ((centre[:, None] - self.model.shape[list(SKIN_POINTS)]) ** 2).sum(axis=2)
        weight = np.exp(-(squared - squared.min(axis=1, keepdims=True)) / (2 * LIGHT_SIGMA_PX**2))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    @cached_property
    def landmarks(self) -> FloatArray:
        """Refined landmarks (468, 2) of the new face, in the model's frame.

        Lids, brows and lips of a pool face lie up to a fifth of an eye away from those of the mean shape.
        Drawn by the mean shape they would be misplaced in a frame: a shut eye stayed half open.
        """
        shape = self.model.shape
        if self.image is not None or not weights.cached("landmarker"):
            return shape  # an image is already warped to the shape by its own landmarks
        image = np.clip(self.base[0], 0, 255).astype(np.uint8)
        refined = refine_landmarks(image, shape * self._scale) / self._scale
        oval = shape[list(OVAL)].astype(np.float32)
        depth = np.array([cv2.pointPolygonTest(oval, tuple(p), True) for p in shape.tolist()])
        # at the contour the image shows no features to refine by
        share = np.clip(depth / (0.12 * np.ptp(shape[:, 0])), 0, 1)[:, None]
        return shape + share * (refined - shape)

    @cached_property
    def _eyelids(self) -> tuple[tuple[Eyelid, Eyelid], ...]:
        """Eyelids of the new face, in three sizes."""
        meshes = [self.landmarks * self._scale / 2**level for level in range(PYRAMID_LEVELS)]
        return tuple(make_eyelids(base, mesh) for base, mesh in zip(self.base, meshes, strict=True))

    @cached_property
    def _skin_colours(self) -> FloatArray:
        """The colours (17, 3) of the new face at the skin points."""
        return sample_skin_colours(self.base[-1], self.landmarks * self._scale / 2 ** (PYRAMID_LEVELS - 1))

    @cached_property
    def _triangles(self) -> IntArray:
        """Triangles over the mesh, the ring around it and the eyes."""
        return split_eye_triangles(self.model.ring_triangles, MESH + len(OVAL))

    @property
    def _scale(self) -> float:
        """Scale of the model's image relative to the canonical frame."""
        return float(self.model.detail.shape[1] / FRAME.width)

    @cached_property
    def _axes(self) -> FloatImage:
        return np.ascontiguousarray(self.model.texture_axes, np.float32)

    @cached_property
    def _nearest(self) -> IntArray:
        """Index of the nearest covered pixel for each pixel of the texture, (h, w)."""
        return nearest_covered(self.model.raster.covered)

    def _texture(self, code: FloatArray) -> FloatImage:
        """Return t_bar + Phi_t beta (3p,) (3.9)."""
        beta = code[len(self.model.shape_axes) :].astype(np.float32)
        t: FloatImage = self.model.texture.astype(np.float32) + beta @ self._axes
        return t

    def _small(self, texture: FloatImage) -> FloatImage:
        """Return a texture (3p,) as a small image, extended beyond its edge."""
        small: FloatImage = texture.reshape(-1, 3)[self._nearest]
        return small
