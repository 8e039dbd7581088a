"""The identity shift [S 7.3]: every person gets the difference between a made-up face and its new self.

It needs no other people: the pool stands in for them. So it serves the open set and video, where all
frames of a person move by one vector and so keep their expressions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.guarantee import Guarantee
from ksame.replace.codes import as_codes, person_index, row_means

POOL_SECRET_ASSUMPTION = (
    "nobody knows the pool: whoever has it can take each of its {} shifts back and look who appears"
)


def shift(
    codes: ArrayLike,
    pool_codes: ArrayLike,
    pool_shifted: ArrayLike,
    *,
    subjects: ArrayLike | None = None,
    nuisance: ArrayLike | None = None,
    used: ArrayLike | None = None,
    nearest_count: int = 1,
    rng: RandomState = None,
) -> tuple[FloatArray, Guarantee]:
    """Move every person by the shift of the nearest pool face: gamma' + gamma_hat_d - gamma_hat [S 7.3-7.4].

    Parameters
    ----------
    codes : (n, d) array
        One code gamma' per face or frame.
    pool_codes, pool_shifted : (p, d) arrays
        gamma_hat, faces of nobody, and gamma_hat_d, the same after k-Diff-furthest.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    nuisance : (d,) bool, optional
        Components of light and pose: they choose no pool face and are not moved [S 7.3.2].
    used, nearest_count, rng : see ``assign_identities``

    Returns
    -------
    new : (n, d) array
        The new codes: one shift per person, another for everybody.
    guarantee : Guarantee
        None, and what an attacker must not have. It is measured, not proved, that nobody is recognised.

    Raises
    ------
    CannotGuarantee
        If there are more people than free faces in the pool.

    Examples
    --------
    >>> frames, who = [[0.0], [0.5], [9.0]], ["A", "A", "B"]
    >>> new, guarantee = shift(frames, [[1.0], [8.0]], [[7.0], [2.0]], subjects=who)
    >>> new.ravel().tolist(), guarantee.kind
    ([6.0, 6.5, 3.0], 'none')
    """
    x = as_codes(codes)
    hat, hat_d = as_codes(pool_codes), as_codes(pool_shifted)
    if hat.shape != hat_d.shape or hat.shape[1] != x.shape[1]:
        raise UsageError(
            f"pool_codes and pool_shifted must both be (p, {x.shape[1]}). Got {hat.shape} and {hat_d.shape}."
        )
    still = _fixed_components(nuisance, x.shape[1])
    who = person_index(subjects, len(x))
    gamma = row_means(x, who)  # (m, d). Deviation: the thesis takes a person's first frame
    which = assign_identities(gamma, hat, nuisance=still, used=used, nearest_count=nearest_count, rng=rng)
    delta = np.where(still, 0, hat_d - hat)[which]  # (m, d): (7.4), light and pose stay [S 7.3.2]
    new = (x + delta[who]).astype(x.dtype)  # (7.3)
    return new, Guarantee("none", assumptions=(POOL_SECRET_ASSUMPTION.format(len(hat)),))


def assign_identities(
    people: ArrayLike,
    pool: ArrayLike,
    *,
    nuisance: ArrayLike | None = None,
    used: ArrayLike | None = None,
    nearest_count: int = 1,
    rng: RandomState = None,
) -> IntArray:
    """Return for each person the row of a pool face near to them, no row twice.

    The sum of squared distances is the least there is, so that it does not matter who comes first.

    Parameters
    ----------
    people, pool : (m, d), (p, d) arrays
        Mean codes of the people, and gamma_hat.
    nuisance : (d,) bool, optional
        Components that distances leave out.
    used : (p,) or (m, p) bool, optional
        Pool faces that are taken: for all, or for one person because they did not hide them.
    nearest_count : int
        Choose at random among so many nearest: the nearest one tells an attacker where the person's
        own face lies. Where people compete for them, further ones are taken.
    rng : int, Generator or None
        For ``nearest_count``; None is operating-system randomness.

    Examples
    --------
    >>> assign_identities([[0.0], [0.1]], [[0.0], [0.3], [9.0]]).tolist()
    [0, 1]
    >>> assign_identities([[0.0], [0.1]], [[0.0], [0.3], [9.0]], used=[True, False, False]).tolist()
    [1, 2]
    """
    gamma, hat = as_codes(people), as_codes(pool)
    still = _fixed_components(nuisance, gamma.shape[1])
    free = ~np.broadcast_to(np.asarray(False if used is None else used, dtype=bool), (len(gamma), len(hat)))
    if nearest_count < 1:
        raise UsageError(f"nearest_count must be at least 1. Got {nearest_count}.")
    cost: FloatArray = cdist(gamma[:, ~still], hat[:, ~still], "sqeuclidean")  # (m, p)
    if nearest_count > 1:
        cost = _any_of_the_nearest(cost, free, nearest_count, np.random.default_rng(rng))
    cost[~free] = np.inf
    if len(gamma) <= len(hat):
        try:
            return linear_sum_assignment(cost)[1].astype(np.intp)
        except ValueError:  # "cost matrix is infeasible"
            pass
    raise CannotGuarantee(
        f"The pool has too few free faces for {len(gamma)} people: build a larger one by `ksame pool build`."
    )


def _any_of_the_nearest(
    cost: FloatArray, free: NDArray[np.bool_], nearest_count: int, rng: np.random.Generator
) -> FloatArray:
    """Return costs (m, p) that are random, and below all others, for each person's nearest free faces."""
    rank = np.where(free, cost, np.inf).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    random = rng.random(cost.shape)
    mixed: FloatArray = np.where(
        rank < nearest_count, random, len(cost) + cost / max(float(cost.max()), 1e-300)
    )
    return mixed


def _fixed_components(nuisance: ArrayLike | None, d: int) -> NDArray[np.bool_]:
    """Return which components are left alone, checked."""
    still = np.zeros(d, bool) if nuisance is None else np.asarray(nuisance, dtype=bool)
    if still.shape != (d,) or still.all():
        raise UsageError(f"nuisance must mark some of {d} components, not all. Got {still.shape}.")
    return still
