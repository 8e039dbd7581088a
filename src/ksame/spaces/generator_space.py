"""The styles of a generator as a face space: photo -> styles by a learnt map, styles -> portrait [A 3.4].

A code has two halves, the style of the layers that make geometry and that of the layers that make colour.
Deviation: the paper finds the style of a photo by optimisation, minutes on a graphics card. Here it is
read off what networks and landmarks see in the photo, by one linear map: milliseconds. So it is a
look-alike and not the person, which is the wish: nobody's own face is in the space.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, MESH
from ksame.models.generator import ImageGenerator
from ksame.models.recognisers import embed
from ksame.spaces.appearance import landmarks_on_frame

__all__ = [
    "ATTRIBUTES",
    "FEATURE_BLOCKS",
    "FIRST_COLOUR_ROW",
    "GeneratorSpace",
    "extract_features",
    "shape_attributes",
]

ATTRIBUTES = (
    "gender", "age", "smile", "light", "tone", "yaw", "nose", "lips", "width", "glasses", "hat", "background",
)  # fmt: skip
"""What can be set. The logit of "male", years, the logit of "smiling", L* and typology angle of the skin;
then on the canonical frame, in pixels, how far the head is turned and how wide nose, lips and face are; how
surely there are glasses or a hat, as log odds; and how busy the ground is, which only drawn pictures have."""
FIRST_COLOUR_ROW = 10  # of MobileStyleGAN's 23 rows; in general this share of them
FEATURE_BLOCKS: Mapping[str, int] = {"mobilefacenet": 128, "mesh": 40, "pixels": 80}
"""What is read off a photo, and how many principal components of it are used."""
_CODE, _KNOWN = (
    192,
    FEATURE_BLOCKS["mobilefacenet"],
)  # the length of MobileFaceNet's code, and what is used of it
_BYTE_ARRAYS = ("axes", "up")  # stored in a byte for each number
_THUMBNAIL_SIZE = (16, 20)  # px: the registered face as the map sees it
_MAX_DEVIATIONS = 4.0  # standard deviations: what is further out is an error of measurement
_NAME = "portraits.npz"


@dataclass(frozen=True, eq=False)
class GeneratorSpace:
    """What was learnt of a generator: how to read styles off a photo, and how to set attributes.

    Parameters
    ----------
    generator : str
        The digest of the generator it was learnt from.
    mean : (d,)
        The mean style, twice: of geometry and of colour.
    centre, axes : (f,), (x, f)
        What is read off a photo, whitened: x principal components.
    down, up : (x, r), (r, d)
        The map from those to styles, of low rank.
    level, unit : (a,)
        Mean and standard deviation of each attribute of ``ATTRIBUTES`` over what the generator draws.
    slope : (a, d)
        How attributes follow from styles, in units.
    reach : (d, a)
        The covariance of styles times the transposed slopes: the likeliest way to more of an attribute.
    worn : (2, x + 1)
        How surely there are glasses and a hat, from what is read off a photo; the last column is a constant.
    """

    generator: str
    mean: FloatArray
    centre: FloatArray
    axes: FloatArray
    down: FloatArray
    up: FloatArray
    level: FloatArray
    unit: FloatArray
    slope: FloatArray
    reach: FloatArray
    worn: FloatArray

    @classmethod
    @cache
    def bundled(cls) -> Self:
        """Return what comes with the package: learnt from MobileStyleGAN."""
        return cls.load(str(files("ksame").joinpath("models", "data", _NAME)))

    @classmethod
    def load(cls, file: str | Path) -> Self:
        """Read one from a file."""
        try:
            with Path(file).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                parts = {name: stored[name] for name in stored.files}
            generator = str(parts.pop("generator"))
            steps = {name: parts.pop(f"{name}_step").astype(np.float64) for name in _BYTE_ARRAYS}
            numbers = {name: part.astype(np.float64) * steps.get(name, 1) for name, part in parts.items()}
            numbers["axes"][:_KNOWN, :_CODE] = numbers.pop("known")
            found = cls(generator, **numbers)
            found._check_shapes()
        except (OSError, EOFError, BadZipFile, ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{str(file)!r} is no map of a generator: see `ksame model train`.") from None
        return found

    def _check_shapes(self) -> None:
        """Raise a ValueError unless all parts fit together and what is read off a photo."""
        d, f, a = (
            len(self.mean),
            _CODE + 2 * MESH + 3 * _THUMBNAIL_SIZE[0] * _THUMBNAIL_SIZE[1],
            len(ATTRIBUTES),
        )
        x, r = sum(FEATURE_BLOCKS.values()), self.up.shape[0]
        should = [(d,), (f,), (x, f), (x, r), (r, d), (a,), (a,), (a, d), (d, a), (2, x + 1)]
        if [getattr(self, field.name).shape for field in fields(self)[1:]] != should or d % 2:
            raise ValueError("its parts do not fit")

    def save(self, file: str | Path) -> None:
        """Write it to a file, in half precision or less: the errors are far below those of the map."""
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, generator=np.array(self.generator), **self._stored())
        Path(file).write_bytes(stream.getvalue())

    def _stored(self) -> dict[str, NDArray[Any]]:
        """Return its numbers as they are stored.

        Large parts take a byte for each number and a step for each row. What reads MobileFaceNet's code does
        not: that alone would cost a hundredth of the variance of styles, all others together nothing.
        """
        parts = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        stored = {name: part.astype(np.float16) for name, part in parts.items()}
        stored["known"] = stored["axes"][:_KNOWN, :_CODE].copy()
        rest = self.axes.copy()
        rest[:_KNOWN, :_CODE] = 0
        for name, part in zip(_BYTE_ARRAYS, (rest, self.up), strict=True):
            step = (np.abs(part).max(axis=1, keepdims=True) / 127).astype(np.float32)
            step[step == 0] = 1
            stored[f"{name}_step"], stored[name] = step, np.rint(part / step).astype(np.int8)
        return stored

    @property
    def digest(self) -> str:
        """The sha256 of its numbers."""
        digest = hashlib.sha256(self.generator.encode())
        for _, part in sorted(self._stored().items()):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    @classmethod
    def fit(cls, faces: FaceSet) -> Self:
        """Return the one that is shipped: it is learnt from a generator, and never from anybody's photos."""
        return cls.bundled()

    def encode(self, faces: FaceSet) -> FloatArray:
        """Return the codes (n, d) of photos: what is read off them, mapped to styles."""
        return self.mean + self.read_features(faces) @ self.down @ self.up

    def read(self, faces: FaceSet) -> FloatArray:
        """Return what is read off photos, whitened: (n, x)."""
        return self.whiten(extract_features(faces))

    def whiten(self, seen: FloatArray) -> FloatArray:
        """Return features (n, f) as principal components (n, x) of unit variance."""
        white: FloatArray = np.clip((seen - self.centre) @ self.axes.T, -_MAX_DEVIATIONS, _MAX_DEVIATIONS)
        return white

    def remove_colour(self, seen: FloatArray) -> FloatArray:
        """Return features (n, f) in which colours have their mean: a photo without colour does not tell them.

        Only the lightness of the small picture is kept. On 56 grey versions of colour photos the colour half
        of the code is then off by 0.44 of the spread of codes, instead of 0.55.
        """
        known = seen.copy()
        start = _CODE + 2 * MESH
        for channel in (1, 2):  # a* and b*
            known[:, start + channel :: 3] = self.centre[start + channel :: 3]
        return known

    def shape_deviation(self, read: FloatArray) -> FloatArray:
        """Return how unusual the shapes of whitened faces (n, x) are, in standard deviations (n,)."""
        mesh = slice(
            FEATURE_BLOCKS["mobilefacenet"], FEATURE_BLOCKS["mobilefacenet"] + FEATURE_BLOCKS["mesh"]
        )
        odd: FloatArray = np.sqrt((read[:, mesh] ** 2).mean(axis=1))
        return odd

    def accessory_log_odds(self, read: FloatArray) -> FloatArray:
        """Return how surely there are glasses and a hat (n, 2), as log odds."""
        odds: FloatArray = read @ self.worn[:, :-1].T + self.worn[:, -1]
        return odds

    def predict_attributes(self, codes: FloatArray) -> FloatArray:
        """Return the attributes (n, a) that the pictures of codes (n, d) should have."""
        told: FloatArray = self.level + self.unit * ((codes - self.mean) @ self.slope.T)
        return told

    def shift_attributes(
        self, code: FloatArray, by: Mapping[str, float], *, same: bool = False
    ) -> FloatArray:
        """Return a code (d,) changed so that attributes change by as much, in the likeliest way.

        Attributes named with 0 stay as they are; those that are not named go along. ``same``: light and tone
        are changed by colour alone, so that nobody gets the features that go with another skin.
        """
        rows = [ATTRIBUTES.index(name) for name in by]
        step = np.array(list(by.values())) / self.unit[rows]
        slope, reach = self.slope[rows], self.reach[:, rows]
        if same:
            reach[: len(code) // 2, [name in ("light", "tone") for name in by]] = 0
        ways = slope @ reach  # (c, c)
        ways += 1e-6 * np.trace(ways) / len(rows) * np.eye(len(rows))
        return code + reach @ np.linalg.solve(ways, step)

    def attribute_cost(self, codes: FloatArray, to: FloatArray) -> FloatArray:
        """Return how unlikely a way it is from codes (n, d) to attributes (n, a): its squared length (n,)."""
        step = (to - self.predict_attributes(codes)) / self.unit
        effort: FloatArray = np.einsum("na,na->n", step @ np.linalg.pinv(self.slope @ self.reach), step)
        return effort

    def steered(self, code: FloatArray, to: Mapping[str, float]) -> FloatArray:
        """Return a code (d,) moved to where its picture should have these attributes."""
        now = self.predict_attributes(code[None])[0]
        return self.moved(code, {name: value - now[ATTRIBUTES.index(name)] for name, value in to.items()})

    def set_all_attributes(self, codes: FloatArray, to: FloatArray) -> FloatArray:
        """Return codes (n, d) moved to where their pictures should have attributes (n, a): all of them."""
        step = (to - self.predict_attributes(codes)) / self.unit
        ways = self.slope @ self.reach
        ways += 1e-6 * np.trace(ways) / len(ways) * np.eye(len(ways))
        moved: FloatArray = codes + step @ np.linalg.solve(ways.T, self.reach.T)
        return moved

    def geometry_similarity(self, codes: FloatArray, others: FloatArray) -> FloatArray:
        """Return how like the geometry of codes (n, d) is to that of others (m, d), as cosines (n, m)."""
        one, two = (np.split(some - self.mean, 2, axis=1)[0] for some in (codes, others))
        lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(two, axis=1)
        cosine: FloatArray = one @ two.T / np.maximum(lengths, 1e-12)
        return cosine

    def rows(self, codes: FloatArray, generator: ImageGenerator) -> FloatArray:
        """Return the style of each layer (n, rows, width) of codes (n, d)."""
        geometry, colour = np.split(np.asarray(codes), 2, axis=1)
        first = np.arange(generator.rows) < round(FIRST_COLOUR_ROW / 23 * generator.rows)
        rows: FloatArray = np.where(first[:, None], geometry[:, None], colour[:, None])
        return rows

    def decode(self, codes: FloatArray) -> NDArray[np.uint8]:
        """Return the portraits (n, s, s, 3) of codes, by the generator that is shipped."""
        return self.draw(codes, ImageGenerator.bundled())

    def draw(self, codes: FloatArray, generator: ImageGenerator, *, half: bool = False) -> NDArray[np.uint8]:
        """Return the portraits (n, s, s, 3) of codes (n, d); ``half``: at half the size, for a look."""
        return generator.draw(self.layer_styles(codes, generator), half=half)

    def check_generator(self, generator: ImageGenerator) -> None:
        """Refuse a generator that it was not learnt from."""
        if generator.digest != self.generator:
            raise UsageError(
                "The map was learnt from another generator: make one for yours by"
                " `ksame model train --generator FOLDER -o MAP.npz`."
            )


def extract_features(faces: FaceSet) -> FloatArray:
    """Return what is read off faces (n, f): a recogniser's code, the mesh, and a small picture's colours."""
    mesh, scale = landmarks_on_frame(faces), faces.rgb.shape[2] / FRAME.width
    codes = [embed("mobilefacenet", rgb, scale * p[None]) for rgb, p in zip(faces.rgb, mesh, strict=True)]
    small = (cv2.resize(rgb, _THUMBNAIL_SIZE, interpolation=cv2.INTER_AREA) for rgb in faces.rgb)
    lab = np.stack([cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB) for rgb in small])
    flat = [np.concatenate(codes), mesh.reshape(len(mesh), -1), lab.reshape(len(lab), -1)]
    return np.hstack(flat).astype(np.float64)


def split_features(seen: FloatArray) -> Sequence[FloatArray]:
    """Return the parts of features (n, f), in the order of ``FEATURE_BLOCKS``."""
    ends = [_CODE, _CODE + 2 * MESH]
    return np.split(seen, ends, axis=1)


def shape_attributes(points: FloatArray) -> FloatArray:
    """Return yaw, and the widths of nose, lips (both, from above to below) and face: (n, 4).

    Parameters
    ----------
    points : (n, 468, 2)
        Meshes on the canonical frame.
    """
    side_by_side = points[:, [234, 454]]
    yaw = points[:, 1, 0] - side_by_side[:, :, 0].mean(axis=1)
    nose, width = _apart(points, 129, 358), _apart(points, 234, 454)
    lips = _apart(points, 0, 13) + _apart(points, 14, 17)
    return np.stack([yaw, nose, lips, width], axis=1)


def _apart(points: FloatArray, one: int, other: int) -> FloatArray:
    apart: FloatArray = np.linalg.norm(points[:, one] - points[:, other], axis=1)
    return apart
