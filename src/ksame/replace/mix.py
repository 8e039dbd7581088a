"""Replace each group by a weighted mean face, with weights adjusted by a recogniser [A 3.4]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition
from ksame.replace.centroid import as_codes, refuse_real_faces, row_means, subject_index

MAX_WEIGHT_SHARE = 0.9
"""Greatest weight of one subject in a mixed face; above it the face is nearly that subject's own."""

AtRiskCallback = Callable[[FloatArray, IntArray], NDArray[Any]]
"""Given a surrogate (d,) and its group's rows (m,), return for each row whether it is recognised (m,)."""


class RiskWeights(NamedTuple):
    """The weights (n,) after risk assessment and the rows still at risk; keep both private."""

    weights: FloatArray
    at_risk: IntArray


def mix(
    codes: ArrayLike,
    partition: Partition,
    *,
    weights: ArrayLike | None = None,
    random_weights: float | None = None,
    rng: RandomState = None,
    at_risk: AtRiskCallback | None = None,
    beta: float = 0.05,
    rounds: int = 20,
) -> tuple[FloatArray, Guarantee]:
    """Replace every face by a weighted mean of its group's subjects [A eq. 1].

    Parameters
    ----------
    codes : (n, d) array
        One latent vector LV per face; those of a subject are averaged first.
    partition : Partition
        The groups, from ``ksame.partition``.
    weights : (n,) array, optional
        One w >= 0 per face, in any unit; a subject has the mean weight of the faces. By default equal.
    random_weights : float, optional
        delta: draw every subject's w from (mean - delta, mean + delta), where mean = 1 / subjects, so that
        repeating the method on the same photos (parrot attack) yields other faces [A 5.1].
    rng, at_risk, beta, rounds
        Source of ``random_weights``; arguments of ``risk_weights``, which reduces weights first.

    Returns
    -------
    (n, d) array, Guarantee
        The new codes, constant to the last bit on each group, and k-anonymity with the partition's bound,
        which does not depend on the weights. Its assumptions count the faces that stay at risk.

    Raises
    ------
    CannotGuarantee
        If a subject exceeds ``MAX_WEIGHT_SHARE`` of a face, or a surrogate equals a real face.

    Examples
    --------
    >>> new, guarantee = mix([[0.0], [4.0]], Partition([0, 0], k=2), weights=[3, 1])
    >>> new.ravel().tolist(), guarantee.kind
    ([1.0, 1.0], 'k-anonymity')
    """
    x = as_codes(codes, len(partition.labels))
    subject = subject_index(partition.subjects, len(x))
    if random_weights is not None:
        if weights is not None:
            raise UsageError("Give weights or random_weights, not both.")
        weights = _draw_weights(partition, subject, random_weights, np.random.default_rng(rng))
    notes: tuple[str, ...] = ()
    if at_risk is not None:
        weights, stuck = risk_weights(x, partition, at_risk, weights=weights, beta=beta, rounds=rounds)
        if len(stuck):
            notes = (f"{len(stuck)} of {len(x)} faces stayed at risk of recognition at any weight",)
    group, w = _weights_per_subject(partition, subject, weights)
    mixed = row_means(row_means(x, subject), group, w).astype(x.dtype)  # (groups, d)
    refuse_real_faces(mixed, x)
    return mixed[partition.labels], Guarantee("k-anonymity", partition.k, partition.bound, assumptions=notes)


def risk_weights(
    codes: ArrayLike,
    partition: Partition,
    at_risk: AtRiskCallback,
    *,
    weights: ArrayLike | None = None,
    beta: float = 0.05,
    rounds: int = 20,
) -> RiskWeights:
    """Reduce the weights of subjects that a recogniser finds in the mixed face [A 3.4].

    Parameters
    ----------
    codes, partition, weights
        As for ``mix``.
    at_risk : callable
        Given a group's mixed code (d,) and its rows (m,), return for each row whether it is recognised,
        for instance by synthesising the face and comparing with 0.6 for dlib. One photo at risk puts the
        subject at risk.
    beta : float
        Reduction of a weight per round, as a share of the group's total.
        Deviation: no weight goes below 0, where the mixed face would move away from the subject.
    rounds : int
        Greatest number of rounds per group. Also stops before a subject exceeds ``MAX_WEIGHT_SHARE``.

    Examples
    --------
    >>> faces = np.array([[0.0], [4.0]])
    >>> near = lambda code, rows: abs(faces[rows, 0] - code[0]) < 1.5
    >>> weights, at_risk = risk_weights(faces, Partition([0, 0], k=2), near, weights=[3, 1])
    >>> weights.round(2).tolist(), at_risk.tolist()
    ([0.62, 0.38], [])
    """
    if not (0 < beta < 1 and rounds >= 1):
        raise UsageError(f"beta must be in (0, 1) and rounds at least 1. Got {beta} and {rounds}.")
    x = as_codes(codes, len(partition.labels))
    subject = subject_index(partition.subjects, len(x))
    _, w = _weights_per_subject(partition, subject, weights)
    means = row_means(x, subject)
    stuck: list[IntArray] = []

    def find_recognised(rows: IntArray, members: IntArray) -> IntArray:
        mixed = (w[members] @ means[members]).astype(x.dtype)  # (subjects,) @ (subjects, d) [A eq. 1]
        return np.unique(subject[rows[np.asarray(at_risk(mixed, rows), dtype=bool)]])

    for rows in partition.groups:
        members = np.unique(subject[rows])
        recognised = find_recognised(rows, members)
        for _ in range(rounds):
            reduced = np.where(np.isin(members, recognised), np.maximum(w[members] - beta, 0), w[members])
            if not len(recognised) or reduced.max() >= MAX_WEIGHT_SHARE * reduced.sum():
                break
            w[members] = reduced / reduced.sum()
            recognised = find_recognised(rows, members)
        stuck.append(rows[np.isin(subject[rows], recognised)])
    return RiskWeights(w[subject], np.sort(np.concatenate(stuck)))


def _weights_per_subject(
    partition: Partition, subject: IntArray, weights: ArrayLike | None
) -> tuple[IntArray, FloatArray]:
    """Return each subject's group (m,) and weight (m,), which sum to 1 in each group."""
    n = len(partition.labels)
    given = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (n,) or not np.isfinite(given).all() or given.min() < 0:
        raise UsageError(f"weights must be {n} finite numbers of at least 0, one per face.")
    group = partition.labels[np.unique(subject, return_index=True)[1]]
    w = row_means(given[:, None], subject)[:, 0]
    total = np.bincount(group, w)[group]
    if (w > MAX_WEIGHT_SHARE * total).any() or not total.all():
        raise CannotGuarantee(
            f"One subject would have more than {MAX_WEIGHT_SHARE:.0%} of a mixed face, or all weights of a"
            " group are 0: give weights that differ less."
        )
    return group, w / total


def _draw_weights(
    partition: Partition, subject: IntArray, delta: float, rng: np.random.Generator
) -> FloatArray:
    """Draw weights (n,) from (mean - delta, mean + delta), the same for all photos of a subject."""
    limit = 0.8 / float(partition.people.max())  # keeps every weight below MAX_WEIGHT_SHARE
    if not 0 < delta <= limit:
        raise UsageError(
            f"random_weights must be above 0 and at most {limit:.3g}, which is 0.8 of the mean weight in"
            f" the largest group. Got {delta}."
        )
    drawn = rng.uniform(-delta, delta, size=int(subject.max()) + 1)[subject]
    return drawn + (1 / partition.people)[partition.labels]
