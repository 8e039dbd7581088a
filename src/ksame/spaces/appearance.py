"""The appearance model [G6 4.2, S 3.1.2]: shape and shape-free texture of a face in one code.

gamma = [r alpha; beta] (3.11): alpha gives the landmarks, s = s_bar + Phi_s alpha (3.8); beta
gives the texture on the mean shape, t = t_bar + Phi_t beta (3.9).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, Self
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, MESH, Raster, align, procrustes, to_frame, transform, with_ring
from ksame.spaces.eigen import principal_components

TEXTURE_SCALE = 0.375  # size of the coded texture relative to the canonical frame
_TEXTURE_SIZE = round(FRAME.width * TEXTURE_SCALE), round(FRAME.height * TEXTURE_SCALE)  # width, height
SHAPE_KEEP, TEXTURE_KEEP = 0.995, 0.98  # fractions of variance kept by the model


@dataclass(frozen=True, eq=False)
class AppearanceSpace:
    """A trained appearance model.

    Parameters
    ----------
    shape : (m, 2)
        s_bar: the mean shape, on the canonical frame.
    triangles : (t, 3) int
        The mesh over the mean shape.
    shape_axes, shape_variance : (a, 2m), (a,)
        Phi_s and lambda_s.
    texture : (3p,)
        t_bar: the mean texture, in the p pixels that the mean shape covers at ``TEXTURE_SCALE`` scale.
    texture_axes, texture_variance : (b, 3p), (b,)
        Phi_t and lambda_t.
    detail : (h, w, 3) uint8
        The mean texture at the resolution of the training images, with detail that the code cannot hold.
    nuisance : (a + b,) bool
        Components that carry light or head pose, by measurement; distances ignore them.

    Attributes
    ----------
    weight : float
        The shape weight r = sqrt(sum lambda_t / sum lambda_s), which balances the units (3.10).
    small_shape : (m, 2)
        The mean shape in pixels of the coded texture.
    raster : Raster
        It, rasterised.
    ring_triangles : (u, 3) int
        Triangles over the mesh and the ring of points around it.
    digest : str
        The sha256 of the model's arrays, which identifies it in a certificate.
    """

    shape: FloatArray
    triangles: IntArray
    shape_axes: FloatArray
    shape_variance: FloatArray
    texture: FloatArray
    texture_axes: FloatArray
    texture_variance: FloatArray
    detail: NDArray[np.uint8]
    nuisance: NDArray[np.bool_]
    weight: float = field(init=False, repr=False)
    small_shape: FloatArray = field(init=False, repr=False)
    raster: Raster = field(init=False, repr=False)
    ring_triangles: IntArray = field(init=False, repr=False)
    digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Derive what every use of the model needs."""
        total = hashlib.sha256()
        for name in _ARRAYS:
            total.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        derived: dict[str, Any] = {
            "weight": float(np.sqrt(self.texture_variance.sum() / self.shape_variance.sum())),
            "small_shape": self.shape * TEXTURE_SCALE,
            "digest": total.hexdigest(),
            "ring_triangles": self.triangles,
        }
        derived["raster"] = Raster.of(derived["small_shape"], self.triangles, *_TEXTURE_SIZE)
        if len(self.shape) == MESH:  # other schemes have no ring
            derived["ring_triangles"] = Delaunay(with_ring(self.shape)).simplices.astype(np.intp)
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @classmethod
    def fit(
        cls, faces: FaceSet, *, shape_keep: float = SHAPE_KEEP, texture_keep: float = TEXTURE_KEEP
    ) -> Self:
        """Train a model on registered faces, with any landmark scheme of a fixed number of points."""
        if len(faces) < 3:
            raise UsageError(f"An appearance model needs at least 3 faces. Got {len(faces)}.")
        shapes, shape = procrustes(landmarks_on_frame(faces))  # (n, m, 2), (m, 2)
        triangles = Delaunay(shape).simplices.astype(np.intp)
        flat = (shapes - shape).reshape(len(faces), -1)
        _, shape_axes, shape_variance = principal_components(flat, keep=shape_keep)
        raster = Raster.of(shape * TEXTURE_SCALE, triangles, *_TEXTURE_SIZE)
        t = _textures(faces, raster)  # (n, 3p)
        texture, texture_axes, texture_variance = principal_components(t, keep=texture_keep)
        model = cls(
            shape=shape,
            triangles=triangles,
            shape_axes=shape_axes,
            shape_variance=shape_variance,
            texture=texture,
            texture_axes=texture_axes,
            texture_variance=texture_variance,
            detail=_mean_image(faces, shape, triangles),
            nuisance=np.zeros(len(shape_axes) + len(texture_axes), bool),
        )
        codes = model.encode(faces, nuisance=True)
        return replace(
            model, nuisance=find_nuisance_components(codes, measure_light_and_pose(shapes, t, raster.covered))
        )

    @property
    def deviation(self) -> FloatArray:
        """The standard deviation of each component of the code, (a + b,)."""
        both = np.concatenate([self.weight**2 * self.shape_variance, self.texture_variance])
        deviation: FloatArray = np.sqrt(both)
        return deviation

    def encode(self, faces: FaceSet, *, nuisance: bool = False) -> FloatArray:
        """Return gamma, (n, a + b); components of light and pose are 0 unless ``nuisance`` [S 5.4.1]."""
        if faces.points.shape[1] != len(self.shape):
            raise UsageError(
                f"The model needs faces with {len(self.shape)} landmarks. Got {faces.points.shape[1]}."
            )
        beta = (_textures(faces, self.raster) - self.texture) @ self.texture_axes.T  # (n, b): (3.9b)
        shapes = align(landmarks_on_frame(faces), self.shape)
        alpha = (shapes - self.shape).reshape(len(faces), -1) @ self.shape_axes.T  # (n, a): (3.8b)
        gamma: FloatArray = np.hstack([self.weight * alpha, beta]).astype(np.float64)
        return gamma if nuisance else np.where(self.nuisance, 0.0, gamma)

    def shapes(self, codes: FloatArray) -> FloatArray:
        """Return the shapes s_bar + Phi_s alpha on the canonical frame, (n, m, 2) (3.8)."""
        return self.shape + self.shape_offset(codes)

    def shape_offset(self, codes: FloatArray) -> FloatArray:
        """Return Phi_s alpha on the canonical frame, (n, m, 2)."""
        alpha = codes[:, : len(self.shape_axes)] / self.weight
        change: FloatArray = (alpha @ self.shape_axes).reshape(len(codes), -1, 2)
        return change

    def texture_offset(self, code: FloatArray) -> NDArray[np.float32]:
        """Return Phi_t beta of one code as a small image on the mean shape, extended beyond its edge."""
        image = np.zeros((*self.raster.covered.shape, 3), np.float32)
        change = code[len(self.shape_axes) :].astype(np.float32) @ self.texture_axes
        image[self.raster.covered] = change.reshape(-1, 3)
        return _extend_texture(image, self.raster.covered)

    def decode(self, codes: FloatArray) -> NDArray[np.uint8]:
        """Return the face images (n, h, w, 3): t_bar + Phi_t beta (3.9), warped to the decoded shape.

        t_bar has the resolution of ``detail``, the offset from it that of the code.
        """
        height, width = self.detail.shape[:2]
        scale = width / FRAME.width
        images = np.zeros((len(codes), height, width, 3), np.uint8)
        for row, (code, shape) in enumerate(zip(codes, self.shapes(codes), strict=True)):
            raster = Raster.of(shape * scale, self.triangles, width, height)
            face = raster.pull(self.detail, self.shape * scale).astype(np.float32)
            face += raster.pull(self.texture_offset(code), self.small_shape)
            images[row] = np.clip(face, 0, 255).round().astype(np.uint8)
        return images

    def transfer_pose(self, shape: FloatArray, source: FloatArray) -> FloatArray:
        """Return a shape (m, 2) with the yaw and pitch of another."""
        axes = self.shape_axes[self.nuisance[: len(self.shape_axes)]]  # (q, 2m)
        own, other = align(np.stack([shape, source]), self.shape).reshape(2, -1)
        turned: FloatArray = (own + (other - own) @ axes.T @ axes).reshape(-1, 2)
        return turned

    def save(self, path: str | Path) -> None:
        """Write the model as npz without pickle, axes in half precision."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        for name in ("shape_axes", "texture_axes", "texture"):
            arrays[name] = arrays[name].astype(np.float16)
        np.savez_compressed(path, allow_pickle=False, **arrays)

    @classmethod
    def bundled(cls) -> Self:
        """Return the bundled model; its card is models/data/README.md."""
        with resources.as_file(resources.files("ksame") / "models" / "data" / "appearance.npz") as path:
            return cls.load(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model; raise UsageError if the file is not one."""
        try:
            with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in _ARRAYS}
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise UsageError(f"{path} is not an appearance model: {error}.") from None
        single = {n: a.astype(np.float32) if a.dtype == np.float16 else a for n, a in arrays.items()}
        return cls(**single)


