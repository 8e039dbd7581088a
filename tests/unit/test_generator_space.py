"""The map in the box, maps as files, and what is read off a face."""

import hashlib
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

import generators
import samples
from ksame.core.errors import UsageError
from ksame.core.geometry import FRAME, MESH
from ksame.models.generator import ImageGenerator
from ksame.spaces import generator_space as module
from ksame.spaces.generator_space import (
    ATTRIBUTES,
    FEATURE_BLOCKS,
    GeneratorSpace,
    extract_features,
    shape_attributes,
)


@pytest.fixture(scope="module")
def space():
    return GeneratorSpace.bundled()


def test_the_map_in_the_box_is_that_of_the_card_and_small_and_without_pickle():
    folder = resources.files("ksame") / "models" / "data"
    data = (folder / "portraits.npz").read_bytes()
    assert hashlib.sha256(data).hexdigest() in (folder / "README.md").read_text()
    assert len(data) < 310_000
    with resources.as_file(folder / "portraits.npz") as path, np.load(path, allow_pickle=False) as file:
        assert all(file[key].dtype.kind in "fUi" for key in file.files)


def test_it_is_never_fitted_to_anybodys_photos(space):
    assert GeneratorSpace.fit(samples.faces(2)) is space


def test_a_map_is_saved_and_read(space, tmp_path):
    space.save(tmp_path / "map.npz")
    other = GeneratorSpace.load(tmp_path / "map.npz")
    assert other.digest == space.digest
    assert replace(space, mean=space.mean + 1).digest != space.digest
    assert replace(space, generator="other").digest != space.digest


def test_what_is_no_map_is_refused_in_one_sentence(space, tmp_path):
    space.save(tmp_path / "map.npz")
    data = (tmp_path / "map.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "bare.npz", x=np.zeros(3))
    np.save(tmp_path / "one.npy", np.zeros(3))
    replace(space, centre=space.centre[:-1]).save(tmp_path / "other.npz")
    for name in ("cut.npz", "empty.npz", "text.npz", "bare.npz", "one.npy", "other.npz", "missing.npz"):
        with pytest.raises(UsageError, match=f"{name}' is not a generator map: see `ksame model train`."):
            GeneratorSpace.load(tmp_path / name)


def test_the_early_rows_get_the_style_of_geometry_and_the_late_ones_that_of_colour(space, tmp_path):
    small = ImageGenerator.load(generators.tiny(tmp_path))
    rows = space.layer_styles(np.arange(16.0).reshape(2, 8), small)
    assert rows.shape == (2, 3, 4)
    assert rows[0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 7]]  # 10 of 23 are 1 of 3


def test_a_generator_that_it_was_not_learnt_from_is_refused(space, tmp_path):
    with pytest.raises(UsageError, match="learnt from another generator: train one"):
        space.check_generator(ImageGenerator.load(generators.tiny(tmp_path)))


def test_shapes_are_measured_on_the_canonical_frame():
    points = np.tile(np.array(FRAME.five[2], float), (1, MESH, 1))
    points[0, [234, 454]] = [[20, 150], [230, 150]]
    points[0, 1] = [128, 170]
    points[0, [129, 358]] = [[110, 180], [146, 180]]
    points[0, [0, 13, 14, 17]] = [[128, 220], [128, 228], [128, 230], [128, 240]]
    assert shape_attributes(points).tolist() == [[3.0, 36.0, 18.0, 210.0]]


@pytest.mark.weights
def test_it_belongs_to_the_generator_that_is_fetched(space):
    space.check_generator(ImageGenerator.bundled())


@pytest.mark.weights
def test_what_is_read_off_faces_has_its_parts_in_order():
    faces = samples.faces(2)
    seen = extract_features(faces)
    code, mesh, pixels = module.split_features(seen)
    assert [part.shape[1] for part in (code, mesh, pixels)] == [192, 2 * MESH, 16 * 20 * 3]
    np.testing.assert_allclose(np.linalg.norm(code, axis=1), 1, atol=1e-4)
    np.testing.assert_allclose(mesh.reshape(2, MESH, 2), module.landmarks_on_frame(faces), atol=1e-6)
    assert pixels.min() >= 0 and pixels.max() <= 255
    space = GeneratorSpace.bundled()
    codes = space.encode(faces)
    assert codes.shape == (2, len(space.mean)) and np.isfinite(codes).all()
    assert space.predict_attributes(codes).shape == (2, len(ATTRIBUTES))


def test_what_is_stored_is_stored_alike_once_more_and_is_hardly_changed(space, tmp_path):
    rng = np.random.default_rng(0)
    rough = replace(space, up=rng.normal(size=space.up.shape), axes=space.axes * 1.001)
    rough.save(tmp_path / "one.npz")
    one = GeneratorSpace.load(tmp_path / "one.npz")
    one.save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert one.digest == rough.digest != space.digest
    for name, most in (("up", 1 / 127), ("axes", 1 / 127), ("down", 1e-3), ("slope", 1e-3)):
        before, after = getattr(rough, name), getattr(one, name)
        assert (np.abs(after - before) <= most * np.abs(before).max(axis=1, keepdims=True)).all()
    known = np.s_[: FEATURE_BLOCKS["mobilefacenet"], :192]
    np.testing.assert_allclose(one.axes[known], rough.axes[known], rtol=1e-3, atol=1e-6)


def test_a_colour_that_is_changed_alone_leaves_the_shape_as_it_is(space):
    by = {"light": -8.0, "tone": -20.0, "age": 0.0}
    code = space.mean + 0.1
    other, same = space.shift_attributes(code, by), space.shift_attributes(code, by, same=True)
    half = len(code) // 2
    for moved in (other, same):
        change = dict(
            zip(
                ATTRIBUTES,
                (space.predict_attributes(moved[None]) - space.predict_attributes(code[None]))[0],
                strict=True,
            )
        )
        assert {name: change[name] for name in by} == pytest.approx(by, abs=0.01)
    shape = [np.linalg.norm((moved - code)[:half]) for moved in (other, same)]
    assert shape[1] < 0.3 * shape[0]  # no more than keeps the age
    alone = space.shift_attributes(code, {"light": -8.0, "tone": -20.0}, same=True)
    assert (alone[:half] == code[:half]).all()
