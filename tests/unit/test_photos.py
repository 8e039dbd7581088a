from __future__ import annotations

import shutil
import threading
import time
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ksame import io
from ksame.analysis import photos as module
from ksame.analysis.identify import explain_failures
from ksame.analysis.photos import analyse_photos
from ksame.core.checkpoint import Checkpoint
from ksame.core.context import Context, parallel_map
from ksame.core.errors import CannotGuarantee, Failure, InputError, UsageError
from ksame.core.geometry import FRAME
from ksame.io.photos import read_pixels
from ksame.io.sources import Source, find_sources

SKY = np.full((64, 64, 3), 200, np.uint8)


def test_an_array_is_checked_and_made_rgb():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    rgb = read_pixels(Source("a", grey.T))
    assert rgb.shape == (4, 3, 3)
    assert (rgb == grey.T[..., None]).all()
    assert rgb.flags.c_contiguous
    assert (read_pixels(Source("a", SKY)) == SKY).all()
    for bad in (SKY.astype(float), SKY[..., :2], SKY[0, 0], np.zeros((0, 2, 3, 1), np.uint8)):
        with pytest.raises(InputError, match=r"a must be \(h, w, 3\) or \(h, w\) uint8"):
            read_pixels(Source("a", bad))


def test_sources_are_files_folders_and_arrays(tmp_path):
    (tmp_path / "b.png").write_bytes(io.encode_png(SKY))
    (tmp_path / "a.png").write_bytes(io.encode_png(SKY))
    assert [source.name for source in find_sources(str(tmp_path))] == ["a.png", "b.png"]
    assert [source.name for source in find_sources(tmp_path / "b.png")] == ["b.png"]
    assert [source.name for source in find_sources(SKY)] == ["array-00000"]
    assert [source.name for source in find_sources([tmp_path, SKY, SKY])] == [
        "array-00001",
        "array-00002",
        "a.png",
        "b.png",
    ]
    for nothing in ([], tmp_path.joinpath("empty")):
        tmp_path.joinpath("empty").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="There are no photos"):
            find_sources(nothing)


@settings(max_examples=20)
@given(st.lists(st.integers()), st.integers(1, 3))
def test_work_side_by_side_is_map(numbers, jobs):
    tasks = [(number, 2) for number in numbers]
    assert list(parallel_map(lambda a, b: a * b, tasks, jobs=jobs)) == [2 * number for number in numbers]


@pytest.mark.parametrize("leave", ["closed", "failed"])
def test_when_the_loop_is_left_no_work_is_under_way_any_more(leave):
    begun, done, lock = [], [], threading.Lock()

    def work(number):
        with lock:
            begun.append(number)
        time.sleep(0.02)
        with lock:
            done.append(number)
        if leave == "failed" and number == 3:
            raise RuntimeError("three")
        return number

    results = parallel_map(work, ((number,) for number in range(1000)), jobs=2)
    if leave == "closed":
        with closing(results):
            assert [next(results), next(results)] == [0, 1]
    else:
        with pytest.raises(RuntimeError, match="three"):
            list(results)
    assert sorted(begun) == sorted(done)
    assert len(begun) < 50


def test_an_engine_that_is_not_there():
    with pytest.raises(UsageError, match="There is no engine 'magic'"):
        list(parallel_map(len, [], jobs=1, engine="magic"))


def test_photos_that_failed_are_named_where_people_are_too_few():
    failures = [Failure("a.jpg", "no face was found")]
    with pytest.raises(CannotGuarantee) as error, explain_failures(failures):
        raise CannotGuarantee("too few")
    assert error.value.__notes__ == ["a.jpg: no face was found"]
    with pytest.raises(UsageError) as other, explain_failures(failures):
        raise UsageError("typo")
    assert not hasattr(other.value, "__notes__")


@pytest.fixture(scope="module")
def mixed(people, tmp_path_factory):
    """One face; two faces, the larger on the right; none; a file that is no photo."""
    folder = tmp_path_factory.mktemp("mixed")
    shutil.copy(people / "00003_aa.pgm", folder / "a.pgm")
    both = Image.new("L", (420, 300), 128)
    both.paste(Image.open(people / "00004_aa.pgm").resize((100, 149)), (20, 60))
    both.paste(Image.open(people / "00005_aa.pgm"), (200, 20))
    both.save(folder / "b.png")
    (folder / "c.png").write_bytes(io.encode_png(SKY))
    (folder / "d.png").write_bytes(b"no")
    return folder


