"""How often an attacker is right: rank-1, CMC and TPR at a low FPR, with intervals and a verdict.

Three things keep the figures honest. Ties are chance: among t equally near people the right one is
named once in t times, whatever the order of the files. A picture in which no face was found counts
as a guess among all people. And the interval counts people, because two photos of one person are
not two independent trials.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError

Match = Callable[[NDArray[Any]], FloatArray]
"""From probes' codes (p, d) to their distances (p, g) from a gallery."""
Train = Callable[[NDArray[Any], NDArray[Any]], Match]
"""From a gallery's codes (g, d) and subjects (g,) to a ``Match``; here a recogniser trains if it can."""
Verdict = Literal["holds", "broken", "undecided"]

FPR = 1e-3
MAX_RANK = 100  # of the CMC curve
_PROBE_BLOCK = 256  # probes at a time


@dataclass(frozen=True, eq=False)
class Result:
    """What one attack with one recogniser achieved.

    Parameters
    ----------
    attack, recogniser : str
        Their names.
    rank1, low, high : float
        How often the first guess is right, with a 95 % interval (Clopper-Pearson, over people).
    chance : float
        What guessing gives: one in the people of the gallery.
    bound : float
        What was promised; 1.0 where nothing was.
    verdict : str
        ``holds``: the whole interval is at or below the bound. ``broken``: all of it is above.
        ``undecided``: neither, or nothing was promised.
    probes, gallery : int
        Pictures that were attacked, and people among whom they were looked for.
    people : int
        Different people among the probes.
    tpr : float
        Share of right pairs accepted at the threshold that accepts one wrong pair in a thousand.
    faceless : int
        Probes in which no face was found: each counted as a guess.
    cmc : (r,) array
        The chance that the right person is among the first 1, 2, ... r.
    named : (p,) array
        The chance that each probe was named rightly; NaN for those that were left out.
    """

    attack: str
    recogniser: str
    rank1: float
    low: float
    high: float
    chance: float
    bound: float
    verdict: Verdict
    probes: int
    gallery: int
    people: int
    tpr: float
    faceless: int = 0
    cmc: FloatArray = field(repr=False, default_factory=lambda: np.zeros(0))
    named: FloatArray = field(repr=False, default_factory=lambda: np.zeros(0))


