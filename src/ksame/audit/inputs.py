"""Both sides of the attacks on a release: its published faces, and the gallery that an attacker searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from ksame.attack.embed import FaceEmbeddings, FeatureCallback, concatenate_embeddings, embed_faces
from ksame.attack.recognisers import Recogniser
from ksame.audit.pairing import Claim, FacePairs, gallery_subjects
from ksame.core.arrays import FloatArray, IntArray, ProgressCallback
from ksame.core.errors import InputError
from ksame.io.sources import Source, find_sources


class AuditOptions(TypedDict, total=False):
    """Further options of ``ksame.audit``.

    Parameters
    ----------
    gallery : path
        What the attacker has instead of the originals: other photos of these people, and strangers.
        Strangers alone join the originals.
    subjects : str
        How the photos of the gallery show who they are, and all photos where there is no private folder:
        ``prefix``, ``folder`` or a csv. Photos of the gallery that do not follow it show strangers.
    labels : path
        A csv with a row for each person: gender, age, ethnicity; by default ``info.csv`` of the originals.
    other : path
        A second release of the same people, with its private folder next to it: both are compared.
    show_originals : bool
        Show faces of originals in the report, which must then stay as private as they are.
    frames : int or None
        Number of frames of each video to audit, evenly spread, by default 300; None: all.
    jobs, progress
        See ``ksame.analysis.photos.analyse_photos``.
    """

    gallery: str | Path | None
    subjects: str | None
    labels: str | Path | None
    other: str | Path | None
    show_originals: bool
    frames: int | None
    jobs: int | None
    progress: ProgressCallback | None


@dataclass(frozen=True, eq=False)
class AuditRequest:
    """What an audit attacks with, and its ``AuditOptions``."""

    recognisers: Sequence[Recogniser]
    originals: Sequence[Path]
    private: Path | None
    notes: tuple[str, ...] = ()  # what the report must say in any case
    gallery: str | Path | None = None
    subjects: str | None = None
    labels: str | Path | None = None
    other: str | Path | None = None
    show_originals: bool = False
    frames: int | None = 300
    jobs: int | None = None
    progress: ProgressCallback | None = None

    def embed(
        self,
        sources: Sequence[Source],
        stage: str,
        *,
        recognisers: Sequence[Recogniser] | None = None,
        features: FeatureCallback | None = None,
        placed: Mapping[int, FloatArray] | None = None,
    ) -> FaceEmbeddings:
        """Embed the faces of images: see ``ksame.attack.embed.embed_faces``."""
        return embed_faces(
            sources,
            self.recognisers if recognisers is None else recognisers,
            features=features,
            placed=placed,
            jobs=self.jobs,
            progress=self.progress,
            stage=stage,
        )


@dataclass(frozen=True, eq=False)
class EmbeddedPairs:
    """Originals and published faces, embedded, row by row.

    Parameters
    ----------
    before, after : FaceEmbeddings
        One face for each row; NaN where none was found.
    outputs : list of Source
        The published images.
    output : list of int
        The published image of each row.
    placed : mapping of int to (c, 468, 2)
        The meshes that each published image must show: where they were in the original; empty for portraits.
    faceless, pointed : tuple of str
        Published images without a detected face: those without any usable one, and those in which the
        attacker knows its place.
    unseen : tuple of str
        Original photos without a usable face.
    """

    before: FaceEmbeddings
    after: FaceEmbeddings
    outputs: list[Source]
    output: list[int]
    placed: Mapping[int, FloatArray]
    faceless: tuple[str, ...] = ()
    pointed: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


class Gallery(NamedTuple):
    """The faces that an attacker searches: who they are, and on which photo."""

    faces: FaceEmbeddings
    subjects: Sequence[str]
    photos: Sequence[str]
    sources: Sequence[Source]  # the photos themselves,
    source_subjects: Sequence[str]  # the person of each,
    largest: IntArray  # and the row of its largest face; -1: none was found
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AttackInputs:
    """Both sides of the attacks, and the promised bound."""

    request: AuditRequest
    claim: Claim
    pairs: FacePairs
    embedded: EmbeddedPairs
    gallery: Gallery

    @cached_property
    def photos(self) -> list[str]:
        """The photo that each published face was made from."""
        return [path_of(self.pairs.sources[row.input]) for row in self.pairs.rows]

    @cached_property
    def has_other_photos(self) -> bool:
        """Whether the gallery holds the very photos, and others of the same people besides."""
        return self.shows_other_photos(self.gallery.subjects, self.gallery.photos)

    def shows_other_photos(self, subjects: Sequence[str], photos: Sequence[str]) -> bool:
        """Return whether these are the very photos, and a person of the release has another one there."""
        released = set(zip(self.pairs.subjects, self.photos, strict=True))
        there = set(zip(subjects, photos, strict=True))
        photos_of: dict[str, set[str]] = {}
        for person, photo in there:
            photos_of.setdefault(person, set()).add(photo)
        return bool(released & there) and any(photos_of.get(p, set()) - {photo} for p, photo in released)

    def codes(self, recogniser: Recogniser) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the embeddings of the gallery and of the published faces."""
        return self.gallery.faces.codes[recogniser.name], self.embedded.after.codes[recogniser.name]

    def options(self, recogniser: Recogniser, **more: Any) -> dict[str, Any]:
        """Return the options of an attack with the gallery, and more."""
        return {
            "recogniser": recogniser,
            "bound": self.claim.bound,
            "subjects": self.gallery.subjects,
            "released_subjects": self.pairs.subjects,
        } | more


