"""The recipe: photos in, a certified release out.

``deidentify`` is the whole way on one screen; the steps it names are short and stand below it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import SubjectHints, SubjectSource, identify_faces, read_subject_hints
from ksame.analysis.photos import AnalysedPhotos, analyse_photos, explain_failures
from ksame.analysis.strata import (
    ATTRIBUTE_WEIGHTS,
    PREDICTED_LABELS,
    PredictedAttributes,
    default_strata,
    select_label,
)
from ksame.core.arrays import ProgressCallback
from ksame.core.checkpoint import Checkpoint, resolve_seed
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import as_k, check_law
from ksame.io.sources import ImageInput, find_sources
from ksame.methods.anonfaces.group import FaceFeatures, make_group_portraits
from ksame.methods.drawing import Surrogates, draw_surrogates
from ksame.methods.ksame import METHODS, KSameMethod, plan_replacement
from ksame.models import weights
from ksame.partition import METHODS as PARTITIONS
from ksame.pipeline.outputs import publish_portraits, publish_scenes
from ksame.release import MappingRow, Private, Release
from ksame.render import blend
from ksame.render.scene import DEFAULT_POLICY, ScenePolicy
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import landmarks_on_frame
from ksame.spaces.generator_space import GeneratorSpace

T = TypeVar("T")
ONE_RELEASE_ASSUMPTION = "no other release made from photos of these people is compared with this one"
NAMES_KEPT_ASSUMPTION = "what the file names tell, which were kept, is not counted: this is about the faces"
EXPRESSION_KEPT_ASSUMPTION = (
    "k people share each new face, but their expressions are carried over, and may tell them apart"
)
SCENE_ASSUMPTION = (
    "faces are set into the original photos: hair, ears, skin colour, light and background are still there"
)
DRAWN_ASSUMPTION = "the pictures are drawn from the codes, and lie near them"


def deidentify(
    inputs: ImageInput | Iterable[ImageInput],
    k: int = 5,
    *,
    method: str = "ksame-m",
    partition: str = "mdav",
    publish: Literal["portrait", "scene"] = "portrait",
    subjects: str | Path | Sequence[str] = "auto",
    select: str | None = None,
    names: Literal["random", "keep"] | None = None,
    expression: Literal["drop", "keep"] = "drop",
    composite: blend.Composite = "picture",
    scenes: ScenePolicy = DEFAULT_POLICY,
    model: str | Path = "shipped",
    generator: str | Path = "shipped",
    embedding: str = "mobilefacenet",
    plain: bool = False,
    seed: int | None = None,
    jobs: int | None = None,
    engine: str = "threading",
    checkpoint: Checkpoint | None = None,
    progress: ProgressCallback | None = None,
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
        How a face is set into a scene: a name of ``ksame.render.blend.COMPOSITES``.
    scenes : ScenePolicy
        How scenes are searched for faces, and what is done with photos without any.
    model : str or path
        The appearance model: ``shipped``, ``own`` (trained on these photos), or a file. For anonfaces the
        map that was learnt from the generator.
    generator, embedding, plain
        For anonfaces, see ``ksame.methods.anonfaces.group.make_group_portraits``.
    seed : int, optional
        For tests and repeated runs; it must be kept as secret as the mapping.
    jobs, engine, checkpoint, progress
        See ``ksame.analysis.photos.analyse_photos``.

    Examples
    --------
    ::

        release = ksame.deidentify("photos/", k=5)
        print(release.guarantee)
        release.save("out/")
    """
    how = _check_options(method, partition, publish, expression, composite)
    sources = find_sources(inputs, in_order=not isinstance(subjects, str | Path))
    given = read_subject_hints(sources, subjects, as_k(k))
    if select is not None:
        columns = {**given.labels, **dict.fromkeys(PREDICTED_LABELS)}
        _choose("column to select by", columns, select)  # told before the long work
    seed = resolve_seed(seed, checkpoint)
    # pixel vectors at the scale of large photos would not fit in memory
    scale = None if how.space is AppearanceSpace else 1.0  # and portraits need no more
    effort = scenes.search if publish == "scene" else "fast"  # a portrait shows nothing of the photo
    found = analyse_photos(
        sources,
        scale=scale,
        jobs=jobs,
        engine=engine,
        effort=effort,
        checkpoint=checkpoint,
        progress=progress,
    )
    return make_release(
        identify_photos(found, given, k, jobs=jobs),
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
        progress=progress,
    )


