"""Composites repeat, their boxes are where the faces are, and covers are judged right."""

import numpy as np
import pytest

from composites import CONDITIONS, Face, compose, covered_share, empty, hidden_by, is_covered
from heads import OCCLUSIONS, bundled_heads
from ksame.core.boxes import Boxes
from ksame.models.detectors import detect

SHAPE = (480, 640)


@pytest.fixture(scope="module")
def heads():
    return bundled_heads(8, 5)


def photo(heads, faces, seed=0):
    return compose(heads, faces, np.random.default_rng(seed), "test", shape=SHAPE, distractors=0)


def test_a_seed_gives_one_photo(heads):
    one, same, other = (photo(heads, [Face(30, "")] * 4, seed) for seed in (1, 1, 2))
    assert (one.image == same.image).all() and (one.boxes == same.boxes).all()
    assert (one.image != other.image).any() and (one.boxes != other.boxes).any()


@pytest.mark.weights
def test_a_detector_sees_faces_where_they_are(heads):
    case = photo(heads, [Face(90, "")] * 4)
    found = detect(case.image).xyxy
    assert len(found) == 4
    for box in case.boxes:
        middle = (box[:2] + box[2:]) / 2
        near = np.abs((found[:, :2] + found[:, 2:]) / 2 - middle).max(axis=1).argmin()
        common = np.clip(np.minimum(box[2:], found[near, 2:]) - np.maximum(box[:2], found[near, :2]), 0, None)
        assert common.prod() > 0.85 * (box[2:] - box[:2]).prod()


@pytest.mark.parametrize("roll", [0, 90, 180, 270])
def test_a_quarter_turn_swaps_the_sides_of_the_box(heads, roll):
    upright, turned = (photo(heads[:1], [Face(80, "", roll=r)]).boxes[0] for r in (0, roll))
    sides = turned[2:] - turned[:2]
    assert np.allclose(sides[::-1] if roll % 180 else sides, upright[2:] - upright[:2])


def test_boxes_hold_only_what_is_seen(heads):
    whole, half, top = (
        photo([hide(heads[0])], [Face(80, "")]).boxes[0]
        for hide in (OCCLUSIONS["mask"], OCCLUSIONS["left half"], OCCLUSIONS["lower half"])
    )
    assert half[2] - half[0] < 0.6 * (whole[2] - whole[0])
    assert top[3] - top[1] < 0.6 * (whole[3] - whole[1])


def test_only_a_cover_over_the_face_hides_it():
    true = np.array([[100.0, 100, 140, 150]])
    covers = {
        "itself, as it is covered": is_covered(true, Boxes(true, np.ones(1), np.zeros((1, 5, 2)))),
        "beside it": hidden_by(true, true + np.array([60, 0, 60, 0])),
        "half of it": hidden_by(true, np.array([[80.0, 90, 120, 160]])),
        "a small one within": hidden_by(true, np.array([[110.0, 115, 130, 135]])),
        "nothing": hidden_by(true, np.zeros((0, 4))),
        "two halves": hidden_by(true, np.array([[85.0, 80, 125, 170], [115, 80, 155, 170]])),
    }
    assert {name for name, hidden in covers.items() if hidden.all()} == {
        "itself, as it is covered",
        "two halves",
    }


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_says_where_its_faces_are(heads, name):
    case = next(CONDITIONS[name](heads, np.random.default_rng(3)))
    low, high = case.boxes[:, :2], case.boxes[:, 2:]
    assert len(case.levels) == len(case.boxes) >= 8
    assert (low >= 0).all() and (high <= case.image.shape[1::-1]).all() and (low < high).all()


def test_a_photo_without_faces_has_no_boxes():
    (case,) = empty(np.random.default_rng(1), count=1, shape=SHAPE)
    assert case.image.shape == (*SHAPE, 3) and case.boxes.shape == (0, 4) and not case.levels


def test_the_covered_share_counts_overlaps_once():
    one = np.array([[20.0, 20, 60, 60]])
    area = np.pi * 20**2 / (100 * 100)
    assert covered_share(one, (100, 100, 3)) == pytest.approx(area, rel=0.1)
    assert covered_share(np.repeat(one, 3, axis=0), (100, 100, 3)) == covered_share(one, (100, 100, 3))
    assert covered_share(np.zeros((0, 4)), (100, 100, 3)) == 0