class Imitation(NamedTuple):
    """The attacker's photos of people of the release, and these de-identified in the same way."""

    rows: IntArray  # of the gallery
    faces: FaceEmbeddings  # what the method made of each
    subjects: list[str]
    photos: list[str]
    differences: tuple[str, ...]  # sentences on how the imitation differs from the method


def path_of(photo: Source) -> str:
    """Return the file of a photo, however its path was written."""
    return str(photo.pixels.resolve() if isinstance(photo.pixels, Path) else photo.name)


def embed_pairs(
    request: AuditRequest,
    claim: Claim,
    pairs: FacePairs,
    recognisers: Sequence[Recogniser],
    features: FeatureCallback,
) -> EmbeddedPairs:
    """Embed all originals and all published images, each once."""
    names, sources = list(pairs.sources), list(pairs.sources.values())
    published = sorted({row.output for row in pairs.rows})
    outputs = [Source(name, claim.folder / name) for name in published]
    number = {name: i for i, name in enumerate(names)}
    place = {name: i for i, name in enumerate(published)}
    original, output = [number[row.input] for row in pairs.rows], [place[row.output] for row in pairs.rows]
    in_place, is_portrait = claim.in_place, claim.is_portrait
    old = request.embed(sources, "embedding the originals", recognisers=recognisers, features=features)
    before = old.rows(old.by_size(original))
    placed = {} if is_portrait else before.meshes_by_image(output)
    new = request.embed(
        outputs, "embedding the release", recognisers=recognisers, features=features, placed=placed
    )
    after = new.rows(new.match_boxes(output, before.xyxy, in_place=in_place))
    return EmbeddedPairs(
        before,
        after,
        outputs,
        output,
        placed,
        faceless=tuple(outputs[i].name for i in new.failures if i not in new.photo),
        pointed=tuple(outputs[i].name for i in new.failures if i in new.photo),
        unseen=tuple(names[i] for i in old.failures),
    )


def build_gallery(
    request: AuditRequest,
    claim: Claim,
    pairs: FacePairs,
    embedded: EmbeddedPairs,
    recognisers: Sequence[Recogniser],
) -> Gallery:
    """Return the faces that the attacker has: the originals, or those of the gallery that was given.

    A gallery of strangers alone joins the originals: the attacker must find people among strangers, too.
    """
    if request.gallery is None:
        return _check_gallery(_gallery_of_originals(pairs, embedded))
    sources = find_sources(request.gallery)
    stored = claim.certificate.get("subjects")
    names = [source.name for source in sources]
    subjects = gallery_subjects(names, pairs, request.subjects, stored)
    faces = request.embed(sources, "embedding the gallery", recognisers=recognisers)
    rows = faces.largest(len(sources))
    largest = np.where(rows >= 0, np.arange(len(sources)), -1)
    photos = [*map(path_of, sources)]
    given = Gallery(faces.rows(rows), subjects, photos, sources, subjects, largest)
    if set(subjects) & set(pairs.subjects):
        return _check_gallery(given)
    return _check_gallery(_join_strangers(_gallery_of_originals(pairs, embedded), given))


def _gallery_of_originals(pairs: FacePairs, embedded: EmbeddedPairs) -> Gallery:
    photos = [path_of(pairs.sources[row.input]) for row in pairs.rows]
    first = {row.input: i for i, row in reversed([*enumerate(pairs.rows)])}
    row = np.array([first.get(name, -1) for name in pairs.sources])
    largest = np.where(embedded.before.photo[row] >= 0, row, -1)
    subjects = [pairs.subjects[i] for i in row]
    return Gallery(embedded.before, pairs.subjects, photos, list(pairs.sources.values()), subjects, largest)


def _join_strangers(originals: Gallery, strangers: Gallery) -> Gallery:
    """Return the originals with strangers among them."""
    start = len(originals.faces)
    note = (
        f"The gallery shows nobody of the release: its {len(strangers.sources)} photos count as strangers,"
        " and the attacker searched them together with the originals."
    )
    return Gallery(
        concatenate_embeddings([originals.faces, strangers.faces]),
        [*originals.subjects, *strangers.subjects],
        [*originals.photos, *strangers.photos],
        [*originals.sources, *strangers.sources],
        [*originals.source_subjects, *strangers.source_subjects],
        np.concatenate([originals.largest, np.where(strangers.largest >= 0, strangers.largest + start, -1)]),
        (note,),
    )


def _check_gallery(gallery: Gallery) -> Gallery:
    """Return the gallery if it shows a face: without any, every release would look safe."""
    if (gallery.largest < 0).all():
        raise InputError("No face was found in any photo that the attacker has: nothing can be measured.")
    return gallery
