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

from ksame.attack._given import Faces, given, made, one_each, people, pictures, promised
from ksame.attack.groups import among
from ksame.attack.pixels import Degradation, Enhancer, enhanced, estimate, imitated, samples
from ksame.attack.recognise import Recogniser, choose, euclidean
from ksame.attack.score import Result, Train, score
from ksame.attack.see import see
from ksame.core import FloatArray, UsageError, WeightsError
from ksame.gather import Source, pixels
from ksame.represent.embedding import default_recogniser


class Options(TypedDict, total=False):
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


def naive(originals: Faces, released: Faces, **options: Unpack[Options]) -> Result:
    """Look for released faces among originals, as if nothing had been done to them [N 5.2].

    Parameters
    ----------
    originals, released : (n, d) array or n pictures
        The gallery, and the probes.
    **options
        See ``Options``.
    """
    return _attack("naive", originals, released, **options)


def reverse(originals: Faces, released: Faces, **options: Unpack[Options]) -> Result:
    """Look for originals among released faces [N 5.2]; see ``naive``.

    A recogniser that trains does so on the released faces, and so learns to overlook what was done.
    """
    return _attack("reverse", originals, released, backwards=True, **options)


def parrot(
    originals: Faces,
    released: Faces,
    method: Callable[[Any], Any],
    *,
    others: Faces | None = None,
    **options: Unpack[Options],
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
    known = given(mine, "originals")
    places = _places(known, options.get("jobs")) if isinstance(known, list) else None
    return _attack("parrot", made(method, mine), released, places=places, **options)


def automatic_parrot(originals: Faces, released: Faces, **options: Unpack[Options]) -> Result:
    """Find out how far released faces are pixelated or blurred, do so to the originals, and look [G6 6.2.1].

    Where neither is found this is the naive attack.

    Parameters
    ----------
    originals, released : pictures, see ``naive``
    """
    photos, places, found, _ = _studied(originals, released, options.get("jobs"))
    mimic = [
        Source(photo.name, partial(imitated, found, photo, places[i])) if i in places else photo
        for i, photo in enumerate(photos)
    ]
    return _attack("automatic parrot", mimic, released, places=places, **options)


def enhancement(originals: Faces, released: Faces, **options: Unpack[Options]) -> Result:
    """Find out how far released faces are pixelated or blurred, sharpen them, and look [G6 6.2.2].

    What sharp faces are like is learnt from the originals. Where nothing is found to undo, this is the
    naive attack.

    Parameters
    ----------
    originals, released : pictures, see ``naive``
    """
    photos, places, found, sharp = _studied(originals, released, options.get("jobs"))
    enhance = Enhancer.fit(sharp, found) if found.kind and len(sharp) > 1 else None
    return _attack("enhancement", photos, released, places=places, enhance=enhance, **options)


def _studied(
    originals: Faces, released: Faces, jobs: int | None
) -> tuple[list[Source], dict[int, FloatArray], Degradation, NDArray[np.uint8]]:
    """Return the originals, where their faces are, what was done to the released, and some sharp faces."""
    photos, published = pictures(originals), pictures(released)
    places = _places(photos, jobs)
    sharp = samples(photos, places=places, jobs=jobs)
    alike = len(photos) == len(published)
    found = estimate(samples(published, places=places if alike else None, jobs=jobs), sharp)
    return photos, places, found, sharp


def _places(photos: list[Source], jobs: int | None) -> dict[int, FloatArray]:
    """Return the mesh (1, 468, 2) of the largest face in each photo that has one."""
    seen = see(photos, [], jobs=jobs)
    return {i: seen.points[[row]] for i, row in enumerate(seen.largest(len(photos))) if row >= 0}


def reconstruction(
    originals: Faces, released: Faces, undo: Callable[[Any], Any], **options: Unpack[Options]
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
    return _attack("reconstruction", originals, made(undo, released), **options)


def group(
    originals: Faces, released: Faces, guesses: int | None = None, **options: Unpack[Options]
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
    return among(naive(originals, released, **options), several)


def _attack(
    attack: str,
    originals: Faces,
    released: Faces,
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
    sides = [given(originals, "originals"), given(released, "released")]
    who = people([len(side) for side in sides], subjects, released_subjects)
    promise = promised(bound, k)
    taken = [one_each(p, s, "photo") for p, s in zip((photos, released_photos), sides, strict=True)]
    if isinstance(sides[0], list) != isinstance(sides[1], list):
        raise UsageError("Both sides must be codes, or both pictures: one of each cannot be compared.")
    old, new = sides
    if isinstance(old, list) and isinstance(new, list):
        looker = chosen(recogniser)
        eyes = looker, enhanced(looker, enhance) if enhance else looker
        alike = len(old) == len(new) and bool((who[0] == who[1]).all())
        codes, train, name = _seen((old, new), eyes, places or {}, alike, jobs)
    else:
        codes, train, name = _compared([np.asarray(old), np.asarray(new)], recogniser)
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


def _compared(
    codes: list[FloatArray], recogniser: str | Recogniser | Train | None
) -> tuple[list[FloatArray], Train, str]:
    """Return the codes of both sides, checked, and who compares them."""
    if codes[0].shape[1] != codes[1].shape[1]:
        widths = " and ".join(str(side.shape[1]) for side in codes)
        raise UsageError(f"Both sides must have codes of the same length. Got {widths} numbers a face.")
    if recogniser is None:
        return codes, euclidean, "euclidean"
    if isinstance(recogniser, str | Recogniser):
        who = chosen(recogniser)
        return codes, who.train, who.name
    return codes, recogniser, getattr(recogniser, "__name__", "recogniser")


def _seen(
    sides: tuple[list[Source], list[Source]],
    eyes: tuple[Recogniser, Recogniser],
    places: Mapping[int, FloatArray],
    alike: bool,
    jobs: int | None,
) -> tuple[list[FloatArray], Train, str]:
    """Return what is kept of the largest face in each picture, NaN where there is none.

    Whoever compares a photo with what was made of it can point at a face that no detector finds: it is
    where it was. The rest of such a photo is left out, see ``see``.
    """
    before = see(sides[0], [eyes[0]], placed=places, jobs=jobs)
    after = see(sides[1], [eyes[1]], jobs=jobs)
    name, train = eyes[0].name, eyes[0].train
    if not len(before) and not len(after):
        # chance would look like protection: an attacker without a detector compares what he has
        flat = _flat([*sides[0], *sides[1]])
        return [*np.split(flat, [len(sides[0])])], euclidean, "pixels"
    old, new = before.largest(len(sides[0])), after.largest(len(sides[1]))
    codes = [before.rows(old).codes[name], after.rows(new).codes[name]]
    lost = [i for i in np.flatnonzero(new < 0).tolist() if alike and old[i] >= 0 and _same_size(i, sides)]
    if lost:
        placed = {j: places[i] if i in places else before.points[[old[i]]] for j, i in enumerate(lost)}
        again = see([sides[1][i] for i in lost], [eyes[1]], placed=placed, jobs=jobs)
        codes[1][lost] = again.codes[name][again.largest(len(lost))]
    return codes, train, name


def _same_size(i: int, sides: tuple[list[Source], list[Source]]) -> bool:
    """Return whether a released picture is as large as its original."""
    old, new = (pixels(side[i]).shape for side in sides)
    return old == new


def _flat(sources: Sequence[Source]) -> FloatArray:
    """Return pictures of one size as rows of numbers."""
    pictures = [pixels(source) for source in sources]
    if len({picture.shape for picture in pictures}) > 1:
        raise UsageError(
            "No face was found in any picture, and they differ in size: what is there to compare?"
            " Give photos that show faces, or codes (n, d)."
        )
    return np.stack(pictures).reshape(len(pictures), -1).astype(np.float64)


def chosen(recogniser: str | Recogniser | Train | None) -> Recogniser:
    """Return the recogniser that is meant; None is the best that is there."""
    if isinstance(recogniser, Recogniser):
        return recogniser
    if isinstance(recogniser, str):
        return choose(recogniser)[0][0]
    if recogniser is None:
        try:
            return choose(default_recogniser())[0][0]
        except WeightsError:
            return choose("lbp")[0][0]  # which needs none
    raise UsageError("A function that compares codes cannot look at pictures: give a Recogniser or its name.")
