"""An original clip and what was published of it, side by side: some frames, each face of them in both.

The clips are read as streams. What is kept of a face are codes and figures, never its picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.residual import residual_faces
from ksame.analysis.tracking.track import Track
from ksame.attack.embed import FaceEmbeddings, embed_faces
from ksame.attack.recognisers import Recogniser
from ksame.audit import utility
from ksame.audit.pairing import match_faces
from ksame.audit.utility.video import align_frames, estimate_rest_motion, flicker, is_unchanged
from ksame.core.arrays import FloatArray, IntArray, ProgressCallback
from ksame.core.context import parallel_map
from ksame.core.geometry import with_ring
from ksame.io.sources import Source

Grey = NDArray[np.uint8]  # (h, w)
BATCH_PIXELS = 4e6  # pixels of the frames that are looked at together


class FramePair(NamedTuple):
    """One frame of both clips, and in grey the ones before."""

    frame: int
    old: NDArray[np.uint8]
    new: NDArray[np.uint8]
    earlier: tuple[Grey, Grey] | None


@dataclass(frozen=True, eq=False)
class ComparedClip:
    """The n faces that were seen in some frames of an original clip, and what was published for them.

    Parameters
    ----------
    frames : (int, int)
        How many pictures both clips have.
    looked : (m,) int
        The frames that were looked at.
    frame : (n,) int
        The frame of each face.
    before, after : Seen
        Row by row the face and what is in its place now; NaN where nothing can be looked at.
    drawn : (n,) bool
        Whether there is a face in its place now that a detector finds.
    track : (n,) int
        The track that explains it; -1: none does.
    flicker : (n, 3) float
        See ``audit.utility.video.Flicker``.
    untouched : (n,) bool
        Whether it is published as it was.
    bare : tuple of int
        Frames in which a place where a track says that there is a face is published as it was, though no
        detector finds one there.
    left : tuple of int
        Frames in which a second detector sees a face that neither a track nor a face of the original
        explains.
    """

    frames: tuple[int, int]
    looked: IntArray
    frame: IntArray
    before: FaceEmbeddings
    after: FaceEmbeddings
    drawn: NDArray[np.bool_]
    track: IntArray
    flicker: FloatArray
    untouched: NDArray[np.bool_]
    bare: tuple[int, ...]
    left: tuple[int, ...]

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.frame)

    @property
    def shown(self) -> FaceEmbeddings:
        """The new faces alone: NaN where a face is covered, or its place was only pointed at."""
        return self.after.rows(np.where(self.drawn, np.arange(len(self)), -1))


def compare_clips(
    original: Path,
    published: Path,
    recognisers: Sequence[Recogniser],
    *,
    tracks: Sequence[Track] = (),
    max_count: int | None,
    jobs: int | None,
    progress: ProgressCallback | None,
) -> ComparedClip:
    """Look at some frames of two clips, face by face.

    Parameters
    ----------
    original, published : Path
        The clips.
    recognisers : sequence of Recogniser
        Who looks.
    tracks : sequence of Track
        Where faces are, as far as somebody knows.
    max_count : int, optional
        How many frames to look at, evenly spread; None: all.
    jobs, progress : see ``ksame.analysis.photos.analyse_photos``
    """
    clip = io.probe_video(original)
    step = 1 if max_count is None else max(1, -(-clip.frames // max_count))
    counts = [0, 0]
    size = max(1, min(4, int(BATCH_PIXELS / (clip.width * clip.height))))
    some = _batches(_frame_pairs(original, published, step, counts), size)
    parts: list[ComparedClip] = []
    with closing(
        parallel_map(_compare_frames, ((batch, tuple(tracks), recognisers) for batch in some), jobs=jobs)
    ) as results:
        for part in results:
            parts.append(part)
            if progress:
                done = min(step * sum(len(p.looked) for p in parts), clip.frames)
                progress(f"watching {published.name}", done, max(clip.frames, 1))
    return _concatenate(parts, (counts[0], counts[1]))


def _frame_pairs(original: Path, published: Path, step: int, counts: list[int]) -> Iterator[FramePair]:
    """Yield every so many frames of both clips; ``counts`` is told how many there are."""
    earlier: tuple[Grey, Grey] | None = None
    streams = io.read_frames(original, broken=[]), io.read_frames(published, broken=[])
    for i, (old, new) in enumerate(zip_longest(*streams)):
        counts[0] += old is not None
        counts[1] += new is not None
        if old is None or new is None:
            continue
        now = _match_size(new.rgb, old.rgb.shape)
        if i % step == 0:
            yield FramePair(i, old.rgb, now, earlier)
        # grey: what flickers is light, and a colour frame more would cost memory
        soon = (i + 1) % step == 0
        earlier = (_grey(old.rgb), _grey(now)) if soon else None


def _match_size(rgb: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a frame in the size of another: a tool may have made it smaller."""
    if rgb.shape == shape:
        return rgb
    return np.asarray(cv2.resize(rgb, shape[1::-1], interpolation=cv2.INTER_AREA), np.uint8)


