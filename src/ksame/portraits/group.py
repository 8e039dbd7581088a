"""AnonFACES from faces to portraits: who shares a face, and the face that they share [A 3]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame import networks, weights
from ksame.core import FaceSet, FloatArray, Guarantee, IntArray, Partition, UsageError, check_law
from ksame.faces.attributes import age_band
from ksame.gather import side_by_side
from ksame.partition import parts, select
from ksame.portraits.measure import attributes_of, largest, usual_tone
from ksame.portraits.surrogate import THRESHOLDS, Kin, Portraits, known, portraits, recognised, smiles
from ksame.represent import EigenSpace
from ksame.represent.generator import ATTRIBUTES, GeneratorSpace, features
from ksame.represent.synthesis import Generator
from ksame.tone import is_monochrome

__all__ = ["EMBEDDINGS", "Made", "Seen", "judges", "looked", "made", "tools"]

EMBEDDINGS = ("mobilefacenet", "sface", "facenet", "dlib", "pca")
NON_COMMERCIAL = (
    "The portraits are drawn by MobileStyleGAN, distilled from StyleGAN2: not for commercial use. Bring a"
    " generator of your own with --generator."
)
PARTED = "neutral and smiling photos of a group are counted apart"
TONES = (("dark", -30.0), ("brown", 10.0), ("tan", 28.0), ("light", np.inf))
"""Classes of the typology angle, up to; the usual three lightest are one here."""
_BLOCK = 6
_LIGHT, _AGE = 4.0, 0.7  # what a standard deviation counts beside a code of length 1


class Seen(NamedTuple):
    """What was seen of faces before they are grouped."""

    features: FloatArray  # (n, f)
    attributes: FloatArray  # (n, a)
    codes: Mapping[str, FloatArray]  # what each recogniser makes of them: name to (n, e)
    map: str  # the digest of the map that said what they wear
    grey: NDArray[np.bool_]  # (n,): photos without colour


class Made(NamedTuple):
    """Portraits for a release, and what is to be said of them."""

    output: IntArray  # (n,): the picture of each face
    group: IntArray  # (n,): the group
    pictures: Sequence[NDArray[np.uint8]]
    codes: FloatArray  # (n, d): the new codes
    guarantee: Guarantee
    notes: tuple[str, ...]
    used: tuple[str, ...]  # weights
    details: dict[str, Any]  # for the certificate
    private: dict[str, Any]  # for the private folder


def judges() -> list[str]:
    """Return the recognisers that must not know anybody: those that are here."""
    return [name for name in THRESHOLDS if weights.cached(name)]


def made(
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
    seen: Seen | None = None,
    seed: int,
    jobs: int | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Made:
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
        What ``looked`` returned for these faces and this map: whoever tries several k looks once.
    seed, jobs, watch
        See ``ksame.deidentify``.
    """
    if embedding not in EMBEDDINGS:
        raise UsageError(f"There is no embedding {embedding!r}: choose one of {', '.join(EMBEDDINGS)}.")
    space, draws = tools(generator, model)
    if seen is None or seen.map != space.digest:
        seen = looked(faces, space, jobs=jobs, watch=watch)
    read, members = seen.features, seen.codes
    attributes = _skin_in_colour(seen.attributes, seen.grey, faces.subject)
    codes = space.mean + space.whitened(read) @ space.down @ space.up
    own = _of_each_person(attributes, faces.subject)
    near = _embedded(faces, embedding, members, read)
    near, label, notes = _apart(near, own, faces.subject, k, label, seen.grey)
    networks.let_go("yunet")  # which is open for the size of the photos
    rng = np.random.default_rng(seed)
    groups = select(near, k, label=label, partition=partition, subjects=faces.subject, rng=rng)
    found = portraits(
        space, draws, codes, attributes, members, groups,
        random_weights=0.3 / float(groups.people.max()), plain=plain, rng=rng, jobs=jobs, watch=watch,
        grey=[number for number, rows in enumerate(groups.groups) if seen.grey[rows].all()],
    )  # fmt: skip
    output, pictures = groups.labels, list(found.drawn)
    if expression == "keep":
        output, pictures = _with_smiles(space, draws, found, groups, attributes, faces.subject)
    at_risk = _at_risk(found, pictures, output, groups, members, jobs)
    guarantee = _bounded(found.guarantee, check_law(output, faces.subject, k, several=True))
    kept = _kept(own, groups.labels, faces.subject)
    names = sorted({str(faces.source[row]) for row in at_risk})
    if names:
        stayed = f"{len(at_risk)} of {len(faces)} faces stayed near their portrait to a recogniser"
        guarantee = guarantee.lower(because=stayed)
        notes += (f"{len(names)} photos are still near to their group's portrait: see settings.json.",)
    shipped = str(generator) == "shipped"
    used = ["mobilefacenet", "gender", "age", "emotion", embedding, *members, *["stylegan"] * shipped]
    return Made(
        output,
        groups.labels,
        pictures,
        found.codes[groups.labels],
        guarantee,
        (*notes, *([NON_COMMERCIAL] if shipped else []), _table(kept), _descent(found.kin)),
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
        {"still_near": names, "attributes": _asked(found), "kinship": _kinship(found.kin)},
    )


