"""Audit the videos of a release: who is named by the new faces, and how well these follow the old ones.

A frame is treated as a photo; but frames of one person are not independent trials, so intervals count
people, and figures over time are reported besides those over faces.
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

from ksame import attack, io
from ksame.analysis.tracking.link import MARGIN_FRAMES
from ksame.analysis.tracking.scan import scan_video
from ksame.analysis.tracking.track import Track, annotate_tracks, build_tracks, identify_tracks
from ksame.analysis.tracking.track_file import tracks_from_json
from ksame.attack import AttackResult
from ksame.attack.embed import FaceEmbeddings
from ksame.attack.recognisers import ATTACKERS, Recogniser
from ksame.audit.inputs import AuditRequest
from ksame.audit.pairing import STRANGER, Claim, FacePairs, gallery_subjects, keep_with_originals, tree_stem
from ksame.audit.report.result import VIDEO_SUFFIX, Report, audit_record
from ksame.audit.video import video_metrics
from ksame.audit.video.video_compare import ComparedClip, compare_clips, concatenate_clips
from ksame.audit.video.video_metrics import ClipPair, MeasuredFaces
from ksame.core.arrays import IntArray
from ksame.core.errors import InputError, UsageError
from ksame.core.folders import fit_name
from ksame.io.sources import Source, find_sources
from ksame.models.recognisers import RECOGNISERS, default_recogniser, embed
from ksame.release import MappingRow, read_private

VIEWS_PER_PERSON = 10  # original frames of a person that an attacker has, spread over their time in view
PARROT_NOT_TRIED_NOTE = (
    "No parrot attack was tried on the videos, and no attack looked past the face: hair, clothes, place and"
    " voice are unchanged, and identify people to those who know them."
)
ONE_PERSON_NOTE = (
    "The videos show one person only: give photos of strangers with --gallery, or no attack can be scored."
)


def audit_videos(claim: Claim, request: AuditRequest) -> Report:
    """Attack and measure the videos of a release: see ``ksame.audit``.

    The tracks in the private folder say who is where; without them the faces of the originals are tracked.
    """
    lbp = ATTACKERS["lbp"]  # [S 7.5.2]
    known = [one.name for one in request.recognisers]
    recognisers = [*request.recognisers, *([] if lbp.name in known else [lbp])]
    sources = [Source(video.name, video.path) for video in io.find_videos(request.originals)]
    pairs = _pair_videos(claim, sources, request.private)
    clips = [
        _compare_clip(claim, name, pairs, recognisers, request)
        for name in claim.videos
        if name in pairs.sources
    ]
    clips = _identify_clips(clips)
    whole = concatenate_clips([clip.compared for clip in clips])
    person = np.array([p for clip in clips for p in clip.person], dtype=str)
    gallery = _build_gallery(request, whole, person, recognisers)
    probes = np.flatnonzero((person != "") & ~np.concatenate([clip.keep for clip in clips]))
    results = [*_attacks(claim, whole, person, gallery, request.recognisers, probes)] if len(probes) else []
    visible = [video_metrics.visible_faces(clip, request.recognisers) for clip in clips]
    return Report(
        **claim.verification,
        results=tuple(results),
        utility=video_metrics.utility_table(
            MeasuredFaces(whole, person, probes, gallery.stranger_codes),
            recognisers,
            results,
            np.concatenate(visible),
        ),
        detected=video_metrics.detection_rates(clips, request.jobs),
        residual_faces=int(np.concatenate(visible).sum())
        + sum(len(c.compared.unchanged_frames) + len(c.compared.residual_frames) for c in clips),
        pairs=video_metrics.face_strips(claim, clips, visible, request.show_originals),
        missing=pairs.missing,
        notes=(
            *request.notes,
            *pairs.notes,
            *gallery.notes,
            *([PARROT_NOT_TRIED_NOTE] if results else []),
            *_describe_losses(clips),
            *([ONE_PERSON_NOTE] if len(probes) and not results else []),
        ),
        record=audit_record(request.recognisers),
        videos=tuple(
            video_metrics.video_figures(clip, own) for clip, own in zip(clips, visible, strict=True)
        ),
    )


def _pair_videos(claim: Claim, originals: Sequence[Source], private: Path | None) -> FacePairs:
    """Return the original of each published clip: by the mapping, by its name, or as the only one."""
    rows = (
        []
        if private is None
        else [row for row in read_private(private).mapping if row.output in claim.videos]
    )
    mapped = keep_with_originals(rows, originals) if rows else FacePairs((), {})
    found = {row.output: mapped.sources[row.input] for row in mapped.rows}
    by_stem = {tree_stem(source.name): source for source in originals}
    for name in claim.videos:
        if name not in found and tree_stem(name) in by_stem:  # a clip without faces is not in the mapping
            found[name] = by_stem[tree_stem(name)]
    if not found and len(claim.videos) == len(originals) == 1:
        found = {claim.videos[0]: originals[0]}
    if not found:
        raise UsageError(
            "No published video can be paired with an original: give --private, or the folder that holds the"
            " originals under the same names."
        )
    lost = len(claim.videos) - len(found)
    notes = [f"{lost} published videos have no original here, and were not audited."] if lost else []
    if private is None:
        notes.append(
            "There are no tracks: the faces of the originals were tracked, and identified by a recogniser."
        )
    return FacePairs(mapped.rows, found, (*notes, *mapped.notes), mapped.missing)


def _compare_clip(
    claim: Claim, name: str, pairs: FacePairs, recognisers: Sequence[Recogniser], request: AuditRequest
) -> ClipPair:
    """Compare one clip with its original."""
    original = pairs.sources[name].pixels
    assert isinstance(original, Path)
    clip, published = io.probe_video(original), claim.folder / name
    tracks = _read_tracks(name, pairs, request.private, clip, original)
    if tracks is None:
        tracks = _track_original(original, request.jobs)
    compared = compare_clips(
        original,
        published,
        recognisers,
        tracks=tracks,
        max_count=request.frames,
        jobs=request.jobs,
        progress=request.progress,
    )
    if compared.frames[1] == 0:
        raise InputError(f"{name} has no frame that can be read: nothing can be attacked.")
    return ClipPair(name, original, published, clip, tracks, compared)


def _read_tracks(
    name: str, pairs: FacePairs, private: Path | None, clip: io.Clip, original: Path
) -> tuple[Track, ...] | None:
    """Return the tracks in the private folder, if there are any."""
    inputs = [row.input for row in pairs.rows if row.output == name]
    if private is None or not inputs:
        return None
    file = private / "tracks" / fit_name(inputs[0], ".json")
    if not file.is_file():
        return None
    count = sum(1 for _ in io.read_frames(original, broken=[], exact=False))
    text = file.read_text(encoding="utf-8")
    return tracks_from_json(text, width=clip.width, height=clip.height, frames=count)


def _track_original(original: Path, jobs: int | None) -> tuple[Track, ...]:
    """Track the faces of an original without tracks: a detector alone misses faces that are half hidden."""
    recogniser = default_recogniser()
    observations = scan_video(
        io.read_frames(original, broken=[], exact=False),
        embed=partial(embed, recogniser),
        threads=jobs or 2,
    )
    tracks = build_tracks(observations, same=RECOGNISERS[recogniser].same_person)
    return tuple(map(_without_margins, tracks))


def _without_margins(track: Track) -> Track:
    """Return a track without its margins in time, where no face is in view yet, or any more."""
    in_view = np.flatnonzero(track.state != "covered")
    if not len(in_view):
        return track
    first = min(MARGIN_FRAMES, int(in_view[0]))
    last = max(len(track) - MARGIN_FRAMES, int(in_view[-1]) + 1)
    frames = slice(first, last)
    box, state, shape = track.box[frames], track.state[frames], track.shape[frames]
    return replace(track, start=track.start + first, box=box, state=state, shape=shape)


def _identify_clips(clips: Sequence[ClipPair]) -> list[ClipPair]:
    """Identify each face: by the person of its track, or by its embeddings where tracks have none."""
    anonymous = [clip for clip in clips if not all(track.person for track in clip.tracks)]
    if anonymous:
        limit = RECOGNISERS[default_recogniser()].same_person
        people = identify_tracks([clip.tracks for clip in anonymous], limit)
        tracks = {
            clip.file: annotate_tracks(clip.tracks, names, np.zeros(len(names)))
            for clip, names in zip(anonymous, people, strict=True)
        }
        clips = [clip._replace(tracks=tracks.get(clip.file, clip.tracks)) for clip in clips]
    identified = []
    for clip in clips:
        names = [*(track.person for track in clip.tracks), ""]  # -1: no track
        identified.append(clip._replace(person=tuple(names[track] for track in clip.compared.track)))
    return identified


class VideoGallery(NamedTuple):
    """The faces that an attacker searches: embeddings by recogniser, who they are, and the part of a clip."""

    codes: Mapping[str, NDArray[Any]]
    subjects: list[str]
    photos: list[str]
    part: list[str]  # (n,): the part of the clip that each face of the release is in
    strangers: NDArray[np.bool_]
    notes: tuple[str, ...] = ()

    @property
    def stranger_codes(self) -> dict[str, NDArray[Any]]:
        """The embeddings of strangers."""
        return {name: codes[self.strangers] for name, codes in self.codes.items()}


def _build_gallery(
    request: AuditRequest, whole: ComparedClip, person: NDArray[np.str_], recognisers: Sequence[Recogniser]
) -> VideoGallery:
    """Return some original frames of each person, and the faces of the gallery."""
    views, part = _attacker_views(person)
    codes = {one.name: whole.before.codes[one.name][views] for one in recognisers}
    who = person[views].tolist()
    photos = [part[view] for view in views]
    if request.gallery is None:
        return VideoGallery(codes, who, photos, part, np.zeros(len(who), bool))
    sources = find_sources(request.gallery)
    found = request.embed(sources, "embedding the gallery", recognisers=recognisers)
    faces = found.rows(found.largest(len(sources)))
    named, notes = _identify_gallery(sources, faces, request.subjects, codes, who, recognisers)
    return VideoGallery(
        {name: np.concatenate([codes[name], faces.codes[name]]) for name in codes},
        who + named,
        photos + [source.name for source in sources],
        part,
        np.array([False] * len(who) + [name.startswith(STRANGER) for name in named], bool),
        notes,
    )


def _attacker_views(person: NDArray[np.str_]) -> tuple[list[int], list[str]]:
    """Return the rows that an attacker has, one from each part of a person's time in view.

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