def _grey(rgb: NDArray[np.uint8]) -> Grey:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)


def _batches(moments: Iterator[FramePair], size: int) -> Iterator[list[FramePair]]:
    batch: list[FramePair] = []
    for moment in moments:
        batch.append(moment)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _compare_frames(
    moments: Sequence[FramePair], tracks: Sequence[Track], recognisers: Sequence[Recogniser]
) -> ComparedClip:
    """Look at a few frames of both clips."""
    look = partial(embed_faces, recognisers=recognisers, features=utility.face_columns, jobs=1)
    before = look([Source(str(m.frame), m.old) for m in moments])
    photo = before.photo.tolist()
    spots = {i: before.points[before.photo == i] for i in set(photo)}
    after = look([Source(str(m.frame), m.new) for m in moments], placed=spots)
    rows = match_faces(after, photo, before.xyxy, in_place=True)
    after = after.rows(rows)
    frame = np.array([moments[i].frame for i in photo], np.intp)
    track = _explained(frame, before.xyxy, tracks)
    grey = [(_grey(m.old), _grey(m.new)) for m in moments]
    meshes = [*zip(photo, before.points, strict=True)]
    places = [(i, _middle(mesh.min(axis=0), mesh.max(axis=0))) for i, mesh in meshes]
    return ComparedClip(
        frames=(0, 0),  # nobody counts them here
        looked=np.array([m.frame for m in moments], np.intp),
        frame=frame,
        before=before,
        after=after,
        # what was only pointed at has the old mesh, to the last bit
        drawn=(rows >= 0) & (after.points != before.points).any(axis=(1, 2)),
        track=track,
        flicker=np.array([_flickers(moments[i], grey[i], mesh) for i, mesh in meshes]).reshape(-1, 3),
        untouched=np.array([_patch(grey[i], place) for i, place in places], bool),
        bare=tuple(
            m.frame
            for m, now in zip(moments, grey, strict=True)
            if _is_published_unchanged(m.frame, now, tracks, track[frame == m.frame])
        ),
        left=tuple(m.frame for m in moments if _has_residual(m, tracks, before.points[frame == m.frame])),
    )


def _explained(frame: IntArray, xyxy: FloatArray, tracks: Sequence[Track]) -> IntArray:
    """Return for each face the track whose box holds its centre, the nearest if there are several."""
    found = np.full(len(frame), -1, np.intp)
    for row, (at, box) in enumerate(zip(frame.tolist(), xyxy, strict=True)):
        centre, nearest = (box[:2] + box[2:]) / 2, np.inf
        for number, track in enumerate(tracks):
            if at not in track.frames:
                continue
            own = track.box[at - track.start]
            off = float(np.linalg.norm((own[:2] + own[2:]) / 2 - centre))
            if (own[:2] <= centre).all() and (centre <= own[2:]).all() and off < nearest:
                found[row], nearest = number, off
    return found


