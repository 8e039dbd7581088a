"""Every attack, on embeddings or on images: what is compared with what [N 5.2, G6 6.2, S 6.3].

>>> import numpy as np
>>> from ksame.attack import naive
>>> faces = np.eye(4)
>>> released = np.repeat([faces[:2].mean(axis=0), faces[2:].mean(axis=0)], 2, axis=0)
>>> naive(faces, faces).rank1, naive(faces, released, k=2).rank1
(1.0, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from ksame.attack.compare import (
    FacesInput,
    as_codes_or_images,
    as_images,
    check_several_people,
    make_comparable,
)
from ksame.attack.degradation import DegradationStudy, study_degradation
from ksame.attack.embed import embed_faces
from ksame.attack.recognisers import Recogniser
from ksame.attack.score import MAX_RANK, AttackResult, Train, interval, score, verdict
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.core.partition_type import Partition
from ksame.io.sources import Source


class AttackOptions(TypedDict, total=False):
    """Options that all attacks share.

    Parameters
    ----------
    subjects, released_subjects : (n,), (m,)
        The person of each original and of each released face. By default row i of both is person i.
    recogniser : str, Recogniser or callable
        What compares the faces: a name, a ``Recogniser``, or for embeddings a ``Train``. By default the
        best recogniser that is available, and the Euclidean distance for embeddings.
    bound : float
        The promised bound on the share of correct guesses.
    k : int
        Another way to say ``bound=1/k``.
    photos, released_photos : (n,), (m,)
        The photo of each original, and the photo each released face was made from. With both, a face is
        never compared with the photo it was made from.
    jobs : int
        Number of parallel workers.
    """

    subjects: ArrayLike | None
    released_subjects: ArrayLike | None
    recogniser: str | Recogniser | Train | None
    bound: float | None
    k: int | None
    photos: ArrayLike | None
    released_photos: ArrayLike | None
    jobs: int | None


def naive(originals: FacesInput, released: FacesInput, **options: Unpack[AttackOptions]) -> AttackResult:
    """Search the originals for released faces, as if these had not been changed [N 5.2].

    Parameters
    ----------
    originals, released : (n, d) array or n images
        The gallery, and the probes.
    **options
        See ``AttackOptions``.
    """
    return _attack("naive", originals, released, **options)


def reverse(originals: FacesInput, released: FacesInput, **options: Unpack[AttackOptions]) -> AttackResult:
    """Search the released faces for originals [N 5.2]; see ``naive``.

    A recogniser that learns does so on the released faces, and so learns to ignore what was done to them.
    """
    return _attack("reverse", originals, released, is_reverse=True, **options)


def parrot(
    originals: FacesInput,
    released: FacesInput,
    method: Callable[[Any], Any],
    *,
    others: FacesInput | None = None,
    **options: Unpack[AttackOptions],
) -> AttackResult:
    """De-identify the originals in the same way, then search them for the released faces [N 5.2].

    A recogniser that learns does so on the attacker's own de-identified faces.

    Parameters
    ----------
    originals, released : see ``naive``
    method : callable
        From embeddings or images to as many de-identified ones; the attacker runs it anew. It may return a
        guarantee as well, as the functions of ``ksame.replace`` do.
    others : optional
        Other photos of the same people for the method to work on; ``subjects`` and ``photos`` are theirs.
        By default the originals.

    Examples
    --------
    >>> faces = np.eye(3)
    >>> parrot(faces, -faces, lambda x: -x).rank1
    1.0
    """
    own = originals if others is None else others
    known = as_codes_or_images(own, "originals")
    meshes = _largest_meshes(known, options.get("jobs")) if isinstance(known, list) else None
    return _attack("parrot", _apply_method(method, own), released, meshes=meshes, **options)


def reconstruction(
    originals: FacesInput, released: FacesInput, undo: Callable[[Any], Any], **options: Unpack[AttackOptions]
) -> AttackResult:
    """Undo the de-identification of the released faces, then search the originals for them.

    Parameters
    ----------
    originals, released : see ``naive``
    undo : callable
        From released faces to as many that are nearer to the originals. k-Diff-furthest applied to its
        own output finds much the same pairs of clusters, and swaps them back.

    Examples
    --------
    >>> faces = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> naive(faces, 10 - faces).rank1, reconstruction(faces, 10 - faces, lambda x: 10 - x).rank1
    (0.0, 1.0)
    """
    return _attack("reconstruction", originals, _apply_method(undo, released), **options)


def automatic_parrot(
    originals: FacesInput, released: FacesInput, **options: Unpack[AttackOptions]
) -> AttackResult:
    """Estimate how strongly released faces are pixelated or blurred, and imitate it [G6 6.2.1].

    Where neither is found this is the naive attack.

    Parameters
    ----------
    originals, released : images, see ``naive``
    """
    study = _study(originals, released, options.get("jobs"))
    return _attack("automatic parrot", study.imitations(), released, meshes=study.meshes, **options)


def enhancement(
    originals: FacesInput, released: FacesInput, **options: Unpack[AttackOptions]
) -> AttackResult:
    """Estimate how strongly released faces are pixelated or blurred, and sharpen them [G6 6.2.2].

    A prior of sharp faces is learnt from the originals. Where there is nothing to undo, this is the naive
    attack.

    Parameters
    ----------
    originals, released : images, see ``naive``
    """
    study = _study(originals, released, options.get("jobs"))
    view = study.sharpening()
    return _attack(
        "enhancement", study.originals, released, meshes=study.meshes, released_view=view, **options
    )


def _study(originals: FacesInput, released: FacesInput, jobs: int | None) -> DegradationStudy:
    """Return what an attacker learns of the pixelation or blur of released images."""
    photos, published = as_images(originals), as_images(released)
    meshes = _largest_meshes(photos, jobs)
    are_parallel = len(photos) == len(published)
    return study_degradation(
        photos, published, meshes, released_meshes=meshes if are_parallel else None, jobs=jobs
    )


def _largest_meshes(photos: list[Source], jobs: int | None) -> dict[int, FloatArray]:
    """Return the mesh (1, 468, 2) of the largest face in each photo that has one."""
    faces = embed_faces(photos, [], jobs=jobs)
    return {i: faces.points[[row]] for i, row in enumerate(faces.largest(len(photos))) if row >= 0}


def group(
    originals: FacesInput, released: FacesInput, guesses: int | None = None, **options: Unpack[AttackOptions]
) -> AttackResult:
    """Name the group, not the person: a guess is right if the person is among the nearest few.

    Parameters
    ----------
    originals, released : see ``naive``
    guesses : int
        How many people may be named; by default k.

    Examples
    --------
    >>> faces = np.eye(4)
    >>> released = np.repeat([faces[:2].mean(axis=0), faces[2:].mean(axis=0)], 2, axis=0)
    >>> group(faces, released, 2).rank1
    1.0
    """
    number = options.get("k") if guesses is None else guesses
    if number is None:
        raise UsageError("How many people may be named? Give guesses, or k.")
    return top_guesses(naive(originals, released, **options), number)


def top_guesses(result: AttackResult, guesses: int) -> AttackResult:
    """Return what an attack achieves that may name several people: with m guesses m times the bound."""
    if not 1 <= guesses <= MAX_RANK:
        raise UsageError(f"guesses must be in [1, {MAX_RANK}]. Got {guesses}.")
    rate = float(result.cmc[min(guesses, len(result.cmc)) - 1])
    low, high = interval(rate * result.people, result.people)
    bound = min(1.0, guesses * result.bound)
    return replace(
        result,
        attack="group",
        rank1=rate,
        low=low,
        high=high,
        chance=min(1.0, guesses * result.chance),
        bound=bound,
        verdict=verdict(low, high, bound if bound < 1 else None),
    )


def _attack(
    attack: str,
    originals: FacesInput,
    released: FacesInput,
    *,
    is_reverse: bool = False,
    meshes: Mapping[int, FloatArray] | None = None,
    released_view: Callable[[Recogniser], Recogniser] | None = None,
    bound: float | None = None,
    k: int | None = None,
    photos: ArrayLike | None = None,
    released_photos: ArrayLike | None = None,
    **options: Any,
) -> AttackResult:
    """Bring originals and released faces to embeddings, and score one side against the other."""
    promised = _resolve_bound(bound, k)
    faces = make_comparable(originals, released, meshes=meshes, released_view=released_view, **options)
    taken = photos, released_photos
    for side, codes in zip(taken, faces.codes, strict=True):
        if side is not None and len(np.asarray(side)) != len(codes):
            raise UsageError(f"Each face needs one photo. Got {len(np.asarray(side))} for {len(codes)}.")
    gallery, probe = (1, 0) if is_reverse else (0, 1)
    check_several_people(len(set(faces.subjects[gallery].tolist())))
    return score(
        faces.train,
        faces.codes[gallery],
        faces.codes[probe],
        faces.subjects[gallery],
        faces.subjects[probe],
        attack=attack,
        recogniser=faces.recogniser,
        bound=promised,
        gallery_photos=taken[gallery],
        probe_photos=taken[probe],
    )


def _apply_method(method: Callable[[Any], Any], faces: Any) -> Any:
    """Return the faces that a method makes, without a guarantee that may come with them."""
    new = method(faces)
    if isinstance(new, tuple) and len(new) == 2 and not isinstance(new[1], np.ndarray):
        new = new[0]
    if len(new) != len(faces):
        raise UsageError(f"The method must return one face for each of {len(faces)}. Got {len(new)}.")
    return new


def _resolve_bound(bound: float | None, k: int | None) -> float | None:
    """Return the promised bound, which may be given in two ways."""
    if bound is not None and k is not None:
        raise UsageError("Give bound or k, not both: k is another way to say bound=1/k.")
    if k is not None:
        if k < 1:
            raise UsageError(f"k must be at least 1. Got {k}.")
        return 1 / k
    if bound is not None and not 0 <= bound <= 1:
        raise UsageError(f"bound must be in [0, 1]. Got {bound}.")
    return bound


def intersection(
    groups: ArrayLike | Partition,
    other_groups: ArrayLike | Partition,
    subjects: ArrayLike | None = None,
    other_subjects: ArrayLike | None = None,
    *,
    bound: float | None = None,
    k: int | None = None,
) -> AttackResult:
    """Compare two releases: a person in both can only be one of those who share both groups.

    Parameters
    ----------
    groups, other_groups : (n,), (m,) or Partition
        The group of each face in the two releases.
    subjects, other_subjects : (n,), (m,), optional
        The person of each face. By default row i of both is person i.
    bound, k : see ``AttackOptions``

    Examples
    --------
    >>> intersection([0, 0, 1, 1], [0, 1, 0, 1]).rank1
    1.0
    """
    one = _anonymity_sets(groups, subjects, default=subjects)
    two = _anonymity_sets(other_groups, other_subjects, default=subjects)
    both = [person for person in one if person in two]
    if not both:
        raise UsageError("The two releases have nobody in common: there is nothing to compare.")
    check_several_people(len(both))
    candidates = np.array([len(one[p] & two[p] & set(both)) for p in both])
    ranks = np.arange(1, min(len(both), MAX_RANK) + 1)
    cmc = np.minimum(ranks[:, None] / candidates, 1).mean(axis=1)
    low, high = interval(float(cmc[0]) * len(both), len(both))
    promised = _resolve_bound(bound, k)
    return AttackResult(
        attack="intersection",
        recogniser="groups",
        rank1=float(cmc[0]),
        low=low,
        high=high,
        chance=1 / len(both),
        bound=1.0 if promised is None else promised,
        verdict=verdict(low, high, promised),
        probes=len(both),
        gallery=len(both),
        people=len(both),
        tpr=math.nan,  # there are no distances
        cmc=cmc,
    )


def _anonymity_sets(
    groups: ArrayLike | Partition, subjects: ArrayLike | None, *, default: ArrayLike | None
) -> dict[Any, set[Any]]:
    """Return for each person those who are in all groups of that person."""
    if isinstance(groups, Partition):
        labels, names = groups.labels, groups.subjects
    else:
        labels = np.asarray(groups).ravel()
        names = np.arange(len(labels)) if default is None else np.asarray(default)
    names = names if subjects is None else np.asarray(subjects)
    if len(names) != len(labels):
        raise UsageError(
            f"Each face needs a group and a subject. Got {len(labels)} groups and {len(names)} subjects."
        )
    pairs = list(zip(labels.tolist(), names.tolist(), strict=True))
    members: dict[Any, set[Any]] = {}
    for label, person in pairs:
        members.setdefault(label, set()).add(person)
    candidates: dict[Any, set[Any]] = {}
    for label, person in pairs:
        candidates[person] = candidates.get(person, members[label]) & members[label]
    return candidates
