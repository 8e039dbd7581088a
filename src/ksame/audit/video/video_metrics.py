"""Measure published videos: original faces that are still visible, utility, and strips of new faces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.tracking.track import Track
from ksame.attack import AttackResult
from ksame.attack.recognisers import Recogniser
from ksame.audit.pairing import Claim
from ksame.audit.report.result import ImagePair, VideoFigures
from ksame.audit.utility import DISTANCES, detection_rate, measures
from ksame.audit.utility.measures import COLUMNS
from ksame.audit.utility.video import (
    SHAPES,
    expression_rows,
    expression_strength,
    identity_consistency,
    pairs_alike,
    time_correlation,
)
from ksame.audit.video.video_compare import ComparedClip
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import InputError
from ksame.core.geometry import crop
from ksame.models.blendshapes import BLENDSHAPES

FACES_PER_STRIP, STRIP_FACE_PX = 6, 128  # faces of one strip, and the side of each in pixels
STRIPS_MAX = 8  # people whose strip is in the report
DETECTION_FRAMES = 40  # frames of a clip that every detector searches
TRACED_EXPRESSIONS = ("smile", "jaw", "blink")  # drawn over time
NAMES = {"blendshapes": BLENDSHAPES, "distances": DISTANCES}


class ClipPair(NamedTuple):
    """A published clip, its original, and the comparison of both."""

    file: str
    original: Path
    published: Path
    clip: io.Clip
    tracks: tuple[Track, ...]
    compared: ComparedClip
    person: tuple[str, ...] = ()  # of each face; "": no track explains it

    @property
    def keep(self) -> NDArray[np.bool_]:
        """The faces that stay visible on request."""
        keep = np.array([*(track.keep for track in self.tracks), False], bool)  # -1: no track
        return np.asarray(keep[self.compared.track])


def visible_faces(pair: ClipPair, recognisers: Sequence[Recogniser]) -> NDArray[np.bool_]:
    """Return which faces (n,) of the original are still visible, and should not be.

    Their pixels are unchanged, or more than half of the recognisers that have a threshold match what is
    in their place with them.
    """
    compared = pair.compared
    votes = [
        np.linalg.norm(compared.before.codes[one.name] - compared.after.codes[one.name], axis=1)
        <= one.same_person
        for one in recognisers
        if one.same_person is not None
    ]
    matched = np.mean(votes, axis=0) > 0.5 if votes else np.zeros(len(compared), bool)
    return np.asarray((compared.is_unchanged | matched) & ~pair.keep)


def video_figures(pair: ClipPair, visible: NDArray[np.bool_]) -> VideoFigures:
    """Return the figures of one clip; ``visible``: see ``visible_faces``."""
    compared, now = pair.compared, io.probe_video(pair.published)
    measured = ~pair.keep & (np.array(pair.person, dtype=str) != "")
    kind = next((name for name in SHAPES if name in compared.before.features), None)
    return VideoFigures(
        file=pair.file,
        frames=compared.frames,
        seconds=(float(pair.clip.duration), float(now.duration)),
        sound=_sound(pair),
        metadata=_metadata(pair.published),
        compared=len(compared.compared),
        faces=len(compared),
        drawn=int((compared.drawn & ~pair.keep).sum()),
        kept=int(pair.keep.sum()),
        people=len({*(track.person for track in pair.tracks), *pair.person} - {""}),
        visible=tuple(sorted({*compared.frame[visible].tolist(), *compared.unchanged_frames})),
        residual=compared.residual_frames,
        blendshapes=dict(_expression_rows(pair, kind, np.flatnonzero(measured))) if kind else {},
        traces=dict(_traces(pair, kind, measured)) if kind else {},
    )


def _sound(pair: ClipPair) -> str:
    """State whether the sound was kept."""
    old, new = (io.audio_hashes(path) for path in (pair.original, pair.published))
    if old == new:
        return "the same bit for bit" if old else "none"
    return "changed" if new else "dropped"


def _metadata(path: Path) -> tuple[str, ...]:
    try:
        return tuple(io.metadata_of_video(path))
    except InputError:  # a file type whose metadata cannot be read
        return ("not checked",)


def _expression_rows(
    pair: ClipPair, kind: str, rows: IntArray
) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Yield each expression's mean strength, mean absolute difference, and correlation over time."""
    old, new = (
        side.features[kind][rows].astype(np.float64) for side in (pair.compared.before, pair.compared.shown)
    )
    person = np.array(pair.person)[rows]
    both = ~(np.isnan(old).any(axis=1) | np.isnan(new).any(axis=1))
    if not both.any():
        return
    for at, name in enumerate(NAMES[kind]):
        a, b = old[both, at], new[both, at]
        yield name, (a.mean(), b.mean(), np.abs(a - b).mean(), time_correlation(a, b, person[both]))


