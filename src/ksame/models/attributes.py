"""What a face looks like to a network: apparent gender, apparent age, a smile; and measured skin tone.

These are guesses from a picture, for keeping unlike faces apart (k-Same-Select [G5 4.2]) and for
measuring what survives. They say nothing about who somebody is. Figures are in ``MODELS.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.geometry import MESH, MOUTH_LEFT, MOUTH_RIGHT, crop, five_points, similarity, to_frame
from ksame.models.runtime import infer

__all__ = ["AGE_BANDS", "UNSURE", "Attributes", "age_band", "predict_face_attributes", "predict_gender_score"]

UNSURE = "unsure"
AGE_BANDS = ("under 35", "35-54", "55 and over")
# The age network errs by 5 years on average: narrower bands, or an edge at 30, put a third of the
# people of london/ into a wrong one, these a seventh.
_AGE_BAND_EDGES = np.array([35.0, 55.0])
_AGE_MARGIN = 3.0  # years from an edge

# Both networks were trained on dlib's face chip: eye corners and the base of the nose on the unit
# square, which is then grown by a padding on each side.
_CHIP = np.array(
    [[0.1205750620789, 0.2137274526848], [0.3340850613712, 0.2290642403242],
     [0.6460604764104, 0.2289674387677], [0.8595674595992, 0.2134981538014],
     [0.4901123135679, 0.6277975316475]]
)  # fmt: skip
_CHIP_MESH = [33, 133, 362, 263, 2]
_MEAN = np.array([122.781998, 117.000999, 104.297997])
_AGES = np.array([0.25, *range(1, 81)])  # the network's 81 classes
# (padding, share of the side by which the face is moved down): one view is right for 90 % of csu's
# grey photos, the mean of two and their mirror images for 95 %; four views are no better.
_GENDER_VIEWS = ((0.2, 0.0), (0.25, 0.06))
_AGE_VIEWS = ((0.2, 0.0),)
# The gender network leans to "male" in flat light and without colour: women reach logits of 1.9
# (canada/) and 3.2 (csu), men go down to -0.4 (portraits/). Neither number is from london/.
_GENDER_EVEN_LOGIT, _GENDER_MARGIN = 1.0, 1.5

# Squares on the canonical frame, (centre x, centre y, side), that the expression network is shown.
_EXPRESSION_VIEWS = ((128.0, 200.0, 190.0), (128.0, 210.0, 210.0))
_HAPPY, _NEUTRAL = 3, 6  # of angry, disgust, fear, happy, sad, surprise, neutral
# Mouth width over the eyes' distance: neutral faces 0.80 with a spread of 0.03, smiles 0.85 to 1.1.
_MOUTH_WIDTH_NEUTRAL, _WIDTH_STEP = 0.85, 0.05
_SMILE_EVEN_LOGIT, _SMILE_MARGIN = -1.3, 0.7  # 39 of the 40 neutral faces of canada/ stay below

_SKIN_MESH = [50, 280, 151]  # both cheekbones and the forehead: away from beard, glasses and make-up
_SKIN_REACH = 0.1  # of the eyes' distance
_GREY_CHROMA_MAX = 3.0  # below: a grey picture
# L* from cheek to cheek; above: light from one side. The forehead is left out of it: its sheen is
# brighter the darker the skin is, and dark skin alone would be called unsure.
_SHADOW_L_DIFFERENCE = 15.0
_BATCH = 32


@dataclass(frozen=True, eq=False)
class Attributes:
    """n faces' attributes as parallel arrays, each with a mask of the faces where it is sure.

    Parameters
    ----------
    gender : (n,) str
        Apparent gender: ``female`` or ``predict_gender_score``, the two values the network knows.
    gender_score : (n,) float
        In [0, 1]: how surely it is taken for male; even at 0.5.
    age : (n,) float
        Apparent age in years.
    expression : (n,) str
        ``smiling`` or ``neutral``: whatever is no smile counts as neutral.
    expression_score : (n,) float
        In [0, 1]: how surely it is a smile.
    lightness, ita : (n,) float
        Median L* of cheeks and forehead, and individual typology angle, arctan((L* - 50) / b*) in
        degrees: skin tone as this picture's light shows it.
    sure : mapping of str to (n,) bool
        For ``gender``, ``predict_age`` (its band), ``expression`` and ``skin``.
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
        """Keep the masks from being exchanged."""
        object.__setattr__(self, "sure", MappingProxyType(dict(self.sure)))

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.age)

    def column(self, name: str) -> NDArray[np.str_]:
        """Return one label per face for ``gender``, ``predict_age`` (its band) or ``expression``.

        Where it is not sure the label is ``UNSURE``: a value of its own, so that a guess never
        decides whose face is averaged with whose.
        """
        if name not in ("gender", "age", "expression"):
            raise UsageError(f"There is no label {name!r}: choose one of gender, age, expression.")
        labels = _bands(self.age) if name == "age" else getattr(self, name)
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
    return str(_bands(np.array([age]))[0])


