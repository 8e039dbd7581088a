"""Estimate pixelation and blur, imitate them, and undo them in part [G6 6.2].

All of it works on faces registered on the canonical frame. There the blocks of a pixelated face are
upright, whatever its roll and size in the photo, and all published faces vote on how large they are.
Amounts are strengths as in ``ksame.render.obscure``: blocks across the face, or sigma in distances between
the eyes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal, NamedTuple, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.analysis.photos import select_usable
from ksame.attack.recognisers import Recogniser
from ksame.core.arrays import FloatArray
from ksame.core.context import parallel_map
from ksame.core.errors import InputError, UsageError
from ksame.core.geometry import FRAME, register, to_frame, transform
from ksame.io.photos import read_pixels
from ksame.io.sources import Source
from ksame.models.detectors import detect
from ksame.render.obscure import METHODS, obscure
from ksame.render.obscure.values import FACE_WIDTH
from ksame.spaces.eigen import principal_components

UInt8Image = NDArray[np.uint8]

_INNER_FACE = np.s_[90:280, 50:206]  # rows and columns of the frame: inside nearly every face
_INNER_FACE_QUARTER = np.s_[27:62, 19:45]  # of the frame at a quarter of its size: inside every face
_RUN_TOLERANCE_GREY_LEVELS = 4.0  # values at most this far apart are one run: JPEG moves them by two or three
_RUN_LENGTHS_PX = np.geomspace(3.5, 100, 300)  # candidate lengths of a run, in pixels of the frame
_RUN_WINDOW_RATIO = 1.1  # runs up to a tenth shorter or longer vote together
# Least share of a face in runs of one length; measured: below 0.11 if sharp, above 0.37 if pixelated.
_MIN_RUN_SHARE = 0.2
# Relative error of a mesh fitted to blocks: within it a whole number of blocks was meant.
_WHOLE_BLOCK_TOLERANCE = 0.06
_MIN_BLUR_EYE_DISTANCES = 0.03  # some cameras blur this much
_SAMPLE_FACES_MAX = 32  # faces that vote


@dataclass(frozen=True)
class Degradation:
    """How faces were degraded: ``pixelate``, ``blur`` or None, and how strongly."""

    kind: Literal["pixelate", "blur"] | None
    amount: float = 0.0


def estimate_degradation(faces: UInt8Image, sharp: UInt8Image | None = None) -> Degradation:
    """Estimate how published faces were pixelated or blurred.

    Parameters
    ----------
    faces : (n, 320, 256, 3) uint8
        Published faces, registered; they vote.
    sharp : (m, 320, 256, 3) uint8, optional
        Original faces: without them blur cannot be distinguished from soft skin.

    Examples
    --------
    >>> coarse = np.random.default_rng(0).integers(0, 256, (1, 20, 16, 3), dtype=np.uint8)
    >>> estimate_degradation(coarse.repeat(16, axis=1).repeat(16, axis=2))
    Degradation(kind='pixelate', amount=12.0)
    """
    some = _checked(faces)
    if not len(some):
        return Degradation(None)
    block, share = _estimate_block_size(some)
    if share >= _MIN_RUN_SHARE:
        blocks = FACE_WIDTH / block
        whole = round(blocks)
        return _clip_degradation(
            "pixelate", whole if abs(whole - blocks) <= _WHOLE_BLOCK_TOLERANCE * blocks else blocks
        )
    if sharp is None or not len(sharp):
        return Degradation(None)
    sigma = _estimate_blur_sigma(some, _checked(sharp))
    return _clip_degradation("blur", sigma) if sigma >= _MIN_BLUR_EYE_DISTANCES else Degradation(None)


def sample_faces(
    sources: Sequence[Source],
    *,
    meshes: Mapping[int, FloatArray] | None = None,
    max_count: int = 200,
    jobs: int | None = None,
) -> UInt8Image:
    """Return the registered faces of some images, evenly spread: the input of ``estimate_degradation``.

    Parameters
    ----------
    meshes : mapping of int to (c, 468, 2), optional
        Meshes of faces that are known, for images in which none is found.
    """
    some = range(0, len(sources), -(-len(sources) // max_count) or 1)
    tasks = [(sources[i], (meshes or {}).get(i)) for i in some]
    with closing(parallel_map(_register_faces, tasks, jobs=jobs)) as results:
        return np.concatenate([np.zeros((0, FRAME.height, FRAME.width, 3), np.uint8), *results])


def _register_faces(source: Source, known: FloatArray | None) -> UInt8Image:
    """Return the registered faces of one image."""
    try:
        rgb = read_pixels(source)
    except InputError:
        return np.zeros((0, FRAME.height, FRAME.width, 3), np.uint8)
    points, good = select_usable(rgb, detect(rgb))
    meshes = points[good] if len(good) or known is None else known
    views = [register(rgb, mesh) for mesh in meshes]
    return np.stack(views) if views else np.zeros((0, FRAME.height, FRAME.width, 3), np.uint8)


class DegradationStudy(NamedTuple):
    """What an attacker has and has learnt of the pixelation or blur of a release.

    Parameters
    ----------
    originals : list of Source
        The attacker's photos.
    meshes : mapping of int to (c, 468, 2)
        The meshes of their faces.
    sharp : (m, 320, 256, 3) uint8
        Some of these faces, registered.
    degradation : Degradation
        What was done to the release.
    """

    originals: list[Source]
    meshes: Mapping[int, FloatArray]
    sharp: UInt8Image
    degradation: Degradation

    def imitations(self) -> list[Source]:
        """Return the attacker's photos degraded like the release, each when it is read [G6 6.2.1]."""
        return [
            Source(photo.name, partial(_imitate_degradation, self.degradation, photo, self.meshes[i]))
            if i in self.meshes
            else photo
            for i, photo in enumerate(self.originals)
        ]

    def sharpening(self) -> Callable[[Recogniser], Recogniser] | None:
        """Return what makes a recogniser sharpen faces first; None if there is nothing to undo."""
        if self.degradation.kind is None or len(self.sharp) < 2:
            return None
        return partial(enhancing_recogniser, enhance=Enhancer.fit(self.sharp, self.degradation))


