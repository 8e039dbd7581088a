"""AnonFACES from faces to portraits: who shares a face, and the face that they share [A 3]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.guarantee import Guarantee
from ksame.core.parallel import parallel_map
from ksame.core.partition_type import Partition, check_law
from ksame.methods.anonfaces.candidate import GroupAffinity, PortraitSet
from ksame.methods.anonfaces.grouping import (
    _gender_labels,
    _skin_tone_labels,
    grouping_codes,
    per_person,
    stratified_codes,
)
from ksame.methods.anonfaces.measure import largest_faces, portrait_attributes, usual_tone
from ksame.methods.anonfaces.portraits import draw_expression, draw_portraits
from ksame.methods.anonfaces.verifiers import THRESHOLDS, embed_registered, matched_faces
from ksame.models import runtime, weights
from ksame.models.attributes import age_band
from ksame.models.generator import ImageGenerator
from ksame.partition import select
from ksame.render.tone import is_monochrome
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace, extract_features

__all__ = [
    "EMBEDDINGS",
    "FaceFeatures",
    "GroupPortraits",
    "analyse_faces",
    "available_verifiers",
    "load_generator",
    "make_group_portraits",
]


EMBEDDINGS = ("mobilefacenet", "sface", "facenet", "dlib", "pca")
NON_COMMERCIAL = (
    "The portraits are drawn by MobileStyleGAN, distilled from StyleGAN2: not for commercial use. Bring a"
    " generator of your own with --generator."
)
EXPRESSIONS_COUNTED_APART = "neutral and smiling photos of a group are counted apart"
_BATCH_FACES = 6


class FaceFeatures(NamedTuple):
    """What was seen of faces before they are grouped."""

    features: FloatArray  # (n, f)
    attributes: FloatArray  # (n, a)
    codes: Mapping[str, FloatArray]  # what each recogniser makes of them: name to (n, e)
    map: str  # the digest of the map that said what they wear
    grey: NDArray[np.bool_]  # (n,): photos without colour


class GroupPortraits(NamedTuple):
    """Portraits for a release, and what is to be said of them."""

    output: IntArray  # (n,): the picture of each face
    group: IntArray  # (n,): the group
    images: Sequence[NDArray[np.uint8]]
    codes: FloatArray  # (n, d): the new codes
    guarantee: Guarantee
    notes: tuple[str, ...]
    used: tuple[str, ...]  # weights
    details: dict[str, Any]  # for the certificate
    private: dict[str, Any]  # for the private folder


def available_verifiers() -> list[str]:
    """Return the recognisers that must not know anybody: those that are here."""
    return [name for name in THRESHOLDS if weights.cached(name)]


def make_group_portraits(
    faces: FaceSet,
    k: int,
    *,
    partition: str = "mdav",
    embedding: str = "mobilefacenet",
    label: NDArray[Any] | None = None,
    expression: str = "drop",
    generator: str | Path = "shipped",
    model: str | Path = "shipped",
    plain: bool = False,
    seen: FaceFeatures | None = None,
    seed: int,
    jobs: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> GroupPortraits:
    """Group people by what a recogniser makes of them and draw one portrait for each group.

    Parameters
    ----------
    faces : FaceSet
        All faces, with their subjects.
    k : int
        People behind each portrait.
    partition, embedding : str
        How groups are formed, and in which space: one of ``EMBEDDINGS``; ``pca`` is the paper's baseline.
    label : (n,), optional
        What must be kept apart. By default gender, and dark skin from other skin, as far as the set allows;
        age and how light the skin is are drawn into the distance.
    expression : str
        ``keep`` makes a neutral and a smiling picture of the same person who does not exist for each group
        whose people all have photos of both kinds, so that each stands for the same k people.
    generator, model : str or path
        ``shipped``, or the folder of a generator and the map that was learnt from it.
    plain : bool
        Ask for a plain ground.
    seen : Seen, optional
        What ``analyse_faces`` returned for these faces and this map: whoever tries several k looks once.
    seed, jobs, progress
        See ``photos.deidentify``.
    """
    if embedding not in EMBEDDINGS:
        raise UsageError(f"There is no embedding {embedding!r}: choose one of {', '.join(EMBEDDINGS)}.")
    space, draws = load_generator(generator, model)
    if seen is None or seen.map != space.digest:
        seen = analyse_faces(faces, space, jobs=jobs, progress=progress)
    read, members = seen.features, seen.codes
    attributes = _skin_in_colour(seen.attributes, seen.grey, faces.subject)
    codes = space.mean + space.whiten(read) @ space.down @ space.up
    own = per_person(attributes, faces.subject)
    near = grouping_codes(faces, embedding, members, read)
    near, label, notes = stratified_codes(near, own, faces.subject, k, label, seen.grey)
    runtime.unload("yunet")  # which is open for the size of the photos
    rng = np.random.default_rng(seed)
    groups = select(near, k, label=label, partition=partition, subjects=faces.subject, rng=rng)
    found = draw_portraits(
        space, draws, codes, attributes, members, groups,
        random_weights=0.3 / float(groups.people.max()), plain=plain, rng=rng, jobs=jobs, progress=progress,
        grey=[number for number, rows in enumerate(groups.groups) if seen.grey[rows].all()],
    )  # fmt: skip
    output, images = groups.labels, list(found.drawn)
    if expression == "keep":
        output, images = _with_smiles(space, draws, found, groups, attributes, faces.subject)
    at_risk = _at_risk(found, images, output, groups, members, jobs)
    guarantee = _with_bound(found.guarantee, check_law(output, faces.subject, k, allow_several=True))
    kept = _homogeneity(own, groups.labels, faces.subject)
    names = sorted({str(faces.source[row]) for row in at_risk})
    if names:
        stayed = f"{len(at_risk)} of {len(faces)} faces stayed near their portrait to a recogniser"
        guarantee = guarantee.lower(because=stayed)
        notes += (f"{len(names)} photos are still near to their group's portrait: see settings.json.",)
    shipped = str(generator) == "shipped"
    used = ["mobilefacenet", "gender", "age", "emotion", embedding, *members, *["stylegan"] * shipped]
    return GroupPortraits(
        output,
        groups.labels,
        images,
        found.codes[groups.labels],
        guarantee,
        (*notes, *([NON_COMMERCIAL] if shipped else []), _table(kept), _descent_note(found.affinity)),
        tuple(dict.fromkeys(name for name in used if name in weights.CATALOGUE)),
        {
            "generator": draws.digest,
            "map": space.digest,
            "embedding": embedding,
            "judges": list(members),
            "still_near": len(names),
            "non_commercial": shipped,
            "kept_together": kept,
        },
        {
            "still_near": names,
            "attributes": _attribute_rows(found),
            "kinship": _affinity_rows(found.affinity),
        },
    )


def load_generator(generator: str | Path, model: str | Path) -> tuple[GeneratorSpace, ImageGenerator]:
    """Return the map and the generator that belong together: both shipped, or both of one's own."""
    if (str(generator) == "shipped") != (str(model) == "shipped"):
        raise UsageError("A generator of your own and the map learnt from it go together: give both.")
    space = GeneratorSpace.bundled() if str(model) == "shipped" else GeneratorSpace.load(model)
    draws = ImageGenerator.bundled() if str(generator) == "shipped" else ImageGenerator.load(generator)
    space.check_generator(draws)
    return space, draws


