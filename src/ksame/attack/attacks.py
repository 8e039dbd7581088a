"""Attacks on codes or on pictures: what is compared with what [N 5.2, G6 6.2, S 6.3].

>>> import numpy as np
>>> from ksame.attack import naive
>>> faces = np.eye(4)
>>> hidden = np.repeat([faces[:2].mean(axis=0), faces[2:].mean(axis=0)], 2, axis=0)
>>> naive(faces, faces).rank1, naive(faces, hidden, k=2).rank1
(1.0, 0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.attack.arguments import (
    FacesInput,
    apply_method,
    as_codes_or_images,
    as_images,
    check_one_per_face,
    match_subjects,
    resolve_bound,
)
from ksame.attack.degradation import (
    Degradation,
    Enhancer,
    enhancing_recogniser,
    estimate_degradation,
    imitate_degradation,
    sample_faces,
)
from ksame.attack.embed import embed_faces
from ksame.attack.groups import top_guesses
from ksame.attack.recognisers import Recogniser, choose_recognisers, euclidean
from ksame.attack.score import Result, Train, score
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError, WeightsError
from ksame.io.photos import read_pixels
from ksame.io.sources import Source
from ksame.models.recognisers import default_recogniser


class AttackOptions(TypedDict, total=False):
    """What all attacks can be told.

    Parameters
    ----------
    subjects, released_subjects : (n,), (m,)
        Who each original and each released face is. By default row i of both is person i.
    recogniser : str, Recogniser or callable
        Who looks: a name, a ``Recogniser``, or for codes a ``Train``. By default the best that is there,
        and the Euclidean distance for codes.
    bound : float
        The share of right guesses that was promised not to be exceeded.
    k : int
        Another way to say ``bound=1/k``.
    photos, released_photos : (n,), (m,)
        Which photo each original is, and from which one each released face was made. With both, a face
        is never compared with the photo it was made from.
    jobs : int
        Pictures looked at side by side.
    """

    subjects: ArrayLike | None
    released_subjects: ArrayLike | None
    recogniser: str | Recogniser | Train | None
    bound: float | None
    k: int | None
    photos: ArrayLike | None
    released_photos: ArrayLike | None
    jobs: int | None


def naive(originals: FacesInput, released: FacesInput, **options: Unpack[AttackOptions]) -> Result:
    """Look for released faces among originals, as if nothing had been done to them [N 5.2].

    Parameters
    ----------
    originals, released : (n, d) array or n pictures
        The gallery, and the probes.
    **options
        See ``AttackOptions``.
    """
    return _attack("naive", originals, released, **options)


def reverse(originals: FacesInput, released: FacesInput, **options: Unpack[AttackOptions]) -> Result:
    """Look for originals among released faces [N 5.2]; see ``naive``.

    A recogniser that trains does so on the released faces, and so learns to overlook what was done.
    """
    return _attack("reverse", originals, released, backwards=True, **options)


def parrot(
    originals: FacesInput,
    released: FacesInput,
    method: Callable[[Any], Any],
    *,
    others: FacesInput | None = None,
    **options: Unpack[AttackOptions],
) -> Result:
    """Do to the originals what was done to the released faces, then look for these [N 5.2].

    A recogniser that trains does so on the attacker's own de-identified faces.

    Parameters
    ----------
    originals, released : see ``naive``
    method : callable
        From codes or pictures to as many de-identified ones; run afresh by the attacker. It may
        return a guarantee beside them, as those of ``ksame.replace`` do.
    others : optional
        Other photos of the same people for the method to work on; ``subjects`` and ``photos`` are theirs.
        By default the originals.

    Examples
    --------
    >>> faces = np.eye(3)
    >>> parrot(faces, -faces, lambda x: -x).rank1
    1.0
    """
    mine = originals if others is None else others
    known = as_codes_or_images(mine, "originals")
    places = _face_meshes(known, options.get("jobs")) if isinstance(known, list) else None
    return _attack("parrot", apply_method(method, mine), released, places=places, **options)


def automatic_parrot(originals: FacesInput, released: FacesInput, **options: Unpack[AttackOptions]) -> Result:
    """Find out how far released faces are pixelated or blurred, do so to the originals, and look [G6 6.2.1].

    Where neither is found this is the naive attack.

    Parameters
    ----------
    originals, released : pictures, see ``naive``
    """
    photos, places, found, _ = _estimate_degradation(originals, released, options.get("jobs"))
    mimic = [
        Source(photo.name, partial(imitate_degradation, found, photo, places[i])) if i in places else photo
        for i, photo in enumerate(photos)
    ]
    return _attack("automatic parrot", mimic, released, places=places, **options)


def enhancement(originals: FacesInput, released: FacesInput, **options: Unpack[AttackOptions]) -> Result:
    """Find out how far released faces are pixelated or blurred, sharpen them, and look [G6 6.2.2].

    What sharp faces are like is learnt from the originals. Where nothing is found to undo, this is the
    naive attack.

    Parameters
    ----------
    originals, released : pictures, see ``naive``
    """
    photos, places, found, sharp = _estimate_degradation(originals, released, options.get("jobs"))
    enhance = Enhancer.fit(sharp, found) if found.kind and len(sharp) > 1 else None
    return _attack("enhancement", photos, released, places=places, enhance=enhance, **options)


def _estimate_degradation(
    originals: FacesInput, released: FacesInput, jobs: int | None
) -> tuple[list[Source], dict[int, FloatArray], Degradation, NDArray[np.uint8]]:
    """Return the originals, where their faces are, what was done to the released, and some sharp faces."""
    photos, published = as_images(originals), as_images(released)
    places = _face_meshes(photos, jobs)
    sharp = sample_faces(photos, places=places, jobs=jobs)
    alike = len(photos) == len(published)
    found = estimate_degradation(sample_faces(published, places=places if alike else None, jobs=jobs), sharp)
    return photos, places, found, sharp


def _face_meshes(photos: list[Source], jobs: int | None) -> dict[int, FloatArray]:
    """Return the mesh (1, 468, 2) of the largest face in each photo that has one."""
    seen = embed_faces(photos, [], jobs=jobs)
    return {i: seen.points[[row]] for i, row in enumerate(seen.largest(len(photos))) if row >= 0}


def reconstruction(
    originals: FacesInput, released: FacesInput, undo: Callable[[Any], Any], **options: Unpack[AttackOptions]
) -> Result:
    """Undo what was done to the released faces, then look for them among the originals.

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
    return _attack("reconstruction", originals, apply_method(undo, released), **options)


