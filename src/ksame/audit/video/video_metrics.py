"""What the frames of videos tell: faces still to be seen, what is left of them, and strips of new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.tracking.track import Track
from ksame.attack.recognisers import Recogniser
from ksame.attack.score import Result
from ksame.audit import utility
from ksame.audit.pairing import Claim
from ksame.audit.report.result import ImagePair, VideoFigures
from ksame.audit.utility.expression import DISTANCES
from ksame.audit.utility.measures import COLUMNS
from ksame.audit.utility.video import (
    SHAPES,
    expression_rows,
    expression_strength,
    pairs_alike,
    time_correlation,
)
from ksame.audit.video.video_compare import ComparedClip
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import InputError
from ksame.core.geometry import crop
from ksame.models.blendshapes import BLENDSHAPES

FACES_PER_STRIP, STRIP_FACE_PX = 6, 128  # faces of one strip, and the side of each in pixels
STRIPS_MAX = 8  # people whose strip is on the page
DETECTION_FRAMES = 40  # frames of a clip that every detector looks at
TRACED_EXPRESSIONS = ("smile", "jaw", "blink")  # what is drawn over time
NAMES = {"blendshapes": BLENDSHAPES, "distances": DISTANCES}


class ClipPair(NamedTuple):
    """A published clip, its original, and what was seen of both."""

    file: str
    original: Path
    published: Path
    clip: io.Clip
    tracks: tuple[Track, ...]
    seen: ComparedClip
    person: tuple[str, ...] = ()  # who each face is; "": no track explains it

    @property
    def keep(self) -> NDArray[np.bool_]:
        """Which faces stay visible on request."""
        stay = np.array([*(track.keep for track in self.tracks), False], bool)  # -1: no track
        return np.asarray(stay[self.seen.track])


def visible_faces(scene: ClipPair, recognisers: Sequence[Recogniser]) -> NDArray[np.bool_]:
    """Return which faces (n,) of the original can still be seen, and should not.

    Their pixels are as they were, or more than half of the recognisers that have a threshold take what is
    in their place for them.
    """
    seen = scene.seen
    votes = [
        np.linalg.norm(seen.before.codes[one.name] - seen.after.codes[one.name], axis=1) <= one.same_person
        for one in recognisers
        if one.same_person is not None
    ]
    taken = np.mean(votes, axis=0) > 0.5 if votes else np.zeros(len(seen), bool)
    return np.asarray((seen.untouched | taken) & ~scene.keep)


def video_figures(scene: ClipPair, shown: NDArray[np.bool_]) -> VideoFigures:
    """Return what was found of one clip; ``shown``: see ``visible_faces``."""
    seen, now = scene.seen, io.probe_video(scene.published)
    mine = ~scene.keep & (np.array(scene.person, dtype=str) != "")
    kind = next((name for name in SHAPES if name in seen.before.features), None)
    return VideoFigures(
        file=scene.file,
        frames=seen.frames,
        seconds=(float(scene.clip.duration), float(now.duration)),
        sound=_sound(scene),
        metadata=_metadata(scene.published),
        looked=len(seen.looked),
        faces=len(seen),
        drawn=int((seen.drawn & ~scene.keep).sum()),
        kept=int(scene.keep.sum()),
        people=len({*(track.person for track in scene.tracks), *scene.person} - {""}),
        visible=tuple(sorted({*seen.frame[shown].tolist(), *seen.bare})),
        left=seen.left,
        blendshapes=dict(_expression_rows(scene, kind, np.flatnonzero(mine))) if kind else {},
        traces=dict(_traces(scene, kind, mine)) if kind else {},
    )


def _sound(scene: ClipPair) -> str:
    """Say what became of the sound."""
    old, new = (io.audio_hashes(path) for path in (scene.original, scene.published))
    if old == new:
        return "the same bit for bit" if old else "none"
    return "changed" if new else "dropped"


def _metadata(path: Path) -> tuple[str, ...]:
    try:
        return tuple(io.metadata_of_video(path))
    except InputError:  # a type of file that nobody here can take apart
        return ("not checked",)


def _expression_rows(
    scene: ClipPair, kind: str, rows: IntArray
) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Yield each expression's mean strength, mean absolute difference, and correlation over time."""
    old, new = (
        side.features[kind][rows].astype(np.float64) for side in (scene.seen.before, scene.seen.shown)
    )
    person = np.array(scene.person)[rows]
    both = ~(np.isnan(old).any(axis=1) | np.isnan(new).any(axis=1))
    if not both.any():
        return
    for at, name in enumerate(NAMES[kind]):
        a, b = old[both, at], new[both, at]
        yield name, (a.mean(), b.mean(), np.abs(a - b).mean(), time_correlation(a, b, person[both]))


