"""Eyes, brows and mouth on the mean face of the model, and on shapes bent at random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
import oracles
from ksame.core.geometry import BROWS, LEFT_EYE, MESH, OVAL, RIGHT_EYE, similarity, transform
from ksame.render.overlay import features
from ksame.render.overlay.features import EYE_POINTS, FEATURES, LOWER_LIP, MOUTH_POINTS, UPPER_LIP

quick = settings(max_examples=20, deadline=None)
seeds = st.integers(0, 999)


def shape(seed=None, noise=1.0):
    bent = drawn.model().shape.copy()
    return bent if seed is None else bent + np.random.default_rng(seed).normal(0, noise, bent.shape)


@quick
@given(seeds)
def test_features_move_as_a_whole_and_the_rest_as_it_is_told(seed):
    own, move = shape(seed), np.random.default_rng(seed + 1).normal((2, -1), 3, (MESH, 2))

    def whole(name, point):
        feature = FEATURES[name]
        if feature is MOUTH_POINTS:
            return point + move[feature].mean(axis=0)
        return transform(similarity(own[feature], own[feature] + move[feature]), point)

    found, expected = (
        features.rigid_feature_move(move, own),
        oracles.in_form(move, own, FEATURES, whole, features.FEATURE_REACH_PX),
    )
    for ring in (LEFT_EYE, RIGHT_EYE):  # both lids alike
        lids = list(ring[:8:-1]), list(ring[1:8])
        expected[lids[0]] = expected[lids[1]] = (expected[lids[0]] + expected[lids[1]]) / 2
    np.testing.assert_allclose(found, expected, atol=1e-9)
    chin = 152
    np.testing.assert_allclose(found[chin], move[chin], atol=0.2)


def test_what_is_shut_stays_shut():
    closed = shape()
    for upper, lower in ((UPPER_LIP, LOWER_LIP), *features._LIDS):
        closed[upper] = closed[lower]
    moved = closed + features.rigid_feature_move(np.random.default_rng(0).normal(size=(MESH, 2)), closed)
    np.testing.assert_allclose(moved[[159, 386, 13]], moved[[145, 374, 14]], atol=1e-9)


@quick
@given(seeds)
def test_lids_and_brows_are_livelier_and_nothing_else(seed):
    own, now = shape(), shape(seed, 0.3)
    lively = features.amplify_expression(now, own)
    np.testing.assert_allclose(features.amplify_expression(own, own), own)  # at rest nothing is added
    brows = [*BROWS[0], *BROWS[1]]
    others = np.setdiff1d(np.arange(MESH), [*EYE_POINTS, *brows])
    np.testing.assert_array_equal(lively[others], now[others])
    np.testing.assert_array_equal(lively[EYE_POINTS, 0], now[EYE_POINTS, 0])
    corners = [33, 133]
    off, usual, new = (mesh[105, 1] - mesh[corners, 1].mean() for mesh in (now, own, lively))
    # the corners of the eye are livelier too
    assert new - usual == pytest.approx(features.BROW_RAISE_GAIN * (off - usual), abs=features.LID_GAIN)
    for ring in (LEFT_EYE, RIGHT_EYE):
        assert (lively[list(ring[1:8]), 1] >= lively[list(ring[:8:-1]), 1]).all()  # lids do not cross


def test_brows_that_are_knit_are_knit_further_and_a_turn_of_the_head_is_not():
    own = shape()
    left, right = map(list, BROWS)
    for one, other in ((2.0, -2.0), (-1.5, 1.5), (2.0, 2.0), (2.0, 0.0)):
        now = own.copy()
        now[left, 0] += one
        now[right, 0] += other
        lively = features.amplify_expression(now, own)
        nearer = (features.BROW_KNIT_GAIN - 1) * (one - other) / 2
        np.testing.assert_allclose(lively[left] - now[left], [[nearer, 0]] * 10, atol=1e-9)
        np.testing.assert_allclose(lively[right] - now[right], [[-nearer, 0]] * 10, atol=1e-9)


def test_lids_that_nearly_meet_meet():
    own, now = shape(), shape()
    middle = (now[159] + now[145]) / 2
    now[[159, 145]] = np.array([[0, -0.5], [0, 0.5]]) + middle
    lively = features.amplify_expression(now, own)
    assert lively[159, 1] == pytest.approx(lively[145, 1])


@quick
@given(seeds, st.floats(0.05, 2), st.floats(-3, 3), st.floats(0.3, 3))
def test_an_eye_is_hidden_by_its_lids_and_not_flattened(seed, opening, roll, size):
    at = shape(seed, 0.2)
    new = at.copy()
    for ring in (LEFT_EYE, RIGHT_EYE):
        new[list(ring), 1] = at[ring[0], 1] + opening * (at[list(ring), 1] - at[ring[0], 1])
    a = size * np.exp(1j * roll)
    turned = transform(np.array([[a.real, -a.imag, 7], [a.imag, a.real, 9]]), new)
    seen = features.eyeballs(at, turned)
    expected = np.vstack([oracles.eyeballs(at, new, ring) for ring in (LEFT_EYE, RIGHT_EYE)])
    np.testing.assert_allclose(seen, expected, atol=1e-6)
    if opening >= 1.2:
        np.testing.assert_allclose(seen, at[EYE_POINTS], atol=1e-9)
    iris_high = np.ptp(seen[:16, 1])
    assert iris_high <= np.ptp(at[list(LEFT_EYE), 1]) + 0.5


def test_triangles_within_the_eyes_have_points_of_their_own():
    triangles = drawn.model().ring_triangles
    first = MESH + len(OVAL)
    found = features.split_eye_triangles(triangles, first)
    moved = found >= first
    assert moved.any() and (moved.all(axis=1) == moved.any(axis=1)).all()
    np.testing.assert_array_equal(np.array(EYE_POINTS)[found[moved] - first], triangles[moved])
    np.testing.assert_array_equal(found[~moved], triangles[~moved])


def test_how_far_an_eye_is_shut():
    mesh = shape()
    for opening, expected in ((2.0, 0.0), (0.0, 1.0)):
        eyes = mesh.copy()
        for ring in (LEFT_EYE, RIGHT_EYE):
            eyes[list(ring), 1] = mesh[ring[0], 1] + opening * (mesh[list(ring), 1] - mesh[ring[0], 1])
        assert features.eye_closure(eyes) == (expected, expected)
    one = mesh.copy()
    one[list(LEFT_EYE), 1] = one[LEFT_EYE[0], 1]
    left, right = features.eye_closure(one)
    assert left == 1.0 > right


def test_a_shut_eye_has_lids_of_skin():
    mesh = shape()
    face = np.full((320, 256, 3), (180, 130, 110), np.float32)
    for ring in (LEFT_EYE, RIGHT_EYE):
        eye = mesh[list(ring)]
        wide = np.ptp(eye[:, 0])
        x, y = eye.mean(axis=0).astype(int)
        face[int(y - 0.35 * wide) : int(y + 0.3 * wide), int(x - 0.6 * wide) : int(x + 0.6 * wide)] = (
            20  # shadow
        )
    for lids in features.make_eyelids(face.copy(), mesh):
        open_, shut = face.copy(), face.copy()
        lids.paint(open_, 0.0, np.ones((320, 256, 3), np.float32))
        np.testing.assert_array_equal(open_, face)
        lids.paint(shut, 1.0, np.full((320, 256, 3), 0.5, np.float32))
        where = lids.where[..., 0] > 0.9
        assert where.any()
        assert shut[lids.place][where].mean() > face[lids.place][where].mean() + 10  # in half the light, too
