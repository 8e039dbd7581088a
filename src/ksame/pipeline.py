"""The recipe: photos in, a certified release out.

``deidentify`` is the whole way on one screen; the steps it names are short and stand below it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksame import media, render, weights
from ksame.apart import LOOKS, PREDICTED, Looks, chosen, likely
from ksame.core import (
    FaceSet,
    FloatArray,
    Guarantee,
    GuaranteeViolated,
    IntArray,
    Kind,
    Space,
    UsageError,
    as_k,
    check_law,
)
from ksame.drawing import NewFaces, Plan, new_faces
from ksame.faces.detect import residual
from ksame.gather import Gathered, Picture, Watch, blaming, gather, sources_of
from ksame.geometry import FACE, FRAME, MESH
from ksame.journal import Journal, seed_of
from ksame.naming import Given, Told, name_faces, read_names
from ksame.partition import METHODS as PARTITIONS
from ksame.partition import parts as parts_of
from ksame.partition import select as group_by
from ksame.portraits.group import Seen, made
from ksame.release import Faceless, Failure, Private, Release, Row
from ksame.replace import centroid, furthest_pairs, kdiff
from ksame.represent import AppearanceSpace, EigenSpace, PixelSpace
from ksame.represent.appearance import on_frame
from ksame.represent.generator import GeneratorSpace
from ksame.scenes import DEFAULT_POLICY, ScenePolicy, file_names, painted

T = TypeVar("T")


class Method(NamedTuple):
    """The space a method works in, and how it replaces."""

    space: type[Space]
    replace: Literal["centroid", "furthest", "kdiff", "mix"]


METHODS = {
    "ksame-m": Method(AppearanceSpace, "centroid"),
    "ksame-pixel": Method(PixelSpace, "centroid"),
    "ksame-eigen": Method(EigenSpace, "centroid"),
    "ksame-furthest": Method(AppearanceSpace, "furthest"),
    "kdiff-furthest": Method(AppearanceSpace, "kdiff"),
    "anonfaces": Method(GeneratorSpace, "mix"),
}
ONE_RELEASE = "no other release made from photos of these people is compared with this one"
KEPT = "what the file names tell, which were kept, is not counted: this is about the faces"
EXPRESSED = "k people share each new face, but their expressions are carried over, and may tell them apart"
BLENDED = (
    "faces are set into the original photos: hair, ears, skin colour, light and background are still there"
)
DRAWN = "the pictures are drawn from the codes, and lie near them"


def deidentify(
    inputs: Picture | Iterable[Picture],
    k: int = 5,
    *,
    method: str = "ksame-m",
    partition: str = "mdav",
    publish: Literal["portrait", "scene"] = "portrait",
    subjects: str | Path | Sequence[str] = "auto",
    select: str | None = None,
    names: Literal["random", "keep"] | None = None,
    expression: Literal["drop", "keep"] = "drop",
    composite: render.Composite = "picture",
    scenes: ScenePolicy = DEFAULT_POLICY,
    model: str | Path = "shipped",
    generator: str | Path = "shipped",
    embedding: str = "mobilefacenet",
    plain: bool = False,
    seed: int | None = None,
    jobs: int | None = None,
    engine: str = "threading",
    journal: Journal | None = None,
    watch: Watch | None = None,
) -> Release:
    """Replace every face so that at least k people share each published one.

    Parameters
    ----------
    inputs : path, array, or several
        Photos, folders of photos, or (h, w, 3) uint8 arrays.
    k : int
        People behind every published face.
    method, partition : str
        A name of ``METHODS`` and of ``ksame.partition.METHODS``.
    publish : str
        ``portrait``: the face alone. ``scene``: the photo with the new face in it.
    subjects : str, path or sequence
        Who is the same person: ``auto``, ``folder``, ``prefix``, a csv file, or one name per photo.
    select : str, optional
        A column of the csv, or ``gender``, ``age`` or ``expression`` as predicted: people with different
        values are never put in one group [G5 4.2]. By default apparent gender and age are kept apart as
        far as the set allows (not by ksame-pixel and ksame-eigen).
    names : str, optional
        Published file names: ``random`` (portraits), or ``keep`` those of the inputs (scenes).
    expression : str
        ``keep`` carries each photo's difference from its person's calmest photo to the new face [S 7.2];
        faces of one group then differ, and the claim is lowered.
    composite : str
        How a face is set into a scene: a name of ``ksame.render.COMPOSITES``.
    scenes : ScenePolicy
        How scenes are searched for faces, and what is done with photos without any.
    model : str or path
        The appearance model: ``shipped``, ``own`` (trained on these photos), or a file. For anonfaces the
        map that was learnt from the generator.
    generator, embedding, plain
        For anonfaces, see ``ksame.portraits.group.made``.
    seed : int, optional
        For tests and repeated runs; it must be kept as secret as the mapping.
    jobs, engine, journal, watch
        See ``ksame.gather.gather``.

    Examples
    --------
    ::

        release = ksame.deidentify("photos/", k=5)
        print(release.guarantee)
        release.save("out/")
    """
    how = _recipe(method, partition, publish, expression, composite)
    sources = sources_of(inputs, in_order=not isinstance(subjects, str | Path))
    given = read_names(sources, subjects, as_k(k))
    if select is not None:
        columns = {**given.labels, **dict.fromkeys(PREDICTED)}
        _choose("column to select by", columns, select)  # told before the long work
    seed = seed_of(seed, journal)
    # pixel vectors at the scale of large photos would not fit in memory
    scale = None if how.space is AppearanceSpace else 1.0  # and portraits need no more
    effort = scenes.search if publish == "scene" else "fast"  # a portrait shows nothing of the photo
    found = gather(
        sources, scale=scale, jobs=jobs, engine=engine, effort=effort, journal=journal, watch=watch
    )
    return release_of(
        people_of(found, given, k, jobs=jobs),
        k,
        method=method,
        partition=partition,
        publish=publish,
        select=select,
        names=names,
        expression=expression,
        composite=composite,
        scenes=scenes,
        model=model,
        generator=generator,
        embedding=embedding,
        plain=plain,
        seed=seed,
        jobs=jobs,
        watch=watch,
    )


class People(NamedTuple):
    """Photos whose faces have been found and named: what a release is made of."""

    found: Gathered
    faces: FaceSet
    told: Told
    looks: Looks | None = None  # what they are taken for, if that is known before the first release
    seen: Seen | None = None  # what portraits are made by, likewise


def people_of(found: Gathered, given: Given, k: int, *, jobs: int | None = None) -> People:
    """Give every face its person, and refuse if there are fewer than k."""
    with blaming(found.failures):
        faces, told = name_faces(found, given, jobs=jobs)
        as_k(k, len(np.unique(faces.subject)))
    return People(found, faces, told)


def release_of(
    people: People,
    k: int,
    *,
    method: str = "ksame-m",
    partition: str = "mdav",
    publish: Literal["portrait", "scene"] = "portrait",
    select: str | None = None,
    names: Literal["random", "keep"] | None = None,
    expression: Literal["drop", "keep"] = "drop",
    composite: render.Composite = "picture",
    scenes: ScenePolicy = DEFAULT_POLICY,
    model: str | Path = "shipped",
    generator: str | Path = "shipped",
    embedding: str = "mobilefacenet",
    plain: bool = False,
    seed: int | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
) -> Release:
    """Make a release of people who have been found: ``deidentify`` without its first half.

    Whoever tries several k or methods finds the faces once and comes here for each.
    """
    how = _recipe(method, partition, publish, expression, composite)
    names = names or ("keep" if publish == "scene" else "random")
    seed = seed_of(seed, None)
    found, faces, told, *_ = people
    if how.replace == "mix":
        draft = _generated(
            people, k, partition=partition, select=select, expression=expression, generator=generator,
            model=model, embedding=embedding, plain=plain, seed=seed, jobs=jobs, watch=watch,
        )  # fmt: skip
    else:
        draft = _modelled(people, how, k, partition, select, expression, model, seed, jobs)
    new = draft.new
    if publish == "scene":
        out = _scenes(new, faces, found, composite, names, seed, jobs, scenes)
    else:
        out = _portraits(new, faces, names, seed, found.failures)
        if draft.guarantee.k_anonymous and new.moved is None:
            published = [hashlib.sha256(out.files[name]).hexdigest() for name in out.names]
            check_law(published, faces.subject, k, several=expression == "keep")
    used = [
        "yunet",
        "mesh",
        "blazeface",
        *(["centerface"] if publish == "scene" else []),
        *told.recognisers,
        *draft.used,
    ]
    settings: dict[str, Any] = {
        "method": method,
        "partition": partition,
        "select": select,
        "names": names,
        "subjects": told.how,
        "expression": expression,
        "composite": composite,
        "model": str(model),
        "generator": str(generator),
        "embedding": embedding,
    }
    return Release(
        files=out.files,
        guarantee=_assume(draft.guarantee, told.assumption, names, publish, new.moved is not None),
        k=k,
        method=method,
        publish=publish,
        details={
            "partition": partition if how.replace in ("centroid", "mix") else None,
            "select": select,
            "expression": expression,
            "composite": composite if publish == "scene" else None,
            **({"search": scenes.search} if publish == "scene" else {}),
            **({"faceless_photos": len(out.faceless)} if publish == "scene" else {}),
            "unusable_faces": sum(map(len, found.unusable)),
            "subjects": told.how,
            "weights": {name: weights.CATALOGUE[name].sha256 for name in dict.fromkeys(used)},
            **draft.details,
        },
        private=Private(
            mapping=tuple(
                map(Row, faces.source.tolist(), faces.subject.tolist(), new.output.tolist(), out.names)
            ),
            settings=settings
            | {"k": k, "publish": publish, "seed": seed, "notes": list(draft.notes)}
            | {"linked_loosely": list(told.loose)}
            | dict(draft.private),
            failures=out.failures,
            faceless=out.faceless,
        ),
        inspect=out.inspect,
    )


class Draft(NamedTuple):
    """New faces, and what is to be said of how they were made."""

    new: NewFaces
    guarantee: Guarantee
    notes: tuple[str, ...]
    used: Sequence[str]  # weights
    details: Mapping[str, Any]
    private: Mapping[str, Any]


def _modelled(
    people: People,
    how: Method,
    k: int,
    partition: str,
    select: str | None,
    expression: str,
    model: str | Path,
    seed: int,
    jobs: int | None,
) -> Draft:
    """Make new faces out of means of codes: of pixels, eigenfaces or the appearance model."""
    faces, seen = people.faces, people.looks
    drawn = how.space is AppearanceSpace
    space = _appearance(model, faces) if drawn else how.space.fit(faces)
    codes = space.encode(faces)
    label: NDArray[Any] = np.zeros(len(faces), int)
    notes: tuple[str, ...] = ()
    looked = False
    if select is not None:
        label, looked = chosen(faces, select, jobs, seen), select not in faces.labels
    elif drawn:
        label, notes = likely(faces, codes, k if how.replace == "centroid" else 2 * k, jobs, seen)
        looked = all(map(weights.cached, LOOKS))  # without them nobody was kept apart, and a note says so
    plan = _plan(codes, k, how.replace, partition, faces.subject, label, seed)
    if plan.guarantee.k_anonymous:
        check_law(plan.output, faces.subject, k)
    details = {"model": space.digest if isinstance(space, AppearanceSpace) else None}
    new = new_faces(space, faces, plan, expression)
    return Draft(new, plan.guarantee, notes, LOOKS if looked else (), details, {})


def _generated(people: People, k: int, *, select: str | None, jobs: int | None, **how: Any) -> Draft:
    """Draw one portrait for each group by a generator: nothing of any photo is in it."""
    faces = people.faces
    label = None if select is None else chosen(faces, select, jobs, people.looks)
    found = made(faces, k, label=label, seen=people.seen, jobs=jobs, **how)
    new = NewFaces(GeneratorSpace.shipped(), on_frame(faces), found.output, (), found.pictures, None)
    check_law(found.output, faces.subject, k, several=True)
    return Draft(new, found.guarantee, found.notes, found.used, found.details, found.private)


def _recipe(method: str, partition: str, publish: str, expression: str, composite: str) -> Method:
    """Return what a method's name stands for, after checking that the options fit each other."""
    how = _choose("method", METHODS, method)
    _choose("partition", PARTITIONS, partition)
    _choose("composite", render.COMPOSITES, composite)
    plain = how.space is not AppearanceSpace
    if (publish == "scene" and plain) or (expression == "keep" and plain and how.replace != "mix"):
        raise UsageError(f"{method} draws no faces that fit a scene or an expression: choose ksame-m.")
    return how