def tools(generator: str | Path, model: str | Path) -> tuple[GeneratorSpace, Generator]:
    """Return the map and the generator that belong together: both shipped, or both of one's own."""
    if (str(generator) == "shipped") != (str(model) == "shipped"):
        raise UsageError("A generator of your own and the map learnt from it go together: give both.")
    space = GeneratorSpace.shipped() if str(model) == "shipped" else GeneratorSpace.load(model)
    draws = Generator.shipped() if str(generator) == "shipped" else Generator.load(generator)
    space.check(draws)
    return space, draws


def looked(
    faces: FaceSet,
    space: GeneratorSpace,
    *,
    jobs: int | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Seen:
    """Look at all faces once, on every core: features, attributes, and what the recognisers make of them."""
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(faces), _BLOCK)]
    who = judges()

    def look(block: slice) -> tuple[FloatArray, FloatArray, dict[str, FloatArray], NDArray[np.bool_]]:
        some = faces[block]
        grey = np.array([is_monochrome(rgb) for rgb in some.rgb])
        read = features(some)
        read[grey] = space.without_colour(read[grey])
        return read, attributes_of(some, read, space), known(some, who, read), grey

    found = []
    for one in side_by_side(look, ((block,) for block in blocks), jobs=jobs):
        found.append(one)
        if watch:
            watch("looking at faces", min(len(found) * _BLOCK, len(faces)), len(faces))
    codes = {name: np.concatenate([one[2][name] for one in found]) for name in who}
    read, attributes = (np.concatenate([one[i] for one in found]) for i in (0, 1))
    return Seen(read, attributes, codes, space.digest, np.concatenate([one[3] for one in found]))


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


def _of_each_person(values: FloatArray, subjects: NDArray[Any]) -> FloatArray:
    """Return each face's person's mean (n, a)."""
    _, who = np.unique(subjects, return_inverse=True)
    total = np.zeros((int(who.max()) + 1, values.shape[1]))
    np.add.at(total, who, values)
    mean: FloatArray = (total / np.bincount(who)[:, None])[who]
    return mean


def _embedded(
    faces: FaceSet, embedding: str, members: Mapping[str, FloatArray], read: FloatArray
) -> FloatArray:
    """Return the codes (n, e) by which people are grouped, of about unit length [A 3.3.2]."""
    if embedding == "mobilefacenet":
        codes = read[:, :192]
    elif embedding == "pca":
        codes = EigenSpace.fit(faces).encode(faces).astype(np.float64)
        codes = codes - codes.mean(axis=0)
    else:
        codes = members[embedding] if embedding in members else known(faces, [embedding])[embedding]
    unit: FloatArray = codes / np.sqrt((codes**2).sum(axis=1).mean())
    return unit


def _apart(
    near: FloatArray,
    own: FloatArray,
    subjects: NDArray[Any],
    k: int,
    label: NDArray[Any] | None,
    grey: NDArray[np.bool_],
) -> tuple[FloatArray, NDArray[Any], tuple[str, ...]]:
    """Return codes that heed skin and age too, the parts that are kept apart, and what is to be said.

    Deviation: the paper groups by the recogniser alone; there genders were mixed, and dark skin lost a
    sixth of its depth. Finer classes of skin than dark and not dark leave larger and less even groups.
    People without a colour photo are kept apart too, since a group of them gets a grey portrait.
    """
    columns = [(own[:, ATTRIBUTES.index(name)], share) for name, share in (("light", _LIGHT), ("age", _AGE))]
    scaled = [share * (value - value.mean()) / max(float(value.std()), 1e-9) for value, share in columns]
    codes = np.column_stack([near, *scaled])
    if label is not None:
        return codes, label, ()
    gender = _gender(own)
    skin = np.where(_tones(own) == TONES[0][0], ", dark skin", ", other skin")
    colour = np.where(np.isin(subjects, subjects[~grey]), ", colour photos", ", grey photos")
    strata = gender, np.char.add(gender, skin), np.char.add(np.char.add(gender, skin), colour)
    part, notes = _nested(codes, k, subjects, strata)
    return codes, part, tuple(notes)


