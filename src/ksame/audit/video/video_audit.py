"""The audit of videos: who is named by new faces, whether they stay one face and move as the old ones did.

A frame is looked at as a photo is; but frames of one person are no independent trials, so that intervals
count people, and figures over time stand beside those over faces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.tracking.link import MARGIN_FRAMES
from ksame.analysis.tracking.scan import scan_video
from ksame.analysis.tracking.track import Track, annotate_tracks, build_tracks, identify_tracks
from ksame.analysis.tracking.track_file import tracks_from_json
from ksame.attack.embed import FaceEmbeddings, embed_faces
from ksame.attack.recognisers import RECOGNISERS, Recogniser
from ksame.attack.score import Result, score
from ksame.audit.pairing import Claim, FacePairs, gallery_subjects, keep_with_originals, tree_stem
from ksame.audit.report.result import VIDEO_SUFFIX, Report, audit_record
from ksame.audit.video import video_metrics
from ksame.audit.video.video_compare import ComparedClip, compare_clips, concatenate_clips
from ksame.audit.video.video_metrics import ClipPair, MeasuredFaces
from ksame.core.arrays import IntArray, ProgressCallback
from ksame.core.errors import InputError, UsageError
from ksame.core.folders import fit_name
from ksame.io.sources import Source, find_sources
from ksame.models.recognisers import RECOGNISERS as DEEP
from ksame.models.recognisers import default_recogniser, embed
from ksame.release import MappingRow, read_private

VIEWS_PER_PERSON = 10  # original views of a person that an attacker has, spread over the time they are seen
PARROT_NOT_TRIED_NOTE = (
    "What was done to the videos was not imitated (parrot attack), and nobody looked past the face: hair,"
    " clothes, place and voice are still there, and tell who it is to whoever knows them."
)
ONE_PERSON_NOTE = (
    "The videos show one person only: give faces of strangers with --gallery, or no attack can be scored."
)


class AuditRequest(NamedTuple):
    """What the caller of ``run.audit`` wants, made sense of."""

    recognisers: Sequence[Recogniser]
    originals: Sequence[Path]
    private: Path | None
    gallery: str | Path | None = None
    subjects: str | None = None
    show_originals: bool = False
    frames: int | None = 300
    notes: tuple[str, ...] = ()  # what is to be said besides
    jobs: int | None = None
    progress: ProgressCallback | None = None


def audit_videos(claim: Claim, asked: AuditRequest) -> Report:
    """Attack and measure the videos of a release: see ``run.audit``.

    The tracks in the private folder tell who is where; without them the faces of the originals are followed.

    Parameters
    ----------
    claim : Claim
        The release.
    asked : Asked
        What is asked.
    """
    recognisers = asked.recognisers
    lbp = RECOGNISERS["lbp"]  # [S 7.5.2]
    looking = [*recognisers, *([] if lbp.name in [one.name for one in recognisers] else [lbp])]
    sources = [Source(video.name, video.path) for video in io.find_videos(asked.originals)]
    pairs = _pairs(claim, sources, asked.private)
    scenes = [
        _compare_clip(claim, name, pairs, looking, asked) for name in claim.videos if name in pairs.sources
    ]
    scenes = _identify_clips(scenes)
    whole, person = (
        concatenate_clips([s.seen for s in scenes]),
        np.array([p for s in scenes for p in s.person], dtype=str),
    )
    keep = np.concatenate([s.keep for s in scenes])
    crowd = _build_gallery(
        asked.gallery,
        asked.subjects,
        whole,
        person,
        looking,
        partial(embed_faces, jobs=asked.jobs, progress=asked.progress),
    )
    probes = np.flatnonzero((person != "") & ~keep)
    results = [*_attacks(claim, whole, person, crowd, recognisers, probes)] if len(probes) else []
    shown = [video_metrics.visible_faces(scene, recognisers) for scene in scenes]
    visible = np.concatenate(shown)
    strangers = {name: codes[crowd.strangers] for name, codes in crowd.codes.items()}
    said = [
        *asked.notes,
        *pairs.notes,
        *crowd.notes,
        *([PARROT_NOT_TRIED_NOTE] if results else []),
        *_describe_losses(scenes),
    ]
    said += [ONE_PERSON_NOTE] if len(probes) and not results else []
    return Report(
        certificate=claim.certificate,
        checks=claim.checks,
        unchecked=claim.unchecked,
        broken=claim.broken,
        results=tuple(results),
        utility=video_metrics.utility_table(
            MeasuredFaces(whole, person, probes, strangers), looking, results, visible
        ),
        detected=video_metrics.detection_rates(scenes, asked.jobs),
        residual_faces=int(visible.sum()) + sum(len(s.seen.bare) + len(s.seen.left) for s in scenes),
        pairs=video_metrics.face_strips(claim, scenes, shown, asked.show_originals),
        missing=pairs.missing,
        notes=tuple(said),
        record=audit_record(recognisers),
        films=tuple(
            video_metrics.video_figures(scene, own) for scene, own in zip(scenes, shown, strict=True)
        ),
    )


def _pairs(claim: Claim, originals: Sequence[Source], private: Path | None) -> FacePairs:
    """Return the original of each published clip: by the mapping, by its name, or because it is the one."""
    rows = [] if private is None else [row for row in read_private(private)[0] if row.output in claim.videos]
    told = keep_with_originals(rows, originals) if rows else FacePairs((), {})
    found = {row.output: told.sources[row.input] for row in told.rows}
    named = {tree_stem(source.name): source for source in originals}
    for name in claim.videos:
        if name not in found and tree_stem(name) in named:  # one that shows nobody is not in the mapping
            found[name] = named[tree_stem(name)]
    if not found and len(claim.videos) == len(originals) == 1:
        found = {claim.videos[0]: originals[0]}
    if not found:
        raise UsageError(
            "No published video can be paired with an original: give --private, or the folder that holds the"
            " originals under the same names."
        )
    lost = len(claim.videos) - len(found)
    notes = [f"{lost} published videos have no original here, and were not looked at."] if lost else []
    if private is None:
        notes.append(
            "There are no tracks: the faces of the originals were followed, and told apart by a recogniser."
        )
    return FacePairs(told.rows, found, (*notes, *told.notes), told.missing)


def _compare_clip(
    claim: Claim, name: str, pairs: FacePairs, recognisers: Sequence[Recogniser], asked: AuditRequest
) -> ClipPair:
    """Look at one clip and its original."""
    original = pairs.sources[name].pixels
    assert isinstance(original, Path)
    clip, published = io.probe_video(original), claim.folder / name
    inputs = [row.input for row in pairs.rows if row.output == name]
    paper = None
    if asked.private is not None and inputs:
        paper = asked.private / "tracks" / fit_name(inputs[0], ".json")
    if paper is not None and paper.is_file():
        count = sum(1 for _ in io.read_frames(original, broken=[], exact=False))
        text = paper.read_text(encoding="utf-8")
        told = tracks_from_json(text, width=clip.width, height=clip.height, frames=count)
    else:
        told = _scan_original(original, asked)
    seen = compare_clips(
        original,
        published,
        recognisers,
        tracks=told,
        max_count=asked.frames,
        jobs=asked.jobs,
        progress=asked.progress,
    )
    if seen.frames[1] == 0:
        raise InputError(f"{name} has no picture that can be read: nothing can be attacked.")
    return ClipPair(name, original, published, clip, told, seen)


def _scan_original(original: Path, asked: AuditRequest) -> tuple[Track, ...]:
    """Follow the faces of an original whose tracks nobody has: a detector alone overlooks half a face."""
    recogniser = default_recogniser()
    seen = scan_video(
        io.read_frames(original, broken=[], exact=False),
        embed=partial(embed, recogniser),
        threads=asked.jobs or 2,
    )
    return tuple(map(_trimmed, build_tracks(seen, same=DEEP[recogniser].same_person)))


def _trimmed(track: Track) -> Track:
    """Return a track without its margins in time, where there is no face yet, or none any more."""
    there = np.flatnonzero(track.state != "covered")
    if not len(there):
        return track
    first = min(MARGIN_FRAMES, int(there[0]))
    last = max(len(track) - MARGIN_FRAMES, int(there[-1]) + 1)
    some = slice(first, last)
    box, state, shape = track.box[some], track.state[some], track.shape[some]
    return replace(track, start=track.start + first, box=box, state=state, shape=shape)


def _identify_clips(scenes: Sequence[ClipPair]) -> list[ClipPair]:
    """Say who each face is: as the tracks do, or by their codes where these were followed here."""
    blind = [scene for scene in scenes if not all(track.person for track in scene.tracks)]
    if blind:
        who = identify_tracks([scene.tracks for scene in blind], DEEP[default_recogniser()].same_person)
        marks = [
            annotate_tracks(s.tracks, names, np.zeros(len(names)))
            for s, names in zip(blind, who, strict=True)
        ]
        told = {scene.file: found for scene, found in zip(blind, marks, strict=True)}
        scenes = [scene._replace(tracks=told.get(scene.file, scene.tracks)) for scene in scenes]
    named = []
    for scene in scenes:
        names = [*(track.person for track in scene.tracks), ""]  # -1: no track
        named.append(scene._replace(person=tuple(names[track] for track in scene.seen.track)))
    return named


class VideoGallery(NamedTuple):
    """Among whom an attacker looks: codes by recogniser, who they are, and in which part of a clip."""

    codes: Mapping[str, NDArray[Any]]
    subjects: list[str]
    photos: list[str]
    part: list[str]  # (n,): the part of the clip that each face of the release is in
    strangers: NDArray[np.bool_]
    notes: tuple[str, ...] = ()


def _build_gallery(
    gallery: str | Path | None,
    how: str | None,
    whole: ComparedClip,
    person: NDArray[np.str_],
    recognisers: Sequence[Recogniser],
    look: Callable[..., FaceEmbeddings],
) -> VideoGallery:
    """Return some original views of each person, and whoever is in the gallery."""
    views, part = _attacker_views(person)
    codes = {one.name: whole.before.codes[one.name][views] for one in recognisers}
    who = person[views].tolist()
    photos = [part[view] for view in views]
    if gallery is None:
        return VideoGallery(codes, who, photos, part, np.zeros(len(who), bool))
    sources = find_sources(gallery)
    seen = look(sources, recognisers, stage="looking at the gallery")
    faces = seen.rows(seen.largest(len(sources)))
    named, notes = _in_gallery(sources, faces, how, codes, who, recognisers)
    return VideoGallery(
        {name: np.concatenate([codes[name], faces.codes[name]]) for name in codes},
        who + named,
        photos + [source.name for source in sources],
        part,
        np.array([False] * len(who) + [name.startswith("stranger: ") for name in named], bool),
        notes,
    )


def _attacker_views(person: NDArray[np.str_]) -> tuple[list[int], list[str]]:
    """Return the rows that an attacker has, one from each part of the time that somebody is seen.

    Also the part of every row: a view of another part is far away in time.
    """
    views, part = [], [""] * len(person)
    for who in np.unique(person[person != ""]).tolist():
        rows = np.flatnonzero(person == who)
        for number, some in enumerate(np.array_split(rows, min(VIEWS_PER_PERSON, len(rows)))):
            views.append(int(some[len(some) // 2]))
            for row in some.tolist():
                part[row] = f"{who}: part {number}"
    return views, part


def _in_gallery(
    sources: Sequence[Source],
    faces: FaceEmbeddings,
    how: str | None,
    codes: Mapping[str, NDArray[Any]],
    who: Sequence[str],
    recognisers: Sequence[Recogniser],
) -> tuple[list[str], tuple[str, ...]]:
    """Return who is on each photo of the gallery; without a rule, whom every recogniser takes them for."""
    names = [source.name for source in sources]
    if how is not None:
        rows = FacePairs(tuple(MappingRow("", name, 0, "") for name in dict.fromkeys(who)), {})
        return gallery_subjects(names, rows, how, None), ()
    subjects = np.array([f"stranger: {name}" for name in names], dtype=object)
    judges = {one: one.same_person for one in recognisers if one.same_person is not None}
    if judges and len(who):
        near = np.full((len(judges), len(names), len(who)), np.inf)
        for far, (one, same) in zip(near, judges.items(), strict=True):
            there = np.flatnonzero(~np.isnan(faces.codes[one.name]).any(axis=1))
            far[there] = one.train(codes[one.name], np.array(who))(faces.codes[one.name][there]) / same
        doubt = near.max(axis=0)  # in the eyes of whoever doubts most
        ours = doubt.min(axis=1) <= 1
        subjects[ours] = np.array(who, dtype=object)[doubt.argmin(axis=1)[ours]]
        if ours.any():
            return subjects.tolist(), (
                f"{int(ours.sum())} photos of the gallery were taken for people of the videos, by every"
                " recogniser: they count as theirs.",
            )
    return subjects.tolist(), ()


def _attacks(
    claim: Claim,
    whole: ComparedClip,
    person: NDArray[np.str_],
    gallery: VideoGallery,
    recognisers: Sequence[Recogniser],
    probes: IntArray,
) -> Iterator[Result]:
    """Look for every new face among the original views and the strangers, also among other parts only."""
    if len(set(gallery.subjects)) < 2:
        return
    who = person[probes].tolist()
    part = [gallery.part[row] for row in probes]
    several = any(
        photo.startswith(f"{name}: part 1")
        for name, photo in zip(gallery.subjects, gallery.photos, strict=True)
    )
    for one in recognisers:
        old, new = gallery.codes[one.name], whole.after.codes[one.name][probes]
        run = partial(score, one.train, recogniser=one.name, bound=claim.bound)
        yield run(old, new, gallery.subjects, who, attack="naive")
        if several:
            apart = partial(run, gallery_photos=gallery.photos, probe_photos=part)
            yield apart(old, new, gallery.subjects, who, attack="naive, other moment")
        ours = np.flatnonzero(~gallery.strangers)
        among = np.concatenate([new, old[gallery.strangers]])  # or the few people of a clip would be guessed
        names = [*who, *(gallery.subjects[row] for row in np.flatnonzero(gallery.strangers))]
        if len(set(names)) > 1:
            yield run(among, old[ours], names, [gallery.subjects[row] for row in ours], attack="reverse")


def _describe_losses(scenes: Sequence[ClipPair]) -> Iterator[str]:
    """Say what could not be looked at."""
    faces = sum(len(scene.seen) for scene in scenes)
    if not faces:
        yield "No face was found in the originals: nobody can be recognised by them."
    covered = faces - sum(int(scene.seen.drawn.sum()) for scene in scenes)
    if covered:
        yield (
            f"Of {faces} faces that were looked at {covered} are covered, or no detector finds them any more:"
            " the attacker looked where they were in the original."
        )
    strays = sum(who == "" for scene in scenes for who in scene.person)
    if strays:
        yield f"{strays} faces that a detector sees in the originals are in no track, and are nobody's."


def merge_reports(videos: Report, photos: Callable[[], Report]) -> Report:
    """Return what was found of videos, and of the photos beside them if those can be looked at."""
    try:
        found = photos()
    except (UsageError, InputError) as error:
        return replace(videos, notes=(*videos.notes, f"The photos were not looked at: {error}"))
    table = videos.utility.assign(measure="videos: " + videos.utility["measure"].astype(str))
    table = pd.concat([found.utility, table]).reset_index(drop=True)
    table.attrs = found.utility.attrs
    return replace(
        videos,
        results=(*found.results, *(replace(r, attack=f"{r.attack}{VIDEO_SUFFIX}") for r in videos.results)),
        utility=table,
        detected={**found.detected, **{f"{name}{VIDEO_SUFFIX}": r for name, r in videos.detected.items()}},
        residual_faces=found.residual_faces + videos.residual_faces,
        pairs=(*found.pairs, *videos.pairs),
        missing=found.missing + videos.missing,
        notes=tuple(dict.fromkeys((*found.notes, *videos.notes))),
    )