def group(
    originals: FacesInput, released: FacesInput, guesses: int | None = None, **options: Unpack[AttackOptions]
) -> Result:
    """Name the group, not the person: the attack succeeds if he is among the nearest few people.

    Parameters
    ----------
    originals, released : see ``naive``
    guesses : int
        How many people may be named; by default k.

    Examples
    --------
    >>> faces = np.eye(4)
    >>> hidden = np.repeat([faces[:2].mean(axis=0), faces[2:].mean(axis=0)], 2, axis=0)
    >>> group(faces, hidden, 2).rank1
    1.0
    """
    several = options.get("k") if guesses is None else guesses
    if several is None:
        raise UsageError("How many people may be named? Give guesses, or k.")
    return top_guesses(naive(originals, released, **options), several)


def _attack(
    attack: str,
    originals: FacesInput,
    released: FacesInput,
    *,
    backwards: bool = False,
    places: Mapping[int, FloatArray] | None = None,
    enhance: Callable[[NDArray[np.uint8]], NDArray[np.uint8]] | None = None,
    subjects: ArrayLike | None = None,
    released_subjects: ArrayLike | None = None,
    recogniser: str | Recogniser | Train | None = None,
    bound: float | None = None,
    k: int | None = None,
    photos: ArrayLike | None = None,
    released_photos: ArrayLike | None = None,
    jobs: int | None = None,
) -> Result:
    """Bring originals and released faces to codes, and score one against the other."""
    sides = [as_codes_or_images(originals, "originals"), as_codes_or_images(released, "released")]
    who = match_subjects([len(side) for side in sides], subjects, released_subjects)
    promise = resolve_bound(bound, k)
    taken = [check_one_per_face(p, s, "photo") for p, s in zip((photos, released_photos), sides, strict=True)]
    if isinstance(sides[0], list) != isinstance(sides[1], list):
        raise UsageError("Both sides must be codes, or both pictures: one of each cannot be compared.")
    old, new = sides
    if isinstance(old, list) and isinstance(new, list):
        looker = resolve_recogniser(recogniser)
        eyes = looker, enhancing_recogniser(looker, enhance) if enhance else looker
        alike = len(old) == len(new) and bool((who[0] == who[1]).all())
        codes, train, name = _embed_sides((old, new), eyes, places or {}, alike, jobs)
    else:
        codes, train, name = _comparable_codes([np.asarray(old), np.asarray(new)], recogniser)
    a, b = (1, 0) if backwards else (0, 1)
    return score(
        train,
        codes[a],
        codes[b],
        who[a],
        who[b],
        attack=attack,
        recogniser=name,
        bound=promise,
        gallery_photos=taken[a],
        probe_photos=taken[b],
    )


