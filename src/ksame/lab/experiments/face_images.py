"""Face images as the papers have them, cut to one outline that all share, and who attacks them.

The papers alter and compare nothing but registered face images [N 5.1, G5 5.1]. So that neither hair nor
the shape of a face speaks where its pixels should, all faces are seen through one window here: the hull
of the mean mesh. Methods and recognisers get the same mesh as the position of the face.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from ksame.attack.recognisers import Recogniser, deep_recogniser
from ksame.attack.score import Match, Train, score
from ksame.core.arrays import FloatArray
from ksame.core.context import parallel_map
from ksame.core.errors import WeightsError
from ksame.core.geometry import BACKGROUND_GREY, FRAME, crop, to_frame, transform
from ksame.lab.experiments.base import ExperimentData, ExperimentResult, recogniser_codes
from ksame.models import weights
from ksame.models.recognisers import VERIFIERS
from ksame.render.obscure import obscure
from ksame.spaces.eigen import principal_components

UInt8Images = NDArray[np.uint8]

FRAME_FACE_WIDTH_PX = (
    2.1 * FRAME.eye_distance
)  # px of the frame across a face, as ``obscure`` counts its blocks


@dataclass(frozen=True, eq=False)
class Window:
    """Where faces are on the canonical frame, the same for all faces of a set.

    Parameters
    ----------
    mesh : (468, 2)
        The mean mesh, in pixels of the cropped images.
    inside : (h, w) bool
        The pixels that belong to a face: the hull of the mesh.
    scale : float
        The scale of the cropped images relative to the frame.
    """

    mesh: FloatArray
    inside: NDArray[np.bool_]
    scale: float

    @classmethod
    def of(cls, data: ExperimentData, *, across: float) -> Self:
        """Take the mean mesh of a set; ``across``: pixels across a face."""
        scale = across / FRAME_FACE_WIDTH_PX
        mean = data.points.mean(axis=0)
        # once more to the frame, so that blocks are whole pixels: means of registered points lie nearly there
        mesh = transform(_shrink(scale), transform(to_frame(mean), mean))
        width, height = FRAME.size(scale)
        white = np.full((height, width, 3), 255, np.uint8)
        return cls(mesh, obscure(white, mesh[None], "black-out", strength=0)[..., 0] == 0, scale)

    def cut(self, rgb: UInt8Images, *, grey: bool = False) -> UInt8Images:
        """Return registered images (n, 320, 256, 3) cropped to the window, at its scale."""
        height, width = self.inside.shape
        small = np.stack([crop(face, _shrink(self.scale), width, height) for face in rgb])
        if grey:
            small = np.repeat((small @ [0.299, 0.587, 0.114]).round().astype(np.uint8)[..., None], 3, axis=-1)
        small[:, ~self.inside] = BACKGROUND_GREY
        return small

    def altered(
        self,
        images: UInt8Images,
        method: str,
        *,
        strength: float | None = None,
        seeds: int | Sequence[int] = 0,
        **options: Any,
    ) -> UInt8Images:
        """Return cropped images obscured by an ad hoc method and cropped again: black-out reaches further."""
        seed = np.broadcast_to(seeds, len(images)).tolist()
        made = np.stack(
            [
                obscure(face, self.mesh[None], method, strength=strength, rng=one, **options)
                for face, one in zip(images, seed, strict=True)
            ]
        )
        made[:, ~self.inside] = BACKGROUND_GREY
        return made

    def pixels(self, images: UInt8Images) -> NDArray[np.float32]:
        """Return the pixels inside the window: (n, p) of grey images, (n, 3p) of colour images."""
        values = images[:, self.inside]  # (n, p, 3)
        grey = (values[..., :1] == values).all()
        return (values[..., 0] if grey else values.reshape(len(values), -1)).astype(np.float32)

    def images(self, pixels: FloatArray) -> UInt8Images:
        """Return pixels (n, p) or (n, 3p) as images."""
        made = np.full((len(pixels), *self.inside.shape, 3), BACKGROUND_GREY, np.uint8)
        values = pixels.reshape(len(pixels), int(self.inside.sum()), -1)
        made[:, self.inside] = np.clip(values, 0, 255).round().astype(np.uint8)
        return made

    def codes(self, who: Recogniser, images: UInt8Images) -> NDArray[Any]:
        """Return a recogniser's embeddings of images; equal images are embedded once."""
        seen: dict[bytes, int] = {}
        which = [seen.setdefault(face.tobytes(), len(seen)) for face in images]
        _, first = np.unique(which, return_index=True)
        mesh = np.broadcast_to(self.mesh, (len(first), *self.mesh.shape))
        parts = np.array_split(np.arange(len(first)), -(-len(first) // 16))
        tasks = ((who, images[first[part]], mesh[part]) for part in parts)
        with closing(parallel_map(recogniser_codes, tasks, jobs=None)) as results:
            codes: NDArray[Any] = np.concatenate(list(results))[which]
        return codes


def eigenfaces(training: FloatArray, *, keep: int | float = 0.95, mahalanobis: bool = False) -> Train:
    """Return eigenfaces [N fig. 6-9] with axes learnt from training pixels (m, d).

    Parameters
    ----------
    training : (m, d)
        Pixels of the faces that the axes come from.
    keep : int or float
        How many axes, or which fraction of the variance.
    mahalanobis : bool
        Every axis counts alike, however much faces differ along it [G5 3.1].

    Examples
    --------
    >>> faces = np.array([[0.0, 1], [8, 2], [4, 9]])
    >>> match = eigenfaces(faces, keep=1.0)(faces, np.array(["a", "b", "c"]))
    >>> match(faces).argmin(axis=1).tolist()
    [0, 1, 2]
    """
    psi, axes, variance = principal_components(training, keep=keep)
    axes = axes / np.sqrt(variance)[:, None] if mahalanobis else axes  # (m', d)
    if not len(axes):  # all images are equal: people cannot be distinguished
        return lambda gallery, subjects: lambda probes: np.zeros((len(probes), len(gallery)))

    def train(gallery: NDArray[Any], subjects: NDArray[Any]) -> Match:
        omega = (gallery - psi) @ axes.T
        return lambda probes: np.asarray(cdist((probes - psi) @ axes.T, omega))

    return train


def cmc_percent(
    train: Train, gallery: NDArray[Any], probes: NDArray[Any], subjects: NDArray[Any]
) -> FloatArray:
    """Return the CMC in percent: how often the right person is among the first 1, 2, ... named."""
    return 100 * score(train, gallery, probes, subjects, subjects, attack="", recogniser="").cmc


def single_threaded(
    experiment: Callable[[ExperimentData], ExperimentResult],
) -> Callable[[ExperimentData], ExperimentResult]:
    """Return an experiment that does its sums on one thread: they are small, and threads would wait."""

    @wraps(experiment)
    def run(data: ExperimentData) -> ExperimentResult:
        with threadpool_limits(1):
            return experiment(data)

    return run


def attackers(*, count: int = 2) -> list[Recogniser]:
    """Return networks of today that are on this machine; if none is, the first that can be fetched."""
    there = [name for name in VERIFIERS.identity if weights.cached(name)][:count]
    there = there or [name for name in VERIFIERS.identity if weights.fetchable(name)][:1]
    if not there:
        raise WeightsError(
            "No recogniser is cached and none can be fetched: go online, or see `ksame models`."
        )
    return [deep_recogniser(name) for name in there]


def join_names(names: Iterable[str]) -> str:
    """Return names as a sentence has them.

    >>> join_names(["bar", "blur", "noise"])
    'bar, blur and noise'
    """
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


def _shrink(scale: float) -> FloatArray:
    """Return the (2, 3) matrix from the frame to a scaled copy of it, pixel centre to pixel centre."""
    shift = (scale - 1) / 2
    return np.array([[scale, 0, shift], [0, scale, shift]])
