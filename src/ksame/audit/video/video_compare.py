"""Compare an original clip with what was published of it, face by face in some frames.

Both clips are read as streams. Embeddings and figures of a face are kept, never its pixels.
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
from ksame.attack.embed import FaceEmbeddings, concatenate_embeddings, embed_faces
from ksame.attack.recognisers import Recogniser
from ksame.audit.utility import face_columns
from ksame.audit.utility.video import align_frames, estimate_rest_motion, flicker, is_unchanged
from ksame.core.arrays import FloatArray, IntArray, ProgressCallback
from ksame.core.context import parallel_map
from ksame.core.geometry import with_ring
from ksame.io.sources import Source

GreyImage = NDArray[np.uint8]  # (h, w)
BATCH_PIXELS = 4e6  # pixels of the frames that are compared in one batch


class FramePair(NamedTuple):
    """One frame of both clips, and the previous ones in grey."""

    frame: int
    old: NDArray[np.uint8]
    new: NDArray[np.uint8]
    previous: tuple[GreyImage, GreyImage] | None


@dataclass(frozen=True, eq=False)
class ComparedClip:
    """The n faces in some frames of an original clip, and what was published for them.

    Parameters
    ----------
    frames : (int, int)
        Number of frames of both clips.
    compared : (m,) int
        The frames that were compared.
    frame : (n,) int
        The frame of each face.
    before, after : FaceEmbeddings
        Row by row the original face and what was published in its place; NaN where neither can be embedded.
    drawn : (n,) bool
        Whether a detector finds a published face in its place.
    track : (n,) int
        The track that explains it; -1: none does.
    flicker : (n, 3) float
        See ``audit.utility.video.Flicker``.
    is_unchanged : (n,) bool
        Whether it is published unchanged.
    unchanged_frames : tuple of int
        Frames in which the place of a track is published unchanged, though no detector finds a face there.
    residual_frames : tuple of int
        Frames in which a second detector finds a face that neither a track nor a face of the original
        explains.
    """

    frames: tuple[int, int]
    compared: IntArray
    frame: IntArray
    before: FaceEmbeddings
    after: FaceEmbeddings
    drawn: NDArray[np.bool_]
    track: IntArray
    flicker: FloatArray
    is_unchanged: NDArray[np.bool_]
    unchanged_frames: tuple[int, ...]
    residual_frames: tuple[int, ...]

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.frame)

    @property
    def shown(self) -> FaceEmbeddings:
        """The published faces that a detector finds; NaN for the others."""
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
    """Compare two clips in some frames, face by face.

    Parameters
    ----------
    original, published : Path
        The clips.
    recognisers : sequence of Recogniser
        Those that embed the faces.
    tracks : sequence of Track
        The tracks of the faces, as far as they are known.
    max_count : int, optional
        Number of frames to compare, evenly spread; None: all.
    jobs, progress : see ``ksame.analysis.photos.analyse_photos``
    """
    clip = io.probe_video(original)
    step = 1 if max_count is None else max(1, -(-clip.frames // max_count))
    counts = [0, 0]
    size = max(1, min(4, int(BATCH_PIXELS / (clip.width * clip.height))))
    batches = _batches(_frame_pairs(original, published, step, counts), size)
    parts: list[ComparedClip] = []
    with closing(
        parallel_map(_compare_frames, ((batch, tuple(tracks), recognisers) for batch in batches), jobs=jobs)
    ) as results:
        for part in results:
            parts.append(part)
            if progress:
                done = min(step * sum(len(p.compared) for p in parts), clip.frames)
                progress(f"comparing {published.name}", done, max(clip.frames, 1))
    return _concatenate(parts, (counts[0], counts[1]))


def _frame_pairs(original: Path, published: Path, step: int, counts: list[int]) -> Iterator[FramePair]:
    """Yield every ``step``-th frame of both clips; ``counts`` is updated with their lengths."""
    previous: tuple[GreyImage, GreyImage] | None = None
    streams = io.read_frames(original, broken=[]), io.read_frames(published, broken=[])
    for i, (old, new) in enumerate(zip_longest(*streams)):
        counts[0] += old is not None
        counts[1] += new is not None
        if old is None or new is None:
            continue
        now = _match_size(new.rgb, old.rgb.shape)
        if i % step == 0:
            yield FramePair(i, old.rgb, now, previous)
        # in grey: flicker is a change of brightness, and another colour frame would cost memory
        is_next = (i + 1) % step == 0
        previous = (_grey(old.rgb), _grey(now)) if is_next else None


def _match_size(rgb: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a frame in the size of another: a tool may have reduced it."""
    if rgb.shape == shape:
        return rgb
    return np.asarray(cv2.resize(rgb, shape[1::-1], interpolation=cv2.INTER_AREA), np.uint8)


def _grey(rgb: NDArray[np.uint8]) -> GreyImage:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)


