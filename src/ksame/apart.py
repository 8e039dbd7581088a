"""Who is not averaged with whom: a column of the csv, or apparent gender and age, predicted [G5 4.2]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core import FaceSet, FloatArray, IntArray, UsageError, WeightsError
from ksame.faces.attributes import Attributes, age_band, attributes
from ksame.gather import side_by_side
from ksame.geometry import FRAME
from ksame.partition import parts
from ksame.represent.appearance import on_frame

PREDICTED = ("gender", "age", "expression")
LOOKS = ("gender", "age", "emotion")  # the weights by which they are


class Looks(NamedTuple):
    """What n faces are taken for: gender and age band are the same for a person, expression is a photo's."""

    gender: NDArray[np.str_]
    age: NDArray[np.str_]
    expression: NDArray[np.str_]


def looks(faces: FaceSet, jobs: int | None = None) -> Looks:
    """Look at every face; whoever makes several releases does it once."""
    male, years, expression = _seen(faces, jobs)
    return Looks(*_of_each_person(faces, male, years), expression)


def chosen(faces: FaceSet, select: str, jobs: int | None = None, seen: Looks | None = None) -> NDArray[Any]:
    """Return the label (n,) to keep apart: a column of the csv, or one that can be predicted.

    A person's photos may be read differently: what most of them say counts. Expression is each photo's
    own, so that a person with two is refused: nobody may be in two groups.
    """
    label = faces.labels.get(select, np.full(len(faces), ""))
    unknown = label == ""  # further faces in photos, whom the csv does not name
    if not unknown.any():
        return label
    if select not in PREDICTED:
        raise UsageError(
            f"{unknown.sum()} further faces in photos have no value in the column {select!r}: crop them away,"
            f" or select by one of {', '.join(PREDICTED)}, which can be predicted."
        )
    predicted: NDArray[np.str_] = getattr(seen or looks(faces, jobs), select)
    return np.where(unknown, predicted, label)


def likely(
    faces: FaceSet, codes: FloatArray, least: int, jobs: int | None = None, seen: Looks | None = None
) -> tuple[IntArray, tuple[str, ...]]:
    """Return parts (n,) of like apparent gender and age, and what is to be said of them.

    A part with fewer than ``least`` people is merged with the nearest, and that is said.
    """
    try:
        gender, age, _ = seen or looks(faces, jobs)
    except WeightsError as error:
        return np.zeros(len(faces), np.intp), (f"Gender and age were not kept apart: {error}",)
    notes: list[str] = []
    label = gender.astype(object)
    for value in np.unique(gender):  # people of one gender are merged before two genders are
        rows = np.flatnonzero(gender == value)
        if len(np.unique(faces.subject[rows])) < least:
            continue
        of_gender = faces.subject[rows], np.char.add(f"{value}, ", age[rows])
        part, merges = parts(codes[rows], least, label=of_gender[1], subjects=of_gender[0], small="merge")
        label[rows] = [f"{value} {number}" for number in part]
        notes += map(str, merges)
    part, merges = parts(codes, least, label=label.astype(str), subjects=faces.subject, small="merge")
    return part, (*notes, *map(str, merges))


def _seen(faces: FaceSet, jobs: int | None) -> tuple[FloatArray, FloatArray, NDArray[np.str_]]:
    """Return how male, how old and with what expression each face appears, looked at on every core."""
    points = on_frame(faces) * faces.rgb.shape[2] / FRAME.width
    blocks = [slice(start, start + 8) for start in range(0, len(faces), 8)]

    def look(block: slice) -> Attributes:
        return attributes(faces.rgb[block], points[block])

    seen = list(side_by_side(look, ((block,) for block in blocks), jobs=jobs))
    male, years, expression = (
        np.concatenate([getattr(part, name) for part in seen])
        for name in ("gender_score", "age", "expression")
    )
    return male, years, expression


def _of_each_person(
    faces: FaceSet, male: FloatArray, years: FloatArray
) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """Return apparent gender and age band (n,), the same for all photos of one person."""
    _, who = np.unique(faces.subject, return_inverse=True)
    count = np.bincount(who)
    gender = np.where((np.bincount(who, male) / count)[who] > 0.5, "male", "female")
    return gender, np.array([age_band(age) for age in (np.bincount(who, years) / count)[who]])
