"""Similarities, crops and the canonical frame."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from ksame.core.errors import UsageError
from ksame.core.geometry import (
    FRAME,
    OVAL,
    Raster,
    crop,
    five_points,
    moving_least_squares,
    register,
    similarity,
    to_frame,
    transform,
)
from samples import mesh

angles = st.floats(-np.pi, np.pi)
scales = st.floats(0.05, 20)
shifts = st.floats(-1e3, 1e3)


@given(angles, scales, shifts, shifts)
def test_similarity_is_recovered_exactly(angle, scale, dx, dy):
    a, b = scale * np.cos(angle), scale * np.sin(angle)
    truth = np.array([[a, -b, dx], [b, a, dy]])
    points = np.random.default_rng(0).normal(size=(7, 2)) * 50
    np.testing.assert_allclose(
        similarity(points, transform(truth, points)), truth, atol=1e-8 * (1 + abs(dx) + abs(dy))
    )


def test_similarity_is_the_least_squares_one():
    rng = np.random.default_rng(1)
    source, target = rng.normal(size=(2, 6, 2))
    best = np.linalg.norm(transform(similarity(source, target), source) - target)
    matrix = similarity(source, target)
    for _ in range(50):
        a, b, dx, dy = rng.normal(size=4) * 0.05
        other = matrix + np.array([[a, -b, dx], [b, a, dy]])
        assert np.linalg.norm(transform(other, source) - target) >= best


@pytest.mark.parametrize(
    ("source", "target"), [([[1, 1], [1, 1]], [[0, 0], [1, 1]]), ([[0, 0], [1, 1]], [[0, 0]])]
)
def test_similarity_refuses_points_that_fix_nothing(source, target):
    with pytest.raises(UsageError, match="similarity needs"):
        similarity(source, target)


def test_five_points_of_a_mesh():
    np.testing.assert_allclose(five_points(mesh(FRAME.five)[None]), FRAME.five[None])
    with pytest.raises(UsageError, match="468"):
        five_points(np.zeros((5, 2)))


@pytest.mark.parametrize("turn", [0, 30, 90, 180, 271])
@pytest.mark.parametrize("scale", [0.2, 1, 5])
def test_register_brings_a_turned_and_scaled_face_to_the_frame(turn, scale):
    """Three coloured discs at eyes and nose land where the frame says."""
    a, b = scale * np.cos(np.radians(turn)), scale * np.sin(np.radians(turn))
    matrix = np.array([[a, -b, 0], [b, a, 0]])
    five = transform(matrix, FRAME.five)
    shift = 60 * scale - five.min(axis=0)
    five = five + shift
    width, height = (five.max(axis=0) + 60 * scale).astype(int)
    photo = np.zeros((height, width, 3), np.uint8)
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255]])
    for centre, colour in zip(five, colours, strict=False):
        cv2.circle(
            photo, tuple(int(v) for v in centre.round()), max(2, round(12 * scale)), colour.tolist(), -1
        )
    face = register(photo, mesh(five))
    assert face.shape == (FRAME.height, FRAME.width, 3)
    for centre, colour in zip(FRAME.five[:3].round().astype(int), colours, strict=True):
        assert np.abs(face[centre[1], centre[0]].astype(int) - colour).max() < 60
    np.testing.assert_allclose(transform(to_frame(mesh(five)), five)[:3], FRAME.five[:3], atol=1e-6)


def test_crop_averages_when_it_shrinks():
    """A checkerboard far below the sampling grid becomes grey, not one of its colours."""
    board = (np.indices((640, 640)).sum(axis=0) % 2 * 255).astype(np.uint8)
    small = crop(np.repeat(board[..., None], 3, axis=2), np.array([[0.1, 0, 0], [0, 0.1, 0]]), 64, 64)
    assert np.abs(small[4:-4, 4:-4].astype(int) - 127).max() <= 2


@given(angles, st.floats(0.01, 0.49), st.floats(-200, 520), st.floats(-200, 400), st.integers(0, 2**32 - 1))
def test_crop_that_shrinks_a_part_sees_what_the_whole_photo_shows(roll, scale, x, y, seed):
    photo = cv2.GaussianBlur(np.random.default_rng(seed).integers(0, 256, (192, 320, 3), np.uint8), (0, 0), 3)
    a = scale * np.exp(1j * roll)
    matrix = np.array([[a.real, -a.imag, 0], [a.imag, a.real, 0]])
    matrix[:, 2] = 20 - matrix[:, :2] @ [x, y]
    step = min(2 ** int(np.log2(1 / scale)), 64)  # divides both sides
    small = photo.reshape(192 // step, step, 320 // step, step, 3).mean(axis=(1, 3)).round().astype(np.uint8)
    back = np.array([[step, 0, (step - 1) / 2], [0, step, (step - 1) / 2], [0, 0, 1]])
    whole = cv2.warpAffine(small, matrix @ back, (40, 40), borderMode=cv2.BORDER_REPLICATE)
    assert np.abs(crop(photo, matrix, 40, 40).astype(int) - whole).max() <= 2


def test_crop_from_afar_takes_no_more_memory_than_the_photo():
    photo = np.full((30, 50, 3), 70, np.uint8)  # blocks of 2**30 pixels would be 3 exabytes
    assert (crop(photo, np.array([[1e-9, 0, 20], [0, 1e-9, 20]]), 40, 40) == 70).all()


def test_crop_that_shrinks_keeps_positions():
    ramp = np.repeat(np.repeat(np.linspace(0, 250, 500)[None, :, None], 500, axis=0), 3, axis=2)
    photo = ramp.round().astype(np.uint8)
    scale = 0.23
    seen = crop(photo, np.array([[scale, 0, 0], [0, scale, 0]]), 115, 115)
    expected = ramp[0, np.clip((np.arange(115) / scale).round().astype(int), 0, 499), 0]
    assert np.abs(seen[50, 2:-2, 0].astype(float) - expected[2:-2]).max() < 2


def test_the_outline_is_a_closed_ring_of_distinct_points():
    assert len(set(OVAL)) == len(OVAL) == 36


def grid_mesh(seed, size, margin=0):
    """A 5 x 5 grid cut into triangles, shaken twice, gently enough that none folds over."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.linspace(2, size - 3, 5)] * 2), axis=-1).reshape(-1, 2)
    source, target = grid + rng.uniform(-size / 25, size / 25, (2, *grid.shape)) + margin
    corner = np.add.outer(5 * np.arange(4), np.arange(4)).ravel()[:, None]
    return source, target, np.concatenate([corner + np.array([0, 1, 5]), corner + np.array([1, 6, 5])])


