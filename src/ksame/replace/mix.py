"""One face for a whole group as a weighted mean, with weights that heed a recogniser [A 3.4]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition
from ksame.replace.codes import as_codes, person_index, refuse_real_faces, row_means

MAX_SHARE = 0.9
"""No person has more of a mixed face than this: the rest would be that person's face with a tint."""

AtRisk = Callable[[FloatArray, IntArray], NDArray[Any]]
"""Given a surrogate (d,) and its group's rows (m,), say for each row whether it is recognised (m,)."""


class RiskWeights(NamedTuple):
    """The weights (n,) after risk assessment, and the rows that are still at risk; keep both private."""

    weights: FloatArray
    at_risk: IntArray


def mix(
    codes: ArrayLike,
    partition: Partition,
    *,
    weights: ArrayLike | None = None,
    random_weights: float | None = None,
    rng: RandomState = None,
    at_risk: AtRisk | None = None,
    beta: float = 0.05,
    rounds: int = 20,
) -> tuple[FloatArray, Guarantee]:
    """Replace every face by a weighted mean of its group's people [A eq. 1].

    Parameters
    ----------
    codes : (n, d) array
        One latent vector LV per face; a person's are averaged first.
    partition : Partition
        The groups, from ``ksame.partition``.
    weights : (n,) array, optional
        One w >= 0 per face, in any unit; a person weighs the mean of his faces. By default 1 / people.
    random_weights : float, optional
        delta: draw every person's w from (mean - delta, mean + delta) with mean = 1 / people, so that who
        repeats the method on the same photos (a parrot attack) gets other faces [A 5.1].
    rng : int, Generator or None
        For ``random_weights``; None is operating-system randomness.
    at_risk, beta, rounds
        Reduce weights by ``risk_weights`` first.

    Returns
    -------
    new : (n, d) array
        The new codes, constant to the last bit on each group.
    guarantee : Guarantee
        k-anonymity with the partition's bound: it rests on the groups and not on the weights. Who could
        not be brought out of risk is counted among its assumptions.

    Raises
    ------
    CannotGuarantee
        If one person has more than ``MAX_SHARE`` of a face, or a surrogate is a real face up to rounding.

    Examples
    --------
    >>> new, guarantee = mix([[0.0], [4.0]], Partition([0, 0], k=2), weights=[3, 1])
    >>> new.ravel().tolist(), guarantee.kind
    ([1.0, 1.0], 'k-anonymity')
    """
    x = as_codes(codes, len(partition.labels))
    if weights is not None and random_weights is not None:
        raise UsageError("Give weights or random_weights, not both.")
    if random_weights is not None:
        weights = _draw(partition, random_weights, np.random.default_rng(rng))
    notes: tuple[str, ...] = ()
    if at_risk is not None:
        weights, stuck = risk_weights(x, partition, at_risk, weights=weights, beta=beta, rounds=rounds)
        if len(stuck):
            notes = (f"{len(stuck)} of {len(x)} faces stayed at risk of recognition whatever their weight",)
    who, group, w = _per_person(partition, weights)
    mixed = row_means(row_means(x, who), group, w).astype(x.dtype)  # (groups, d)
    refuse_real_faces(mixed, x)
    return mixed[partition.labels], Guarantee("k-anonymity", partition.k, partition.bound, assumptions=notes)


def risk_weights(
    codes: ArrayLike,
    partition: Partition,
    at_risk: AtRisk,
    *,
    weights: ArrayLike | None = None,
    beta: float = 0.05,
    rounds: int = 20,
) -> RiskWeights:
    """Reduce the weight of people whom a recogniser finds in the mixed face until it finds none [A 3.4].

    Parameters
    ----------
    codes, partition, weights
        As for ``mix``.
    at_risk : callable
        Given a group's mixed code (d,) and its rows (m,), it says for each row whether it is recognised,
        for instance by synthesising the face and comparing with 0.6 for dlib. One photo at risk puts the
        person at risk.
    beta : float
        What is taken from a weight in a round, as a share of the group's total.
        Deviation: no weight goes below 0, where the mixed face would be pushed away from the person.
    rounds : int
        Most rounds in a group. It also ends where one person would have more than ``MAX_SHARE``.

    Examples
    --------
    >>> faces = np.array([[0.0], [4.0]])
    >>> near = lambda code, rows: abs(faces[rows, 0] - code[0]) < 1.5
    >>> weights, still = risk_weights(faces, Partition([0, 0], k=2), near, weights=[3, 1])
    >>> weights.round(2).tolist(), still.tolist()
    ([0.62, 0.38], [])
    """
    if not (0 < beta < 1 and rounds >= 1):
        raise UsageError(f"beta must be in (0, 1) and rounds at least 1. Got {beta} and {rounds}.")
    x = as_codes(codes, len(partition.labels))
    who, _, w = _per_person(partition, weights)
    means = row_means(x, who)
    stuck: list[IntArray] = []

    def found(rows: IntArray, members: IntArray) -> IntArray:
        mixed = (w[members] @ means[members]).astype(x.dtype)  # (people,) @ (people, d) [A eq. 1]
        return np.unique(who[rows[np.asarray(at_risk(mixed, rows), dtype=bool)]])

    for rows in partition.groups:
        members = np.unique(who[rows])
        risky = found(rows, members)
        for _ in range(rounds):
            less = np.where(np.isin(members, risky), np.maximum(w[members] - beta, 0), w[members])
            if not len(risky) or less.max() >= MAX_SHARE * less.sum():
                break
            w[members] = less / less.sum()
            risky = found(rows, members)
        stuck.append(rows[np.isin(who[rows], risky)])
    return RiskWeights(w[who], np.sort(np.concatenate(stuck)))


def _per_person(partition: Partition, weights: ArrayLike | None) -> tuple[IntArray, IntArray, FloatArray]:
    """Return each face's person (n,), each person's group (m,) and weight (m,), 1 in sum on each group."""
    n = len(partition.labels)
    who = person_index(partition.subjects, n)
    given = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (n,) or not np.isfinite(given).all() or given.min() < 0:
        raise UsageError(f"weights must be {n} finite numbers of at least 0, one per face.")
    group = partition.labels[np.unique(who, return_index=True)[1]]
    w = row_means(given[:, None], who)[:, 0]
    total = np.bincount(group, w)[group]
    if (w > MAX_SHARE * total).any() or not total.all():
        raise CannotGuarantee(
            f"One person would have more than {MAX_SHARE:.0%} of a mixed face, or nobody anything of it:"
            " give weights that are less far apart."
        )
    return who, group, w / total


def _draw(partition: Partition, delta: float, rng: np.random.Generator) -> FloatArray:
    """Return weights (n,) from (mean - delta, mean + delta), the same for all photos of a person."""
    most = 0.8 / float(partition.people.max())  # so that nobody can be drawn above MAX_SHARE
    if not 0 < delta <= most:
        raise UsageError(
            f"random_weights must be above 0 and at most {most:.3g}, which is 0.8 of the mean weight in"
            f" the largest group. Got {delta}."
        )
    who = person_index(partition.subjects, len(partition.labels))
    drawn = rng.uniform(-delta, delta, size=int(who.max()) + 1)[who]
    return drawn + (1 / partition.people)[partition.labels]