def _flickers(moment: FramePair, now: tuple[Grey, Grey], mesh: FloatArray) -> tuple[float, float, float]:
    """Return how much the still parts of a face at rest changed since the frame before."""
    if moment.earlier is None:
        return 0.0, 0.0, 0.0
    margin = 0.2 * np.ptp(mesh, axis=0)  # room for whoever looks where the points went
    cut = _window(mesh.min(axis=0) - margin, mesh.max(axis=0) + margin, now[0].shape)
    old, new = (np.stack([moment.earlier[side][cut], now[side][cut]]) for side in (0, 1))
    own = mesh - [cut[1].start, cut[0].start]
    move = estimate_rest_motion(old, own) if min(old.shape) >= 2 else None
    if move is None:
        return 0.0, 0.0, 0.0
    region = np.zeros(old.shape[1:], np.uint8)
    cv2.fillConvexPoly(region, cv2.convexHull(np.rint(own).astype(np.int32)), 1)
    return flicker(align_frames(old, move), align_frames(new, move), region > 0)


def _window(low: FloatArray, high: FloatArray, shape: tuple[int, ...]) -> tuple[slice, slice]:
    """Return the part of a picture between two corners."""
    (left, top), (right, bottom) = (
        np.clip(np.rint(corner), 0, shape[1::-1]).astype(int) for corner in (low, high)
    )
    return slice(top, bottom), slice(left, right)


def _middle(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the corners (2, 2) of the middle of a face: what is around it may well be as it was."""
    centre, half = (low + high) / 2, 0.3 * (high - low)
    return np.stack([centre - half, centre + half])


def _patch(grey: tuple[Grey, Grey], corners: FloatArray) -> bool:
    cut = _window(corners[0], corners[1], grey[0].shape)
    return is_unchanged(grey[0][cut], grey[1][cut])


def _is_published_unchanged(
    frame: int, grey: tuple[Grey, Grey], tracks: Sequence[Track], found: IntArray
) -> bool:
    """Return whether a track's place, where no face was found in the original, is published as it was."""
    places = (
        track.box[frame - track.start]
        for number, track in enumerate(tracks)
        if frame in track.frames and not track.keep and number not in found
    )
    return any(_patch(grey, _middle(box[:2], box[2:])) for box in places)


def _has_residual(moment: FramePair, tracks: Sequence[Track], meshes: FloatArray) -> bool:
    """Return whether a second detector sees a face that nothing explains."""
    there = [track.box[moment.frame - track.start] for track in tracks if moment.frame in track.frames]
    around = [with_ring(mesh) for mesh in meshes]
    boxes = np.array([*there, *(np.hstack([ring.min(axis=0), ring.max(axis=0)]) for ring in around)])
    return bool(len(residual_faces(moment.new, boxes.reshape(-1, 4))))


def _concatenate(parts: Sequence[ComparedClip], counts: tuple[int, int]) -> ComparedClip:
    """Put parts of a clip, or clips, one after the other."""

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    return ComparedClip(
        frames=counts,
        before=_concatenate_embeddings([part.before for part in parts]),
        after=_concatenate_embeddings([part.after for part in parts]),
        bare=tuple(at for part in parts for at in part.bare),
        left=tuple(at for part in parts for at in part.left),
        **{name: column(name) for name in ("looked", "frame", "drawn", "track", "flicker", "untouched")},
    )


def _concatenate_embeddings(parts: Sequence[FaceEmbeddings]) -> FaceEmbeddings:
    """Return faces that were seen one after the other as one; which picture they are in is told elsewhere."""
    first = parts[0]
    return FaceEmbeddings(
        photo=np.concatenate([part.photo for part in parts]),
        xyxy=np.concatenate([part.xyxy for part in parts]),
        points=np.concatenate([part.points for part in parts]),
        codes={name: np.concatenate([part.codes[name] for part in parts]) for name in first.codes},
        features={name: np.concatenate([part.features[name] for part in parts]) for name in first.features},
    )


def concatenate_clips(clips: Sequence[ComparedClip]) -> ComparedClip:
    """Return the faces of several clips in one; frames are counted on from clip to clip."""
    counts = np.cumsum([(0, 0), *(clip.frames for clip in clips)], axis=0).tolist()
    moved = [
        replace(
            clip,
            frame=clip.frame + start,
            looked=clip.looked + start,
            bare=tuple(at + start for at in clip.bare),
            left=tuple(at + start for at in clip.left),
        )
        for clip, (start, _) in zip(clips, counts, strict=False)
    ]
    return _concatenate(moved, (counts[-1][0], counts[-1][1]))
