"""Tracks as a file that a person can read and correct, and back.

Boxes may be moved, added or deleted, tracks deleted or added, people named, and ``keep`` set; what the
file says wins. Between two boxes of a track the missing ones are filled in, so that a few are enough.
No mesh and no code is written: they are found again in the video.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ksame.core import FloatArray, UsageError
from ksame.faces.detect import Boxes
from ksame.faces.follow import APART, PRESENT, RGB, again, box_of, in_the_open, pack, same_face
from ksame.faces.join import mean_code
from ksame.faces.landmarks import landmarks
from ksame.faces.places import between
from ksame.faces.shelf import Shelf
from ksame.faces.sight import CODES, Embed, Picture
from ksame.faces.track import STATES, Track, found_again
from ksame.geometry import FRAME, MESH

__all__ = ["find_again", "from_json", "to_json"]

ABOUT = (
    "Correct boxes [left, top, right, bottom], delete or add tracks, then run again with this file."
    " A track needs a few boxes only: those between are filled in. keep: true leaves a face as it is;"
    " state: covered hides it without a new face."
)


def to_json(given: Sequence[Track], *, width: int, height: int, frames: int) -> str:
    """Return tracks as text, one line for each picture of each track.

    Parameters
    ----------
    given : sequence of Track
        The tracks of one video.
    width, height, frames : int
        Size and number of its pictures.

    Examples
    --------
    >>> shape = np.zeros((1, 468, 2), np.int16)
    >>> track = Track(7, np.array([[1.0, 2, 30, 40]]), np.array(["covered"]), shape, person="ann")
    >>> text = to_json([track], width=64, height=48, frames=10)
    >>> text.splitlines()[8].strip()
    '{"frame": 7, "box": [1.0, 2.0, 30.0, 40.0], "state": "covered"}'
    >>> from_json(text, width=64, height=48, frames=10)[0].person
    'ann'
    """
    head = {"about": ABOUT, "width": width, "height": height, "frames": frames}
    lines = [f' "{key}": {json.dumps(value, ensure_ascii=False)},' for key, value in head.items()]
    blocks = []
    for number, track in enumerate(given):
        rows = [
            json.dumps({"frame": frame, "box": np.round(box, 1).tolist(), "state": str(state)})
            for frame, box, state in zip(track.frames, track.box, track.state, strict=True)
        ]
        boxes = ",\n    ".join(rows)
        person = json.dumps(track.person, ensure_ascii=False)
        keep = json.dumps(track.keep)
        blocks.append(
            f'  {{"track": {number}, "person": {person}, "keep": {keep},\n   "boxes": [\n    {boxes}\n   ]}}'
        )
    body = ",\n".join(blocks)
    return "\n".join(["{", *lines, ' "tracks": [', *([body] if body else []), " ]", "}"]) + "\n"


def from_json(text: str, *, width: int, height: int, frames: int) -> tuple[Track, ...]:
    """Return the tracks that a text by ``to_json`` tells of, as somebody corrected it.

    They have no meshes yet, so that nothing of them can be drawn: ``find_again`` looks for those.

    Parameters
    ----------
    text : str
        The file's text.
    width, height, frames : int
        Size and number of the video's pictures; those in the file must be the same.

    Raises
    ------
    UsageError
        If something is missing or impossible; one sentence says where.
    """
    try:
        told = json.loads(text)
    except ValueError as error:
        raise UsageError(f"The tracks cannot be read as JSON: {error}.") from None
    if not isinstance(told, dict) or not isinstance(told.get("tracks"), list):
        raise UsageError('The file of tracks must have a list "tracks".')
    for name, value in (("width", width), ("height", height), ("frames", frames)):
        if told.get(name, value) != value:
            raise UsageError(
                f"The tracks are of another video: {name} is {told[name]}, not {value} as in the video."
            )
    return tuple(_read(number, one, frames) for number, one in enumerate(told["tracks"]))


def _read(number: int, told: Any, frames: int) -> Track:
    """Return one track, with the boxes that are missing between others filled in."""
    where = f"Track {told['track'] if isinstance(told, dict) and 'track' in told else number}"
    if not isinstance(told, dict) or not isinstance(told.get("boxes"), list) or not told["boxes"]:
        raise UsageError(f'{where} must have a list "boxes" with at least one box.')
    person, keep = told.get("person", ""), told.get("keep", False)
    if not isinstance(person, str):
        raise UsageError(f"{where}: person must be a name in quotes. Got {person!r}.")
    if not isinstance(keep, bool):
        raise UsageError(f"{where}: keep must be true or false. Got {keep!r}.")
    rows = sorted((_row(where, row, frames) for row in told["boxes"]), key=lambda row: row[0])
    at = np.array([frame for frame, _, _ in rows])
    if (np.diff(at) == 0).any():
        raise UsageError(f"{where} has two boxes in picture {at[:-1][np.diff(at) == 0][0]}.")
    start, count = int(at[0]), int(at[-1] - at[0]) + 1
    state = np.full(count, "filled", dtype="<U8")
    state[at - start] = [name for _, _, name in rows]
    box = between(np.array([box for _, box, _ in rows], dtype=np.float64), at - start, count)
    return Track(start, box, state, np.zeros((count, MESH, 2), np.int16), None, person, keep)


def _row(where: str, row: Any, frames: int) -> tuple[int, list[float], str]:
    """Return picture, box and state of one line, checked."""
    if not isinstance(row, dict) or not _whole(row.get("frame")) or not 0 <= row["frame"] < frames:
        got = row.get("frame") if isinstance(row, dict) else row
        raise UsageError(f"{where}: frame must be a whole number from 0 to {frames - 1}. Got {got!r}.")
    box, state = row.get("box"), row.get("state", "seen")
    where = f"{where}, picture {row['frame']}"
    if not isinstance(box, list) or len(box) != 4 or not all(_number(x) for x in box):
        raise UsageError(f"{where}: box must be four numbers [left, top, right, bottom]. Got {box!r}.")
    if not (box[0] < box[2] and box[1] < box[3]):
        raise UsageError(f"{where}: left must be less than right, and top less than bottom. Got {box!r}.")
    if state not in STATES:
        raise UsageError(f"{where}: state must be one of {', '.join(STATES)}. Got {state!r}.")
    return row["frame"], box, state


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def find_again(
    given: Sequence[Track], frames: Iterable[Picture], *, embed: Embed | None = None
) -> tuple[Track, ...]:
    """Return corrected tracks with their meshes, looked for in the boxes; where there is none: covered.

    Parameters
    ----------
    given : sequence of Track
        By ``from_json``.
    frames : iterable of pictures
        Those of the video, in order.
    embed : callable, optional
        A recogniser, for a few views of each face.
    """
    shelf = Shelf()
    last: list[FloatArray] = [np.zeros((MESH, 2)) for _ in given]
    rows = [np.full(len(track), -1) for track in given]
    presence = [np.zeros(len(track)) for track in given]
    codes: list[list[FloatArray]] = [[] for _ in given]
    due = [0 for _ in given]
    for picture in frames:
        for i, track in enumerate(given):
            at = picture.index - track.start
            if not 0 <= at < len(track) or track.state[at] == "covered":
                continue
            before = last[i] if at and presence[i][at - 1] >= PRESENT else None
            mesh, presence[i][at] = _in_box(picture.rgb, track.box[at], before)
            last[i], rows[i][at] = mesh, shelf.put(pack(mesh, track.box[at]))
            if embed and presence[i][at] >= PRESENT and at >= due[i] and len(codes[i]) < CODES:
                codes[i].append(np.asarray(embed(picture.rgb, mesh[None])[0]))
                due[i] = at + APART
    return tuple(
        found_again(track, shelf.of(rows[i]), presence[i], mean_code(codes[i]))
        for i, track in enumerate(given)
    )


def _in_box(rgb: RGB, xyxy: FloatArray, before: FloatArray | None) -> tuple[FloatArray, float]:
    """Return mesh and presence of the face in a box; presence is 0 if the mesh lies elsewhere."""
    mesh: FloatArray = np.zeros((MESH, 2))
    presence = 0.0
    if before is not None:
        mesh, presence = again(rgb, before, xyxy)
    if presence < PRESENT:
        low, high = FRAME.five.min(axis=0), FRAME.five.max(axis=0)
        upright = (FRAME.five - low) / (high - low) * 0.5 + [0.25, 0.35]  # about where they are in a box
        five = xyxy[:2] + upright * (xyxy[2:] - xyxy[:2])
        found = landmarks(rgb, Boxes(xyxy[None], np.ones(1), five[None]))
        mesh, presence = found[0][0], in_the_open(rgb, found[0][0], float(found[1][0]))
    return mesh, presence * bool(same_face(box_of(mesh), xyxy[None])[0])
