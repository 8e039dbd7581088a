"""The attacks that a release of photos is put through: each is a call of ``ksame.attack``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksame import attack
from ksame.attack import AttackResult
from ksame.attack.degradation import study_degradation
from ksame.attack.recognisers import Recogniser
from ksame.attack.score import MAX_RANK
from ksame.audit.inputs import AttackInputs, Imitation, path_of
from ksame.audit.pairing import find_private
from ksame.audit.rerun import can_rerun, rerun_differences, rerun_method
from ksame.core.errors import CannotGuarantee, InputError, UsageError, WeightsError
from ksame.release import MappingRow, method_name, read_private
from ksame.render.obscure import METHODS as AD_HOC
from ksame.replace import kdiff


def run_attacks(
    inputs: AttackInputs, past_face: Sequence[Recogniser]
) -> tuple[list[AttackResult], list[str]]:
    """Put a release through every attack; return the results, and sentences on what could not be tried.

    Parameters
    ----------
    inputs : AttackInputs
        Both sides.
    past_face : sequence of Recogniser
        Those that look past the face.
    """
    results = [*_direct_attacks(inputs)]
    parrots, notes = _parrot_attacks(inputs)
    results += parrots
    results += _background_attacks(inputs, past_face)
    results += _degradation_attacks(inputs)
    results += _reconstruction_attacks(inputs)
    results += _intersection_attacks(inputs)
    return results, notes


def _direct_attacks(inputs: AttackInputs) -> Iterator[AttackResult]:
    """Run the attacks that need nothing but both sides: naive, reverse, and naming the group."""
    has_other_photos, k = inputs.has_other_photos, inputs.claim.certificate.get("k", 1)
    for one in inputs.request.recognisers:
        codes, options = inputs.codes(one), inputs.options(one)
        result = attack.naive(*codes, **options)
        yield result
        if has_other_photos:
            photos = inputs.options(one, photos=inputs.gallery.photos, released_photos=inputs.photos)
            yield replace(attack.naive(*codes, **photos), attack="naive, other photo")
        yield attack.reverse(*codes, **options)
        if options["bound"] is not None and k <= MAX_RANK:
            yield attack.top_guesses(result, k)


def _background_attacks(inputs: AttackInputs, past_face: Sequence[Recogniser]) -> Iterator[AttackResult]:
    """Run the recognisers that look past the face: at the background, and at wider crops [S 6.3-6.4]."""
    for one in past_face:
        result = attack.naive(*inputs.codes(one), **inputs.options(one))
        yield replace(result, attack=one.name.rpartition("-")[0])


def _parrot_attacks(inputs: AttackInputs) -> tuple[list[AttackResult], list[str]]:
    """De-identify the gallery as the release was, and search that [N 5.2]; or say why not."""
    try:
        imitation = _imitate(inputs)
    except (CannotGuarantee, InputError, UsageError, WeightsError) as error:
        # a report is passed on, and names no photo
        why = "some of them are the same, or cannot be read." if "'" in str(error) else str(error)
        return [], [f"The method could not be run on the attacker's photos (parrot attack): {why}"]
    if imitation is None:
        method = method_name(inputs.claim.certificate)
        why = f"The method {method} cannot be run on other photos" if method else "The method is not known"
        return [], [f"{why}, so no parrot attack was tried."]
    if len(set(imitation.subjects)) < 2:
        return [], ["The attacker has photos of one person only, so no parrot attack was tried."]
    results = []
    for one in inputs.request.recognisers:
        gallery, published = inputs.codes(one)
        made = imitation.faces.codes[one.name]
        options = inputs.options(one, subjects=imitation.subjects)
        parrot = partial(_parrot, gallery[imitation.rows], published, made, **options)
        results.append(parrot())
        if inputs.has_other_photos and inputs.shows_other_photos(imitation.subjects, imitation.photos):
            result = parrot(photos=imitation.photos, released_photos=inputs.photos)
            results.append(replace(result, attack="parrot, other photo"))
    return results, list(imitation.differences)


def _parrot(
    gallery: NDArray[Any], published: NDArray[Any], imitated: NDArray[Any], **options: Any
) -> AttackResult:
    """Run a parrot attack whose method was run beforehand, once for all recognisers."""
    return attack.parrot(gallery, published, lambda _: imitated, **options)


def _imitate(inputs: AttackInputs) -> Imitation | None:
    """Run the method of the release on the gallery's photos of its people, and embed what it made."""
    claim, gallery, released = inputs.claim, inputs.gallery, set(inputs.pairs.subjects)
    chosen = [i for i, person in enumerate(gallery.source_subjects) if person in released]
    photos, subjects = [gallery.sources[i] for i in chosen], [gallery.source_subjects[i] for i in chosen]
    if not can_rerun(claim.certificate):
        return None
    made = rerun_method(claim.certificate, photos, subjects, jobs=inputs.request.jobs)
    differences = tuple(rerun_differences(claim.certificate))
    image = {path_of(gallery.sources[i]): number for i, number in zip(chosen, made.image, strict=True)}
    rows = [
        row
        for row, (person, photo) in enumerate(zip(gallery.subjects, gallery.photos, strict=True))
        if person in released and photo in image
    ]
    if claim.is_portrait:  # one for each photo, of its largest face, which comes first
        rows = [r for i, r in enumerate(rows) if not i or gallery.photos[r] != gallery.photos[rows[i - 1]]]
    output = [image[gallery.photos[row]] for row in rows]
    originals = gallery.faces.rows(np.array(rows, np.intp))
    placed = {} if claim.is_portrait else originals.meshes_by_image(output)
    faces = inputs.request.embed(made.images, "embedding the imitation", placed=placed)
    if claim.is_portrait:
        found = np.where(np.array(output) >= 0, faces.largest(len(made.images))[output], -1)
    else:
        found = faces.match_boxes(output, originals.xyxy, in_place=True)
    return Imitation(
        np.array(rows, np.intp),
        faces.rows(found),
        [gallery.subjects[row] for row in rows],
        [gallery.photos[row] for row in rows],
        differences,
    )


