"""Identity shift [S 7.3]: move every subject by the difference between two synthetic faces of a pool.

It needs no other subjects, so it works for open sets and for video, where all frames of a subject
move by one vector and keep their expressions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.guarantee import Guarantee
from ksame.replace.centroid import as_codes, row_means, subject_index

POOL_SECRET_ASSUMPTION = "the pool is secret: with it, an attacker can try to reverse each of its {} shifts"


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
    """Move every subject by the shift of the nearest pool face: gamma' + gamma_hat_d - gamma_hat [S 7.3-7.4].

    Parameters
    ----------
    codes : (n, d) array
        One code gamma' per face or frame.
    pool_codes, pool_shifted : (p, d) arrays
        gamma_hat, synthetic faces, and gamma_hat_d, the same faces after k-Diff-furthest.
    subjects : (n,) array, optional
        Subject of each face; by default every row is a distinct subject.
    nuisance : (d,) bool, optional
        Components of light and pose: ignored when choosing a pool face and not moved [S 7.3.2].
    used, nearest_count, rng : see ``assign_identities``

    Returns
    -------
    new : (n, d) array
        The new codes; each subject has a shift of their own.
    guarantee : Guarantee
        None, with the secrecy of the pool as an assumption. Protection is measured and not proved.

    Raises
    ------
    CannotGuarantee
        If there are more subjects than free faces in the pool.

    Examples
    --------
    >>> frames, subjects = [[0.0], [0.5], [9.0]], ["A", "A", "B"]
    >>> new, guarantee = shift(frames, [[1.0], [8.0]], [[7.0], [2.0]], subjects=subjects)
    >>> new.ravel().tolist(), guarantee.kind
    ([6.0, 6.5, 3.0], 'none')
    """
    x = as_codes(codes)
    hat, hat_d = as_codes(pool_codes), as_codes(pool_shifted)
    if hat.shape != hat_d.shape or hat.shape[1] != x.shape[1]:
        raise UsageError(
            f"pool_codes and pool_shifted must both be (p, {x.shape[1]}). Got {hat.shape} and {hat_d.shape}."
        )
    fixed = _check_nuisance(nuisance, x.shape[1])
    subject = subject_index(subjects, len(x))
    gamma = row_means(x, subject)  # (m, d). Deviation: the thesis takes a subject's first frame
    assigned = assign_identities(gamma, hat, nuisance=fixed, used=used, nearest_count=nearest_count, rng=rng)
    delta = np.where(fixed, 0, hat_d - hat)[assigned]  # (m, d): (7.4), light and pose are kept [S 7.3.2]
    new = (x + delta[subject]).astype(x.dtype)  # (7.3)
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
    """Assign each subject a distinct pool face near to them; return the rows of the pool.

    The sum of squared distances is minimal, so the result does not depend on the order of subjects.

    Parameters
    ----------
    people, pool : (m, d), (p, d) arrays
        Mean codes of the subjects, and gamma_hat.
    nuisance : (d,) bool, optional
        Components that distances ignore.
    used : (p,) or (m, p) bool, optional
        Pool faces that are not available, to all subjects or to one (after they failed to protect it).
    nearest_count : int
        Choose at random among this many nearest faces: the nearest one would reveal to an attacker
        where the subject's own face lies. Where subjects compete, further ones are assigned.
    rng : int, Generator or None
        For ``nearest_count``; None draws from the operating system.

    Examples
    --------
    >>> assign_identities([[0.0], [0.1]], [[0.0], [0.3], [9.0]]).tolist()
    [0, 1]
    >>> assign_identities([[0.0], [0.1]], [[0.0], [0.3], [9.0]], used=[True, False, False]).tolist()
    [1, 2]
    """
    gamma, hat = as_codes(people), as_codes(pool)
    fixed = _check_nuisance(nuisance, gamma.shape[1])
    free = ~np.broadcast_to(np.asarray(False if used is None else used, dtype=bool), (len(gamma), len(hat)))
    if nearest_count < 1:
        raise UsageError(f"nearest_count must be at least 1. Got {nearest_count}.")
    cost: FloatArray = cdist(gamma[:, ~fixed], hat[:, ~fixed], "sqeuclidean")  # (m, p)
    if nearest_count > 1:
        cost = _randomise_nearest(cost, free, nearest_count, np.random.default_rng(rng))
    cost[~free] = np.inf
    if len(gamma) <= len(hat):
        try:
            return linear_sum_assignment(cost)[1].astype(np.intp)
        except ValueError:  # "cost matrix is infeasible"
            pass
    raise CannotGuarantee(
        f"The pool has too few free faces for {len(gamma)} subjects: build a larger one (ksame pool build)."
    )


def _randomise_nearest(
    cost: FloatArray, free: NDArray[np.bool_], nearest_count: int, rng: np.random.Generator
) -> FloatArray:
    """Return costs (m, p) in which each subject's nearest free faces get random costs below all others."""
    rank = np.where(free, cost, np.inf).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    random = rng.random(cost.shape)
    mixed: FloatArray = np.where(
        rank < nearest_count, random, len(cost) + cost / max(float(cost.max()), 1e-300)
    )
    return mixed


def _check_nuisance(nuisance: ArrayLike | None, d: int) -> NDArray[np.bool_]:
    """Return the checked mask of components that stay fixed."""
    fixed = np.zeros(d, bool) if nuisance is None else np.asarray(nuisance, dtype=bool)
    if fixed.shape != (d,) or fixed.all():
        raise UsageError(f"nuisance must mark some of {d} components, not all. Got {fixed.shape}.")
    return fixed
