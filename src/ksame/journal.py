"""The journal by which a stopped run goes on: boxes and the seed, no pixel and no code.

It lives in the private folder while a run is under way and is removed when the release is written.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from ksame.core import UsageError
from ksame.faces.detect import Boxes

COLUMNS = {"xyxy": (-1, 4), "score": (-1,), "five": (-1, 5, 2)}


@dataclass(frozen=True, eq=False)
class Journal:
    """Detections by photo, as lines of JSON; ``stamp`` is what changes when the photo changes."""

    path: Path
    seed: int
    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, *, seed: int, resume: bool) -> Self:
        """Start a journal, or go on with the one that is there and its seed."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        lines = _read(path) if resume and path.is_file() else []
        if lines and "seed" in lines[0]:
            return cls(path, int(lines[0]["seed"]), {line["name"]: line for line in lines[1:]})
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        journal = cls(path, seed)
        journal._append({"seed": seed})
        return journal

    def recall(self, name: str, stamp: list[int]) -> Boxes | None:
        """Return the detections of a photo that has not changed since."""
        line = self.known.get(name)
        if line is None or line["stamp"] != stamp:
            return None
        return Boxes(*(np.array(line[column], float).reshape(shape) for column, shape in COLUMNS.items()))

    def remember(self, name: str, stamp: list[int], boxes: Boxes) -> None:
        """Write down the detections of a photo."""
        lists = {column: np.asarray(getattr(boxes, column), float).tolist() for column in COLUMNS}
        self._append({"name": name, "stamp": stamp, **lists})

    def remove(self) -> None:
        """Remove the file, and its folder if nothing else is in it."""
        self.path.unlink(missing_ok=True)
        if not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def _append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="ascii") as file:
            file.write(json.dumps(line) + "\n")


def seed_of(seed: int | None, journal: Journal | None) -> int:
    """Return the seed of a run: the one given, that of the run it goes on with, or a fresh one.

    >>> seed_of(7, None)
    7
    """
    if seed is None:
        return journal.seed if journal else secrets.randbits(256)
    if not 0 <= seed < 2**256:
        raise UsageError(f"seed must be an integer from 0 to 2**256 - 1. Got {seed}.")
    return seed


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the journal's lines; one that a killed process left unfinished is passed over."""
    lines, whole = [], path.read_text(encoding="ascii")
    if not whole.endswith("\n"):
        with path.open("a", encoding="ascii") as file:
            file.write("\n")  # what is appended next must not be glued to the unfinished line
    for text in whole.splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines
