"""Tracks: what was seen of each face, joined over gaps, smoothed, and covered wherever there is doubt.

A track has no hole: between its first and its last sighting, and a little before and after, every
picture has a box, whether a detector saw the face there or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.signal import savgol_filter

from ksame.core import FloatArray, UsageError
from ksame.faces.sight import PRESENT, Sightings, box_of, pack, pose, unpack, watch
from ksame.geometry import MESH

__all__ = ["STATES", "Sightings", "Track", "kept", "people", "smooth", "tracks", "watch"]

STATES = ("seen", "followed", "filled", "covered")
GAP = 50  # pictures over which two chains can be one face
BRIDGE = 5  # pictures over which a mesh can be trusted that was not found but interpolated
LEAD = 8  # pictures by which a track goes on before its first and after its last sighting
SHORTEST = 3  # pictures: a face that is drawn for less than that would only flash up
MIN_EYES = 10.0  # px between the eyes, and ...
MAX_TURN = 0.5  # ... how far a head may be turned, to be drawn: see ``sight.pose``
REACHES = (2, 4, 8)  # pictures to either side over which a mesh is smoothed where it is still
CHUNK = 2048  # pictures that are smoothed at a time


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
        drawn. ``covered``: there may be a face that cannot be drawn well, so it must be covered.
    shape : (t, 468, 2) int16
        The smoothed mesh in steps of its box; ``mesh`` gives pixels. 0 throughout where it is not known.
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
    shape: NDArray[np.int16]
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
        return unpack(self.shape[frame - self.start], self.box[frame - self.start])

    def meshes(self) -> FloatArray:
        """Return the mesh (t, 468, 2) in every picture."""
        return unpack(self.shape, self.box)

    @property
    def drawn(self) -> NDArray[np.bool_]:
        """In which pictures a new face can be drawn."""
        return np.asarray(self.state != "covered")


def tracks(sightings: Sightings, *, same: float | None = None) -> tuple[Track, ...]:
    """Return the tracks of what was seen, in the order of their first pictures.

    Every sighting is inside the box of its track, whose state says what to do there.

    Parameters
    ----------
    sightings : Sightings
        By ``watch``.
    same : float, optional
        The distance up to which two codes are one person, ``Recogniser.same_person``. Chains are joined
        over a gap only if their codes agree, where both have one.
    """
    rows = {int(name): _trimmed(sightings, name) for name in np.unique(sightings.chain)}
    built = [_track(sightings, chain) for chain in _joined(sightings, rows, same)]
    return tuple(sorted(built, key=lambda track: (track.start, *track.box[0])))


def _trimmed(s: Sightings, name: int) -> NDArray[np.intp]:
    """Return the rows of a chain up to the last in which somebody saw it: it was only carried after that."""
    mine = np.flatnonzero(s.chain == name)
    found = np.flatnonzero((s.score[mine] > 0) | (s.presence[mine] >= PRESENT))
    return mine[: found[-1] + 1]


def _joined(
    sightings: Sightings, rows: dict[int, NDArray[np.intp]], same: float | None
) -> list[NDArray[np.intp]]:
    """Return the rows of each track: chains that follow each other, nearest in time first."""
    first = {name: mine[0] for name, mine in rows.items()}
    last = {name: mine[-1] for name, mine in rows.items()}
    code = {name: _code(sightings, mine) for name, mine in rows.items()}
    pairs = []
    for a in rows:
        for b in rows:
            gap = int(sightings.frame[first[b]] - sightings.frame[last[a]])
            if 0 < gap <= GAP and _follows(sightings, last[a], first[b], code[a], code[b], same):
                pairs.append((gap, a, b))
    after: dict[int, int] = {}
    for _, a, b in sorted(pairs):
        if a not in after and b not in after.values():
            after[a] = b
    result = []
    for name in rows:
        if name not in after.values():
            chain = [name]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            result.append(np.concatenate([rows[n] for n in chain]))
    return result


def _follows(
    s: Sightings, a: int, b: int, one: FloatArray | None, other: FloatArray | None, same: float | None
) -> bool:
    """Whether the sighting b may be the face of the sighting a, some pictures later."""
    known = one is not None and other is not None and same is not None
    if known and np.linalg.norm(one - other) > same:  # type: ignore[operator]
        return False
    gap = s.frame[b] - s.frame[a]
    cut = ((s.cuts > s.frame[a]) & (s.cuts <= s.frame[b])).any()
    if cut and not known:
        return False
    side = (s.xyxy[[a, b], 2:] - s.xyxy[[a, b], :2]).max(axis=1)
    far = np.linalg.norm((s.xyxy[a, :2] + s.xyxy[a, 2:] - s.xyxy[b, :2] - s.xyxy[b, 2:]) / 2)
    return bool(far <= side.max() * min(3.0, 0.5 + 0.1 * gap) and side.max() < 2.5 * side.min())


def _code(sightings: Sightings, rows: NDArray[np.intp]) -> FloatArray | None:
    """Return the mean code of some sightings, as long as they are on average."""
    codes = [code for row in rows if (code := sightings.codes[row]) is not None]
    if not codes:
        return None
    stack = np.stack(codes).astype(np.float64)
    mean = stack.mean(axis=0)
    length = np.linalg.norm(stack, axis=1).mean()
    return np.asarray(mean * (length / max(float(np.linalg.norm(mean)), 1e-9)))


def _track(s: Sightings, rows: NDArray[np.intp]) -> Track:
    """Return the track of the sightings in some rows, without a hole and with a margin in time."""
    frame, box = s.frame[rows], s.xyxy[rows].astype(np.float64)
    start, stop = _margins(s, frame)
    t, at = np.arange(start, stop), frame - start
    code = _code(s, rows)
    mesh = unpack(s.shape[rows], s.xyxy[rows])
    apart, turn = pose(mesh)
    good = (s.presence[rows] >= PRESENT) & (apart >= MIN_EYES) & (turn <= MAX_TURN)
    if code is None and any(c is not None for c in s.codes):
        good[:] = False  # nobody knows whose new face to draw
    state = np.full(len(t), "covered", dtype="<U8")
    full: FloatArray = np.zeros((len(t), MESH, 2))
    if good.any():
        known = at[good]
        full = smooth(_between(mesh[good].reshape(good.sum(), -1), known, len(t)).reshape(-1, MESH, 2))
        state[known] = np.where(s.score[rows][good] > 0, "seen", "followed")
        _bridge(state, known)
    region = _regions(box, at, len(t))
    drawn = state != "covered"
    region[drawn] = _hull(region[drawn], box_of(full[drawn]))
    return Track(start, region, state, _packed(full, region, bool(good.any())), code)


def _packed(mesh: FloatArray, region: FloatArray, known: bool) -> NDArray[np.int16]:
    return pack(mesh, region) if known else np.zeros(mesh.shape, np.int16)


def _margins(s: Sightings, frame: NDArray[np.intp]) -> tuple[int, int]:
    """Return where a track begins and ends: a little before and after, but not beyond a cut."""
    earlier, later = s.cuts[s.cuts <= frame[0]], s.cuts[s.cuts > frame[-1]]
    start = max(0, int(frame[0]) - LEAD, int(earlier.max()) if earlier.size else 0)
    return start, min(s.frames, int(frame[-1]) + 1 + LEAD, int(later.min()) if later.size else s.frames)


def _between(values: FloatArray, at: NDArray[np.intp], count: int) -> FloatArray:
    """Return rows (count, d) that pass through values (n, d) at some places, straight between them.

    Before the first and after the last they stay as they are.
    """
    t = np.arange(count)
    right = np.clip(np.searchsorted(at, t), 0, len(at) - 1)
    left = np.clip(np.searchsorted(at, t, side="right") - 1, 0, len(at) - 1)
    share = (t - at[left]) / np.maximum(at[right] - at[left], 1)
    share = np.where(left == right, 0.0, share)[:, None]
    return (1 - share) * values[left] + share * values[right]


def _bridge(state: NDArray[np.str_], known: NDArray[np.intp]) -> None:
    """Fill short gaps between good sightings, then cover what would only flash up."""
    for a, b in pairwise(known):
        if 1 < b - a <= BRIDGE + 1:
            state[a + 1 : b] = "filled"
    drawn = np.flatnonzero(state != "covered")
    for run in np.split(drawn, np.flatnonzero(np.diff(drawn) > 1) + 1):
        if len(run) < SHORTEST:
            state[run] = "covered"


def _regions(box: FloatArray, at: NDArray[np.intp], count: int) -> FloatArray:
    """Return a box for every picture: where the face was seen, or wherever it may have gone meanwhile.

    Away from sightings it moves on as the nearest ones did, and grows by a tenth of its side and by half
    of that motion with every picture, up to its own side.
    """
    region = _between(box, at, count)
    t = np.arange(count)
    after = np.searchsorted(at, t, side="right")
    left, right = at[np.clip(after - 1, 0, None)], at[np.clip(after, None, len(at) - 1)]
    away = np.minimum(np.abs(t - left), np.abs(right - t))
    side = (region[:, 2:] - region[:, :2]).max(axis=1)
    speed = _speed(box, at)
    for where, end in ((t < at[0], 0), (t > at[-1], -1)):  # beyond both ends it goes on
        region[where] += np.tile((t[where] - at[end])[:, None] * speed[end], 2)
    nearest = np.where(np.abs(t - left) <= np.abs(right - t), after - 1, after)
    pace = np.linalg.norm(speed, axis=1)[np.clip(nearest, 0, len(at) - 1)]
    grow = np.minimum(away * (0.05 * side + 0.5 * pace), side)[:, None]
    return np.concatenate([region[:, :2] - grow, region[:, 2:] + grow], axis=1)


def _speed(box: FloatArray, at: NDArray[np.intp]) -> FloatArray:
    """Return how far the middle of a box moves in one picture, (n, 2), over a few sightings."""
    if len(at) == 1:
        return np.zeros((1, 2))
    centre = (box[:, :2] + box[:, 2:]) / 2
    rows = np.arange(len(at))
    a, b = np.maximum(rows - 3, 0), np.minimum(rows + 3, len(at) - 1)
    return np.asarray((centre[b] - centre[a]) / (at[b] - at[a])[:, None])


def _hull(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the smallest boxes (n, 4) that hold two each."""
    return np.concatenate([np.minimum(a[:, :2], b[:, :2]), np.maximum(a[:, 2:], b[:, 2:])], axis=1)


