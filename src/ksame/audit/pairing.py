"""Which published face is whose: the release, the originals and the mapping brought together."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ksame import io
from ksame.analysis import subjects as people
from ksame.attack.embed import FaceEmbeddings, FeatureCallback, embed_faces
from ksame.attack.recognisers import Recogniser
from ksame.core.arrays import FloatArray, IntArray, ProgressCallback
from ksame.core.errors import GuaranteeViolated, UsageError
from ksame.core.partition_type import check_law
from ksame.io.sources import Source
from ksame.methods.obscure import METHODS as AD_HOC
from ksame.release import CERTIFICATE, MappingRow, read_private, verify

NO_MAPPING = (
    "There is no mapping (give --private) and names were not kept: no attack can be scored, because nobody"
    " can say which answer is right."
)


@dataclass(frozen=True, eq=False)
class Claim:
    """What a release says of itself, and what of that verifies."""

    folder: Path
    certificate: Mapping[str, Any]  # empty: a folder that claims nothing
    checks: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    broken: str = ""  # why it does not verify

    @property
    def bound(self) -> float | None:
        """The chance that was promised; None where none was."""
        bound = self.certificate.get("bound", 1.0)
        return float(bound) if bound < 1 else None

    @property
    def portraits(self) -> bool:
        """Whether the published pictures are faces alone."""
        return self.certificate.get("publish") == "portrait"

    @property
    def in_place(self) -> bool:
        """Whether the faces of published pictures are where they were in the originals."""
        return "format" in self.certificate and not self.portraits

    @property
    def files(self) -> list[str]:
        """The published pictures that are there."""
        if "files" in self.certificate:
            return [name for name in self.certificate["files"] if (self.folder / name).is_file()]
        found = [*io.find_photos([self.folder]), *io.find_videos([self.folder])]
        return [str(one.path.relative_to(self.folder).as_posix()) for one in found]

    @property
    def videos(self) -> list[str]:
        """Those of them that are videos."""
        return [name for name in self.files if PurePosixPath(name).suffix.lower() in io.VIDEO_SUFFIXES]

    @property
    def mixed(self) -> bool:
        """Whether there are photos beside the videos."""
        return len(self.files) > len(self.videos) > 0

    @property
    def photos(self) -> Claim:
        """The same without the videos; a folder without a certificate is taken as it is."""
        videos = set(self.videos)
        files = {name: sha for name, sha in self.certificate.get("files", {}).items() if name not in videos}
        return replace(self, certificate={**self.certificate, "files": files}) if files else self

    @property
    def distinct(self) -> list[Path]:
        """One file of each kind: k people share one picture, and it is looked at once."""
        hashes = self.certificate.get("files", {})
        return [*{hashes.get(name, name): self.folder / name for name in self.files}.values()]


@dataclass(frozen=True, eq=False)
class FacePairs:
    """Faces and what was published for them, row by row; without a mapping there are none.

    Parameters
    ----------
    rows : tuple of Row
        Who became what.
    sources : mapping of str to Source
        The original photo of each input.
    notes : tuple of str
        What could not be paired, in sentences.
    missing : tuple of str
        Inputs of the mapping that are not among the originals.
    """

    rows: tuple[MappingRow, ...]
    sources: Mapping[str, Source]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def subjects(self) -> list[str]:
        """Who each row is."""
        return [row.subject for row in self.rows]


def find_private(release: str | Path, private: str | Path | None) -> Path | None:
    """Return the private folder: the one given, or the one beside the release if it is there."""
    if private is not None:
        return Path(private)
    out = Path(release).resolve()
    beside = out.with_name(out.name + ".private")
    return beside if (beside / "mapping.csv").is_file() else None


def read_claim(folder: str | Path, private: Path | None, *, k: int | None = None) -> Claim:
    """Return what a folder claims; one without a certificate claims nothing, or 1/k on the user's word."""
    out = Path(folder)
    if not out.is_dir():
        raise UsageError(f"{out} is not a folder: give a release, or a folder of de-identified photos.")
    if not (out / CERTIFICATE).is_file():
        said = {"k": k, "bound": 1 / k, "scope": "file", "publish": "scene"} if k else {}
        return Claim(out, said, unchecked=("there is no certificate: nothing vouches for these files",))
    try:
        result = verify(out, private=private)
        return Claim(out, {**result.certificate, "files": result.files}, result.checks, result.unchecked)
    except GuaranteeViolated as error:
        return Claim(out, _readable_certificate(out / CERTIFICATE), broken=_nameless(error))


def check_counts(claim: Claim, pairs: FacePairs) -> Claim:
    """Hold a folder whose k is only said to the one law: at least k people behind every picture.

    Codes that average each face's own neighbours leave every picture another one, however much they blur.
    """
    if "format" in claim.certificate or not claim.certificate or not pairs.rows:
        return claim
    images = [hashlib.sha256((claim.folder / row.output).read_bytes()).digest() for row in pairs.rows]
    try:
        check_law(images, pairs.subjects, claim.certificate["k"])
    except GuaranteeViolated as error:
        return replace(claim, broken=_nameless(error))
    return replace(claim, checks=(f"every picture stands for at least {claim.certificate['k']} people",))