def study_degradation(
    originals: Sequence[Source],
    released: Sequence[Source],
    meshes: Mapping[int, FloatArray],
    *,
    released_meshes: Mapping[int, FloatArray] | None = None,
    jobs: int | None = None,
) -> DegradationStudy:
    """Estimate the pixelation or blur of released images by comparison with the attacker's own photos.

    Parameters
    ----------
    originals, released : sequence of Source
        The attacker's photos, and the published images.
    meshes, released_meshes : mapping of int to (c, 468, 2)
        Meshes of the faces of both, as far as they are known.
    jobs : int, optional
        Number of parallel workers.
    """
    sharp = sample_faces(originals, meshes=meshes, jobs=jobs)
    published = sample_faces(released, meshes=released_meshes, jobs=jobs)
    return DegradationStudy(list(originals), meshes, sharp, estimate_degradation(published, sharp))


def _imitate_degradation(degradation: Degradation, source: Source, points: FloatArray) -> UInt8Image:
    return apply_degradation(degradation, read_pixels(source), points)


def apply_degradation(degradation: Degradation, image: UInt8Image, points: FloatArray) -> UInt8Image:
    """Return a photo with the faces of these meshes (n, 468, 2) degraded in the same way."""
    if degradation.kind is None:
        return image
    return obscure(image, points, degradation.kind, strength=degradation.amount)


def enhancing_recogniser(recogniser: Recogniser, enhance: Callable[[UInt8Image], UInt8Image]) -> Recogniser:
    """Return a recogniser that sharpens faces, by an ``Enhancer``, before it embeds them [G6 6.2.2]."""

    def chips(rgb: UInt8Image, points: FloatArray) -> UInt8Image:
        if not len(points):
            return recogniser.chips(rgb, points)
        faces = enhance(np.stack([register(rgb, mesh) for mesh in points]))
        meshes = [transform(to_frame(mesh), mesh)[None] for mesh in points]
        return np.concatenate([recogniser.chips(f, mesh) for f, mesh in zip(faces, meshes, strict=True)])

    return replace(recogniser, chips=chips)