def _degradation_attacks(inputs: AttackInputs) -> Iterator[AttackResult]:
    """Estimate the pixelation or blur; imitate it on the gallery, and sharpen the release [G6 6.2].

    A method that draws new faces does neither: there is nothing to estimate.
    """
    request, gallery, embedded = inputs.request, inputs.gallery, inputs.embedded
    method = method_name(inputs.claim.certificate)
    if method is not None and method not in AD_HOC:
        return
    meshes = {i: gallery.faces.points[[row]] for i, row in enumerate(gallery.largest) if row >= 0}
    study = study_degradation(
        gallery.sources, embedded.outputs, meshes, released_meshes=embedded.placed, jobs=request.jobs
    )
    if (kind := study.degradation.kind) is None:
        return
    imitated = request.embed(study.imitations(), f"imitating {kind}", placed=meshes)
    originals = gallery.faces.rows(gallery.largest)
    places = range(len(gallery.sources))
    found = imitated.rows(imitated.match_boxes(places, originals.xyxy, in_place=True))
    for one in request.recognisers:
        options = inputs.options(one, subjects=gallery.source_subjects)
        codes = originals.codes[one.name], inputs.codes(one)[1], found.codes[one.name]
        yield replace(_parrot(*codes, **options), attack="automatic parrot")
    if (sharpen := study.sharpening()) is None:
        return
    sharper = request.embed(
        embedded.outputs,
        f"undoing {kind}",
        recognisers=[*map(sharpen, request.recognisers)],
        placed=embedded.placed,
    )
    rows = sharper.match_boxes(embedded.output, embedded.before.xyxy, in_place=inputs.claim.in_place)
    clear = sharper.rows(rows)
    for one in request.recognisers:
        result = attack.naive(inputs.codes(one)[0], clear.codes[one.name], **inputs.options(one))
        yield replace(result, attack="enhancement")


def _reconstruction_attacks(inputs: AttackInputs) -> Iterator[AttackResult]:
    """Undo k-Diff: applied to its own output it finds much the same clusters, and swaps them back."""
    certificate = inputs.claim.certificate
    if method_name(certificate) != "kdiff-furthest":
        return
    old, new = (side.features["appearance"] for side in (inputs.embedded.before, inputs.embedded.after))
    are_found = ~(np.isnan(old).any(axis=1) | np.isnan(new).any(axis=1))
    subjects = np.array(inputs.pairs.subjects)[are_found]
    k = certificate["k"]
    if len(np.unique(subjects)) >= 2 * k:
        yield attack.reconstruction(
            old[are_found], new[are_found], lambda codes: kdiff(codes, k)[0], subjects=subjects
        )


def _intersection_attacks(inputs: AttackInputs) -> Iterator[AttackResult]:
    """Compare with a second release of the same people."""
    other = inputs.request.other
    if other is None:
        return
    secret = find_private(other, None)
    if secret is None:
        raise UsageError(f"{other}.private is missing: two releases are compared by their mappings.")
    kept = read_private(secret)
    rows, rules = kept.mapping, (inputs.claim.certificate.get("subjects"), kept.settings.get("subjects"))
    yield attack.intersection(
        [row.group for row in inputs.pairs.rows],
        [row.group for row in rows],
        inputs.pairs.subjects,
        match_people(inputs.pairs.rows, rows, by_name=not {None, "auto"} & set(rules)),
        bound=inputs.claim.bound,
    )


def match_people(rows: Sequence[MappingRow], others: Sequence[MappingRow], *, by_name: bool) -> list[str]:
    """Return the people of a second release by their names in the first.

    Parameters
    ----------
    rows, others : sequence of MappingRow
        The two mappings.
    by_name : bool
        Whether the names were given. Those that a recogniser assigned are numbers, and the same person has
        another one in each release: there only a photo that both releases have identifies the person.
    """
    if by_name:
        return [row.subject for row in others]
    first = dict(zip(_faces(rows), rows, strict=True))
    known = {
        row.subject: first[face].subject
        for face, row in zip(_faces(others), others, strict=True)
        if face in first
    }
    return [known.get(row.subject, f"not here: {row.subject}") for row in others]


def _faces(rows: Sequence[MappingRow]) -> Iterator[tuple[str, int]]:
    """Yield the photo of each row, and the rank of the face in it: the largest comes first."""
    count: Counter[str] = Counter()
    for row in rows:
        yield row.input, count[row.input]
        count[row.input] += 1
