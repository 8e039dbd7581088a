"""Score an attack: rank-1, CMC and TPR at a low FPR, with intervals and a verdict.

Three rules keep the figures honest. Ties are chance: among t equally near people the right one is
named once in t times, whatever the order of the files. An image in which no face was found counts
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
"""From probe embeddings (p, d) to their distances (p, g) from a gallery."""
Train = Callable[[NDArray[Any], NDArray[Any]], Match]
"""From gallery embeddings (g, d) and subjects (g,) to a ``Match``; a recogniser that learns does so here."""
Verdict = Literal["holds", "broken", "undecided"]

FPR = 1e-3  # false positive rate at which the true positive rate is reported
MAX_RANK = 100  # last rank of the CMC curve
_PROBE_BLOCK = 256  # probes matched at a time


@dataclass(frozen=True, eq=False)
class AttackResult:
    """What one attack with one recogniser achieved.

    Parameters
    ----------
    attack, recogniser : str
        Their names.
    rank1, low, high : float
        The re-identification rate: how often the first guess is right, with its 95 % interval
        (Clopper-Pearson, over people).
    chance : float
        The rate of random guessing: one over the people of the gallery.
    bound : float
        The bound that was promised; 1.0 where none was.
    verdict : str
        ``holds``: the whole interval is at or below the bound. ``broken``: all of it is above.
        ``undecided``: neither, or no bound was promised.
    probes, gallery : int
        Images that were attacked, and people in the gallery they were searched in.
    people : int
        Distinct people among the probes.
    tpr : float
        Share of genuine pairs accepted at the threshold that accepts one impostor pair in a thousand.
    faceless : int
        Probes in which no face was found: each counts as a guess.
    cmc : (r,) array
        The chance that the right person is among the first 1, 2, ... r.
    named : (p,) array
        The chance that each probe was named correctly; NaN for probes that were left out.
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
    """Return the Clopper-Pearson interval of a rate; hits may be fractions, because ties share one.

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
    """Return what an interval says about a bound; None: no bound was promised."""
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
) -> AttackResult:
    """Search the gallery for the person of each probe, and count.

    Parameters
    ----------
    train
        How the recogniser gets from a gallery to distances.
    gallery, probes : (g, d), (p, d) arrays
        Embeddings; a row of NaN is an image in which no face was found.
    gallery_subjects, probe_subjects : (g,), (p,)
        The person of each; probes of others are left out.
    attack, recogniser, bound
        For the result: names, and the bound that was promised.
    gallery_photos, probe_photos : optional
        With both, a probe is compared only with other photos than the one it was made from.
    """
    everyone, column, subject = _number_people(np.asarray(gallery_subjects), np.asarray(probe_subjects))
    other = gallery_photos is not None and probe_photos is not None
    taken_from = np.asarray(gallery_photos), np.asarray(probe_photos)
    rows = np.flatnonzero(_has_mate(subject, column, taken_from) if other else subject >= 0)
    if not len(rows):
        raise UsageError("No probe shows a person of the gallery: nothing can be measured.")
    tally, named = _Tally(len(everyone), len(rows)), np.full(len(subject), np.nan)
    for row, distance in _distances(train, gallery, np.asarray(gallery_subjects), probes, rows):
        if other:
            distance = np.where(taken_from[0] == taken_from[1][row], np.inf, distance)
        nearest = np.full(len(everyone), np.inf)
        np.minimum.at(nearest, column, distance)
        named[row] = tally.add(nearest, int(subject[row]))
    people, cmc = len(set(subject[rows].tolist())), tally.cmc
    low, high = interval(float(cmc[0]) * people, people)
    return AttackResult(
        attack=attack,
        recogniser=recogniser,
        rank1=float(cmc[0]),
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


def _number_people(gallery: NDArray[Any], probes: NDArray[Any]) -> tuple[NDArray[Any], IntArray, IntArray]:
    """Return the people of the gallery, and the number of each face's person; -1: not in the gallery."""
    everyone, column = np.unique(gallery, return_inverse=True)
    position = {name: i for i, name in enumerate(everyone.tolist())}
    subject = np.array([position.get(name, -1) for name in probes.tolist()], np.intp)
    return everyone, column, subject