def _nameless(error: GuaranteeViolated) -> str:
    """Return what is wrong without the name of a person: a page is passed on, an error message is not."""
    return re.sub(r"^Subject .* is behind ", "One person is behind ", str(error), flags=re.DOTALL)


def _readable_certificate(path: Path) -> Mapping[str, Any]:
    """Return a certificate that does not verify, for its figures, if it still has any."""
    try:
        certificate = json.loads(path.read_text(encoding="utf-8"))
        sound = isinstance(certificate["files"], dict) and float(certificate["bound"]) > 0
    except (ValueError, KeyError, TypeError):
        return {}
    return dict(certificate) if sound else {}


def pair_faces(
    claim: Claim, originals: Sequence[Source], private: Path | None, *, subjects: str | None = None
) -> FacePairs:
    """Bring files and originals together: by the mapping, or by names that were kept."""
    if private is not None:
        rows, _ = read_private(private)
        there = set(claim.files)
        rows = [row for row in rows if row.output in there]
        if not rows:
            raise UsageError(f"The mapping in {private} names no file of {claim.folder}: they do not match.")
        paired = keep_with_originals(rows, originals)
        return (
            _identify_people(paired, originals, subjects)
            if claim.certificate.get("method") in AD_HOC
            else paired
        )
    names = [source.name for source in originals]
    kept = {tree_stem(name): name for name in names}
    same = {name: kept[tree_stem(name)] for name in claim.files if tree_stem(name) in kept}
    if not same:
        return FacePairs((), {}, (NO_MAPPING,))
    rule = claim.certificate.get("subjects")
    told = subjects or (rule if rule in ("prefix", "folder") else "photo")
    who = dict(zip(names, _named(names, told), strict=True))
    hashes = claim.certificate.get("files", {})
    group = {value: i for i, value in enumerate(sorted({hashes.get(name, name) for name in same}))}
    rows = [MappingRow(old, who[old], group[hashes.get(new, new)], new) for new, old in sorted(same.items())]
    note = f"There is no mapping: faces were paired by file names, and people told by {told}."
    paired = keep_with_originals(rows, originals)
    return FacePairs(paired.rows, paired.sources, (note, *paired.notes), paired.missing)


def _identify_people(pairs: FacePairs, originals: Sequence[Source], subjects: str | None) -> FacePairs:
    """Tell people of an ad hoc release, which asks nobody: there every face of every photo is a person."""
    if subjects is None:
        note = "Every photo was taken for another person: if people have several, say so with --subjects."
        return replace(pairs, notes=(*pairs.notes, note))
    names = [source.name for source in originals]
    who = dict(zip(names, _named(names, subjects), strict=True))
    rows = tuple(
        # only the largest face of a photo carries the photo's name
        row._replace(subject=who[pairs.sources[row.input].name]) if row.subject.endswith("#0") else row
        for row in pairs.rows
    )
    return replace(pairs, rows=rows)


def keep_with_originals(rows: Sequence[MappingRow], originals: Sequence[Source]) -> FacePairs:
    """Keep the rows whose photo is among the originals, also if a folder was moved or renamed."""
    exact = {source.name: source for source in originals}
    base: dict[str, list[Source]] = {}
    for source in originals:
        base.setdefault(PurePosixPath(source.name).name, []).append(source)
    inputs = list(dict.fromkeys(row.input for row in rows))
    times = Counter(PurePosixPath(name).name for name in inputs)
    found = {}
    for name in inputs:
        last = PurePosixPath(name).name
        alike = base.get(last, [])
        if name in exact or (len(alike) == 1 and times[last] == 1):  # or ann/1.jpg would be bob/1.jpg
            found[name] = exact.get(name) or alike[0]
    missing = tuple(name for name in inputs if name not in found)
    if not found:
        raise UsageError(
            f"None of the {len(missing)} photos of the mapping is among the originals, the first is"
            f" {missing[0]!r}: give the folder that the release was made from."
        )
    notes = (f"{len(missing)} photos of the mapping are not among the originals.",) if missing else ()
    return FacePairs(tuple(row for row in rows if row.input in found), found, notes, missing)


def tree_stem(name: str) -> str:
    """Return a file's place in its tree, without the folder of a release and without its type."""
    path = PurePosixPath(name).with_suffix("")
    return str(path.relative_to("images") if path.parts[0] == "images" and len(path.parts) > 1 else path)


def _named(names: Sequence[str], how: str) -> list[str]:
    """Return who is on each photo by a rule of its name; "photo": every photo shows another person."""
    if how == "photo":
        return list(names)
    if how in ("prefix", "folder"):
        return (people.by_prefix if how == "prefix" else people.by_folder)(names)
    return people.from_csv(how, names)[0]