def _choose(option: str, choices: Mapping[str, T], name: str) -> T:
    """Return what a name stands for, or say which names there are."""
    if name not in choices:
        raise UsageError(f"There is no {option} {name!r}: choose one of {', '.join(choices)}.")
    return choices[name]


def _appearance(model: str | Path, faces: FaceSet) -> AppearanceSpace:
    """Return the model that comes with the package, one trained on these faces, or one from a file."""
    if model == "own":
        return AppearanceSpace.fit(faces)
    return AppearanceSpace.shipped() if model == "shipped" else AppearanceSpace.load(model)


def _plan(
    codes: FloatArray,
    k: int,
    how: str,
    partition: str,
    subjects: NDArray[Any],
    label: NDArray[Any],
    seed: int,
) -> Plan:
    """Group and replace the codes; people with different labels are kept apart."""
    rng = np.random.default_rng(seed)
    if how == "centroid":
        groups = group_by(codes, k, label=label, partition=partition, subjects=subjects, rng=rng)
        new, guarantee = centroid(codes, groups)
        return Plan(groups.labels, groups.groups, new, guarantee)
    label, _ = parts_of(codes, k, label=label, subjects=subjects)  # one label each, and enough people
    parts = [np.flatnonzero(label == value) for value in np.unique(label)]
    make = _far if how == "furthest" else _shifted
    plans = [make(codes[rows], k, subjects[rows], rng) for rows in parts]
    return _joined(parts, plans, codes, subjects)