def _traces(pair: ClipPair, kind: str, measured: NDArray[np.bool_]) -> Iterator[tuple[str, FloatArray]]:
    """Yield seconds, old and new strength of some expressions of the person who has most new faces."""
    person = np.array(pair.person, dtype=str)
    names, times = np.unique(person[measured & pair.compared.drawn], return_counts=True)
    if not len(names):
        return
    rows = np.flatnonzero(measured & (person == names[times.argmax()]))
    frame = pair.compared.frame[rows]
    step = np.diff(pair.compared.compared).min(initial=pair.compared.frames[0])
    gaps = np.flatnonzero(np.diff(frame) > 3 * step) + 1  # no line while the person is out of view
    for name in TRACED_EXPRESSIONS:
        sides = (pair.compared.before, pair.compared.shown)
        old, new = (expression_strength(side.features, kind, SHAPES[kind][name])[rows] for side in sides)
        line = np.stack([frame / float(pair.clip.rate), old, new], axis=1)
        yield name, np.insert(line, gaps, np.nan, axis=0)


class MeasuredFaces(NamedTuple):
    """The faces of all clips whose people are known and must not be visible, and those of strangers."""

    compared: ComparedClip
    person: NDArray[np.str_]
    rows: IntArray
    strangers: Mapping[str, NDArray[Any]]


def utility_table(
    faces: MeasuredFaces,
    recognisers: Sequence[Recogniser],
    results: Sequence[AttackResult],
    visible: NDArray[np.bool_],
) -> pd.DataFrame:
    """Return the utility of the published faces, face by face and over time.

    Parameters
    ----------
    faces : MeasuredFaces
        The faces.
    recognisers : sequence of Recogniser
        Those that measure identity consistency, LBP among them.
    results : sequence of AttackResult
        The attacks, for the people they name most.
    visible : (n,) bool
        See ``visible_faces``.
    """
    rows, person = faces.rows, faces.person[faces.rows]
    if not len(rows):
        return pd.DataFrame(columns=COLUMNS)
    old, new = faces.compared.before.rows(rows), faces.compared.shown.rows(rows)
    naive = max((r for r in results if r.attack == "naive"), key=lambda r: r.rank1, default=None)
    named = {} if naive is None else {f"named by {naive.recogniser} (share)": naive.named}
    per_face = measures(old.features, new.features, subjects=person, named=named)
    more = [
        ("original face visible (share)", float("nan"), float(visible[rows].mean())),
        *_consistency(faces, recognisers),
        *expression_rows(old.features, new.features, person),
        *_flicker(faces.compared.flicker[rows][faces.compared.drawn[rows]]),
    ]
    whole = pd.concat([pd.DataFrame([(*row, "all") for row in more], columns=COLUMNS), per_face])
    whole = whole.reset_index(drop=True)
    whole.attrs = per_face.attrs
    return whole


def _consistency(
    faces: MeasuredFaces, recognisers: Sequence[Recogniser]
) -> Iterator[tuple[str, float, float]]:
    """Yield the identity consistency of original and of new faces [S 7.5.2]."""
    person, drawn = faces.person[faces.rows], faces.compared.drawn[faces.rows]
    if drawn.sum() < 2:
        return
    folds = min(10, int(drawn.sum()))
    for one in recognisers:
        old = faces.compared.before.codes[one.name][faces.rows]
        new = faces.compared.after.codes[one.name][faces.rows][drawn]
        sides = (old, person, new), (new, person[drawn], old)
        if len(set(person[drawn].tolist())) > 1:  # as in the thesis, among the people of the videos
            was, now = (identity_consistency(own, who, folds=folds) for own, who, _ in sides)
            yield f"nearest face is the same person's, {one.name} (share)", was, now
        was, now = (
            identity_consistency(
                own, who, folds=folds, others=np.concatenate([faces.strangers[one.name], decoys])
            )
            for own, who, decoys in sides
        )
        yield f"nearest face among others is the same person's, {one.name} (share)", was, now
        if one.same_person is not None:
            was, now = (pairs_alike(own, who, one.same_person) for own, who, _ in sides)
            yield f"two frames of a person matched, {one.name} (share)", was, now


