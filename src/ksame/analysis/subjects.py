"""Read the subject of each photo from folders, file names or a csv. ``linking`` is for photos without."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.errors import UsageError
from ksame.core.text import csv_value

__all__ = ["SubjectRow", "by_folder", "by_prefix", "from_csv", "read_person_labels", "subject_table"]


def by_folder(names: Iterable[str]) -> list[str]:
    """Return the folder of each photo as its subject.

    Examples
    --------
    >>> by_folder(["ann/1.jpg", "ann/2.jpg", "bob/1.jpg"])
    ['ann', 'ann', 'bob']
    """
    paths = [PurePosixPath(name) for name in names]
    loose = [str(path) for path in paths if path.parent == PurePosixPath(".")]
    if loose:
        raise UsageError(f"Photos must be in one folder per person: {_shorten_names(loose)} is in none.")
    return [str(path.parent) for path in paths]


def by_prefix(names: Iterable[str]) -> list[str]:
    """Return each photo's file name up to the first "_" as its subject.

    Examples
    --------
    >>> by_prefix(["in/007_smiling.jpg", "in/007_neutral.jpg", "out/bob.jpg"])
    ['007', '007', 'bob']
    """
    given = list(names)
    if given and not any("_" in PurePosixPath(name).stem for name in given):
        raise UsageError(
            f'No file name has a "_" that would end the person\'s name: {_shorten_names(given)}.'
        )
    people = [PurePosixPath(name).stem.split("_")[0] for name in given]
    blank = [name for name, person in zip(given, people, strict=True) if not person]
    if blank:
        raise UsageError(
            f'File names must begin with the person before the first "_": {_shorten_names(blank)}.'
        )
    return people


def from_csv(
    file: str | os.PathLike[str], names: Sequence[str]
) -> tuple[list[str], dict[str, NDArray[np.str_]]]:
    """Return the subject of each photo and the further columns of a csv as labels.

    Parameters
    ----------
    file : path
        A csv with the columns file, subject and, if wanted, labels. ``file`` is the photo's name as
        in ``names``, or its base name where only one photo has that.
    names : sequence of str
        The photos.

    Raises
    ------
    UsageError
        If a column, a photo or a subject is missing, a photo is named twice, or a name is unknown.
    """
    source = Path(file)
    columns, rows = _read(source)
    base = Counter(PurePosixPath(name).name for name in names)
    known = {name: name for name in names}
    known |= {b: name for name in names if base[b := PurePosixPath(name).name] == 1 and b not in known}
    listed = [PurePosixPath(row["file"].strip().replace("\\", "/")).as_posix() for row in rows]
    listed = [name if name in known else csv_value(name) for name in listed]  # as in mapping.csv
    unknown = [name for name in listed if name not in known]
    if unknown:
        raise UsageError(
            f"{source} names photos that are not in the input, or not just one: {_shorten_names(unknown)}."
        )
    twice = [name for name, times in Counter(known[name] for name in listed).items() if times > 1]
    if twice:
        raise UsageError(f"{source} names a photo more than once: {_shorten_names(twice)}.")
    found = {known[name]: row for name, row in zip(listed, rows, strict=True)}
    missing = [name for name in names if name not in found or not found[name]["subject"].strip()]
    if missing:
        raise UsageError(f"{source} gives no subject for {_shorten_names(missing)}.")
    labels = {c: np.array([found[name][c].strip() for name in names]) for c in columns}
    subjects = labels.pop("subject").tolist()
    del labels["file"]
    return subjects, labels


def read_person_labels(file: str | os.PathLike[str], subjects: Sequence[str]) -> dict[str, NDArray[np.str_]]:
    """Return the columns of a csv with a row for each person as labels; empty for people without a row.

    The column ``subject``, or else the first, holds the person. Of the names of the others only the last
    word counts, so that ``face_gender`` is the label gender, and ``eth`` is ethnicity.

    Parameters
    ----------
    file : path
        The csv.
    subjects : sequence of str
        Who each face is.
    """
    columns, rows = _read(Path(file), needed=())
    key = "subject" if "subject" in columns else columns[0]
    by_subject = {row[key].strip(): row for row in rows}
    known = [by_subject.get(str(subject), {}) for subject in subjects]
    labels = {}
    for column in columns:
        name = column.lower().replace(" ", "_").split("_")[-1]
        if column != key and name:
            labels[{"eth": "ethnicity", "sex": "gender"}.get(name, name)] = np.array(
                [row.get(column, "").strip() for row in known]
            )
    return labels


def _read(
    source: Path, needed: Sequence[str] = ("file", "subject")
) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and rows of a csv; raise if a needed column is missing."""
    try:
        with source.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, restval="", restkey="")
            rows, columns = list(reader), [c.strip() for c in reader.fieldnames or []]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{source} cannot be read as a csv: {error}.") from None
    if not columns or not set(needed) <= set(columns):
        raise UsageError(
            f"{source} must have the columns {' and '.join(needed) or 'subject'}. Got {', '.join(columns)}."
        )
    if len(set(columns)) < len(columns):
        raise UsageError(f"{source} has a column twice: {', '.join(columns)}.")
    long = [str(line) for line, row in enumerate(rows, start=2) if "" in row and "" not in columns]
    if long:
        raise UsageError(f"{source} has more fields than columns in line {_shorten_names(long)}.")
    return columns, [dict(zip(columns, row.values(), strict=False)) for row in rows]


class SubjectRow(NamedTuple):
    """A subject in the table of subjects."""

    subject: str
    photos: int
    names: tuple[str, ...]  # the first few


def subject_table(subjects: Sequence[str], names: Sequence[str], *, first: int = 3) -> list[SubjectRow]:
    """Return one row per subject, most photos first.

    Examples
    --------
    >>> subject_table(["bob", "ann", "ann"], ["1.jpg", "2.jpg", "3.jpg"])[0]
    SubjectRow(subject='ann', photos=2, names=('2.jpg', '3.jpg'))
    """
    photos: dict[str, list[str]] = {}
    for subject, name in zip(subjects, names, strict=True):
        photos.setdefault(subject, []).append(name)
    rows = [SubjectRow(subject, len(mine), tuple(mine[:first])) for subject, mine in photos.items()]
    return sorted(rows, key=lambda row: -row.photos)


def _shorten_names(names: Sequence[str], first: int = 3) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - first} more" if len(names) > first else ""
    return ", ".join(names[:first]) + more
