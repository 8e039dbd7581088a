"""A release is checked by what its files show: every figure that can be computed again is."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ksame import io
from ksame.core.errors import GuaranteeViolated, InputError, UsageError
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import check_law
from ksame.release.private import PrivateFolder, read_private
from ksame.release.writer import (
    CERTIFICATE,
    FORMAT,
    MANIFEST,
    MANIFEST_ESCAPES,
    Release,
    digest_of,
    manifest_text,
    pretty,
)

OLDER_FORMATS = ("ksame certificate 1",)
REPORT_FILE = "report.html"  # written after the certificate, by audit: the one file it cannot cover
_MANIFEST_LINE = re.compile(r"(\\?)([0-9a-f]{64})  (.+)")
_UNESCAPED = {text[1]: letter for letter, text in MANIFEST_ESCAPES.items()}


@dataclass(frozen=True)
class Verification:
    """What was checked on a release and found true."""

    certificate: Mapping[str, Any] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)  # sha256 by name
    checks: tuple[str, ...]
    unchecked: tuple[str, ...] = ()
    private: PrivateFolder | None = field(repr=False, default=None)  # if it was given

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
    files = _read_files(out, certificate)
    kept = None if private is None else read_private(private)
    try:
        checks = tuple(_checks(out, certificate, files, kept))
        unchecked = tuple(_unchecked(out, certificate, has_private=kept is not None))
        return Verification(certificate, files, checks, unchecked, kept)
    except (KeyError, TypeError, AttributeError) as error:
        raise GuaranteeViolated(f"The certificate of {out} lacks what it must say: {error}.") from None


def method_name(certificate: Mapping[str, Any]) -> str | None:
    """Return the name of the method that a certificate states, if it is one."""
    method = certificate.get("method")
    return method.get("name") if isinstance(method, Mapping) else None


def as_written(release: Release, checked: Verification) -> Release:
    """Return a release as its folders hold it: without the videos that could not be written."""
    assert checked.private is not None
    mapping, failures = tuple(checked.private.mapping), tuple(checked.private.failures)
    clips = {name: clip for name, clip in release.clips.items() if name in checked.files}
    return replace(release, private=replace(release.private, mapping=mapping, failures=failures), clips=clips)


def _checks(
    out: Path, certificate: Mapping[str, Any], files: Mapping[str, str], private: PrivateFolder | None
) -> Iterator[str]:
    """Yield each check in words once it has passed."""
    yield "the certificate is as it was issued"
    _check_files(out, files)
    yield f"all {len(files)} published files are there, unchanged, and no others"
    for name in files:
        _check_metadata(out / name)
    yield "none of them carries metadata"
    claim, counts = _claim(certificate), Counter(files.values())
    if sorted(counts.values()) != certificate["group_sizes"]:
        raise GuaranteeViolated("The group sizes in the certificate are not those of the files.")
    if claim.k_anonymous and claim.scope == "file":
        least = min(counts.values(), default=0)
        if least < claim.k:
            raise GuaranteeViolated(f"A published face occurs {least} times, fewer than k = {claim.k}.")
        yield f"every published face occurs at least {claim.k} times: {len(counts)} different faces"
    if private is not None:
        yield from _check_private(private, certificate, files, claim)


def _unchecked(out: Path, certificate: Mapping[str, Any], *, has_private: bool) -> Iterator[str]:
    """Yield what a reader might take for checked and is not."""
    claim = _claim(certificate)
    if claim.k_anonymous and not has_private:
        yield "how many people stand behind each face, which only the private folder tells"
    if claim.scope == "head" and claim.k_anonymous:
        yield "that nothing of the originals is inside the head regions, which needs the originals"
    if claim.scope == "code" and claim.k_anonymous:
        yield "what the images show beyond the codes: measure it with ksame audit"
    if claim.wrong_map:
        yield "wrong-map, which needs the original codes"
    if certificate["untouched_faces"]:
        yield f"{certificate['untouched_faces']} faces that a second detector saw untouched: look at them"
    if (out / REPORT_FILE).exists():
        yield f"{REPORT_FILE}, which was added later"


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
    if certificate.get("format") in OLDER_FORMATS:
        raise GuaranteeViolated(f"{path} has an older format, or was changed: verify it with ksame 0.1.0.")
    # the exact text is compared too: JSON reads 5 and 5.0, or a key given twice, as the same
    if certificate.get("format") != FORMAT or digest_of(certificate) != digest:
        raise GuaranteeViolated(f"{path} was changed after it was issued.")
    if text != pretty(certificate | {"digest": digest}):
        raise GuaranteeViolated(f"{path} was changed after it was issued.")
    return dict(certificate) | {"digest": digest}


def _read_files(out: Path, certificate: Mapping[str, Any]) -> dict[str, str]:
    """Return the certified hashes by name, checked against the certificate."""
    files = read_manifest(out)
    if certificate.get("manifests") != {MANIFEST: hashlib.sha256(manifest_text(files)).hexdigest()}:
        raise GuaranteeViolated(f"{MANIFEST} was changed: it is not the one that was certified.")
    if (out / MANIFEST).read_bytes() != manifest_text(files) or certificate.get("files") != len(files):
        raise GuaranteeViolated(f"{MANIFEST} was changed after the release was certified.")
    return files


def read_manifest(folder: Path) -> dict[str, str]:
    """Return the hashes of a release's files by name."""
    path = folder / MANIFEST
    if not path.is_file() or path.is_symlink():
        raise GuaranteeViolated(f"{folder} has no {MANIFEST}: its files cannot be checked.")
    hashes: dict[str, str] = {}
    for line in path.read_bytes().decode("utf-8", "surrogateescape").split("\n")[:-1]:
        found = _MANIFEST_LINE.fullmatch(line)
        if found is None:
            raise GuaranteeViolated(f"{path} was changed: a line is not that of a file.")
        escaped, digest, name = found.groups()
        if escaped:
            name = re.sub(r"\\(.)", lambda match: _UNESCAPED.get(match[1], match[0]), name)
        hashes[name] = digest
    return hashes