def _traces(scene: ClipPair, kind: str, mine: NDArray[np.bool_]) -> Iterator[tuple[str, FloatArray]]:
    """Yield seconds, old and new strength of some expressions of whoever has a new face most often."""
    person = np.array(scene.person, dtype=str)
    names, times = np.unique(person[mine & scene.seen.drawn], return_counts=True)
    if not len(names):
        return
    rows = np.flatnonzero(mine & (person == names[times.argmax()]))
    frame = scene.seen.frame[rows]
    step = np.diff(scene.seen.looked).min(initial=scene.seen.frames[0])
    away = np.flatnonzero(np.diff(frame) > 3 * step) + 1  # no line is drawn over the time of somebody else
    for name in TRACED_EXPRESSIONS:
        sides = (scene.seen.before, scene.seen.shown)
        old, new = (expression_strength(side.features, kind, SHAPES[kind][name])[rows] for side in sides)
        line = np.stack([frame / float(scene.clip.rate), old, new], axis=1)
        yield name, np.insert(line, away, np.nan, axis=0)


class MeasuredFaces(NamedTuple):
    """The faces of all clips whose people are known and should not be seen, and those of strangers."""

    seen: ComparedClip
    person: NDArray[np.str_]
    rows: IntArray
    strangers: Mapping[str, NDArray[Any]]


def utility_table(
    faces: MeasuredFaces,
    recognisers: Sequence[Recogniser],
    results: Sequence[Result],
    shown: NDArray[np.bool_],
) -> pd.DataFrame:
    """Return what is left of the data: of every face, and over time.

    Parameters
    ----------
    faces : Measured
        The faces.
    recognisers : sequence of Recogniser
        Those who tell whether a new face stays one person's, LBP among them.
    results : sequence of Result
        The attacks, for whom they name most.
    shown : (n,) bool
        See ``visible_faces``.
    """
    rows, person = faces.rows, faces.person[faces.rows]
    if not len(rows):
        return pd.DataFrame(columns=COLUMNS)
    old, new = faces.seen.before.rows(rows), faces.seen.shown.rows(rows)
    naive = max((r for r in results if r.attack == "naive"), key=lambda r: r.rank1, default=None)
    named = {} if naive is None else {f"named by {naive.recogniser} (share)": naive.named}
    faced = utility.measures(old.features, new.features, subjects=person, named=named)
    more = [
        ("original face to be seen (share)", float("nan"), float(shown[rows].mean())),
        *_consistency(faces, recognisers),
        *expression_rows(old.features, new.features, person),
        *_flicker(faces.seen.flicker[rows][faces.seen.drawn[rows]]),
    ]
    whole = pd.concat([pd.DataFrame([(*row, "all") for row in more], columns=COLUMNS), faced])
    whole = whole.reset_index(drop=True)
    whole.attrs = faced.attrs
    return whole


def _consistency(
    faces: MeasuredFaces, recognisers: Sequence[Recogniser]
) -> Iterator[tuple[str, float, float]]:
    """Yield whether the faces of one person stay one person's [S 7.5.2], old ones and new ones."""
    person, drawn = faces.person[faces.rows], faces.seen.drawn[faces.rows]
    if drawn.sum() < 2:
        return
    folds = min(10, int(drawn.sum()))
    for one in recognisers:
        old = faces.seen.before.codes[one.name][faces.rows]
        new = faces.seen.after.codes[one.name][faces.rows][drawn]
        sides = (old, person, new), (new, person[drawn], old)
        if len(set(person[drawn].tolist())) > 1:  # as in the thesis, among the people of the videos
            was, now = (utility.identity_consistency(own, who, folds=folds) for own, who, _ in sides)
            yield f"nearest face is the same person's, {one.name} (share)", was, now
        was, now = (
            utility.identity_consistency(
                own, who, folds=folds, others=np.concatenate([faces.strangers[one.name], decoys])
            )
            for own, who, decoys in sides
        )
        yield f"nearest face among others is the same person's, {one.name} (share)", was, now
        if one.same_person is not None:
            was, now = (pairs_alike(own, who, one.same_person) for own, who, _ in sides)
            yield f"two frames of a person taken for one, {one.name} (share)", was, now