def _far(codes: FloatArray, k: int, subjects: NDArray[Any], rng: np.random.Generator) -> Plan:
    """Give each cluster the mean of the one far away from it [S alg. 3]."""
    pairs = furthest_pairs(codes, k, subjects=subjects, rng=rng)
    return Plan(pairs.partition.labels, pairs.made_of, pairs.codes, pairs.guarantee)


def _shifted(codes: FloatArray, k: int, subjects: NDArray[Any], rng: np.random.Generator) -> Plan:
    """Shift each face towards the cluster far away from it [S alg. 4]; every face stays its own."""
    new, guarantee = kdiff(codes, k, subjects=subjects, rng=rng)
    return Plan(np.arange(len(codes)), (), new, guarantee)


def _joined(
    parts: Sequence[IntArray], plans: Sequence[Plan], codes: FloatArray, subjects: NDArray[Any]
) -> Plan:
    """Put the plans of all parts together, with the weakest of their claims that is true of the whole."""
    output, new = np.zeros(len(codes), np.intp), np.empty_like(codes)
    made_of: list[IntArray] = []
    count = 0
    for rows, plan in zip(parts, plans, strict=True):
        output[rows], new[rows] = plan.output + count, plan.codes
        made_of += [rows[members] for members in plan.made_of]
        count += int(plan.output.max()) + 1
    guarantee = plans[0].guarantee
    for plan in plans[1:]:
        guarantee = guarantee.meet(plan.guarantee)
    if guarantee.wrong_map and len(plans) > 1:  # it was checked within each part only
        astray = Guarantee("wrong-map")
        try:
            astray.verify(new, subjects=subjects, originals=codes)
        except GuaranteeViolated:
            kind: Kind = "k-anonymity" if guarantee.k_anonymous else "none"
            guarantee = guarantee.lower(kind=kind, because="wrong-map holds within each part only")
    return Plan(output, tuple(made_of), new, guarantee)


