"""Which k: what is tried, what is measured, what is recommended and why, and what the page may show."""

import base64
import json
import re

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from scipy.cluster.hierarchy import linkage

import oracles
from ksame import io
from ksame.audit.tune import METHODS, tune
from ksame.audit.tune.measure import _homogeneity
from ksame.audit.tune.recommend import dendrogram_cuts, recommend, within_budget
from ksame.core.errors import CannotGuarantee, UsageError, WeightsError
from ksame.methods.anonfaces import method, portrait_search


@pytest.fixture(scope="module")
def stages():
    return []


@pytest.fixture(scope="module")
def tuning(people, recogniser, stages):
    """12 people in 14 photos: two of them have two."""
    watch = lambda *stage: stages.append(stage)  # noqa: E731
    return tune(people, ks=(2, 4, 7, 30), subjects="prefix", risk=0.45, seed=1, progress=watch)


def test_every_method_and_k_is_in_the_table(tuning):
    done = set(zip(tuning.table["method"], tuning.table["k"], strict=True))
    assert {("ksame-m", 2), ("ksame-m", 4), ("ksame-m", 7), ("ksame-furthest", 2)} <= done
    assert set(tuning.table["method"]) == set(METHODS)
    assert (tuning.people, tuning.photos) == (12, 14)


def test_progress_is_told(stages, tuning):
    assert stages[-1] == ("trying k", 6, 6)
    assert [stage for stage, *_ in stages].index("finding faces") > 0
    assert {stage for stage, *_ in stages[: stages.index(("finding faces", 1, 14))]} == {"preparing"}


def test_what_was_promised_is_not_passed_by_what_was_measured(tuning):
    assert tuning.table["proved"].all()
    assert (tuning.table["rank1"] <= tuning.table["bound"] + 1e-12).all()
    assert (tuning.table["low"] <= tuning.table["rank1"]).all()
    assert (tuning.table["rank1"] <= tuning.table["high"]).all()
    assert tuning.compared == "the very photos the faces were made from"


def test_one_face_for_everybody_is_the_unit_of_loss_and_is_said(tuning):
    one = tuning.table[(tuning.table["method"] == "ksame-m") & (tuning.table["k"] == 7)].iloc[0]
    assert one["faces"] == 1
    assert one["loss"] == pytest.approx(1)
    mean = tuning.table[tuning.table["method"] == "ksame-m"]
    assert mean["loss"].is_monotonic_increasing
    assert any("From k = 7 on, all 12 people get one and the same face" in note for note in tuning.notes)


def test_what_could_not_be_tried_is_said(tuning):
    assert "k above 12 was not tried: there are only 12 people." in tuning.notes
    assert any(note.startswith("ksame-furthest with k = 7 was not possible") for note in tuning.notes)


def test_the_recommendation_is_the_least_loss_within_the_budget(tuning):
    method, k = tuning.recommended
    assert method == "ksame-m"
    chosen = tuning.table[(tuning.table["method"] == method) & (tuning.table["k"] == k)].iloc[0]
    assert chosen["bound"] <= tuning.risk
    assert f"k = {k}" in tuning.why
    assert "proved" in tuning.why


def test_json_is_plain(tuning):
    told = json.loads(tuning.to_json())
    assert told["recommended"] == {"method": tuning.recommended[0], "k": tuning.recommended[1]}
    assert len(told["table"]) == len(tuning.table)
    assert told["why"] == tuning.why


def pictures(html):
    return [base64.b64decode(data) for data in re.findall(r'src="data:image/png;base64,([^"]+)"', html)]


def test_the_page_shows_published_faces_only(tuning):
    html = tuning.page()
    assert sorted(pictures(html)) == sorted(tuning.strip.values())
    assert tuning.original == b""
    assert "Keep this page to yourself" in html
    assert "the original is\nnot shown" in html
    assert not re.search(r'(src|href)="(?!data:)', html), "the page needs nothing else"
    assert html == tuning.page()


def test_no_name_is_on_the_page(tuning, people):
    html = tuning.page() + tuning.to_json()
    assert not any(photo.name in html or photo.stem.split("_")[0] in html for photo in people.iterdir())


def test_an_original_is_shown_only_if_asked_for(people, recogniser):
    found = tune(people, ks=[3], methods=["kdiff-furthest"], subjects="prefix", show_originals=True, seed=1)
    html = found.page()
    assert found.original in pictures(html)
    assert "The first image is the original." in html
    assert io.decode(found.original).shape == (320, 256, 3)
    # nothing is proved of this method, and nobody shares a face
    row = found.table.iloc[0]
    assert (row["bound"], row["proved"], row["faces"]) == (1.0, False, 14)
    assert np.isnan(row["alike"])
    assert json.loads(found.to_json())["table"][0]["alike"] is None
    assert found.recommended is None
    assert "No k that was tried is safe enough." in html


