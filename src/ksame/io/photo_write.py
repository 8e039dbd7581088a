"""Encode images without metadata, and write folders completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core import scratch
from ksame.core.errors import KSameError, UsageError
from ksame.core.text import fit_name
from ksame.io.sources import is_release_folder

FILE_TIMESTAMP = 315_532_800  # 1980-01-01 00:00 UTC, the earliest time that zip files can store


def encode_png(rgb: NDArray[np.uint8]) -> bytes:
    """Encode an image as PNG: equal pixels give equal bytes, without metadata.

    Examples
    --------
    >>> from ksame.io import metadata_of
    >>> metadata_of(encode_png(np.zeros((2, 2, 3), np.uint8)))
    []
    """
    return encode(rgb, ".png")


_SETTINGS = {  # parameters, and the longest side in pixels that the format or its library supports
    ".jpeg": ([cv2.IMWRITE_JPEG_QUALITY, 95], 65_500),
    ".jpg": ([cv2.IMWRITE_JPEG_QUALITY, 95], 65_500),
    ".png": ([cv2.IMWRITE_PNG_COMPRESSION, 4], 1_000_000),
    ".webp": ([cv2.IMWRITE_WEBP_QUALITY, 95], 16_383),
}


def encode(rgb: NDArray[np.uint8], suffix: str) -> bytes:
    """Encode an image as ``.png``, ``.jpg``, ``.jpeg`` or ``.webp``, the types ``metadata_of`` can check.

    Parameters
    ----------
    rgb : (h, w, 3) uint8
        The image.
    suffix : str
        The suffix of the file's name, in upper or lower case.
    """
    if suffix.lower() not in _SETTINGS:
        raise UsageError(f"Images are written as {', '.join(sorted(_SETTINGS))}. Got {suffix!r}.")
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or not rgb.size:
        raise UsageError(f"An image must be (h, w, 3) uint8. Got {rgb.shape} {rgb.dtype}.")
    parameters, side_max = _SETTINGS[suffix.lower()]
    bgr = np.ascontiguousarray(rgb[:, :, ::-1])
    done, data = cv2.imencode(suffix.lower(), bgr, parameters) if max(rgb.shape) <= side_max else (False, b"")
    if not done:
        raise UsageError(f"An image of {rgb.shape[1]} x {rgb.shape[0]} is too large for {suffix}.")
    return bytes(data)


def decode(data: bytes) -> NDArray[np.uint8]:
    """Return the pixels (h, w, 3) of a file that ``encode`` made, as a reader will see them.

    Examples
    --------
    >>> decode(encode_png(np.full((1, 1, 3), (1, 2, 3), np.uint8))).tolist()
    [[[1, 2, 3]]]
    """
    bgr = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)
    return np.ascontiguousarray(bgr[:, :, ::-1])


def publish_folder(folder: str | Path, write: Callable[[Path], None], *, overwrite: bool = False) -> None:
    """Write a folder completely or not at all: fill a hidden sibling, then rename it.

    After an exception nothing is left; the folder of a killed run is removed by the next one. All files get
    the same time, so that the order of writing is not disclosed.

    Parameters
    ----------
    folder : str or Path
        The folder to write; it must be new or empty.
    write : callable
        Called with the empty hidden folder, which it fills.
    overwrite : bool
        Replace a folder that ksame wrote; any other folder is never replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     publish_folder(Path(here, "out"), lambda partial: Path(partial, "a.txt").touch())
    ...     [path.name for path in Path(here).rglob("*")]
    ['out', 'a.txt']
    """
    target = Path(folder).resolve()
    _check_target(target, overwrite)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch.scratch_folder(target.parent, _prefix(target), ".partial", mode=0o777) as partial:
            write(partial)
            _set_times_and_sync(partial)
            _swap(partial, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise KSameError(f"The disk is full: {str(target)!r} was not written.") from error
        raise KSameError(f"{str(target)!r} could not be written: {error.strerror or error}.") from error


def clear_partial(folder: Path) -> bool:
    """Remove what killed runs left of this folder; return whether no other run is writing it."""
    return scratch.remove_ownerless(folder.parent, _prefix(folder), ".partial")


def _check_target(target: Path, overwrite: bool) -> None:
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() and not overwrite:
        raise UsageError(f"{str(target)!r} exists already: choose another folder, or allow to overwrite it.")
    if target.exists() and not is_release_folder(target):  # it may contain the originals
        raise UsageError(f"{str(target)!r} was not written by ksame and is not overwritten: remove it first.")


def _prefix(target: Path) -> str:
    """Return the prefix of hidden siblings of a folder; eight digits of the run and a role follow."""
    room = len(".01234567.replaced")
    return fit_name(f".{target.name}", room * "-")[:-room] + "."


def _set_times_and_sync(folder: Path) -> None:
    """Set one time on all files and folders and flush them to the disk."""
    for here, _, files in os.walk(folder, topdown=False):
        for path in (*(Path(here, name) for name in files), Path(here)):
            os.utime(path, (FILE_TIMESTAMP, FILE_TIMESTAMP))
            sync_to_disk(path)


def sync_to_disk(path: Path) -> None:
    """Flush a file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(partial: Path, target: Path) -> None:
    """Move the folder into place; an older one is removed only after that."""
    # a new name in each run: two runs at once must not use the same folder
    old = target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}.replaced")
    if target.exists():
        target.rename(old)
    try:
        partial.rename(target)
    except BaseException:
        if old.exists():
            old.rename(target)
        raise
    sync_to_disk(target.parent)
    scratch.remove_ownerless(target.parent, _prefix(target), ".replaced")
