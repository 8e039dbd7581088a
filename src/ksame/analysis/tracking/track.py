"""Build tracks: observations of each face, linked over gaps, smoothed, and covered where uncertain.

A track has no gaps: from slightly before its first observation to slightly after its last, every frame
has a box, whether the face was detected there or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import median_filter

from ksame.analysis.tracking.interpolate import interpolate, track_boxes, union_boxes
from ksame.analysis.tracking.link import MARGIN_FRAMES, link_tracklets, mean_observation_code, trim_tracklet
from ksame.analysis.tracking.mesh_store import CHUNK_FRAMES, Meshes, MeshStore, iterate_chunks
from ksame.analysis.tracking.observations import Observations
from ksame.analysis.tracking.propagate import (
    MIN_DRAWN_EYE_DISTANCE_PX,
    MIN_DRAWN_PRESENCE,
    mesh_box,
    pack_meshes,
    unpack_meshes,
)
from ksame.analysis.tracking.scan import scan_video
from ksame.analysis.tracking.smooth import MAX_REACH_FRAMES, smooth_meshes
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.geometry import MESH, eye_distance_and_turn

__all__ = [
    "STATES",
    "Observations",
    "Track",
    "annotate_tracks",
    "build_tracks",
    "find_kept_tracks",
    "identify_tracks",
    "scan_video",
    "smooth_meshes",
    "update_corrected_track",
]

ReadMeshesCallback = Callable[[NDArray[np.intp]], NDArray[Any]]
"""Map rows to meshes (n, 468, 2)."""

STATES = ("seen", "followed", "filled", "covered")
MAX_INTERPOLATED_FRAMES = 5  # longest gap over which an interpolated mesh is reliable
MIN_DRAWN_FRAMES = 3  # a face drawn for fewer frames would flash
MAX_TURN = 0.5  # of a head that is drawn: see ``geometry.eye_distance_and_turn``
TOP_POINT, CHIN_POINT = 10, 152  # points of the mesh
MIN_CODE_WIDTH_PX = 36.0  # width of a face (interocular distance about 16 px) whose embedding is reliable
SIZE_JUMP_LOG_MAX = 0.25  # log ratio by which a size may differ from the median of nearby frames


@dataclass(frozen=True, eq=False)
class Track:
    """A face in consecutive frames.

    Parameters
    ----------
    start : int
        The first frame.
    box : (t, 4) float
        The region to replace or cover in each frame: left, top, right, bottom. It may extend beyond the
        frame.
    state : (t,) str
        ``seen`` by a detector, ``followed`` by its mesh, or ``filled`` over a short gap: these can be
        drawn, see ``drawn``. ``covered``: there may be a face that cannot be drawn well, so cover it.
    shape : (t, 468, 2) int16
        The smoothed mesh in steps of its box, an array or in a store; ``mesh`` returns pixels. All 0 where
        it is not known.
    code : (d,) float, optional
        The mean embedding by a recogniser; None without a good view.
    person : str
        Name of the person; empty if not known.
    keep : bool
        Whether this face stays visible.
    """

    start: int
    box: FloatArray
    state: NDArray[np.str_]
    shape: Meshes
    code: FloatArray | None = None
    person: str = ""
    keep: bool = False

    def __post_init__(self) -> None:
        """Check that the arrays are parallel and the states known."""
        t = len(self.state)
        if not t or self.box.shape != (t, 4) or self.shape.shape != (t, MESH, 2):
            raise UsageError(
                f"A track needs box ({t}, 4) and shape ({t}, {MESH}, 2)."
                f" Got {self.box.shape} and {self.shape.shape}."
            )
        unknown = set(self.state.tolist()) - set(STATES)
        if unknown:
            raise UsageError(f"state must be one of {', '.join(STATES)}. Got {min(unknown)!r}.")

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.state)

    @property
    def frames(self) -> range:
        """The frames of the track."""
        return range(self.start, self.start + len(self))

    def mesh(self, frame: int) -> FloatArray:
        """Return the mesh (468, 2) in one frame."""
        return unpack_meshes(self.shape[frame - self.start], self.box[frame - self.start])

    def meshes(self) -> FloatArray:
        """Return the meshes (t, 468, 2) in all frames."""
        return unpack_meshes(self.shape[:], self.box)

    @cached_property
    def drawn(self) -> NDArray[np.bool_]:
        """The frames in which a new face can be drawn, because the mesh is known."""
        known = [some.any(axis=(1, 2)) for some in iterate_chunks(self.shape)]
        return np.asarray((self.state != "covered") & np.concatenate(known))


def build_tracks(sightings: Observations, *, same: float | None = None) -> tuple[Track, ...]:
    """Build tracks from observations, in the order of their first frames.

    Every observation is inside the box of its track, whose state says how to treat it.

    Parameters
    ----------
    sightings : Observations
        From ``scan_video``.
    same : float, optional
        Distance threshold of one person, ``Recogniser.same_person``. Tracklets are linked over a gap only if
        their embeddings agree, where both have one.
    """
    rows = {int(name): trim_tracklet(sightings, name) for name in np.unique(sightings.chain)}
    built = [_track(sightings, chain) for chain in link_tracklets(sightings, rows, same)]
    return tuple(sorted(built, key=lambda track: (track.start, *track.box[0])))


def _track(s: Observations, rows: NDArray[np.intp]) -> Track:
    """Build the track of the observations in some rows, without gaps and with a margin in time."""
    start, stop = _track_limits(s, s.frame[rows])
    at, count = s.frame[rows] - start, stop - start
    code, seen = mean_observation_code(s, rows), s.score[rows] > 0
    box = s.xyxy[rows].astype(np.float64)
    good = _drawable(lambda some: unpack_meshes(s.shape[rows[some]], box[some]), s.presence[rows])
    if code is None and any(c is not None for c in s.codes):
        good[:] = False  # the person, and so the new face, is unknown
    region, state = track_boxes(box, at, count, good, seen), _states(at[good], seen[good], count)
    shape, between_boxes = MeshStore(), interpolate(box, at, count)
    known = rows[good]
    for part, mesh in _meshes(
        lambda some: unpack_meshes(s.shape[known[some]], s.xyxy[known[some]]), at[good], count
    ):
        drawn = state[part] != "covered"
        region[part][drawn] = union_boxes(between_boxes[part][drawn], mesh_box(mesh[drawn]))
        shape.put(np.where(drawn[:, None, None], pack_meshes(mesh, region[part]), np.int16(0)))
    return Track(start, region, state, shape.of(np.arange(count)), code)


def update_corrected_track(
    track: Track, found: Meshes, presence: FloatArray, code: FloatArray | None
) -> Track:
    """Update a manually corrected track with the meshes (t, 468, 2) found in its boxes.

    Its boxes are not changed, and frames to be covered are covered.
    """

    def mesh(some: NDArray[np.intp]) -> FloatArray:
        return unpack_meshes(found[some], track.box[some])

    at = np.flatnonzero((track.state != "covered") & _drawable(mesh, presence))
    state = _states(at, np.ones(len(at), bool), len(track))
    state[track.state == "covered"] = "covered"
    shape = MeshStore()
    for part, calm in _meshes(lambda some: mesh(at[some]), at, len(track)):
        drawn = (state[part] != "covered")[:, None, None]
        shape.put(np.where(drawn, pack_meshes(calm, track.box[part]), np.int16(0)))
    return replace(track, state=state, shape=shape.of(np.arange(len(track))), code=code)


def _meshes(take: ReadMeshesCallback, at: NDArray[np.intp], count: int) -> Iterator[tuple[slice, FloatArray]]:
    """Yield smoothed meshes of consecutive frames in chunks: a long track is larger than memory.

    ``take`` returns the known meshes, at the positions ``at``; between them, meshes are interpolated.
    """
    for begin in range(0, count, CHUNK_FRAMES):
        end = min(count, begin + CHUNK_FRAMES)
        if not len(at):
            yield slice(begin, end), np.zeros((end - begin, MESH, 2))
            continue
        low, high = max(0, begin - MAX_REACH_FRAMES), min(count, end + MAX_REACH_FRAMES)
        first = max(0, int(np.searchsorted(at, low, side="right")) - 1)
        some = slice(first, int(np.searchsorted(at, high)) + 1)
        known = np.asarray(take(np.arange(len(at))[some]), dtype=np.float64)
        flat = interpolate(known.reshape(len(known), -1), at[some] - low, high - low)
        calm = smooth_meshes(flat.reshape(-1, MESH, 2))
        yield slice(begin, end), calm[begin - low : end - low]


def _states(at: NDArray[np.intp], seen: NDArray[np.bool_], count: int) -> NDArray[np.str_]:
    """Return the state of every frame from good observations at some positions."""
    state = np.full(count, "covered", dtype="<U8")
    state[at] = np.where(seen, "seen", "followed")
    _fill_gaps(state, at)
    return state


def _track_limits(s: Observations, frame: NDArray[np.intp]) -> tuple[int, int]:
    """Return the first frame of a track and the end: with a margin, but not beyond a cut."""
    earlier, later = s.cuts[s.cuts <= frame[0]], s.cuts[s.cuts > frame[-1]]
    start = max(0, int(frame[0]) - MARGIN_FRAMES, int(earlier.max()) if earlier.size else 0)
    return start, min(
        s.frames, int(frame[-1]) + 1 + MARGIN_FRAMES, int(later.min()) if later.size else s.frames
    )


def _drawable(take: ReadMeshesCallback, presence: FloatArray) -> NDArray[np.bool_]:
    """Return which observations of a track can be drawn; ``take`` returns the meshes of some.

    They are present, large enough, not turned too far, and of a size consistent with nearby frames: a half
    occluded face gets a mesh of half the width.
    """
    good = np.asarray(presence >= MIN_DRAWN_PRESENCE)
    rows = np.flatnonzero(good)
    apart, turn, tall = np.zeros((3, len(rows)))
    for begin in range(0, len(rows), CHUNK_FRAMES):
        mesh = take(rows[begin : begin + CHUNK_FRAMES])
        apart[begin : begin + CHUNK_FRAMES], turn[begin : begin + CHUNK_FRAMES] = eye_distance_and_turn(mesh)
        tall[begin : begin + CHUNK_FRAMES] = np.linalg.norm(mesh[:, TOP_POINT] - mesh[:, CHIN_POINT], axis=1)
    fine = (apart >= MIN_DRAWN_EYE_DISTANCE_PX) & (turn <= MAX_TURN)
    for size in (apart, tall):
        usual = median_filter(size, size=31, mode="nearest") if len(size) else size
        fine &= np.abs(np.log(np.maximum(size, 1e-9) / np.maximum(usual, 1e-9))) < SIZE_JUMP_LOG_MAX
    good[rows] = fine
    return good


def _fill_gaps(state: NDArray[np.str_], known: NDArray[np.intp]) -> None:
    """Fill short gaps between good observations, then cover runs too short to draw."""
    for a, b in pairwise(known):
        if 1 < b - a <= MAX_INTERPOLATED_FRAMES + 1:
            state[a + 1 : b] = "filled"
    drawn = np.flatnonzero(state != "covered")
    for run in np.split(drawn, np.flatnonzero(np.diff(drawn) > 1) + 1):
        if len(run) < MIN_DRAWN_FRAMES:
            state[run] = "covered"


def identify_tracks(clips: Sequence[Sequence[Track]], same: float) -> list[list[str]]:
    """Assign tracks to persons over all videos of a run; return the name of each track's person.

    Tracks are merged in order of embedding distance; two tracks in one frame are never one person. Tracks
    without an embedding are persons of their own.

    Parameters
    ----------
    clips : sequence of sequences of Track
        The tracks of each video. A given ``person`` is kept.
    same : float
        The distance up to which two codes are one person.

    Examples
    --------
    >>> def seen(start, code):
    ...     shape = np.zeros((5, 468, 2), np.int16)
    ...     return Track(start, np.zeros((5, 4)), np.full(5, "seen"), shape, np.array(code))
    >>> identify_tracks([[seen(0, [0.0]), seen(9, [0.1]), seen(2, [0.2])]], same=0.5)
    [['person-001', 'person-001', 'person-002']]
    """
    flat = [(clip, track) for clip, some in enumerate(clips) for track in some]
    group = {i: {i} for i in range(len(flat))}
    names = {i: {track.person} - {""} for i, (_, track) in enumerate(flat)}
    pairs = [*_same_name_pairs(flat), *_near_codes(flat, same)]
    for _, i, j in sorted(pairs):
        a, b = group[i], group[j]
        if a is b or len(names[i] | names[j]) > 1 or _appear_together(flat, a, b):
            continue
        a |= b
        both = names[i] | names[j]
        for k in a:
            group[k], names[k] = a, both
    taken = set().union(*names.values()) if names else set()
    free = (name for n in range(1, 2 * len(flat) + 2) if (name := f"person-{n:03}") not in taken)
    called: dict[int, str] = {}
    for i in range(len(flat)):
        if id(group[i]) not in called:
            called[id(group[i])] = next(iter(names[i])) if names[i] else next(free)
    result: list[list[str]] = [[] for _ in clips]
    for i, (clip, _) in enumerate(flat):
        result[clip].append(called[id(group[i])])
    return result


def _same_name_pairs(flat: Sequence[tuple[int, Track]]) -> list[tuple[float, int, int]]:
    """Return the pairs of tracks with the same given name, which are merged first."""
    return [
        (-1.0, i, j)
        for i, j in combinations(range(len(flat)), 2)
        if flat[i][1].person and flat[i][1].person == flat[j][1].person
    ]


def _near_codes(flat: Sequence[tuple[int, Track]], same: float) -> list[tuple[float, int, int]]:
    """Return the pairs of tracks whose embeddings match, with their distances."""
    pairs = []
    for i, j in combinations([i for i, (_, track) in enumerate(flat) if track.code is not None], 2):
        apart = float(np.linalg.norm(np.subtract(flat[i][1].code, flat[j][1].code)))  # type: ignore[arg-type]
        if apart <= same:
            pairs.append((apart, i, j))
    return pairs


def _appear_together(flat: Sequence[tuple[int, Track]], a: set[int], b: set[int]) -> bool:
    """Return whether tracks of two groups are certainly observed in one frame."""
    for i in a:
        for j in b:
            (clip, one), (other, two) = flat[i], flat[j]
            if clip == other and np.intersect1d(_observed_frames(one), _observed_frames(two)).size:
                return True
    return False


def _observed_frames(track: Track) -> NDArray[np.intp]:
    """Return the frames in which a face was observed, without the margin in time."""
    return track.start + np.flatnonzero((track.state == "seen") | (track.state == "followed"))


def find_kept_tracks(given: Sequence[Track], codes: ArrayLike, same: float) -> NDArray[np.bool_]:
    """Return which tracks match a photo of a person to keep, and so stay visible.

    A track is kept only if its own embedding matches, not that of a track merged with it, and only if its
    face is large enough for a reliable embedding: in doubt, a face is replaced.

    Parameters
    ----------
    given : sequence of Track
        The tracks.
    codes : (n, d) array
        Embeddings of the faces to keep, by the recogniser of the tracks.
    same : float
        The distance up to which two codes are one person.
    """
    x: Any = np.asarray(codes, dtype=np.float64)
    if x.ndim != 2:
        raise UsageError(f"codes must be (n, d). Got {x.shape}.")
    near = [
        track.code is not None
        and _max_width(track) >= MIN_CODE_WIDTH_PX
        and bool((np.linalg.norm(x - track.code, axis=1) <= same).any())
        for track in given
    ]
    return np.array(near, dtype=bool)


def _max_width(track: Track) -> float:
    """Return the greatest width of a face over frames that are not covered."""
    box = track.box[track.state != "covered"]
    return float((box[:, 2] - box[:, 0]).max(initial=0.0))


def annotate_tracks(given: Sequence[Track], names: Sequence[str], keep: ArrayLike) -> tuple[Track, ...]:
    """Return tracks with names of persons and whether they stay visible."""
    visible = np.asarray(keep, dtype=bool)
    return tuple(
        replace(track, person=name, keep=bool(stay))
        for track, name, stay in zip(given, names, visible, strict=True)
    )