def _comparable_codes(
    codes: list[FloatArray], recogniser: str | Recogniser | Train | None
) -> tuple[list[FloatArray], Train, str]:
    """Return the codes of both sides, checked, and who compares them."""
    if codes[0].shape[1] != codes[1].shape[1]:
        widths = " and ".join(str(side.shape[1]) for side in codes)
        raise UsageError(f"Both sides must have codes of the same length. Got {widths} numbers a face.")
    if recogniser is None:
        return codes, euclidean, "euclidean"
    if isinstance(recogniser, str | Recogniser):
        who = resolve_recogniser(recogniser)
        return codes, who.train, who.name
    return codes, recogniser, getattr(recogniser, "__name__", "recogniser")


def _embed_sides(
    sides: tuple[list[Source], list[Source]],
    eyes: tuple[Recogniser, Recogniser],
    places: Mapping[int, FloatArray],
    alike: bool,
    jobs: int | None,
) -> tuple[list[FloatArray], Train, str]:
    """Return what is kept of the largest face in each picture, NaN where there is none.

    Whoever compares a photo with what was made of it can point at a face that no detector finds: it is
    where it was. The rest of such a photo is left out, see ``embed_faces``.
    """
    before = embed_faces(sides[0], [eyes[0]], placed=places, jobs=jobs)
    after = embed_faces(sides[1], [eyes[1]], jobs=jobs)
    name, train = eyes[0].name, eyes[0].train
    if not len(before) and not len(after):
        # chance would look like protection: an attacker without a detector compares what he has
        flat = _as_rows([*sides[0], *sides[1]])
        return [*np.split(flat, [len(sides[0])])], euclidean, "pixels"
    old, new = before.largest(len(sides[0])), after.largest(len(sides[1]))
    codes = [before.rows(old).codes[name], after.rows(new).codes[name]]
    lost = [i for i in np.flatnonzero(new < 0).tolist() if alike and old[i] >= 0 and _same_size(i, sides)]
    if lost:
        placed = {j: places[i] if i in places else before.points[[old[i]]] for j, i in enumerate(lost)}
        again = embed_faces([sides[1][i] for i in lost], [eyes[1]], placed=placed, jobs=jobs)
        codes[1][lost] = again.codes[name][again.largest(len(lost))]
    return codes, train, name


def _same_size(i: int, sides: tuple[list[Source], list[Source]]) -> bool:
    """Return whether a released picture is as large as its original."""
    old, new = (read_pixels(side[i]).shape for side in sides)
    return old == new


def _as_rows(sources: Sequence[Source]) -> FloatArray:
    """Return pictures of one size as rows of numbers."""
    images = [read_pixels(source) for source in sources]
    if len({image.shape for image in images}) > 1:
        raise UsageError(
            "No face was found in any picture, and they differ in size: what is there to compare?"
            " Give photos that show faces, or codes (n, d)."
        )
    return np.stack(images).reshape(len(images), -1).astype(np.float64)


def resolve_recogniser(recogniser: str | Recogniser | Train | None) -> Recogniser:
    """Return the recogniser that is meant; None is the best that is there."""
    if isinstance(recogniser, Recogniser):
        return recogniser
    if isinstance(recogniser, str):
        return choose_recognisers(recogniser)[0][0]
    if recogniser is None:
        try:
            return choose_recognisers(default_recogniser())[0][0]
        except WeightsError:
            return choose_recognisers("lbp")[0][0]  # which needs none
    raise UsageError("A function that compares codes cannot look at pictures: give a Recogniser or its name.")
