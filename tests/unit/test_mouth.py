"""What is painted between lips, with made-up colours on the mean face of the model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
import oracles
from ksame.core.geometry import INNER_LIPS, transform
from ksame.render.overlay import mouth
from ksame.render.overlay.features import LOWER_LIP, UPPER_LIP

quick = settings(max_examples=20, deadline=None)
SKIN = np.array([190.0, 150.0, 130.0])
WHITE, DARK, LIP = (np.array(colour, float) for colour in ((220, 215, 200), (45, 30, 30), (180, 110, 110)))
GROUND = 7.0


def lips(apart, *, size=4.0):
    """The mean face, enlarged, with even lips apart by so much of the mouth's width, and that width."""
    mesh = drawn.model().shape * size
    middle, wide = mesh[[78, 308]].mean(axis=0).round(), float(np.ptp(mesh[[78, 308], 0]))
    across = np.linspace(-0.5, 0.5, len(UPPER_LIP) + 2)
    arc = np.stack([across, 0.5 * apart * np.cos(np.pi * across)], axis=1)
    mesh[[78, *UPPER_LIP, 308]] = middle + wide * arc * (1, -1)
    mesh[LOWER_LIP] = middle + wide * arc[1:-1]
    return mesh, wide


def painted(mesh, colours, skin=SKIN):
    width, height = np.ceil(mesh.max(axis=0)).astype(int) + 9
    face = np.full((height, width, 3), GROUND, np.float32)
    mouth.paint_mouth(face, mesh, np.asarray(colours, float), skin)
    return face


def column(face, mesh, aside):
    """The colours from the upper lip to the lower one, so many widths of the mouth beside its middle."""
    x, top, bottom = ends(mesh, aside)
    return face[int(np.ceil(top)) : int(bottom) + 1, x]


def ends(mesh, aside):
    """A column of pixels, and where the lips are in it."""
    x = round(mesh[[78, 308], 0].mean() + aside * np.ptp(mesh[[78, 308], 0]))
    return x, *(np.interp(x, mesh[line, 0], mesh[line, 1]) for line in (UPPER_LIP, LOWER_LIP))


def test_teeth_are_light_and_not_red():
    colours = np.stack([LIP, WHITE, WHITE, 0.4 * WHITE, DARK, LIP])
    assert mouth.tooth_scores(colours, SKIN).tolist() == [0, 1, 1, 0, 0, 0]
    assert not mouth.tooth_scores(np.stack([DARK, LIP, SKIN]), SKIN).any()


def test_what_is_light_below_the_dark_is_a_lip():
    assert mouth.tooth_scores(np.stack([WHITE, DARK, WHITE]), SKIN).tolist() == [1, 0, 0]


@quick
@given(st.floats(20, 255))
def test_in_a_grey_film_teeth_are_what_is_as_light_as_the_skin(light):
    colours = np.array([[0.5], [1.0], [0.75]]) * np.full(3, light)
    np.testing.assert_allclose(mouth.tooth_scores(colours, np.full(3, light)), [0, 1, 0], atol=1e-9)


@quick
@given(st.integers(0, 999), st.floats(0.1, 0.4))
def test_what_is_no_tooth_has_the_light_that_was_seen_and_the_hue_of_flesh(seed, apart):
    mesh, wide = lips(apart)
    light = np.random.default_rng(seed).uniform(0.1, 0.6, 8)
    beard = np.array([100.0, 140, 230])  # in the shade, and as light as the skin
    face = painted(mesh, light[:, None] * beard)
    x, top, bottom = ends(mesh, 0.0)
    rim = mouth.LIP_EDGE_SOFTNESS * wide / 2
    for y in range(int(top + rim) + 1, int(bottom - rim)):
        wanted = oracles.between_lips((y - top) / (bottom - top), light)
        np.testing.assert_allclose(face[y, x], wanted * SKIN * mouth.LIP_HUE, rtol=0.01)


