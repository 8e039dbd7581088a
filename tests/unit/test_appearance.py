"""The appearance model against its definitions, on faces that a model draws."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
import oracles
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, Raster, align, procrustes
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import (
    TEXTURE_SCALE,
    _textures,
    find_nuisance_components,
    landmarks_on_frame,
    measure_light_and_pose,
    measure_reconstruction,
)

seeds = st.integers(0, 10**6)


@cache
def trained(n=12, keep=1.0):
    faces = drawn.people(n)
    return faces, AppearanceSpace.fit(faces, shape_keep=keep, texture_keep=keep)


def moved(shapes, rng):
    """Each shape at another place, size and roll."""
    a = np.exp(rng.uniform(-0.7, 0.7, (len(shapes), 1)) + 1j * rng.uniform(-0.5, 0.5, (len(shapes), 1)))
    z = a * (shapes @ [1, 1j]) + rng.normal(size=(len(shapes), 2)) @ [[30], [30j]]
    return np.stack([z.real, z.imag], axis=-1)


def some_shapes(rng, n=5, m=9):
    return rng.uniform(-50, 50, (m, 2)) + rng.normal(size=(n, m, 2)) * 5


# Procrustes


@given(seeds)
@settings(max_examples=30)
def test_align_is_its_naive_twin(seed):
    rng = np.random.default_rng(seed)
    shapes = moved(some_shapes(rng), rng)
    target = rng.normal(size=(9, 2)) * 40
    for shape, aligned in zip(shapes, align(shapes, target), strict=True):
        np.testing.assert_allclose(aligned, oracles.align(shape, target), atol=1e-8)


@given(seeds)
@settings(max_examples=20)
def test_procrustes_is_its_naive_twin(seed):
    rng = np.random.default_rng(seed)
    shapes = some_shapes(rng)
    aligned, mean = procrustes(shapes)
    naive_aligned, naive_mean = oracles.procrustes(shapes, 20)
    np.testing.assert_allclose(mean, naive_mean, atol=1e-6)
    np.testing.assert_allclose(aligned, naive_aligned, atol=1e-6)


@given(seeds)
@settings(max_examples=30)
def test_procrustes_does_not_see_place_size_and_roll(seed):
    """Shapes moved one by one give the same mean and the same differences from it, up to one similarity."""
    rng = np.random.default_rng(seed)
    shapes = some_shapes(rng)
    aligned, mean = procrustes(shapes, rounds=200)
    others, other_mean = procrustes(moved(shapes, rng), rounds=200)
    np.testing.assert_allclose(align(other_mean[None], mean)[0], mean, atol=1e-4)
    np.testing.assert_allclose(align(others, mean), aligned, atol=1e-4)


def test_procrustes_of_one_shape_moved_about_leaves_no_difference():
    rng = np.random.default_rng(0)
    shapes = moved(np.tile(some_shapes(rng, n=1), (6, 1, 1)), rng)
    aligned, mean = procrustes(shapes)
    np.testing.assert_allclose(aligned, np.tile(mean, (6, 1, 1)), atol=1e-8)


# codes


def test_the_code_is_its_naive_twin():
    faces, space = trained(12, 0.9)
    codes = space.encode(faces, nuisance=True)
    a = len(space.shape_axes)
    shapes = np.array([oracles.align(p, space.shape).ravel() for p in landmarks_on_frame(faces)])
    alpha = oracles.project(shapes, space.shape.ravel(), space.shape_axes)
    np.testing.assert_allclose(codes[:, :a], space.weight * alpha, rtol=1e-4, atol=1e-3)
    beta = oracles.project(_textures(faces, space.raster), space.texture, space.texture_axes)
    np.testing.assert_allclose(codes[:, a:], beta, rtol=1e-3, atol=0.05)


def test_a_unit_of_shape_counts_like_a_unit_of_texture():
    """[S 3.10]: with the weight r both parts of the code have the same variance."""
    faces, space = trained()
    assert space.weight == pytest.approx(
        np.sqrt(sum(space.texture_variance) / sum(space.shape_variance)), rel=1e-12
    )
    variance = space.encode(faces, nuisance=True).var(axis=0, ddof=1)
    a = len(space.shape_axes)
    assert variance[:a].sum() == pytest.approx(variance[a:].sum(), rel=1e-3)
    np.testing.assert_allclose(np.sqrt(variance), space.deviation, rtol=5e-3)


def test_the_mean_code_of_the_training_set_is_the_mean_face():
    """Alignment in least squares shrinks a little: by a quarter of a pixel at the edge."""
    faces, space = trained()
    mean = space.encode(faces, nuisance=True).mean(axis=0)
    assert np.abs(space.shape_offset(mean[None])).max() < 0.3
    assert np.abs(mean[len(space.shape_axes) :]).max() < 1e-2


def test_a_face_has_the_same_code_wherever_it_is_in_its_photo():
    faces, space = trained()
    elsewhere = FaceSet(
        faces.rgb,
        moved(faces.points, np.random.default_rng(1)),
        faces.xyxy,
        faces.score,
        faces.source,
        faces.subject,
    )
    np.testing.assert_allclose(space.encode(elsewhere), space.encode(faces), atol=0.5)


def test_pictures_of_another_scale_have_nearly_the_same_codes():
    """A pixel's centre is its centre at every scale: half a pixel off would be a tenth of all variance."""
    space = trained()[1]
    one, two = (_textures(drawn.people(6, scale=scale), space.raster) for scale in (1.0, 2.0))
    spread = np.sqrt(space.texture_variance.sum() / len(space.texture))
    assert np.sqrt(np.mean((one - two) ** 2)) < 0.15 * spread


