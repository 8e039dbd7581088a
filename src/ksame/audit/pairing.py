"""Read a release and its claim, and pair published files with the originals they were made from."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ksame import io
from ksame.analysis import identify as people
from ksame.core.errors import GuaranteeViolated, UsageError
from ksame.core.partition_type import check_law
from ksame.io.sources import Source
from ksame.release import CERTIFICATE, MappingRow, method_name, read_manifest, read_private, verify
from ksame.render.obscure import METHODS as AD_HOC

NO_MAPPING = (
    "There is no mapping (give --private) and file names were not kept: no attack can be scored, because the"
    " right answers are unknown."
)
STRANGER = "stranger: "  # before the name of a person of a gallery who is not in the release


@dataclass(frozen=True, eq=False)
class Claim:
    """What a release claims, and what of that verifies."""

    folder: Path
    certificate: Mapping[str, Any]  # empty: a folder that claims nothing
    checks: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    broken: str = ""  # why it does not verify

    @property
    def verification(self) -> dict[str, Any]:
        """The certificate and its checks, as a report has them."""
        return {name: getattr(self, name) for name in ("certificate", "checks", "unchecked", "broken")}

    @property
    def bound(self) -> float | None:
        """The promised bound; None where none was promised."""
        bound = self.certificate.get("bound", 1.0)
        return float(bound) if bound < 1 else None

    @property
    def is_portrait(self) -> bool:
        """Whether the published images show faces alone."""
        return self.certificate.get("publish") == "portrait"

    @property
    def in_place(self) -> bool:
        """Whether the faces of published images are where they were in the originals."""
        return "format" in self.certificate and not self.is_portrait

    @property
    def files(self) -> list[str]:
        """The published files that are there."""
        if "files" in self.certificate:
            return [name for name in self.certificate["files"] if (self.folder / name).is_file()]
        found = [*io.find_photos([self.folder]), *io.find_videos([self.folder])]
        return [str(one.path.relative_to(self.folder).as_posix()) for one in found]

    @property
    def videos(self) -> list[str]:
        """The published files that are videos."""
        return [name for name in self.files if PurePosixPath(name).suffix.lower() in io.VIDEO_SUFFIXES]

    @property
    def is_mixed(self) -> bool:
        """Whether there are both videos and photos."""
        return len(self.files) > len(self.videos) > 0

    @property
    def photos(self) -> Claim:
        """The claim without the videos; a folder without a certificate is taken as it is."""
        videos = set(self.videos)
        files = {name: sha for name, sha in self.certificate.get("files", {}).items() if name not in videos}
        return replace(self, certificate={**self.certificate, "files": files}) if files else self

    @property
    def distinct(self) -> list[Path]:
        """One file of each content: k people share one image, which is read once."""
        hashes = self.certificate.get("files", {})
        return [*{hashes.get(name, name): self.folder / name for name in self.files}.values()]


@dataclass(frozen=True, eq=False)
class FacePairs:
    """Original faces and what was published for them, row by row; without a mapping there are none.

    Parameters
    ----------
    rows : tuple of MappingRow
        The person and the published file of each original face.
    sources : mapping of str to Source
        The original photo of each input.
    notes : tuple of str
        Sentences on what could not be paired.
    missing : tuple of str
        Inputs of the mapping that are not among the originals.
    """

    rows: tuple[MappingRow, ...]
    sources: Mapping[str, Source]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def subjects(self) -> list[str]:
        """The person of each row."""
        return [row.subject for row in self.rows]


def find_private(release: str | Path, private: str | Path | None) -> Path | None:
    """Return the private folder: the one given, or the one next to the release if it exists."""
    if private is not None:
        return Path(private)
    out = Path(release).resolve()
    default = out.with_name(out.name + ".private")
    return default if (default / "mapping.csv").is_file() else None


def read_claim(folder: str | Path, private: Path | None, *, k: int | None = None) -> Claim:
    """Return what a folder claims; without a certificate that is nothing, or 1/k if the user states a k."""
    out = Path(folder)
    if not out.is_dir():
        raise UsageError(f"{out} is not a folder: give a release, or a folder of de-identified photos.")
    if not (out / CERTIFICATE).is_file():
        stated = {"k": k, "bound": 1 / k, "scope": "file", "publish": "scene"} if k else {}
        return Claim(out, stated, unchecked=("there is no certificate: nothing vouches for these files",))
    try:
        result = verify(out, private=private)
        return Claim(out, {**result.certificate, "files": result.files}, result.checks, result.unchecked)
    except GuaranteeViolated as error:
        return Claim(out, _readable_certificate(out), broken=_anonymise(error))


def check_counts(claim: Claim, pairs: FacePairs) -> Claim:
    """Check a folder whose k the user stated against the law: at least k people behind every image.

    Averaging each face with its own neighbours gives every face another image, however blurred.
    """
    if "format" in claim.certificate or not claim.certificate or not pairs.rows:
        return claim
    images = [hashlib.sha256((claim.folder / row.output).read_bytes()).digest() for row in pairs.rows]
    try:
        check_law(images, pairs.subjects, claim.certificate["k"])
    except GuaranteeViolated as error:
        return replace(claim, broken=_anonymise(error))
    return replace(claim, checks=(f"every image stands for at least {claim.certificate['k']} people",))


def _anonymise(error: GuaranteeViolated) -> str:
    """Return an error without the name of a person: a report is passed on, an error message is not."""
    return re.sub(r"^Subject .* is behind ", "One person is behind ", str(error), flags=re.DOTALL)


def _readable_certificate(folder: Path) -> Mapping[str, Any]:
    """Return a certificate that does not verify, if its figures and files can still be read."""
    try:
        certificate = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))
        files = read_manifest(folder)
        is_readable = float(certificate["bound"]) > 0
    except (ValueError, KeyError, TypeError, GuaranteeViolated):
        return {}
    return {**certificate, "files": files} if is_readable else {}


def pair_faces(
    claim: Claim, originals: Sequence[Source], private: Path | None, *, subjects: str | None = None
) -> FacePairs:
    """Pair published files with originals: by the mapping, or by file names that were kept."""
    if private is not None:
        rows = read_private(private).mapping
        there = set(claim.files)
        rows = [row for row in rows if row.output in there]
        if not rows:
            raise UsageError(f"The mapping in {private} names no file of {claim.folder}: they do not match.")
        paired = keep_with_originals(rows, originals)
        return (
            _identify_people(paired, originals, subjects)
            if method_name(claim.certificate) in AD_HOC
            else paired
        )
    names = [source.name for source in originals]
    kept = {tree_stem(name): name for name in names}
    same = {name: kept[tree_stem(name)] for name in claim.files if tree_stem(name) in kept}
    if not same:
        return FacePairs((), {}, (NO_MAPPING,))
    stored = claim.certificate.get("subjects")
    rule = subjects or (stored if stored in ("prefix", "folder") else "photo")
    person = dict(zip(names, _subjects_by_rule(names, rule), strict=True))
    hashes = claim.certificate.get("files", {})
    group = {value: i for i, value in enumerate(sorted({hashes.get(name, name) for name in same}))}
    rows = [
        MappingRow(old, person[old], group[hashes.get(new, new)], new) for new, old in sorted(same.items())
    ]
    note = f"There is no mapping: faces were paired by file names, and people identified by {rule}."
    paired = keep_with_originals(rows, originals)
    return FacePairs(paired.rows, paired.sources, (note, *paired.notes), paired.missing)


def _identify_people(pairs: FacePairs, originals: Sequence[Source], subjects: str | None) -> FacePairs:
    """Identify the people of an ad hoc release, whose mapping counts every face as a person of its own."""
    if subjects is None:
        note = "Every photo counts as another person: if people have several photos, give --subjects."
        return replace(pairs, notes=(*pairs.notes, note))
    names = [source.name for source in originals]
    person = dict(zip(names, _subjects_by_rule(names, subjects), strict=True))
    rows = tuple(
        # only the largest face of a photo is the person whom the file name says
        row._replace(subject=person[pairs.sources[row.input].name]) if row.subject.endswith("#0") else row
        for row in pairs.rows
    )
    return replace(pairs, rows=rows)


def keep_with_originals(rows: Sequence[MappingRow], originals: Sequence[Source]) -> FacePairs:
    """Keep the rows whose photo is among the originals, also if a folder was moved or renamed."""
    exact = {source.name: source for source in originals}
    by_base: dict[str, list[Source]] = {}
    for source in originals:
        by_base.setdefault(PurePosixPath(source.name).name, []).append(source)
    inputs = list(dict.fromkeys(row.input for row in rows))
    count = Counter(PurePosixPath(name).name for name in inputs)
    found = {}
    for name in inputs:
        base = PurePosixPath(name).name
        candidates = by_base.get(base, [])
        # a base name must be unique on both sides, or ann/1.jpg would be taken for bob/1.jpg
        if name in exact or (len(candidates) == 1 and count[base] == 1):
            found[name] = exact.get(name) or candidates[0]
    missing = tuple(name for name in inputs if name not in found)
    if not found:
        raise UsageError(
            f"None of the {len(missing)} photos of the mapping is among the originals, the first is"
            f" {missing[0]!r}: give the folder that the release was made from."
        )
    notes = (f"{len(missing)} photos of the mapping are not among the originals.",) if missing else ()
    return FacePairs(tuple(row for row in rows if row.input in found), found, notes, missing)


def tree_stem(name: str) -> str:
    """Return a file's path without the images folder of a release and without its suffix."""
    path = PurePosixPath(name).with_suffix("")
    return str(path.relative_to("images") if path.parts[0] == "images" and len(path.parts) > 1 else path)


