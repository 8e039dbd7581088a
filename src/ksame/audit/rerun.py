"""The method of a release, run afresh on photos that an attacker has: what a parrot attack needs [N 5.2]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.strata import PREDICTED_LABELS
from ksame.core.errors import UsageError
from ksame.io.sources import Source
from ksame.methods.anonfaces.group import EMBEDDINGS
from ksame.methods.ksame import METHODS
from ksame.methods.obscure import METHODS as AD_HOC
from ksame.models import runtime, weights
from ksame.pipeline.adhoc import obscure_photos
from ksame.pipeline.photos import deidentify
from ksame.release import Release
from ksame.spaces import AppearanceSpace
from ksame.spaces.generator_space import GeneratorSpace


class RerunResult(NamedTuple):
    """Pictures that the method made, and for each photo that of its largest face; -1: there is none."""

    images: tuple[Source, ...]
    image: tuple[int, ...]


def can_rerun(certificate: Mapping[str, Any]) -> bool:
    """Return whether a certificate names a method that can be run again."""
    return certificate.get("method") in METHODS or certificate.get("method") in AD_HOC


def rerun_differences(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Say in what an imitation differs from the method, because the certificate does not tell enough."""
    model, select = certificate.get("model"), certificate.get("select")
    if model is not None and model != AppearanceSpace.bundled().digest:
        yield "The parrot attack drew with the model of the package, not that of the release: it is weaker."
    learnt = certificate.get("map")
    if learnt is not None and learnt != GeneratorSpace.bundled().digest:
        yield "The parrot attack drew with the package's generator, not that of the release: it is weaker."
    if select is not None and select not in PREDICTED_LABELS:
        yield "The parrot attack did not know by which labels people were kept apart: it is weaker."


def rerun_method(
    certificate: Mapping[str, Any], photos: Sequence[Source], subjects: Sequence[str], *, jobs: int | None
) -> RerunResult:
    """Run the method that a certificate names on photos, with fresh randomness: no seed is known to anyone.

    Parameters
    ----------
    certificate : mapping
        Of the release.
    photos : sequence of Source
        Photos on the disk, one per name.
    subjects : sequence of str
        Who is on each, or on the largest face of each.
    jobs : int, optional
        Photos at a time.
    """
    paths = [photo.pixels for photo in photos if isinstance(photo.pixels, Path)]
    if len(paths) != len(photos):
        raise UsageError("A method is run afresh on photos that are files.")
    runtime.unload(*weights.CATALOGUE)  # or attackers keep 1 GB beside what the method opens
    release = _release(certificate, paths, list(subjects), jobs)
    index = {str(path): i for i, path in enumerate(paths)}
    by_name = {photo.name: index[str(photo.path)] for photo in io.find_photos(paths)}
    kinds: dict[object, int] = {}
    images: list[Source] = []
    image = [-1] * len(paths)
    for row in release.private.mapping:
        photo = by_name[row.input]
        if image[photo] >= 0:  # a further face of this photo: nobody said whose it is
            continue
        # by their bytes: with expressions kept, people of one group have different faces
        key: object = release.files[row.output] if release.publish == "portrait" else row.output
        if key not in kinds:
            kinds[key] = len(images)
            images.append(Source(row.output, _decoded(release, row.output)))  # when somebody looks at it
        image[photo] = kinds[key]
    return RerunResult(tuple(images), tuple(image))


def _release(
    certificate: Mapping[str, Any], paths: list[Path], subjects: list[str], jobs: int | None
) -> Release:
    """Make the release."""
    method = certificate["method"]
    if method in AD_HOC:
        return obscure_photos(
            paths, method, grey=certificate["grey"], strength=certificate["strength"], jobs=jobs
        )
    select = certificate.get("select")
    return deidentify(
        paths,
        certificate["k"],
        method=method,
        partition=certificate.get("partition") or "mdav",
        publish=certificate["publish"],
        subjects=subjects,
        select=select if select in PREDICTED_LABELS else None,  # a column of the publisher's csv is not known
        expression=certificate.get("expression", "drop"),
        composite=certificate.get("composite") or "picture",
        embedding=certificate.get("embedding", EMBEDDINGS[0]),
        jobs=jobs,
    )


def _decoded(release: Release, name: str) -> Callable[[], NDArray[np.uint8]]:
    return lambda: io.decode(release.files[name])
