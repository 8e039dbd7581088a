"""Who is not averaged with whom: a column of the csv, or apparent gender and age, predicted [G5 4.2]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError, WeightsError
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME
from ksame.core.parallel import parallel_map
from ksame.models.attributes import Attributes, age_band, predict_face_attributes
from ksame.partition import make_strata
from ksame.spaces.appearance import landmarks_on_frame

PREDICTED_LABELS = ("gender", "age", "expression")
ATTRIBUTE_WEIGHTS = ("gender", "age", "emotion")  # the weights by which they are


class PredictedAttributes(NamedTuple):
    """What n faces are taken for: gender and age band are the same for a person, expression is a photo's."""

    gender: NDArray[np.str_]
    age: NDArray[np.str_]
    expression: NDArray[np.str_]


def predict_attributes(faces: FaceSet, jobs: int | None = None) -> PredictedAttributes:
    """Look at every face; whoever makes several releases does it once."""
    male, years, expression = _predict(faces, jobs)
    return PredictedAttributes(*_per_person(faces, male, years), expression)


def select_label(
    faces: FaceSet, select: str, jobs: int | None = None, seen: PredictedAttributes | None = None
) -> NDArray[Any]:
    """Return the label (n,) to keep apart: a column of the csv, or one that can be predicted.

    A person's photos may be read differently: what most of them say counts. Expression is each photo's
    own, so that a person with two is refused: nobody may be in two groups.
    """
    label = faces.labels.get(select, np.full(len(faces), ""))
    unknown = label == ""  # further faces in photos, whom the csv does not name
    if not unknown.any():
        return label
    if select not in PREDICTED_LABELS:
        raise UsageError(
            f"{unknown.sum()} further faces in photos have no value in the column {select!r}: crop them away,"
            f" or select by one of {', '.join(PREDICTED_LABELS)}, which can be predicted."
        )
    predicted: NDArray[np.str_] = getattr(seen or predict_attributes(faces, jobs), select)
    return np.where(unknown, predicted, label)


def default_strata(
    faces: FaceSet,
    codes: FloatArray,
    least: int,
    jobs: int | None = None,
    seen: PredictedAttributes | None = None,
) -> tuple[IntArray, tuple[str, ...]]:
    """Return parts (n,) of like apparent gender and age, and what is to be said of them.

    A part with fewer than ``least`` people is merged with the nearest, and that is said.
    """
    try:
        gender, age, _ = seen or predict_attributes(faces, jobs)
    except WeightsError as error:
        return np.zeros(len(faces), np.intp), (f"Gender and age were not kept apart: {error}",)
    notes: list[str] = []
    label = gender.astype(object)
    for value in np.unique(gender):  # people of one gender are merged before two genders are
        rows = np.flatnonzero(gender == value)
        if len(np.unique(faces.subject[rows])) < least:
            continue
        of_gender = faces.subject[rows], np.char.add(f"{value}, ", age[rows])
        part, merges = make_strata(
            codes[rows], least, label=of_gender[1], subjects=of_gender[0], small="merge"
        )
        label[rows] = [f"{value} {number}" for number in part]
        notes += map(str, merges)
    part, merges = make_strata(codes, least, label=label.astype(str), subjects=faces.subject, small="merge")
    return part, (*notes, *map(str, merges))


def _predict(faces: FaceSet, jobs: int | None) -> tuple[FloatArray, FloatArray, NDArray[np.str_]]:
    """Return how male, how old and with what expression each face appears, looked at on every core."""
    points = landmarks_on_frame(faces) * faces.rgb.shape[2] / FRAME.width
    blocks = [slice(start, start + 8) for start in range(0, len(faces), 8)]

    def look(block: slice) -> Attributes:
        return predict_face_attributes(faces.rgb[block], points[block])

    seen = list(parallel_map(look, ((block,) for block in blocks), jobs=jobs))
    male, years, expression = (
        np.concatenate([getattr(part, name) for part in seen])
        for name in ("gender_score", "age", "expression")
    )
    return male, years, expression


def _per_person(
    faces: FaceSet, male: FloatArray, years: FloatArray
) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """Return apparent gender and age band (n,), the same for all photos of one person."""
    _, who = np.unique(faces.subject, return_inverse=True)
    count = np.bincount(who)
    gender = np.where((np.bincount(who, male) / count)[who] > 0.5, "male", "female")
    return gender, np.array([age_band(age) for age in (np.bincount(who, years) / count)[who]])
