"""Who is kept apart: one gender is merged before two are, and what was merged is said."""

from dataclasses import replace

import numpy as np
import pytest

from ksame.analysis import strata
from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.context import Context
from ksame.core.errors import UsageError
from ksame.models.attributes import Attributes
from samples import faces as made_up

people = IdentifiedPhotos.from_faces


@pytest.fixture
def seen(monkeypatch):
    asked = []

    def tell(male, years):
        male, years, nothing = np.asarray(male, float), np.asarray(years, float), np.zeros(len(male))
        gender, neutral = np.where(male > 0.5, "male", "female"), np.full(len(male), "neutral")
        answer = Attributes(gender, male, years, neutral, nothing, nothing, nothing, sure={})
        monkeypatch.setattr(
            strata, "predict_face_attributes", lambda rgb, points: asked.append(len(rgb)) or answer
        )
        return asked

    return tell


def test_what_is_predicted_of_faces_is_predicted_once(seen):
    asked, four = seen([0, 1, 1, 1], [25] * 4), people(made_up(4))
    for _ in range(3):
        assert strata.predict_attributes(four, Context()).gender.tolist() == ["female"] + 3 * ["male"]
    assert asked == [4]


def test_people_of_one_gender_are_merged_before_two_genders_are(seen):
    # one woman of 60; by her code she is nearest to the men
    seen([0, 0, 0, 1, 1, 1], [25, 25, 60, 25, 25, 25])
    codes = np.array([[0.0], [1], [9], [10], [11], [12]])
    part, notes = strata.default_strata(people(made_up(6)), codes, 2, Context())
    assert part.tolist() == [0, 0, 0, 1, 1, 1]
    assert notes == (
        "Stratum 'female, 55 and over' has 1 subject, fewer than k = 2: merged with 'female, under 35'.",
    )


def test_genders_are_mixed_only_if_one_is_too_small_and_that_is_said(seen):
    seen([0, 1, 1, 1], [25] * 4)
    part, notes = strata.default_strata(people(made_up(4)), np.arange(4.0)[:, None], 2, Context())
    assert part.tolist() == [0, 0, 0, 0]
    assert len(notes) == 1
    assert "'female' has 1 subject" in notes[0]


def test_large_parts_stay_apart(seen):
    seen([0, 0, 1, 1, 1, 1], [25, 25, 25, 25, 60, 60])
    part, notes = strata.default_strata(people(made_up(6)), np.zeros((6, 1)), 2, Context())
    assert len(set(part.tolist())) == 3
    assert notes == ()


def test_whom_the_csv_does_not_name_is_looked_at(seen):
    seen([0, 1, 1], [25, 25, 60])
    faces = made_up(3)
    labels = {"gender": np.array(["F", "M", ""]), "ward": np.array(["1", "", "2"])}
    named = people(replace(faces, labels=labels))
    assert strata.select_label(named, "gender", Context()).tolist() == ["F", "M", "male"]
    assert strata.select_label(named, "age", Context()).tolist() == ["under 35", "under 35", "55 and over"]
    assert strata.select_label(named, "expression", Context()).tolist() == ["neutral"] * 3
    with pytest.raises(UsageError, match="1 further faces in photos have no value in the column 'ward'"):
        strata.select_label(named, "ward", Context())