def analyse_faces(
    faces: FaceSet,
    space: GeneratorSpace,
    *,
    jobs: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> FaceFeatures:
    """Look at all faces once, on every core: features, attributes, and what the recognisers make of them."""
    blocks = [slice(start, start + _BATCH_FACES) for start in range(0, len(faces), _BATCH_FACES)]
    who = available_verifiers()

    def look(block: slice) -> tuple[FloatArray, FloatArray, dict[str, FloatArray], NDArray[np.bool_]]:
        some = faces[block]
        grey = np.array([is_monochrome(rgb) for rgb in some.rgb])
        read = extract_features(some)
        read[grey] = space.remove_colour(read[grey])
        return read, portrait_attributes(some, read, space), embed_registered(some, who, read), grey

    found = []
    for one in parallel_map(look, ((block,) for block in blocks), jobs=jobs):
        found.append(one)
        if progress:
            progress("looking at faces", min(len(found) * _BATCH_FACES, len(faces)), len(faces))
    codes = {name: np.concatenate([one[2][name] for one in found]) for name in who}
    read, attributes = (np.concatenate([one[i] for one in found]) for i in (0, 1))
    return FaceFeatures(read, attributes, codes, space.digest, np.concatenate([one[3] for one in found]))


def _skin_in_colour(attributes: FloatArray, grey: NDArray[np.bool_], subjects: NDArray[Any]) -> FloatArray:
    """Return attributes (n, a) with the skin of photos without colour replaced.

    By that of the person's colour photos; without any, it is usual skin of the same lightness.
    """
    light, tone = (ATTRIBUTES.index(name) for name in ("light", "tone"))
    known = attributes.copy()
    known[grey, tone] = usual_tone(known[grey, light])
    for person in np.intersect1d(subjects[grey], subjects[~grey]):
        measured, unknown = ((subjects == person) & some for some in (~grey, grey))
        for column in (light, tone):
            known[unknown, column] = attributes[measured, column].mean()
    return known


def _with_bound(guarantee: Guarantee, bound: float) -> Guarantee:
    """Return a claim with the bound that was counted: of smiling photos alone one person may have more."""
    if bound <= guarantee.bound:
        return guarantee
    return guarantee.lower(bound=bound, because=EXPRESSIONS_COUNTED_APART)


def _homogeneity(own: FloatArray, groups: IntArray, subjects: NDArray[Any]) -> dict[str, float]:
    """Return for gender, age band and skin tone the share of people who are with their like alone."""
    ages = np.array([age_band(max(0.0, age)) for age in own[:, ATTRIBUTES.index("age")]])
    columns = {"gender": _gender_labels(own), "age band": ages, "skin tone": _skin_tone_labels(own)}
    _, first = np.unique(subjects, return_index=True)
    shares = {}
    for name, column in columns.items():
        alike = [len(np.unique(column[groups == group])) == 1 for group in groups[first]]
        shares[name] = round(float(np.mean(alike)), 3)
    return shares


def _table(kept: dict[str, float]) -> str:
    told = ", ".join(f"{name} {share:.0%}" for name, share in kept.items())
    return f"People in groups of one kind only: {told}."


def _descent_note(affinity: Sequence[GroupAffinity]) -> str:
    apart, unlike = sum(one.is_distinct for one in affinity), sum(one.is_mismatched for one in affinity)
    return (
        f"Descent: to recognisers {apart} of {len(affinity)} groups stand apart; portraits that are less like"
        f" their people than these are, or more like such a group: {unlike}; see kinship in settings.json."
    )


def _affinity_rows(affinity: Sequence[GroupAffinity]) -> list[dict[str, float | bool]]:
    """Return for each group how much nearer its people and its portrait are to it than to others."""
    return [
        {name: value if isinstance(value, bool) else round(value, 3) for name, value in one._asdict().items()}
        for one in affinity
    ]


def _at_risk(
    found: PortraitSet,
    images: Sequence[NDArray[np.uint8]],
    output: IntArray,
    groups: Partition,
    members: Mapping[str, FloatArray],
    jobs: int | None,
) -> IntArray:
    """Return which faces some recogniser takes for a picture of their group, as it is published.

    First pictures were judged when they were made, second ones with another expression are here.
    """

    def near(number: int) -> IntArray:
        rows = groups.groups[int(groups.labels[output == number][0])]
        these: IntArray = rows[matched_faces(_portrait_embeddings(images[number], members), members, rows)]
        return these

    second = ((number,) for number in range(len(found.drawn), len(images)))
    return np.unique(np.concatenate([found.at_risk, *parallel_map(near, second, jobs=jobs)]))


def _portrait_embeddings(
    image: NDArray[np.uint8], judges_of: Mapping[str, FloatArray]
) -> dict[str, FloatArray] | None:
    """Return what each recogniser makes of a portrait; None if no face is found in it."""
    rows, face = largest_faces(image[None])
    return embed_registered(face, list(judges_of)) if len(rows) else None


def _attribute_rows(found: PortraitSet) -> list[dict[str, list[float | None]]]:
    """Return for each group the attributes that were asked for and those that its portrait has."""
    return [
        {
            name: [None if np.isnan(value) else round(float(value), 2) for value in pair]
            for name, pair in zip(ATTRIBUTES, zip(wished, seen, strict=True), strict=True)
        }
        for wished, seen in zip(found.requested, found.seen, strict=True)
    ]


def _with_smiles(
    space: GeneratorSpace,
    draws: ImageGenerator,
    found: PortraitSet,
    groups: Any,
    seen: FloatArray,
    subjects: NDArray[Any],
) -> tuple[IntArray, list[NDArray[np.uint8]]]:
    """Give groups whose people all have photos of both kinds a second picture, with the other expression."""
    smiling = seen[:, ATTRIBUTES.index("smile")] > 0
    output, images = groups.labels.copy(), list(found.drawn)
    for number, rows in enumerate(groups.groups):
        people = set(subjects[rows])
        if {*subjects[rows[smiling[rows]]]} != people or {*subjects[rows[~smiling[rows]]]} != people:
            continue
        as_drawn = found.requested[number, ATTRIBUTES.index("smile")] > 0
        output[rows[smiling[rows] != as_drawn]] = len(images)
        light = found.lights[number]
        images.append(draw_expression(space, draws, found.codes[number], to=not as_drawn, light=light))
    return output, images
