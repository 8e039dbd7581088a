"""Attacks on groups: naming several people, and comparing two releases."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ksame.attack.arguments import check_several_people, resolve_bound
from ksame.attack.score import MAX_RANK, Result, interval, verdict
from ksame.core.errors import UsageError
from ksame.core.partition_type import Partition


def top_guesses(result: Result, guesses: int) -> Result:
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
    one, two = (
        _anonymity_sets(*release) for release in _as_releases(groups, other_groups, subjects, other_subjects)
    )
    both = [person for person in one if person in two]
    if not both:
        raise UsageError("The two releases have nobody in common: there is nothing to compare.")
    check_several_people(len(both))
    left = np.array([len(one[p] & two[p] & set(both)) for p in both])  # whom each of them can still be
    cmc = np.minimum(np.arange(1, min(len(both), MAX_RANK) + 1)[:, None] / left, 1).mean(axis=1)
    low, high = interval(float(cmc[0]) * len(both), len(both))
    promise = resolve_bound(bound, k)
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


def _as_releases(
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


def _anonymity_sets(groups: list[Any], subjects: list[Any]) -> dict[Any, set[Any]]:
    """Return for each person those who are in all of his groups."""
    members: dict[Any, set[Any]] = {}
    for label, person in zip(groups, subjects, strict=True):
        members.setdefault(label, set()).add(person)
    hiding: dict[Any, set[Any]] = {}
    for label, person in zip(groups, subjects, strict=True):
        hiding[person] = hiding.get(person, members[label]) & members[label]
    return hiding
