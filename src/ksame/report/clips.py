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

from ksame import media
from ksame.attack.recognise import RECOGNISERS, Recogniser
from ksame.attack.score import Result, score
from ksame.attack.see import Seen, see
from ksame.core import InputError, IntArray, UsageError
from ksame.faces.join import LEAD
from ksame.faces.track import Track, marked, people, tracks, watch
from ksame.faces.tracks_json import from_json
from ksame.gather import Source, Watch, sources_of
from ksame.release import Row, read_private
from ksame.report import footage
from ksame.report.evidence import Claim, Pairs, gallery_subjects, stem, with_originals
from ksame.report.footage import Measured, Scene
from ksame.report.record import IN_VIDEOS, Report, record_of
from ksame.report.watching import Watched, all_of, watched
from ksame.represent.embedding import RECOGNISERS as DEEP
from ksame.represent.embedding import default_recogniser, embed
from ksame.text import fit_name

VIEWS = 10  # original views of a person that an attacker has, spread over the time they are seen
NOT_TRIED = (
    "What was done to the videos was not imitated (parrot attack), and nobody looked past the face: hair,"
    " clothes, place and voice are still there, and tell who it is to whoever knows them."
)
ALONE = "The videos show one person only: give faces of strangers with --gallery, or no attack can be scored."


class Asked(NamedTuple):
    """What the caller of ``ksame.audit`` wants, made sense of."""

    recognisers: Sequence[Recogniser]
    originals: Sequence[Path]
    private: Path | None
    gallery: str | Path | None = None
    subjects: str | None = None
    show_originals: bool = False
    frames: int | None = 300
    notes: tuple[str, ...] = ()  # what is to be said besides
    jobs: int | None = None
    watch: Watch | None = None


