"""Inputs: photos and videos among files, folders and arrays, each with a unique name and a way to read it."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.errors import InputError, UsageError
from ksame.core.folders import is_release_folder

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
"""Suffixes of photos, in lower case; HEIC needs ``pip install ksame[heic]``."""

VIDEO_SUFFIXES = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".ts", ".webm"})
"""Suffixes of videos, in lower case."""


ImageInput = str | Path | NDArray[np.uint8]


class Source(NamedTuple):
    """A photo: its name in the mapping, and its path, its pixels or a function that returns them."""

    name: str
    pixels: Path | NDArray[np.uint8] | Callable[[], NDArray[np.uint8]]


@dataclass(frozen=True, order=True)
class FoundFile:
    """A file and its name in a run: relative to the input, with forward slashes, unique."""

    name: str
    path: Path


def find_photos(inputs: Iterable[str | Path]) -> list[FoundFile]:
    """Return the photos among files and folders, each real file once, sorted by name.

    Folders are searched recursively. Hidden files and folders that ksame wrote are skipped unless given by
    name. If two inputs contain files of the same relative name, every name is prefixed with that of its input
    folder. The order of the inputs does not matter.

    Parameters
    ----------
    inputs : iterable of str or Path
        Files and folders.

    Raises
    ------
    UsageError
        If an input does not exist.
    InputError
        If a file that was given by name is not a photo, or a folder cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.JPG", "a.png", "notes.txt"):
    ...         Path(folder, name).touch()
    ...     [photo.name for photo in find_photos([folder])]
    ['a.png', 'b.JPG']
    """
    return _named(_files(inputs), PHOTO_SUFFIXES)


def find_videos(inputs: Iterable[str | Path]) -> list[FoundFile]:
    """Return the videos among files and folders; see ``find_photos``."""
    return _named(_files(inputs), VIDEO_SUFFIXES)


def find_sources(inputs: ImageInput | Iterable[ImageInput], *, in_order: bool = False) -> list[Source]:
    """Return the photos among the inputs, each with a unique name.

    Parameters
    ----------
    inputs : path, array, or several
        Photos, folders of photos, or (h, w, 3) uint8 arrays.
    in_order : bool
        Return one photo per input in the given order, as a list of subjects needs it; folders are refused.
    """
    sources, _ = find_inputs(inputs, in_order=in_order)
    if not sources:
        raise UsageError(
            "There are no photos among the inputs: give image files, or folders that contain some."
        )
    return sources


def find_inputs(
    inputs: ImageInput | Iterable[ImageInput], *, in_order: bool = False
) -> tuple[list[Source], list[FoundFile]]:
    """Return the photos and the videos among the inputs; see ``find_sources``."""
    given = [inputs] if isinstance(inputs, str | Path | np.ndarray) else list(inputs)
    paths = [Path(item) for item in given if not isinstance(item, np.ndarray)]
    if in_order and any(path.is_dir() for path in paths):
        raise UsageError(
            "A list of subjects needs single photos: for folders use a csv, folder or prefix instead."
        )
    arrays = [Source(f"array-{i:05}", item) for i, item in enumerate(given) if isinstance(item, np.ndarray)]
    files = _files(paths)
    photos = [Source(found.name, found.path) for found in _named(files, PHOTO_SUFFIXES)]
    videos = _named(files, VIDEO_SUFFIXES)
    sources = arrays + photos
    return (_in_given_order(given, arrays, photos) if in_order and sources else sources), videos


def _in_given_order(
    given: Sequence[ImageInput], arrays: Sequence[Source], photos: Sequence[Source]
) -> list[Source]:
    """Return one photo per input, in the order of the inputs."""
    if len(arrays) + len(photos) != len(given):
        raise UsageError("A list of subjects needs photos that are all different: one was given twice.")
    by_path = {photo.pixels: photo for photo in photos}
    by_name = {array.name: array for array in arrays}
    return [
        by_name[f"array-{i:05}"] if isinstance(item, np.ndarray) else by_path[Path(item)]
        for i, item in enumerate(given)
    ]


def _named(files: Sequence[tuple[Path, Path]], suffixes: frozenset[str]) -> list[FoundFile]:
    """Return the files of some types, each with a unique name."""
    found = [(root, path) for root, path in files if path.suffix.lower() in suffixes]
    names = [path.relative_to(root).as_posix() for root, path in found]
    if len(set(names)) < len(names):
        labels = _labels([root for root, _ in found])
        names = [f"{labels[root]}/{name}" for (root, _), name in zip(found, names, strict=True)]
    return sorted(FoundFile(name, path) for name, (_, path) in zip(names, found, strict=True))


def skipped_files(inputs: Iterable[str | Path]) -> list[Path]:
    """Return the files that ``find_photos`` skips for their type, sorted."""
    return sorted(path for _, path in _files(inputs) if path.suffix.lower() not in PHOTO_SUFFIXES)


def _files(inputs: Iterable[str | Path]) -> list[tuple[Path, Path]]:
    """Return (root, file) for each real file; a given folder takes precedence over a given file inside it."""
    given = sorted({Path(item) for item in inputs}, key=lambda path: (not path.is_dir(), path))
    files: dict[str, tuple[Path, Path]] = {}
    visited: set[str] = set()
    for path in given:
        if path.is_dir():
            inside: Iterable[Path] = _walk(path, visited)
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


def _walk(folder: Path, visited: set[str]) -> Iterator[Path]:
    """Yield the files below a folder; each real folder is visited once, so that link cycles end."""

    def refuse(error: OSError) -> None:
        raise InputError(f"The folder {error.filename!r} cannot be read: {error.strerror}.") from error

    def is_new(path: Path) -> bool:
        real = os.path.realpath(path)
        return not (real in visited or visited.add(real))  # type: ignore[func-returns-value]

    if not is_new(folder):
        return
    for current, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        visible = [Path(current, name) for name in sorted(folders) if not name.startswith(".")]
        folders[:] = [path.name for path in visible if not is_release_folder(path) and is_new(path)]
        yield from (Path(current, name) for name in sorted(files) if not name.startswith("."))


def _labels(roots: Iterable[Path]) -> dict[Path, str]:
    """Label each root by the name of its folder; equal names get a counter."""
    real = {root: root.resolve() for root in roots}
    labels: dict[Path, str] = {}
    taken = set()
    for folder in sorted(set(real.values())):
        base = folder.name or "root"
        tries = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        labels[folder] = next(label for label in tries if label not in taken)
        taken.add(labels[folder])
    return {root: labels[folder] for root, folder in real.items()}
