"""The style space of a generator: photo -> styles by a learnt map, styles -> portrait [A 3.4].

A code has two halves: the style of the layers for geometry and that of the layers for colour.
Deviation: the paper finds the style of a photo by optimisation, minutes on a GPU. Here one linear map
predicts it from network features and landmarks, in milliseconds. The result is similar to the person
but is not their face, which is intended: no real face is in the space.
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
"""Attributes that can be set: the logit of "male", years, the logit of "smiling", L* and typology angle of
the skin; in pixels of the canonical frame, the yaw and the widths of nose, lips and face; the log odds of
glasses and of a hat; and the busyness of the background, which is defined for generated images only."""
FIRST_COLOUR_ROW = 10  # of MobileStyleGAN's 23 rows; in general this share of them
FEATURE_BLOCKS: Mapping[str, int] = {"mobilefacenet": 128, "mesh": 40, "pixels": 80}
"""Feature blocks of a photo and the number of principal components used of each."""
_CODE, _KNOWN = 192, FEATURE_BLOCKS["mobilefacenet"]  # length of MobileFaceNet's code; components used
_BYTE_ARRAYS = ("axes", "up")  # stored with one byte per value
_THUMBNAIL_SIZE = (16, 20)  # width and height of the registered face in the features, px
_MAX_DEVIATIONS = 4.0  # limit of a feature in standard deviations; beyond it is a measurement error
_NAME = "portraits.npz"


@dataclass(frozen=True, eq=False)
class GeneratorSpace:
    """A learnt map of a generator: predict styles from a photo, and set attributes of styles.

    Parameters
    ----------
    generator : str
        Digest of the generator from which it was learnt.
    mean : (d,)
        The mean style, twice: for geometry and for colour.
    centre, axes : (f,), (x, f)
        Whitening of the features of a photo to x principal components.
    down, up : (x, r), (r, d)
        The low-rank map from components to styles.
    level, unit : (a,)
        Mean and standard deviation of each attribute of ``ATTRIBUTES`` over generated images.
    slope : (a, d)
        Linear map from styles to attributes, in units.
    reach : (d, a)
        Covariance of styles times the transposed slopes: the likeliest direction of more of an attribute.
    worn : (2, x + 1)
        Linear map from components to the log odds of glasses and of a hat; the last column is a constant.
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
        """Return the bundled map, learnt from MobileStyleGAN."""
        return cls.load(str(files("ksame").joinpath("models", "data", _NAME)))

    @classmethod
    def load(cls, file: str | Path) -> Self:
        """Read a map from a file."""
        try:
            with Path(file).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                parts = {name: stored[name] for name in stored.files}
            generator = str(parts.pop("generator"))
            steps = {name: parts.pop(f"{name}_step").astype(np.float64) for name in _BYTE_ARRAYS}
            numbers = {name: part.astype(np.float64) * steps.get(name, 1) for name, part in parts.items()}
            numbers["axes"][:_KNOWN, :_CODE] = numbers.pop("known")
            space = cls(generator, **numbers)
            space._check_shapes()
        except (OSError, EOFError, BadZipFile, ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{str(file)!r} is not a generator map: see `ksame model train`.") from None
        return space

    def _check_shapes(self) -> None:
        """Raise a ValueError unless the arrays match each other and the features of a photo."""
        d, a = len(self.mean), len(ATTRIBUTES)
        f = _CODE + 2 * MESH + 3 * _THUMBNAIL_SIZE[0] * _THUMBNAIL_SIZE[1]
        x, r = sum(FEATURE_BLOCKS.values()), self.up.shape[0]
        expected = [(d,), (f,), (x, f), (x, r), (r, d), (a,), (a,), (a, d), (d, a), (2, x + 1)]
        if [getattr(self, field.name).shape for field in fields(self)[1:]] != expected or d % 2:
            raise ValueError("array shapes do not match")

    def save(self, file: str | Path) -> None:
        """Write the map in half precision or less; the rounding is far below the errors of the map."""
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, generator=np.array(self.generator), **self._stored())
        Path(file).write_bytes(stream.getvalue())

    def _stored(self) -> dict[str, NDArray[Any]]:
        """Return the arrays as they are stored.

        Large arrays use a byte per value and a step per row. The axes of MobileFaceNet's code do not:
        quantising them would lose 1 % of the variance of styles, all others together nothing.
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
        """The sha256 of the stored arrays."""
        digest = hashlib.sha256(self.generator.encode())
        for _, part in sorted(self._stored().items()):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    @classmethod
    def fit(cls, faces: FaceSet) -> Self:
        """Return the bundled map: it is learnt from a generator, never from photos."""
        return cls.bundled()

    def encode(self, faces: FaceSet) -> FloatArray:
        """Return the codes (n, d) of photos: styles predicted from their features."""
        return self.mean + self.read_features(faces) @ self.down @ self.up

    def read_features(self, faces: FaceSet) -> FloatArray:
        """Return the whitened features of photos, (n, x)."""
        return self.whiten(extract_features(faces))

    def whiten(self, features: FloatArray) -> FloatArray:
        """Return features (n, f) as principal components (n, x) of unit variance."""
        white: FloatArray = np.clip((features - self.centre) @ self.axes.T, -_MAX_DEVIATIONS, _MAX_DEVIATIONS)
        return white

    def remove_colour(self, features: FloatArray) -> FloatArray:
        """Replace the colours in features (n, f) of grey photos by their mean.

        Only the lightness of the thumbnail is kept. On 56 grey versions of colour photos the error of the
        code's colour half is then 0.44 of the spread of codes, instead of 0.55.
        """
        grey = features.copy()
        start = _CODE + 2 * MESH
        for channel in (1, 2):  # a* and b*
            grey[:, start + channel :: 3] = self.centre[start + channel :: 3]
        return grey

    def shape_deviation(self, components: FloatArray) -> FloatArray:
        """Return the RMS deviation (n,) of the shapes of whitened features (n, x) from the mean."""
        mesh = slice(
            FEATURE_BLOCKS["mobilefacenet"], FEATURE_BLOCKS["mobilefacenet"] + FEATURE_BLOCKS["mesh"]
        )
        deviation: FloatArray = np.sqrt((components[:, mesh] ** 2).mean(axis=1))
        return deviation

    def accessory_log_odds(self, components: FloatArray) -> FloatArray:
        """Return the log odds (n, 2) of glasses and of a hat from whitened features (n, x)."""
        odds: FloatArray = components @ self.worn[:, :-1].T + self.worn[:, -1]
        return odds

    def predict_attributes(self, codes: FloatArray) -> FloatArray:
        """Return the attributes (n, a) that the images of codes (n, d) should have."""
        attributes: FloatArray = self.level + self.unit * ((codes - self.mean) @ self.slope.T)
        return attributes

    def shift_attributes(
        self, code: FloatArray, by: Mapping[str, float], *, same: bool = False
    ) -> FloatArray:
        """Change a code (d,) so that its attributes change by given amounts, in the likeliest way.

        Attributes given as 0 keep their value; attributes not given may change. With ``same``, light and
        tone are changed by colour alone, so that the geometry does not follow the skin tone.
        """
        rows = [ATTRIBUTES.index(name) for name in by]
        step = np.array(list(by.values())) / self.unit[rows]
        slope, reach = self.slope[rows], self.reach[:, rows]
        if same:
            reach[: len(code) // 2, [name in ("light", "tone") for name in by]] = 0
        covariance = slope @ reach  # (c, c)
        covariance += 1e-6 * np.trace(covariance) / len(rows) * np.eye(len(rows))
        return code + reach @ np.linalg.solve(covariance, step)

    def attribute_cost(self, codes: FloatArray, to: FloatArray) -> FloatArray:
        """Return the squared Mahalanobis length (n,) of the change from codes (n, d) to attributes (n, a)."""
        step = (to - self.predict_attributes(codes)) / self.unit
        cost: FloatArray = np.einsum("na,na->n", step @ np.linalg.pinv(self.slope @ self.reach), step)
        return cost

    def set_attributes(self, code: FloatArray, to: Mapping[str, float]) -> FloatArray:
        """Change a code (d,) so that its image should have the given attributes."""
        now = self.predict_attributes(code[None])[0]
        return self.shift_attributes(
            code, {name: value - now[ATTRIBUTES.index(name)] for name, value in to.items()}
        )

    def set_all_attributes(self, codes: FloatArray, to: FloatArray) -> FloatArray:
        """Change codes (n, d) so that their images should have all attributes (n, a)."""
        step = (to - self.predict_attributes(codes)) / self.unit
        covariance = self.slope @ self.reach
        covariance += 1e-6 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        changed: FloatArray = codes + step @ np.linalg.solve(covariance.T, self.reach.T)
        return changed

    def geometry_similarity(self, codes: FloatArray, others: FloatArray) -> FloatArray:
        """Return the cosine similarities (n, m) of the geometry of codes (n, d) and others (m, d)."""
        one, two = (np.split(some - self.mean, 2, axis=1)[0] for some in (codes, others))
        lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(two, axis=1)
        cosine: FloatArray = one @ two.T / np.maximum(lengths, 1e-12)
        return cosine

    def layer_styles(self, codes: FloatArray, generator: ImageGenerator) -> FloatArray:
        """Return the style of each layer (n, rows, width) of codes (n, d)."""
        geometry, colour = np.split(np.asarray(codes), 2, axis=1)
        first = np.arange(generator.rows) < round(FIRST_COLOUR_ROW / 23 * generator.rows)
        rows: FloatArray = np.where(first[:, None], geometry[:, None], colour[:, None])
        return rows

    def decode(self, codes: FloatArray) -> NDArray[np.uint8]:
        """Return the portraits (n, s, s, 3) of codes, drawn by the bundled generator."""
        return self.draw(codes, ImageGenerator.bundled())

    def draw(self, codes: FloatArray, generator: ImageGenerator, *, half: bool = False) -> NDArray[np.uint8]:
        """Return the portraits (n, s, s, 3) of codes (n, d), with ``half`` at half the size."""
        return generator.draw(self.layer_styles(codes, generator), half=half)

    def check_generator(self, generator: ImageGenerator) -> None:
        """Raise unless the map was learnt from this generator."""
        if generator.digest != self.generator:
            raise UsageError(
                "The map was learnt from another generator: train one for this generator with"
                " `ksame model train --generator FOLDER -o MAP.npz`."
            )


def extract_features(faces: FaceSet) -> FloatArray:
    """Return the features of faces (n, f): a recogniser's code, the mesh and the colours of a thumbnail."""
    mesh, scale = landmarks_on_frame(faces), faces.rgb.shape[2] / FRAME.width
    codes = [embed("mobilefacenet", rgb, scale * p[None]) for rgb, p in zip(faces.rgb, mesh, strict=True)]
    small = (cv2.resize(rgb, _THUMBNAIL_SIZE, interpolation=cv2.INTER_AREA) for rgb in faces.rgb)
    lab = np.stack([cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB) for rgb in small])
    flat = [np.concatenate(codes), mesh.reshape(len(mesh), -1), lab.reshape(len(lab), -1)]
    return np.hstack(flat).astype(np.float64)


def split_features(features: FloatArray) -> Sequence[FloatArray]:
    """Split features (n, f) into the blocks of ``FEATURE_BLOCKS``."""
    ends = [_CODE, _CODE + 2 * MESH]
    return np.split(features, ends, axis=1)


def shape_attributes(points: FloatArray) -> FloatArray:
    """Return yaw, the width of the nose, the height of both lips and the width of the face, (n, 4).

    Parameters
    ----------
    points : (n, 468, 2)
        Meshes on the canonical frame.
    """
    cheeks = points[:, [234, 454]]
    yaw = points[:, 1, 0] - cheeks[:, :, 0].mean(axis=1)
    nose, width = _landmark_distance(points, 129, 358), _landmark_distance(points, 234, 454)
    lips = _landmark_distance(points, 0, 13) + _landmark_distance(points, 14, 17)
    return np.stack([yaw, nose, lips, width], axis=1)


def _landmark_distance(points: FloatArray, one: int, other: int) -> FloatArray:
    distance: FloatArray = np.linalg.norm(points[:, one] - points[:, other], axis=1)
    return distance
