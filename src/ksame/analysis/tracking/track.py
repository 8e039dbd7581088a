"""Tracks: what was seen of each face, joined over gaps, smoothed, and covered wherever there is doubt.

A track has no hole: between its first and its last sighting, and a little before and after, every
picture has a box, whether a detector saw the face there or not.
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
"""From rows to meshes (n, 468, 2)."""

STATES = ("seen", "followed", "filled", "covered")
MAX_INTERPOLATED_FRAMES = 5  # pictures over which a mesh can be trusted that was not found but interpolated
MIN_DRAWN_FRAMES = 3  # pictures: a face that is drawn for less than that would only flash up
MAX_TURN = 0.5  # how far a head may be turned to be drawn: see ``geometry.eye_distance_and_turn``
TOP_POINT, CHIN_POINT = 10, 152  # points of the mesh
MIN_CODE_WIDTH_PX = 36.0  # px: the width of a face, with eyes about 16 px apart, whose code tells who it is
SIZE_JUMP_LOG_MAX = 0.25  # logarithm of the factor by which a size may differ from those around it


@dataclass(frozen=True, eq=False)
class Track:
    """One face through consecutive pictures.

    Parameters
    ----------
    start : int
        The first picture.
    box : (t, 4) float
        What must be replaced or covered in each picture: left, top, right, bottom. It may reach over
        the picture's edge.
    state : (t,) str
        ``seen`` by a detector, ``followed`` by its mesh, ``filled`` in over a short gap: these can be
        drawn, see ``drawn``. ``covered``: there may be a face that cannot be drawn well, so cover it.
    shape : (t, 468, 2) int16
        The smoothed mesh in steps of its box, an array or on a shelf; ``mesh`` gives pixels. 0 throughout
        where it is not known.
    code : (d,) float, optional
        The mean code of a recogniser; None if there was no good view.
    person : str
        Who it is; empty if nobody said so.
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
            raise UsageError(f"A state is one of {', '.join(STATES)}. Got {min(unknown)!r}.")

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.state)

    @property
    def frames(self) -> range:
        """The pictures it is in."""
        return range(self.start, self.start + len(self))

    def mesh(self, frame: int) -> FloatArray:
        """Return the mesh (468, 2) in one picture."""
        return unpack_meshes(self.shape[frame - self.start], self.box[frame - self.start])

    def meshes(self) -> FloatArray:
        """Return the mesh (t, 468, 2) in every picture."""
        return unpack_meshes(self.shape[:], self.box)

    @cached_property
    def drawn(self) -> NDArray[np.bool_]:
        """In which pictures a new face can be drawn: where its mesh is known."""
        known = [some.any(axis=(1, 2)) for some in iterate_chunks(self.shape)]
        return np.asarray((self.state != "covered") & np.concatenate(known))


def build_tracks(sightings: Observations, *, same: float | None = None) -> tuple[Track, ...]:
    """Return the tracks of what was seen, in the order of their first pictures.

    Every sighting is inside the box of its track, whose state says what to do there.

    Parameters
    ----------
    sightings : Sightings
        By ``scan_video``.
    same : float, optional
        The distance up to which two codes are one person, ``Recogniser.same_person``. Chains are joined
        over a gap only if their codes agree, where both have one.
    """
    rows = {int(name): trim_tracklet(sightings, name) for name in np.unique(sightings.chain)}
    built = [_track(sightings, chain) for chain in link_tracklets(sightings, rows, same)]
    return tuple(sorted(built, key=lambda track: (track.start, *track.box[0])))


def _track(s: Observations, rows: NDArray[np.intp]) -> Track:
    """Return the track of the sightings in some rows, without a hole and with a margin in time."""
    start, stop = _track_limits(s, s.frame[rows])
    at, count = s.frame[rows] - start, stop - start
    code, seen = mean_observation_code(s, rows), s.score[rows] > 0
    box = s.xyxy[rows].astype(np.float64)
    good = _drawable(lambda some: unpack_meshes(s.shape[rows[some]], box[some]), s.presence[rows])
    if code is None and any(c is not None for c in s.codes):
        good[:] = False  # nobody knows whose new face to draw
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
    """Return a track that somebody corrected with the meshes (t, 468, 2) that were found in its boxes.

    Its boxes stay as they were given, and what was to be covered is covered.
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
    """Yield smoothed meshes for consecutive pictures, a part at a time: a long track is larger than memory.

    ``take`` gives the meshes that are known, at the places ``at``; between them they are filled in.
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
    """Return the state of every picture, from good sightings at some places."""
    state = np.full(count, "covered", dtype="<U8")
    state[at] = np.where(seen, "seen", "followed")
    _fill_gaps(state, at)
    return state


