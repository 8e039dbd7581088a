"""What is published: portraits, or scenes with the new faces in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.photos import AnalysedPhotos
from ksame.core.errors import Faceless, Failure
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, MESH, PORTRAIT_FACE_XYXY
from ksame.methods.drawing import Surrogates
from ksame.models.detectors import residual
from ksame.render import blend
from ksame.render.scene import ScenePolicy, published_names, render_scenes
from ksame.spaces import AppearanceSpace
from ksame.spaces.generator_space import GeneratorSpace


class PublishedFiles(NamedTuple):
    """Files, the file of each face, and the look at them afterwards."""

    files: Mapping[str, bytes]
    names: Sequence[str]
    inspect: Callable[[str, bytes], int]
    failures: tuple[Failure, ...]
    faceless: tuple[Faceless, ...] = ()


def publish_portraits(
    new: Surrogates, faces: FaceSet, names: str, seed: int, failures: tuple[Failure, ...]
) -> PublishedFiles:
    """Publish one picture per face: the new face alone."""
    data: dict[Any, bytes] = {}
    contents = []
    for row in range(len(faces)):
        key = new.output[row] if new.expression_delta is None else (new.output[row], row)
        if key not in data:  # drawn once for all who share it: what is not drawn twice cannot differ
            data[key] = io.encode_png(new.portrait(row))
        contents.append(data[key])
    outputs = published_names(faces.source.tolist(), names=names, seed=seed, suffix=".png")
    scale = new.portrait(0).shape[1] / FRAME.width
    files = dict(sorted(zip(outputs, contents, strict=True)))
    if isinstance(new.space, GeneratorSpace):  # whoever is in the picture does not exist
        return PublishedFiles(files, outputs, lambda _name, _file: 0, failures)
    return PublishedFiles(
        files, outputs, lambda _, file: len(residual(io.decode(file), PORTRAIT_FACE_XYXY * scale)), failures
    )


def publish_scenes(
    new: Surrogates,
    faces: FaceSet,
    found: AnalysedPhotos,
    composite: blend.Composite,
    names: str,
    seed: int,
    jobs: int | None,
    policy: ScenePolicy,
) -> PublishedFiles:
    """Publish the photos with the new faces in them."""
    space, points = new.space, faces.points  # not the faces: their pictures may go before any scene is made
    assert isinstance(space, AppearanceSpace)  # checked with the options

    def paint(photo: NDArray[np.uint8], row: int) -> NDArray[np.uint8]:
        face = new.of(row)
        scale = face.rgb.shape[1] / FRAME.width
        posed = space.transfer_pose(face.shape[:MESH] / scale, new.shapes[row])
        return blend.blend_scene(photo, points[row], face, posed, space.ring_triangles, composite=composite)

    files, outputs, faceless, failures = render_scenes(
        found, paint, names=names, seed=seed, jobs=jobs, policy=policy
    )
    return PublishedFiles(files, outputs, files.inspect, failures, faceless)
