"""Who is who: what the user says of the photos, and a recogniser where nobody says anything.

k counts people, so a wrong answer here is a wrong promise: it is asked before the long work where
that can be, and stands among the assumptions of the certificate.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from ksame.analysis.linkage import choose_linkage, embed_faces, link_faces
from ksame.analysis.photos import AnalysedPhotos
from ksame.core.context import Context
from ksame.core.errors import CannotGuarantee, Failure, UsageError
from ksame.core.faces import FaceSet, FaceView
from ksame.core.partition_type import as_k
from ksame.core.text import csv_value
from ksame.io.photos import read_pixels
from ksame.io.sources import Source

SAME_PHOTO_GREY_LEVELS = 1.5  # mean difference in grey levels under which two thumbnails are the same photo


@dataclass(frozen=True)
class SubjectHints:
    """What the user said of who is who: a name and labels for each photo, or nothing (auto)."""

    how: str
    subjects: Sequence[str] | None = None
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def read_subject_hints(
    sources: Sequence[Source], subjects: str | Path | Sequence[str], k: int
) -> SubjectHints:
    """Read who is who before the long work, and count whether there can be k of them."""
    names = [source.name for source in sources]
    labels: Mapping[str, NDArray[Any]] = {}
    if subjects == "auto":
        choose_linkage()  # that a recogniser is missing is told before the long work
        return SubjectHints("auto")
    if subjects == "folder":
        how, who = "folder", by_folder(names)
    elif subjects == "prefix":
        how, who = "prefix", by_prefix(names)
    elif isinstance(subjects, str | Path):
        how, (who, labels) = "csv", from_csv(subjects, names)
    else:
        how, who = "given", [str(subject) for subject in subjects]
    if len(who) != len(names):
        raise UsageError(f"subjects must name one person per photo: {len(names)}. Got {len(who)}.")
    if k > 1:  # one is enough where nobody hides behind others
        as_k(k, len(set(who)))
    return SubjectHints(how, who, labels)


@dataclass(frozen=True)
class SubjectSource:
    """Who said who is who, for the certificate."""

    how: str
    assumption: str | None  # None: nobody was asked, as every face counts as a person
    recognisers: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()  # subjects that hold people who were linked loosely


_ASSUMPTIONS = {
    "csv": "the csv gives each person one name and no two people the same photo",
    "folder": "each person's photos are in one folder",
    "prefix": "each person has one prefix in the file names",
    "given": "each person was given one name",
}


@dataclass(frozen=True, eq=False)
class IdentifiedPhotos:
    """Photos whose faces have been found and given their subjects: what a method plans for."""

    photos: AnalysedPhotos
    faces: FaceSet
    subject_source: SubjectSource
    predicted: dict[str, Any] = field(default_factory=dict, repr=False)  # once, whatever is planned

    @classmethod
    def from_faces(cls, faces: FaceSet) -> Self:
        """Return faces that were found and named elsewhere, without their photos."""
        nothing = np.zeros(len(faces), np.intp)
        found = AnalysedPhotos((), faces, np.arange(len(faces)), (), nothing, ())
        return cls(found, faces, SubjectSource("given", _ASSUMPTIONS["given"]))

    @classmethod
    def unlinked(cls, photos: AnalysedPhotos) -> Self:
        """Return faces each of which counts as a person, for methods to which it does not matter."""
        names = [f"{source}#{rank}" for source, rank in zip(photos.faces.source, photos.rank, strict=True)]
        return cls(photos, replace(photos.faces, subject=np.array(names)), SubjectSource("face", None))

    @property
    def subject(self) -> NDArray[np.str_]:
        """The subject of each face (n,)."""
        return self.faces.subject

    def views(self, max_count: int) -> dict[str, list[FaceView]]:
        """Return up to so many views of each person, in their photos."""
        views: dict[str, list[FaceView]] = {}
        for person in np.unique(self.subject).tolist():
            rows = np.flatnonzero(self.subject == person)
            some = rows[:: max(1, len(rows) // max_count)][:max_count]
            views[person] = [FaceView(self.pixels(row), self.faces.points[row]) for row in some]
        return views

    def pixels(self, face: int) -> NDArray[np.uint8]:
        """Read the photo of a face."""
        return read_pixels(self.photos.sources[self.photos.photo[face]])


def identify_faces(found: AnalysedPhotos, given: SubjectHints, k: int, context: Context) -> IdentifiedPhotos:
    """Give every face its subject, and refuse if there are fewer than k.

    Recognisers are asked about the faces that nobody named.
    """
    with explain_failures(found.failures):
        people = _identify(found, given, context)
        _refuse_copies(people.faces)
        if k > 1:
            as_k(k, len(np.unique(people.subject)))
    return people


@contextmanager
def explain_failures(failures: Iterable[Failure]) -> Iterator[None]:
    """Add the photos that failed to an error about too few people: they may be why."""
    try:
        yield
    except CannotGuarantee as error:
        for failure in failures:
            error.add_note(f"{failure.input}: {failure.reason}")
        raise


def _identify(found: AnalysedPhotos, given: SubjectHints, context: Context) -> IdentifiedPhotos:
    """Give every face the subject that was named for its photo, or that recognisers find."""
    faces, at = found.faces, found.photo
    labels = {name: np.asarray(column)[at] for name, column in given.labels.items()}
    if given.subjects is not None and not found.rank.any():
        named = replace(faces, subject=np.asarray(given.subjects)[at], labels=labels)
        return IdentifiedPhotos(found, named, SubjectSource(given.how, _ASSUMPTIONS[given.how]))
    linkage = choose_linkage()
    codes = embed_faces(faces, linkage.recognisers, context)
    assumption = str(linkage)
    if given.subjects is None:
        linked = link_faces(codes, linkage)
    else:  # only the largest face of a photo carries the photo's name
        known = [given.subjects[i] if rank == 0 else None for i, rank in zip(at, found.rank, strict=True)]
        linked = link_faces(codes, linkage, known)
        assumption = (
            f"{_ASSUMPTIONS[given.how]}, the largest face of a photo is the person named, and for further"
            f" faces {assumption}"
        )
        labels = _labels_of_further_faces(found, given, linked.subjects)
    named = replace(faces, subject=np.asarray(linked.subjects), labels=labels)
    loose = tuple(sorted({who for who, is_loose in zip(*linked, strict=True) if is_loose}))
    return IdentifiedPhotos(found, named, SubjectSource(given.how, assumption, linkage.recognisers, loose))


def _labels_of_further_faces(
    found: AnalysedPhotos, given: SubjectHints, subject: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return the labels of each face where photos show more than the person named.

    A face that is known from a photo of its own has the labels of that photo. Whom nobody named has
    none: that of the photo is somebody else's.
    """
    assert given.subjects is not None
    own = dict(zip(reversed(given.subjects), reversed(range(len(given.subjects))), strict=True))
    labelled = [
        own.get(who, -1) if rank else i for who, i, rank in zip(subject, found.photo, found.rank, strict=True)
    ]
    return {
        name: np.append(np.asarray(column).astype(object), "")[labelled].astype(str)
        for name, column in given.labels.items()
    }


def _refuse_copies(faces: FaceSet) -> None:
    """Refuse one photo under the names of two people: their mean would be that photo."""
    small = np.stack([cv2.resize(rgb, (16, 20), interpolation=cv2.INTER_AREA) for rgb in faces.rgb])
    small = small.reshape(len(faces), -1).astype(np.float32)
    for one, other in sorted(KDTree(small).query_pairs(SAME_PHOTO_GREY_LEVELS * np.sqrt(small.shape[1]))):
        if faces.subject[one] != faces.subject[other]:
            raise CannotGuarantee(
                f"{str(faces.source[one])!r} and {str(faces.source[other])!r} show the same photo under the"
                " names of two people: give both one subject, or remove one."
            )


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
        raise UsageError(f"{source} has more fields than columns in line {_shorten_names(long)}.")
    return columns, [dict(zip(columns, row.values(), strict=False)) for row in rows]


class SubjectRow(NamedTuple):
    """One person in the table of who was grouped."""

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