def _identify_gallery(
    sources: Sequence[Source],
    faces: FaceEmbeddings,
    rule: str | None,
    codes: Mapping[str, NDArray[Any]],
    who: Sequence[str],
    recognisers: Sequence[Recogniser],
) -> tuple[list[str], tuple[str, ...]]:
    """Return the person of each photo of the gallery; without a rule, the one all recognisers agree on."""
    names = [source.name for source in sources]
    if rule is not None:
        rows = FacePairs(tuple(MappingRow("", name, 0, "") for name in dict.fromkeys(who)), {})
        return gallery_subjects(names, rows, rule, None), ()
    subjects = np.array([STRANGER + name for name in names], dtype=object)
    limits = {one: one.same_person for one in recognisers if one.same_person is not None}
    if limits and len(who):
        ratio = np.full((len(limits), len(names), len(who)), np.inf)  # distances, in units of the limit
        for distance, (one, limit) in zip(ratio, limits.items(), strict=True):
            found = np.flatnonzero(~np.isnan(faces.codes[one.name]).any(axis=1))
            distance[found] = one.train(codes[one.name], np.array(who))(faces.codes[one.name][found]) / limit
        largest = ratio.max(axis=0)  # all of them must agree
        matched = largest.min(axis=1) <= 1
        subjects[matched] = np.array(who, dtype=object)[largest.argmin(axis=1)[matched]]
        if matched.any():
            return subjects.tolist(), (
                f"{int(matched.sum())} photos of the gallery match people of the videos, by every"
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
) -> Iterator[AttackResult]:
    """Search the original frames and the strangers for every new face, and other parts of the clips only."""
    if len(set(gallery.subjects)) < 2:
        return
    who = person[probes].tolist()
    part = [gallery.part[row] for row in probes]
    has_parts = any(
        photo.startswith(f"{name}: part 1")
        for name, photo in zip(gallery.subjects, gallery.photos, strict=True)
    )
    strangers = np.flatnonzero(gallery.strangers)
    ours = np.flatnonzero(~gallery.strangers)
    for one in recognisers:
        old, new = gallery.codes[one.name], whole.after.codes[one.name][probes]
        naive = partial(
            attack.naive,
            old,
            new,
            recogniser=one,
            bound=claim.bound,
            subjects=gallery.subjects,
            released_subjects=who,
        )
        yield naive()
        if has_parts:
            result = naive(photos=gallery.photos, released_photos=part)
            yield replace(result, attack="naive, other moment")
        # strangers join the new faces, or the attacker would choose among the few people of a clip
        people = [*who, *(gallery.subjects[row] for row in strangers)]
        if len(set(people)) > 1:
            yield attack.reverse(
                old[ours],
                np.concatenate([new, old[strangers]]),
                recogniser=one,
                bound=claim.bound,
                subjects=[gallery.subjects[row] for row in ours],
                released_subjects=people,
            )


def _describe_losses(clips: Sequence[ClipPair]) -> Iterator[str]:
    """State what could not be attacked."""
    faces = sum(len(clip.compared) for clip in clips)
    if not faces:
        yield "No face was found in the originals: nobody can be recognised by them."
    covered = faces - sum(int(clip.compared.drawn.sum()) for clip in clips)
    if covered:
        yield (
            f"Of {faces} faces that were compared {covered} are covered, or no detector finds them any more:"
            " the attacker used their place in the original."
        )
    untracked = sum(person == "" for clip in clips for person in clip.person)
    if untracked:
        yield f"{untracked} faces that a detector finds in the originals are in no track and do not count."


def merge_reports(videos: Report, photos: Callable[[], Report]) -> Report:
    """Return the report of the videos and of the photos of one release, if those can be audited."""
    try:
        found = photos()
    except (UsageError, InputError) as error:
        return replace(videos, notes=(*videos.notes, f"The photos were not audited: {error}"))
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