def audit_videos(claim: Claim, asked: Asked) -> Report:
    """Attack and measure the videos of a release: see ``ksame.audit``.

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
    sources = [Source(video.name, video.path) for video in media.find_videos(asked.originals)]
    pairs = _pairs(claim, sources, asked.private)
    scenes = [_watched(claim, name, pairs, looking, asked) for name in claim.videos if name in pairs.sources]
    scenes = _named(scenes)
    whole, person = (
        all_of([s.seen for s in scenes]),
        np.array([p for s in scenes for p in s.person], dtype=str),
    )
    keep = np.concatenate([s.keep for s in scenes])
    crowd = _crowd(
        asked.gallery,
        asked.subjects,
        whole,
        person,
        looking,
        partial(see, jobs=asked.jobs, watch=asked.watch),
    )
    probes = np.flatnonzero((person != "") & ~keep)
    results = [*_attacks(claim, whole, person, crowd, recognisers, probes)] if len(probes) else []
    shown = [footage.visible(scene, recognisers) for scene in scenes]
    visible = np.concatenate(shown)
    strangers = {name: codes[crowd.strangers] for name, codes in crowd.codes.items()}
    said = [*asked.notes, *pairs.notes, *crowd.notes, *([NOT_TRIED] if results else []), *_lost(scenes)]
    said += [ALONE] if len(probes) and not results else []
    return Report(
        certificate=claim.certificate,
        checks=claim.checks,
        unchecked=claim.unchecked,
        broken=claim.broken,
        results=tuple(results),
        utility=footage.table(Measured(whole, person, probes, strangers), looking, results, visible),
        detected=footage.detected(scenes, asked.jobs),
        residual_faces=int(visible.sum()) + sum(len(s.seen.bare) + len(s.seen.left) for s in scenes),
        pairs=footage.strips(claim, scenes, shown, asked.show_originals),
        missing=pairs.missing,
        notes=tuple(said),
        record=record_of(recognisers),
        films=tuple(footage.film(scene, own) for scene, own in zip(scenes, shown, strict=True)),
    )


def _pairs(claim: Claim, originals: Sequence[Source], private: Path | None) -> Pairs:
    """Return the original of each published clip: by the mapping, by its name, or because it is the one."""
    rows = [] if private is None else [row for row in read_private(private)[0] if row.output in claim.videos]
    told = with_originals(rows, originals) if rows else Pairs((), {})
    found = {row.output: told.sources[row.input] for row in told.rows}
    named = {stem(source.name): source for source in originals}
    for name in claim.videos:
        if name not in found and stem(name) in named:  # one that shows nobody is not in the mapping
            found[name] = named[stem(name)]
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
    return Pairs(told.rows, found, (*notes, *told.notes), told.missing)


def _watched(claim: Claim, name: str, pairs: Pairs, recognisers: Sequence[Recogniser], asked: Asked) -> Scene:
    """Look at one clip and its original."""
    original = pairs.sources[name].pixels
    assert isinstance(original, Path)
    clip, published = media.probe(original), claim.folder / name
    inputs = [row.input for row in pairs.rows if row.output == name]
    paper = None
    if asked.private is not None and inputs:
        paper = asked.private / "tracks" / fit_name(inputs[0], ".json")
    if paper is not None and paper.is_file():
        count = sum(1 for _ in media.frames(original, broken=[], exact=False))
        text = paper.read_text(encoding="utf-8")
        told = from_json(text, width=clip.width, height=clip.height, frames=count)
    else:
        told = _followed(original, asked)
    seen = watched(
        original,
        published,
        recognisers,
        tracks=told,
        most=asked.frames,
        jobs=asked.jobs,
        watch=asked.watch,
    )
    if seen.frames[1] == 0:
        raise InputError(f"{name} has no picture that can be read: nothing can be attacked.")
    return Scene(name, original, published, clip, told, seen)


def _followed(original: Path, asked: Asked) -> tuple[Track, ...]:
    """Follow the faces of an original whose tracks nobody has: a detector alone overlooks half a face."""
    recogniser = default_recogniser()
    seen = watch(
        media.frames(original, broken=[], exact=False),
        embed=partial(embed, recogniser),
        threads=asked.jobs or 2,
    )
    return tuple(map(_trimmed, tracks(seen, same=DEEP[recogniser].same_person)))


def _trimmed(track: Track) -> Track:
    """Return a track without its margins in time, where there is no face yet, or none any more."""
    there = np.flatnonzero(track.state != "covered")
    if not len(there):
        return track
    first = min(LEAD, int(there[0]))
    last = max(len(track) - LEAD, int(there[-1]) + 1)
    some = slice(first, last)
    box, state, shape = track.box[some], track.state[some], track.shape[some]
    return replace(track, start=track.start + first, box=box, state=state, shape=shape)


def _named(scenes: Sequence[Scene]) -> list[Scene]:
    """Say who each face is: as the tracks do, or by their codes where these were followed here."""
    blind = [scene for scene in scenes if not all(track.person for track in scene.tracks)]
    if blind:
        who = people([scene.tracks for scene in blind], DEEP[default_recogniser()].same_person)
        marks = [marked(s.tracks, names, np.zeros(len(names))) for s, names in zip(blind, who, strict=True)]
        told = {scene.file: found for scene, found in zip(blind, marks, strict=True)}
        scenes = [scene._replace(tracks=told.get(scene.file, scene.tracks)) for scene in scenes]
    named = []
    for scene in scenes:
        names = [*(track.person for track in scene.tracks), ""]  # -1: no track
        named.append(scene._replace(person=tuple(names[track] for track in scene.seen.track)))
    return named


class Crowd(NamedTuple):
    """Among whom an attacker looks: codes by recogniser, who they are, and in which part of a clip."""

    codes: Mapping[str, NDArray[Any]]
    subjects: list[str]
    photos: list[str]
    part: list[str]  # (n,): the part of the clip that each face of the release is in
    strangers: NDArray[np.bool_]
    notes: tuple[str, ...] = ()


def _crowd(
    gallery: str | Path | None,
    how: str | None,
    whole: Watched,
    person: NDArray[np.str_],
    recognisers: Sequence[Recogniser],
    look: Callable[..., Seen],
) -> Crowd:
    """Return some original views of each person, and whoever is in the gallery."""
    views, part = _views(person)
    codes = {one.name: whole.before.codes[one.name][views] for one in recognisers}
    who = person[views].tolist()
    photos = [part[view] for view in views]
    if gallery is None:
        return Crowd(codes, who, photos, part, np.zeros(len(who), bool))
    sources = sources_of(gallery)
    seen = look(sources, recognisers, stage="looking at the gallery")
    faces = seen.rows(seen.largest(len(sources)))
    named, notes = _in_gallery(sources, faces, how, codes, who, recognisers)
    return Crowd(
        {name: np.concatenate([codes[name], faces.codes[name]]) for name in codes},
        who + named,
        photos + [source.name for source in sources],
        part,
        np.array([False] * len(who) + [name.startswith("stranger: ") for name in named], bool),
        notes,
    )


def _views(person: NDArray[np.str_]) -> tuple[list[int], list[str]]:
    """Return the rows that an attacker has, one from each part of the time that somebody is seen.

    Also the part of every row: a view of another part is far away in time.
    """
    views, part = [], [""] * len(person)
    for who in np.unique(person[person != ""]).tolist():
        rows = np.flatnonzero(person == who)
        for number, some in enumerate(np.array_split(rows, min(VIEWS, len(rows)))):
            views.append(int(some[len(some) // 2]))
            for row in some.tolist():
                part[row] = f"{who}: part {number}"
    return views, part


def _in_gallery(
    sources: Sequence[Source],
    faces: Seen,
    how: str | None,
    codes: Mapping[str, NDArray[Any]],
    who: Sequence[str],
    recognisers: Sequence[Recogniser],
) -> tuple[list[str], tuple[str, ...]]:
    """Return who is on each photo of the gallery; without a rule, whom every recogniser takes them for."""
    names = [source.name for source in sources]
    if how is not None:
        rows = Pairs(tuple(Row("", name, 0, "") for name in dict.fromkeys(who)), {})
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
    whole: Watched,
    person: NDArray[np.str_],
    crowd: Crowd,
    recognisers: Sequence[Recogniser],
    probes: IntArray,
) -> Iterator[Result]:
    """Look for every new face among the original views and the strangers, also among other parts only."""
    if len(set(crowd.subjects)) < 2:
        return
    who = person[probes].tolist()
    part = [crowd.part[row] for row in probes]
    several = any(
        photo.startswith(f"{name}: part 1") for name, photo in zip(crowd.subjects, crowd.photos, strict=True)
    )
    for one in recognisers:
        old, new = crowd.codes[one.name], whole.after.codes[one.name][probes]
        run = partial(score, one.train, recogniser=one.name, bound=claim.bound)
        yield run(old, new, crowd.subjects, who, attack="naive")
        if several:
            apart = partial(run, gallery_photos=crowd.photos, probe_photos=part)
            yield apart(old, new, crowd.subjects, who, attack="naive, other moment")
        ours = np.flatnonzero(~crowd.strangers)
        among = np.concatenate([new, old[crowd.strangers]])  # or the few people of a clip would be guessed
        names = [*who, *(crowd.subjects[row] for row in np.flatnonzero(crowd.strangers))]
        if len(set(names)) > 1:
            yield run(among, old[ours], names, [crowd.subjects[row] for row in ours], attack="reverse")


def _lost(scenes: Sequence[Scene]) -> Iterator[str]:
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


def beside(videos: Report, photos: Callable[[], Report]) -> Report:
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
        results=(*found.results, *(replace(r, attack=f"{r.attack}{IN_VIDEOS}") for r in videos.results)),
        utility=table,
        detected={**found.detected, **{f"{name}{IN_VIDEOS}": r for name, r in videos.detected.items()}},
        residual_faces=found.residual_faces + videos.residual_faces,
        pairs=(*found.pairs, *videos.pairs),
        missing=found.missing + videos.missing,
        notes=tuple(dict.fromkeys((*found.notes, *videos.notes))),
    )