# round trip: property 8


def test_the_round_trip_error_falls_with_components():
    faces, others = drawn.people(24, seed=1), drawn.people(6, seed=2)
    shape, texture = [], []
    for keep in (0.3, 0.6, 0.9, 0.99, 1.0):
        error = measure_reconstruction(AppearanceSpace.fit(faces, shape_keep=keep, texture_keep=keep), others)
        shape.append(error.shape.mean())
        texture.append(error.texture.mean())
    assert shape == sorted(shape, reverse=True)
    assert texture == sorted(texture, reverse=True)
    assert shape[-1] < 0.1 * shape[0]


def test_the_round_trip_is_exact_when_all_components_are_kept():
    faces, space = trained()
    error = measure_reconstruction(space, faces)
    assert error.shape.max() < 0.05
    assert error.texture.max() < 0.1
    assert min(error.shape_kept, error.texture_kept) > 0.9999


def test_faces_are_drawn_as_they_were_when_all_components_are_kept():
    """Property 8: coded, drawn and warped back, a face is within 3 grey levels; twice resampled, not less."""
    faces, space = trained()
    back = space.decode(space.encode(faces, nuisance=True))
    new = space.shapes(space.encode(faces, nuisance=True)) * TEXTURE_SCALE
    raster = Raster.of(space.small_shape, space.triangles, back.shape[2], back.shape[1])
    for before, after, p, q in zip(
        faces.rgb, back, landmarks_on_frame(faces) * TEXTURE_SCALE, new, strict=True
    ):
        pair = [raster.pull(rgb, at)[raster.covered] for rgb, at in ((before, p), (after, q))]
        assert np.abs(pair[0].astype(float) - pair[1]).mean() < 3


def test_the_code_zero_is_the_mean_face():
    space = trained()[1]
    face = space.decode(np.zeros((1, len(space.deviation))))[0]
    np.testing.assert_allclose(space.shapes(np.zeros((1, len(space.deviation))))[0], space.shape)
    covered = space.raster.covered  # the pictures were of the texture's size
    assert np.abs(face[covered].astype(float) - space.detail[covered]).max() <= 1.01


