"""Newton's experiments on a few people: what must be true whoever they are."""

import numpy as np
import pytest

from ksame.attack.recognisers import deep_recogniser
from ksame.core.errors import WeightsError
from ksame.core.geometry import BACKGROUND_GREY
from ksame.lab.experiments import face_images, newton, newton_setup
from ksame.lab.experiments.base import recogniser_codes
from ksame.lab.experiments.face_images import Window, attackers, cmc_percent, eigenfaces
from ksame.models import weights
from ksame.models.recognisers import VERIFIERS
from ksame.spaces.eigen import principal_components
from two_photos import two_photo_people

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def data(recogniser):
    assert weights.cached(recogniser)
    return two_photo_people()


@pytest.fixture(autouse=True)
def one_network(monkeypatch):
    monkeypatch.setattr(newton_setup, "attackers", lambda: attackers(count=1))


@pytest.fixture(scope="module")
def window(data):
    return Window.of(data, across=newton_setup.FACE_WIDTH_PX)


def drawn_well(outcome):
    """A figure that says what it shows: a title, units, and what the lines are."""
    figure = outcome.figure
    assert figure.get_suptitle() == outcome.title
    assert all(ax.get_xlabel() for ax in figure.axes)
    assert any(ax.get_ylabel() or len(ax.get_yticklabels()) > 3 for ax in figure.axes)
    assert any(ax.get_legend() for ax in figure.axes)
    assert "nan" not in outcome.says
    return outcome.table


def test_table_1_ad_hoc_methods(data):
    outcome = newton.EXPERIMENTS["newton-table1"](data)
    table = drawn_well(outcome).set_index("method")
    rates = table.drop(columns=["paper naive", "paper parrot"])
    assert len(table) == len(newton.TABLE_1)
    assert table.loc["original", ["naive", "parrot"]].tolist() == [100, 100]
    np.testing.assert_allclose(rates.loc["black-out"], 100 / (len(data) // 2))  # chance, to everybody
    assert (table["parrot"] >= table["naive"]).all()
    assert (table.drop(index="black-out")["parrot"] == 100).all()  # the same picture again
    assert table.loc["bar", "paper naive"] == 2


def test_figures_15_16_threshold_and_noise(data, monkeypatch):
    monkeypatch.setattr(newton, "THRESHOLDS", (5, 65, 118, 250))
    monkeypatch.setattr(newton, "SHARES", (0.45, 0.68, 1.0))
    monkeypatch.setattr(newton, "NETWORKS_AT", {"threshold": (118,), "noise-grey": (0.68,)})
    outcome = newton.EXPERIMENTS["newton-fig15-16"](data)
    table = drawn_well(outcome)
    assert table["strength"].tolist() == [5, 65, 118, 250, 0.45, 0.68, 1.0]
    assert (table["parrot"] >= table["naive"]).all()
    # noise on every pixel is the same picture for all
    np.testing.assert_allclose(
        table.iloc[-1][["naive", "reverse", "parrot"]].astype(float), 100 / (len(data) // 2)
    )
    some = [column for column in table if column.endswith("naive, other photo")]
    assert table.loc[table[some[0]].notna(), "strength"].tolist() == [118, 0.68]


def test_figure_18_nobody_is_named_more_often_than_one_in_k(data, monkeypatch):
    monkeypatch.setattr(newton, "RUNS", 3)
    outcome = newton.EXPERIMENTS["newton-fig18"](data)
    table = drawn_well(outcome)
    assert table["k"].tolist() == [2, 3, 5, 10]
    rates = table.drop(columns=["k", "1/k", "paper Pixel", "paper Eigen"])
    assert rates.le(table["1/k"] + 1e-9, axis=0).all().all()
    np.testing.assert_allclose(rates.iloc[-1], 10)  # one face for all ten
    assert outcome.says.startswith("No rate is above 1/k")
    again = newton.EXPERIMENTS["newton-fig18"](data)
    assert again.table.equals(table)


def test_k_same_gives_a_group_one_mean(window, data):
    x = window.pixels(window.cut(data.only("neutral").faces.rgb, grey=True))
    space = newton.EigenBasis(*principal_components(x, keep=0.95)[:2])
    new = newton.k_same(x, 3, space=space, eigen=False, seed=1)
    faces, which, count = np.unique(new, axis=0, return_inverse=True, return_counts=True)
    assert count.min() >= 3
    for face, row in enumerate(faces):
        np.testing.assert_allclose(row, x[which == face].mean(axis=0), rtol=1e-5)
    blurred = newton.k_same(x, 3, space=space, eigen=True, seed=1)
    projected = space.psi + (new - space.psi) @ space.v.T @ space.v
    np.testing.assert_allclose(blurred, projected, atol=0.05)  # Eigen: the mean, projected


def test_a_window_shows_faces_and_nothing_else(window, data):
    cut = window.cut(data.faces.rgb)
    assert cut.shape[1:3] == window.inside.shape
    assert (cut[:, ~window.inside] == BACKGROUND_GREY).all()
    np.testing.assert_array_equal(window.images(window.pixels(cut)), cut)
    black = window.altered(cut, "black-out")
    assert len(np.unique(black, axis=0)) == 1


def test_blocks_are_whole_pixels(data):
    window = Window.of(data, across=64)
    face = window.altered(window.cut(data.faces.rgb[:1], grey=True), "pixelate", strength=64 / 8)[0, ..., 0]
    rows, columns = np.indices(face.shape) // 8
    for block in {*zip(rows[window.inside], columns[window.inside], strict=True)}:
        inside = window.inside & (rows == block[0]) & (columns == block[1])
        assert len(np.unique(face[inside])) == 1


def test_equal_pictures_are_looked_at_once(window, data):
    who = attackers(count=1)[0]
    cut = window.cut(data.faces.rgb[[0, 1, 0, 0]])
    codes = window.codes(who, cut)
    mesh = np.broadcast_to(window.mesh, (2, *window.mesh.shape))
    np.testing.assert_allclose(codes, recogniser_codes(who, cut[:2], mesh)[[0, 1, 0, 0]], atol=1e-6)


def test_eigenfaces_by_hand():
    rng = np.random.default_rng(3)
    training, gallery, probes = rng.normal(size=(8, 5)), rng.normal(size=(4, 5)), rng.normal(size=(3, 5))
    values, vectors = np.linalg.eigh(np.cov(training.T))
    centre = training.mean(axis=0)
    a, b = ((x - centre) @ vectors / np.sqrt(values) for x in (probes, gallery))
    naive = np.sqrt(((a[:, None] - b) ** 2).sum(axis=2))
    match = eigenfaces(training, keep=1.0, mahalanobis=True)(gallery, np.arange(4))
    np.testing.assert_allclose(match(probes), naive)


def test_without_differences_eigenfaces_guesses():
    same = np.ones((5, 3))
    assert cmc_percent(eigenfaces(same), same, same, np.arange(5)).tolist() == pytest.approx(
        [20, 40, 60, 80, 100]
    )


def test_attackers_are_those_that_are_there(monkeypatch):
    assert attackers(count=1)[0].name in VERIFIERS.identity
    monkeypatch.setattr(face_images.weights, "cached", lambda name: None)
    monkeypatch.setattr(face_images.weights, "fetchable", lambda name: name == "facenet")
    assert [who.name for who in attackers()] == [deep_recogniser("facenet").name]
    monkeypatch.setattr(face_images.weights, "fetchable", lambda name: False)
    with pytest.raises(WeightsError, match="go online"):
        attackers()
