"""What may leave the machine, and the certificate by which anyone can check it.

A release folder holds the published files and ``certificate.json``; the mapping from people to
files goes to a private folder beside it and nowhere else. ``verify`` believes nothing that the
files themselves do not show: it recomputes every figure of the certificate that can be recomputed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ksame import media
from ksame.core import Guarantee, GuaranteeViolated, InputError, UsageError, check_law

FORMAT = "ksame certificate 1"
CERTIFICATE = "certificate.json"
REPORT = "report.html"  # written after the certificate, by audit: the one file it cannot cover
PRIVATE = ("settings.json", "failures.csv", "untouched.csv", "mapping.csv")
SOFTWARE = ("ksame", "numpy", "scipy", "opencv-python-headless", "openvino", "pillow")


class Row(NamedTuple):
    """One line of mapping.csv: which person's face became which file."""

    input: str
    subject: str
    group: int
    output: str


class Failure(NamedTuple):
    """One line of failures.csv: an input for which nothing was published, and why."""

    input: str
    reason: str


class Untouched(NamedTuple):
    """One line of untouched.csv: where a second detector sees a face that nobody replaced."""

    output: str
    frame: int | None = None  # None and nothing more in a photo
    seconds: float | None = None
    box: str = ""  # left, top, right, bottom: to be added to the tracks


class Making(NamedTuple):
    """What came to light when a file was made."""

    untouched: tuple[Untouched, ...] = ()
    notes: tuple[str, ...] = ()  # sentences on what differs from the source


@dataclass(frozen=True)
class Private:
    """What must never be published: the mapping, the seed, the names of the inputs."""

    mapping: tuple[Row, ...]
    settings: Mapping[str, Any]
    failures: tuple[Failure, ...] = ()
    papers: Mapping[str, str] = field(default_factory=dict)  # further texts by file name: tracks of videos


class Made(Protocol):
    """A file that is too large for memory, such as a video: it is made where it belongs."""

    def make(self, path: Path) -> Making:
        """Write the file, and return what came to light; whoever calls it fills in its name."""


@dataclass(frozen=True)
class Release:
    """Published files with the claim that is true of them.

    Parameters
    ----------
    files : mapping of str to bytes
        Paths under the release folder and their contents; it may make them only when they are asked for.
    guarantee : Guarantee
        The claim.
    k : int
        The k that was asked for.
    method, publish : str
        How the faces were made, and whether portraits or scenes are published.
    details : mapping
        What else the certificate says: partition, weights. No names.
    private : Private
        Kept apart and not printed; ``save`` writes it to its own folder.
    inspect : callable
        Given a path and its contents, counts the faces in it that a second detector sees untouched.
    clips : mapping of str to Made
        Files that are made in their place: videos.
    """

    files: Mapping[str, bytes] = field(repr=False)
    guarantee: Guarantee
    k: int
    method: str
    publish: str
    details: Mapping[str, Any] = field(repr=False)
    private: Private = field(repr=False)
    inspect: Callable[[str, bytes], int] = field(repr=False, default=lambda name, data: 0)
    clips: Mapping[str, Made] = field(repr=False, default_factory=dict)

    def certificate(self, into: Path | None = None) -> dict[str, Any]:
        """Return the certificate; it holds no name, no mapping and no seed.

        Every file is made, hashed and inspected once, and written into a folder on the way.
        """
        return self._issued(into)[0]

    def _issued(self, into: Path | None) -> tuple[dict[str, Any], Making]:
        """Return the certificate, and for the private folder what came to light."""
        hashes, made = self._made(into)
        people: dict[int, set[str]] = {}
        for row in self.private.mapping:
            people.setdefault(row.group, set()).add(row.subject)
        body = {
            "format": FORMAT,
            "method": self.method,
            "publish": self.publish,
            "k": self.k,
            "kind": self.guarantee.kind,
            "bound": self.guarantee.bound,
            "scope": self.guarantee.scope,
            "claim": str(self.guarantee),
            "assumptions": list(self.guarantee.assumptions),
            "proof": self.guarantee.proof,
            "group_sizes": sorted(Counter(hashes.values()).values()),
            "people_per_group": sorted(map(len, people.values())),
            "untouched_faces": len(made.untouched),
            **self.details,
            "software": {"python": platform.python_version()} | {name: version(name) for name in SOFTWARE},
            "files": hashes,
        }
        return body | {"digest": _digest(body)}, made

    def _made(self, into: Path | None) -> tuple[dict[str, str], Making]:
        """Make every file; return their hashes by name, in order, and what came to light."""
        hashes: dict[str, str] = {}
        left: dict[str, int] = {}  # by hash: equal files are inspected once
        # closed when writing fails: what makes the files side by side must not outlive this
        with closing(item for item in self.files.items()) as files:
            for name, data in files:
                hashes[name] = hashlib.sha256(data).hexdigest()
                if hashes[name] not in left:
                    left[hashes[name]] = self.inspect(name, data)
                if into is not None:
                    _place(into, name).write_bytes(data)
        untouched = [Untouched(name) for name, value in hashes.items() for _ in range(left[value])]
        notes: dict[str, list[str]] = {}
        for name, clip in self.clips.items():
            hashes[name], made = _filmed(name, clip, into)
            untouched += [one._replace(output=name) for one in made.untouched]
            for note in made.notes:
                notes.setdefault(note, []).append(name)
        said = (f"{of[0] if len(of) == 1 else f'{len(of)} files'}: {note}" for note, of in notes.items())
        return dict(sorted(hashes.items())), Making(tuple(untouched), tuple(said))

    def save(self, folder: str | Path, *, private: str | Path | None = None, overwrite: bool = False) -> Path:
        """Write the release folder, and the private folder beside it; a crash leaves no half release.

        Parameters
        ----------
        folder : path
            The release; it must not exist, or be empty, or be a release if ``overwrite``.
        private : path, optional
            Where the mapping goes; by default ``FOLDER.private``.
        overwrite : bool
            Replace an earlier release and its mapping.
        """
        out, secret = check_folders(folder, private, overwrite=overwrite)

        def write(into: Path) -> None:
            certificate, made = self._issued(into)
            (into / CERTIFICATE).write_text(_pretty(certificate), encoding="ascii")
            parts.extend(_private_parts(secret, self.private, made, certificate["digest"]))

        # The mapping is on the disk before the release is in place, but takes the place of an earlier one
        # only after: a crash leaves either release with its own mapping.
        parts: list[Path] = []
        try:
            media.publish(out, write, overwrite=overwrite)
            for part in parts:
                part.replace(part.with_suffix(""))
            for name, text in self.private.papers.items():
                paper = _place(secret, name)
                paper.touch(mode=0o600)
                paper.write_text(text, encoding="utf-8")
        finally:
            for name in PRIVATE:
                (secret / f"{name}.part").unlink(missing_ok=True)
        return out


