"""Predict apparent gender, apparent age and smiling, and measure skin tone.

These are estimates from an image, used to stratify faces (k-Same-Select [G5 4.2]) and to measure what a
method preserves. They are not facts about a person. Accuracy is stated in ``MODELS.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.geometry import MESH, MOUTH_LEFT, MOUTH_RIGHT, crop, five_points, similarity, to_frame
from ksame.models.runtime import infer

__all__ = [
    "AGE_BANDS",
    "UNSURE",
    "Attributes",
    "age_band",
    "age_bands",
    "measure_skin",
    "predict_age",
    "predict_face_attributes",
    "predict_gender_score",
]

UNSURE = "unsure"
AGE_BANDS = ("under 35", "35-54", "55 and over")
# The mean error of the age network is 5 years: narrower bands, or an edge at 30, misplace a third of the
# people of london/, these a seventh.
_AGE_BAND_EDGES = np.array([35.0, 55.0])
_AGE_MARGIN_YEARS = 3.0  # closer to an edge a band is unsure

# Both networks were trained on dlib's face chips: eye corners and the base of the nose on the unit square,
# with padding on each side.
_CHIP = np.array(
    [[0.1205750620789, 0.2137274526848], [0.3340850613712, 0.2290642403242],
     [0.6460604764104, 0.2289674387677], [0.8595674595992, 0.2134981538014],
     [0.4901123135679, 0.6277975316475]]
)  # fmt: skip
_CHIP_MESH = [33, 133, 362, 263, 2]
_MEAN = np.array([122.781998, 117.000999, 104.297997])
_AGES = np.array([0.25, *range(1, 81)])  # the network's 81 classes
# (padding, shift down as a share of the side): one view is right for 90 % of csu's grey photos, the mean of
# two and their mirror images for 95 %; four views are no better.
_GENDER_VIEWS = ((0.2, 0.0), (0.25, 0.06))
_AGE_VIEWS = ((0.2, 0.0),)
# The gender network is biased to "male" in flat light and without colour: women reach logits of 1.9 (canada/)
# and 3.2 (csu), men go down to -0.4 (portraits/). Neither number is from london/.
_GENDER_EVEN_LOGIT, _GENDER_LOGIT_MARGIN = 1.0, 1.5

# Crops of the canonical frame for the expression network: (centre x, centre y, side).
_EXPRESSION_VIEWS = ((128.0, 200.0, 190.0), (128.0, 210.0, 210.0))
_HAPPY, _NEUTRAL = 3, 6  # of angry, disgust, fear, happy, sad, surprise, neutral
# Mouth width by eye distance: 0.80 with a deviation of 0.03 for neutral faces, 0.85 to 1.1 for smiles.
_MOUTH_WIDTH_EVEN, _MOUTH_WIDTH_PER_LOGIT = 0.85, 0.05
_SMILE_EVEN_LOGIT, _SMILE_LOGIT_MARGIN = -1.3, 0.7  # 39 of the 40 neutral faces of canada/ stay below

SKIN_PATCH_POINTS = [50, 280, 151]  # both cheekbones and the forehead: away from beard, glasses and make-up
SKIN_PATCH_RADIUS = 0.1  # of the distance between the eyes
_GREY_CHROMA_MAX = 3.0  # up to this an image counts as grey
# Difference in L* between the cheeks from which light counts as one-sided. The forehead is left out: its
# sheen is the brighter the darker the skin is, and dark skin alone would be unsure.
_SHADOW_L_DIFFERENCE = 15.0
_BATCH = 32


@dataclass(frozen=True, eq=False)
class Attributes:
    """Attributes of n faces as parallel arrays, each with a mask of the faces where it is sure.

    Parameters
    ----------
    gender : (n,) str
        Apparent gender: ``female`` or ``male``, the two classes of the network.
    gender_score : (n,) float
        Probability of ``male``, in [0, 1].
    age : (n,) float
        Apparent age in years.
    expression : (n,) str
        ``smiling`` or ``neutral``: everything else counts as neutral.
    expression_score : (n,) float
        Probability of a smile, in [0, 1].
    lightness, ita : (n,) float
        Median L* of cheeks and forehead, and individual typology angle, arctan((L* - 50) / b*) in
        degrees: skin tone in the light of this image.
    sure : mapping of str to (n,) bool
        For ``gender``, ``age`` (its band), ``expression`` and ``skin``.
    """

    gender: NDArray[np.str_]
    gender_score: FloatArray
    age: FloatArray
    expression: NDArray[np.str_]
    expression_score: FloatArray
    lightness: FloatArray
    ita: FloatArray
    sure: Mapping[str, NDArray[np.bool_]]

    def __post_init__(self) -> None:
        """Make the masks read-only."""
        object.__setattr__(self, "sure", MappingProxyType(dict(self.sure)))

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.age)

    @classmethod
    def join(cls, parts: Sequence[Attributes]) -> Self:
        """Return the attributes of several sets of faces in one."""
        columns = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)[:-1]}
        return cls(
            **columns, sure={name: np.concatenate([p.sure[name] for p in parts]) for name in parts[0].sure}
        )

    def column(self, name: str) -> NDArray[np.str_]:
        """Return one label per face for ``gender``, ``age`` (its band) or ``expression``.

        Where a prediction is not sure the label is ``UNSURE``, so that a guess never decides which faces are
        averaged.
        """
        if name not in ("gender", "age", "expression"):
            raise UsageError(f"There is no label {name!r}: choose one of gender, age, expression.")
        labels = age_bands(self.age) if name == "age" else getattr(self, name)
        return np.where(self.sure[name], labels, UNSURE)


def age_band(age: float) -> str:
    """Return the band of an apparent age, wide enough for the network's error.

    Examples
    --------
    >>> age_band(34.9), age_band(35), age_band(80)
    ('under 35', '35-54', '55 and over')
    """
    if not 0 <= age < np.inf:
        raise UsageError(f"age must be a number of years of at least 0. Got {age}.")
    return str(age_bands(np.array([age]))[0])


def predict_face_attributes(rgb: ArrayLike, points: ArrayLike) -> Attributes:
    """Return apparent gender, apparent age, expression and skin tone of registered faces.

    Parameters
    ----------
    rgb : (n, h, w, 3) uint8
        Faces on ``core.geometry.FRAME``, at its size or scaled. Pixels outside an image repeat its border.
    points : (n, 468, 2) array
        The mesh of each face, in pixels of its image.

    Raises
    ------
    WeightsError
        If one of the networks is missing and cannot be fetched.
    """
    images, mesh = _checked(rgb, points)
    male, age = np.zeros(len(mesh)), np.zeros(len(mesh))
    smile, skin = np.zeros(len(mesh)), np.zeros((len(mesh), 4))
    for start in range(0, len(mesh), _BATCH):
        rows = slice(start, start + _BATCH)
        male[rows] = _male(images[rows], mesh[rows])
        age[rows] = _age(images[rows], mesh[rows])
        smile[rows] = _smile(images[rows], mesh[rows])
        skin[rows] = [measure_skin(*face) for face in zip(images[rows], mesh[rows], strict=True)]
    lightness, b, chroma, shadow = skin.T
    return Attributes(
        gender=np.where(male > 0, "male", "female"),
        gender_score=_probability(male),
        age=age,
        expression=np.where(smile > 0, "smiling", "neutral"),
        expression_score=_probability(smile),
        lightness=lightness,
        ita=np.degrees(np.arctan2(lightness - 50, b)),
        sure={
            "gender": np.abs(male) > _GENDER_LOGIT_MARGIN,
            "age": (np.abs(age[:, None] - _AGE_BAND_EDGES) > _AGE_MARGIN_YEARS).all(axis=1),
            "expression": np.abs(smile) > _SMILE_LOGIT_MARGIN,
            "skin": (chroma > _GREY_CHROMA_MAX) & (shadow < _SHADOW_L_DIFFERENCE),
        },
    )


def predict_gender_score(rgb: ArrayLike, points: ArrayLike) -> FloatArray:
    """Return the probability of ``male``, (n,); see ``predict_face_attributes``."""
    return _probability(_male(*_checked(rgb, points)))


def predict_age(rgb: ArrayLike, points: ArrayLike) -> FloatArray:
    """Return the apparent age in years, (n,); see ``predict_face_attributes``."""
    return _age(*_checked(rgb, points))


def _checked(rgb: ArrayLike, points: ArrayLike) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return the arguments as arrays of matching shapes."""
    images, mesh = np.asarray(rgb), np.asarray(points, dtype=np.float64)
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise UsageError(f"rgb must be (n, h, w, 3) uint8. Got {images.shape} {images.dtype}.")
    if mesh.shape != (len(images), MESH, 2) or not np.isfinite(mesh).all():
        raise UsageError(f"points must be finite, ({len(images)}, {MESH}, 2). Got {mesh.shape}.")
    eyes, size = five_points(mesh)[:, :2], images.shape[2:0:-1]
    if not ((eyes >= 0) & (eyes < size)).all():
        raise UsageError("points must be in pixels of the registered image: an eye lies outside it.")
    return images, mesh


