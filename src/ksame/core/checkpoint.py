"""The journal by which a stopped run goes on: boxes, the seed and finished videos; no old face and no code.

It lives in the private folder while a run is under way and is removed when the release is written.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from ksame.core.boxes import Boxes

BOX_COLUMNS = {"xyxy": (-1, 4), "score": (-1,), "five": (-1, 5, 2)}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Detections by photo, as lines of JSON; ``stamp`` is what changes when the photo changes.

    Videos that are finished lie beside it in ``finished``, under a key that tells nothing: it is the hash
    of all that they were made from. A video whose key is another now is made anew.
    """

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
        journal = cls(path, seed)
        journal._clear()
        path.touch(mode=0o600)
        journal._append({"seed": seed})
        return journal

    def load_boxes(self, name: str, stamp: list[int]) -> Boxes | None:
        """Return the detections of a photo that has not changed since."""
        line = self.known.get(name)
        if line is None or line["stamp"] != stamp:
            return None
        return Boxes(*(np.array(line[column], float).reshape(shape) for column, shape in BOX_COLUMNS.items()))

    def store_boxes(self, name: str, stamp: list[int], boxes: Boxes) -> None:
        """Write down the detections of a photo."""
        lists = {column: np.asarray(getattr(boxes, column), float).tolist() for column in BOX_COLUMNS}
        self._append({"name": name, "stamp": stamp, **lists})

    def made(self, key: str, target: Path) -> list[Any] | None:
        """Put the finished video of this key in its place; return what was said of it, or None."""
        line, video = self.known.get(key), self._video(key, target)
        if line is None or not video.is_file():
            return None
        _link_or_copy(video, target)
        return list(line["said"])

    def finish(self, key: str, made: Path, said: list[Any]) -> None:
        """Keep a video that was made, and what is to be said of it, should the run be stopped."""
        video = self._video(key, made)
        video.parent.mkdir(mode=0o700, exist_ok=True)
        video.unlink(missing_ok=True)
        _link_or_copy(made, video)
        self._append({"name": key, "stamp": [], "said": said})  # last: what has a line is whole

    def remove(self) -> None:
        """Remove the file and the finished videos, and the folder if nothing else is in it."""
        self._clear()
        if not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def _video(self, key: str, like: Path) -> Path:
        return self.path.parent / "finished" / f"{key}{like.suffix}"

    def _clear(self) -> None:
        self.path.unlink(missing_ok=True)
        shutil.rmtree(self.path.parent / "finished", ignore_errors=True)

    def _append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="ascii") as file:
            file.write(json.dumps(line) + "\n")


def _link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name; where that is not possible, copy it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


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
