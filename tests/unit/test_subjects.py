from __future__ import annotations

import pytest

from ksame.analysis.identify import by_folder, by_prefix, from_csv, subject_table
from ksame.core.errors import UsageError


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
    rows = subject_table(["a", "b", "b", "b", "b"], list("12345"))
    assert [row.subject for row in rows] == ["b", "a"]
    assert rows[0].photos == 4
    assert rows[0].names == ("2", "3", "4")