def _batches(pairs: Iterator[FramePair], size: int) -> Iterator[list[FramePair]]:
    batch: list[FramePair] = []
    for pair in pairs:
        batch.append(pair)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _compare_frames(
    pairs: Sequence[FramePair], tracks: Sequence[Track], recognisers: Sequence[Recogniser]
) -> ComparedClip:
    """Compare a few frames of both clips."""
    embed = partial(embed_faces, recognisers=recognisers, features=face_columns, jobs=1)
    before = embed([Source(str(p.frame), p.old) for p in pairs])
    image = before.photo.tolist()
    after = embed([Source(str(p.frame), p.new) for p in pairs], placed=before.meshes_by_image(image))
    rows = after.match_boxes(image, before.xyxy, in_place=True)
    after = after.rows(rows)
    frame = np.array([pairs[i].frame for i in image], np.intp)
    track = _explaining_tracks(frame, before.xyxy, tracks)
    grey = [(_grey(p.old), _grey(p.new)) for p in pairs]
    meshes = [*zip(image, before.points, strict=True)]
    corners = [(i, _centre_part(mesh.min(axis=0), mesh.max(axis=0))) for i, mesh in meshes]
    return ComparedClip(
        frames=(0, 0),  # counted by the caller
        compared=np.array([p.frame for p in pairs], np.intp),
        frame=frame,
        before=before,
        after=after,
        # a face that was only pointed at has the original's mesh, to the last bit
        drawn=(rows >= 0) & (after.points != before.points).any(axis=(1, 2)),
        track=track,
        flicker=np.array([_face_flicker(pairs[i], grey[i], mesh) for i, mesh in meshes]).reshape(-1, 3),
        is_unchanged=np.array([_is_unchanged_part(grey[i], part) for i, part in corners], bool),
        unchanged_frames=tuple(
            p.frame
            for p, now in zip(pairs, grey, strict=True)
            if _has_unchanged_track(p.frame, now, tracks, track[frame == p.frame])
        ),
        residual_frames=tuple(
            p.frame for p in pairs if _has_residual(p, tracks, before.points[frame == p.frame])
        ),
    )


def _explaining_tracks(frame: IntArray, xyxy: FloatArray, tracks: Sequence[Track]) -> IntArray:
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


def _face_flicker(
    pair: FramePair, now: tuple[GreyImage, GreyImage], mesh: FloatArray
) -> tuple[float, float, float]:
    """Return how much the still parts of a face at rest changed since the previous frame: see ``flicker``."""
    if pair.previous is None:
        return 0.0, 0.0, 0.0
    margin = 0.2 * np.ptp(mesh, axis=0)  # room for the optical flow
    cut = _window(mesh.min(axis=0) - margin, mesh.max(axis=0) + margin, now[0].shape)
    old, new = (np.stack([pair.previous[side][cut], now[side][cut]]) for side in (0, 1))
    own = mesh - [cut[1].start, cut[0].start]
    move = estimate_rest_motion(old, own) if min(old.shape) >= 2 else None
    if move is None:
        return 0.0, 0.0, 0.0
    region = np.zeros(old.shape[1:], np.uint8)
    cv2.fillConvexPoly(region, cv2.convexHull(np.rint(own).astype(np.int32)), 1)
    return flicker(align_frames(old, move), align_frames(new, move), region > 0)


def _window(low: FloatArray, high: FloatArray, shape: tuple[int, ...]) -> tuple[slice, slice]:
    """Return the part of an image between two corners."""
    (left, top), (right, bottom) = (
        np.clip(np.rint(corner), 0, shape[1::-1]).astype(int) for corner in (low, high)
    )
    return slice(top, bottom), slice(left, right)


def _centre_part(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the corners (2, 2) of the centre of a face: what is around it may well be unchanged."""
    centre, half = (low + high) / 2, 0.3 * (high - low)
    return np.stack([centre - half, centre + half])


def _is_unchanged_part(grey: tuple[GreyImage, GreyImage], corners: FloatArray) -> bool:
    cut = _window(corners[0], corners[1], grey[0].shape)
    return is_unchanged(grey[0][cut], grey[1][cut])


def _has_unchanged_track(
    frame: int, grey: tuple[GreyImage, GreyImage], tracks: Sequence[Track], found: IntArray
) -> bool:
    """Return whether the place of a track without a detected face is published unchanged."""
    places = (
        track.box[frame - track.start]
        for number, track in enumerate(tracks)
        if frame in track.frames and not track.keep and number not in found
    )
    return any(_is_unchanged_part(grey, _centre_part(box[:2], box[2:])) for box in places)


def _has_residual(pair: FramePair, tracks: Sequence[Track], meshes: FloatArray) -> bool:
    """Return whether a second detector finds a face that nothing explains."""
    known = [track.box[pair.frame - track.start] for track in tracks if pair.frame in track.frames]
    rings = [with_ring(mesh) for mesh in meshes]
    boxes = np.array([*known, *(np.hstack([ring.min(axis=0), ring.max(axis=0)]) for ring in rings)])
    return bool(len(residual_faces(pair.new, boxes.reshape(-1, 4))))


def _concatenate(parts: Sequence[ComparedClip], counts: tuple[int, int]) -> ComparedClip:
    """Return parts of a clip, or clips, as one."""

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    return ComparedClip(
        frames=counts,
        before=concatenate_embeddings([part.before for part in parts]),
        after=concatenate_embeddings([part.after for part in parts]),
        unchanged_frames=tuple(at for part in parts for at in part.unchanged_frames),
        residual_frames=tuple(at for part in parts for at in part.residual_frames),
        **{name: column(name) for name in ("compared", "frame", "drawn", "track", "flicker", "is_unchanged")},
    )


def concatenate_clips(clips: Sequence[ComparedClip]) -> ComparedClip:
    """Return the faces of several clips as one; frame numbers continue from clip to clip."""
    counts = np.cumsum([(0, 0), *(clip.frames for clip in clips)], axis=0).tolist()
    shifted = [
        replace(
            clip,
            frame=clip.frame + start,
            compared=clip.compared + start,
            unchanged_frames=tuple(at + start for at in clip.unchanged_frames),
            residual_frames=tuple(at + start for at in clip.residual_frames),
        )
        for clip, (start, _) in zip(clips, counts, strict=False)
    ]
    return _concatenate(shifted, (counts[-1][0], counts[-1][1]))
