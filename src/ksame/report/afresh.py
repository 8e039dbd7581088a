"""The method of a release, run afresh on photos that an attacker has: what a parrot attack needs [N 5.2]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame import media, networks, weights
from ksame.adhoc import obscured
from ksame.apart import PREDICTED
from ksame.core import UsageError
from ksame.gather import Source
from ksame.obscure import METHODS as AD_HOC
from ksame.pipeline import METHODS, deidentify
from ksame.portraits.group import EMBEDDINGS
from ksame.release import Release
from ksame.represent import AppearanceSpace
from ksame.represent.generator import GeneratorSpace


class Made(NamedTuple):
    """Pictures that the method made, and for each photo that of its largest face; -1: there is none."""

    pictures: tuple[Source, ...]
    picture: tuple[int, ...]


def can(certificate: Mapping[str, Any]) -> bool:
    """Return whether a certificate names a method that can be run again."""
    return certificate.get("method") in METHODS or certificate.get("method") in AD_HOC


def unlike(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Say in what an imitation differs from the method, because the certificate does not tell enough."""
    model, select = certificate.get("model"), certificate.get("select")
    if model is not None and model != AppearanceSpace.shipped().digest:
        yield "The parrot attack drew with the model of the package, not that of the release: it is weaker."
    learnt = certificate.get("map")
    if learnt is not None and learnt != GeneratorSpace.shipped().digest:
        yield "The parrot attack drew with the package's generator, not that of the release: it is weaker."
    if select is not None and select not in PREDICTED:
        yield "The parrot attack did not know by which labels people were kept apart: it is weaker."


def afresh(
    certificate: Mapping[str, Any], photos: Sequence[Source], subjects: Sequence[str], *, jobs: int | None
) -> Made:
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
    networks.let_go(*weights.CATALOGUE)  # or attackers keep 1 GB beside what the method opens
    release = _release(certificate, paths, list(subjects), jobs)
    index = {str(path): i for i, path in enumerate(paths)}
    by_name = {photo.name: index[str(photo.path)] for photo in media.find(paths)}
    kinds: dict[object, int] = {}
    pictures: list[Source] = []
    picture = [-1] * len(paths)
    for row in release.private.mapping:
        photo = by_name[row.input]
        if picture[photo] >= 0:  # a further face of this photo: nobody said whose it is
            continue
        # by their bytes: with expressions kept, people of one group have different faces
        key: object = release.files[row.output] if release.publish == "portrait" else row.output
        if key not in kinds:
            kinds[key] = len(pictures)
            pictures.append(Source(row.output, _decoded(release, row.output)))  # when somebody looks at it
        picture[photo] = kinds[key]
    return Made(tuple(pictures), tuple(picture))


def _release(
    certificate: Mapping[str, Any], paths: list[Path], subjects: list[str], jobs: int | None
) -> Release:
    """Make the release."""
    method = certificate["method"]
    if method in AD_HOC:
        return obscured(paths, method, grey=certificate["grey"], strength=certificate["strength"], jobs=jobs)
    select = certificate.get("select")
    return deidentify(
        paths,
        certificate["k"],
        method=method,
        partition=certificate.get("partition") or "mdav",
        publish=certificate["publish"],
        subjects=subjects,
        select=select if select in PREDICTED else None,  # a column of the publisher's csv is not known
        expression=certificate.get("expression", "drop"),
        composite=certificate.get("composite") or "picture",
        embedding=certificate.get("embedding", EMBEDDINGS[0]),
        jobs=jobs,
    )


def _decoded(release: Release, name: str) -> Callable[[], NDArray[np.uint8]]:
    return lambda: media.decode(release.files[name])
