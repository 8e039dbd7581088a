"""The recipe: photos in, a certified release out.

``deidentify`` is the whole way on one screen. Beside it stand only the small decisions that
belong to no other module: who says which faces are one person, and what the files are called.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksame import media, weights
from ksame.core import FaceSet, Guarantee, Space, UsageError, as_k, check_law
from ksame.faces.detect import residual
from ksame.gather import Source, Watch, gather
from ksame.journal import Journal
from ksame.naming import name_faces, read_names
from ksame.partition import METHODS as PARTITIONS
from ksame.partition import select as group_by
from ksame.release import Private, Release, Row
from ksame.replace import centroid
from ksame.represent import EigenSpace, PixelSpace

Picture = str | Path | NDArray[np.uint8]
T = TypeVar("T")

METHODS: dict[str, type[Space]] = {"ksame-pixel": PixelSpace, "ksame-eigen": EigenSpace}
FACE = np.array([[18.0, 30.0, 238.0, 315.0]])  # where the face is on the canonical frame, xyxy
ONE_RELEASE = "no other release made from photos of these people is compared with this one"


def deidentify(
    inputs: Picture | Iterable[Picture],
    k: int = 5,
    *,
    method: str = "ksame-pixel",
    partition: str = "mdav",
    subjects: str | Path | Sequence[str] = "auto",
    select: str | None = None,
    names: Literal["random", "keep"] = "random",
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
    subjects : str, path or sequence
        Who is the same person: ``auto``, ``folder``, ``prefix``, a csv file, or one name per photo.
    select : str, optional
        A column of the csv: people with different values are never put in one group [G5 4.2].
    names : str
        Published file names: ``random``, or ``keep`` those of the inputs.
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
    fit = _choose("method", METHODS, method).fit
    group = _choose("partition", PARTITIONS, partition)
    sources = _sources(inputs)
    given = read_names(sources, subjects, as_k(k))
    if seed is None:
        seed = journal.seed if journal else secrets.randbits(64)
    if not 0 <= seed < 2**256:
        raise UsageError(f"seed must be an integer from 0 to 2**256 - 1. Got {seed}.")
    rng = np.random.default_rng(seed)

    found = gather(sources, scale=1.0, jobs=jobs, engine=engine, journal=journal, watch=watch)
    faces, told = name_faces(found, given)
    space = fit(faces)
    codes = space.encode(faces)
    label = _column(faces, select)
    groups = group_by(codes, k, label=label, partition=group, subjects=faces.subject, rng=rng)
    new, guarantee = centroid(codes, groups)
    pictures = space.decode(new[[rows[0] for rows in groups.groups]])  # one per group, so one for all in it

    files = [media.encode_png(picture) for picture in pictures]
    outputs = _outputs(faces.source, names, seed)
    check_law([files[label] for label in groups.labels], faces.subject, k)
    used = ("yunet", "mesh", "blazeface") + ((told.recogniser,) if told.recogniser else ())
    return Release(
        files={name: files[label] for name, label in sorted(zip(outputs, groups.labels, strict=True))},
        guarantee=_assume(guarantee, told.assumption, names),
        k=groups.k,
        method=method,
        publish="portrait",
        details={
            "partition": partition,
            "select": select,
            "subjects": told.how,
            "untouched_faces": sum(len(residual(picture, FACE)) for picture in pictures),
            "weights": {name: weights.CATALOGUE[name].sha256 for name in used},
        },
        private=Private(
            mapping=tuple(
                map(Row, faces.source.tolist(), faces.subject.tolist(), groups.labels.tolist(), outputs)
            ),
            settings={"method": method, "partition": partition, "select": select, "names": names}
            | {"k": groups.k, "seed": seed, "subjects": told.how},
            failures=found.failures,
        ),
    )


def _choose(option: str, choices: Mapping[str, T], name: str) -> T:
    """Return what a name stands for, or say which names there are."""
    if name not in choices:
        raise UsageError(f"There is no {option} {name!r}: choose one of {', '.join(choices)}.")
    return choices[name]


def _sources(inputs: Picture | Iterable[Picture]) -> list[Source]:
    """Return the photos that are meant, each with a name of its own."""
    given = [inputs] if isinstance(inputs, str | Path | np.ndarray) else list(inputs)
    paths = [item for item in given if not isinstance(item, np.ndarray)]
    arrays = [item for item in given if isinstance(item, np.ndarray)]
    sources = [Source(f"array-{index:05}", rgb) for index, rgb in enumerate(arrays)]
    sources += [Source(photo.name, photo.path) for photo in media.find(paths)]
    if not sources:
        raise UsageError(
            "There are no photos in what was given: name image files, or folders that hold some."
        )
    return sources


def _column(faces: FaceSet, select: str | None) -> NDArray[Any]:
    """Return the label that keeps people apart; without one all are alike."""
    if select is None:
        return np.zeros(len(faces), int)
    return _choose("column to select by", faces.labels, select)


def _outputs(sources: NDArray[np.str_], names: str, seed: int) -> list[str]:
    """Return where each face is published."""
    if names == "keep":
        taken: Counter[str] = Counter()
        outputs = []
        for source in sources.tolist():
            stem = PurePosixPath("images", source).with_suffix("").as_posix()
            taken[stem] += 1
            outputs.append(f"{stem}.png" if taken[stem] == 1 else f"{stem}_{taken[stem]}.png")
        return outputs
    # A keyed hash and not the generator's output: published numbers must not give away its state.
    key = seed.to_bytes(32, "big")
    digests = (hashlib.blake2b(str(row).encode(), key=key, digest_size=8) for row in range(len(sources)))
    return [f"images/{digest.hexdigest()}.png" for digest in digests]


def _assume(guarantee: Guarantee, told: str, names: str) -> Guarantee:
    """Add what the claim rests on."""
    assumptions = [told, ONE_RELEASE]
    if names == "keep":
        assumptions.append("the file names, which were kept, do not tell who is shown")
    for assumption in assumptions:
        guarantee = guarantee.lower(because=assumption)
    return guarantee