def predict_face_attributes(rgb: ArrayLike, points: ArrayLike) -> Attributes:
    """Return apparent gender, apparent age, expression and skin tone of registered faces.

    Parameters
    ----------
    rgb : (n, h, w, 3) uint8
        Faces on ``core.geometry.FRAME``, at its size or scaled. What lies beyond a picture repeats its
        border.
    points : (n, 468, 2) array
        The mesh of each face, in pixels of its picture.

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
        skin[rows] = [_skin(*face) for face in zip(images[rows], mesh[rows], strict=True)]
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
            "gender": np.abs(male) > _GENDER_MARGIN,
            "age": (np.abs(age[:, None] - _AGE_BAND_EDGES) > _AGE_MARGIN).all(axis=1),
            "expression": np.abs(smile) > _SMILE_MARGIN,
            "skin": (chroma > _GREY_CHROMA_MAX) & (shadow < _SHADOW_L_DIFFERENCE),
        },
    )


def predict_gender_score(rgb: ArrayLike, points: ArrayLike) -> FloatArray:
    """Return ``gender_score`` alone, (n,): how surely faces are taken for male.

    See ``predict_face_attributes``.
    """
    return _probability(_male(*_checked(rgb, points)))


def predict_age(rgb: ArrayLike, points: ArrayLike) -> FloatArray:
    """Return ``predict_age`` alone, (n,): how many years old faces look; see ``predict_face_attributes``."""
    return _age(*_checked(rgb, points))


def _checked(rgb: ArrayLike, points: ArrayLike) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return the arguments as arrays that fit each other."""
    images, mesh = np.asarray(rgb), np.asarray(points, dtype=np.float64)
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise UsageError(f"rgb must be (n, h, w, 3) uint8. Got {images.shape} {images.dtype}.")
    if mesh.shape != (len(images), MESH, 2) or not np.isfinite(mesh).all():
        raise UsageError(f"points must be finite, ({len(images)}, {MESH}, 2). Got {mesh.shape}.")
    eyes, size = five_points(mesh)[:, :2], images.shape[2:0:-1]
    if not ((eyes >= 0) & (eyes < size)).all():
        raise UsageError("points must be in pixels of the registered picture: an eye lies outside it.")
    return images, mesh


def _probability(logit: FloatArray) -> FloatArray:
    probability: FloatArray = 1 / (1 + np.exp(-np.clip(logit, -60, 60)))
    return probability


def _bands(age: FloatArray) -> NDArray[np.str_]:
    return np.array(AGE_BANDS)[np.digitize(age, _AGE_BAND_EDGES)]


def _mirrored(
    rgb: NDArray[np.uint8], points: FloatArray, views: Iterable[Callable[[FloatArray], FloatArray]], size: int
) -> NDArray[np.uint8]:
    """Return each face through each view's matrix and mirrored, (2 v, n, size, size, 3)."""
    seen = [[crop(r, view(p), size, size) for r, p in zip(rgb, points, strict=True)] for view in views]
    one_way = np.array(seen)
    return np.concatenate([one_way, one_way[:, :, :, ::-1]])


def _chip(padding: float, down: float, size: int) -> Callable[[FloatArray], FloatArray]:
    """Return the way from a mesh to the matrix of a dlib face chip."""
    target = size * ((_CHIP + padding) / (1 + 2 * padding) + [0, down])
    return lambda points: similarity(points[_CHIP_MESH], target)