def test_the_mean_of_codes_has_the_mean_shape_and_texture():
    """Decoding is linear, so a surrogate may be averaged from photos [algorithms 1]."""
    faces, space = trained()
    codes = space.encode(faces, nuisance=True)
    middle = codes[:5].mean(axis=0, keepdims=True)
    np.testing.assert_allclose(space.shapes(middle)[0], space.shapes(codes[:5]).mean(axis=0), atol=1e-9)
    changes = np.mean([space.texture_offset(code) for code in codes[:5]], axis=0)
    np.testing.assert_allclose(space.texture_offset(middle[0]), changes, atol=1e-2)


def test_a_texture_is_spread_a_little_beyond_its_edge():
    space = trained()[1]
    change = space.texture_offset(np.full(len(space.deviation), 1.0))
    outside = ~space.raster.covered
    assert (np.abs(change[outside]).sum(axis=1) > 0).sum() > 200
    assert not change[0, 0].any()


# light and pose


def planted(n=60, seed=0):
    """Faces with 68 landmarks and four planted quantities besides who they are: light, yaw, pitch."""
    rng = np.random.default_rng(seed)
    base = drawn.sixty_eight(1)
    shape = landmarks_on_frame(base)[0]
    inner = np.arange(68) >= 36
    light, yaw, pitch = rng.normal(size=(3, n))
    wide, long = rng.normal(size=(2, n, 1, 1))
    shapes = np.tile(shape, (n, 1, 1))
    middle = shape.mean(axis=0)
    shapes += (shape - middle) * np.concatenate([0.02 * wide, -0.02 * long], axis=2)
    shapes[:, inner] += np.stack([8 * yaw, 6 * pitch], axis=1)[:, None]
    x = np.linspace(-1, 1, 96)[None, None, :, None]
    colour = 128 + 20 * rng.normal(size=(n, 1, 1, 1)) * np.ones(3)
    rgb = np.clip(colour + 25 * light[:, None, None, None] * x, 0, 255) * np.ones((1, 120, 1, 1))
    names = np.arange(n).astype(str)
    faces = FaceSet(rgb.astype(np.uint8), shapes, np.zeros((n, 4)), np.ones(n), names, names)
    return faces, np.stack([light, yaw, pitch], axis=1), np.hstack([wide[:, 0], colour[:, 0, 0, :1]])


def correlation(x, y):
    return np.abs(np.corrcoef(x.T, y.T)[: x.shape[1], x.shape[1] :])


def test_light_and_pose_are_found_and_left_out_of_codes():
    faces, planted_in, identity = planted()
    space = AppearanceSpace.fit(faces)
    codes = space.encode(faces, nuisance=True)
    seen = correlation(codes, planted_in) > 0.6
    assert seen.any(axis=0).all()
    np.testing.assert_array_equal(space.nuisance, seen.any(axis=1))
    without = space.encode(faces)
    np.testing.assert_array_equal(without[:, ~space.nuisance], codes[:, ~space.nuisance])
    assert not without[:, space.nuisance].any()
    # who they are is still there: width of the face and colour of the skin
    assert (correlation(without[:, ~space.nuisance], identity).max(axis=0) > 0.6).all()


def test_measures_of_light_and_pose_are_what_was_planted():
    faces, planted_in, _ = planted()
    space = AppearanceSpace.fit(faces)
    shapes = align(landmarks_on_frame(faces), space.shape)
    measured = measure_light_and_pose(shapes, _textures(faces, space.raster), space.raster.covered)
    found = correlation(measured, planted_in)  # light x, light y, yaw, pitch
    assert found[0, 0] > 0.99
    assert found[2, 1] > 0.95
    assert found[3, 2] > 0.9


def test_components_without_variance_are_nobodys_nuisance():
    rng = np.random.default_rng(0)
    codes = np.column_stack([np.zeros(50), rng.normal(size=50)])
    assert find_nuisance_components(codes, codes[:, 1:] * 3 + 1).tolist() == [False, True]
    assert not find_nuisance_components(codes, np.ones((50, 1))).any()


