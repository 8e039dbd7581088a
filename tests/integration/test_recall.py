"""The full search leaves no face of 20 px and more, at any roll, and is ahead of CenterFace."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from composites import LIGHTS, OCCLUSIONS, ROLLS, Face, compose, covered_share, empty, is_covered
from heads import bundled_heads
from ksame.analysis.search import search
from ksame.models.detectors import detect
from ksame.render.cover import cover_boxes

pytestmark = pytest.mark.weights

SEED = 7301  # not that of the benchmark, on which the search is tuned
SHAPE = (600, 800)
MOST_COVERED = 0.05  # of photos without a face: covering everything would leave no face either


@pytest.fixture(scope="module")
def heads():
    return bundled_heads(24, SEED)


def photo(heads, faces, seed):
    return compose(heads, faces, np.random.default_rng(SEED + seed), "test", shape=SHAPE, distractors=3)


def small(heads):
    return photo(heads, [Face(size, f"{size} px") for size in (12, 14, 16, 18) for _ in range(6)], 1)


def squeezed(heads):
    return photo(heads, [Face(size, "squeezed", squeeze=0.5) for size in (24, 44, 80) for _ in range(3)], 2)


def hidden(heads):
    hide = OCCLUSIONS["mask, sunglasses"]
    return photo(
        [hide(head) for head in heads], [Face(size, "") for size in (24, 44, 80) for _ in range(3)], 3
    )


def negative(heads):
    case = photo(heads, [Face(size, "negative") for size in (24, 44, 80) for _ in range(3)], 4)
    changed = LIGHTS["negative"](case.image.astype(np.float32), np.random.default_rng(0))
    return replace(case, image=changed.astype(np.uint8))


def moving(heads):
    case = photo(heads, [Face(60, "motion")] * 8, 5)
    return replace(case, image=cv2.blur(case.image, (19, 1)))


@pytest.mark.parametrize(("size", "count"), [(20, 24), (32, 24), (72, 8)])
def test_no_face_of_20_px_and_more_is_left_at_any_roll(heads, size, count):
    rolls = np.array(ROLLS).reshape(-1, count)  # several photos where faces are large
    for row, turns in enumerate(rolls.tolist()):
        case = photo(heads, [Face(size, f"{roll} degrees", roll=roll) for roll in turns], 10 * size + row)
        covered = is_covered(case.boxes, search(case.image, effort="full"))
        left = [level for level, ok in zip(case.levels, covered, strict=True) if not ok]
        assert not left, f"faces of {size} px are left at {', '.join(left)}"


@pytest.mark.parametrize("condition", [small, squeezed, hidden, negative, moving])
def test_the_full_search_is_ahead_of_centerface(heads, condition):
    case = condition(heads)
    ours, theirs = (
        int((~is_covered(case.boxes, found)).sum())
        for found in (search(case.image, effort="full"), detect(case.image, detector="centerface"))
    )
    assert ours < theirs or ours == theirs == 0, f"{ours} faces are left, {theirs} by CenterFace"


def test_little_is_covered_where_there_is_no_face():
    photos = list(empty(np.random.default_rng(SEED), count=6, shape=SHAPE, distractors=1))
    found = [search(case.image, effort="full").xyxy for case in photos]
    shares = [covered_share(cover_boxes(xyxy), (*SHAPE, 3)) for xyxy in found]
    assert np.mean(shares) <= MOST_COVERED, f"covers hide {np.round(shares, 3).tolist()} of them"
