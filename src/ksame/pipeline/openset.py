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

from ksame import io
from ksame.analysis.identify import identify_faces, read_subject_hints
from ksame.analysis.photos import AnalysedPhotos, analyse_photos
from ksame.core.arrays import ProgressCallback
from ksame.core.checkpoint import Checkpoint, resolve_seed
from ksame.core.errors import Faceless, Failure, UsageError, WeightsError
from ksame.core.faces import FaceSet
from ksame.core.geometry import BACKGROUND_GREY, FRAME, PORTRAIT_FACE_XYXY, to_frame, transform
from ksame.core.guarantee import Guarantee
from ksame.io.sources import ImageInput, find_sources, read_pixels
from ksame.methods.shift.choose import choose_identities
from ksame.methods.shift.pool import Pool
from ksame.models import weights
from ksame.models.detectors import residual
from ksame.models.recognisers import RECOGNISERS, default_recogniser
from ksame.release import MappingRow, Private, Release
from ksame.render.cover import cover_faces
from ksame.render.overlay.face_overlay import FaceOverlay
from ksame.render.overlay.frame_code import FaceView, encode_frame
from ksame.render.scene import DEFAULT_POLICY, PaintCallback, ScenePolicy, published_names, render_scenes
from ksame.render.tone import is_monochrome, to_grey
from ksame.spaces import AppearanceSpace

VIEWS_PER_PERSON = 16  # looks at each person that the new face is tried on
POOL_ASSUMPTION = (
    "the new face is one of a pool of people who do not exist, with the expression, part of the form, the"
    " height of the brows, the light, the colours of the skin and between the lips and coarse shades of the"
    " old one; that recognisers do not see through it is measured, not promised"
)
PARAMETRIC_POOL_HINT = "--pool parametric takes faces that are free of that, and look less real."
PIXEL_TEXTURE_ASSUMPTION = "old pixels were changed, not replaced: moles, scars and wrinkles are still there"
SURROUNDINGS_ASSUMPTION = "hair, ears, body and place are still there"
SEPARATE_IDENTITIES_ASSUMPTION = (
    "people were told apart among the photos and among the videos, not between them: one person may have two"
    " new faces, and two people may share one"
)
Texture = Literal["code", "pixel"]


def load_pool(pool: str | Path) -> Pool:
    """Return the people who do not exist: those in the box, or those of a file.

    ``shipped`` are portraits by a generator, which are not for commercial use; ``parametric`` are drawn by
    our own model, and free.
    """
    if pool in ("shipped", "parametric"):
        return Pool.bundled(codes=pool == "parametric")
    return Pool.load(pool)


def pool_notes(pool: Pool) -> list[str]:
    """Return what a user must know of the pool before they publish, if anything."""
    return [f"{pool.licence} {PARAMETRIC_POOL_HINT}"] if pool.licence else []


def available_verifiers() -> list[str]:
    """Return the recognisers that must not see through a new face: those that are here, the slow one last."""
    here = [name for name in RECOGNISERS if weights.cached(name)]
    return sorted(here, key=lambda name: name == "facenet") or [default_recogniser()]


def texture_assumption(texture: Texture) -> str:
    """Return what is said of a new face: with old pixels it is no pool face any more."""
    return POOL_ASSUMPTION if texture == "code" else PIXEL_TEXTURE_ASSUMPTION


def available_landmarkers() -> list[str]:
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


def shift_photos(
    inputs: ImageInput | Iterable[ImageInput],
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
    checkpoint: Checkpoint | None = None,
    progress: ProgressCallback | None = None,
) -> Release:
    """Give every person on some photos one new face.

    Parameters
    ----------
    inputs, publish, subjects, names, scenes, seed, jobs, engine, checkpoint, progress
        See ``photos.deidentify``.
    texture, pool
        See ``ksame.pipeline.videos.deidentify_video``.
    """
    if texture == "pixel" and publish == "portrait":
        raise UsageError(
            "Old pixels are kept in scenes only: publish scenes, or leave the texture to the code."
        )
    sources = find_sources(inputs, in_order=not isinstance(subjects, str | Path))
    given = read_subject_hints(sources, subjects, 1)
    seed = resolve_seed(seed, checkpoint)
    effort = scenes.search if publish == "scene" else "fast"
    found = analyse_photos(
        sources, scale=0.5, jobs=jobs, engine=engine, effort=effort, checkpoint=checkpoint, progress=progress
    )
    faces, told = identify_faces(found, given, jobs=jobs)
    model, identities, who = AppearanceSpace.bundled(), load_pool(pool), available_verifiers()
    near = available_landmarkers()  # before any face is looked at
    new = _choose_overlays(found, faces, model, identities, who, texture, seed)
    names = names or ("keep" if publish == "scene" else "random")
    failures: tuple[Failure, ...] = found.failures
    faceless: tuple[Faceless, ...] = ()
    if publish == "scene":
        paint = _overlay_painter(faces, new, texture)
        made = render_scenes(found, paint, names=names, seed=seed, jobs=jobs, policy=scenes)
        files: Mapping[str, bytes] = made.files
        outputs, failures, faceless, inspect = made.outputs, made.failures, made.faceless, made.files.inspect
    else:
        outputs = published_names(faces.source.tolist(), names=names, seed=seed, suffix=".png")
        drawn = [io.encode_png(_portrait(found, faces, new, row)) for row in range(len(faces))]
        files, inspect = dict(sorted(zip(outputs, drawn, strict=True))), _count_residual
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
    assumptions = (
        texture_assumption(texture),
        *([SURROUNDINGS_ASSUMPTION] if publish == "scene" else []),
        told.assumption,
    )
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
            tuple(map(MappingRow, faces.source.tolist(), faces.subject.tolist(), group, outputs)),
            {
                "method": "shift",
                "texture": texture,
                "publish": publish,
                "names": names,
                "seed": seed,
                "notes": pool_notes(identities),
                "linked_loosely": list(told.loose),
            },
            failures,
            faceless=faceless,
        ),
        inspect=inspect,
    )


