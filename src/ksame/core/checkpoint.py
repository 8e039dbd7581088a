"""Checkpoint of a run: the seed, detected boxes and finished videos; no original pixel and no code.

It is kept in the private folder while the run lasts and is removed when the release is written.
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
    """Entries as lines of JSON: the seed, then detections by photo and notes by finished video.

    An entry of a photo is valid while its ``stamp`` (size and time of the file) is unchanged. Finished videos
    are kept in the folder ``finished`` under a key, the hash of everything that they were made from: if that
    has changed, the video is rendered again.
    """

    path: Path
    seed: int
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, *, seed: int, resume: bool) -> Self:
        """Start a checkpoint, or resume the existing one with its seed."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        lines = _read(path) if resume and path.is_file() else []
        if lines and "seed" in lines[0]:
            return cls(path, int(lines[0]["seed"]), {line["name"]: line for line in lines[1:]})
        checkpoint = cls(path, seed)
        checkpoint._clear()
        path.touch(mode=0o600)
        checkpoint._append({"seed": seed})
        return checkpoint

    def load_boxes(self, name: str, stamp: list[int]) -> Boxes | None:
        """Return the stored detections of a photo, or None if it is new or has changed."""
        line = self.entries.get(name)
        if line is None or line["stamp"] != stamp:
            return None
        return Boxes(*(np.array(line[column], float).reshape(shape) for column, shape in BOX_COLUMNS.items()))

    def store_boxes(self, name: str, stamp: list[int], boxes: Boxes) -> None:
        """Store the detections of a photo."""
        lists = {column: np.asarray(getattr(boxes, column), float).tolist() for column in BOX_COLUMNS}
        self._append({"name": name, "stamp": stamp, **lists})

    def load_video(self, key: str, target: Path) -> list[Any] | None:
        """Link the finished video of this key to the target and return its notes, or return None."""
        line, video = self.entries.get(key), self._video(key, target)
        if line is None or not video.is_file():
            return None
        _link_or_copy(video, target)
        return list(line["notes"])

    def store_video(self, key: str, source: Path, notes: list[Any]) -> None:
        """Keep a finished video and its notes in case the run is interrupted."""
        video = self._video(key, source)
        video.parent.mkdir(mode=0o700, exist_ok=True)
        video.unlink(missing_ok=True)
        _link_or_copy(source, video)
        self._append({"name": key, "stamp": [], "notes": notes})  # last: a video with an entry is complete

    def remove(self) -> None:
        """Remove the checkpoint and the finished videos, and the folder if it is empty then."""
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


def file_stamp(pixels: object, effort: str) -> list[int]:
    """Return what changes when a file, or how thoroughly it is searched, does; nothing for an array."""
    if not isinstance(pixels, Path) or not pixels.is_file():
        return []
    stat = pixels.stat()
    return [stat.st_size, stat.st_mtime_ns, int(effort == "full")]


def _link_or_copy(source: Path, target: Path) -> None:
    """Hard-link a file; copy it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the entries; an incomplete line of a killed process is ignored."""
    lines, text = [], path.read_text(encoding="ascii")
    if not text.endswith("\n"):
        with path.open("a", encoding="ascii") as file:
            file.write("\n")  # or the next entry would continue the incomplete line
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines
