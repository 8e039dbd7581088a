from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from composites import Face, compose, is_covered
from heads import bundled_heads
from ksame.analysis.search import (
    COARSEST_SIDE_PX,
    TILE_SIDES_PX,
    SearchView,
    search,
    tiles_of,
    views,
    visible_faces,
)
from ksame.core.boxes import Boxes
from ksame.core.geometry import transform
from ksame.models.detectors import detect, rotate_boxes_back
from ksame.render.cover import cover_boxes, cover_faces

sides = st.integers(1, 900)


@given(sides, sides, st.sampled_from([(1.5, 1.5), (0.4, 0.4), (2.25, 0.75)]))
def test_tiles_cover_the_photo_and_have_few_sizes(height, width, scales):
    tiles = tiles_of((height, width), SearchView(*scales, turns=(0,), alteration=0))
    assert {tile.side for tile in tiles} <= set(TILE_SIDES_PX)
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * [width - 1, height - 1]
    spots = np.concatenate(
        [corners, np.random.default_rng(0).uniform(0, 1, (20, 2)) * [width - 1, height - 1]]
    )
    inside = np.zeros(len(spots), bool)
    for tile in tiles:
        at = transform(tile.matrix, spots)
        inside |= ((at > -1) & (at < tile.side)).all(axis=1)
    assert inside.all()


@given(sides, sides)
def test_every_turn_has_a_ladder_of_scales_down_to_the_whole_photo(height, width):
    by_kind = {}
    for view in views(height, width):
        for turn in view.turns:
            by_kind.setdefault((turn, view.alteration), []).append((view.width_scale, view.height_scale))
    assert {turn for turn, alteration in by_kind if not alteration} == {0, 1, 2, 3}
    for scales in by_kind.values():
        assert (scales[-1][0] * width <= COARSEST_SIDE_PX and scales[-1][1] * height <= COARSEST_SIDE_PX) or (
            len(scales) == 1
        )
        assert all((np.array(a) == 2 * np.array(b)).all() for a, b in pairwise(scales))


@pytest.fixture(scope="module")
def photo():
    """A photo of four heads, of which one is upside down and one is small."""
    faces = [Face(90, "", roll=0), Face(70, "", roll=180), Face(24, "", roll=90), Face(60, "", roll=135)]
    return compose(bundled_heads(4, 11), faces, np.random.default_rng(12), "test", shape=(400, 500))


@pytest.mark.weights
def test_each_clear_face_is_found_once_whatever_its_roll_and_largest_first(photo):
    found = search(photo.image)
    assert is_covered(photo.boxes, found).all()
    centres = (photo.boxes[:, :2] + photo.boxes[:, 2:]) / 2
    for centre in centres[:2]:  # the others are in doubt, and may be found twice
        holds = ((found.xyxy[:, :2] < centre) & (centre < found.xyxy[:, 2:])).all(axis=1)
        assert holds.sum() == 1
    area = (found.xyxy[:, 2:] - found.xyxy[:, :2]).prod(axis=1)
    assert (np.diff(area) <= 0).all()
    (upside_down,) = (
        i for i, b in enumerate(found.xyxy) if (b[:2] < centres[1]).all() and (centres[1] < b[2:]).all()
    )
    left, right, nose = found.five[upside_down, :3]
    assert left[0] > right[0], "its points are turned with it"
    assert nose[1] < left[1]


@pytest.mark.weights
def test_the_fast_search_is_detection(photo):
    fast, usual = search(photo.image, effort="fast"), detect(photo.image)
    assert (fast.xyxy == usual.xyxy).all()


@pytest.mark.weights
def test_a_search_does_not_change_the_photo_and_repeats_itself(photo):
    before = photo.image.copy()
    one, two = search(photo.image), search(photo.image)
    assert (photo.image == before).all()
    assert (one.xyxy == two.xyxy).all()


@pytest.mark.weights
def test_a_search_does_not_depend_on_what_was_searched_before_or_beside_it(photo):
    alone = search(photo.image)
    others = [photo.image[:200], photo.image[:, :300], photo.image, photo.image[::-1]]
    with ThreadPoolExecutor(2) as pool:
        beside = list(pool.map(search, others))[2]
    assert (alone.xyxy == beside.xyxy).all()
    assert (alone.score == beside.score).all()


@pytest.mark.weights
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_photo_and_its_quarter_turn_show_the_same_faces(photo, turns):
    turned = np.ascontiguousarray(np.rot90(photo.image, turns))
    found = rotate_boxes_back(search(turned), turns, photo.image.shape)
    assert is_covered(photo.boxes, found).all()


@pytest.mark.weights
@pytest.mark.parametrize("shape", [(1, 1), (1, 700), (700, 1), (37, 41)])
def test_photos_of_odd_sizes_are_searched(shape):
    assert len(search(np.full((*shape, 3), 90, np.uint8))) == 0


@pytest.mark.weights
def test_visible_faces_are_those_that_nothing_explains(photo):
    assert len(visible_faces(photo.image, np.zeros((0, 4)))) > 0
    found = search(photo.image).xyxy
    hidden = cover_faces(photo.image, found)
    assert len(visible_faces(hidden, cover_boxes(found))) == 0
    assert isinstance(visible_faces(np.full((60, 60, 3), 128, np.uint8), np.zeros((0, 4))), Boxes)