class Published(NamedTuple):
    """Files, the file of each face, and the look at them afterwards."""

    files: Mapping[str, bytes]
    names: Sequence[str]
    inspect: Callable[[str, bytes], int]
    failures: tuple[Failure, ...]
    faceless: tuple[Faceless, ...] = ()


def _portraits(
    new: NewFaces, faces: FaceSet, names: str, seed: int, failures: tuple[Failure, ...]
) -> Published:
    """Publish one picture per face: the new face alone."""
    data: dict[Any, bytes] = {}
    contents = []
    for row in range(len(faces)):
        key = new.output[row] if new.moved is None else (new.output[row], row)
        if key not in data:  # drawn once for all who share it: what is not drawn twice cannot differ
            data[key] = media.encode_png(new.portrait(row))
        contents.append(data[key])
    outputs = file_names(faces.source.tolist(), names=names, seed=seed, suffix=".png")
    scale = new.portrait(0).shape[1] / FRAME.width
    files = dict(sorted(zip(outputs, contents, strict=True)))
    if isinstance(new.space, GeneratorSpace):  # whoever is in the picture does not exist
        return Published(files, outputs, lambda _name, _file: 0, failures)
    return Published(
        files, outputs, lambda _, file: len(residual(media.decode(file), FACE * scale)), failures
    )


def _scenes(
    new: NewFaces,
    faces: FaceSet,
    found: Gathered,
    composite: render.Composite,
    names: str,
    seed: int,
    jobs: int | None,
    policy: ScenePolicy,
) -> Published:
    """Publish the photos with the new faces in them."""
    space, points = new.space, faces.points  # not the faces: their pictures may go before any scene is made
    assert isinstance(space, AppearanceSpace)  # checked with the options

    def paint(photo: NDArray[np.uint8], row: int) -> NDArray[np.uint8]:
        face = new.of(row)
        scale = face.rgb.shape[1] / FRAME.width
        posed = space.pose(face.shape[:MESH] / scale, new.shapes[row])
        return render.scene(photo, points[row], face, posed, space.ringed, composite=composite)

    files, outputs, faceless, failures = painted(
        found, paint, names=names, seed=seed, jobs=jobs, policy=policy
    )
    return Published(files, outputs, files.inspect, failures, faceless)


def _assume(guarantee: Guarantee, told: str, names: str, publish: str, expressed: bool) -> Guarantee:
    """Add what the claim rests on, and lower it where a picture shows more than the code."""
    for assumption in (told, ONE_RELEASE):
        guarantee = guarantee.lower(because=assumption)
    if names == "keep":
        guarantee = guarantee.lower(because=KEPT)
    if expressed:
        guarantee = guarantee.lower(kind="none", because=EXPRESSED)
    if guarantee.kind == "wrong-map":  # it was checked on the codes
        guarantee = guarantee.lower(scope="code", because=DRAWN)
    return guarantee.lower(scope="code", because=BLENDED) if publish == "scene" else guarantee