def _flicker(sums: FloatArray) -> Iterator[tuple[str, float, float]]:
    """Yield how much still parts of faces change from frame to frame, in the originals and now."""
    before, after, pixels = sums.sum(axis=0)
    if pixels:
        yield "flicker of still parts (grey levels)", before / pixels, after / pixels
    if before:
        yield "flicker, new to old (ratio)", float("nan"), after / before


def detection_rates(scenes: Sequence[ClipPair], jobs: int | None) -> dict[str, float]:
    """Return, for each detector, the share of published frames with a face in which it finds one."""

    def pictures() -> Iterator[NDArray[np.uint8]]:
        for scene in scenes:
            faced = np.unique(scene.seen.frame)
            some = faced[:: max(1, -(-len(faced) // DETECTION_FRAMES))]
            yield from (rgb for _, rgb in _frames(scene.published, some.tolist()))

    return utility.detection_rate(pictures(), jobs=jobs) if any(len(s.seen) for s in scenes) else {}


def _frames(path: Path, wanted: Sequence[int]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield some frames of a clip, and nothing after the last of them."""
    for frame in io.read_frames(path, broken=[]) if wanted else ():
        if frame.index in wanted:
            yield frame.index, frame.rgb
        if frame.index >= max(wanted):
            return


def face_strips(
    claim: Claim, scenes: Sequence[ClipPair], shown: Sequence[NDArray[np.bool_]], originals: bool
) -> list[ImagePair]:
    """Return for some people their new face at some moments; of a folder that proves nothing none.

    Moments at which an original face can be seen are passed over: a page shows them only if it is asked to.
    """
    if (claim.broken or "format" not in claim.certificate) and not originals:
        return []
    pairs: dict[str, ImagePair] = {}
    for scene, bare in zip(scenes, shown, strict=True):
        person = np.array(scene.person, dtype=str)
        good = scene.seen.drawn & ~scene.keep & (originals | ~bare)
        moments: dict[str, IntArray] = {}
        for who in np.unique(person[good & (person != "")]).tolist():
            if who not in pairs and len(pairs) + len(moments) < STRIPS_MAX:
                rows = np.flatnonzero(good & (person == who))
                moments[who] = rows[
                    np.linspace(0, len(rows) - 1, min(FACES_PER_STRIP, len(rows))).astype(int)
                ]
        now = _cut(scene.published, scene, scene.seen.after.xyxy, moments)
        before = _cut(scene.original, scene, scene.seen.before.xyxy, moments) if originals else {}
        pairs |= {
            who: ImagePair(now[who], 1, (before[who],) if originals else (), len(moments[who]))
            for who in moments
        }
    return [*pairs.values()]


def _cut(path: Path, scene: ClipPair, xyxy: FloatArray, moments: Mapping[str, IntArray]) -> dict[str, bytes]:
    """Return each person's faces in a row, as PNG."""
    wanted = sorted({int(at) for rows in moments.values() for at in scene.seen.frame[rows]})
    faces: dict[str, list[NDArray[np.uint8]]] = {who: [] for who in moments}
    for at, rgb in _frames(path, wanted):
        for who, rows in moments.items():
            for row in rows[scene.seen.frame[rows] == at]:
                faces[who].append(_square(rgb, xyxy[row]))
    return {who: io.encode_png(np.hstack(some)) for who, some in faces.items()}


def _square(rgb: NDArray[np.uint8], box: FloatArray) -> NDArray[np.uint8]:
    """Return a face with a little of what is around it."""
    scale = STRIP_FACE_PX / (1.5 * float((box[2:] - box[:2]).max()))
    middle = STRIP_FACE_PX / 2 - scale * (box[:2] + box[2:]) / 2
    return crop(rgb, np.array([[scale, 0, middle[0]], [0, scale, middle[1]]]), STRIP_FACE_PX, STRIP_FACE_PX)
