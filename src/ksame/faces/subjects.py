"""Who is who: from folders, file names, a csv, or codes of a recogniser.

To split one person into two subjects breaks the promise, because k would count that person twice.
To join two people is safe: it only wastes. Every rule here errs on the side of joining.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ksame.core import FloatArray, UsageError
from ksame.text import csv_value

__all__ = ["Row", "about", "auto", "by_folder", "by_prefix", "extend", "from_csv", "table"]

_BLOCK = 1024  # rows of the distance matrix that are in memory at a time


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
        raise UsageError(f"Photos must be in one folder per person: {_some(loose)} is in none.")
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
        raise UsageError(f'No file name has a "_" that would end the person\'s name: {_some(given)}.')
    people = [PurePosixPath(name).stem.split("_")[0] for name in given]
    blank = [name for name, person in zip(given, people, strict=True) if not person]
    if blank:
        raise UsageError(f'File names must begin with the person before the first "_": {_some(blank)}.')
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
            f"{source} names photos that are not in the input, or not just one: {_some(unknown)}."
        )
    twice = [name for name, times in Counter(known[name] for name in listed).items() if times > 1]
    if twice:
        raise UsageError(f"{source} names a photo more than once: {_some(twice)}.")
    found = {known[name]: row for name, row in zip(listed, rows, strict=True)}
    missing = [name for name in names if name not in found or not found[name]["subject"].strip()]
    if missing:
        raise UsageError(f"{source} gives no subject for {_some(missing)}.")
    labels = {c: np.array([found[name][c].strip() for name in names]) for c in columns}
    subjects = labels.pop("subject").tolist()
    del labels["file"]
    return subjects, labels


def about(file: str | os.PathLike[str], subjects: Sequence[str]) -> dict[str, NDArray[np.str_]]:
    """Return what a csv with a row for each person says of them, as labels; empty where it says nothing.

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
    """Return the columns and rows of a csv that has the columns which are needed."""
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
        raise UsageError(f"{source} has more fields than columns in line {_some(long)}.")
    return columns, [dict(zip(columns, row.values(), strict=False)) for row in rows]


def auto(embeddings: ArrayLike, threshold: float) -> list[str]:
    """Return a subject for each face: faces linked by a chain of distances up to the threshold are one.

    Single linkage, because one photo that resembles two others joins them; average linkage split up
    to three times as many people at the same threshold.

    Parameters
    ----------
    embeddings : (n, d) array
        Codes of a recogniser.
    threshold : float
        A Euclidean distance; ``Recogniser.same_person`` is meant for it.

    Examples
    --------
    >>> auto([[0.0], [5.0], [0.5], [1.0]], threshold=0.6)
    ['person-001', 'person-002', 'person-001', 'person-001']
    """
    x = _codes(embeddings)
    return _named(_components(len(x), *_links(x, threshold)))


def extend(subjects: Sequence[str | None], embeddings: ArrayLike, threshold: float) -> list[str]:
    """Return a subject for each face where some are named already and None is not.

    A face without a name takes that of the nearest named face within the threshold, and may then
    pass it on. The rest are joined as in ``auto``.

    Parameters
    ----------
    subjects : sequence of str or None
        Who each face is, as far as somebody said so. These are kept.
    embeddings : (n, d) array
        Codes of a recogniser.
    threshold : float
        A Euclidean distance.

    Examples
    --------
    >>> extend(["ann", None, None, None], [[0.0], [0.5], [1.0], [9.0]], threshold=0.6)
    ['ann', 'ann', 'ann', 'person-001']
    """
    x = _codes(embeddings)
    if len(subjects) != len(x):
        raise UsageError(f"Each face needs a subject or None: {len(x)}. Got {len(subjects)}.")
    who, free = np.array(subjects, dtype=object), np.array([subject is None for subject in subjects], bool)
    a, b = _links(x, threshold)
    a, b = np.concatenate([a, b]), np.concatenate([b, a])
    while (edge := free[a] & ~free[b]).any():  # layer by layer: the faces next to a named one
        face, near = a[edge], b[edge]
        order = np.argsort(np.linalg.norm(x[face] - x[near], axis=1), kind="stable")
        face, nearest = np.unique(face[order], return_index=True)
        who[face], free[face] = who[near[order][nearest]], False
    inner = free[a]  # a link of a face that is still free leads to another such face
    group = _components(len(x), a[inner], b[inner])[free]
    who[free] = _named(group, taken={str(subject) for subject in subjects if subject is not None})
    return [str(subject) for subject in who]


class Row(NamedTuple):
    """One person in the table of who was grouped."""

    subject: str
    photos: int
    names: tuple[str, ...]  # the first few


def table(subjects: Sequence[str], names: Sequence[str], *, first: int = 3) -> list[Row]:
    """Return one row per subject, most photos first.

    Examples
    --------
    >>> table(["bob", "ann", "ann"], ["1.jpg", "2.jpg", "3.jpg"])[0]
    Row(subject='ann', photos=2, names=('2.jpg', '3.jpg'))
    """
    photos: dict[str, list[str]] = {}
    for subject, name in zip(subjects, names, strict=True):
        photos.setdefault(subject, []).append(name)
    rows = [Row(subject, len(mine), tuple(mine[:first])) for subject, mine in photos.items()]
    return sorted(rows, key=lambda row: -row.photos)


def _codes(embeddings: ArrayLike) -> FloatArray:
    x = np.asarray(embeddings)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise UsageError(f"embeddings must be a finite (n, d) array. Got shape {x.shape}.")
    return x.astype(np.float64)


def _links(x: FloatArray, threshold: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs of rows at most the threshold apart, a < b, block by block."""
    if not (np.isfinite(threshold) and threshold >= 0):
        raise UsageError(f"threshold must be a distance of at least 0. Got {threshold}.")
    square = (x**2).sum(axis=1)
    ends: list[tuple[Any, Any]] = []
    for start in range(0, len(x), _BLOCK):
        rows = slice(start, start + _BLOCK)
        # |a - b|^2 = |a|^2 + |b|^2 - 2 ab; rounding may only add links, as joining is the safe side
        distance = square[rows, None] + square[None, start:] - 2 * (x[rows] @ x[start:].T)
        a, b = np.nonzero(distance <= threshold**2 + 1e-12 * (1 + square.max()))
        ends.append((a[a < b] + start, b[a < b] + start))
    none = np.zeros(0, dtype=np.intp)
    return (
        np.concatenate([none, *(a for a, _ in ends)]),
        np.concatenate([none, *(b for _, b in ends)]),
    )


def _components(n: int, a: NDArray[np.intp], b: NDArray[np.intp]) -> NDArray[np.intp]:
    graph = coo_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def _named(groups: NDArray[np.intp], taken: set[str] | frozenset[str] = frozenset()) -> list[str]:
    """Return names by first appearance, none of which is taken."""
    width = max(3, len(str(len(groups) + len(taken))))
    free = (
        name for i in range(1, len(groups) + len(taken) + 1) if (name := f"person-{i:0{width}}") not in taken
    )
    names = {group: next(free) for group in dict.fromkeys(groups.tolist())}
    return [names[group] for group in groups.tolist()]


def _some(names: Sequence[str], first: int = 3) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - first} more" if len(names) > first else ""
    return ", ".join(names[:first]) + more
