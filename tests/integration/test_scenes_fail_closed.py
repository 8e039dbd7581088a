"""In a scene every face is replaced or covered, or the photo is not written."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from composites import Face, compose, empty
from heads import bundled_heads
from ksame import io
from ksame.core.boxes import Boxes

pytestmark = pytest.mark.weights
METHOD = ("--method", "pixelate", "--accept-no-guarantee")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Three photos: faces of all rolls, only small ones, and none."""
    folder = tmp_path_factory.mktemp("scenes")
    heads = bundled_heads(8, 401)
    turned = [Face(size, "", roll=roll) for size in (24, 60) for roll in (0, 45, 90, 180, 225)]
    cases = {
        "turned": compose(heads, turned, np.random.default_rng(402), "", shape=(500, 700)),
        "small": compose(heads, [Face(20, "")] * 4, np.random.default_rng(403), "", shape=(400, 600)),
        "none": next(empty(np.random.default_rng(404), count=1, shape=(400, 600), distractors=0)),
    }
    for name, case in cases.items():
        (folder / f"{name}.png").write_bytes(io.encode_png(case.image))
    return folder, cases


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def unchanged(before, after, boxes):
    """Return the share of pixels in the middle half of each face that are what they were."""
    same, margin = (before == after).all(axis=2), (boxes[:, 2:] - boxes[:, :2]) / 4
    middle = np.hstack([boxes[:, :2] + margin, boxes[:, 2:] - margin]).round().astype(int)
    return [same[y0:y1, x0:x1].mean() for x0, y0, x1, y1 in middle.tolist()]


def test_no_face_stays_as_it_was_and_photos_without_one_are_skipped(photos, tmp_path, cli):
    folder, cases = photos
    ran = cli("run", folder, "-o", tmp_path / "out", *METHOD, "--seed", 1, "--json")
    assert ran.code == 4
    assert [failure["input"] for failure in ran.json["failures"]] == ["none.png"]
    for name in ("turned", "small"):
        after = io.read_photo(tmp_path / "out" / "images" / f"{name}.png")
        assert max(unchanged(cases[name].image, after, cases[name].boxes)) < 0.2
    (one,) = rows(tmp_path / "out.private" / "faceless.csv")
    assert (one["input"], one["output"]) == ("small.png", "images/small.png")
    assert int(one["covered"]) >= 4
    assert cli("verify", tmp_path / "out", "--private", tmp_path / "out.private").code == 0


def test_photos_without_a_face_are_published_on_request(photos, tmp_path, cli):
    folder, cases = photos
    ran = cli("run", folder, "-o", tmp_path / "out", *METHOD, "--faceless", "publish", "--json")
    assert (ran.code, ran.json["failures"], ran.json["faceless_photos"]) == (0, [], 2)
    assert (io.read_photo(tmp_path / "out" / "images" / "none.png") == cases["none"].image).all()
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert (certificate["search"], certificate["faceless_photos"]) == ("full", 2)
    assert cli("verify", tmp_path / "out", "--private", tmp_path / "out.private").code == 0


@pytest.mark.parametrize("allowed", [False, True])
def test_a_photo_in_which_a_face_is_seen_to_the_end_is_not_written(
    photos, tmp_path, cli, monkeypatch, allowed
):
    folder, _ = photos
    face = Boxes(np.array([[5.0, 5, 30, 30]]), np.ones(1), np.zeros((1, 5, 2)))

    def see(rgb, known):
        return face if rgb.shape[:2] == (500, 700) else Boxes.none()

    monkeypatch.setattr("ksame.render.scene.visible_faces", see)
    more = ("--allow-residual",) if allowed else ()
    ran = cli("run", folder, "-o", tmp_path / "out", *METHOD, "--search", "fast", *more, "--json")
    assert ran.code == ran.json["exit_code"] == 5
    assert (tmp_path / "out" / "images" / "turned.png").exists() == allowed
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["untouched_faces"] == (1 if allowed else 0)
    assert certificate["withheld_files"] == (0 if allowed else 1)
    assert ("turned.png" in [failure["input"] for failure in ran.json["failures"]]) != allowed
    mapped = {row["output"] for row in rows(tmp_path / "out.private" / "mapping.csv")}
    assert mapped == ({"images/turned.png"} if allowed else {""})
    assert cli("verify", tmp_path / "out", "--private", tmp_path / "out.private").code == 0


@pytest.mark.parametrize("option", [("--search", "full"), ("--faceless", "skip"), ("--allow-residual",)])
def test_portraits_own_none_of_these_options(photos, tmp_path, cli, option):
    ran = cli("run", photos[0], "-o", tmp_path / "out", "-k", 2, *option)
    assert ran.code == 2
    assert f"ksame-m for photos, published as portrait, has no option {option[0]}" in ran.sentence
    assert not (tmp_path / "out").exists()