def _subjects_by_rule(names: Sequence[str], rule: str) -> list[str]:
    """Return the person of each photo by --subjects; "photo": every photo shows another person."""
    if rule == "photo":
        return list(names)
    if rule in ("prefix", "folder"):
        return (people.by_prefix if rule == "prefix" else people.by_folder)(names)
    return people.from_csv(rule, names)[0]


def gallery_subjects(
    names: Sequence[str], pairs: FacePairs, rule: str | None, stored: str | None
) -> list[str]:
    """Return the person of each photo of a gallery; whoever is not in the release is a stranger.

    A gallery may show other photos of the people of the release, strangers, or both. So a photo whose name
    does not follow the rule is refused nowhere: it shows a stranger.

    Parameters
    ----------
    names : sequence of str
        The photos.
    pairs : FacePairs
        The people of the release.
    rule : str, optional
        The user's --subjects.
    stored : str, optional
        The rule of the release, which serves as well if it is about names.

    Without a rule, photos of the release's names show its people. With one, the rule decides: 1.jpg of a
    stranger is not that of a person who has a 1.jpg, too.
    """
    people_there = set(pairs.subjects)
    chosen = rule or (stored if stored in ("prefix", "folder") else None)
    if chosen is not None:
        found = _gallery_subjects_by_rule(names, chosen)
    else:
        base = Counter(PurePosixPath(name).name for name in [*pairs.sources, *names])
        known = {row.input: row.subject for row in reversed(pairs.rows)}  # the largest face comes first
        known |= {last: who for name, who in known.items() if base[last := PurePosixPath(name).name] <= 2}
        found = [known.get(name) or known.get(PurePosixPath(name).name, name) for name in names]
    subjects = [person if person in people_there else STRANGER + person for person in found]
    if rule not in (None, "prefix", "folder") and not people_there & set(subjects):
        is_for_originals = found == list(names) and set(_read_subjects(rule)) & set(pairs.sources)
        if not is_for_originals:  # a table of the originals says nothing of strangers
            raise UsageError(
                f"By {rule} the gallery shows nobody of the release: name its photos in the column file and"
                " the people of the release in the column subject."
            )
    return subjects


def _gallery_subjects_by_rule(names: Sequence[str], rule: str) -> list[str]:
    """Return the person of each photo by a rule, and the photo's own name where the rule says nothing."""
    paths = [PurePosixPath(name) for name in names]
    if rule == "prefix":
        return [path.stem.split("_")[0] or str(path) for path in paths]
    if rule == "folder":
        return [str(path if path.parent == PurePosixPath(".") else path.parent) for path in paths]
    person = _read_subjects(rule)
    count = Counter(path.name for path in paths)
    by_base = {path: person.get(path.name) for path in paths if count[path.name] == 1}
    return [person.get(str(path)) or by_base.get(path) or str(path) for path in paths]


def _read_subjects(file: str) -> dict[str, str]:
    """Return the person of each photo that a csv lists; it may list others than those at hand."""
    try:
        with Path(file).open(newline="", encoding="utf-8-sig") as stream:
            table = csv.DictReader(stream, restval="")
            if not {"file", "subject"} <= set(table.fieldnames or ()):
                raise KeyError("file, subject")
            return {str(PurePosixPath(row["file"].strip())): row["subject"].strip() for row in table}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError) as error:
        raise UsageError(
            f"{file} cannot be read as a csv with the columns file and subject: {error}."
        ) from None
