"""Attacks on codes or on pictures: what is compared with what [N 5.2, G6 6.2, S 6.3].

>>> import numpy as np
>>> from ksame.attack import naive
>>> faces = np.eye(4)
>>> hidden = np.repeat([faces[:2].mean(axis=0), faces[2:].mean(axis=0)], 2, axis=0)
>>> naive(faces, faces).rank1, naive(faces, hidden, k=2).rank1
(1.0, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from ksame.attack._given import Faces, given, made, one_each, people, promised, several
from ksame.attack.recognise import Recogniser, deep, euclidean
from ksame.attack.score import RANKS, Result, Train, interval, score, verdict
from ksame.attack.see import see
from ksame.core import FloatArray, Partition, UsageError
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
    return _attack("parrot", made(method, mine), released, **options)


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


def group(originals: Faces, released: Faces, guesses: int, **options: Unpack[Options]) -> Result:
    """Name the group, not the person: the attack succeeds if he is among the nearest few people.

    Parameters
    ----------
    originals, released : see ``naive``
    guesses : int
        How many people may be named; k for a release with groups of k.

    Examples
    --------
    >>> faces = np.eye(4)
    >>> hidden = np.repeat([faces[:2].mean(axis=0), faces[2:].mean(axis=0)], 2, axis=0)
    >>> group(faces, hidden, 2).rank1
    1.0
    """
    return among(naive(originals, released, **options), guesses)


def among(result: Result, guesses: int) -> Result:
    """Return what an attack achieves that may name several people: with m guesses m times the bound."""
    if not 1 <= guesses <= RANKS:
        raise UsageError(f"guesses must be in [1, {RANKS}]. Got {guesses}.")
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


def intersection(
    groups: ArrayLike | Partition,
    other_groups: ArrayLike | Partition,
    subjects: ArrayLike | None = None,
    other_subjects: ArrayLike | None = None,
    *,
    bound: float | None = None,
    k: int | None = None,
) -> Result:
    """Compare two releases: whoever is in both hides among the people who share both his groups.

    Parameters
    ----------
    groups, other_groups : (n,), (m,) or Partition
        The group of each face in the two releases.
    subjects, other_subjects : (n,), (m,), optional
        Who each face is. By default row i of both is person i.
    bound, k : see ``Options``

    Examples
    --------
    >>> intersection([0, 0, 1, 1], [0, 1, 0, 1]).rank1
    1.0
    """
    one, two = (_hiding(*release) for release in _releases(groups, other_groups, subjects, other_subjects))
    both = [person for person in one if person in two]
    if not both:
        raise UsageError("The two releases have nobody in common: there is nothing to compare.")
    several(len(both))
    left = np.array([len(one[p] & two[p] & set(both)) for p in both])  # whom each of them can still be
    cmc = np.minimum(np.arange(1, min(len(both), RANKS) + 1)[:, None] / left, 1).mean(axis=1)
    low, high = interval(float(cmc[0]) * len(both), len(both))
    promise = promised(bound, k)
    return Result(
        attack="intersection",
        recogniser="groups",
        rank1=float(cmc[0]),
        low=low,
        high=high,
        chance=1 / len(both),
        bound=1.0 if promise is None else promise,
        verdict=verdict(low, high, promise),
        probes=len(both),
        gallery=len(both),
        people=len(both),
        tpr=math.nan,  # there are no distances
        cmc=cmc,
    )


def _releases(
    groups: ArrayLike | Partition,
    other_groups: ArrayLike | Partition,
    subjects: ArrayLike | None,
    other_subjects: ArrayLike | None,
) -> list[tuple[list[Any], list[Any]]]:
    """Return the group and the subject of each face, of two releases."""
    sides = []
    for release, who in ((groups, subjects), (other_groups, other_subjects)):
        if isinstance(release, Partition):
            labels, default = release.labels, release.subjects
        else:
            labels = np.asarray(release).ravel()
            default = np.arange(len(labels)) if subjects is None else np.asarray(subjects)
        names = default if who is None else np.asarray(who)
        if len(names) != len(labels):
            raise UsageError(
                f"Each face needs a group and a subject. Got {len(labels)} groups and {len(names)} subjects."
            )
        sides.append((labels.tolist(), names.tolist()))
    return sides


def _hiding(groups: list[Any], subjects: list[Any]) -> dict[Any, set[Any]]:
    """Return for each person those who are in all of his groups."""
    members: dict[Any, set[Any]] = {}
    for label, person in zip(groups, subjects, strict=True):
        members.setdefault(label, set()).add(person)
    hiding: dict[Any, set[Any]] = {}
    for label, person in zip(groups, subjects, strict=True):
        hiding[person] = hiding.get(person, members[label]) & members[label]
    return hiding


def _attack(
    attack: str,
    originals: Faces,
    released: Faces,
    *,
    backwards: bool = False,
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
    codes, train, name = _compared(sides, recogniser, jobs)
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
    sides: Sequence[FloatArray | list[Source]],
    recogniser: str | Recogniser | Train | None,
    jobs: int | None,
) -> tuple[list[FloatArray], Train, str]:
    """Return the codes of both sides, and who compares them."""
    if isinstance(sides[0], list) != isinstance(sides[1], list):
        raise UsageError(
            "Both sides must be codes, or both must be pictures: one of each cannot be compared."
        )
    if isinstance(sides[0], list) or isinstance(sides[1], list):
        return _seen([s for s in sides if isinstance(s, list)], chosen(recogniser), jobs)
    codes = [side for side in sides if not isinstance(side, list)]
    if codes[0].shape[1] != codes[1].shape[1]:
        widths = " and ".join(str(side.shape[1]) for side in codes)
        raise UsageError(f"Both sides must have codes of the same length. Got {widths} numbers a face.")
    if callable(recogniser):
        return codes, recogniser, getattr(recogniser, "__name__", "recogniser")
    who = chosen(recogniser) if recogniser is not None else None
    return codes, who.train if who else euclidean, who.name if who else "euclidean"


def _seen(
    sides: Sequence[list[Source]], who: Recogniser, jobs: int | None
) -> tuple[list[FloatArray], Train, str]:
    """Return what a recogniser keeps of the largest face in each picture, NaN where there is none."""
    sources = [source for side in sides for source in side]
    seen = see(sources, [who], jobs=jobs)
    ends = np.cumsum([len(side) for side in sides])[:-1]
    if not len(seen):
        # chance would look like protection: an attacker without a detector compares what he has
        return [*np.split(_flat(sources), ends)], euclidean, "pixels"
    rows = seen.rows(seen.largest(len(sources)))
    return [*np.split(rows.codes[who.name], ends)], who.train, who.name


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
    if recogniser is None:
        return deep(default_recogniser())
    if isinstance(recogniser, str):
        return deep(recogniser)
    raise UsageError("A function that compares codes cannot look at pictures: give a Recogniser or its name.")