class IdentifiedPhotos(NamedTuple):
    """Photos whose faces have been found and named: what a release is made of."""

    found: AnalysedPhotos
    faces: FaceSet
    subject_source: SubjectSource
    attributes: PredictedAttributes | None = (
        None  # what they are taken for, if that is known before the first release
    )
    seen: FaceFeatures | None = None  # what portraits are made by, likewise


def identify_photos(
    found: AnalysedPhotos, given: SubjectHints, k: int, *, jobs: int | None = None
) -> IdentifiedPhotos:
    """Give every face its person, and refuse if there are fewer than k."""
    with explain_failures(found.failures):
        faces, told = identify_faces(found, given, jobs=jobs)
        as_k(k, len(np.unique(faces.subject)))
    return IdentifiedPhotos(found, faces, told)


def make_release(
    people: IdentifiedPhotos,
    k: int,
    *,
    method: str = "ksame-m",
    partition: str = "mdav",
    publish: Literal["portrait", "scene"] = "portrait",
    select: str | None = None,
    names: Literal["random", "keep"] | None = None,
    expression: Literal["drop", "keep"] = "drop",
    composite: blend.Composite = "picture",
    scenes: ScenePolicy = DEFAULT_POLICY,
    model: str | Path = "shipped",
    generator: str | Path = "shipped",
    embedding: str = "mobilefacenet",
    plain: bool = False,
    seed: int | None = None,
    jobs: int | None = None,
    progress: ProgressCallback | None = None,
) -> Release:
    """Make a release of people who have been found: ``deidentify`` without its first half.

    Whoever tries several k or methods finds the faces once and comes here for each.
    """
    how = _check_options(method, partition, publish, expression, composite)
    names = names or ("keep" if publish == "scene" else "random")
    seed = resolve_seed(seed, None)
    found, faces, told, *_ = people
    if how.replace == "mix":
        draft = _draft_portraits(
            people, k, partition=partition, select=select, expression=expression, generator=generator,
            model=model, embedding=embedding, plain=plain, seed=seed, jobs=jobs, progress=progress,
        )  # fmt: skip
    else:
        draft = _draft_from_codes(people, how, k, partition, select, expression, model, seed, jobs)
    new = draft.new
    if publish == "scene":
        out = publish_scenes(new, faces, found, composite, names, seed, jobs, scenes)
    else:
        out = publish_portraits(new, faces, names, seed, found.failures)
        if draft.guarantee.k_anonymous and new.expression_delta is None:
            published = [hashlib.sha256(out.files[name]).hexdigest() for name in out.names]
            check_law(published, faces.subject, k, allow_several=expression == "keep")
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
        guarantee=_add_assumptions(
            draft.guarantee, told.assumption, names, publish, new.expression_delta is not None
        ),
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
                map(MappingRow, faces.source.tolist(), faces.subject.tolist(), new.output.tolist(), out.names)
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


class SurrogateDraft(NamedTuple):
    """New faces, and what is to be said of how they were made."""

    new: Surrogates
    guarantee: Guarantee
    notes: tuple[str, ...]
    used: Sequence[str]  # weights
    details: Mapping[str, Any]
    private: Mapping[str, Any]


