"""The look through what would be published: a doubtful claim needs a witness, a sure one does not."""

from __future__ import annotations

import numpy as np
import pytest

from films import shot
from ksame.analysis.residual import grow_boxes, residual_faces
from ksame.core.boxes import Boxes
from ksame.models.detectors import detect

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def picture():
    """A person at the left of a plain wall, and where the face is."""
    person = shot("00001aa")
    rgb = np.full((720, 1280, 3), 150, np.uint8)
    rgb[100 : 100 + person.shape[0], 100 : 100 + person.shape[1]] = person
    return rgb, detect(rgb)


@pytest.fixture
def claimed(monkeypatch):
    """Have the second detector claim one box, given in the picture's own pixels."""

    def claim(xyxy, score):
        low, high = np.split(np.asarray(xyxy, float) / 2, 2)  # it looks at half the size
        five = low + (high - low) * [[0.3, 0.4], [0.7, 0.4], [0.5, 0.6], [0.35, 0.8], [0.65, 0.8]]
        found = Boxes(np.hstack([low, high])[None], np.array([score]), five[None])
        monkeypatch.setattr("ksame.analysis.residual.residual", lambda rgb, covered, **how: found)

    return claim


@pytest.mark.parametrize("witness", ["both", "the mesh", "the first detector"])
def test_a_doubtful_face_counts_with_either_witness(witness, picture, claimed, monkeypatch):
    rgb, found = picture
    claimed(found.xyxy[0], 0.51)
    if witness == "the mesh":
        nothing = lambda rgb: Boxes.none()  # noqa: E731
        monkeypatch.setattr("ksame.analysis.residual.DETECTORS", {"yunet": (nothing, 0.8)})
    elif witness == "the first detector":
        monkeypatch.setattr(
            "ksame.analysis.residual.predict_meshes", lambda rgb, boxes: (np.zeros((1, 468, 2)), np.zeros(1))
        )
    left = residual_faces(rgb, np.zeros((0, 4)))
    assert left == pytest.approx(found.xyxy[:1])


@pytest.mark.parametrize(("score", "count"), [(0.51, 0), (0.74, 0), (0.76, 1)])
def test_a_wall_counts_only_if_the_second_detector_is_sure(score, count, picture, claimed):
    claimed([900, 300, 1000, 400], score)
    assert len(residual_faces(picture[0], np.zeros((0, 4)))) == count


@pytest.mark.parametrize(("score", "count"), [(0.51, 0), (0.76, 1)])
def test_a_covered_face_that_is_seen_beside_itself_counts_only_if_the_detector_is_sure(
    score, count, picture, claimed
):
    """The box of the claim lies half beside the face; both witnesses see the face itself."""
    rgb, found = picture
    side = np.ptp(found.xyxy[0, ::2])
    claimed(found.xyxy[0] - [0.6 * side, 0.3 * side, 0.6 * side, 0.3 * side], score)
    assert len(residual_faces(rgb, found.xyxy)) == count


def test_a_face_counts_that_no_track_explains(picture):
    rgb, found = picture
    assert len(residual_faces(rgb, np.zeros((0, 4)))) == 1
    assert len(residual_faces(rgb, found.xyxy)) == 0
    assert len(residual_faces(rgb, np.array([[900.0, 300, 1000, 400]]))) == 1


def test_a_box_is_a_quarter_larger_and_a_small_one_more():
    """Of a face of 25 px the second detector sees the head: that is no face that nothing explains."""
    boxes = grow_boxes(np.array([[100.0, 100, 180, 260], [394, 222, 417, 250]]))
    assert boxes.tolist() == [[90, 80, 190, 280], [384, 212, 427, 260]]


def test_what_lasts_a_while_is_looked_for_in_every_third_picture_and_in_one_alone(picture, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "ksame.analysis.residual.residual", lambda rgb, covered, **how: asked.append(how) or Boxes.none()
    )
    for number in (None, *range(9)):
        residual_faces(picture[0], np.zeros((0, 4)), number)
    assert asked[0] == {"turns": (1, 2, 3), "wide": True}
    assert [how["wide"] for how in asked[1:]] == [True, False, False] * 3
    assert [how["turns"] for how in asked[1::3]] == [(1,), (2,), (3,)]
