"""Write tracks to a file that can be corrected by hand, and read it.

Boxes may be moved, added or deleted, tracks deleted or added, persons named, and ``keep`` set; the file
takes precedence. Boxes between two given boxes of a track are interpolated, so that a few are enough.
Meshes and embeddings are not written: they are computed again from the video.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ksame.analysis.tracking.interpolate import interpolate
from ksame.analysis.tracking.link import mean_code
from ksame.analysis.tracking.mesh_store import MeshStore
from ksame.analysis.tracking.observations import EmbedCallback, FrameLike
from ksame.analysis.tracking.propagate import (
    CODE_INTERVAL_FRAMES,
    MIN_PRESENCE,
    RGB,
    find_mesh_in_box,
    is_same_face,
    mesh_box,
    occlusion_presence,
    pack_meshes,
)
from ksame.analysis.tracking.scan import CODES_PER_TRACKLET
from ksame.analysis.tracking.track import STATES, Track, update_corrected_track
from ksame.core.arrays import FloatArray
from ksame.core.boxes import Boxes
from ksame.core.errors import UsageError
from ksame.core.geometry import FRAME, MESH
from ksame.models.landmarks import predict_meshes

__all__ = ["refind_meshes", "tracks_from_json", "tracks_to_json"]

FILE_COMMENT = (
    "Correct boxes [left, top, right, bottom], delete or add tracks, then run again with this file."
    " A track needs a few boxes only: those between are filled in. keep: true leaves a face as it is;"
    " state: covered hides it without a new face."
)


def tracks_to_json(given: Sequence[Track], *, width: int, height: int, frames: int) -> str:
    """Return tracks as JSON text, with one line per frame of each track.

    Parameters
    ----------
    given : sequence of Track
        The tracks of one video.
    width, height, frames : int
        Size and number of its frames.

    Examples
    --------
    >>> shape = np.zeros((1, 468, 2), np.int16)
    >>> track = Track(7, np.array([[1.0, 2, 30, 40]]), np.array(["covered"]), shape, person="ann")
    >>> text = tracks_to_json([track], width=64, height=48, frames=10)
    >>> text.splitlines()[8].strip()
    '{"frame": 7, "box": [1.0, 2.0, 30.0, 40.0], "state": "covered"}'
    >>> tracks_from_json(text, width=64, height=48, frames=10)[0].person
    'ann'
    """
    head = {"about": FILE_COMMENT, "width": width, "height": height, "frames": frames}
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


def tracks_from_json(text: str, *, width: int, height: int, frames: int) -> tuple[Track, ...]:
    """Read the tracks of a text by ``tracks_to_json``, possibly corrected.

    They have no meshes yet and cannot be drawn: see ``refind_meshes``.

    Parameters
    ----------
    text : str
        The text of the file.
    width, height, frames : int
        Size and number of the video's frames, which must equal those in the file.

    Raises
    ------
    UsageError
        If a value is missing or invalid; the message says where.
    """
    try:
        told = json.loads(text)
    except ValueError as error:
        raise UsageError(f"The track file is not valid JSON: {error}.") from None
    if not isinstance(told, dict) or not isinstance(told.get("tracks"), list):
        raise UsageError('The track file must have a list "tracks".')
    for name, value in (("width", width), ("height", height), ("frames", frames)):
        if told.get(name, value) != value:
            raise UsageError(f"The track file belongs to another video: {name} is {told[name]}, not {value}.")
    return tuple(_read(number, one, frames) for number, one in enumerate(told["tracks"]))


def _read(number: int, told: Any, frames: int) -> Track:
    """Read one track and interpolate missing boxes."""
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
        raise UsageError(f"{where} has two boxes in frame {at[:-1][np.diff(at) == 0][0]}.")
    start, count = int(at[0]), int(at[-1] - at[0]) + 1
    state = np.full(count, "filled", dtype="<U8")
    state[at - start] = [name for _, _, name in rows]
    box = interpolate(np.array([box for _, box, _ in rows], dtype=np.float64), at - start, count)
    return Track(start, box, state, np.zeros((count, MESH, 2), np.int16), None, person, keep)


def _row(where: str, row: Any, frames: int) -> tuple[int, list[float], str]:
    """Return the checked frame, box and state of one line."""
    if not isinstance(row, dict) or not _is_integer(row.get("frame")) or not 0 <= row["frame"] < frames:
        got = row.get("frame") if isinstance(row, dict) else row
        raise UsageError(f"{where}: frame must be a whole number from 0 to {frames - 1}. Got {got!r}.")
    box, state = row.get("box"), row.get("state", "seen")
    where = f"{where}, frame {row['frame']}"
    if not isinstance(box, list) or len(box) != 4 or not all(_is_number(x) for x in box):
        raise UsageError(f"{where}: box must be four numbers [left, top, right, bottom]. Got {box!r}.")
    if not (box[0] < box[2] and box[1] < box[3]):
        raise UsageError(f"{where}: left must be less than right, and top less than bottom. Got {box!r}.")
    if state not in STATES:
        raise UsageError(f"{where}: state must be one of {', '.join(STATES)}. Got {state!r}.")
    return row["frame"], box, state


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def refind_meshes(
    given: Sequence[Track], frames: Iterable[FrameLike], *, embed: EmbedCallback | None = None
) -> tuple[Track, ...]:
    """Find the meshes of corrected tracks in their boxes; frames without a face are covered.

    Parameters
    ----------
    given : sequence of Track
        Tracks from ``tracks_from_json``.
    frames : iterable of frames
        The frames of the video, in order.
    embed : callable, optional
        A recogniser, for a few views of each face.
    """
    store = MeshStore()
    last: list[FloatArray] = [np.zeros((MESH, 2)) for _ in given]
    rows = [np.full(len(track), -1) for track in given]
    presence = [np.zeros(len(track)) for track in given]
    codes: list[list[FloatArray]] = [[] for _ in given]
    due = [0 for _ in given]
    for frame in frames:
        for i, track in enumerate(given):
            at = frame.index - track.start
            if not 0 <= at < len(track) or track.state[at] == "covered":
                continue
            before = last[i] if at and presence[i][at - 1] >= MIN_PRESENCE else None
            mesh, presence[i][at] = _find_in_box(frame.rgb, track.box[at], before)
            last[i], rows[i][at] = mesh, store.put(pack_meshes(mesh, track.box[at]))
            if (
                embed
                and presence[i][at] >= MIN_PRESENCE
                and at >= due[i]
                and len(codes[i]) < CODES_PER_TRACKLET
            ):
                codes[i].append(np.asarray(embed(frame.rgb, mesh[None])[0]))
                due[i] = at + CODE_INTERVAL_FRAMES
    return tuple(
        update_corrected_track(track, store.of(rows[i]), presence[i], mean_code(codes[i]))
        for i, track in enumerate(given)
    )


def _find_in_box(rgb: RGB, xyxy: FloatArray, before: FloatArray | None) -> tuple[FloatArray, float]:
    """Return mesh and presence of the face in a box; presence is 0 if the mesh is elsewhere."""
    mesh: FloatArray = np.zeros((MESH, 2))
    presence = 0.0
    if before is not None:
        mesh, presence = find_mesh_in_box(rgb, before, xyxy)
    if presence < MIN_PRESENCE:
        low, high = FRAME.five.min(axis=0), FRAME.five.max(axis=0)
        upright = (FRAME.five - low) / (high - low) * 0.5 + [0.25, 0.35]  # typical positions in a box
        five = xyxy[:2] + upright * (xyxy[2:] - xyxy[:2])
        found = predict_meshes(rgb, Boxes(xyxy[None], np.ones(1), five[None]))
        mesh, presence = found[0][0], occlusion_presence(rgb, found[0][0], float(found[1][0]))
    return mesh, presence * bool(is_same_face(mesh_box(mesh), xyxy[None])[0])
