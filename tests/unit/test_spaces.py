"""Pixel and eigen spaces against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from ksame.core.errors import UsageError
from ksame.spaces import EigenSpace, PixelSpace
from ksame.spaces.eigen import principal_components
from samples import faces as faces_of


def test_pixel_round_trip_is_exact_inside_the_outline():
    faces = faces_of()
    space = PixelSpace.fit(faces)
    inside = space.alpha == 1
    assert inside.sum() > 20_000
    np.testing.assert_array_equal(space.decode(space.encode(faces))[:, inside], faces.rgb[:, inside])


def test_pixel_ground_is_plain_and_the_same_for_all():
    faces = faces_of()
    space = PixelSpace.fit(faces)
    background = space.decode(space.encode(faces))[:, ~space.mask]
    assert len(np.unique(background)) == 1


def test_pixel_mean_of_codes_is_the_mean_face():
    faces = faces_of()
    space = PixelSpace.fit(faces)
    inside = space.alpha == 1
    mean = space.decode(space.encode(faces).mean(axis=0, keepdims=True))[0, inside]
    assert np.abs(mean - faces.rgb[:, inside].mean(axis=0)).max() <= 0.51


def test_no_faces_make_no_space():
    with pytest.raises(UsageError, match="at least one face"):
        PixelSpace.fit(faces_of(2)[:0])


@given(
    st.integers(2, 12), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([np.float32, np.float64])
)
@settings(deadline=None, max_examples=60)
def test_principal_is_its_naive_twin(m, n, seed, dtype):
    x = np.random.default_rng(seed).normal(size=(m, n)).astype(dtype)
    psi, v, variance = principal_components(x, keep=1.0)
    naive_psi, naive_v, naive_variance = oracles.principal(x.astype(float))
    tolerance = 1e-3 if dtype == np.float32 else 1e-7
    assert len(v) == min(m - 1, n)
    np.testing.assert_allclose(psi, naive_psi, atol=tolerance)
    np.testing.assert_allclose(variance, naive_variance[: len(variance)], atol=tolerance)
    gaps = np.abs(np.diff(naive_variance[: len(v) + 1], append=0))
    for row in range(len(v)):  # where two variances are equal the axes are free to turn
        if min(gaps[row], gaps[row - 1] if row else np.inf) > 0.05:
            assert abs(v[row] @ naive_v[row]) > 1 - 5e-3
            assert v[row, np.abs(v[row]).argmax()] > 0


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=20)
def test_both_ways_to_the_axes_agree(seed):
    """The small matrix (fewer faces than pixels) and the covariance give the same codes."""
    x = np.random.default_rng(seed).normal(size=(6, 5))
    wide = np.hstack([x, np.zeros((6, 4))])
    np.testing.assert_allclose(
        principal_components(x, keep=1.0)[2], principal_components(wide, keep=1.0)[2], atol=1e-9
    )


def test_keep_by_count_and_by_fraction():
    x = np.random.default_rng(3).normal(size=(40, 10)) * np.arange(10, 0, -1)
    values = principal_components(x, keep=1.0)[2]
    for m in (1, 4, 10, 99):
        assert len(principal_components(x, keep=m)[1]) == min(m, 10)
    for fraction in (0.3, 0.9, 0.999):
        kept = principal_components(x, keep=fraction)[2].sum() / values.sum()
        fewer = (
            principal_components(x, keep=len(principal_components(x, keep=fraction)[1]) - 1 or 1)[2].sum()
            / values.sum()
        )
        assert kept >= fraction
        assert fewer < fraction or len(principal_components(x, keep=fraction)[1]) == 1


@pytest.mark.parametrize("keep", [0, -1, 0.0, 1.5, -0.2])
def test_keep_makes_sense(keep):
    with pytest.raises(UsageError, match="keep must be"):
        principal_components(np.eye(3), keep=keep)


def test_equal_faces_have_no_axes():
    _, v, variance = principal_components(np.ones((4, 7)), keep=0.95)
    assert v.shape == (0, 7)
    assert variance.shape == (0,)


def test_eigen_error_falls_with_components_and_vanishes():
    faces = faces_of(8)
    x = PixelSpace.fit(faces).encode(faces)
    errors = []
    for keep in (1, 3, 5, 7):
        space = EigenSpace.fit(faces, keep=keep)
        back = space.mean + space.encode(faces).astype(np.float32) @ space.axes
        errors.append(np.sqrt(((back - x) ** 2).mean()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05


def test_eigen_keeps_distances_when_it_keeps_all():
    faces = faces_of(8)
    x = PixelSpace.fit(faces).encode(faces).astype(float)
    codes = EigenSpace.fit(faces, keep=1.0).encode(faces)
    np.testing.assert_allclose(
        np.linalg.norm(codes[0] - codes, axis=1), np.linalg.norm(x[0] - x, axis=1), rtol=1e-3
    )


def test_eigen_decodes_to_the_faces():
    faces = faces_of(8)
    space = EigenSpace.fit(faces, keep=1.0)
    inside = space.pixel.alpha == 1
    difference = space.decode(space.encode(faces))[:, inside].astype(int) - faces.rgb[:, inside]
    assert np.abs(difference).max() <= 1
