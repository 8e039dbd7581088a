"""A release is made and written: every file hashed and inspected, the certificate, the private folder."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ksame.core.errors import Faceless, Failure, InputError, UsageError
from ksame.core.folders import MAX_NAME_BYTES, clear_partial, publish_folder
from ksame.core.guarantee import Guarantee
from ksame.methods.base import Method
from ksame.models import weights
from ksame.release.private import (
    PRIVATE_FILES,
    MakingNotes,
    MappingRow,
    Private,
    ResidualRecord,
    write_private_parts,
)

FORMAT = "ksame certificate 2"
CERTIFICATE = "certificate.json"
MANIFEST = "SHA256SUMS"  # the hashes of the files, in the format of coreutils' sha256sum
MANIFEST_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
WITHHELD = "a face in it is still seen after it was covered, so nothing was written for it"
SOFTWARE = ("ksame", "numpy", "scipy", "opencv-python-headless", "openvino", "pillow")


class Issued(NamedTuple):
    """A certificate, the hashes of the files by name, and what came to light when they were made."""

    certificate: dict[str, Any]
    hashes: dict[str, str]
    made: MakingNotes


class DeferredFile(Protocol):
    """A file that is too large for memory, such as a video: it is made where it belongs."""

    def make(self, path: Path) -> MakingNotes:
        """Write the file, and return what came to light; whoever calls it fills in its name."""


@dataclass(frozen=True)
class Release:
    """Published files with the claim that is true of them.

    Parameters
    ----------
    files : mapping of str to bytes
        Paths under the release folder and their contents; it may make them only when they are asked for,
        and its ``items`` leave out what must not be written.
    guarantee : Guarantee
        The claim.
    method : Method
        How the faces were replaced; the certificate states its options.
    publish : str
        Whether portraits or scenes are published.
    networks, verifiers : tuple of str
        The weights that were used, and which of them judged candidates.
    details : mapping
        What else the certificate says. No names.
    private : Private
        Kept apart and not printed; ``save`` writes it to its own folder.
    inspect : callable
        Given a path and its contents, counts the faces in it that a second detector sees untouched.
    clips : mapping of str to Made
        Files that are made in their place: videos.
    """

    files: Mapping[str, bytes] = field(repr=False)
    guarantee: Guarantee
    method: Method[Any]
    publish: str
    details: Mapping[str, Any] = field(repr=False)
    private: Private = field(repr=False)
    inspect: Callable[[str, bytes], int] = field(repr=False, default=lambda name, data: 0)
    clips: Mapping[str, DeferredFile] = field(repr=False, default_factory=dict)
    networks: tuple[str, ...] = ()
    verifiers: tuple[str, ...] = ()

    def certificate(self) -> dict[str, Any]:
        """Return the certificate; it holds no name, no mapping and no seed."""
        return self._issue(None).certificate

    def _issue(self, into: Path | None) -> Issued:
        """Make, hash and inspect every file once, write it into a folder, and state what is true of all."""
        claimed = {
            "format": FORMAT,
            "method": {"name": self.method.name, **self.method.settings(public=True)},
            "publish": self.publish,
            "k": self.method.k,
            "kind": self.guarantee.kind,
            "bound": self.guarantee.bound,
            "scope": self.guarantee.scope,
            "claim": str(self.guarantee),
            "assumptions": list(self.guarantee.assumptions),
            "proof": self.guarantee.proof,
        }
        hashes, made = self._made(into)
        people: dict[int, set[str]] = {}
        for row in self._written(hashes, made).mapping:
            people.setdefault(row.group, set()).add(row.subject)
        body = claimed | {
            "group_sizes": sorted(Counter(hashes.values()).values()),
            "people_per_group": sorted(map(len, people.values())),
            "untouched_faces": len(made.untouched),
            "withheld_files": len(made.withheld),
            **self.details,
            "verifiers": list(self.verifiers),
            "weights": {name: weights.CATALOGUE[name].sha256 for name in self.networks},
            "software": {"python": platform.python_version()} | {name: version(name) for name in SOFTWARE},
            "files": len(hashes),
            "manifests": {MANIFEST: hashlib.sha256(manifest_text(hashes)).hexdigest()},
        }
        return Issued(body | {"digest": digest_of(body)}, hashes, made)

    def _made(self, into: Path | None) -> tuple[dict[str, str], MakingNotes]:
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
                    _output_path(into, name).write_bytes(data)
        withheld = tuple(sorted(set(self.files) - set(hashes)))
        untouched = [ResidualRecord(name) for name, value in hashes.items() for _ in range(left[value])]
        notes: dict[str, list[str]] = {}
        failures: list[Failure] = []
        for name, clip in self.clips.items():
            digest, made = _make_deferred(name, clip, into)
            failures += made.failures
            if not made.failures:
                hashes[name] = digest
            untouched += [one._replace(output=name) for one in made.untouched]
            for note in made.notes:
                notes.setdefault(note, []).append(name)
        if failures and not hashes:
            raise InputError(f"No video could be written: {failures[0].input}: {failures[0].reason}")
        said = (f"{of[0] if len(of) == 1 else f'{len(of)} files'}: {note}" for note, of in notes.items())
        return dict(sorted(hashes.items())), MakingNotes(
            tuple(untouched), tuple(said), tuple(failures), withheld
        )

    def _written(self, files: Container[str], made: MakingNotes) -> Private:
        """Return what the private folder says once the files are made: without those that failed."""
        lost = {name for name in self.clips if name not in files}
        rows = tuple(row for row in self.private.mapping if row.output not in lost)
        lines: tuple[MappingRow | Faceless, ...] = (*rows, *self.private.faceless)
        inputs = {line.input for line in lines if line.output in made.withheld}
        withheld = tuple(Failure(name, WITHHELD) for name in sorted(inputs))
        return replace(
            self.private,
            mapping=tuple(row._replace(output="") if row.output in made.withheld else row for row in rows),
            faceless=tuple(one for one in self.private.faceless if one.output not in made.withheld),
            failures=(*self.private.failures, *made.failures, *withheld),
            settings={"method": {"name": self.method.name, **self.method.settings()}, "publish": self.publish}
            | dict(self.private.settings),
        )

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
            certificate, hashes, made = self._issue(into)
            (into / MANIFEST).write_bytes(manifest_text(hashes))
            (into / CERTIFICATE).write_text(pretty(certificate), encoding="ascii")
            private = self._written(hashes, made)
            parts.extend(write_private_parts(secret, private, made, certificate["digest"]))

        # The mapping is on the disk before the release is in place, but takes the place of an earlier one
        # only after: a crash leaves either release with its own mapping.
        parts: list[Path] = []
        try:
            publish_folder(out, write, overwrite=overwrite)
            for part in parts:
                part.replace(part.with_suffix(""))
            for name, text in self.private.attachments.items():
                paper = _output_path(secret, name)
                paper.touch(mode=0o600)
                paper.write_text(text, encoding="utf-8")
        finally:
            clear_unfinished(out, secret)
        return out


def _output_path(folder: Path, name: str) -> Path:
    """Return the path of a published file, in a folder that is there."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _make_deferred(name: str, file: DeferredFile, into: Path | None) -> tuple[str, MakingNotes]:
    """Have a file made in its place; return its hash and what came to light; it may fail."""
    if into is None:
        raise UsageError("A video is made when the release is saved: call save().")
    path = _output_path(into, name)
    made = file.make(path)
    if made.failures:
        for folder in path.relative_to(into).parents[:-1]:
            with suppress(OSError):  # it holds other files
                (into / folder).rmdir()
        return "", made
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest(), made