@pytest.mark.parametrize("seed", range(3))
def test_piecewise_affine_is_its_naive_twin(seed):
    source, target, triangles = grid_mesh(seed, 25)
    raster = Raster.of(target, triangles, 25, 25)
    found, inside = raster.places(source), raster.covered
    naive = oracles.piecewise_affine(source, target, triangles, 25, 25)
    known = np.isfinite(naive[..., 0])
    np.testing.assert_array_equal(inside, known)
    np.testing.assert_allclose(found[known], naive[known], atol=1e-4)


def test_piecewise_affine_there_and_back():
    """Property 8: there and back within a tenth of a pixel, and two hundredths on average."""
    source, target, triangles = grid_mesh(5, 200, margin=20)
    forth, back = (Raster.of(points, triangles, 240, 240) for points in (target, source))
    there, inside = forth.places(source), forth.covered
    back, covered = back.places(target), back.covered
    x, y = there[..., 0], there[..., 1]
    returned = cv2.remap(back, x, y, cv2.INTER_LINEAR)
    core = cv2.erode(covered.astype(np.uint8), np.ones((5, 5)))
    sure = inside & (cv2.remap(core, x, y, cv2.INTER_NEAREST) > 0)
    error = np.abs(returned - np.stack(np.meshgrid(np.arange(240), np.arange(240)), axis=-1))[sure]
    assert sure.sum() > 30_000
    assert error.max() < 0.25
    assert error.mean() < 0.02


def test_a_flat_triangle_does_no_harm():
    target = np.array([[0.0, 0], [10, 0], [20, 0], [10, 20]])
    raster = Raster.of(target, np.array([[0, 1, 2], [0, 2, 3]]), 24, 24)
    found, inside = raster.places(target), raster.covered
    assert np.isfinite(found).all()
    y, x = np.nonzero(inside)
    np.testing.assert_allclose(found[inside], np.stack([x, y], axis=1), atol=1e-4)


@given(st.integers(0, 10**6), st.sampled_from([0.75, 1.0, 2.0]))
@settings(max_examples=15, deadline=None)
def test_moving_least_squares_is_its_naive_twin_on_the_grid(seed, alpha):
    rng = np.random.default_rng(seed)
    target = rng.uniform(5, 60, (8, 2))
    source = target + rng.normal(size=(8, 2)) * 4
    dense = moving_least_squares(source, target, 65, 49, alpha=alpha, step=8)
    for x, y in ((0, 0), (8, 16), (64, 48), (40, 24)):
        naive = oracles.moving_least_squares(source, target, np.array([x, y], float), alpha)
        np.testing.assert_allclose(dense[y, x], naive, atol=1e-2)


def test_moving_least_squares_leaves_what_is_not_moved():
    points = np.random.default_rng(0).uniform(5, 60, (8, 2))
    dense = moving_least_squares(points, points, 64, 48)
    np.testing.assert_allclose(dense, np.stack(np.meshgrid(np.arange(64), np.arange(48)), axis=-1), atol=1e-3)


def test_moving_least_squares_brings_target_to_source():
    target = np.array([[8.0, 8], [56, 8], [8, 40], [56, 40], [32, 24]])
    source = target.copy()
    source[4] += 5, -3
    dense = moving_least_squares(source, target, 64, 48, step=1)
    for (x, y), place in zip(target.astype(int), source, strict=True):
        np.testing.assert_allclose(dense[y, x], place, atol=0.05)
