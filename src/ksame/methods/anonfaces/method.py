"""AnonFACES from faces to portraits: who shares a face, and the face that they share [A 3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.analysis.strata import ATTRIBUTE_WEIGHTS, select_label
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.guarantee import Guarantee
from ksame.core.options import option
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
from ksame.methods.anonfaces.verifiers import embed_registered, matched_faces
from ksame.methods.base import GroupMethod, Plan, Publish
from ksame.models import runtime
from ksame.models.attributes import age_band
from ksame.models.generator import ImageGenerator
from ksame.partition import METHODS as PARTITIONS
from ksame.partition import select
from ksame.render.base import ImageRenderer
from ksame.render.tone import is_monochrome
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace, extract_features

__all__ = ["NON_COMMERCIAL", "AnonFaces", "FaceFeatures"]


NON_COMMERCIAL = (
    "The portraits are drawn by MobileStyleGAN, distilled from StyleGAN2: not for commercial use. Bring a"
    " generator of your own with --generator."
)
EXPRESSIONS_COUNTED_APART = "neutral and smiling photos of a group are counted apart"
RANDOM_WEIGHT_SHARE = 0.3  # of a person's mean weight, by which weights vary at random [A 4.1]
_BATCH_FACES = 6


class FaceFeatures(NamedTuple):
    """What was seen of faces before they are grouped."""

    features: FloatArray  # (n, f)
    attributes: FloatArray  # (n, a)
    codes: Mapping[str, FloatArray]  # what each recogniser makes of them: name to (n, e)
    grey: NDArray[np.bool_]  # (n,): photos without colour


@dataclass(frozen=True, kw_only=True)
class PortraitMethod(GroupMethod):
    """A method that groups people who look alike, and draws one synthetic portrait for each group."""

    registered_scale: ClassVar[float | None] = 1.0
    uses_verifiers: ClassVar[bool] = True

    partition: str = option("mdav", "How groups are formed.", choices=PARTITIONS)
    embedding: Literal["mobilefacenet", "sface", "facenet", "dlib", "pca"] = option(
        "mobilefacenet", "What people are grouped by; pca is the paper's baseline."
    )
    generator: str | Path = option(
        "bundled", "The generator: bundled, or a folder with a mapping and a synthesis.", or_path=("bundled",)
    )
    generator_map: str | Path = option(
        "bundled", "The map learnt from the generator: bundled, or a file.", or_path=("bundled",)
    )

    def __post_init__(self) -> None:
        """Refuse options that do not fit each other."""
        super().__post_init__()
        if (str(self.generator) == "bundled") != (str(self.generator_map) == "bundled"):
            raise UsageError("A generator of your own and the map learnt from it go together: give both.")

    def networks(self, context: Context) -> tuple[str, ...]:
        """Return the generator, what reads attributes, the embedding and the verifiers."""
        bundled = ("stylegan",) if self.generator == "bundled" else ()
        embedding = () if self.embedding == "pca" else (self.embedding,)
        needed = ("mobilefacenet", *ATTRIBUTE_WEIGHTS, *embedding, *context.verifiers, *bundled)
        return tuple(dict.fromkeys(needed))

    def load(self) -> tuple[GeneratorSpace, ImageGenerator]:
        """Return the map and the generator that belong together."""
        bundled = self.generator == "bundled"
        space = GeneratorSpace.bundled() if bundled else GeneratorSpace.load(self.generator_map)
        generator = ImageGenerator.bundled() if bundled else ImageGenerator.load(self.generator)
        space.check_generator(generator)
        return space, generator

    def features(self, people: IdentifiedPhotos, space: GeneratorSpace, context: Context) -> FaceFeatures:
        """Return what is seen of all faces, which is looked at once however many k are tried."""
        key = f"features {space.digest}"
        if key not in people.predicted:
            people.predicted[key] = analyse_faces(people.faces, space, context)
        features: FaceFeatures = people.predicted[key]
        return features

    def group(
        self,
        people: IdentifiedPhotos,
        seen: FaceFeatures,
        context: Context,
        rng: np.random.Generator,
        also: FloatArray | None = None,
    ) -> tuple[Partition, FloatArray, tuple[str, ...]]:
        """Return who shares a portrait, the attributes of all faces, and notes.

        Without ``select`` gender is kept apart, and dark skin from other skin, as far as the set allows.
        ``also``: further columns (n, c) that people of a group should share, beside codes of length 1.
        """
        subjects = people.subject
        label = None if self.select is None else select_label(people, self.select, context)
        attributes = _skin_in_colour(seen.attributes, seen.grey, subjects)
        own = per_person(attributes, subjects)
        near = grouping_codes(people.faces, self.embedding, seen.codes, seen.features)
        near = near if also is None else np.column_stack([near, per_person(also, subjects)])
        near, label, notes = stratified_codes(near, own, subjects, self.k, label, seen.grey)
        runtime.unload("yunet")  # which is compiled for the size of the photos
        groups = select(near, self.k, label=label, partition=self.partition, subjects=subjects, rng=rng)
        return groups, attributes, notes


@dataclass(frozen=True, kw_only=True)
class AnonFaces(PortraitMethod):
    """AnonFACES [A 3]: group people by what a recogniser makes of them, one synthetic portrait per group."""

    name: ClassVar[str] = "anonfaces"
    promise: ClassVar[str] = (
        "k-anonymity of every byte of a photorealistic portrait: hair and background too."
    )
    speed: ClassVar[str] = "about 0.7 s per portrait on 2 cores"
    outputs: ClassVar[tuple[Publish, ...]] = ("portrait",)

    expression: Literal["drop", "keep"] = option(
        "drop", "Two portraits per group, neutral and smiling, where each stands for the same k people."
    )
    plain: bool = option(False, "Ask for a plain background.")

    def plan(self, people: IdentifiedPhotos, context: Context) -> Plan:
        """Group people and draw one portrait for each group.

        Without ``select`` gender is kept apart, and dark skin from other skin, as far as the set allows; age
        and how light the skin is are drawn into the distance.
        """
        faces, subjects = people.faces, people.subject
        space, generator = self.load()
        seen = self.features(people, space, context)
        read, members = seen.features, seen.codes
        rng = context.rng()
        groups, attributes, notes = self.group(people, seen, context, rng)
        own = per_person(attributes, subjects)
        found = draw_portraits(
            space, generator, space.mean + space.whiten(read) @ space.down @ space.up, attributes, members,
            groups, random_weights=RANDOM_WEIGHT_SHARE / float(groups.people.max()), plain=self.plain,
            rng=rng, jobs=context.jobs, progress=context.progress,
            grey=[number for number, rows in enumerate(groups.groups) if seen.grey[rows].all()],
        )  # fmt: skip
        output, images = groups.labels, list(found.drawn)
        if self.expression == "keep":
            output, images = _with_smiles(space, generator, found, groups, attributes, subjects)
        at_risk = _at_risk(found, images, output, groups, members, context)
        bound = check_law(output, subjects, self.k, allow_several=self.expression == "keep")
        guarantee = _with_bound(found.guarantee, bound)
        kept = _homogeneity(own, groups.labels, subjects)
        names = sorted({str(faces.source[row]) for row in at_risk})
        if names:
            stayed = f"{len(at_risk)} of {len(faces)} faces stayed near their portrait to a recogniser"
            guarantee = guarantee.lower(because=stayed)
            notes += (f"{len(names)} photos are still near to their group's portrait: see settings.json.",)
        bundled = self.generator == "bundled"
        return Plan(
            output,
            ImageRenderer(images, output, None),
            guarantee,
            public={
                "generator_digest": generator.digest,
                "map_digest": space.digest,
                "still_near": len(names),
                "non_commercial": bundled,
                "kept_together": kept,
            },
            private={"still_near": names, **_private_rows(found)},
            notes=(
                *notes,
                *([NON_COMMERCIAL] if bundled else []),
                _table(kept),
                _descent_note(found.affinity),
            ),
            networks=self.networks(context),
            allow_several=self.expression == "keep",
        )


def analyse_faces(faces: FaceSet, space: GeneratorSpace, context: Context) -> FaceFeatures:
    """Return features, attributes, and the verifiers' embeddings of all faces."""
    blocks = [slice(start, start + _BATCH_FACES) for start in range(0, len(faces), _BATCH_FACES)]
    who = context.verifiers

    def look(block: slice) -> tuple[FloatArray, FloatArray, dict[str, FloatArray], NDArray[np.bool_]]:
        some = faces[block]
        grey = np.array([is_monochrome(rgb) for rgb in some.rgb])
        read = extract_features(some)
        read[grey] = space.remove_colour(read[grey])
        return read, portrait_attributes(some, read, space), embed_registered(some, who, read), grey

    found = list(context.map(look, blocks, stage="looking at faces"))
    codes = {name: np.concatenate([one[2][name] for one in found]) for name in who}
    read, attributes = (np.concatenate([one[i] for one in found]) for i in (0, 1))
    return FaceFeatures(read, attributes, codes, np.concatenate([one[3] for one in found]))


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
    distinct = sum(one.is_distinct for one in affinity)
    mismatched = sum(one.is_mismatched for one in affinity)
    return (
        f"Ancestry: verifiers find {distinct} of {len(affinity)} groups distinct; {mismatched} portraits are"
        " less similar to their people than these are to one another, or more similar to another group: see"
        " group_affinity in settings.json."
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
    context: Context,
) -> IntArray:
    """Return which faces some recogniser takes for an image of their group, as it is published.

    First images were judged when they were drawn; second ones, with another expression, are judged here.
    """

    def near(number: int) -> IntArray:
        rows = groups.groups[int(groups.labels[output == number][0])]
        these: IntArray = rows[matched_faces(_portrait_embeddings(images[number], members), members, rows)]
        return these

    second = range(len(found.drawn), len(images))
    return np.unique(np.concatenate([found.at_risk, *context.map(near, second)]))


def _portrait_embeddings(
    image: NDArray[np.uint8], judges_of: Mapping[str, FloatArray]
) -> dict[str, FloatArray] | None:
    """Return what each recogniser makes of a portrait; None if no face is found in it."""
    rows, face = largest_faces(image[None])
    return embed_registered(face, list(judges_of)) if len(rows) else None


def _private_rows(found: PortraitSet) -> dict[str, Any]:
    """Return what the private folder says of each group's portrait."""
    return {"attributes": _attribute_rows(found), "group_affinity": _affinity_rows(found.affinity)}


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
    """Give groups whose people all have photos of both kinds a second image, with the other expression."""
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