def test_pose_takes_the_turn_and_nothing_else():
    faces, turn, _ = planted()
    space = AppearanceSpace.fit(faces)
    a = len(space.shape_axes)
    turns = space.nuisance[:a]
    assert 0 < turns.sum() < a
    mine, other = landmarks_on_frame(faces)[[int(turn[:, 1].argmin()), int(turn[:, 1].argmax())]]
    posed = space.transfer_pose(mine, other)
    alpha = oracles.project(
        [(align(s[None], space.shape)[0] - space.shape).ravel() for s in (mine, other)],
        np.zeros(136),
        space.shape_axes,
    )
    new = oracles.project([(posed - space.shape).ravel()], np.zeros(136), space.shape_axes)[0]
    np.testing.assert_allclose(new, np.where(turns, alpha[1], alpha[0]), atol=1e-6)
    np.testing.assert_allclose(space.transfer_pose(mine, mine), align(mine[None], space.shape)[0], atol=1e-9)


# other landmark schemes


def test_another_landmark_scheme_is_a_model_too():
    faces = drawn.sixty_eight(12)
    space = AppearanceSpace.fit(faces, shape_keep=1.0, texture_keep=1.0)
    assert space.shape.shape == (68, 2)
    error = measure_reconstruction(space, faces)
    assert error.shape.max() < 0.05
    assert error.texture.max() < 0.1
    assert space.decode(space.encode(faces)).shape == faces.rgb.shape


def test_landmarks_of_another_scheme_must_be_on_the_frame():
    faces = drawn.sixty_eight(4)
    photo = FaceSet(faces.rgb, faces.points + 900.0, faces.xyxy, faces.score, faces.source, faces.subject)
    with pytest.raises(UsageError, match="256 x 320"):
        AppearanceSpace.fit(photo)


def test_a_model_refuses_faces_of_another_scheme():
    with pytest.raises(UsageError, match="Got 68"):
        trained()[1].encode(drawn.sixty_eight(4))


def test_two_faces_are_no_model():
    with pytest.raises(UsageError, match="at least 3"):
        AppearanceSpace.fit(drawn.people(2))


# files


def test_a_model_is_saved_and_loaded(tmp_path):
    faces, space = trained()
    space.save(tmp_path / "model.npz")
    again = AppearanceSpace.load(tmp_path / "model.npz")
    codes, others = space.encode(faces), again.encode(faces)
    assert np.linalg.norm(codes - others) < 2e-3 * np.linalg.norm(codes)  # axes in half precision
    assert np.abs(again.decode(codes).astype(int) - space.decode(codes)).max() <= 2
    np.testing.assert_array_equal(again.nuisance, space.nuisance)


def bad_files(folder):
    np.savez(folder / "other.npz", shape=np.zeros((3, 2)))
    np.savez(folder / "pickle.npz", shape=np.array([{}], dtype=object), allow_pickle=True)
    (folder / "text.npz").write_text("not a model")
    (folder / "empty.npz").touch()
    with (folder / "array.npz").open("wb") as stream:
        np.save(stream, np.zeros(3))
    (folder / "cut.npz").write_bytes(b"PK\x03\x04" + bytes(60))
    return [*sorted(folder.iterdir()), folder / "missing.npz"]


def test_a_file_that_is_no_model_is_refused_in_one_sentence(tmp_path):
    for path in bad_files(tmp_path):
        with pytest.raises(UsageError, match=f"{path.name} is not an appearance model"):
            AppearanceSpace.load(path)


def test_the_shipped_model_is_small_and_whole():
    from importlib import resources

    file = resources.files("ksame") / "models" / "data" / "appearance.npz"
    assert len(file.read_bytes()) < 5_000_000
    space = drawn.model()
    assert space.shape.shape == (468, 2)
    assert (space.shape > 0).all()
    assert (space.shape < (FRAME.width, FRAME.height)).all()
    for axes in (space.shape_axes, space.texture_axes):
        np.testing.assert_allclose(axes @ axes.T, np.eye(len(axes)), atol=2e-3)
    assert space.nuisance[:2].all()  # yaw and pitch [S 5.4.1]