@dataclass(frozen=True, eq=False)
class Enhancer:
    """Sharpen degraded faces by a prior that was learnt from sharp ones [G6 6.2.2].

    The published face is y = D x + n, with D the mean of each block or the blur. The sharp one is
    x = m + Phi c, with c normal of the variances lambda of a gallery. The most probable c has a closed
    form (MAP); then x is corrected until D x equals y again (back-projection).

    Parameters
    ----------
    degradation : Degradation
        How the faces were degraded.
    mean : (h, w, 3)
        m, at half the frame's size: recognisers lose nothing by that.
    axes : (q, h w 3)
        Phi.
    gain : (q, o)
        From the differences of the o pixels of a face from D m to the most probable c.
    """

    degradation: Degradation
    mean: FloatArray
    axes: FloatArray
    gain: FloatArray

    @classmethod
    def fit(
        cls, sharp: UInt8Image, degradation: Degradation, *, components: int = 100, noise: float = 5.0
    ) -> Self:
        """Learn from the attacker's gallery.

        Parameters
        ----------
        sharp : (m, 320, 256, 3) uint8
            Faces, registered.
        degradation : Degradation
            How others were degraded, by ``estimate_degradation``.
        components : int
            Maximum number of components of the prior.
        noise : float
            Standard deviation of n in grey levels; most of it is the error of registration.
        """
        if len(sharp) < 2 or degradation.kind is None:
            raise UsageError("To enhance faces, two sharp ones and a known pixelation or blur are needed.")
        x = _half_size(sharp)
        mean, phi, variance = principal_components(x.reshape(len(x), -1), keep=components)
        d_phi = _degraded(phi.reshape(-1, *x.shape[1:]), degradation)[:, _inside()].reshape(len(phi), -1)
        # the pixels of a block are equal: together they are one observation
        blocks = np.prod([np.trace(_degradation_matrix(side, degradation)) for side in x.shape[1:3]])
        weight = max(1.0, x[0, ..., 0].size / blocks)
        inner = d_phi @ d_phi.T / weight + noise**2 * np.diag(1 / variance)  # (q, q)
        return cls(degradation, mean.reshape(x.shape[1:]), phi, np.linalg.solve(inner, d_phi / weight))

    def __call__(self, faces: UInt8Image, *, rounds: int = 4) -> UInt8Image:
        """Return sharper faces (n, 320, 256, 3) after some rounds of back-projection."""
        blocks = self.degradation.kind == "pixelate"
        half = _half_size(faces)
        y = _degraded(half, self.degradation) if blocks else half  # the mean of a block is the block
        rest = y - _degraded(self.mean[None], self.degradation)
        c = rest[:, _inside()].reshape(len(y), -1) @ self.gain.T  # (n, q)
        x = self.mean + (c @ self.axes).reshape(half.shape)
        for _ in range(rounds):
            rest = y - _degraded(x, self.degradation)
            # the residual, spread as D spreads it, but without the edges of blocks
            x = x + (_soften_blocks(rest, self.degradation) if blocks else _degraded(rest, self.degradation))
        mixed = np.clip(half + _oval() * (x - half), 0, 255).astype(np.uint8)
        size = FRAME.width, FRAME.height
        return np.stack([cv2.resize(face, size, interpolation=cv2.INTER_CUBIC) for face in mixed])


def _degraded(images: FloatArray, degradation: Degradation) -> FloatArray:
    """Return D x of half-size images (n, h, w, 3); D is separable in rows and columns."""
    rows, columns = (_degradation_matrix(side, degradation) for side in images.shape[1:3])
    n, h, w, channels = images.shape
    down = rows @ images.reshape(n, h, w * channels)
    both: FloatArray = columns @ down.reshape(n, h, w, channels)
    return both


