"""Which attacks a release is put through, and with what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ksame import attack
from ksame.attack.degradation import (
    Enhancer,
    enhancing_recogniser,
    estimate_degradation,
    imitate_degradation,
    sample_faces,
)
from ksame.attack.embed import FaceEmbeddings
from ksame.attack.recognisers import Recogniser
from ksame.attack.score import MAX_RANK, Result, score
from ksame.audit.pairing import (
    Claim,
    EmbeddedPairs,
    FacePairs,
    face_places,
    find_private,
    gallery_subjects,
    match_faces,
    published,
)
from ksame.audit.rerun import can_rerun, method_name, rerun_differences, rerun_method
from ksame.core.arrays import IntArray
from ksame.core.errors import CannotGuarantee, InputError, UsageError, WeightsError
from ksame.io.sources import Source, find_sources
from ksame.methods import AD_HOC
from ksame.release import MappingRow, read_private
from ksame.replace import kdiff

EmbedFacesCallback = Callable[..., FaceEmbeddings]
"""``see`` with all but its pictures, its stage and its places."""


class Gallery(NamedTuple):
    """Among whom an attacker looks: faces, who they are, and on which photo."""

    seen: FaceEmbeddings
    subjects: Sequence[str]
    photos: Sequence[str]
    sources: Sequence[Source]  # the photos themselves,
    named: Sequence[str]  # who is on each,
    largest: IntArray  # and the row of its largest face; -1: none was found


class AttackInputs(NamedTuple):
    """Both sides of an attack, and what was promised."""

    claim: Claim
    pairs: FacePairs
    views: EmbeddedPairs
    gallery: Gallery

    @property
    def photos(self) -> list[str]:
        """The photo that each published face was made from."""
        return [_file(self.pairs.sources[row.input]) for row in self.pairs.rows]

    @property
    def several(self) -> bool:
        """Whether the gallery has the very photos, and others of the same people besides."""
        return self.others(self.gallery.subjects, self.gallery.photos)

    def others(self, subjects: Sequence[str], photos: Sequence[str]) -> bool:
        """Return whether these are the very photos, and somebody of the release has another one there."""
        ours = set(zip(self.pairs.subjects, self.photos, strict=True))
        theirs = set(zip(subjects, photos, strict=True))
        own: dict[str, set[str]] = {}
        for who, photo in theirs:
            own.setdefault(who, set()).add(photo)
        return bool(ours & theirs) and any(own.get(who, set()) - {photo} for who, photo in ours)


def _file(photo: Source) -> str:
    """Return the file of a photo, however its path was written."""
    return str(photo.pixels.resolve() if isinstance(photo.pixels, Path) else photo.name)


def build_gallery(
    gallery: str | Path | None,
    how: str | None,
    claim: Claim,
    pairs: FacePairs,
    views: EmbeddedPairs,
    look: EmbedFacesCallback,
) -> Gallery:
    """Return the originals, or the gallery that was given: the largest face of each of its photos."""
    if gallery is None:
        photos = [_file(pairs.sources[row.input]) for row in pairs.rows]
        first = {row.input: i for i, row in reversed([*enumerate(pairs.rows)])}
        largest = np.array([first.get(name, -1) for name in pairs.sources])
        found = np.where(views.before.photo[largest] >= 0, largest, -1)
        named = [pairs.subjects[row] for row in largest]
        return _check_gallery(
            Gallery(views.before, pairs.subjects, photos, list(pairs.sources.values()), named, found)
        )
    sources = find_sources(gallery)
    told = claim.certificate.get("subjects")
    named = gallery_subjects([source.name for source in sources], pairs, how, told)
    if not set(named) & set(pairs.subjects):
        raise UsageError(f"{gallery} shows nobody of the release: say who is who with --subjects.")
    seen = look(sources, stage="looking at the gallery")
    rows = seen.largest(len(sources))
    found = np.where(rows >= 0, np.arange(len(sources)), -1)
    return _check_gallery(Gallery(seen.rows(rows), named, [*map(_file, sources)], sources, named, found))


def _check_gallery(gallery: Gallery) -> Gallery:
    """Return the crowd if it shows a face: recognisers that see none would make any release look safe."""
    if (gallery.largest < 0).all():
        raise InputError("No face was found in any photo that the attacker has: nothing can be measured.")
    return gallery


def direct_attacks(trial: AttackInputs, recognisers: Sequence[Recogniser]) -> Iterator[Result]:
    """Run the attacks that need nothing but both sides: naive, reverse, and naming the group."""
    claim, pairs, views, crowd = trial
    who = pairs.subjects
    for one in recognisers:
        old, new = crowd.seen.codes[one.name], views.after.codes[one.name]
        run = partial(score, one.train, recogniser=one.name, bound=claim.bound)
        naive = run(old, new, crowd.subjects, who, attack="naive")
        yield naive
        if trial.several:
            apart = partial(run, gallery_photos=crowd.photos, probe_photos=trial.photos)
            yield apart(old, new, crowd.subjects, who, attack="naive, other photo")
        yield run(new, old, who, crowd.subjects, attack="reverse")
        if claim.bound is not None and claim.certificate["k"] <= MAX_RANK:
            yield attack.top_guesses(naive, claim.certificate["k"])


def background_attacks(trial: AttackInputs, recognisers: Sequence[Recogniser]) -> Iterator[Result]:
    """Run those who look past the face: at the background alone, and at crops with more of it [S 6.3-6.4]."""
    claim, pairs, views, crowd = trial
    for one in recognisers:
        codes = crowd.seen.codes[one.name], views.after.codes[one.name]
        name = one.name.rpartition("-")[0]
        bound = claim.bound
        yield score(
            one.train, *codes, crowd.subjects, pairs.subjects, attack=name, recogniser=one.name, bound=bound
        )


def parrot_attacks(
    trial: AttackInputs, recognisers: Sequence[Recogniser], look: EmbedFacesCallback, jobs: int | None
) -> tuple[list[Result], list[str]]:
    """Do to the gallery what was done to the release, and look again [N 5.2]; or say why not."""
    claim, pairs, views, crowd = trial
    if not can_rerun(claim.certificate):
        return [], ["The method of this folder is not known, so it was not imitated (parrot attack)."]
    there = set(pairs.subjects)
    ours = [i for i, name in enumerate(crowd.named) if name in there]
    try:
        made = rerun_method(
            claim.certificate, [crowd.sources[i] for i in ours], [crowd.named[i] for i in ours], jobs=jobs
        )
    except (CannotGuarantee, InputError, UsageError, WeightsError) as error:
        # a page is passed on, and names no photo
        why = "some of them are the same, or cannot be read." if "'" in str(error) else str(error)
        return [], [f"The method could not be imitated on the attacker's photos (parrot attack): {why}"]
    image = {_file(crowd.sources[i]): p for i, p in zip(ours, made.image, strict=True)}
    known = [j for j, who in enumerate(crowd.subjects) if who in there and crowd.photos[j] in image]
    if claim.portraits:  # one for each photo, of its largest face, which stands first
        known = [j for i, j in enumerate(known) if not i or crowd.photos[j] != crowd.photos[known[i - 1]]]
    at = [image[crowd.photos[j]] for j in known]
    spots = crowd.seen.rows(np.array(known, np.intp))
    seen = look(
        made.images,
        stage="looking at the imitation",
        placed={} if claim.portraits else face_places(spots, at),
    )
    if claim.portraits:
        rows = np.where(np.array(at) >= 0, seen.largest(len(made.images))[at], -1)
    else:
        rows = match_faces(seen, at, spots.xyxy, in_place=True)
    faces = seen.rows(rows)
    named, photos = [crowd.subjects[j] for j in known], [crowd.photos[j] for j in known]
    results = []
    for one in recognisers:
        codes = faces.codes[one.name], views.after.codes[one.name]
        run = partial(score, one.train, *codes, named, pairs.subjects, recogniser=one.name, bound=claim.bound)
        results.append(run(attack="parrot"))
        if trial.several and trial.others(named, photos):
            results.append(
                run(attack="parrot, other photo", gallery_photos=photos, probe_photos=trial.photos)
            )
    return results, list(rerun_differences(claim.certificate))


def degradation_attacks(
    trial: AttackInputs, recognisers: Sequence[Recogniser], look: EmbedFacesCallback, jobs: int | None
) -> Iterator[Result]:
    """Guess how faces were pixelated or blurred; do so to the gallery, and sharpen the release [G6 6.2].

    New faces of our own are neither; there is nothing to guess.
    """
    claim, pairs, views, crowd = trial
    if can_rerun(claim.certificate) and method_name(claim.certificate) not in AD_HOC:
        return
    where = {i: crowd.seen.points[[row]] for i, row in enumerate(crowd.largest) if row >= 0}
    sharp = sample_faces(crowd.sources, places=where, jobs=jobs)
    outputs, at, spots = published(claim, pairs, views.before)
    found = estimate_degradation(sample_faces(outputs, places=spots, jobs=jobs), sharp)
    if found.kind is None:
        return
    mimic = [
        Source(photo.name, partial(imitate_degradation, found, photo, where[i])) if i in where else photo
        for i, photo in enumerate(crowd.sources)
    ]
    seen = look(mimic, stage=f"imitating {found.kind}", placed=where)
    boxes = crowd.seen.rows(crowd.largest).xyxy
    alike = seen.rows(match_faces(seen, range(len(mimic)), boxes, in_place=True))
    for one in recognisers:
        codes = alike.codes[one.name], views.after.codes[one.name]
        run = partial(score, one.train, *codes, crowd.named, pairs.subjects, recogniser=one.name)
        yield run(attack="automatic parrot", bound=claim.bound)
    if len(sharp) < 2:
        return
    enhancer = Enhancer.fit(sharp, found)
    sharper = [enhancing_recogniser(one, enhancer) for one in recognisers]
    seen = look(outputs, recognisers=sharper, stage=f"undoing {found.kind}", placed=spots)
    clear = seen.rows(match_faces(seen, at, views.before.xyxy, in_place=claim.in_place))
    for one in recognisers:
        codes = crowd.seen.codes[one.name], clear.codes[one.name]
        run = partial(score, one.train, *codes, crowd.subjects, pairs.subjects, recogniser=one.name)
        yield run(attack="enhancement", bound=claim.bound)


def reconstruction_attacks(trial: AttackInputs) -> Iterator[Result]:
    """Undo k-Diff: applied to its own output it finds much the same clusters, and swaps them back."""
    claim, pairs, views, _ = trial
    if method_name(claim.certificate) != "kdiff-furthest":
        return
    old, new = views.before.features["appearance"], views.after.features["appearance"]
    there = ~(np.isnan(old).any(axis=1) | np.isnan(new).any(axis=1))
    who = np.array(pairs.subjects)[there]
    k = claim.certificate["k"]
    if len(np.unique(who)) >= 2 * k:  # of those in whose pictures both faces were found
        yield attack.reconstruction(old[there], new[there], lambda codes: kdiff(codes, k)[0], subjects=who)


def intersection_attacks(trial: AttackInputs, other: str | Path | None) -> Iterator[Result]:
    """Compare with a second release of the same people."""
    if other is None:
        return
    secret = find_private(other, None)
    if secret is None:
        raise UsageError(f"{other}.private is missing: two releases are compared by their mappings.")
    rows, settings = read_private(secret)
    told = trial.claim.certificate.get("subjects"), settings.get("subjects")
    yield attack.intersection(
        [row.group for row in trial.pairs.rows],
        [row.group for row in rows],
        trial.pairs.subjects,
        same_people(trial.pairs.rows, rows, by_name=not {None, "auto"} & set(told)),
        bound=trial.claim.bound,
    )


def same_people(rows: Sequence[MappingRow], others: Sequence[MappingRow], *, by_name: bool) -> list[str]:
    """Return who the people of a second release are, in the names of the first.

    Parameters
    ----------
    rows, others : sequence of Row
        The two mappings.
    by_name : bool
        Whether somebody gave the names. Those that a recogniser gave are numbers, another one for the same
        person in each release: there only a photo that both have tells who is who.
    """
    if by_name:
        return [row.subject for row in others]
    ours = dict(zip(_faces(rows), rows, strict=True))
    known = {
        row.subject: ours[face].subject
        for face, row in zip(_faces(others), others, strict=True)
        if face in ours
    }
    return [known.get(row.subject, f"not here: {row.subject}") for row in others]


def _faces(rows: Sequence[MappingRow]) -> Iterator[tuple[str, int]]:
    """Yield the photo of each row, and which of its faces it is: the largest comes first."""
    turn: Counter[str] = Counter()
    for row in rows:
        yield row.input, turn[row.input]
        turn[row.input] += 1