def _probability(logit: FloatArray) -> FloatArray:
    probability: FloatArray = 1 / (1 + np.exp(-np.clip(logit, -60, 60)))
    return probability


def age_bands(age: FloatArray) -> NDArray[np.str_]:
    """Return the band of each apparent age (n,); see ``age_band``."""
    return np.array(AGE_BANDS)[np.digitize(age, _AGE_BAND_EDGES)]


def _crop_views(
    rgb: NDArray[np.uint8], points: FloatArray, views: Iterable[Callable[[FloatArray], FloatArray]], size: int
) -> NDArray[np.uint8]:
    """Return the crop of each face in each view, and mirrored, (2 v, n, size, size, 3)."""
    crops = np.array(
        [[crop(r, view(p), size, size) for r, p in zip(rgb, points, strict=True)] for view in views]
    )
    return np.concatenate([crops, crops[:, :, :, ::-1]])


def _chip(padding: float, down: float, size: int) -> Callable[[FloatArray], FloatArray]:
    """Return a function from a mesh to the matrix of a dlib face chip."""
    target = size * ((_CHIP + padding) / (1 + 2 * padding) + [0, down])
    return lambda points: similarity(points[_CHIP_MESH], target)


def _chip_network(
    name: str, rgb: NDArray[np.uint8], points: FloatArray, views: Iterable[tuple[float, float]], size: int
) -> NDArray[Any]:
    """Return class probabilities (2 v, n, classes) of a network that takes face chips."""
    chips = _crop_views(rgb, points, [_chip(*view, size) for view in views], size)
    x = (chips.reshape(-1, size, size, 3) - _MEAN) / 256
    return infer(name, x.transpose(0, 3, 1, 2))[0].reshape(len(chips), len(rgb), -1).astype(np.float64)