def merge_releases(photos: Release, videos: Release) -> Release:
    """Return one release of photos and videos, whose people nobody compared."""
    first = 1 + max((row.group for row in photos.private.mapping), default=-1)
    rows = (
        row._replace(subject=f"video {row.subject}", group=first + row.group)
        for row in videos.private.mapping
    )
    one, other = photos.details, videos.details
    both = {name: one[name] + other[name] for name in ("people", "covered_people", "unusable_faces")}
    assumptions = (
        *photos.guarantee.assumptions,
        *videos.guarantee.assumptions,
        SEPARATE_IDENTITIES_ASSUMPTION,
    )
    return replace(
        photos,
        clips=videos.clips,
        guarantee=Guarantee("none", assumptions=tuple(dict.fromkeys(assumptions))),
        details={**one, **other, **both, "weights": {**one["weights"], **other["weights"]}},
        private=Private(
            (*photos.private.mapping, *rows),
            {**photos.private.settings, **videos.private.settings},
            photos.private.failures + videos.private.failures,
            videos.private.attachments,
            photos.private.faceless,
        ),
    )


def _count_residual(name: str, data: bytes) -> int:
    """Count the faces of a portrait that are not the one in its middle."""
    return len(residual(io.decode(data), PORTRAIT_FACE_XYXY))


def _choose_overlays(
    found: AnalysedPhotos,
    faces: FaceSet,
    model: AppearanceSpace,
    pool: Pool,
    who: Sequence[str],
    texture: Texture,
    seed: int,
) -> dict[str, FaceOverlay | None]:
    """Choose a new face for every person; None: all were too near to the old one, so it is covered."""
    people = np.unique(faces.subject).tolist()
    if len(people) > len(pool):
        raise UsageError(f"The pool has {len(pool)} faces for {len(people)} people: build a larger one.")
    views = []
    for person in people:
        rows = np.flatnonzero(faces.subject == person)
        some = rows[:: max(1, len(rows) // VIEWS_PER_PERSON)][:VIEWS_PER_PERSON]
        views.append(
            [FaceView(read_pixels(found.sources[found.photo[row]]), faces.points[row]) for row in some]
        )
    rng = np.random.default_rng(seed)
    made = choose_identities(model, views, pool, recognisers=who, texture=texture, rng=rng)
    return dict(zip(people, made, strict=True))


def _overlay_painter(faces: FaceSet, new: dict[str, FaceOverlay | None], texture: Texture) -> PaintCallback:
    """Return what draws a face's new one into its photo, or covers it."""
    points, subject, boxes = faces.points, faces.subject.tolist(), faces.xyxy

    def paint(photo: NDArray[np.uint8], row: int) -> NDArray[np.uint8]:
        mask = new[subject[row]]
        if mask is None:
            return cover_faces(photo, boxes[[row]])
        code = encode_frame(mask.model, FaceView(photo, points[row]))
        return mask.draw(photo, points[row], code, texture=texture)

    return paint


def _portrait(
    found: AnalysedPhotos, faces: FaceSet, new: dict[str, FaceOverlay | None], row: int
) -> NDArray[np.uint8]:
    """Return the new face alone on a plain ground; the ground alone for whom there is none."""
    background = np.full((FRAME.height, FRAME.width, 3), BACKGROUND_GREY, np.uint8)
    mask = new[str(faces.subject[row])]
    if mask is None:
        return background
    mesh, photo = faces.points[row], read_pixels(found.sources[found.photo[row]])
    drawn = mask.draw(
        background, transform(to_frame(mesh), mesh), encode_frame(mask.model, FaceView(photo, mesh))
    )
    return to_grey(drawn) if is_monochrome(photo) else drawn
