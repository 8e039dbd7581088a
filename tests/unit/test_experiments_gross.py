"""The experiments of Gross et al. on a few people: what must be true whoever they are."""

import numpy as np
import pytest
from sklearn.svm import SVC

from ksame.core.faces import FaceSet
from ksame.lab.experiments import gross, gross_setup
from ksame.lab.experiments.base import ExperimentData
from ksame.lab.experiments.face_images import attackers
from ksame.lab.experiments.gross_setup import (
    DeidentifiedFaces,
    GrossSetup,
    cross_validated_accuracy,
    k_same,
    random_splits,
    tasks,
)
from ksame.models import weights
from two_photos import two_photo_people

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def data(recogniser):
    assert weights.cached(recogniser)
    return two_photo_people()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(gross_setup, "attackers", lambda: attackers(count=1))
    monkeypatch.setattr(gross_setup, "DRAWS", 2)


@pytest.fixture
def lab(data):
    return GrossSetup.of(data)


def drawn_well(outcome):
    """A figure that says what it shows: a title, units, and what the lines are."""
    assert outcome.figure.get_suptitle() == outcome.title
    assert all(ax.get_legend() for ax in outcome.figure.axes)
    assert sum(bool(ax.get_xlabel()) for ax in outcome.figure.axes) >= 2
    assert any(ax.get_ylabel() for ax in outcome.figure.axes)
    assert "nan" not in outcome.says
    return outcome.table


def at_most_one_in_k(table):
    same = table[table["1/k"].notna()]
    rates = same[["rank-1", attackers(count=1)[0].name]]
    return rates.le(same["1/k"] + 1e-9, axis=0).all().all()


def test_figures_6_8_privacy_and_utility(data):
    table = drawn_well(gross.EXPERIMENTS["gross05-fig6-8"](data))
    assert at_most_one_in_k(table)
    rows = table.groupby("method")["level"].apply(list)
    assert rows["blur"] == list(gross.SIGMAS)
    assert rows["pixelation"] == list(gross.BLOCKS)
    assert rows["k-Same"] == rows["k-Same-Select gender"] == rows["k-Same-Select expression"] == [2, 3, 5, 10]
    assert table[["expression", "gender"]].ge(0).all().all()
    at = table.set_index(["method", "level"])
    assert at["paper rank-1"]["pixelation", 15] == 70


def test_figures_6_8_without_genders(data, monkeypatch):
    faces = data.faces
    labels = {"expression": faces.labels["expression"]}
    plain = FaceSet(faces.rgb, faces.points, faces.xyxy, faces.score, faces.source, faces.subject, labels)
    monkeypatch.setattr(gross, "SIGMAS", (14, 25))
    monkeypatch.setattr(gross, "BLOCKS", (9, 15))
    monkeypatch.setattr(gross, "KS", (2,))
    table = drawn_well(gross.EXPERIMENTS["gross05-fig6-8"](ExperimentData(plain, data.points, data.folder)))
    assert "gender" not in table
    assert len(table) == 1 + 2 + 2 + 2


def test_figures_5_6_the_model_keeps_the_bound(data, monkeypatch):
    monkeypatch.setattr(gross, "KS", (2, 5))
    monkeypatch.setattr(gross, "SIGMAS", (5, 25))
    table = drawn_well(gross.EXPERIMENTS["gross06-fig5-6"](data))
    assert at_most_one_in_k(table)
    assert table["method"].tolist() == [
        "original",
        "k-Same",
        "k-Same",
        "k-Same-M",
        "k-Same-M",
        "blur",
        "blur",
    ]


def test_figure_8_the_block_is_found(data):
    table = drawn_well(gross.EXPERIMENTS["gross06-fig8"](data)).set_index("p")
    np.testing.assert_allclose(table["p found"][[2, 4, 8]], [2, 4, 8], rtol=0.1)
    assert table["p found"][0] == 0
    assert table["parrot"].mean() >= table["naive"].mean()


def test_draws_keep_trainers_out_and_photos_apart(lab):
    for apart in (True, False):
        for draw in random_splits(lab, share=0.3, apart=apart):
            assert (lab.subjects[draw.gallery] == lab.subjects[draw.probes]).all()
            assert not set(draw.gallery) & set(draw.probes)
            assert len(draw.probes) == (7 if apart else 10)
            assert lab.smiles[draw.probes].sum() == (7 if apart else 5)


def test_select_never_mixes_labels(lab):
    rows = np.arange(len(lab.cut))[lab.smiles]
    level = k_same(lab, rows, 2, 1, tasks(lab)["gender"])
    gender = tasks(lab)["gender"][rows]
    for group in np.unique(level.groups):
        assert len(np.unique(gender[level.groups == group])) == 1
        assert len(np.unique(level.images[level.groups == group], axis=0)) == 1


def test_classified_as_an_svm_written_out():
    rng = np.random.default_rng(5)
    y = np.arange(40) % 2 == 0
    x = 255 * (rng.normal(size=(40, 6)) + y[:, None] * 0.8)
    order = np.lexsort((np.random.default_rng(1).permutation(40), y))
    fold = np.empty(40, int)
    fold[order] = np.arange(40) % 5
    right = 0
    for number in range(5):
        test = fold == number
        right += (
            SVC(kernel="linear", C=10).fit(x[~test] / 255, y[~test]).predict(x[test] / 255) == y[test]
        ).sum()
    assert cross_validated_accuracy(x, y, np.arange(40), seed=1) == pytest.approx(100 * right / 40)


def test_copies_in_several_folds_flatter():
    """Labels that mean nothing are told right if the same picture is learnt and asked."""
    rng = np.random.default_rng(0)
    x = 255 * rng.normal(size=(20, 50)).repeat(5, axis=0)
    y = (np.arange(20) % 2 == 0).repeat(5)
    groups = np.arange(20).repeat(5)
    for rbf in (False, True):
        assert cross_validated_accuracy(x, y, np.arange(100), seed=1, rbf=rbf) == 100
        assert cross_validated_accuracy(x, y, groups, seed=1, rbf=rbf) < 80


def test_one_class_is_no_question(lab):
    level = DeidentifiedFaces(lab.cut, np.arange(len(lab.cut)))
    assert gross_setup.classification_accuracy(lab, level, np.ones(len(lab.cut), bool), 1) == (100, 100)