def open_folders(
    folder: str | Path,
    private: str | Path | None = None,
    *,
    inputs: Iterable[str | Path] = (),
    overwrite: bool = False,
    dry_run: bool = False,
) -> tuple[Path, Path]:
    """Return the absolute release and private folders before the long work, cleared of interrupted runs.

    Raises
    ------
    UsageError
        If they cannot be used, or would lie among the inputs or over them.
    """
    out, secret = check_folders(folder, private, overwrite=overwrite or dry_run)
    for path in inputs:
        real = Path(os.path.realpath(path))  # a link that leads to itself is for the reader to report
        for what, folder in (("release", out), ("private folder", secret)):
            if real == folder or real in folder.parents:
                raise UsageError(
                    f"The {what} {folder} would lie inside the input {path}: name a folder elsewhere."
                )
            if folder in real.parents:
                raise UsageError(
                    f"The input {path} lies inside the {what} {folder}: name a folder elsewhere."
                )
    if not dry_run:
        clear_unfinished(out, secret)
    return out, secret


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
        if len(os.fsencode(path.name)) > MAX_NAME_BYTES:
            raise UsageError(f"The name of {path} is too long for a folder: name a shorter one.")
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


def clear_unfinished(out: Path, secret: Path) -> None:
    """Remove what a run that was killed had begun to write for these folders, but for its journal."""
    alone = clear_partial(out)
    for name in PRIVATE_FILES if alone else ():
        (secret / f"{name}.part").unlink(missing_ok=True)


def _real(folder: str | Path) -> Path:
    try:
        return Path(folder).resolve()
    except (OSError, RuntimeError):
        raise UsageError(f"{folder} cannot be made: a link on the way leads back to itself.") from None


def manifest_text(hashes: Mapping[str, str]) -> bytes:
    r"""Return the manifest of files by name; a name with a backslash or a line end is escaped.

    Examples
    --------
    >>> manifest_text({"a\nb.png": "0" * 64}).decode()[:1]
    '\\'
    """
    lines = []
    for name, digest in sorted(hashes.items()):
        escaped = "".join(MANIFEST_ESCAPES.get(letter, letter) for letter in name)
        lines.append(f"{chr(92) if escaped != name else ''}{digest}  {escaped}\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def pretty(certificate: Mapping[str, Any]) -> str:
    """Return the text of a certificate file."""
    return json.dumps(certificate, indent=2, ensure_ascii=True) + "\n"


def digest_of(body: Mapping[str, Any]) -> str:
    """Return the sha256 of a certificate's content, whatever its layout."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
