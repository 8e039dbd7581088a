"""The recipe: photos in, a certified release out.

``deidentify`` is the whole way on one screen. Beside it stand only the small decisions that
belong to no other module: who says which faces are one person, and what the files are called.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from ksame import media, weights
from ksame.core import CannotGuarantee, FaceSet, Guarantee, Space, UsageError, as_k, check_law
from ksame.faces import subjects as people
from ksame.faces.detect import residual
from ksame.gather import Gathered, Source, Watch, gather
from ksame.geometry import to_frame, transform
from ksame.journal import Journal
from ksame.partition import METHODS as PARTITIONS
from ksame.partition import select as group_by
from ksame.release import Private, Release, Row
from ksame.replace import centroid
from ksame.represent import EigenSpace, PixelSpace
from ksame.represent.embedding import RECOGNISERS, default_recogniser, embed

Picture = str | Path | NDArray[np.uint8]
T = TypeVar("T")

METHODS: dict[str, type[Space]] = {"ksame-pixel": PixelSpace, "ksame-eigen": EigenSpace}
FACE = np.array([[18.0, 30.0, 238.0, 315.0]])  # where the face is on the canonical frame, xyxy
SAME_PHOTO = 1.5  # mean difference in grey levels under which two small pictures are one
ONE_RELEASE = "no other release made from photos of these people is compared with this one"


def deidentify(
    inputs: Picture | Iterable[Picture],
    k: int = 5,
    *,
    method: str = "ksame-pixel",
    partition: str = "mdav",
    subjects: str | Path | Sequence[str] = "auto",
    select: str | None = None,
    names: Literal["random", "keep"] = "random",
    seed: int | None = None,
    jobs: int | None = None,
    engine: str = "threading",
    journal: Journal | None = None,
    watch: Watch | None = None,
) -> Release:
    """Replace every face so that at least k people share each published one.

    Parameters
    ----------
    inputs : path, array, or several
        Photos, folders of photos, or (h, w, 3) uint8 arrays.
    k : int
        People behind every published face.
    method, partition : str
        A name of ``METHODS`` and of ``ksame.partition.METHODS``.
    subjects : str, path or sequence
        Who is the same person: ``auto``, ``folder``, ``prefix``, a csv file, or one name per photo.
    select : str, optional
        A column of the csv: people with different values are never put in one group [G5 4.2].
    names : str
        Published file names: ``random``, or ``keep`` those of the inputs.
    seed : int, optional
        For tests and repeated runs; it must be kept as secret as the mapping.
    jobs, engine, journal, watch
        See ``ksame.gather.gather``.

    Examples
    --------
    ::

        release = ksame.deidentify("photos/", k=5)
        print(release.guarantee)
        release.save("out/")
    """
    fit = _choose("method", METHODS, method).fit
    group = _choose("partition", PARTITIONS, partition)
    sources = _sources(inputs)
    given = _given(sources, subjects, as_k(k))
    if seed is None:
        seed = journal.seed if journal else secrets.randbits(64)
    if not 0 <= seed < 2**256:
        raise UsageError(f"seed must be an integer from 0 to 2**256 - 1. Got {seed}.")
    rng = np.random.default_rng(seed)

    found = gather(sources, jobs=jobs, engine=engine, journal=journal, watch=watch)
    faces, told = _name(found, given)
    space = fit(faces)
    codes = space.encode(faces)
    label = _column(faces, select)
    groups = group_by(codes, k, label=label, partition=group, subjects=faces.subject, rng=rng)
    new, guarantee = centroid(codes, groups)
    pictures = space.decode(new[[rows[0] for rows in groups.groups]])  # one per group, so one for all in it

    files = [media.encode_png(picture) for picture in pictures]
    outputs = _outputs(faces.source, names, seed)
    check_law([files[label] for label in groups.labels], faces.subject, k)
    used = ("yunet", "mesh", "blazeface") + ((told.recogniser,) if told.recogniser else ())
    return Release(
        files={name: files[label] for name, label in sorted(zip(outputs, groups.labels, strict=True))},
        guarantee=_assume(guarantee, told.assumption, names),
        k=groups.k,
        method=method,
        publish="portrait",
        details={
            "partition": partition,
            "select": select,
            "subjects": told.how,
            "untouched_faces": sum(len(residual(picture, FACE)) for picture in pictures),
            "weights": {name: weights.CATALOGUE[name].sha256 for name in used},
        },
        private=Private(
            mapping=tuple(
                map(Row, faces.source.tolist(), faces.subject.tolist(), groups.labels.tolist(), outputs)
            ),
            settings={"method": method, "partition": partition, "select": select, "names": names}
            | {"k": groups.k, "seed": seed, "subjects": told.how},
            failures=found.failures,
        ),
    )


def _choose(option: str, choices: Mapping[str, T], name: str) -> T:
    """Return what a name stands for, or say which names there are."""
    if name not in choices:
        raise UsageError(f"There is no {option} {name!r}: choose one of {', '.join(choices)}.")
    return choices[name]


def _sources(inputs: Picture | Iterable[Picture]) -> list[Source]:
    """Return the photos that are meant, each with a name of its own."""
    given = [inputs] if isinstance(inputs, str | Path | np.ndarray) else list(inputs)
    paths = [item for item in given if not isinstance(item, np.ndarray)]
    arrays = [item for item in given if isinstance(item, np.ndarray)]
    sources = [Source(f"array-{index:05}", rgb) for index, rgb in enumerate(arrays)]
    sources += [Source(photo.name, photo.path) for photo in media.find(paths)]
    if not sources:
        raise UsageError(
            "There are no photos in what was given: name image files, or folders that hold some."
        )
    return sources


@dataclass(frozen=True)
class _Given:
    """What the user said of who is who: a name and labels for each photo, or nothing (auto)."""

    how: str
    subjects: Sequence[str] | None = None
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def _given(sources: Sequence[Source], subjects: str | Path | Sequence[str], k: int) -> _Given:
    """Read who is who before the long work, and count whether there can be k of them."""
    names = [source.name for source in sources]
    labels: Mapping[str, NDArray[Any]] = {}
    if subjects == "auto":
        return _Given("auto")
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
    as_k(k, len(set(who)))
    return _Given(how, who, labels)


@dataclass(frozen=True)
class _Told:
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


def _name(found: Gathered, given: _Given) -> tuple[FaceSet, _Told]:
    """Give every face its subject; a recogniser is asked about the faces that nobody named."""
    faces, at = found.faces, found.photo
    labels = {name: np.asarray(column)[at] for name, column in given.labels.items()}
    if given.subjects is not None and not found.rank.any():
        named = replace(faces, subject=np.asarray(given.subjects)[at], labels=labels)
        _refuse_copies(named)
        return named, _Told(given.how, _ASSUMED[given.how])
    recogniser = default_recogniser()
    threshold = RECOGNISERS[recogniser].same_person
    codes = np.concatenate(
        [
            embed(recogniser, rgb, transform(to_frame(p), p)[None])
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
        assumption = f"{_ASSUMED[given.how]}, and for further faces in a photo {assumption}"
    named = replace(faces, subject=np.asarray(subject), labels=labels)
    _refuse_copies(named)
    return named, _Told(given.how, assumption, recogniser)


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


def _column(faces: FaceSet, select: str | None) -> NDArray[Any]:
    """Return the label that keeps people apart; without one all are alike."""
    if select is None:
        return np.zeros(len(faces), int)
    return _choose("column to select by", faces.labels, select)


def _outputs(sources: NDArray[np.str_], names: str, seed: int) -> list[str]:
    """Return where each face is published."""
    if names == "keep":
        taken: Counter[str] = Counter()
        outputs = []
        for source in sources.tolist():
            stem = PurePosixPath("images", source).with_suffix("").as_posix()
            taken[stem] += 1
            outputs.append(f"{stem}.png" if taken[stem] == 1 else f"{stem}_{taken[stem]}.png")
        return outputs
    # A keyed hash and not the generator's output: published numbers must not give away its state.
    key = seed.to_bytes(32, "big")
    digests = (hashlib.blake2b(str(row).encode(), key=key, digest_size=8) for row in range(len(sources)))
    return [f"images/{digest.hexdigest()}.png" for digest in digests]


def _assume(guarantee: Guarantee, told: str, names: str) -> Guarantee:
    """Add what the claim rests on."""
    assumptions = [told, ONE_RELEASE]
    if names == "keep":
        assumptions.append("the file names, which were kept, do not tell who is shown")
    for assumption in assumptions:
        guarantee = guarantee.lower(because=assumption)
    return guarantee