def test_portraits_of_a_generator_are_tried_too(family, recogniser, monkeypatch):
    monkeypatch.setattr(portrait_search, "_EXTRA_TRIES", 0)
    monkeypatch.setattr(portrait_search, "_CORRECTIONS_MAX", 0)
    looked, analyse = [], method.analyse_faces
    monkeypatch.setattr(method, "analyse_faces", lambda *how: looked.append(1) or analyse(*how))
    tuning = tune(family, ks=(4,), methods=("anonfaces",), risk=0.3, subjects="folder", seed=1)
    (row,) = tuning.table.to_dict("records")
    assert (row["method"], row["k"], row["proved"], row["faceless"]) == ("anonfaces", 4, True, 0)
    assert looked == [1]
    assert row["seconds"] > 0
    assert f"<td>{row['seconds']}</td>" in tuning.page()
    assert any("not for commercial use" in note for note in tuning.notes)
    assert io.decode(tuning.strip["anonfaces", 4]).shape == (320, 320, 3), "no larger than the page needs"


@pytest.mark.parametrize("missing", ["stylegan", "age"])
def test_a_network_that_is_missing_is_told_before_the_long_work(missing, recogniser, cache_without):
    cache_without(missing)
    with pytest.raises(WeightsError, match=f"models add {missing}"):
        tune("nowhere", methods=("ksame-m", "anonfaces"))


def test_others_photos_are_compared_where_everybody_has_some(family, recogniser):
    found = tune(family, ks=[2], methods=["ksame-m"], subjects="folder", seed=1)
    assert found.compared == "other photos of the same people"
    assert found.table["rank1"].item() <= found.table["bound"].item()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"methods": ["magic"]}, "There is no method 'magic'"),
        ({"methods": ["ksame-m", "blur"]}, "blur has no k to try"),
        ({"methods": ["shift"]}, "shift has no k to try"),
        ({"ks": []}, "tune needs a k"),
        ({"methods": []}, "tune needs a k, a method"),
        ({"risk": 0}, "Got a risk of 0"),
        ({"ks": [1]}, "at least 2"),
    ],
)
def test_nonsense_is_refused_before_the_long_work(options, says, monkeypatch):
    monkeypatch.setattr("ksame.pipeline.photos.analyse_photos", None)
    with pytest.raises(UsageError, match=says):
        tune("nowhere", **options)


def test_too_few_people_are_refused(family, recogniser):
    with pytest.raises(CannotGuarantee, match="5 distinct subjects"):
        tune(family, ks=[6], subjects="folder")
    with pytest.raises(CannotGuarantee, match="ksame-furthest with k = 4 was not possible"):
        tune(family, ks=[4], methods=["ksame-furthest"], subjects="folder")


ROW = st.tuples(
    st.sampled_from(["ksame-m", "kdiff-furthest"]),
    st.integers(2, 20),
    st.booleans(),
    *[st.floats(0, 1).map(lambda share: round(share, 2))] * 3,
)


def as_table(rows):
    return pd.DataFrame(rows, columns=["method", "k", "proved", "bound", "high", "loss"])


@given(
    st.lists(ROW, min_size=1, unique_by=(lambda row: row[:2], lambda row: row[5])),
    st.sampled_from([0.05, 0.3]),
)
def test_the_choice_is_that_of_looking_at_every_row(rows, risk):
    choice = recommend(as_table(rows), risk, people=50)
    assert choice.recommended == oracles.recommended(rows, risk)
    assert choice.why.endswith((".", "risk."))


def row(k, loss, *, proved=True, high=1.0, bound=None):
    return "ksame-m", k, proved, 1 / k if bound is None else bound, high, loss


def test_a_proof_counts_more_than_a_measurement():
    table = as_table([row(2, 0.1, high=0.01), row(10, 0.5), row(20, 0.2, proved=False, high=0.05, bound=1.0)])
    assert within_budget(table, 0.1).tolist() == [False, True, True]
    assert "nothing is proved" in recommend(table, 0.1, people=50).why


def test_a_plateau_is_mentioned():
    rows = [row(10, 0.50), row(12, 0.505), row(14, 0.507), row(15, 0.6)]
    assert "Up to k = 14 the loss is hardly larger" in recommend(as_table(rows), 0.1, people=50).why
    assert "hardly" not in recommend(as_table(rows[::3]), 0.1, people=50).why


@pytest.mark.parametrize(
    ("risk", "people", "bound", "advice"),
    [
        (0.01, 50, 0.2, "photos of at least 100 people are needed"),
        (0.1, 50, 0.2, "try k = 10 or more"),
        (0.2, 50, 0.4, "the same number of photos"),
    ],
)
def test_what_would_help_is_said_where_no_k_is_safe(risk, people, bound, advice):
    choice = recommend(as_table([row(5, 0.5, bound=bound)]), risk, people=people)
    assert choice.recommended is None
    assert advice in choice.why


@given(
    st.lists(st.integers(0, 1000), min_size=2, max_size=30, unique=True), st.sampled_from(["single", "ward"])
)
def test_cuts_are_those_of_trying_every_height(places, how):
    tree = linkage(np.array(places, float)[:, None], how)
    for found, share in zip(dendrogram_cuts(tree), (0.5, 0.9), strict=True):
        assert found == oracles.cut(tree, share)


def test_homogeneity_counts_people_and_not_photos():
    subject = np.array(["a", "a", "a", "b", "c", "d"])
    group = np.array([0, 0, 0, 0, 1, 1])
    gender = np.array(["f", "f", "f", "m", "m", "m"])
    assert _homogeneity(group, subject, {"gender": gender}) == {
        "gender": 0.5,
        "age": pytest.approx(np.nan, nan_ok=True),
        "alike": 0.5,
    }
