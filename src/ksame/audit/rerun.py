"""Re-run the method of a release on photos that an attacker has: what a parrot attack needs [N 5.2]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame import io, pipeline
from ksame.analysis.strata import PREDICTED_LABELS
from ksame.core.context import Context
from ksame.core.errors import UsageError
from ksame.io.sources import Source
from ksame.methods import METHODS, Method
from ksame.models import runtime, weights
from ksame.release import Release, method_name
from ksame.spaces import AppearanceSpace
from ksame.spaces.generator_space import GeneratorSpace


class RerunResult(NamedTuple):
    """Images that the method made, and for each photo that of its largest face; -1: there is none."""

    images: tuple[Source, ...]
    image: tuple[int, ...]


def can_rerun(certificate: Mapping[str, Any]) -> bool:
    """Return whether a certificate states a method that can be run here, with its options."""
    if method_name(certificate) not in METHODS:
        return False
    try:
        stated_method(certificate)
    except UsageError:  # an option of an extension that is not registered here
        return False
    return True


def stated_method(certificate: Mapping[str, Any]) -> Method[Any]:
    """Return the method of a certificate, with its options as far as they are public and known to anyone.

    A model of the publisher's own and a column of the publisher's csv are not: the defaults stand in.
    """
    method = METHODS[certificate["method"]["name"]]
    own = {one.name for one in method.option_fields()}
    given = {
        name: value for name, value in certificate["method"].items() if name in own and value != "custom"
    }
    if given.get("select") not in PREDICTED_LABELS:
        given.pop("select", None)
    return method.with_options(given)


def rerun_differences(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Say in what an imitation differs from the method, because the certificate does not tell enough."""
    model, select = certificate.get("model"), certificate["method"].get("select")
    if model is not None and model != AppearanceSpace.bundled().digest:
        yield "The parrot attack drew with the bundled model, not that of the release: it is weaker."
    learnt = certificate.get("map_digest")
    if learnt is not None and learnt != GeneratorSpace.bundled().digest:
        yield "The parrot attack drew with the bundled generator, not that of the release: it is weaker."
    if select is not None and select not in PREDICTED_LABELS:
        yield "The parrot attack did not know by which labels people were kept apart: it is weaker."


def rerun_method(
    certificate: Mapping[str, Any], photos: Sequence[Source], subjects: Sequence[str], *, jobs: int | None
) -> RerunResult:
    """Run the method that a certificate states on photos, with fresh randomness: no seed is known to anyone.

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
        raise UsageError("A method is re-run on photos that are files.")
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
            images.append(Source(row.output, _decoded(release, row.output)))  # when it is looked at
        image[photo] = kinds[key]
    return RerunResult(tuple(images), tuple(image))


def _release(
    certificate: Mapping[str, Any], paths: list[Path], subjects: list[str], jobs: int | None
) -> Release:
    """Make the release."""
    method, publish = stated_method(certificate), certificate["publish"]
    options = {"subjects": subjects} if method.uses_subjects else {}
    media = [medium.with_options(options) for medium in pipeline.find_media(paths, in_order=True)]
    return pipeline.run(media, method, pipeline.OUTPUTS[publish](), Context(jobs=jobs))


def _decoded(release: Release, name: str) -> Callable[[], NDArray[np.uint8]]:
    return lambda: io.decode(release.files[name])
