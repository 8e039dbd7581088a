"""Folders that hold unfinished work: what a killed process left in one is removed by the next start.

A process that is killed with SIGKILL cannot tidy up. So the owner of such a folder keeps it locked, the
lock goes with the process however that ends, and a folder of that kind without a lock has no owner.
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
    """Give an empty folder, and remove it at the end unless it was renamed.

    Parameters
    ----------
    parent : Path
        Where it is made; it must be there.
    prefix, suffix : str
        Its name but for eight random digits. Folders of this kind that have no owner are removed first.
    mode : int
        Who may look into it.

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
    """Remove the folders of a kind that have no owner any more; return whether all of them are gone."""
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
    """Make a folder and lock it; another process may sweep it away in between, then make another."""
    while True:
        room = parent / f"{prefix}{secrets.token_hex(4)}{suffix}"
        room.mkdir(mode=mode)
        lock = _lock(room)
        if sys.platform == "win32" or (lock is not None and room.is_dir()):
            return room, lock


if sys.platform == "win32":  # a folder cannot be locked there: none is taken for abandoned

    def _lock(path: Path) -> int | None:
        return None

else:
    import fcntl

    def _lock(path: Path) -> int | None:
        """Return a handle that holds the lock of a folder; None if another process holds it, or may."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # it is gone, or another user's
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        return handle