def _distances(
    train: Train, gallery: NDArray[Any], subjects: NDArray[Any], probes: NDArray[Any], rows: IntArray
) -> Iterator[tuple[int, FloatArray]]:
    """Yield rows of the probes and their distances from the whole gallery, infinite without a face.

    Equal images must be equally far to the last bit, which BLAS alone does not guarantee: equal rows of the
    gallery, and of the probes, are compared once.
    """
    there = np.flatnonzero(_has_face(gallery))
    _, first, copies = np.unique(_as_bytes(gallery[there]), return_index=True, return_inverse=True)
    _, distinct, inverse = np.unique(_as_bytes(probes[rows]), return_index=True, return_inverse=True)
    equal = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
    match = train(gallery[there], subjects[there]) if len(there) else None
    for start in range(0, len(distinct), _PROBE_BLOCK):
        codes = probes[rows[distinct[start : start + _PROBE_BLOCK]]]
        distances = np.full((len(codes), len(gallery)), np.inf)
        has_face = _has_face(codes)
        if match is not None and has_face.any():
            distances[np.ix_(has_face, there)] = match(codes[has_face])[:, first[copies]]
        for distance, same in zip(distances, equal[start : start + _PROBE_BLOCK], strict=True):
            for row in rows[same].tolist():
                yield row, distance


def _has_mate(
    subject: IntArray, column: IntArray, photos: tuple[NDArray[Any], NDArray[Any]]
) -> NDArray[np.bool_]:
    """Return which probes have another photo of their person in the gallery."""
    gallery, probe = photos
    own: dict[int, set[Any]] = {}
    for person, photo in zip(column.tolist(), gallery.tolist(), strict=True):
        own.setdefault(person, set()).add(photo)
    return np.array(
        [bool(own.get(s, set()) - {p}) for s, p in zip(subject.tolist(), probe.tolist(), strict=True)], bool
    )


class _Tally:
    """Counts over probes that come one by one, so that the matrix of all pairs is never held."""

    def __init__(self, people: int, probes: int) -> None:
        self.people = people
        self.ranks: Counter[tuple[int, int]] = Counter()  # people nearer than the right one, and as near
        self.accepted = int(FPR * probes * (people - 1))  # impostor pairs that may be accepted
        self.impostor = np.zeros(0)  # the smallest impostor distances, one more than may be accepted
        self.genuine: list[float] = []

    def add(self, nearest: FloatArray, own: int) -> float:
        """Count one probe, given its distance from each person; return the chance that it is named."""
        nearer, ties = int((nearest < nearest[own]).sum()), int((nearest == nearest[own]).sum())
        self.ranks[nearer, ties] += 1
        self.genuine.append(float(nearest[own]))
        distances = np.concatenate([self.impostor, np.delete(nearest, own)])
        keep = self.accepted + 1
        self.impostor = np.partition(distances, keep - 1)[:keep] if len(distances) > keep else distances
        return 0.0 if nearer else 1 / ties

    @property
    def cmc(self) -> FloatArray:
        """The cumulative match characteristic; ties are chance."""
        nearer, ties = np.array(list(self.ranks)).T
        probes = np.array(list(self.ranks.values()))
        ranks = np.arange(1, min(self.people, MAX_RANK) + 1)
        hits = probes * np.clip((ranks[:, None] - nearer) / ties, 0, 1)  # (ranks, distinct ranks)
        # exact sums: five times a fifth must not exceed one, or a bound that holds would seem broken
        sums = np.array([math.fsum(row) for row in hits])
        curve: FloatArray = sums / probes.sum()
        return curve

    @property
    def tpr(self) -> float:
        """The share of genuine pairs nearer than all impostor pairs but those that may be accepted."""
        limit = np.sort(self.impostor)[-1] if len(self.impostor) > self.accepted else np.inf
        return float(np.mean(np.array(self.genuine) < limit))


def _has_face(codes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows are embeddings of a face."""
    if codes.dtype.kind != "f":
        return np.ones(len(codes), bool)
    found: NDArray[np.bool_] = ~np.isnan(codes).any(axis=1)
    return found


def _as_bytes(codes: NDArray[Any]) -> NDArray[np.void]:
    """Return each row as one value, so that equal means equal to the last bit."""
    table = np.ascontiguousarray(codes)
    return table.view((np.void, table.itemsize * table.shape[1])).ravel()