def _male(rgb: NDArray[np.uint8], points: FloatArray) -> FloatArray:
    """Return the mean logit of "male" over all views, 0 where both classes are equally likely."""
    p = np.clip(_chip_network("gender", rgb, points, _GENDER_VIEWS, 32), 1e-6, 1)
    logit: FloatArray = np.log(p[..., 1] / p[..., 0]).mean(axis=0) - _GENDER_EVEN_LOGIT
    return logit


def _age(rgb: NDArray[np.uint8], points: FloatArray) -> FloatArray:
    """Return the expected age under the mean distribution of all views."""
    age: FloatArray = _chip_network("age", rgb, points, _AGE_VIEWS, 64).mean(axis=0) @ _AGES
    return age


def _smile(rgb: NDArray[np.uint8], points: FloatArray) -> FloatArray:
    """Return a logit of smiling from the network and from the width of the mouth.

    The network's other five classes are not used: it predicts sad or fear for neutral faces.
    """
    views = _crop_views(rgb, points, [_square(*view) for view in _EXPRESSION_VIEWS], 64)
    grey = [cv2.cvtColor(view, cv2.COLOR_RGB2GRAY) for view in views.reshape(-1, 64, 64, 3)]
    x = np.array(grey)[..., None] / 127.5 - 1
    p = infer("emotion", x, shape=(-1, 64, 64, 1))[0].reshape(len(views), len(rgb), 7) + 1e-3
    network = np.log(p[..., _HAPPY] / p[..., _NEUTRAL]).mean(axis=0)
    five = five_points(points)
    width = _distance(points[:, MOUTH_LEFT], points[:, MOUTH_RIGHT]) / _distance(five[:, 0], five[:, 1])
    logit: FloatArray = network / 2 + (width - _MOUTH_WIDTH_EVEN) / _MOUTH_WIDTH_PER_LOGIT - _SMILE_EVEN_LOGIT
    return logit


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    distance: FloatArray = np.linalg.norm(a - b, axis=-1)
    return distance


def _square(x: float, y: float, side: float) -> Callable[[FloatArray], FloatArray]:
    """Return a function from a mesh to the matrix of a 64 px crop of the canonical frame."""
    scale = 64 / side

    def view(points: FloatArray) -> FloatArray:
        matrix = scale * to_frame(points)
        matrix[:, 2] += [32 - scale * x, 32 - scale * y]
        return matrix

    return view


def measure_skin(rgb: NDArray[np.uint8], points: FloatArray) -> tuple[float, float, float, float]:
    """Return median L*, b* and chroma of the skin patches, and the difference in L* between the cheeks."""
    eyes = five_points(points)[:2]
    radius = max(1.0, SKIN_PATCH_RADIUS * float(_distance(eyes[0], eyes[1])))
    span = np.arange(-np.ceil(radius), np.ceil(radius) + 1)
    disc = np.stack(np.meshgrid(span, span), axis=-1).reshape(-1, 2)
    disc = disc[(disc**2).sum(axis=1) <= radius**2]  # (c, 2)
    at = np.rint(points[SKIN_PATCH_POINTS])[:, None] + disc  # (3, c, 2)
    x, y = np.clip(at, 0, [rgb.shape[1] - 1, rgb.shape[0] - 1]).astype(np.intp).transpose(2, 0, 1)
    lab = cv2.cvtColor(rgb[y, x].astype(np.float32) / 255, cv2.COLOR_RGB2LAB)  # (3, c, 3)
    lightness, a, b = np.median(lab.reshape(-1, 3), axis=0)
    return lightness, b, np.hypot(a, b), np.ptp(np.median(lab[:2, :, 0], axis=1))
