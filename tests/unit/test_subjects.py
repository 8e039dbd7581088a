from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from ksame.core import UsageError
from ksame.faces import subjects
from ksame.faces.subjects import auto, by_folder, by_prefix, extend, from_csv, table

# whole numbers and a threshold between them: no distance is near it, so rounding cannot decide
codes = arrays(np.int64, st.tuples(st.integers(1, 14), st.integers(1, 3)), elements=st.integers(0, 6))
thresholds = st.sampled_from([0.5, 1.2, 2.1])


def groups(names):
    """The partition that names make, without the names."""
    return {frozenset(i for i, name in enumerate(names) if name == one) for one in set(names)}


@given(codes, thresholds)
def test_auto_is_single_linkage(x, threshold):
    assert groups(auto(x, threshold)) == oracles.single_linkage(x, threshold)


@given(codes, thresholds, st.randoms(use_true_random=False))
def test_auto_does_not_depend_on_the_order(x, threshold, random):
    order = list(range(len(x)))
    random.shuffle(order)
    moved = auto(x[order], threshold)
    back = [moved[order.index(i)] for i in range(len(x))]
    assert groups(back) == groups(auto(x, threshold))


@given(codes)
def test_a_larger_threshold_only_joins(x):
    small, large = groups(auto(x, 1.2)), groups(auto(x, 2.1))
    assert all(any(a <= b for b in large) for a in small)


def test_auto_names_by_first_appearance_and_in_blocks(monkeypatch):
    monkeypatch.setattr(subjects, "_BLOCK", 3)
    x = np.repeat(np.arange(8.0), 2)[::-1, None]
    assert auto(x, 0.1) == [f"person-{i // 2 + 1:03}" for i in range(16)]


def test_auto_never_splits_copies_of_one_photo():
    x = np.random.default_rng(0).normal(size=(50, 128)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert len(set(auto(np.concatenate([x, x]), 0.0))) == 50


@pytest.mark.parametrize("bad", [np.zeros(3), np.full((2, 2), np.nan)])
def test_auto_refuses_what_is_not_a_code(bad):
    with pytest.raises(UsageError, match="finite"):
        auto(bad, 1.0)


@pytest.mark.parametrize("threshold", [-1.0, float("nan"), float("inf")])
def test_auto_refuses_a_threshold_that_is_no_distance(threshold):
    with pytest.raises(UsageError, match="threshold"):
        auto([[1.0]], threshold)


def test_no_face_is_nobody():
    assert auto(np.zeros((0, 4)), 1.0) == []
    assert extend([], np.zeros((0, 4)), 1.0) == []


@given(codes, thresholds, st.data())
def test_extend_spreads_names_as_its_twin_does(x, threshold, data):
    told = data.draw(st.lists(st.sampled_from([None, "a", "b"]), min_size=len(x), max_size=len(x)))
    names = extend(told, x, threshold)
    assert all(name == given for name, given in zip(names, told, strict=True) if given is not None)
    fresh = groups([name if name.startswith("person-") else None for name in names])
    nobody = {i for i, name in enumerate(names) if not name.startswith("person-")}
    assert oracles.unreached(told, x, threshold) == fresh - {frozenset(nobody)}


@given(codes, thresholds)
def test_extend_without_names_is_auto(x, threshold):
    assert extend([None] * len(x), x, threshold) == auto(x, threshold)


def test_extend_takes_the_nearest_name():
    assert extend(["ann", "bob", None], [[0.0], [3.0], [1.6]], 2.0) == ["ann", "bob", "bob"]


def test_extend_makes_no_name_that_is_taken():
    assert extend(["person-001", None], [[0.0], [9.0]], 1.0) == ["person-001", "person-002"]


def test_extend_needs_a_row_per_face():
    with pytest.raises(UsageError, match="Each face"):
        extend(["ann"], [[0.0], [1.0]], 1.0)


def test_loose_photos_have_no_folder():
    assert by_folder(["a/b/1.jpg", "a/c/1.jpg"]) == ["a/b", "a/c"]
    with pytest.raises(UsageError, match=r"1\.jpg, 2\.jpg, 3\.jpg and 2 more"):
        by_folder([f"{i}.jpg" for i in range(1, 6)])


def test_a_prefix_must_be_there():
    assert by_prefix(["ann_1.jpg", "x/ann.png", "bob_2_3.jpg"]) == ["ann", "ann", "bob"]
    with pytest.raises(UsageError, match=r"_1\.jpg"):
        by_prefix(["_1.jpg"])


NAMES = ["a/1.jpg", "a/2.jpg", "b/1.jpg"]


@pytest.fixture
def write(tmp_path):
    def text(content, encoding="utf-8"):
        file = tmp_path / "who.csv"
        file.write_bytes(content.encode(encoding))
        return file

    return text


def test_a_csv_gives_subjects_and_labels(write):
    file = write("\ufefffile, subject ,gender\r\nb/1.jpg,bob,m\r\n2.jpg, ann ,f\r\na\\1.jpg,ann,f\r\n")
    who, labels = from_csv(file, NAMES)
    assert who == ["ann", "ann", "bob"]
    assert {name: column.tolist() for name, column in labels.items()} == {"gender": ["f", "f", "m"]}


ROWS = "file,subject\na/1.jpg,ann\na/2.jpg,ann\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("file,who\n", "columns file and subject. Got file, who"),
        ("", "columns file and subject"),
        ("file,subject,subject\n", "a column twice"),
        (ROWS, "no subject for b/1.jpg"),
        (ROWS + "b/1.jpg, \n", "no subject for b/1.jpg"),
        (ROWS + "b/1.jpg\n", "no subject for b/1.jpg"),
        (ROWS + "b/1.jpg,bob\nc.jpg,eve\n", "not in the input, or not just one: c.jpg"),
        (ROWS + "1.jpg,bob\n", "not just one: 1.jpg"),  # two photos have that base name
        (ROWS + "b/1.jpg,bob\n2.jpg,eve\n", "more than once: a/2.jpg"),
        (ROWS + "b/1.jpg,bob,x\n", "more fields than columns in line 4"),
    ],
)
def test_a_csv_that_leaves_a_doubt_is_refused(write, text, says):
    with pytest.raises(UsageError) as error:
        from_csv(write(text), NAMES)
    assert says in str(error.value)


def test_a_csv_that_cannot_be_read_is_named(write, tmp_path):
    with pytest.raises(UsageError, match=r"none\.csv cannot be read"):
        from_csv(tmp_path / "none.csv", NAMES)
    with pytest.raises(UsageError, match="cannot be read"):
        from_csv(write("file,subject\nä,b\n", "latin-1"), NAMES)


def test_the_table_has_most_photos_first():
    rows = table(["a", "b", "b", "b", "b"], list("12345"))
    assert [row.subject for row in rows] == ["b", "a"]
    assert rows[0].photos == 4
    assert rows[0].names == ("2", "3", "4")