def _checked(faces: UInt8Image) -> UInt8Image:
    """Return some of the faces, evenly spread."""
    if faces.shape[1:] != (FRAME.height, FRAME.width, 3):
        raise UsageError(
            f"faces must be registered: (n, {FRAME.height}, {FRAME.width}, 3). Got {faces.shape}."
        )
    return faces[:: -(-len(faces) // _SAMPLE_FACES_MAX) or 1]


def _clip_degradation(kind: Literal["pixelate", "blur"], amount: float) -> Degradation:
    """Return a degradation that ``obscure`` can do."""
    return Degradation(kind, round(float(np.clip(amount, METHODS[kind].low, METHODS[kind].high)), 3))


def _estimate_block_size(faces: UInt8Image) -> tuple[float, float]:
    """Return the most common length of runs, and the share of the faces in such runs [G6 6.2.1]."""
    inner = faces[:, *_INNER_FACE].astype(np.float32)
    votes = np.sort(
        np.concatenate([_edge_distances(f) for face in inner for f in (face, face.transpose(1, 0, 2))])
    )
    total = np.concatenate([[0.0], np.cumsum(votes)])  # a run has as many votes as pixels
    first, last = (
        np.searchsorted(votes, _RUN_LENGTHS_PX * by) for by in (1 / _RUN_WINDOW_RATIO, _RUN_WINDOW_RATIO)
    )
    mass = total[last] - total[first]
    best = int(mass.argmax())
    count = last[best] - first[best]
    return float(mass[best] / count) if count else 0.0, float(mass[best] / (2 * inner[..., 0].size))


def _edge_distances(face: FloatArray) -> FloatArray:
    """Return the distances between neighbouring edges in the rows of an image (h, w, 3).

    Registration spreads an edge over some pixels: together they are one, where most of the step is.
    """
    step = np.pad(np.abs(np.diff(face, axis=1)).max(axis=2), ((0, 0), (1, 0)))  # a row ends a run
    edge = step > _RUN_TOLERANCE_GREY_LEVELS
    start = edge & ~np.pad(edge, ((0, 0), (1, 0)))[:, :-1]
    if not start.any():
        return np.zeros(0)
    which = np.cumsum(start)[edge.ravel()] - 1
    x, weight = np.nonzero(edge)[1], step[edge]
    centre = np.bincount(which, weight * x) / np.bincount(which, weight)
    row = np.nonzero(start)[0]
    lengths: FloatArray = np.diff(centre)[row[1:] == row[:-1]]
    return lengths


def _estimate_blur_sigma(faces: UInt8Image, sharp: UInt8Image) -> float:
    """Return the blur that makes sharp faces as smooth as these, in distances between the eyes.

    The roughness of a face, the second moment of its spectrum, falls with sigma: bisection finds sigma.
    """
    wanted = np.median([_roughness(face) for face in _quarter_size(faces)])
    models = _quarter_size(sharp)
    low, high = 1e-3, METHODS["blur"].high
    for _ in range(12):
        middle = float(np.sqrt(low * high))
        sigma = middle * FRAME.eye_distance / 4
        rough = np.median([_roughness(cv2.GaussianBlur(face, (0, 0), sigma)) for face in models])
        low, high = (middle, high) if rough > wanted else (low, middle)
    return float(np.sqrt(low * high))


def _quarter_size(faces: UInt8Image) -> list[FloatArray]:
    """Return grey faces at a quarter of their size, where the noise of JPEG does not matter."""
    grey = [cv2.cvtColor(face, cv2.COLOR_RGB2GRAY).astype(np.float32) for face in faces]
    return [cv2.resize(face, FRAME.size(0.25), interpolation=cv2.INTER_AREA) for face in grey]


def _roughness(face: FloatArray) -> float:
    """Return the mean squared gradient of a small face, inside the face."""
    dy, dx = np.gradient(face[_INNER_FACE_QUARTER])
    return float((dx**2 + dy**2).mean())


def _half_size(faces: UInt8Image) -> NDArray[np.float32]:
    """Return faces at half the frame's size, as floats."""
    size = FRAME.size(0.5)
    return np.stack([cv2.resize(f, size, interpolation=cv2.INTER_AREA) for f in faces]).astype(np.float32)


def _degradation_matrix(side: int, degradation: Degradation) -> NDArray[np.float32]:
    """Return D along one side of a half-size image: weights (side, side)."""
    at = np.arange(side)
    if degradation.kind == "pixelate":
        # a pixel here is two of the frame, whose cells begin at its corner: see obscure's cells
        cell = np.floor((2 * at + 1) / (FACE_WIDTH / degradation.amount))
        weights = (cell[:, None] == cell).astype(np.float32)
    else:
        sigma = degradation.amount * FRAME.eye_distance / 2
        weights = np.exp(-(((at[:, None] - at) / sigma) ** 2) / 2).astype(np.float32)
    mixing: NDArray[np.float32] = weights / weights.sum(axis=1, keepdims=True)
    return mixing


def _soften_blocks(rest: FloatArray, degradation: Degradation) -> FloatArray:
    """Return residuals that are constant on blocks without the edges between blocks."""
    sigma = FACE_WIDTH / degradation.amount / 4  # half a block of the half-size image
    return np.stack([cv2.GaussianBlur(r, (0, 0), sigma) for r in rest])


@cache
def _oval() -> NDArray[np.float32]:
    """Return the inner face on the half-size frame as a matte (h, w, 1) with a soft edge."""
    oval = np.zeros(FRAME.size(0.5)[::-1], np.float32)
    cv2.ellipse(oval, (64, 92), (35, 48), 0, 0, 360, 1.0, -1)
    soft: NDArray[np.float32] = cv2.GaussianBlur(oval, (0, 0), 3)[..., None]
    return soft


def _inside() -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = _oval()[..., 0] > 0.5
    return inside
