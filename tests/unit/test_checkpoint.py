from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ksame.core.boxes import Boxes
from ksame.core.checkpoint import Checkpoint
from ksame.core.context import Context
from ksame.core.errors import UsageError

numbers = st.floats(-1e6, 1e6)
some_boxes = st.integers(0, 3).flatmap(
    lambda n: st.builds(
        Boxes,
        arrays(float, (n, 4), elements=numbers),
        arrays(float, n, elements=numbers),
        arrays(float, (n, 5, 2), elements=numbers),
    )
)
names = st.text(min_size=1) | st.just("\udcff\n.jpg")  # a name that is not UTF-8


def same(one: Boxes, other: Boxes) -> bool:
    return all(
        np.array_equal(getattr(one, column), getattr(other, column)) for column in ("xyxy", "score", "five")
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("journals")


@given(st.dictionaries(names, some_boxes, max_size=4), st.integers(0, 2**64 - 1))
def test_what_was_remembered_is_recalled_to_the_last_bit(folder, photos, seed):
    path = folder / "out.private" / "journal.jsonl"
    journal = Checkpoint.open(path, seed=seed, resume=False)
    for name, boxes in photos.items():
        assert journal.load_boxes(name, [1, 2]) is None
        journal.store_boxes(name, [1, 2], boxes)
    again = Checkpoint.open(path, seed=seed + 1, resume=True)
    assert again.seed == seed
    assert all(same(again.load_boxes(name, [1, 2]), boxes) for name, boxes in photos.items())
    assert all(again.load_boxes(name, [1, 3]) is None for name in photos), "the photo has changed since"


@given(st.lists(some_boxes, min_size=1, max_size=3), st.data())
def test_a_journal_that_was_cut_off_anywhere_is_whole_or_passed_over(folder, photos, data):
    path = folder / "cut" / "journal.jsonl"
    journal = Checkpoint.open(path, seed=7, resume=False)
    for number, boxes in enumerate(photos):
        journal.store_boxes(str(number), [], boxes)
    whole = path.read_bytes()
    left = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:left])
    again = Checkpoint.open(path, seed=8, resume=True)
    assert again.seed == (7 if left >= len('{"seed": 7}') else 8)
    for number, boxes in enumerate(photos):
        known = again.load_boxes(str(number), [])
        assert known is None or same(known, boxes)
    again.store_boxes("new", [], photos[0])
    third = Checkpoint.open(path, seed=9, resume=True)
    assert third.seed == again.seed
    assert same(third.load_boxes("new", []), photos[0]), "what comes after the cut is not glued to it"


def test_a_seed_line_that_was_cut_off_starts_anew(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text('{"see')
    assert Checkpoint.open(path, seed=8, resume=True).seed == 8
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"seed": 8}]


def test_a_new_journal_forgets_the_old_one(tmp_path):
    path = tmp_path / "private" / "journal.jsonl"
    Checkpoint.open(path, seed=1, resume=False).store_boxes("a", [], Boxes.none())
    assert Checkpoint.open(path, seed=2, resume=False).load_boxes("a", []) is None
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_it_removes_itself_and_its_folder_only_if_empty(tmp_path):
    path = tmp_path / "private" / "journal.jsonl"
    Checkpoint.open(path, seed=1, resume=False).remove()
    assert not path.parent.exists()
    journal = Checkpoint.open(path, seed=1, resume=False)
    (path.parent / "mapping.csv").touch()
    journal.remove()
    journal.remove()
    assert [file.name for file in path.parent.iterdir()] == ["mapping.csv"]


def test_a_resumed_checkpoint_keeps_its_seed(tmp_path):
    Checkpoint.open(tmp_path / "journal.jsonl", seed=5, resume=False)
    assert Checkpoint.open(tmp_path / "journal.jsonl", seed=6, resume=True).seed == 5
    assert Checkpoint.open(tmp_path / "journal.jsonl", seed=6, resume=False).seed == 6


def test_a_seed_is_checked_or_drawn():
    assert Context(seed=2**256 - 1).seed == 2**256 - 1
    assert Context().seed != Context().seed
    for bad in (-1, 2**256):
        with pytest.raises(UsageError, match="seed must be an integer from 0"):
            Context(seed=bad)


@pytest.mark.parametrize("linked", [True, False])
def test_finished_videos_are_put_in_their_place_again(tmp_path, linked, monkeypatch):
    if not linked:  # as on a disk that knows no second names, or from one disk to another
        monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(OSError("no links here")))
    path = tmp_path / "private" / "journal.jsonl"
    journal = Checkpoint.open(path, seed=1, resume=False)
    film = tmp_path / "partial" / "a.mp4"
    film.parent.mkdir()
    film.write_bytes(b"film")
    journal.store_video("key", film, [[["", 3, 0.1, "1 2 3 4"]], ["a note"]])
    film.unlink()
    again = Checkpoint.open(path, seed=2, resume=True)
    assert again.load_video("another", film) is None
    assert not film.exists()
    assert again.load_video("key", film) == [[["", 3, 0.1, "1 2 3 4"]], ["a note"]]
    assert film.read_bytes() == b"film"
    assert again.load_video("key", film.with_suffix(".mkv")) is None, "of another type"
    assert (path.parent / "finished").stat().st_mode & 0o777 == 0o700
    again.remove()
    assert not path.parent.exists()


def test_a_new_journal_forgets_finished_videos(tmp_path):
    path = tmp_path / "private" / "journal.jsonl"
    (tmp_path / "a.mp4").write_bytes(b"film")
    Checkpoint.open(path, seed=1, resume=False).store_video("key", tmp_path / "a.mp4", [])
    assert Checkpoint.open(path, seed=1, resume=False).load_video("key", tmp_path / "b.mp4") is None
    assert not (path.parent / "finished").exists()