_ARRAYS = tuple(one.name for one in fields(AppearanceSpace) if one.init)  # what a file of a model holds


def landmarks_on_frame(faces: FaceSet) -> FloatArray:
    """Return the landmarks (n, m, 2) in coordinates of the canonical frame, matching ``faces.rgb``.

    Mesh points are given in photo coordinates. Of any other scheme it is unknown which points are eyes
    and nose: its images must already be registered and its points be in pixels of the frame (256 x
    320). An image larger than the frame has the same content at a larger scale; points keep the
    frame's units.
    """
    if faces.points.shape[1] == MESH:
        return np.stack([transform(to_frame(p), p) for p in faces.points])
    points: FloatArray = faces.points.astype(np.float64)
    centre = points.mean(axis=(0, 1))
    if not ((centre > 0) & (centre < (FRAME.width, FRAME.height))).all():
        raise UsageError(
            f"Landmarks other than the {MESH} of the mesh must be given in the frame of"
            f" {FRAME.width} x {FRAME.height} pixels. Got points around {centre.round().tolist()}."
        )
    return points


def _mean_image(faces: FaceSet, shape: FloatArray, triangles: IntArray) -> NDArray[np.uint8]:
    """Return the mean of all faces on one shape, at the resolution of the images."""
    height, width = faces.rgb.shape[1:3]
    scale = width / FRAME.width
    raster = Raster.of(shape * scale, triangles, width, height)
    total = np.zeros((height, width, 3))
    for rgb, points in zip(faces.rgb, landmarks_on_frame(faces), strict=True):
        total += raster.pull(rgb, points * scale)
    mean = (total / len(faces)).round()
    return _extend_texture(mean.astype(np.float32), raster.covered).round().astype(np.uint8)


