"""Stratify faces by a csv column, or by predicted gender and age [G5 4.2]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME
from ksame.models.attributes import Attributes, age_bands, predict_face_attributes
from ksame.partition import make_strata
from ksame.spaces.appearance import landmarks_on_frame

PREDICTED_LABELS = ("gender", "age", "expression")
ATTRIBUTE_WEIGHTS = ("gender", "age", "emotion")  # the weights by which they are
BLOCK_FACES = 8  # faces that a worker looks at in one task


class PredictedAttributes(NamedTuple):
    """What n faces are taken for: gender and age band are the same for a person, expression is a photo's."""

    gender: NDArray[np.str_]
    age: NDArray[np.str_]
    expression: NDArray[np.str_]


def check_label(select: str, labels: Mapping[str, NDArray[Any]]) -> None:
    """Refuse, before the long work, a column to select by that there is not."""
    columns = (*labels, *PREDICTED_LABELS)
    if select not in columns:
        raise UsageError(f"There is no column to select by {select!r}: choose one of {', '.join(columns)}.")


def predict_attributes(people: IdentifiedPhotos, context: Context) -> PredictedAttributes:
    """Predict gender, age band and expression of every face; a set is looked at once."""
    if "attributes" not in people.predicted:
        people.predicted["attributes"] = _predict(people.faces, context)
    predicted: PredictedAttributes = people.predicted["attributes"]
    return predicted


def select_label(people: IdentifiedPhotos, select: str, context: Context) -> NDArray[Any]:
    """Return the label (n,) to keep apart: a column of the csv, or one that can be predicted.

    A person's photos may be read differently: what most of them say counts. Expression is each photo's
    own, so that a person with two is refused: nobody may be in two groups.
    """
    faces = people.faces
    label = faces.labels.get(select, np.full(len(faces), ""))
    unknown = label == ""  # further faces in photos, whom the csv does not name
    if not unknown.any():
        return label
    if select not in PREDICTED_LABELS:
        raise UsageError(
            f"{unknown.sum()} further faces in photos have no value in the column {select!r}: crop them away,"
            f" or select by one of {', '.join(PREDICTED_LABELS)}, which can be predicted."
        )
    predicted: NDArray[np.str_] = getattr(predict_attributes(people, context), select)
    return np.where(unknown, predicted, label)


def default_strata(
    people: IdentifiedPhotos, codes: FloatArray, min_people: int, context: Context
) -> tuple[IntArray, tuple[str, ...]]:
    """Return parts (n,) of like apparent gender and age, and notes on those that were merged.

    A part with fewer than ``min_people`` people is merged with the nearest, which is noted.
    """
    faces = people.faces
    gender, age, _ = predict_attributes(people, context)
    notes: list[str] = []
    label = gender.astype(object)
    for value in np.unique(gender):  # people of one gender are merged before two genders are
        rows = np.flatnonzero(gender == value)
        if len(np.unique(faces.subject[rows])) < min_people:
            continue
        bands = np.char.add(f"{value}, ", age[rows])
        part, merges = make_strata(
            codes[rows], min_people, label=bands, subjects=faces.subject[rows], small="merge"
        )
        label[rows] = np.char.add(f"{value} ", part.astype(str))
        notes += map(str, merges)
    part, merges = make_strata(
        codes, min_people, label=label.astype(str), subjects=faces.subject, small="merge"
    )
    return part, (*notes, *map(str, merges))


def _predict(faces: FaceSet, context: Context) -> PredictedAttributes:
    """Return what each face is taken for; gender and age are those of most photos of a person."""
    points = landmarks_on_frame(faces) * faces.rgb.shape[2] / FRAME.width
    blocks = [slice(start, start + BLOCK_FACES) for start in range(0, len(faces), BLOCK_FACES)]

    def look(block: slice) -> Attributes:
        return predict_face_attributes(faces.rgb[block], points[block])

    parts = list(context.map(look, blocks, stage="predicting gender and age"))
    seen = Attributes.join(parts)
    _, who, photos = np.unique(faces.subject, return_inverse=True, return_counts=True)
    male, years = np.bincount(who, seen.gender_score) / photos, np.bincount(who, seen.age) / photos
    gender = np.where(male[who] > 0.5, "male", "female")
    return PredictedAttributes(gender, age_bands(years)[who], seen.expression)