def _draft_from_codes(
    people: IdentifiedPhotos,
    how: KSameMethod,
    k: int,
    partition: str,
    select: str | None,
    expression: str,
    model: str | Path,
    seed: int,
    jobs: int | None,
) -> SurrogateDraft:
    """Make new faces out of means of codes: of pixels, eigenfaces or the appearance model."""
    faces, seen = people.faces, people.attributes
    drawn = how.space is AppearanceSpace
    space = _load_appearance(model, faces) if drawn else how.space.fit(faces)
    codes = space.encode(faces)
    label: NDArray[Any] = np.zeros(len(faces), int)
    notes: tuple[str, ...] = ()
    looked = False
    if select is not None:
        label, looked = select_label(faces, select, jobs, seen), select not in faces.labels
    elif drawn:
        label, notes = default_strata(faces, codes, k if how.replace == "centroid" else 2 * k, jobs, seen)
        looked = all(
            map(weights.cached, ATTRIBUTE_WEIGHTS)
        )  # without them nobody was kept apart, and a note says so
    plan = plan_replacement(codes, k, how.replace, partition, faces.subject, label, seed)
    if plan.guarantee.k_anonymous:
        check_law(plan.output, faces.subject, k)
    details = {"model": space.digest if isinstance(space, AppearanceSpace) else None}
    new = draw_surrogates(space, faces, plan, expression)
    return SurrogateDraft(new, plan.guarantee, notes, ATTRIBUTE_WEIGHTS if looked else (), details, {})


def _draft_portraits(
    people: IdentifiedPhotos, k: int, *, select: str | None, jobs: int | None, **how: Any
) -> SurrogateDraft:
    """Draw one portrait for each group by a generator: nothing of any photo is in it."""
    faces = people.faces
    label = None if select is None else select_label(faces, select, jobs, people.attributes)
    found = make_group_portraits(faces, k, label=label, seen=people.seen, jobs=jobs, **how)
    new = Surrogates(
        GeneratorSpace.bundled(), landmarks_on_frame(faces), found.output, (), found.images, None
    )
    check_law(found.output, faces.subject, k, allow_several=True)
    return SurrogateDraft(new, found.guarantee, found.notes, found.used, found.details, found.private)


def _check_options(method: str, partition: str, publish: str, expression: str, composite: str) -> KSameMethod:
    """Return what a method's name stands for, after checking that the options fit each other."""
    how = _choose("method", METHODS, method)
    _choose("partition", PARTITIONS, partition)
    _choose("composite", blend.COMPOSITES, composite)
    plain = how.space is not AppearanceSpace
    if (publish == "scene" and plain) or (expression == "keep" and plain and how.replace != "mix"):
        raise UsageError(f"{method} draws no faces that fit a scene or an expression: choose ksame-m.")
    return how


def _choose(option: str, choices: Mapping[str, T], name: str) -> T:
    """Return what a name stands for, or say which names there are."""
    if name not in choices:
        raise UsageError(f"There is no {option} {name!r}: choose one of {', '.join(choices)}.")
    return choices[name]


def _load_appearance(model: str | Path, faces: FaceSet) -> AppearanceSpace:
    """Return the model that comes with the package, one trained on these faces, or one from a file."""
    if model == "own":
        return AppearanceSpace.fit(faces)
    return AppearanceSpace.bundled() if model == "shipped" else AppearanceSpace.load(model)


def _add_assumptions(
    guarantee: Guarantee, subject_source: str, names: str, publish: str, expressed: bool
) -> Guarantee:
    """Add what the claim rests on, and lower it where a picture shows more than the code."""
    for assumption in (subject_source, ONE_RELEASE_ASSUMPTION):
        guarantee = guarantee.lower(because=assumption)
    if names == "keep":
        guarantee = guarantee.lower(because=NAMES_KEPT_ASSUMPTION)
    if expressed:
        guarantee = guarantee.lower(kind="none", because=EXPRESSION_KEPT_ASSUMPTION)
    if guarantee.kind == "wrong-map":  # it was checked on the codes
        guarantee = guarantee.lower(scope="code", because=DRAWN_ASSUMPTION)
    return guarantee.lower(scope="code", because=SCENE_ASSUMPTION) if publish == "scene" else guarantee
