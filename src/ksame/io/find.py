"""Which photos are meant: files and folders as people keep them."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ksame.core.errors import InputError, UsageError

HEIC_SUFFIXES = frozenset({".heic", ".heif"})
_PHOTO_SUFFIXES = frozenset(
    {
        ".bmp",
        ".jfif",
        ".jpe",
        ".jpeg",
        ".jpg",
        ".pbm",
        ".pgm",
        ".png",
        ".pnm",
        ".ppm",
        ".tif",
        ".tiff",
        ".webp",
    }
)
PHOTO_SUFFIXES = _PHOTO_SUFFIXES | HEIC_SUFFIXES if importlib.util.find_spec("pi_heif") else _PHOTO_SUFFIXES
"""What counts as a photo, in lower case; HEIC needs ``pip install ksame[heic]``."""

VIDEO_SUFFIXES = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".ts", ".webm"})
"""What counts as a video, in lower case."""


@dataclass(frozen=True, order=True)
class FoundFile:
    """A photo and the name it goes by: relative to the input, with forward slashes, unique in a run."""

    name: str
    path: Path


def find_photos(inputs: Iterable[str | Path]) -> list[FoundFile]:
    """Return the photos among files and folders, each real file once, sorted by name.

    Folders are searched to the bottom. Hidden files and what ksame wrote itself are passed over unless
    given by name. When two inputs hold files of the same relative name, every name is prefixed with its
    input folder's. The order of the inputs does not matter.

    Parameters
    ----------
    inputs : iterable of str or Path
        Files and folders.

    Raises
    ------
    UsageError
        If an input does not exist.
    InputError
        If a file was given by name and is not a photo, or a folder cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.JPG", "a.png", "notes.txt"):
    ...         Path(folder, name).touch()
    ...     [photo.name for photo in find_photos([folder])]
    ['a.png', 'b.JPG']
    """
    return _find_named(inputs, PHOTO_SUFFIXES)


def find_videos(inputs: Iterable[str | Path]) -> list[FoundFile]:
    """Return the videos among files and folders; see ``find_photos``."""
    return _find_named(inputs, VIDEO_SUFFIXES)


def _find_named(inputs: Iterable[str | Path], suffixes: frozenset[str]) -> list[FoundFile]:
    """Return the files of some types, each with a name of its own."""
    found = [(root, path) for root, path in _files(inputs) if path.suffix.lower() in suffixes]
    names = [path.relative_to(root).as_posix() for root, path in found]
    if len(set(names)) < len(names):
        labels = _labels([root for root, _ in found])
        names = [f"{labels[root]}/{name}" for (root, _), name in zip(found, names, strict=True)]
    return sorted(FoundFile(name, path) for name, (_, path) in zip(names, found, strict=True))


def skipped_files(inputs: Iterable[str | Path]) -> list[Path]:
    """Return the files in the input folders that ``find_photos`` passes over for their type, sorted."""
    return sorted(path for _, path in _files(inputs) if path.suffix.lower() not in PHOTO_SUFFIXES)


def _files(inputs: Iterable[str | Path]) -> list[tuple[Path, Path]]:
    """Return (root, file) for each real file; a folder given as input wins over a file inside it."""
    given = sorted({Path(item) for item in inputs}, key=lambda path: (not path.is_dir(), path))
    files: dict[str, tuple[Path, Path]] = {}
    seen: set[str] = set()
    for path in given:
        if path.is_dir():
            inside: Iterable[Path] = _walk(path, seen)
        elif os.path.lexists(path):
            _check_suffix(path)
            inside = [path]
        else:
            raise UsageError(f"There is no file or folder {str(path)!r}.")
        root = path if path.is_dir() else path.parent
        for file in inside:
            files.setdefault(os.path.realpath(file), (root, file))
    return list(files.values())


def _check_suffix(path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix in HEIC_SUFFIXES - PHOTO_SUFFIXES:
        raise InputError(f"{str(path)!r} is an HEIC photo: reading it needs pip install 'ksame[heic]'.")
    if suffix not in PHOTO_SUFFIXES | VIDEO_SUFFIXES:
        ends = ", ".join(sorted(PHOTO_SUFFIXES | VIDEO_SUFFIXES))
        raise InputError(f"{str(path)!r} is neither a photo nor a video: its name must end in {ends}.")


def _walk(folder: Path, seen: set[str]) -> Iterator[Path]:
    """Yield the files below a folder; each real folder is visited once, so link loops end."""

    def refuse(error: OSError) -> None:
        raise InputError(f"The folder {error.filename!r} cannot be read: {error.strerror}.") from error

    def fresh(path: Path) -> bool:
        real = os.path.realpath(path)
        return not (real in seen or seen.add(real))  # type: ignore[func-returns-value]

    if not fresh(folder):
        return
    for here, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        shown = [Path(here, name) for name in sorted(folders) if not name.startswith(".")]
        folders[:] = [path.name for path in shown if not is_release_folder(path) and fresh(path)]
        yield from (Path(here, name) for name in sorted(files) if not name.startswith("."))


def is_release_folder(folder: Path) -> bool:
    """Whether ksame wrote this folder: a release, the private folder beside it, or a part of one."""
    try:
        inside = {path.name for path in folder.iterdir()}
    except OSError:  # whoever searches it says so
        return False
    ours = "certificate.json" in inside or {"mapping.csv", "settings.json"} <= inside
    return ours or folder.suffix in (".private", ".partial")


def _labels(roots: Iterable[Path]) -> dict[Path, str]:
    """Name each root by its folder; a counter tells folders of the same name apart."""
    real = {root: root.resolve() for root in roots}
    labels: dict[Path, str] = {}
    taken = set()
    for folder in sorted(set(real.values())):
        base = folder.name or "root"
        tries = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        labels[folder] = next(label for label in tries if label not in taken)
        taken.add(labels[folder])
    return {root: labels[folder] for root, folder in real.items()}