def gallery_subjects(names: Sequence[str], pairs: FacePairs, how: str | None, told: str | None) -> list[str]:
    """Return who is on each photo of a gallery; whoever is not of the release is a stranger.

    Parameters
    ----------
    names : sequence of str
        The photos.
    pairs : Pairs
        Who is in the release.
    how : str, optional
        The rule that the user gives.
    told : str, optional
        The rule of the release, which does as well if it is about names.

    Without a rule photos are those of the release if they have the same name. With one its answer
    counts: a stranger's 1.jpg is not that of somebody who has a 1.jpg, too.
    """
    there = set(pairs.subjects)
    rule = how or (told if told in ("prefix", "folder") else None)
    if rule is not None:
        who = _named(names, rule)
    else:
        base = Counter(PurePosixPath(name).name for name in [*pairs.sources, *names])
        known = {row.input: row.subject for row in reversed(pairs.rows)}  # the largest face, which is first
        known |= {last: who for name, who in known.items() if base[last := PurePosixPath(name).name] <= 2}
        who = [known.get(name) or known.get(PurePosixPath(name).name, name) for name in names]
    return [subject if subject in there else f"stranger: {subject}" for subject in who]


@dataclass(frozen=True, eq=False)
class EmbeddedPairs:
    """Originals and published faces as recognisers see them, row by row."""

    before: FaceEmbeddings
    after: FaceEmbeddings
    faceless: tuple[str, ...]  # published pictures without a usable face
    unseen: tuple[str, ...]  # original photos without one
    pointed: tuple[str, ...] = ()  # published pictures without one, where the attacker knows its place


def embed_pairs(
    claim: Claim,
    pairs: FacePairs,
    recognisers: Sequence[Recogniser],
    *,
    features: FeatureCallback | None = None,
    jobs: int | None = None,
    progress: ProgressCallback | None = None,
) -> EmbeddedPairs:
    """Look at all originals and at all published pictures, once each."""
    inputs = {name: i for i, name in enumerate(pairs.sources)}
    old = embed_faces(list(pairs.sources.values()), recognisers, features=features, jobs=jobs,
    progress=progress,
              stage="looking at the originals")  # fmt: skip
    before = old.rows(_faces_by_size(old, [inputs[row.input] for row in pairs.rows]))
    outputs, at, placed = published(claim, pairs, before)
    new = embed_faces(
        outputs,
        recognisers,
        features=features,
        placed=placed,
        jobs=jobs,
        progress=progress,
        stage="looking at the release",
    )
    after = new.rows(match_faces(new, at, before.xyxy, in_place=claim.in_place))
    faceless = tuple(outputs[i].name for i in new.failures if i not in new.photo)
    pointed = tuple(outputs[i].name for i in new.failures if i in new.photo)
    return EmbeddedPairs(before, after, faceless, tuple(list(inputs)[i] for i in old.failures), pointed)


def published(
    claim: Claim, pairs: FacePairs, before: FaceEmbeddings
) -> tuple[list[Source], list[int], dict[int, FloatArray]]:
    """Return the published pictures, the one of each row, and where the faces of scenes must be."""
    names = sorted({row.output for row in pairs.rows})
    place = {name: i for i, name in enumerate(names)}
    at = [place[row.output] for row in pairs.rows]
    return (
        [Source(name, claim.folder / name) for name in names],
        at,
        ({} if claim.portraits else face_places(before, at)),
    )


def _faces_by_size(seen: FaceEmbeddings, photos: Sequence[int]) -> IntArray:
    """Return the face of each row: the first row of a photo is its largest face, the second the next."""
    used: dict[int, int] = {}
    rows = []
    for photo in photos:
        faces = np.flatnonzero(seen.photo == photo)
        turn = used.get(photo, 0)
        used[photo] = turn + 1
        rows.append(int(faces[turn]) if turn < len(faces) else -1)
    return np.array(rows, np.intp)


def face_places(before: FaceEmbeddings, at: Sequence[int]) -> dict[int, FloatArray]:
    """Return where the faces of each published picture must be: where they were in the original."""
    there = [photo if found >= 0 else -1 for photo, found in zip(at, before.photo.tolist(), strict=True)]
    column = np.array(there)
    return {int(i): before.points[column == i] for i in np.unique(column[column >= 0])}


def match_faces(seen: FaceEmbeddings, at: Sequence[int], boxes: FloatArray, *, in_place: bool) -> IntArray:
    """Return the published face of each row: the one where the old one was, or the only or largest one.

    Parameters
    ----------
    in_place : bool
        Whether faces are surely where they were. In other pictures a face that is alone may be anywhere.
    """
    rows, several = [], Counter(at)
    for photo, box in zip(at, boxes, strict=True):
        faces = np.flatnonzero(seen.photo == photo)
        if not len(faces) or (several[photo] == 1 and not (in_place and np.isfinite(box).all())):
            rows.append(int(faces[0]) if len(faces) else -1)
            continue
        centre = (seen.xyxy[faces, :2] + seen.xyxy[faces, 2:]) / 2
        off = np.linalg.norm(centre - (box[:2] + box[2:]) / 2, axis=1)
        nearest = int(np.nanargmin(off)) if np.isfinite(off).any() else -1
        near = nearest >= 0 and off[nearest] < (box[2] - box[0]) / 2
        rows.append(int(faces[nearest]) if near else -1)
    return np.array(rows, np.intp)
