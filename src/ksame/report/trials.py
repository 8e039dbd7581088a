"""Which attacks a release is put through, and with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ksame import attack
from ksame.attack.pixels import Enhancer, enhanced, estimate, imitated, samples
from ksame.attack.recognise import Recogniser
from ksame.attack.score import Result, score
from ksame.attack.see import Seen
from ksame.core import CannotGuarantee, FloatArray, InputError, IntArray, UsageError
from ksame.gather import Source, sources_of
from ksame.pipeline import METHODS
from ksame.release import read_private
from ksame.replace import kdiff
from ksame.report.afresh import afresh, known
from ksame.report.evidence import Claim, Pairs, Views, gallery_subjects, matched, private_of, published

Look = Callable[..., Seen]
"""``see`` with all but its pictures, its stage and its places."""


class Crowd(NamedTuple):
    """Among whom an attacker looks: faces, who they are, and on which photo."""

    seen: Seen
    subjects: Sequence[str]
    photos: Sequence[str]
    sources: Sequence[Source]  # the photos themselves,
    named: Sequence[str]  # who is on each,
    largest: IntArray  # and the row of its largest face; -1: none was found


class Trial(NamedTuple):
    """Both sides of an attack, and what was promised."""

    claim: Claim
    pairs: Pairs
    views: Views
    crowd: Crowd

    @property
    def photos(self) -> list[str]:
        """The photo that each published face was made from."""
        return [str(self.pairs.sources[row.input].pixels) for row in self.pairs.rows]

    @property
    def several(self) -> bool:
        """Whether the gallery has the very photos, and others of the same people besides."""
        pairs = set(zip(self.crowd.subjects, self.crowd.photos, strict=True))
        return bool(set(self.photos) & set(self.crowd.photos)) and len(pairs) > len(set(self.crowd.subjects))


def crowd_of(
    gallery: str | Path | None, how: str | None, claim: Claim, pairs: Pairs, views: Views, look: Look
) -> Crowd:
    """Return the originals, or the gallery that was given: the largest face of each of its photos."""
    if gallery is None:
        photos = [str(pairs.sources[row.input].pixels) for row in pairs.rows]
        first = {row.input: i for i, row in reversed([*enumerate(pairs.rows)])}
        largest = np.array([first.get(name, -1) for name in pairs.sources])
        found = np.where(views.before.photo[largest] >= 0, largest, -1)
        named = [pairs.subjects[row] for row in largest]
        return Crowd(views.before, pairs.subjects, photos, list(pairs.sources.values()), named, found)
    sources = sources_of(gallery)
    rule = how or claim.certificate.get("subjects") or ""
    named = gallery_subjects([source.name for source in sources], pairs, rule)
    if not set(named) & set(pairs.subjects):
        raise UsageError(f"{gallery} shows nobody of the release: say who is who with --subjects.")
    seen = look(sources, stage="looking at the gallery")
    rows = seen.largest(len(sources))
    places = np.where(rows >= 0, np.arange(len(sources)), -1)
    return Crowd(seen.rows(rows), named, [str(s.pixels) for s in sources], sources, named, places)


def direct(trial: Trial, recognisers: Sequence[Recogniser]) -> Iterator[Result]:
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
        if claim.bound is not None:
            yield attack.among(naive, claim.certificate["k"])


def around(trial: Trial, recognisers: Sequence[Recogniser]) -> Iterator[Result]:
    """Run those who look past the face: at the background alone, and at crops with more of it [S 6.3-6.4]."""
    claim, pairs, views, crowd = trial
    for one in recognisers:
        codes = crowd.seen.codes[one.name], views.after.codes[one.name]
        name = one.name.rpartition("-")[0]
        bound = claim.bound
        yield score(
            one.train, *codes, crowd.subjects, pairs.subjects, attack=name, recogniser=one.name, bound=bound
        )


def parrots(
    trial: Trial, recognisers: Sequence[Recogniser], look: Look, jobs: int | None
) -> tuple[list[Result], list[str]]:
    """Do to the gallery what was done to the release, and look again [N 5.2]; or say why not."""
    claim, pairs, views, crowd = trial
    if not known(claim.certificate):
        return [], ["The method of this folder is not known, so it was not imitated (parrot attack)."]
    there = set(pairs.subjects)
    ours = [i for i, name in enumerate(crowd.named) if name in there]
    named = [crowd.named[i] for i in ours]
    try:
        made = afresh(claim.certificate, [crowd.sources[i] for i in ours], named, jobs=jobs)
    except (CannotGuarantee, InputError) as error:
        return [], [f"The method could not be imitated on the attacker's photos (parrot attack): {error}"]
    placed: dict[int, FloatArray] = {}
    if not claim.portraits:  # where the face of each imitated scene was, should it not be found any more
        rows = crowd.largest[ours]
        placed = {
            p: crowd.seen.points[[r]] for p, r in zip(made.picture, rows, strict=True) if p >= 0 and r >= 0
        }
    seen = look(made.pictures, stage="looking at the imitation", placed=placed)
    picture = np.array(made.picture)
    faces = seen.rows(np.where(picture >= 0, seen.largest(len(made.pictures))[picture], -1))
    results = []
    for one in recognisers:
        codes = faces.codes[one.name], views.after.codes[one.name]
        run = partial(score, one.train, *codes, named, pairs.subjects, recogniser=one.name, bound=claim.bound)
        results.append(run(attack="parrot"))
        if trial.several:
            photos = [str(crowd.sources[i].pixels) for i in ours]
            results.append(
                run(attack="parrot, other photo", gallery_photos=photos, probe_photos=trial.photos)
            )
    return results, []


def undone(trial: Trial, recognisers: Sequence[Recogniser], look: Look, jobs: int | None) -> Iterator[Result]:
    """Guess how faces were pixelated or blurred; do so to the gallery, and sharpen the release [G6 6.2].

    New faces of our own are neither; there is nothing to guess.
    """
    claim, pairs, views, crowd = trial
    if claim.certificate.get("method") in METHODS:
        return
    places = {i: crowd.seen.points[[row]] for i, row in enumerate(crowd.largest) if row >= 0}
    sharp = samples(crowd.sources, places=places, jobs=jobs)
    outputs, at, spots = published(claim, pairs, views.before)
    found = estimate(samples(outputs, places=spots, jobs=jobs), sharp)
    if found.kind is None:
        return
    mimic = [
        Source(photo.name, partial(imitated, found, photo, places[i])) if i in places else photo
        for i, photo in enumerate(crowd.sources)
    ]
    seen = look(mimic, stage=f"imitating {found.kind}", placed=places)
    alike = seen.rows(seen.largest(len(mimic)))
    for one in recognisers:
        codes = alike.codes[one.name], views.after.codes[one.name]
        run = partial(score, one.train, *codes, crowd.named, pairs.subjects, recogniser=one.name)
        yield run(attack="automatic parrot", bound=claim.bound)
    enhancer = Enhancer.fit(sharp, found)
    sharper = [enhanced(one, enhancer) for one in recognisers]
    seen = look(outputs, recognisers=sharper, stage=f"undoing {found.kind}", placed=spots)
    clear = seen.rows(matched(seen, at, views.before.xyxy))
    for one in recognisers:
        codes = crowd.seen.codes[one.name], clear.codes[one.name]
        run = partial(score, one.train, *codes, crowd.subjects, pairs.subjects, recogniser=one.name)
        yield run(attack="enhancement", bound=claim.bound)


def reconstructed(trial: Trial) -> Iterator[Result]:
    """Undo k-Diff: applied to its own output it finds much the same clusters, and swaps them back."""
    claim, pairs, views, _ = trial
    if claim.certificate.get("method") != "kdiff-furthest":
        return
    old, new = views.before.also["appearance"], views.after.also["appearance"]
    there = ~(np.isnan(old).any(axis=1) | np.isnan(new).any(axis=1))
    who = np.array(pairs.subjects)[there]
    k = claim.certificate["k"]
    yield attack.reconstruction(old[there], new[there], lambda codes: kdiff(codes, k)[0], subjects=who)


def intersected(trial: Trial, other: str | Path | None) -> Iterator[Result]:
    """Compare with a second release of the same people."""
    if other is None:
        return
    secret = private_of(other, None)
    if secret is None:
        raise UsageError(f"{other}.private is missing: two releases are compared by their mappings.")
    rows, _ = read_private(secret)
    yield attack.intersection(
        [row.group for row in trial.pairs.rows],
        [row.group for row in rows],
        trial.pairs.subjects,
        [row.subject for row in rows],
        bound=trial.claim.bound,
    )