def _flicker(sums: FloatArray) -> Iterator[tuple[str, float, float]]:
    """Yield how much still parts of faces change from frame to frame, before and after."""
    before, after, pixels = sums.sum(axis=0)
    if pixels:
        yield "flicker of still parts (grey levels)", before / pixels, after / pixels
    if before:
        yield "flicker, new to old (ratio)", float("nan"), after / before


def detection_rates(clips: Sequence[ClipPair], jobs: int | None) -> dict[str, float]:
    """Return, for each detector, the share of published frames with a face in which it finds one."""

    def frames_with_faces() -> Iterator[NDArray[np.uint8]]:
        for pair in clips:
            frames = np.unique(pair.compared.frame)
            chosen = frames[:: max(1, -(-len(frames) // DETECTION_FRAMES))]
            yield from (rgb for _, rgb in _frames(pair.published, chosen.tolist()))

    if not any(len(pair.compared) for pair in clips):
        return {}
    return detection_rate(frames_with_faces(), jobs=jobs)


def _frames(path: Path, wanted: Sequence[int]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield some frames of a clip, and stop after the last of them."""
    for frame in io.read_frames(path, broken=[]) if wanted else ():
        if frame.index in wanted:
            yield frame.index, frame.rgb
        if frame.index >= max(wanted):
            return


def face_strips(
    claim: Claim, clips: Sequence[ClipPair], visible: Sequence[NDArray[np.bool_]], originals: bool
) -> list[ImagePair]:
    """Return strips of the new face of some people; none of a folder that proves nothing.

    Frames in which an original face is visible are left out unless originals may be shown.
    """
    if (claim.broken or "format" not in claim.certificate) and not originals:
        return []
    pairs: dict[str, ImagePair] = {}
    for pair, is_visible in zip(clips, visible, strict=True):
        person = np.array(pair.person, dtype=str)
        good = pair.compared.drawn & ~pair.keep & (originals | ~is_visible)
        chosen: dict[str, IntArray] = {}
        for who in np.unique(person[good & (person != "")]).tolist():
            if who not in pairs and len(pairs) + len(chosen) < STRIPS_MAX:
                rows = np.flatnonzero(good & (person == who))
                chosen[who] = rows[np.linspace(0, len(rows) - 1, min(FACES_PER_STRIP, len(rows))).astype(int)]
        after = _cut_strips(pair.published, pair, pair.compared.after.xyxy, chosen)
        before = _cut_strips(pair.original, pair, pair.compared.before.xyxy, chosen) if originals else {}
        pairs |= {
            who: ImagePair(after[who], 1, (before[who],) if originals else (), len(chosen[who]))
            for who in chosen
        }
    return [*pairs.values()]


def _cut_strips(
    path: Path, pair: ClipPair, xyxy: FloatArray, chosen: Mapping[str, IntArray]
) -> dict[str, bytes]:
    """Return each person's faces in a row, as PNG."""
    wanted = sorted({int(at) for rows in chosen.values() for at in pair.compared.frame[rows]})
    faces: dict[str, list[NDArray[np.uint8]]] = {who: [] for who in chosen}
    for at, rgb in _frames(path, wanted):
        for who, rows in chosen.items():
            for row in rows[pair.compared.frame[rows] == at]:
                faces[who].append(_square(rgb, xyxy[row]))
    return {who: io.encode_png(np.hstack(some)) for who, some in faces.items()}


def _square(rgb: NDArray[np.uint8], box: FloatArray) -> NDArray[np.uint8]:
    """Return a face with a margin, as a square."""
    scale = STRIP_FACE_PX / (1.5 * float((box[2:] - box[:2]).max()))
    shift = STRIP_FACE_PX / 2 - scale * (box[:2] + box[2:]) / 2
    return crop(rgb, np.array([[scale, 0, shift[0]], [0, scale, shift[1]]]), STRIP_FACE_PX, STRIP_FACE_PX)
