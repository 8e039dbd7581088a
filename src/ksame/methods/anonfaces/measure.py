"""Measure the attributes of portraits, photos and generated images alike."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.analysis.photos import select_usable
from ksame.core.arrays import FloatArray
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, register
from ksame.models.attributes import predict_face_attributes
from ksame.models.detectors import detect
from ksame.render.tone import to_grey
from ksame.spaces.appearance import landmarks_on_frame
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace, extract_features, shape_attributes

__all__ = [
    "DrawnPortraits",
    "LightChange",
    "background_busyness",
    "change_light",
    "largest_faces",
    "measure_changed_light",
    "measure_portraits",
    "portrait_attributes",
    "skin_yellowness",
    "usual_tone",
]

_DETECTION_SIDE_PX = 320  # enough to detect a face that fills a portrait
_MIN_TONE_DEGREES = 5.0  # below it, the typology angle does not determine b*
_MEAN_SKIN_B = 16.0  # b*: 12.5 in london, 20.6 in congress and canada
_MIN_PROBABILITY = 0.005  # limits log odds


class DrawnPortraits(NamedTuple):
    """Generated portraits in which a face was found: their rows, faces and attributes."""

    rows: NDArray[np.intp]  # (m,)
    faces: FaceSet  # m of them
    read: FloatArray  # (m, f): features
    attributes: FloatArray  # (m, a)


def measure_portraits(images: NDArray[np.uint8], space: GeneratorSpace | None = None) -> DrawnPortraits:
    """Measure generated portraits (n, s, s, 3) like photos; without a space, accessories are not measured."""
    rows, faces = largest_faces(images)
    read = extract_features(faces) if len(faces) else np.zeros((0, 0))
    seen = portrait_attributes(faces, read, space)
    seen[:, ATTRIBUTES.index("background")] = [background_busyness(images[row]) for row in rows]
    return DrawnPortraits(rows, faces, read, seen)


def largest_faces(images: NDArray[np.uint8]) -> tuple[NDArray[np.intp], FaceSet]:
    """Return the rows of images (n, s, s, 3) with a face, and the largest face of each."""
    rows, rgb, points, boxes, score = [], [], [], [], []
    for row, image in enumerate(images):
        found = detect(image, limit=_DETECTION_SIDE_PX)
        mesh, good = select_usable(image, found)
        if len(good):
            first = good[0]  # largest first
            rows.append(row)
            rgb.append(register(image, mesh[first]))
            points.append(mesh[first])
            boxes.append(found.xyxy[first])
            score.append(found.score[first])
    none = np.full(len(rows), "")
    width, height = FRAME.size(1)
    return np.array(rows, np.intp), FaceSet(
        np.stack(rgb) if rgb else np.zeros((0, height, width, 3), np.uint8),
        np.stack(points) if points else np.zeros((0, 468, 2)),
        np.array(boxes).reshape(-1, 4),
        np.array(score),
        none,
        none,
    )


class LightChange(NamedTuple):
    """A change of an image's light: a factor of L* and an offset of b* (warmer)."""

    gain: float = 1.0
    warmer: float = 0.0
    grey: bool = False  # without colour


def change_light(image: NDArray[np.uint8], light: LightChange) -> NDArray[np.uint8]:
    """Return an image (h, w, 3) in other light, as by another exposure and white balance."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    lab[..., 0] *= light.gain
    lab[..., 2] += light.warmer
    new: NDArray[np.uint8] = (
        np.clip(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB) * 255, 0, 255).round().astype(np.uint8)
    )
    return to_grey(new) if light.grey else new


def measure_changed_light(
    seen: DrawnPortraits, light: LightChange, space: GeneratorSpace | None = None
) -> DrawnPortraits:
    """Measure portraits after a change of light; the background's busyness is kept."""
    faces = replace(seen.faces, rgb=np.stack([change_light(rgb, light) for rgb in seen.faces.rgb]))
    read = extract_features(faces)
    attributes = portrait_attributes(faces, read, space)
    attributes[:, ATTRIBUTES.index("background")] = seen.attributes[:, ATTRIBUTES.index("background")]
    return DrawnPortraits(seen.rows, faces, read, attributes)


def portrait_attributes(faces: FaceSet, read: FloatArray, space: GeneratorSpace | None) -> FloatArray:
    """Return the attributes (n, a) of faces with features (n, f); the background of a photo is 0."""
    if not len(faces):
        return np.zeros((0, len(ATTRIBUTES)))
    on = landmarks_on_frame(faces)
    seen = predict_face_attributes(faces.rgb, on * (faces.rgb.shape[2] / FRAME.width))
    none = np.zeros((len(faces), 1))
    worn = none[:, [0, 0]] if space is None else space.accessory_log_odds(space.whiten(read))
    told = [
        _log_odds(seen.gender_score),
        seen.age,
        _log_odds(seen.expression_score),
        seen.lightness,
        seen.ita,
    ]
    return np.column_stack([*told, shape_attributes(on), worn, none])


def _log_odds(probability: FloatArray) -> FloatArray:
    p = np.clip(probability, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    odds: FloatArray = np.log(p / (1 - p))
    return odds


def background_busyness(image: NDArray[np.uint8]) -> float:
    """Return the log of the standard deviation of the colours beside a head."""
    small = cv2.resize(image, (64, 64), interpolation=cv2.INTER_AREA).astype(np.float32)
    beside = np.concatenate([small[:38, :6].reshape(-1, 3), small[:38, -6:].reshape(-1, 3)])
    return float(np.log(beside.std(axis=0).mean() + 1))


def usual_tone(light: FloatArray) -> FloatArray:
    """Return the typology angle (n,) of skin of a lightness and mean b*, for faces without colour.

    The lightness of a grey photo equals that of the colour photo: 208 photos of london, congress and canada
    differ by 0.5 L* from their grey versions, by 1.2 at most. Their b* is 0, which causes an error of the
    angle of 42 to 52 degrees; with the mean b* the error is 8, and the same people count as dark.
    """
    angle: FloatArray = np.degrees(np.arctan2(light - 50, _MEAN_SKIN_B))
    return angle


def skin_yellowness(light: float, tone: float) -> float:
    """Return the b* of skin of a lightness and typology angle; nan where they do not determine it.

    At an L* of 50 all skin has the angle 0, and means over several people may be inconsistent.
    """
    b = (light - 50) / float(np.tan(np.radians(tone))) if abs(tone) > _MIN_TONE_DEGREES else 0.0
    return b if b > 0 else np.nan
