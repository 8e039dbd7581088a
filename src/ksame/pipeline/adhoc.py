"""The door without a guarantee: photos with their faces obscured by an ad hoc method [N 5.3, S 2.2]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.analysis.photos import analyse_photos
from ksame.core.arrays import ProgressCallback
from ksame.core.checkpoint import Checkpoint, resolve_seed
from ksame.core.geometry import FRAME
from ksame.io.sources import ImageInput, find_sources
from ksame.methods.obscure import METHODS, NO_GUARANTEE, obscure
from ksame.models import weights
from ksame.release import MappingRow, Private, Release
from ksame.render.scene import DEFAULT_POLICY, ScenePolicy, render_scenes
from ksame.spaces.appearance import AppearanceSpace


def obscure_photos(
    inputs: ImageInput | Iterable[ImageInput],
    method: str,
    *,
    grey: bool = False,
    strength: float | None = None,
    names: Literal["random", "keep"] = "keep",
    scenes: ScenePolicy = DEFAULT_POLICY,
    seed: int | None = None,
    jobs: int | None = None,
    engine: str = "threading",
    checkpoint: Checkpoint | None = None,
    progress: ProgressCallback | None = None,
) -> Release:
    """Return the photos with every face obscured; recognition is not bounded, and the certificate says so.

    Parameters
    ----------
    inputs, names, scenes, seed, jobs, engine, checkpoint, progress
        See ``photos.deidentify``.
    method, grey, strength
        See ``ksame.methods.obscure``.
    """
    METHODS[method].amount(strength)  # a wrong strength is told before the long work
    seed = resolve_seed(seed, checkpoint)
    found = analyse_photos(
        find_sources(inputs),
        scale=0.5,
        jobs=jobs,
        engine=engine,
        effort=scenes.search,
        checkpoint=checkpoint,
        progress=progress,
    )
    faces = found.faces
    points = faces.points
    donors = draw_synthetic_faces(seed) if method == "potato" else None

    def paint(photo: NDArray[np.uint8], row: int) -> NDArray[np.uint8]:
        return obscure(
            photo, points[row : row + 1], method, grey=grey, strength=strength, rng=seed, donors=donors
        )

    files, outputs, faceless, failures = render_scenes(
        found, paint, names=names, seed=seed, jobs=jobs, policy=scenes
    )
    used = ("yunet", "mesh", "blazeface", "centerface")
    people = [f"{source}#{rank}" for source, rank in zip(faces.source, found.rank, strict=True)]
    return Release(
        files=files,
        guarantee=NO_GUARANTEE,
        k=1,
        method=method,
        publish="scene",
        details={
            "grey": grey,
            "strength": strength,
            "search": scenes.search,
            "faceless_photos": len(faceless),
            "unusable_faces": sum(map(len, found.unusable)),
            "weights": {name: weights.CATALOGUE[name].sha256 for name in used},
        },
        private=Private(
            tuple(map(MappingRow, faces.source.tolist(), people, range(len(faces)), outputs)),
            {"method": method, "grey": grey, "strength": strength, "names": names, "seed": seed},
            failures,
            faceless=faceless,
        ),
        inspect=files.inspect,
    )


def draw_synthetic_faces(seed: int, *, count: int = 12) -> NDArray[np.uint8]:
    """Return faces (count, h, w, 3) on the canonical frame that the appearance model makes up: nobody's."""
    model = AppearanceSpace.bundled()
    codes = np.random.default_rng(seed).normal(size=(count, len(model.deviation))) * model.deviation * 0.7
    faces = model.decode(np.where(model.nuisance, 0, codes))
    size = (FRAME.width, FRAME.height)
    return np.stack([cv2.resize(face, size, interpolation=cv2.INTER_AREA) for face in faces])
