"""The door without a guarantee: photos with their faces obscured by an ad hoc method [N 5.3, S 2.2]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame import weights
from ksame.gather import Picture, Watch, gather, sources_of
from ksame.geometry import FRAME
from ksame.journal import Journal, seed_of
from ksame.obscure import GUARANTEE, METHODS, obscure
from ksame.release import Private, Release, Row
from ksame.represent.appearance import AppearanceSpace
from ksame.scenes import DEFAULT_POLICY, ScenePolicy, painted


def obscured(
    inputs: Picture | Iterable[Picture],
    method: str,
    *,
    grey: bool = False,
    strength: float | None = None,
    names: Literal["random", "keep"] = "keep",
    scenes: ScenePolicy = DEFAULT_POLICY,
    seed: int | None = None,
    jobs: int | None = None,
    engine: str = "threading",
    journal: Journal | None = None,
    watch: Watch | None = None,
) -> Release:
    """Return the photos with every face obscured; recognition is not bounded, and the certificate says so.

    Parameters
    ----------
    inputs, names, scenes, seed, jobs, engine, journal, watch
        See ``ksame.deidentify``.
    method, grey, strength
        See ``ksame.obscure``.
    """
    METHODS[method].amount(strength)  # a wrong strength is told before the long work
    seed = seed_of(seed, journal)
    found = gather(
        sources_of(inputs),
        scale=0.5,
        jobs=jobs,
        engine=engine,
        effort=scenes.search,
        journal=journal,
        watch=watch,
    )
    faces = found.faces
    points = faces.points
    donors = nobody(seed) if method == "potato" else None

    def paint(photo: NDArray[np.uint8], row: int) -> NDArray[np.uint8]:
        return obscure(
            photo, points[row : row + 1], method, grey=grey, strength=strength, rng=seed, donors=donors
        )

    files, outputs, faceless, failures = painted(
        found, paint, names=names, seed=seed, jobs=jobs, policy=scenes
    )
    used = ("yunet", "mesh", "blazeface", "centerface")
    people = [f"{source}#{rank}" for source, rank in zip(faces.source, found.rank, strict=True)]
    return Release(
        files=files,
        guarantee=GUARANTEE,
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
            tuple(map(Row, faces.source.tolist(), people, range(len(faces)), outputs)),
            {"method": method, "grey": grey, "strength": strength, "names": names, "seed": seed},
            failures,
            faceless=faceless,
        ),
        inspect=files.inspect,
    )


def nobody(seed: int, *, count: int = 12) -> NDArray[np.uint8]:
    """Return faces (count, h, w, 3) on the canonical frame that the appearance model makes up: nobody's."""
    model = AppearanceSpace.shipped()
    codes = np.random.default_rng(seed).normal(size=(count, len(model.deviation))) * model.deviation * 0.7
    faces = model.decode(np.where(model.nuisance, 0, codes))
    size = (FRAME.width, FRAME.height)
    return np.stack([cv2.resize(face, size, interpolation=cv2.INTER_AREA) for face in faces])