def smooth(mesh: FloatArray) -> FloatArray:
    """Return meshes (t, 468, 2) without jitter and without lag.

    Each point follows parabolas fitted over up to eight pictures to either side (Savitzky and Golay
    1964), as wide as they agree with what was found within its own noise: a head that rests is calm,
    a blink or a quick turn is left as it is.

    Parameters
    ----------
    mesh : (t, m, 2) array
        Consecutive pictures.
    """
    t = len(mesh)
    if t < 2 * REACHES[0] + 1:
        return np.array(mesh, dtype=np.float64)
    noise = _noise(mesh)
    parts = []
    for begin in range(0, t, CHUNK):
        low, high = max(0, begin - 3 * REACHES[-1]), min(t, begin + CHUNK + 3 * REACHES[-1])
        part = _smoothed(np.asarray(mesh[low:high], dtype=np.float64), noise)
        parts.append(part[begin - low : begin - low + CHUNK])
    return np.concatenate(parts)


def _noise(mesh: FloatArray) -> float:
    """Return the standard deviation of a coordinate about its neighbours in time, where it is calmest."""
    bend = mesh[:-2] - 2 * mesh[1:-1] + mesh[2:]  # variance of white noise: 1 + 4 + 1 times its own
    by_picture = np.sqrt((bend**2).mean(axis=(1, 2)) / 6)
    side = float(np.ptp(mesh[0], axis=0).max())
    return float(np.clip(np.quantile(by_picture, 0.25), 1e-4 * side, 4e-3 * side))