@pytest.mark.weights
def test_faces_of_all_photos_side_by_side(mixed):
    seen = []
    context = Context(jobs=2, progress=lambda *stage: seen.append(stage))
    found = analyse_photos(find_sources(mixed), context, scale=0.5)
    assert found.faces.source.tolist() == ["a.pgm", "b.png", "b.png"]
    assert found.photo.tolist() == [0, 1, 1]
    assert found.rank.tolist() == [0, 0, 1]
    assert found.faces.xyxy[1, 0] > 200 > found.faces.xyxy[2, 2], "the largest face comes first"
    assert found.faces.rgb.shape == (3, 160, 128, 3)
    assert found.faces.points.shape == (3, 468, 2)
    assert set(found.faces.subject) == {""}
    assert [failure.input for failure in found.failures] == ["c.png", "d.png"]
    assert found.failures[0].reason == "no face was found"
    assert "cannot be read" in found.failures[1].reason
    assert seen == [("finding faces", done, 4) for done in range(1, 5)]


@pytest.mark.weights
def test_a_face_that_is_too_small_is_unusable_and_its_box_is_kept(mixed, monkeypatch):
    whole = analyse_photos(find_sources(mixed), Context(jobs=1), scale=0.5)
    monkeypatch.setattr(module, "MIN_EYE_DISTANCE_PX", 45.0)
    found = analyse_photos(find_sources(mixed), Context(jobs=1), scale=0.5)
    assert found.faces.source.tolist() == ["a.pgm", "b.png"]
    np.testing.assert_array_equal(found.unusable[1], whole.faces.xyxy[2:])
    assert [len(boxes) for boxes in found.unusable] == [0, 1, 0, 0]
    monkeypatch.setattr(module, "MIN_EYE_DISTANCE_PX", 1e6)
    with pytest.raises(InputError, match="its faces are too small or too turned to be used and 3 more"):
        analyse_photos(find_sources(mixed), Context(), scale=0.5)


@pytest.mark.weights
def test_a_bystander_does_not_become_the_largest_face(mixed, monkeypatch):
    """The photo's name is that of its largest face, also where that one cannot be used."""
    real = module.predict_meshes

    def turned(rgb, boxes):
        points, presence = real(rgb, boxes)
        return points, np.where(np.arange(len(boxes)) == 0, 0.0, presence)

    monkeypatch.setattr(module, "predict_meshes", turned)
    found = analyse_photos([Source("b", mixed / "b.png")], Context(), scale=0.5)
    assert found.rank.tolist() == [1]


@pytest.mark.weights
def test_the_scale_is_that_of_the_photos_unless_memory_is_short(mixed):
    (small,) = analyse_photos([Source("a", mixed / "a.pgm")], Context()).faces.rgb
    large = io.read_photo(mixed / "a.pgm").repeat(3, axis=0).repeat(3, axis=1)
    (big,) = analyse_photos([Source("a", large)], Context()).faces.rgb
    assert small.shape[0] < big.shape[0] == pytest.approx(3 * small.shape[0], rel=0.2)
    frame = 3 * FRAME.width * FRAME.height
    assert module._choose_scale([Source("a", large)] * 2, memory=2 * frame) == pytest.approx(1.0)
    assert module._choose_scale([Source("a", large)] * 2, memory=1) == 0.5, "less would be of no use"
    assert module._choose_scale([Source("c", mixed / "c.png")]) == 1.0


@pytest.mark.weights
def test_a_journal_spares_the_search_and_changes_nothing(mixed, tmp_path, monkeypatch):
    sources = find_sources(mixed)
    journal = Checkpoint.open(tmp_path / "journal.jsonl", seed=0, resume=False)
    first = analyse_photos(sources, Context(checkpoint=journal), scale=1.0)
    monkeypatch.setattr(module, "search", lambda rgb, **_: pytest.fail("it was known"))
    again = Checkpoint.open(tmp_path / "journal.jsonl", seed=0, resume=True)
    second = analyse_photos(sources, Context(checkpoint=again), scale=1.0)
    for name in ("rgb", "points", "xyxy", "score"):
        np.testing.assert_array_equal(getattr(first.faces, name), getattr(second.faces, name))
    assert FRAME.size(1.0) == second.faces.rgb.shape[2:0:-1]
    assert [failure.input for failure in second.failures] == ["c.png", "d.png"]
