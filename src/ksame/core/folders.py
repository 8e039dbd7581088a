"""Folders that are there completely or not at all, and names that fit into a file system.

Unfinished work lies in a temporary folder; that of a killed process is removed at the next start: a process
that is killed with SIGKILL cannot clean up. Its folder is therefore locked while it is in use: the
operating system releases the lock however the process ends, and a folder without a lock is abandoned.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ksame.core.errors import KSameError, UsageError

__all__ = [
    "MAX_NAME_BYTES",
    "clear_partial",
    "fit_name",
    "is_release_folder",
    "publish_folder",
    "remove_ownerless",
    "scratch_folder",
    "sync_to_disk",
]

FILE_TIMESTAMP = 315_532_800  # 1980-01-01 00:00 UTC, the earliest time that zip files can store
MAX_NAME_BYTES = 255  # bytes of a file name, on all common file systems


@contextmanager
def scratch_folder(parent: Path, prefix: str, suffix: str = "", *, mode: int = 0o700) -> Iterator[Path]:
    """Yield an empty folder; remove it at the end unless it was renamed.

    Parameters
    ----------
    parent : Path
        The existing folder in which it is created.
    prefix, suffix : str
        Its name around eight random digits. Abandoned folders of this kind are removed first.
    mode : int
        Its permissions.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     with scratch_folder(Path(here), "work-") as room:
    ...         room.is_dir()
    ...     list(Path(here).iterdir())
    True
    []
    """
    remove_ownerless(parent, prefix, suffix)
    room, lock = _locked(parent, prefix, suffix, mode)
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_ownerless(parent: Path, prefix: str, suffix: str = "") -> bool:
    """Remove the abandoned folders of a kind; return whether none is left."""
    ours = re.compile(rf"{re.escape(prefix)}[0-9a-f]{{8}}{re.escape(suffix)}")
    gone = True
    for path in list(parent.iterdir()) if parent.is_dir() else ():
        if ours.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            lock = _lock(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
            gone = gone and not path.exists()
    return gone


def _locked(parent: Path, prefix: str, suffix: str, mode: int) -> tuple[Path, int | None]:
    """Create and lock a folder; if another process removes it in between, create another."""
    while True:
        room = parent / f"{prefix}{secrets.token_hex(4)}{suffix}"
        room.mkdir(mode=mode)
        lock = _lock(room)
        if sys.platform == "win32" or (lock is not None and room.is_dir()):
            return room, lock


if sys.platform == "win32":  # folders cannot be locked there: none counts as abandoned

    def _lock(path: Path) -> int | None:
        return None

else:
    import fcntl

    def _lock(path: Path) -> int | None:
        """Lock a folder and return the handle; None if it is locked or cannot be opened."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # removed, or owned by another user
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        return handle


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
        with scratch_folder(target.parent, _prefix(target), ".partial", mode=0o777) as partial:
            write(partial)
            _set_times_and_sync(partial)
            _swap(partial, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise KSameError(f"The disk is full: {str(target)!r} was not written.") from error
        raise KSameError(f"{str(target)!r} could not be written: {error.strerror or error}.") from error


def clear_partial(folder: Path) -> bool:
    """Remove what killed runs left of this folder; return whether no other run is writing it."""
    return remove_ownerless(folder.parent, _prefix(folder), ".partial")


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
    remove_ownerless(target.parent, _prefix(target), ".replaced")


def is_release_folder(folder: Path) -> bool:
    """Whether ksame wrote this folder: a release, its private folder, or a partial one."""
    try:
        inside = {path.name for path in folder.iterdir()}
    except OSError:  # reported when it is searched
        return False
    ours = "certificate.json" in inside or {"mapping.csv", "settings.json"} <= inside
    return ours or folder.suffix in (".private", ".partial")


def fit_name(path: str, ending: str) -> str:
    """Return path + ending; a file name that is too long is cut and made unique by a hash.

    Examples
    --------
    >>> fit_name("images/a", ".png"), len(fit_name(300 * "a", ".png"))
    ('images/a.png', 255)
    """
    folder, slash, name = path.rpartition("/")
    if len(os.fsencode(name + ending)) <= MAX_NAME_BYTES:
        return path + ending
    ending = f"-{hashlib.blake2b(os.fsencode(name), digest_size=4).hexdigest()}{ending}"
    while len(os.fsencode(name + ending)) > MAX_NAME_BYTES:
        name = name[:-1]  # by characters: half of a UTF-8 sequence would not be text
    return folder + slash + name + ending