def _place(folder: Path, name: str) -> Path:
    """Return the path of a published file, in a folder that is there."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _filmed(name: str, file: Made, into: Path | None) -> tuple[str, Making]:
    """Have a file made in its place; return its hash and what came to light."""
    if into is None:
        raise UsageError("A video is made when the release is saved: call save().")
    path = _place(into, name)
    made = file.make(path)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest(), made


def check_folders(
    folder: str | Path, private: str | Path | None = None, *, overwrite: bool = False
) -> tuple[Path, Path]:
    """Return the absolute release and private folders, or say why they cannot be used.

    It is called before the long work as well as before writing: nobody wants to hear of a
    mistyped folder after an hour.
    """
    out = _real(folder)
    secret = _real(private) if private is not None else out.with_name(out.name + ".private")
    if secret == out or out in secret.parents or secret in out.parents:
        raise UsageError(f"The private folder {secret} must be apart from the release {out}.")
    for path in (out, secret):
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file: name a folder that can be created.")
    if out.is_dir() and any(out.iterdir()):
        if not overwrite:
            raise UsageError(f"{out} already has files in it: name another folder, or give --overwrite.")
        if not (out / CERTIFICATE).is_file():
            raise UsageError(f"{out} is not a ksame release, so it is not overwritten: name another folder.")
    if (secret / "mapping.csv").exists() and not overwrite:
        raise UsageError(
            f"{secret} holds the mapping of an earlier release: name another --private, or give --overwrite."
        )
    return out, secret


def _real(folder: str | Path) -> Path:
    try:
        return Path(folder).resolve()
    except (OSError, RuntimeError):
        raise UsageError(f"{folder} cannot be made: a link on the way leads back to itself.") from None


@dataclass(frozen=True)
class Verification:
    """What was checked on a release and found true."""

    certificate: Mapping[str, Any] = field(repr=False)
    checks: tuple[str, ...]
    unchecked: tuple[str, ...] = ()

    def __str__(self) -> str:
        """List the checks, and what they could not show."""
        return "\n".join([*self.checks, *(f"not checked: {what}" for what in self.unchecked)])


def verify(folder: str | Path, *, private: str | Path | None = None) -> Verification:
    """Re-check the certificate on the files themselves; raise GuaranteeViolated if anything is off.

    Parameters
    ----------
    folder : path
        The release.
    private : path, optional
        With the private folder the people behind each face are counted too.
    """
    out = Path(folder)
    if not out.is_dir():
        raise UsageError(f"{out} is not a folder: give the release folder that ksame run wrote.")
    certificate = _read_certificate(out / CERTIFICATE)
    try:
        checks = tuple(_checks(out, certificate, private))
        return Verification(certificate, checks, tuple(_unchecked(out, certificate, private)))
    except (KeyError, TypeError, AttributeError) as error:
        raise GuaranteeViolated(f"The certificate of {out} lacks what it must say: {error}.") from None


def _checks(out: Path, certificate: Mapping[str, Any], private: str | Path | None) -> Iterator[str]:
    """Yield each check in words once it has passed."""
    yield "the certificate is as it was issued"
    _check_files(out, certificate["files"])
    yield f"all {len(certificate['files'])} published files are there, unchanged, and no others"
    for name in certificate["files"]:
        _check_metadata(out / name)
    yield "none of them carries metadata"
    claim, counts = _claim(certificate), Counter(certificate["files"].values())
    if sorted(counts.values()) != certificate["group_sizes"]:
        raise GuaranteeViolated("The group sizes in the certificate are not those of the files.")
    if claim.k_anonymous and claim.scope == "file":
        least = min(counts.values(), default=0)
        if least < claim.k:
            raise GuaranteeViolated(f"A published face occurs {least} times, fewer than k = {claim.k}.")
        yield f"every published face occurs at least {claim.k} times: {len(counts)} different faces"
    if private is not None:
        yield from _check_private(Path(private), certificate, claim)


def _unchecked(out: Path, certificate: Mapping[str, Any], private: str | Path | None) -> Iterator[str]:
    """Yield what a reader might take for checked and is not."""
    claim = _claim(certificate)
    if claim.k_anonymous and private is None:
        yield "how many people stand behind each face, which only the private folder tells"
    if claim.scope == "code" and claim.k_anonymous:
        yield "what the pictures tell beyond the codes: measure it"
    if claim.wrong_map:
        yield "wrong-map, which needs the original codes"
    if certificate["untouched_faces"]:
        yield f"{certificate['untouched_faces']} faces that a second detector saw untouched: look at them"
    if (out / REPORT).exists():
        yield f"{REPORT}, which was added later"


def _claim(certificate: Mapping[str, Any]) -> Guarantee:
    """Return the Guarantee a certificate states, after checking that its words and figures agree."""
    kind, bound = certificate["kind"], certificate["bound"]
    k = certificate["k"] if kind.startswith("k-anonymity") else 1
    try:
        claim = Guarantee(kind, k, bound, certificate["scope"], tuple(certificate["assumptions"]))
    except UsageError as error:
        raise GuaranteeViolated(f"The certificate contradicts itself: {error}") from None
    if str(claim) != certificate["claim"]:
        raise GuaranteeViolated("The claim in words is not the one that the certificate's figures make.")
    return claim


def _read_certificate(path: Path) -> dict[str, Any]:
    """Return the certificate, checked against its own digest."""
    if not path.is_file() or path.is_symlink():
        raise GuaranteeViolated(f"{path.parent} has no {CERTIFICATE}: nothing vouches for it.")
    try:
        text = path.read_text(encoding="ascii")
        certificate = json.loads(text)
        digest = certificate.pop("digest")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise GuaranteeViolated(f"{path} is not a ksame certificate, or was changed.") from None
    # the exact text is compared too: JSON reads 5 and 5.0, or a key given twice, as the same
    if certificate.get("format") != FORMAT or _digest(certificate) != digest:
        raise GuaranteeViolated(f"{path} was changed after it was issued.")
    if text != _pretty(certificate | {"digest": digest}):
        raise GuaranteeViolated(f"{path} was changed after it was issued.")
    return dict(certificate) | {"digest": digest}


def _check_files(out: Path, hashes: Mapping[str, str]) -> None:
    """Raise unless the folder holds exactly the certified files, byte for byte."""
    found = {str(path.relative_to(out).as_posix()): path for path in _walk(out)}
    for name in (CERTIFICATE, REPORT):
        found.pop(name, None)
    missing, extra = sorted(hashes.keys() - found.keys()), sorted(found.keys() - hashes.keys())
    if missing:
        raise GuaranteeViolated(f"{len(missing)} published files are missing, the first is {missing[0]!r}.")
    if extra:
        raise GuaranteeViolated(
            f"{len(extra)} files are not in the certificate, the first is {extra[0]!r}: remove them."
        )
    for name, path in found.items():
        if path.is_symlink() or not path.is_file():
            raise GuaranteeViolated(f"{name!r} is not a plain file.")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != hashes[name]:
            raise GuaranteeViolated(f"{name!r} was changed: its sha256 is not the certified one.")


def _check_metadata(path: Path) -> None:
    """Raise if a published file tells more than it shows."""
    is_video = path.suffix.lower() in media.VIDEOS
    try:
        told = media.metadata_of_video(path) if is_video else media.metadata_of(path.read_bytes())
    except InputError as error:
        raise GuaranteeViolated(f"{path.name!r} cannot be checked for metadata: {error}") from None
    if told:
        raise GuaranteeViolated(f"{path.name!r} carries metadata: {', '.join(told)}.")


def _walk(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder but the folders on the way; an empty one is something too."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False) and any(Path(entry.path).iterdir()):
            yield from _walk(Path(entry.path))
        else:
            yield Path(entry.path)


def read_private(folder: str | Path) -> tuple[list[Row], dict[str, Any]]:
    """Return the mapping and the settings of a private folder."""
    secret = Path(folder)
    try:
        with (secret / "mapping.csv").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = [Row(r["input"], r["subject"], int(r["group"]), r["output"]) for r in csv.DictReader(file)]
        return rows, dict(json.loads((secret / "settings.json").read_text(encoding="ascii")))
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename} is missing: give the private folder of this release.") from None
    except (KeyError, TypeError, ValueError) as error:
        raise GuaranteeViolated(f"The mapping in {secret} was changed: {error}.") from None


def read_untouched(folder: str | Path) -> list[Untouched]:
    """Return where the faces are, by a private folder, that a second detector saw untouched."""
    with Path(folder, "untouched.csv").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return [
            Untouched(r["output"], int(r["frame"]), float(r["seconds"]), r["box"])
            if r["frame"]
            else Untouched(r["output"])
            for r in csv.DictReader(file)
        ]


def _check_private(secret: Path, certificate: Mapping[str, Any], claim: Guarantee) -> Iterator[str]:
    """Check the law with the mapping in hand: people behind each face, not files."""
    rows, settings = read_private(secret)
    if settings.get("certificate") != certificate["digest"]:
        raise GuaranteeViolated(f"The certificate is not the one that was issued with {secret}.")
    mapped, there = {row.output for row in rows}, set(certificate["files"])
    if mapped - there or (claim.kind != "none" and there - mapped):  # a video may show nobody
        raise GuaranteeViolated("The mapping and the published files do not name the same outputs.")
    people: dict[int, set[str]] = {}
    for row in rows:
        people.setdefault(row.group, set()).add(row.subject)
    if sorted(map(len, people.values())) != certificate["people_per_group"]:
        raise GuaranteeViolated("The numbers of people in the certificate are not those of the mapping.")
    yield "the mapping belongs to this release"
    if claim.k_anonymous:
        published = [
            certificate["files"][row.output] if claim.scope == "file" else str(row.group) for row in rows
        ]
        bound = check_law(published, [row.subject for row in rows], claim.k)
        if bound > claim.bound + 1e-12:
            raise GuaranteeViolated(
                f"A person has a share of {bound:.3g} in a group, over {claim.bound:.3g}."
            )
        yield f"behind every face are at least {claim.k} different people, and no person is behind two"


def _private_parts(folder: Path, private: Private, made: Making, digest: str) -> Iterator[Path]:
    """Write the private files under names that end in .part, readable by their owner only."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    notes = [*private.settings.get("notes", ()), *made.notes]
    settings = dict(private.settings) | ({"notes": notes} if notes else {}) | {"certificate": digest}
    texts = [json.dumps(settings, indent=2, ensure_ascii=True) + "\n"]
    tables: Any = ((Failure, private.failures), (Untouched, made.untouched), (Row, private.mapping))
    for kind, rows in tables:
        table = io.StringIO(newline="")
        csv.writer(table, lineterminator="\n").writerows([kind._fields, *rows])
        texts.append(table.getvalue())
    for name, text in zip(PRIVATE, texts, strict=True):
        part = folder / f"{name}.part"
        with part.open("wb") as file:
            part.chmod(0o600)
            file.write(text.encode("utf-8", "surrogateescape"))  # names that are not UTF-8 keep their bytes
            file.flush()
            os.fsync(file.fileno())
        yield part


def _pretty(certificate: Mapping[str, Any]) -> str:
    """Return the text of a certificate file."""
    return json.dumps(certificate, indent=2, ensure_ascii=True) + "\n"


def _digest(body: Mapping[str, Any]) -> str:
    """Return the sha256 of a certificate's content, whatever its layout."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
