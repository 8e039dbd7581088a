"""Link tracklets of one face that follow each other in time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.tracking.interpolate import box_speed
from ksame.analysis.tracking.observations import Observations
from ksame.analysis.tracking.propagate import MIN_PRESENCE
from ksame.core.arrays import FloatArray

__all__ = [
    "MARGIN_FRAMES",
    "MAX_GAP_FRAMES",
    "link_tracklets",
    "mean_code",
    "mean_observation_code",
    "trim_tracklet",
]

MAX_GAP_FRAMES = 50  # longest gap over which two tracklets are linked
MARGIN_FRAMES = 8  # frames by which a track extends before its first and after its last observation


def trim_tracklet(s: Observations, name: int) -> NDArray[np.intp]:
    """Return the rows of a tracklet up to its last detection, after which it was only extrapolated."""
    mine = np.flatnonzero(s.chain == name)
    found = np.flatnonzero((s.score[mine] > 0) | (s.presence[mine] >= MIN_PRESENCE))
    return mine[: found[-1] + 1]


def link_tracklets(
    s: Observations, rows: dict[int, NDArray[np.intp]], same: float | None
) -> list[NDArray[np.intp]]:
    """Return the rows of each track: tracklets linked over gaps, shortest gaps first."""
    code = {name: mean_observation_code(s, mine) for name, mine in rows.items()}
    pairs = []
    for a, b in permutations(rows, 2):
        gap = int(s.frame[rows[b][0]] - s.frame[rows[a][-1]])
        if not 0 < gap <= MAX_GAP_FRAMES or not _positions_agree(s, rows[a], rows[b]):
            continue
        if _codes_agree(code[a], code[b], same, _crosses_cut(s, rows[a], rows[b])):
            pairs.append((gap, a, b))
    after: dict[int, int] = {}
    before: dict[int, int] = {}
    for _, a, b in sorted(pairs):
        if a not in after and b not in before:
            after[a], before[b] = b, a
    result = []
    for name in rows:
        if name not in before:
            chain = [name]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            result.append(np.concatenate([rows[n] for n in chain]))
    return result


def _crosses_cut(s: Observations, a: NDArray[np.intp], b: NDArray[np.intp]) -> bool:
    return bool(((s.cuts > s.frame[a[-1]]) & (s.cuts <= s.frame[b[0]])).any())


def _codes_agree(one: FloatArray | None, other: FloatArray | None, same: float | None, cut: bool) -> bool:
    """Return whether embeddings allow two tracklets to be one person; over a cut both are required."""
    if one is None or other is None or same is None:
        return not cut
    return bool(np.linalg.norm(one - other) <= same)


def _positions_agree(s: Observations, a: NDArray[np.intp], b: NDArray[np.intp]) -> bool:
    """Return whether tracklet b may continue tracklet a by position and size, within the frame."""
    box, gap = s.xyxy[[a[-1], b[0]]].astype(np.float64), int(s.frame[b[0]] - s.frame[a[-1]])
    side, centre = (box[:, 2:] - box[:, :2]).max(axis=1), (box[:, :2] + box[:, 2:]) / 2
    ahead = box_speed(s.xyxy[a[-8:]], s.frame[a[-8:]])[-1]
    back = box_speed(s.xyxy[b[:8]], s.frame[b[:8]])[0]
    if gap > MARGIN_FRAMES:  # a face that left the frame needs no cover until it returns
        middle = centre + gap / 2 * np.stack([ahead, -back])
        if (middle < 0).any() or (middle > [s.width, s.height]).any():
            return False
    far, reach = float(np.linalg.norm(centre[1] - centre[0])), min(3.0, 0.5 + 0.1 * gap)
    if max(s.presence[a].max(), s.presence[b].max()) < MIN_PRESENCE:  # possibly false detections of hands
        reach = min(reach, 1.0)
    return bool(far <= side.max() * reach and side.max() < 2.5 * side.min())


def mean_observation_code(sightings: Observations, rows: NDArray[np.intp]) -> FloatArray | None:
    """Return the mean embedding of some observations; None if none has one."""
    return mean_code([code for row in rows if (code := sightings.codes[row]) is not None])


def mean_code(codes: Sequence[FloatArray]) -> FloatArray | None:
    """Return the mean direction of codes, scaled to their mean length; None without codes."""
    if not codes:
        return None
    stack = np.stack(codes).astype(np.float64)
    mean = stack.mean(axis=0)
    length = np.linalg.norm(stack, axis=1).mean()
    return np.asarray(mean * (length / max(float(np.linalg.norm(mean)), 1e-9)))
