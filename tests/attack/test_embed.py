"""One pass over pictures: equal ones once, what is not found is told, nothing of a picture is kept."""

from __future__ import annotations

import gc
import shutil
import weakref

import numpy as np
import pytest

from ksame import io
from ksame.attack.embed import embed_faces
from ksame.attack.recognisers import SURROUNDINGS_ATTACKERS, Recogniser, euclidean, surroundings_chips
from ksame.core.geometry import FRAME, register, transform
from ksame.io.sources import Source
from samples import mesh

LOOKED: list[int] = []


def _chips(rgb, points):
    LOOKED.append(len(points))
    faces = [register(rgb, p, scale=0.125) for p in points]
    return np.stack(faces) if faces else np.zeros((0, 40, 32, 3), np.uint8)


def _codes(chips):
    return chips.reshape(len(chips), -1).astype(np.float32)


TINY = Recogniser("tiny", _chips, _codes, euclidean)
WIDE = Recogniser("wide", _chips, _codes, euclidean, surroundings=True)


@pytest.fixture(scope="module")
def sources(people):
    return [Source(path.name, path) for path in sorted(people.iterdir())][:5]


@pytest.fixture(scope="module")
def seen(sources):
    return embed_faces(sources, [TINY], jobs=1)


def test_every_picture_gives_its_faces_in_order(seen, sources):
    assert seen.photo.tolist() == sorted(seen.photo)
    assert seen.codes["tiny"].shape == (len(seen), 40 * 32 * 3)
    assert seen.points.shape == (len(seen), 468, 2)
    assert (seen.largest(len(sources)) >= 0).all()
    assert not seen.failures


def test_workers_change_nothing(seen, sources):
    again = embed_faces(sources * 3, [TINY], jobs=2)
    assert again.photo.tolist() == [p + 5 * i for i in range(3) for p in seen.photo]
    np.testing.assert_array_equal(again.codes["tiny"], np.tile(seen.codes["tiny"], (3, 1)))


def test_equal_pictures_are_looked_at_once(sources, tmp_path):
    copy = shutil.copy(sources[0].pixels, tmp_path / "copy.pgm")
    array = io.read_photo(sources[1].pixels)
    LOOKED.clear()
    given = [sources[0], Source("copy", copy), Source("a", array), Source("b", array.copy())]
    told = []
    result = embed_faces(given, [TINY], jobs=1, progress=lambda *stage: told.append(stage))
    assert len(LOOKED) == 2
    assert told[-1] == ("embedding faces", 2, 2)
    first = result.largest(4)
    np.testing.assert_array_equal(result.codes["tiny"][first[0]], result.codes["tiny"][first[1]])
    np.testing.assert_array_equal(result.codes["tiny"][first[2]], result.codes["tiny"][first[3]])


