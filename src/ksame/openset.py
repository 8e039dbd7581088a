"""The open set: photos of any number of people, each with a new face of somebody who does not exist [S 7].

Nothing of k-anonymity is left: a person has a face of their own. It is for those who have fewer than k.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ksame import media, weights
from ksame.core import FaceSet, Guarantee, UsageError, WeightsError
from ksame.faces.detect import residual
from ksame.gather import Gathered, Picture, Watch, gather, pixels, sources_of
from ksame.geometry import FACE, FRAME, GROUND, to_frame, transform
from ksame.journal import Journal, seed_of
from ksame.masking import Mask, View, code_of, masks
from ksame.naming import name_faces, read_names
from ksame.pool import Pool
from ksame.release import Faceless, Failure, Private, Release, Row
from ksame.render import cover
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS, default_recogniser
from ksame.scenes import DEFAULT_POLICY, Paint, ScenePolicy, file_names, painted
from ksame.tone import in_grey, is_monochrome

VIEWS = 16  # looks at each person that the new face is tried on
SHIFTED = (
    "the new face is one of a pool of people who do not exist, with the expression, part of the form, the"
    " height of the brows, the light, the colours of the skin and between the lips and coarse shades of the"
    " old one; that recognisers do not see through it is measured, not promised"
)
FREE = "--pool parametric takes faces that are free of that, and look less real."
PIXELS = "old pixels were changed, not replaced: moles, scars and wrinkles are still there"
AROUND = "hair, ears, body and place are still there"
APART = (
    "people were told apart among the photos and among the videos, not between them: one person may have two"
    " new faces, and two people may share one"
)
Texture = Literal["code", "pixel"]


def pool_of(pool: str | Path) -> Pool:
    """Return the people who do not exist: those in the box, or those of a file.

    ``shipped`` are portraits by a generator, which are not for commercial use; ``parametric`` are drawn by
    our own model, and free.
    """
    if pool in ("shipped", "parametric"):
        return Pool.shipped(codes=pool == "parametric")
    return Pool.load(pool)


def limits(pool: Pool) -> list[str]:
    """Return what a user must know of the pool before they publish, if anything."""
    return [f"{pool.licence} {FREE}"] if pool.licence else []


def judges() -> list[str]:
    """Return the recognisers that must not see through a new face: those that are here, the slow one last."""
    here = [name for name in RECOGNISERS if weights.cached(name)]
    return sorted(here, key=lambda name: name == "facenet") or [default_recogniser()]


def assumed(texture: Texture) -> str:
    """Return what is said of a new face: with old pixels it is no pool face any more."""
    return SHIFTED if texture == "code" else PIXELS


def closer() -> list[str]:
    """Return the networks that look closer, if they are here or can be had.

    At lids, brows and lips; and at whether somebody is taken for a man or a woman, and for how old.
    """
    here = []
    for name in ("landmarker", "gender", "age"):
        try:
            weights.fetch([name])
        except WeightsError:
            continue
        here.append(name)
    return here


def shifted(
    inputs: Picture | Iterable[Picture],
    *,
    publish: Literal["portrait", "scene"] = "portrait",
    subjects: str | Path | Sequence[str] = "auto",
    texture: Texture = "code",
    pool: str | Path = "shipped",
    names: Literal["random", "keep"] | None = None,
    scenes: ScenePolicy = DEFAULT_POLICY,
    seed: int | None = None,
    jobs: int | None = None,
    engine: str = "threading",
    journal: Journal | None = None,
    watch: Watch | None = None,
) -> Release:
    """Give every person on some photos one new face.

    Parameters
    ----------
    inputs, publish, subjects, names, scenes, seed, jobs, engine, journal, watch
        See ``ksame.deidentify``.
    texture, pool
        See ``ksame.videos.disguise``.
    """
    if texture == "pixel" and publish == "portrait":
        raise UsageError(
            "Old pixels are kept in scenes only: publish scenes, or leave the texture to the code."
        )
    sources = sources_of(inputs, in_order=not isinstance(subjects, str | Path))
    given = read_names(sources, subjects, 1)
    seed = seed_of(seed, journal)
    effort = scenes.search if publish == "scene" else "fast"
    found = gather(sources, scale=0.5, jobs=jobs, engine=engine, effort=effort, journal=journal, watch=watch)
    faces, told = name_faces(found, given, jobs=jobs)
    model, identities, who = AppearanceSpace.shipped(), pool_of(pool), judges()
    near = closer()  # before any face is looked at
    new = _new_faces(found, faces, model, identities, who, texture, seed)
    names = names or ("keep" if publish == "scene" else "random")
    failures: tuple[Failure, ...] = found.failures
    faceless: tuple[Faceless, ...] = ()
    if publish == "scene":
        paint = _painter(faces, new, texture)
        made = painted(found, paint, names=names, seed=seed, jobs=jobs, policy=scenes)
        files: Mapping[str, bytes] = made.files
        outputs, failures, faceless, inspect = made.outputs, made.failures, made.faceless, made.files.inspect
    else:
        outputs = file_names(faces.source.tolist(), names=names, seed=seed, suffix=".png")
        drawn = [media.encode_png(_portrait(found, faces, new, row)) for row in range(len(faces))]
        files, inspect = dict(sorted(zip(outputs, drawn, strict=True))), _left
    order = {person: i for i, person in enumerate(sorted(new))}
    group = [order[person] for person in faces.subject.tolist()]
    used = [
        "yunet",
        "mesh",
        "blazeface",
        *(["centerface"] if publish == "scene" else []),
        *told.recognisers,
        *who,
        *near,
    ]
    assumptions = (assumed(texture), *([AROUND] if publish == "scene" else []), told.assumption)
    return Release(
        files=files,
        guarantee=Guarantee("none", assumptions=assumptions),
        k=1,
        method="shift",
        publish=publish,
        details={
            "texture": texture,
            "people": len(new),
            "covered_people": sum(mask is None for mask in new.values()),
            **({"search": scenes.search} if publish == "scene" else {}),
            **({"faceless_photos": len(faceless)} if publish == "scene" else {}),
            "unusable_faces": sum(map(len, found.unusable)),
            "subjects": told.how,
            "pool": identities.digest,
            "non_commercial": bool(identities.licence),
            "model": model.digest,
            "weights": {name: weights.CATALOGUE[name].sha256 for name in dict.fromkeys(used)},
        },
        private=Private(
            tuple(map(Row, faces.source.tolist(), faces.subject.tolist(), group, outputs)),
            {
                "method": "shift",
                "texture": texture,
                "publish": publish,
                "names": names,
                "seed": seed,
                "notes": limits(identities),
                "linked_loosely": list(told.loose),
            },
            failures,
            faceless=faceless,
        ),
        inspect=inspect,
    )


def beside(photos: Release, videos: Release) -> Release:
    """Return one release of photos and videos, whose people nobody compared."""
    first = 1 + max((row.group for row in photos.private.mapping), default=-1)
    rows = (
        row._replace(subject=f"video {row.subject}", group=first + row.group)
        for row in videos.private.mapping
    )
    one, other = photos.details, videos.details
    both = {name: one[name] + other[name] for name in ("people", "covered_people", "unusable_faces")}
    assumptions = (*photos.guarantee.assumptions, *videos.guarantee.assumptions, APART)
    return replace(
        photos,
        clips=videos.clips,
        guarantee=Guarantee("none", assumptions=tuple(dict.fromkeys(assumptions))),
        details={**one, **other, **both, "weights": {**one["weights"], **other["weights"]}},
        private=Private(
            (*photos.private.mapping, *rows),
            {**photos.private.settings, **videos.private.settings},
            photos.private.failures + videos.private.failures,
            videos.private.papers,
            photos.private.faceless,
        ),
    )


def _left(name: str, data: bytes) -> int:
    """Count the faces of a portrait that are not the one in its middle."""
    return len(residual(media.decode(data), FACE))


def _new_faces(
    found: Gathered,
    faces: FaceSet,
    model: AppearanceSpace,
    pool: Pool,
    who: Sequence[str],
    texture: Texture,
    seed: int,
) -> dict[str, Mask | None]:
    """Choose a new face for every person; None: all were too near to the old one, so it is covered."""
    people = np.unique(faces.subject).tolist()
    if len(people) > len(pool):
        raise UsageError(f"The pool has {len(pool)} faces for {len(people)} people: build a larger one.")
    views = []
    for person in people:
        rows = np.flatnonzero(faces.subject == person)
        some = rows[:: max(1, len(rows) // VIEWS)][:VIEWS]
        views.append([View(pixels(found.sources[found.photo[row]]), faces.points[row]) for row in some])
    rng = np.random.default_rng(seed)
    made = masks(model, views, pool, recognisers=who, texture=texture, rng=rng)
    return dict(zip(people, made, strict=True))


def _painter(faces: FaceSet, new: dict[str, Mask | None], texture: Texture) -> Paint:
    """Return what draws a face's new one into its photo, or covers it."""
    points, subject, boxes = faces.points, faces.subject.tolist(), faces.xyxy

    def paint(photo: NDArray[np.uint8], row: int) -> NDArray[np.uint8]:
        mask = new[subject[row]]
        if mask is None:
            return cover(photo, boxes[[row]])
        code = code_of(mask.model, View(photo, points[row]))
        return mask.draw(photo, points[row], code, texture=texture)

    return paint


def _portrait(found: Gathered, faces: FaceSet, new: dict[str, Mask | None], row: int) -> NDArray[np.uint8]:
    """Return the new face alone on a plain ground; the ground alone for whom there is none."""
    ground = np.full((FRAME.height, FRAME.width, 3), GROUND, np.uint8)
    mask = new[str(faces.subject[row])]
    if mask is None:
        return ground
    mesh, photo = faces.points[row], pixels(found.sources[found.photo[row]])
    drawn = mask.draw(ground, transform(to_frame(mesh), mesh), code_of(mask.model, View(photo, mesh)))
    return in_grey(drawn) if is_monochrome(photo) else drawn