def interval(hits: float, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a rate; hits need not be whole, because ties share one.

    Examples
    --------
    >>> tuple(round(end, 3) for end in interval(0, 10))
    (0.0, 0.308)
    """
    if not 0 <= hits <= trials + 1e-9 or trials < 1:
        raise UsageError(f"hits must be in [0, trials] and trials at least 1. Got {hits} of {trials}.")
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits > 1e-9 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials - 1e-9 else 1.0
    return low, high


def verdict(low: float, high: float, bound: float | None) -> Verdict:
    """Return what the interval allows to say about a bound; None: nothing was promised."""
    if bound is None or not (high <= bound or low > bound):
        return "undecided"
    return "holds" if high <= bound else "broken"


def score(
    train: Train,
    gallery: NDArray[Any],
    probes: NDArray[Any],
    gallery_subjects: ArrayLike,
    probe_subjects: ArrayLike,
    *,
    attack: str,
    recogniser: str,
    bound: float | None = None,
    gallery_photos: ArrayLike | None = None,
    probe_photos: ArrayLike | None = None,
) -> Result:
    """Look for each probe's person in a gallery and count.

    Parameters
    ----------
    train : callable
        The recogniser's way from a gallery to distances.
    gallery, probes : (g, d), (p, d) arrays
        Codes; a row of NaN is a picture in which no face was found.
    gallery_subjects, probe_subjects : (g,), (p,)
        Who is who. The gallery may hold strangers; probes of people who are not in it are left out.
    attack, recogniser : str
        For the record.
    bound : float, optional
        What was promised.
    gallery_photos, probe_photos : optional
        With both, a probe is never compared with the photo it was made from: only with others of the
        person. People without another photo are left out.
    """
    everyone, column = np.unique(np.asarray(gallery_subjects), return_inverse=True)
    position = {name: i for i, name in enumerate(everyone.tolist())}
    subject = np.array([position.get(name, -1) for name in np.asarray(probe_subjects).tolist()], np.intp)
    other = gallery_photos is not None and probe_photos is not None
    taken_from = np.asarray(gallery_photos), np.asarray(probe_photos)
    rows = np.flatnonzero(_has_mate(subject, column, taken_from) if other else subject >= 0)
    if not len(rows):
        raise UsageError("No probe shows a person of the gallery: nothing can be recognised, or measured.")
    tally = _Tally(len(everyone), len(rows))
    named = np.full(len(subject), np.nan)
    for row, distance in _distances(train, gallery, np.asarray(gallery_subjects), probes, rows):
        if other:
            distance = np.where(taken_from[0] == taken_from[1][row], np.inf, distance)
        nearest = np.full(len(everyone), np.inf)
        np.minimum.at(nearest, column, distance)
        named[row] = tally.add(nearest, int(subject[row]))
    people = len(set(subject[rows].tolist()))
    cmc = tally.cmc
    rank1 = float(cmc[0])
    low, high = interval(rank1 * people, people)
    return Result(
        attack=attack,
        recogniser=recogniser,
        rank1=rank1,
        low=low,
        high=high,
        chance=1 / len(everyone),
        bound=1.0 if bound is None else bound,
        verdict=verdict(low, high, bound),
        probes=len(rows),
        gallery=len(everyone),
        people=people,
        tpr=tally.tpr,
        faceless=int((~_has_face(probes[rows])).sum()),
        cmc=cmc,
        named=named,
    )


def _distances(
    train: Train, gallery: NDArray[Any], subjects: NDArray[Any], probes: NDArray[Any], rows: IntArray
) -> Iterator[tuple[int, FloatArray]]:
    """Yield rows of the probes and their distances from the whole gallery, infinite without a face.

    Equal pictures are equally far to the last bit, which BLAS alone does not promise: of equal rows of
    the gallery, and of the probes, one is compared.
    """
    there = np.flatnonzero(_has_face(gallery))
    match = train(gallery[there], subjects[there]) if len(there) else None
    _, first, copies = np.unique(_rows(gallery[there]), return_index=True, return_inverse=True)
    _, unlike, which = np.unique(_rows(probes[rows]), return_index=True, return_inverse=True)
    alike = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    for start in range(0, len(unlike), _PROBE_BLOCK):
        codes = probes[rows[unlike[start : start + _PROBE_BLOCK]]]
        far = np.full((len(codes), len(gallery)), np.inf)
        good = _has_face(codes)
        if match is not None and good.any():
            far[np.ix_(good, there)] = match(codes[good])[:, first[copies]]
        for distance, same in zip(far, alike[start : start + _PROBE_BLOCK], strict=True):
            for row in rows[same].tolist():
                yield row, distance


def _has_mate(
    subject: IntArray, column: IntArray, photos: tuple[NDArray[Any], NDArray[Any]]
) -> NDArray[np.bool_]:
    """Return which probes have, in the gallery, another photo of their person."""
    gallery, probe = photos
    own: dict[int, set[Any]] = {}
    for person, photo in zip(column.tolist(), gallery.tolist(), strict=True):
        own.setdefault(person, set()).add(photo)
    return np.array(
        [bool(own.get(s, set()) - {p}) for s, p in zip(subject.tolist(), probe.tolist(), strict=True)], bool
    )


class _Tally:
    """Counts over probes that come one by one, so that no table of all pairs is held."""

    def __init__(self, people: int, probes: int) -> None:
        self.people = people
        self.places: Counter[tuple[int, int]] = Counter()  # people nearer than the right one, and as near
        self.accepted = int(FPR * probes * (people - 1))  # wrong pairs that may be accepted
        self.wrong = np.zeros(0)  # the nearest of the wrong pairs, one more than may be accepted
        self.right: list[float] = []

    def add(self, nearest: FloatArray, own: int) -> float:
        """Count one probe, given its distance from each person; return the chance that it is named."""
        closer, ties = int((nearest < nearest[own]).sum()), int((nearest == nearest[own]).sum())
        self.places[closer, ties] += 1
        self.right.append(float(nearest[own]))
        pool = np.concatenate([self.wrong, np.delete(nearest, own)])
        keep = self.accepted + 1
        self.wrong = np.partition(pool, keep - 1)[:keep] if len(pool) > keep else pool
        return 0.0 if closer else 1 / ties

    @property
    def cmc(self) -> FloatArray:
        """The cumulative match characteristic; ties are chance."""
        closer, ties = np.array(list(self.places)).T
        probes = np.array(list(self.places.values()))
        ranks = np.arange(1, min(self.people, MAX_RANK) + 1)
        hits = probes * np.clip((ranks[:, None] - closer) / ties, 0, 1)  # (ranks, places)
        # exact sums, or five times a fifth would be more than one, and a bound that holds be passed
        sums = np.array([math.fsum(row) for row in hits])
        curve: FloatArray = sums / probes.sum()
        return curve

    @property
    def tpr(self) -> float:
        """The share of right pairs nearer than all wrong pairs but those that may be accepted."""
        limit = np.sort(self.wrong)[-1] if len(self.wrong) > self.accepted else np.inf
        return float(np.mean(np.array(self.right) < limit))


def _has_face(codes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows are codes of a face."""
    if codes.dtype.kind != "f":
        return np.ones(len(codes), bool)
    found: NDArray[np.bool_] = ~np.isnan(codes).any(axis=1)
    return found


def _rows(codes: NDArray[Any]) -> NDArray[np.void]:
    """Return each row as one value, so that equal means equal to the last bit."""
    table = np.ascontiguousarray(codes)
    return table.view((np.void, table.itemsize * table.shape[1])).ravel()
