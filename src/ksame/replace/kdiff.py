"""k-Diff-furthest [S alg. 4-5]: move each cluster onto a far one, so that faces stay distinct."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.guarantee import Guarantee
from ksame.replace.centroid import as_codes, find_real_faces, row_means, subject_index
from ksame.replace.pairs import ClusterPair, UnassignedCodes, as_pair_k, maps_to_own

_MAX_TRIES = 10


def kdiff(
    codes: ArrayLike,
    k: int,
    *,
    subjects: ArrayLike | None = None,
    rng: RandomState = None,
    single: Literal["grow", "ball"] = "grow",
) -> tuple[FloatArray, Guarantee]:
    """Move every face by the difference of two distant cluster means: gamma - mu_c + mu_f [S 5.1].

    All photos of a subject move by the same vector, so that their differences are preserved.

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    k : int
        Greatest number of subjects in a cluster; 2k are needed.
    subjects : (n,) array, optional
        Subject of each face; by default every row is a distinct subject.
    rng : int, Generator or None
        Draws the start of each pair and the random vectors; None draws from the operating system.
    single : str
        Two clusters of one subject would swap real faces. ``grow`` forces one more member into the first
        [S alg. 5]; ``ball`` adds a random vector of at most a quarter of the distance [S 5.12].

    Returns
    -------
    new : (n, d) array
        The new codes; none equals an original.
    guarantee : Guarantee
        Wrong-map [S thm. 4] if these codes satisfy it, otherwise none. Never k-anonymity: an attacker
        who guesses the pair and its difference can reverse the move.

    Raises
    ------
    CannotGuarantee
        If there are fewer than 2k subjects, or so many equal codes that real faces cannot be avoided.

    Examples
    --------
    >>> new, guarantee = kdiff([[0.0], [1.0], [10.0], [12.0]], k=2, rng=0)
    >>> new.ravel().tolist(), guarantee.kind
    ([10.5, 11.5, -0.5, 1.5], 'wrong-map')
    """
    if single not in ("grow", "ball"):
        raise UsageError(f"single must be 'grow' or 'ball'. Got {single!r}.")
    x = as_codes(codes)
    subject = subject_index(subjects, len(x))
    gamma = row_means(x, subject).astype(x.dtype)  # (m, d)
    k = as_pair_k(k, len(gamma))
    generator = np.random.default_rng(rng)
    step, single_subjects = _displacements(gamma, k, generator, single)  # (m, d), (m,)
    step[single_subjects] += _random_in_ball(step[single_subjects], generator)
    new = _avoid_real_faces(_repair(step, x, subject, gamma), x, subject, generator)
    failed = maps_to_own(new, subject, x, subject)
    if failed.any():
        reason = f"wrong-map was attempted and fails for {failed.sum()} of {len(x)} faces"
        return new, Guarantee("none", assumptions=(reason,))
    return new, Guarantee("wrong-map")


def _displacements(
    x: FloatArray, k: int, rng: np.random.Generator, single: Literal["grow", "ball"]
) -> tuple[FloatArray, IntArray]:
    """Return each subject's displacement (m, d) and the subjects of single-member pairs [S alg. 4-5]."""
    unassigned = UnassignedCodes(x)
    step = np.empty_like(x)
    single_pairs: list[ClusterPair] = []
    while len(unassigned.remaining):
        pair = unassigned.take_pair(k, rng, no_overlap=True, grow_single=single == "grow")
        mu_c, mu_f = x[pair.c].mean(axis=0), x[pair.f].mean(axis=0)
        if len(pair.c) == len(pair.f) == 1:
            single_pairs.append(pair)
        if len(unassigned.remaining) <= (
            2 if single == "grow" else 1
        ):  # alg. 5 lines 7-16: too few for a pair
            rest = unassigned.take_rest()
            near_c = np.linalg.norm(x[rest] - mu_c, axis=1) < np.linalg.norm(x[rest] - mu_f, axis=1)
            pair = ClusterPair(np.append(pair.c, rest[near_c]), np.append(pair.f, rest[~near_c]))
        step[pair.c], step[pair.f] = mu_f - mu_c, mu_c - mu_f  # (5.1)
    return step, np.array(single_pairs, dtype=np.intp).ravel()


def _random_in_ball(step: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw random vectors, uniform in the balls of radius ||step|| / 4 [S 5.12]."""
    m, d = step.shape
    direction = rng.standard_normal((m, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    r = np.linalg.norm(step, axis=1, keepdims=True) / 4
    ball: FloatArray = r * rng.random((m, 1)) ** (1 / d) * direction
    return ball.astype(step.dtype)


def _repair(step: FloatArray, x: FloatArray, subject: IntArray, gamma: FloatArray) -> FloatArray:
    """Move subjects who still map to themselves with a near subject's cluster instead.

    Deviation: the paper leaves them; they are the last two of alg. 5, and subjects with unlike photos.
    """
    step = step.copy()
    for i in np.unique(subject[maps_to_own(x + step[subject], subject, x, subject)]):
        own = np.flatnonzero(subject == i)
        for other in np.argsort(np.linalg.norm(gamma - gamma[i], axis=1))[1 : 1 + _MAX_TRIES]:
            if not maps_to_own(x[own] + step[other], subject[own], x, subject).any():
                step[i] = step[other]
                break
    return step


def _avoid_real_faces(
    step: FloatArray, x: FloatArray, subject: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Return the new codes, with a random vector [S 5.12] added to those that equal an original.

    Deviation: the paper treats single-member pairs only; clusters of equal shape swap real faces too.
    """
    step = step.copy()
    for _ in range(_MAX_TRIES):
        new = x + step[subject]
        equal = np.unique(subject[find_real_faces(new, x)])
        if not len(equal):
            return new
        step[equal] += _random_in_ball(step[equal], rng)
    raise CannotGuarantee(
        "Some new faces would be real people's faces: remove photos that appear under several names."
    )