def _chip_network(
    name: str, rgb: NDArray[np.uint8], points: FloatArray, views: Iterable[tuple[float, float]], size: int
) -> NDArray[Any]:
    """Return class probabilities (2 v, n, classes) of a network that looks at face chips."""
    chips = _mirrored(rgb, points, [_chip(*view, size) for view in views], size)
    x = (chips.reshape(-1, size, size, 3) - _MEAN) / 256
    return infer(name, x.transpose(0, 3, 1, 2))[0].reshape(len(chips), len(rgb), -1).astype(np.float64)


def _male(rgb: NDArray[np.uint8], points: FloatArray) -> FloatArray:
    """Return the mean logit of "male" over all views, 0 where both are as likely."""
    p = np.clip(_chip_network("gender", rgb, points, _GENDER_VIEWS, 32), 1e-6, 1)
    logit: FloatArray = np.log(p[..., 1] / p[..., 0]).mean(axis=0) - _GENDER_EVEN_LOGIT
    return logit


def _age(rgb: NDArray[np.uint8], points: FloatArray) -> FloatArray:
    """Return the expected age under the mean distribution of all views."""
    age: FloatArray = _chip_network("age", rgb, points, _AGE_VIEWS, 64).mean(axis=0) @ _AGES
    return age


def _smile(rgb: NDArray[np.uint8], points: FloatArray) -> FloatArray:
    """Return the evidence for a smile: of the network, and of how wide the mouth is.

    The network's other five classes are not used: it calls neutral faces sad or afraid.
    """
    views = _mirrored(rgb, points, [_square(*view) for view in _EXPRESSION_VIEWS], 64)
    grey = [cv2.cvtColor(view, cv2.COLOR_RGB2GRAY) for view in views.reshape(-1, 64, 64, 3)]
    x = np.array(grey)[..., None] / 127.5 - 1
    p = infer("emotion", x, shape=(-1, 64, 64, 1))[0].reshape(len(views), len(rgb), 7) + 1e-3
    seen = np.log(p[..., _HAPPY] / p[..., _NEUTRAL]).mean(axis=0)
    five = five_points(points)
    width = _distance(points[:, MOUTH_LEFT], points[:, MOUTH_RIGHT]) / _distance(five[:, 0], five[:, 1])
    evidence: FloatArray = seen / 2 + (width - _MOUTH_WIDTH_NEUTRAL) / _WIDTH_STEP - _SMILE_EVEN_LOGIT
    return evidence


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    distance: FloatArray = np.linalg.norm(a - b, axis=-1)
    return distance


def _square(x: float, y: float, side: float) -> Callable[[FloatArray], FloatArray]:
    """Return the way from a mesh to the matrix of a 64 px view of a square on the canonical frame."""
    scale = 64 / side

    def view(points: FloatArray) -> FloatArray:
        matrix = scale * to_frame(points)
        matrix[:, 2] += [32 - scale * x, 32 - scale * y]
        return matrix

    return view


def _skin(rgb: NDArray[np.uint8], points: FloatArray) -> tuple[float, float, float, float]:
    """Return median L*, b* and chroma of the skin patches, and how far the cheeks' L* differ."""
    eyes = five_points(points)[:2]
    reach = max(1.0, _SKIN_REACH * float(_distance(eyes[0], eyes[1])))
    span = np.arange(-np.ceil(reach), np.ceil(reach) + 1)
    disc = np.stack(np.meshgrid(span, span), axis=-1).reshape(-1, 2)
    disc = disc[(disc**2).sum(axis=1) <= reach**2]  # (c, 2)
    at = np.rint(points[_SKIN_MESH])[:, None] + disc  # (3, c, 2)
    x, y = np.clip(at, 0, [rgb.shape[1] - 1, rgb.shape[0] - 1]).astype(np.intp).transpose(2, 0, 1)
    lab = cv2.cvtColor(rgb[y, x].astype(np.float32) / 255, cv2.COLOR_RGB2LAB)  # (3, c, 3)
    lightness, a, b = np.median(lab.reshape(-1, 3), axis=0)
    return lightness, b, np.hypot(a, b), np.ptp(np.median(lab[:2, :, 0], axis=1))
