"""Whether an image has colour, and what is drawn into one without."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import oracles
from ksame import io as ksame_io
from ksame.methods.shift.pool import Pool
from ksame.render.tone import is_grey, is_monochrome, match_tone, to_grey, to_tone, tone_curve

SMALL = Pool.bundled().image(0)  # a synthetic face in colour
FACE = np.s_[60:160, 80:180]


def sepia(rgb):
    return np.clip(to_grey(rgb) * (1.07, 0.95, 0.75) + (8, 2, 0), 0, 255).round().astype(np.uint8)


def noisy(rgb, sigma):
    noise = np.random.default_rng(0).normal(0, sigma, rgb.shape)
    return np.clip(rgb + noise, 0, 255).round().astype(np.uint8)


def as_jpeg(rgb, quality):
    stream = io.BytesIO()
    Image.fromarray(rgb).save(stream, "JPEG", quality=quality)
    return np.asarray(Image.open(stream).convert("RGB"))


def with_new_face(photo):
    """A photo with colours where its face was."""
    drawn = photo.copy()
    drawn[FACE] = np.random.default_rng(1).integers(0, 256, drawn[FACE].shape)
    return drawn


@pytest.mark.parametrize("quality", [None, 60, 75, 95])
@pytest.mark.parametrize("sigma", [0, 2, 6])
def test_a_grey_photo_is_grey_with_noise_and_as_jpeg(quality, sigma):
    photo = noisy(to_grey(SMALL), sigma)
    photo = photo if quality is None else as_jpeg(photo, quality)
    assert is_grey(photo) and is_monochrome(photo)


@pytest.mark.parametrize("saturation", [1.0, 0.5, 0.25])
def test_pale_colours_are_colours(saturation):
    grey = to_grey(SMALL)
    pale = (grey + saturation * (SMALL.astype(float) - grey)).round().astype(np.uint8)
    assert not is_grey(pale) and not is_monochrome(pale)
    drawn = with_new_face(pale)
    assert match_tone(drawn, pale) is drawn


def test_a_small_spot_of_colour_is_enough():
    photo = to_grey(SMALL)
    photo[100:116, 100:116] = SMALL[100:116, 100:116] // 2 + np.array([100, 20, 0], np.uint8)
    assert not is_grey(photo) and not is_monochrome(photo)


@pytest.mark.parametrize("photo", [sepia(SMALL), as_jpeg(sepia(SMALL), 75)], ids=["png", "jpeg"])
def test_a_toned_photo_is_no_grey_one_and_a_new_face_takes_its_tone(photo):
    assert is_monochrome(photo) and not is_grey(photo)
    drawn = with_new_face(photo)
    toned = match_tone(drawn, photo)
    off = np.abs(toned[FACE].astype(float) - sepia(drawn)[FACE]).mean()
    assert off < 3 < 30 < np.abs(drawn[FACE].astype(float) - sepia(drawn)[FACE]).mean()
    outside = np.ones(photo.shape[:2], bool)
    outside[FACE] = False
    assert (toned[outside] == photo[outside]).all()


@pytest.mark.parametrize(("suffix", "most"), [(".png", 0), (".jpg", 0), (".webp", 1)])
def test_equal_channels_are_equal_in_the_decoded_file(suffix, most):
    """WebP rounds: the channels of a grey photo that it has stored differ by a level themselves."""
    photo = to_grey(SMALL)
    for rgb in (photo, match_tone(with_new_face(photo), photo)):
        seen = ksame_io.decode(ksame_io.encode(rgb, suffix)).astype(int)
        assert np.ptp(seen, axis=2).max() == most


images = st.integers(0, 2**32).map(
    lambda seed: np.random.default_rng(seed).integers(0, 256, (12, 9, 3)).astype(np.uint8)
)


@given(images, images, st.integers(0, 12))
def test_equal_channels_stay_equal_whatever_is_drawn(photo, drawn, rows):
    photo = to_grey(photo)
    drawn[rows:] = photo[rows:]
    toned = to_tone(drawn, photo)
    assert (toned == to_grey(drawn)).all()
    assert (to_grey(toned) == toned).all(), "grey stays as it is"


@given(images, st.integers(0, 2**32))
def test_the_tone_is_the_mean_colour_of_pixels_about_as_light(photo, seed):
    where = np.random.default_rng(seed).random(photo.shape[:2]) < 0.5
    grey = to_grey(photo)[..., 0]
    levels = [0, 77, 128, 255]
    twin = oracles.tone_curve(photo[where].tolist(), grey[where].tolist(), levels)
    np.testing.assert_allclose(tone_curve(photo, where)[levels], twin, atol=1e-6)


def test_where_nothing_is_left_of_a_photo_what_is_drawn_is_grey():
    photo = sepia(SMALL)
    drawn = 255 - SMALL
    drawn[(drawn == photo).all(axis=2)] ^= 1
    assert (to_tone(drawn, photo) == to_grey(drawn)).all()
