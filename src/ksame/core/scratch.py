"""Temporary folders for unfinished work; those of a killed process are removed at the next start.

A process that is killed with SIGKILL cannot clean up. Its folder is therefore locked while it is in use: the
operating system releases the lock however the process ends, and a folder without a lock is abandoned.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["remove_ownerless", "scratch_folder"]


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