def test_what_has_no_face_or_cannot_be_read_is_named_and_is_nan(sources, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    flat = np.full((90, 80, 3), 120, np.uint8)
    given = [Source("flat", flat), sources[0], Source("broken", tmp_path / "broken.jpg")]
    result = embed_faces(given, [TINY])
    assert result.failures[0] == "no face was found"
    assert "broken.jpg" in result.failures[2]
    rows = result.largest(3)
    assert rows.tolist() == [-1, 0, -1]
    table = result.rows(rows)
    assert np.isnan(table.codes["tiny"]).all(axis=1).tolist() == [True, False, True]
    assert table.photo.tolist() == [-1, 1, -1]


def test_nothing_but_faceless_pictures():
    flat = np.full((90, 80, 3), 120, np.uint8)
    result = embed_faces(
        [Source("flat", flat)], [TINY], features=lambda rgb, points: {"n": np.zeros(len(points))}
    )
    assert len(result) == 0
    assert result.codes["tiny"].shape == (0, 3840)
    assert np.isnan(result.rows(result.largest(1)).codes["tiny"]).all()
    assert len(embed_faces([], [TINY])) == 0


def test_a_face_that_no_detector_sees_is_pointed_at_and_only_its_inside_counts():
    place = mesh(2 * FRAME.five + 40)[None]
    rng = np.random.default_rng(0)
    covered = np.full((760, 640, 3), 60, np.uint8)
    covered[300:420, 220:380] = rng.integers(60, 90, (120, 160, 3))  # inside the face
    around = covered.copy()
    around[:120] = rng.integers(0, 255, (120, 640, 3))  # above it
    inside = covered.copy()
    inside[350:380, 280:320] = 200
    images = [Source(str(i), rgb) for i, rgb in enumerate((covered, around, inside))]
    result = embed_faces(images, [TINY, WIDE], placed=dict.fromkeys(range(3), place))
    assert result.largest(3).tolist() == [0, 1, 2]
    assert set(result.failures) == {0, 1, 2}  # found by nobody, all the same
    tiny, wide = result.codes["tiny"], result.codes["wide"]
    np.testing.assert_array_equal(tiny[0], tiny[1])
    assert (tiny[0] != tiny[2]).any()
    assert (wide[0] != wide[1]).any()


def test_equal_pictures_with_faces_in_other_places_are_two():
    plain = np.tile(np.arange(200, dtype=np.uint8)[:, None, None], (2, 300, 3))[:400]
    places = {i: mesh(FRAME.five + 20 * i)[None] for i in range(2)}
    result = embed_faces([Source("a", plain), Source("b", plain)], [TINY], placed=places)
    assert (result.codes["tiny"][0] != result.codes["tiny"][1]).any()


def test_nothing_of_a_picture_is_kept(sources):
    alive = []

    def make(path):
        rgb = io.read_photo(path)
        alive.append(weakref.ref(rgb))
        return rgb

    lazy = [Source(s.name, lambda path=s.pixels: make(path)) for s in sources]
    result = embed_faces(lazy, [TINY], jobs=1)
    gc.collect()
    assert len(alive) == len(sources)
    assert not any(ref() is not None for ref in alive)
    assert len(result) == len(sources)


def test_the_background_is_seen_without_the_face_and_crops_with_it():
    points = mesh()
    rng = np.random.default_rng(0)
    photo = rng.integers(0, 255, (320, 256, 3), dtype=np.uint8)
    other = photo.copy()
    middle = (slice(120, 240), slice(80, 180))
    other[middle] = 255 - other[middle]
    views = {who.name: who for who in SURROUNDINGS_ATTACKERS}
    chips = {name: [who.chips(rgb, points[None]) for rgb in (photo, other)] for name, who in views.items()}
    np.testing.assert_array_equal(*chips["background-lbp"])
    assert (chips["crop200-lbp"][0] != chips["crop200-lbp"][1]).mean() > 0.15
    assert (chips["crop300-lbp"][0] != chips["crop300-lbp"][1]).mean() > 0.08
    for name, who in views.items():
        codes = who.codes(np.concatenate(chips[name]))
        distance = who.train(codes, np.arange(2))(codes)
        assert (distance.argmin(axis=1) == [0, 1]).all() or name.startswith("background")
        assert who.chips(photo, points[None][:0]).shape == (0, 102, 102)


@pytest.mark.parametrize(("side", "wide"), [(200, 190), (300, 285), (400, 380)])
def test_a_crop_is_a_square_about_the_middle_of_the_face(side, wide):
    frame = np.zeros((320, 256, 3), np.uint8)
    frame[195 - 20 : 195 + 21, 128 - 10 : 128 + 11] = 255
    grown = np.kron(frame, np.ones((2, 2, 1), np.uint8))
    points = 2 * mesh() + 0.5
    np.testing.assert_allclose(transform(np.array([[0.5, 0, -0.25], [0, 0.5, -0.25]]), points), mesh())
    (chip,) = surroundings_chips(grown, points[None], side=side)
    rows, columns = np.nonzero(chip > 127)
    assert abs(rows.mean() - 50.5) < 0.6
    assert abs(columns.mean() - 50.5) < 0.6
    assert abs(np.ptp(rows) + 1 - 41 * 102 / wide) < 1.6


def test_a_covered_face_is_pointed_at_beside_one_that_is_found(sources, seen):
    photo = io.read_photo(sources[0].pixels)
    wide = np.concatenate([photo, np.full_like(photo, 60)], axis=1)
    hidden = seen.points[[0]] + [photo.shape[1], 0]
    places = np.concatenate([seen.points[[0]], hidden])
    result = embed_faces([Source("wide", wide)], [TINY], placed={0: places})
    assert len(result) == 2
    assert not result.failures
    np.testing.assert_allclose(result.xyxy[1], np.hstack([hidden[0].min(axis=0), hidden[0].max(axis=0)]))
    assert result.codes["tiny"].shape[0] == 2