def _track_limits(s: Observations, frame: NDArray[np.intp]) -> tuple[int, int]:
    """Return where a track begins and ends: a little before and after, but not beyond a cut."""
    earlier, later = s.cuts[s.cuts <= frame[0]], s.cuts[s.cuts > frame[-1]]
    start = max(0, int(frame[0]) - MARGIN_FRAMES, int(earlier.max()) if earlier.size else 0)
    return start, min(
        s.frames, int(frame[-1]) + 1 + MARGIN_FRAMES, int(later.min()) if later.size else s.frames
    )


def _drawable(take: ReadMeshesCallback, presence: FloatArray) -> NDArray[np.bool_]:
    """Return which sightings of a track can be drawn on; ``take`` gives the meshes of some.

    They are faces, large enough, not turned too far, and neither squeezed nor grown against those around
    them in time: half a face behind a post gets a mesh that is half as wide.
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
    """Fill short gaps between good sightings, then cover what would only flash up."""
    for a, b in pairwise(known):
        if 1 < b - a <= MAX_INTERPOLATED_FRAMES + 1:
            state[a + 1 : b] = "filled"
    drawn = np.flatnonzero(state != "covered")
    for run in np.split(drawn, np.flatnonzero(np.diff(drawn) > 1) + 1):
        if len(run) < MIN_DRAWN_FRAMES:
            state[run] = "covered"


def identify_tracks(clips: Sequence[Sequence[Track]], same: float) -> list[list[str]]:
    """Return who each track is, over all videos of a run: one name for each person.

    Tracks are joined nearest codes first; two that are in one picture are never one person. Those
    without a code are people of their own.

    Parameters
    ----------
    clips : sequence of sequences of Track
        The tracks of each video. A ``person`` that was given is kept.
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
    """Return the pairs of tracks that somebody gave one name: they come first."""
    return [
        (-1.0, i, j)
        for i, j in combinations(range(len(flat)), 2)
        if flat[i][1].person and flat[i][1].person == flat[j][1].person
    ]


def _near_codes(flat: Sequence[tuple[int, Track]], same: float) -> list[tuple[float, int, int]]:
    """Return the pairs of tracks whose codes are one person's, with their distances."""
    pairs = []
    for i, j in combinations([i for i, (_, track) in enumerate(flat) if track.code is not None], 2):
        apart = float(np.linalg.norm(np.subtract(flat[i][1].code, flat[j][1].code)))  # type: ignore[arg-type]
        if apart <= same:
            pairs.append((apart, i, j))
    return pairs


def _appear_together(flat: Sequence[tuple[int, Track]], a: set[int], b: set[int]) -> bool:
    """Whether somebody of one group is in a picture with somebody of another, sure of both."""
    for i in a:
        for j in b:
            (clip, one), (other, two) = flat[i], flat[j]
            if clip == other and np.intersect1d(_observed_frames(one), _observed_frames(two)).size:
                return True
    return False


def _observed_frames(track: Track) -> NDArray[np.intp]:
    """Return the pictures in which a face was seen or followed: a margin in time is nobody's alibi."""
    return track.start + np.flatnonzero((track.state == "seen") | (track.state == "followed"))


def find_kept_tracks(given: Sequence[Track], codes: ArrayLike, same: float) -> NDArray[np.bool_]:
    """Return which tracks show somebody of whom there is a photo, and so stay visible.

    Only what matches a photo by its own code is kept, not what was joined to it, and not the code of a face
    that was always small, which tells little: in doubt a face is replaced.

    Parameters
    ----------
    given : sequence of Track
        The tracks.
    codes : (n, d) array
        Codes of the faces that stay visible, by the recogniser of the tracks.
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
    """Return how wide a face is where it is widest, of those that are not in doubt."""
    box = track.box[track.state != "covered"]
    return float((box[:, 2] - box[:, 0]).max(initial=0.0))


def annotate_tracks(given: Sequence[Track], names: Sequence[str], keep: ArrayLike) -> tuple[Track, ...]:
    """Return tracks with who they are and whether they stay visible written on them."""
    visible = np.asarray(keep, dtype=bool)
    return tuple(
        replace(track, person=name, keep=bool(stay))
        for track, name, stay in zip(given, names, visible, strict=True)
    )