def test_teeth_are_as_light_as_they_were_and_end_above_the_dark():
    mesh, _ = lips(0.3)
    light = column(painted(mesh, [WHITE, WHITE, WHITE, DARK, DARK, DARK, LIP, LIP]), mesh, 0.05).mean(axis=1)
    high = len(light)
    assert light[high // 5] == pytest.approx(WHITE.mean(), rel=0.05)
    assert light[int(0.5 * high)] < 0.3 * WHITE.mean()


@quick
@given(st.floats(0.3, 0.5))
def test_teeth_are_no_higher_than_teeth_are(apart):
    """A pale lower lip within the landmarks is not drawn as teeth."""
    mesh, wide = lips(apart)
    light = column(painted(mesh, [WHITE] * 8), mesh, 0.05).mean(axis=1)
    teeth = (light > 0.6 * WHITE.mean()).sum() / wide
    # they end within a row, of which there are eight
    assert mouth.TOOTH_HEIGHT_MAX - apart / 8 < teeth < mouth.TOOTH_HEIGHT_MAX + apart / 8
    assert light[-len(light) // 6] < 0.5 * SKIN.mean()


def test_lips_a_little_apart_show_teeth_all_over():
    mesh, wide = lips(0.1)
    light = column(painted(mesh, [WHITE] * 8), mesh, 0.05).mean(axis=1)
    rim = int(mouth.LIP_EDGE_SOFTNESS * wide)
    assert light[rim:-rim].min() > 0.9 * WHITE.mean()


@quick
@given(st.floats(-3, 3), st.floats(0.05, 2))
def test_lips_that_touch_show_nothing(roll, size):
    mesh = transform(_turn(roll), lips(0.0, size=size)[0])
    mesh += 5 - mesh.min(axis=0)
    assert (painted(mesh, [WHITE] * 8) == GROUND).all()


def test_teeth_are_nobodys():
    """The same on both sides, and darker towards the corners, whatever was seen."""
    mesh, _ = lips(0.2)
    face = painted(mesh, [LIP, WHITE, WHITE, WHITE, DARK])
    middle = round(mesh[[78, 308], 0].mean())
    left, right = face[:, : middle + 1][:, ::-1], face[:, middle:]
    common = min(left.shape[1], right.shape[1])
    np.testing.assert_allclose(left[:, :common], right[:, :common], atol=1)
    lightest = [column(face, mesh, aside).mean(axis=1).max() for aside in (0.05, 0.36, 0.42, 0.46)]
    assert lightest == sorted(lightest, reverse=True) and lightest[-1] < 0.5 * lightest[0]


def test_gaps_between_teeth_are_not_drawn_where_they_are_thinner_than_a_pixel():
    contrast = []
    for size in (8.0, 0.2):
        mesh, wide = lips(0.15, size=size)
        row = painted(mesh, [WHITE] * 8)[round(mesh[78, 1] - 0.02 * wide), :, 0]
        middle, far = mesh[[78, 308], 0].mean(), 0.12 * wide
        front = row[round(middle - far) : round(middle + far)]
        contrast.append(np.ptp(front) / front.max())
    assert contrast[1] < 0.4 * contrast[0]


@quick
@given(st.floats(-3, 3))
def test_a_mouth_turns_with_its_face(roll):
    mesh, _ = lips(0.3)
    colours = [LIP, WHITE, WHITE, DARK, DARK, LIP]
    turned = transform(_turn(roll), mesh)
    away = 20 - turned.min(axis=0)
    straight, rolled = painted(mesh, colours), painted(turned + away, colours)
    inner = mesh[list(INNER_LIPS)]
    places = inner.mean(axis=0) + 0.6 * (inner - inner.mean(axis=0))
    places = np.vstack([places, 0.5 * places + 0.5 * inner.mean(axis=0)])
    there = transform(_turn(roll), places) + away
    for (x, y), (u, v) in zip(places.round().astype(int), there.round().astype(int), strict=True):
        near = straight[y - 3 : y + 4, x - 3 : x + 4]
        assert (rolled[v, u] >= near.min(axis=(0, 1)) - 3).all()
        assert (rolled[v, u] <= near.max(axis=(0, 1)) + 3).all()


@pytest.mark.parametrize("away", [(-4000, 0), (4000, 0), (0, -4000), (0, 4000)])
def test_a_mouth_outside_the_picture_is_not_painted(away):
    face = np.full((50, 60, 3), GROUND, np.float32)
    mouth.paint_mouth(face, lips(0.3)[0] + away, np.stack([WHITE] * 8), SKIN)
    assert (face == GROUND).all()


def test_a_mouth_at_the_edge_is_painted_as_far_as_it_is_seen():
    mesh, _ = lips(0.3)
    whole = painted(mesh, [WHITE] * 8)
    middle = int(mesh[[78, 308], 0].mean())
    part = np.full((len(whole), middle, 3), GROUND, np.float32)
    mouth.paint_mouth(part, mesh, np.stack([WHITE] * 8), SKIN)
    np.testing.assert_array_equal(part, whole[:, :middle])


def _turn(roll):
    c, s = np.cos(roll), np.sin(roll)
    return np.array([[c, -s, 0], [s, c, 0]])