def _smoothed(mesh: FloatArray, noise: float) -> FloatArray:
    result = mesh
    near = _neighbours(mesh)
    for reach in REACHES:
        if len(mesh) < 2 * reach + 1:
            break
        fitted = savgol_filter(mesh, 2 * reach + 1, 2, axis=0, mode="interp")
        off = ((fitted - mesh) ** 2).mean(axis=2) @ near  # (t, m): what neighbours say together
        off = _widest(off, reach)
        trust = np.clip(2 - off / (2 * noise) ** 2, 0, 1)[..., None]
        result = trust * fitted + (1 - trust) * result
    return result


def _widest(off: FloatArray, reach: int) -> FloatArray:
    """Return the largest value within half a reach in time: a motion is spared from its beginning."""
    half = max(1, reach // 2)
    padded = np.pad(off, ((half, half), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=0)
    return np.asarray(windows.max(axis=-1))


def _neighbours(mesh: FloatArray) -> FloatArray:
    """Return weights (m, m) by which each point listens to those around it."""
    mean = mesh[len(mesh) // 2]
    reach = 0.06 * max(float(np.ptp(mean, axis=0).max()), 1e-9)
    weight = np.exp(-((mean[:, None] - mean[None]) ** 2).sum(axis=2) / (2 * reach**2))
    return np.asarray(weight / weight.sum(axis=0))


def people(clips: Sequence[Sequence[Track]], same: float) -> list[list[str]]:
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
    >>> people([[seen(0, [0.0]), seen(9, [0.1]), seen(2, [0.2])]], same=0.5)
    [['person-001', 'person-001', 'person-002']]
    """
    flat = [(clip, track) for clip, some in enumerate(clips) for track in some]
    group = {i: {i} for i in range(len(flat))}
    names = {i: {track.person} - {""} for i, (_, track) in enumerate(flat)}
    pairs = [*_named_alike(flat), *_near_codes(flat, same)]
    for _, i, j in sorted(pairs):
        a, b = group[i], group[j]
        if a is b or len(names[i] | names[j]) > 1 or _together(flat, a, b):
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


def _named_alike(flat: Sequence[tuple[int, Track]]) -> list[tuple[float, int, int]]:
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


def _together(flat: Sequence[tuple[int, Track]], a: set[int], b: set[int]) -> bool:
    """Whether somebody of one group is in a picture with somebody of another, sure of both."""
    for i in a:
        for j in b:
            (clip, one), (other, two) = flat[i], flat[j]
            if clip == other and np.intersect1d(_sure(one), _sure(two)).size:
                return True
    return False


def _sure(track: Track) -> NDArray[np.intp]:
    """Return the pictures in which a face was seen or followed: a margin in time is nobody's alibi."""
    return track.start + np.flatnonzero((track.state == "seen") | (track.state == "followed"))


def kept(given: Sequence[Track], codes: ArrayLike, same: float) -> NDArray[np.bool_]:
    """Return which tracks show somebody of whom there is a photo, and so stay visible.

    Only what matches a photo by its own code is kept, not what was joined to it: in doubt a face is
    replaced.

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
        track.code is not None and bool((np.linalg.norm(x - track.code, axis=1) <= same).any())
        for track in given
    ]
    return np.array(near, dtype=bool)


def marked(given: Sequence[Track], names: Sequence[str], keep: ArrayLike) -> tuple[Track, ...]:
    """Return tracks with who they are and whether they stay visible written on them."""
    visible = np.asarray(keep, dtype=bool)
    return tuple(
        replace(track, person=name, keep=bool(stay))
        for track, name, stay in zip(given, names, visible, strict=True)
    )