def _nested(
    codes: FloatArray, k: int, subjects: NDArray[Any], strata: Sequence[NDArray[np.str_]]
) -> tuple[IntArray, list[str]]:
    """Return the part of each face (n,) by strata (n,) from coarse to fine, and what was merged.

    Fine strata are merged before coarse ones: skin of one gender before two genders.
    """
    coarse, *fine = strata
    label, notes = coarse.astype(object), list[str]()
    for value in np.unique(coarse):
        rows = np.flatnonzero(coarse == value)
        differ = any(len(np.unique(column[rows])) > 1 for column in fine)
        if differ and len(np.unique(subjects[rows])) >= k:
            part, merges = _nested(codes[rows], k, subjects[rows], [column[rows] for column in fine])
            label[rows] = [f"{value} {number}" for number in part]
            notes += merges
    part, last = parts(codes, k, label=label.astype(str), subjects=subjects, small="merge")
    return part, [*notes, *map(str, last)]


def _gender(own: FloatArray) -> NDArray[np.str_]:
    return np.where(own[:, ATTRIBUTES.index("gender")] > 0, "male", "female")


def _tones(own: FloatArray) -> NDArray[np.str_]:
    ends = [end for _, end in TONES[:-1]]
    return np.array([name for name, _ in TONES])[np.searchsorted(ends, own[:, ATTRIBUTES.index("tone")])]


def _bounded(guarantee: Guarantee, bound: float) -> Guarantee:
    """Return a claim with the bound that was counted: of smiling photos alone one person may have more."""
    if bound <= guarantee.bound:
        return guarantee
    return guarantee.lower(bound=bound, because=PARTED)


def _kept(own: FloatArray, groups: IntArray, subjects: NDArray[Any]) -> dict[str, float]:
    """Return for gender, age band and skin tone the share of people who are with their like alone."""
    ages = np.array([age_band(max(0.0, age)) for age in own[:, ATTRIBUTES.index("age")]])
    columns = {"gender": _gender(own), "age band": ages, "skin tone": _tones(own)}
    _, first = np.unique(subjects, return_index=True)
    shares = {}
    for name, column in columns.items():
        alike = [len(np.unique(column[groups == group])) == 1 for group in groups[first]]
        shares[name] = round(float(np.mean(alike)), 3)
    return shares


def _table(kept: dict[str, float]) -> str:
    told = ", ".join(f"{name} {share:.0%}" for name, share in kept.items())
    return f"People in groups of one kind only: {told}."


def _descent(kin: Sequence[Kin]) -> str:
    apart, unlike = sum(one.apart for one in kin), sum(one.unlike for one in kin)
    return (
        f"Descent: to recognisers {apart} of {len(kin)} groups stand apart; portraits that are less like"
        f" their people than these are, or more like such a group: {unlike}; see kinship in settings.json."
    )


def _kinship(kin: Sequence[Kin]) -> list[dict[str, float | bool]]:
    """Return for each group how much nearer its people and its portrait are to it than to others."""
    return [
        {name: value if isinstance(value, bool) else round(value, 3) for name, value in one._asdict().items()}
        for one in kin
    ]


def _at_risk(
    found: Portraits,
    pictures: Sequence[NDArray[np.uint8]],
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
        these: IntArray = rows[recognised(_codes(pictures[number], members), members, rows)]
        return these

    second = ((number,) for number in range(len(found.drawn), len(pictures)))
    return np.unique(np.concatenate([found.at_risk, *side_by_side(near, second, jobs=jobs)]))


def _codes(picture: NDArray[np.uint8], judges_of: Mapping[str, FloatArray]) -> dict[str, FloatArray] | None:
    """Return what each recogniser makes of a portrait; None if no face is found in it."""
    rows, face = largest(picture[None])
    return known(face, list(judges_of)) if len(rows) else None


def _asked(found: Portraits) -> list[dict[str, list[float | None]]]:
    """Return for each group the attributes that were asked for and those that its portrait has."""
    return [
        {
            name: [None if np.isnan(value) else round(float(value), 2) for value in pair]
            for name, pair in zip(ATTRIBUTES, zip(wished, seen, strict=True), strict=True)
        }
        for wished, seen in zip(found.wished, found.seen, strict=True)
    ]


def _with_smiles(
    space: GeneratorSpace,
    draws: Generator,
    found: Portraits,
    groups: Any,
    seen: FloatArray,
    subjects: NDArray[Any],
) -> tuple[IntArray, list[NDArray[np.uint8]]]:
    """Give groups whose people all have photos of both kinds a second picture, with the other expression."""
    smiling = seen[:, ATTRIBUTES.index("smile")] > 0
    output, pictures = groups.labels.copy(), list(found.drawn)
    for number, rows in enumerate(groups.groups):
        people = set(subjects[rows])
        if {*subjects[rows[smiling[rows]]]} != people or {*subjects[rows[~smiling[rows]]]} != people:
            continue
        as_drawn = found.wished[number, ATTRIBUTES.index("smile")] > 0
        output[rows[smiling[rows] != as_drawn]] = len(pictures)
        light = found.lights[number]
        pictures.append(smiles(space, draws, found.codes[number], to=not as_drawn, light=light))
    return output, pictures
