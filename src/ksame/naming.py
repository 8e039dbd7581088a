"""Who is who: what the user says of the photos, and a recogniser where nobody says anything.

k counts people, so a wrong answer here is a wrong promise: it is asked before the long work where
that can be, and stands among the assumptions of the certificate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from ksame.core import CannotGuarantee, FaceSet, UsageError, as_k
from ksame.faces import subjects as people
from ksame.gather import Gathered, Source
from ksame.geometry import FRAME, to_frame, transform
from ksame.represent.embedding import RECOGNISERS, default_recogniser, embed

SAME_PHOTO = 1.5  # mean difference in grey levels under which two small pictures are one


@dataclass(frozen=True)
class Given:
    """What the user said of who is who: a name and labels for each photo, or nothing (auto)."""

    how: str
    subjects: Sequence[str] | None = None
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def read_names(sources: Sequence[Source], subjects: str | Path | Sequence[str], k: int) -> Given:
    """Read who is who before the long work, and count whether there can be k of them."""
    names = [source.name for source in sources]
    labels: Mapping[str, NDArray[Any]] = {}
    if subjects == "auto":
        default_recogniser()  # that there is none is told before the long work
        return Given("auto")
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
    return Given(how, who, labels)


@dataclass(frozen=True)
class Told:
    """Who said who is who, for the certificate."""

    how: str
    assumption: str
    recogniser: str | None = None


_ASSUMED = {
    "csv": "the csv gives each person one name and no two people the same photo",
    "folder": "each person's photos are in one folder",
    "prefix": "each person has one prefix in the file names",
    "given": "each person was given one name",
}


def name_faces(found: Gathered, given: Given) -> tuple[FaceSet, Told]:
    """Give every face its subject; a recogniser is asked about the faces that nobody named."""
    faces, at = found.faces, found.photo
    labels = {name: np.asarray(column)[at] for name, column in given.labels.items()}
    if given.subjects is not None and not found.rank.any():
        named = replace(faces, subject=np.asarray(given.subjects)[at], labels=labels)
        _refuse_copies(named)
        return named, Told(given.how, _ASSUMED[given.how])
    recogniser = default_recogniser()
    threshold = RECOGNISERS[recogniser].same_person
    scale = faces.rgb.shape[2] / FRAME.width  # of the registered pictures, where the points are now
    codes = np.concatenate(
        [
            embed(recogniser, rgb, scale * transform(to_frame(p), p)[None])
            for rgb, p in zip(faces.rgb, faces.points, strict=True)
        ]
    )
    assumption = (
        f"{recogniser} told people apart, at a distance of {threshold:g}: one person was never taken for two"
    )
    if given.subjects is None:
        subject = people.auto(codes, threshold)
    else:  # only the largest face of a photo carries the photo's name
        known = [given.subjects[i] if rank == 0 else None for i, rank in zip(at, found.rank, strict=True)]
        subject = people.extend(known, codes, threshold)
        assumption = (
            f"{_ASSUMED[given.how]}, the largest face of a photo is the person named, and for further faces"
            f" {assumption}"
        )
        # a face that is known from a photo of its own has the labels of that photo
        own = dict(zip(reversed(given.subjects), reversed(range(len(given.subjects))), strict=True))
        labelled = [
            own.get(who, -1) if rank else i for who, i, rank in zip(subject, at, found.rank, strict=True)
        ]
        # whom nobody named has no label: that of the photo is somebody else's
        labels = {
            name: np.append(np.asarray(column).astype(object), "")[labelled].astype(str)
            for name, column in given.labels.items()
        }
    named = replace(faces, subject=np.asarray(subject), labels=labels)
    _refuse_copies(named)
    return named, Told(given.how, assumption, recogniser)


def _refuse_copies(faces: FaceSet) -> None:
    """Refuse one photo under the names of two people: their mean would be that photo."""
    small = np.stack([cv2.resize(rgb, (16, 20), interpolation=cv2.INTER_AREA) for rgb in faces.rgb])
    small = small.reshape(len(faces), -1).astype(np.float32)
    for one, other in sorted(KDTree(small).query_pairs(SAME_PHOTO * np.sqrt(small.shape[1]))):
        if faces.subject[one] != faces.subject[other]:
            raise CannotGuarantee(
                f"{str(faces.source[one])!r} and {str(faces.source[other])!r} show the same photo under the"
                " names of two people: give both one subject, or remove one."
            )