def _textures(faces: FaceSet, raster: Raster) -> NDArray[np.float32]:
    """Return the shape-free textures (n, 3p) of faces in the p pixels that a mean shape covers."""
    width, height = _TEXTURE_SIZE
    # pixel centres: x_small = (x_big + 1/2) s - 1/2, with x_big = x_frame * width_big / FRAME.width
    shapes = landmarks_on_frame(faces) * TEXTURE_SCALE + (width / faces.rgb.shape[2] - 1) / 2
    t = np.empty((len(faces), int(raster.covered.sum()) * 3), np.float32)
    for row, (rgb, points) in enumerate(zip(faces.rgb, shapes, strict=True)):
        small = cv2.resize(rgb, (width, height), interpolation=cv2.INTER_AREA)
        t[row] = raster.pull(small, points)[raster.covered].ravel()
    return t


def _extend_texture(texture: NDArray[np.float32], covered: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Extend a texture beyond its edge, so that interpolation at the edge does not blend in black."""
    filled, known = texture.copy(), covered.astype(np.float32)
    around = cv2.blur(known, (5, 5))
    near = (known == 0) & (around > 0)
    filled[near] = (cv2.blur(texture * known[..., None], (5, 5)))[near] / around[near][:, None]
    return filled


class ReconstructionError(NamedTuple):
    """Error of encoding faces and decoding the codes."""

    shape: FloatArray  # (n,): root mean square distance of the landmarks, in pixels of the frame
    texture: FloatArray  # (n,): root mean square difference on the mean shape, in grey levels
    shape_kept: float  # share of the variance about the model's mean that the codes explain
    texture_kept: float


def measure_reconstruction(model: AppearanceSpace, faces: FaceSet) -> ReconstructionError:
    """Measure how well a model reconstructs faces, preferably outside its training set."""
    codes = model.encode(faces, nuisance=True)
    s = (align(landmarks_on_frame(faces), model.shape) - model.shape).reshape(len(faces), -1)  # (n, 2m)
    t = _textures(faces, model.raster) - model.texture  # (n, 3p)
    s_rest = s - model.shape_offset(codes).reshape(s.shape)
    t_rest = t - codes[:, len(model.shape_axes) :].astype(np.float32) @ model.texture_axes
    return ReconstructionError(
        shape=np.sqrt(2 * np.mean(s_rest**2, axis=1)),  # x and y
        texture=np.sqrt(np.mean(t_rest**2, axis=1)),
        shape_kept=float(1 - (s_rest**2).sum() / (s**2).sum()),
        texture_kept=float(1 - (t_rest**2).sum() / (t**2).sum()),
    )


def measure_light_and_pose(
    shapes: FloatArray, textures: FloatArray, covered: NDArray[np.bool_]
) -> FloatArray:
    """Measure properties other than identity: horizontal and vertical light, yaw and pitch, (n, 4).

    Yaw and pitch are measured by the position of the landmarks' centre within their bounding box: a
    turned head has its nose at one side of its contour. Deviation: the thesis also drops overall
    brightness [S 5.4.1]; but skin tone shares that component, and without it people of different skin
    tones were grouped together.
    """
    grey = textures.reshape(len(textures), -1, 3).mean(axis=2)  # (n, p)
    place = np.argwhere(covered)[:, ::-1] - np.argwhere(covered)[:, ::-1].mean(axis=0)  # (p, 2): x, y
    light = grey @ place / np.linalg.norm(place, axis=0)  # (n, 2): slope of the brightness
    low, high = shapes.min(axis=1), shapes.max(axis=1)  # (n, 2)
    pose = (shapes.mean(axis=1) - low) / (high - low)
    return np.hstack([light, pose])


def find_nuisance_components(
    codes: FloatArray, measured: FloatArray, *, least: float = 0.5
) -> NDArray[np.bool_]:
    """Return which components (d,) correlate with any measured quantity (n, q)."""
    x, y = (part - part.mean(axis=0) for part in (codes, measured))
    scale = np.outer(np.linalg.norm(x, axis=0), np.linalg.norm(y, axis=0))
    correlation = np.abs(x.T @ y) / np.maximum(scale, 1e-12)  # (d, q)
    found: NDArray[np.bool_] = (correlation >= least).any(axis=1)
    return found