def _check_files(out: Path, hashes: Mapping[str, str]) -> None:
    """Raise unless the folder holds exactly the certified files, byte for byte."""
    found = {str(path.relative_to(out).as_posix()): path for path in _walk(out)}
    for name in (CERTIFICATE, MANIFEST, REPORT_FILE):
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
    is_video = path.suffix.lower() in io.VIDEO_SUFFIXES
    try:
        told = io.metadata_of_video(path) if is_video else io.metadata_of(path.read_bytes())
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


def _check_private(
    private: PrivateFolder, certificate: Mapping[str, Any], files: Mapping[str, str], claim: Guarantee
) -> Iterator[str]:
    """Check the law with the mapping in hand: people behind each face, not files."""
    rows = private.mapping
    if private.settings.get("certificate") != certificate["digest"]:
        raise GuaranteeViolated("The certificate is not the one that was issued with this private folder.")
    mapped, there = {row.output for row in rows if row.output}, set(files)
    faceless = {one.output for one in private.faceless}
    # a video may show nobody
    if (mapped | faceless) - there or (claim.kind != "none" and there - mapped - faceless):
        raise GuaranteeViolated("The mapping and the published files do not name the same outputs.")
    people: dict[int, set[str]] = {}
    for row in rows:
        people.setdefault(row.group, set()).add(row.subject)
    if sorted(map(len, people.values())) != certificate["people_per_group"]:
        raise GuaranteeViolated("The numbers of people in the certificate are not those of the mapping.")
    yield "the mapping belongs to this release"
    if claim.k_anonymous:
        published = [files[row.output] if claim.scope == "file" else str(row.group) for row in rows]
        several = (
            certificate["method"].get("expression") == "keep"
        )  # a neutral and a smiling face of one group
        bound = check_law(published, [row.subject for row in rows], claim.k, allow_several=several)
        if bound > claim.bound + 1e-12:
            raise GuaranteeViolated(
                f"A person has a share of {bound:.3g} in a group, over {claim.bound:.3g}."
            )
        other = " unless the same people are behind both" if several else ""
        yield f"behind every face are at least {claim.k} different people, and no person is behind two{other}"
