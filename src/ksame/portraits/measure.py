"""What a portrait shows: its attributes, of photos and of drawn pictures alike."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core import FaceSet, FloatArray
from ksame.faces.attributes import attributes
from ksame.faces.detect import detect
from ksame.gather import usable
from ksame.geometry import FRAME, register
from ksame.represent.appearance import on_frame
from ksame.represent.generator import ATTRIBUTES, GeneratorSpace, features, shape_attributes
from ksame.tone import in_grey

__all__ = [
    "Drawn",
    "Light",
    "attributes_of",
    "busy",
    "exposed",
    "largest",
    "look",
    "seen_exposed",
    "usual_tone",
    "yellow",
]

_ENOUGH = 320  # px: a face that fills a portrait is found as well in one as small as that
_LEVEL = 5.0  # degrees of tone: nearer to 0, it tells nothing of b*
_USUAL_B = 16.0  # b* of skin: 12.5 in london, 20.6 in congress and canada
_EDGE = 0.005  # of a probability: its log odds end there


class Drawn(NamedTuple):
    """Drawn portraits in which a face was found: which they are, their faces and their attributes."""

    rows: NDArray[np.intp]  # (m,)
    faces: FaceSet  # m of them
    read: FloatArray  # (m, f): features
    attributes: FloatArray  # (m, a)


def look(pictures: NDArray[np.uint8], space: GeneratorSpace | None = None) -> Drawn:
    """Look at drawn portraits (n, s, s, 3) as at photos; without a space nobody is seen to wear anything."""
    rows, faces = largest(pictures)
    read = features(faces) if len(faces) else np.zeros((0, 0))
    seen = attributes_of(faces, read, space)
    seen[:, ATTRIBUTES.index("ground")] = [busy(pictures[row]) for row in rows]
    return Drawn(rows, faces, read, seen)


def largest(pictures: NDArray[np.uint8]) -> tuple[NDArray[np.intp], FaceSet]:
    """Return the largest face of each picture (n, s, s, 3) that has one, and which those are."""
    rows, rgb, points, boxes, score = [], [], [], [], []
    for row, picture in enumerate(pictures):
        found = detect(picture, limit=_ENOUGH)
        mesh, good = usable(picture, found)
        if len(good):
            first = good[0]  # largest first
            rows.append(row)
            rgb.append(register(picture, mesh[first]))
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


class Light(NamedTuple):
    """The light of a picture, changed: every L* is multiplied, and b* grows, to the warm side."""

    gain: float = 1.0
    warmer: float = 0.0
    grey: bool = False  # without colour


def exposed(picture: NDArray[np.uint8], light: Light) -> NDArray[np.uint8]:
    """Return a picture (h, w, 3) in other light, as by another exposure and white balance."""
    lab = cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    lab[..., 0] *= light.gain
    lab[..., 2] += light.warmer
    new: NDArray[np.uint8] = (
        np.clip(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB) * 255, 0, 255).round().astype(np.uint8)
    )
    return in_grey(new) if light.grey else new


def seen_exposed(seen: Drawn, light: Light, space: GeneratorSpace | None = None) -> Drawn:
    """Return what ``look`` would return of pictures in other light; the ground is kept."""
    faces = replace(seen.faces, rgb=np.stack([exposed(rgb, light) for rgb in seen.faces.rgb]))
    read = features(faces)
    attributes = attributes_of(faces, read, space)
    attributes[:, ATTRIBUTES.index("ground")] = seen.attributes[:, ATTRIBUTES.index("ground")]
    return Drawn(seen.rows, faces, read, attributes)


def attributes_of(faces: FaceSet, read: FloatArray, space: GeneratorSpace | None) -> FloatArray:
    """Return the attributes (n, a) of faces with these features (n, f); the ground of a photo is 0."""
    if not len(faces):
        return np.zeros((0, len(ATTRIBUTES)))
    on = on_frame(faces)
    seen = attributes(faces.rgb, on * (faces.rgb.shape[2] / FRAME.width))
    none = np.zeros((len(faces), 1))
    worn = none[:, [0, 0]] if space is None else space.wearing(space.whitened(read))
    told = [_odds(seen.gender_score), seen.age, _odds(seen.expression_score), seen.lightness, seen.ita]
    return np.column_stack([*told, shape_attributes(on), worn, none])


def _odds(probability: FloatArray) -> FloatArray:
    p = np.clip(probability, _EDGE, 1 - _EDGE)
    odds: FloatArray = np.log(p / (1 - p))
    return odds


def busy(picture: NDArray[np.uint8]) -> float:
    """Return how busy the ground beside a head is: the log of the standard deviation of its colours."""
    small = cv2.resize(picture, (64, 64), interpolation=cv2.INTER_AREA).astype(np.float32)
    beside = np.concatenate([small[:38, :6].reshape(-1, 3), small[:38, -6:].reshape(-1, 3)])
    return float(np.log(beside.std(axis=0).mean() + 1))


def usual_tone(light: FloatArray) -> FloatArray:
    """Return the typology angle of usual skin of this lightness (n,), for faces without colour.

    The lightness of a grey photo is that of the colour photo: 208 photos of london, congress and canada
    differ by 0.5 L* from their grey versions, by 1.2 at most. Its b* is 0, so that the angle was off by 42 to
    52 degrees; with the usual b* it is off by 8, and the same people count as dark.
    """
    angle: FloatArray = np.degrees(np.arctan2(light - 50, _USUAL_B))
    return angle


def yellow(light: float, tone: float) -> float:
    """Return the b* of skin of this lightness and typology angle; nan where they do not tell.

    At an L* of 50 all skin has the angle 0, and means of several people's need not go together.
    """
    b = (light - 50) / float(np.tan(np.radians(tone))) if abs(tone) > _LEVEL else 0.0
    return b if b > 0 else np.nan
