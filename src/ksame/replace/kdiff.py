"""k-Diff-furthest [S alg. 4-5]: each cluster is moved onto the one far away, faces stay distinct."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.guarantee import Guarantee
from ksame.replace.codes import as_codes, person_index, real_faces, row_means
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
    """Move every face by the difference of two far cluster means: gamma - mu_c + mu_f [S 5.1].

    All photos of a person move by the same vector, so that they stay as alike as they were.

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    k : int
        Most people in a cluster; 2k are needed.
    subjects : (n,) array, optional
        Who each face is; by default every row is another person.
    rng : int, Generator or None
        The faces that start a pair and the random vectors; None is operating-system randomness.
    single : str
        Two clusters of one person would swap real faces. ``grow`` forces one more member into the first
        [S alg. 5]; ``ball`` adds a random vector of at most a quarter of the distance [S 5.12].

    Returns
    -------
    new : (n, d) array
        The new codes; none is an original.
    guarantee : Guarantee
        Wrong-map [S thm. 4] if it was found true of these codes, otherwise none. Never k-anonymity:
        whoever guesses the pair and its difference can take the step back.

    Raises
    ------
    CannotGuarantee
        If there are fewer than 2k people, or so many equal codes that real faces cannot be avoided.

    Examples
    --------
    >>> new, guarantee = kdiff([[0.0], [1.0], [10.0], [12.0]], k=2, rng=0)
    >>> new.ravel().tolist(), guarantee.kind
    ([10.5, 11.5, -0.5, 1.5], 'wrong-map')
    """
    if single not in ("grow", "ball"):
        raise UsageError(f"single must be 'grow' or 'ball'. Got {single!r}.")
    x = as_codes(codes)
    who = person_index(subjects, len(x))
    people = row_means(x, who).astype(x.dtype)  # (m, d)
    k = as_pair_k(k, len(people))
    source = np.random.default_rng(rng)
    step, lone = _steps(people, k, source, single)  # (m, d), (m,)
    step[lone] += _random_in_ball(step[lone], source)
    new = _off_real_faces(_repair(step, x, who, people), x, who, source)
    home = maps_to_own(new, who, x, who)
    if home.any():
        reason = f"wrong-map was tried for and fails for {home.sum()} of {len(x)} faces"
        return new, Guarantee("none", assumptions=(reason,))
    return new, Guarantee("wrong-map")


def _steps(
    x: FloatArray, k: int, rng: np.random.Generator, single: Literal["grow", "ball"]
) -> tuple[FloatArray, IntArray]:
    """Return how far each person moves (m, d), and who would swap faces with one other [S alg. 4-5]."""
    gamma = UnassignedCodes(x)
    step = np.empty_like(x)
    lone: list[ClusterPair] = []
    while len(gamma.left):
        pair = gamma.pair(k, rng, apart=True, no_single=single == "grow")
        mu_c, mu_f = x[pair.c].mean(axis=0), x[pair.f].mean(axis=0)
        if len(pair.c) == len(pair.f) == 1:
            lone.append(pair)
        if len(gamma.left) <= (2 if single == "grow" else 1):  # alg. 5 lines 7-16: too few for a pair
            rest = gamma.rest()
            near_c = np.linalg.norm(x[rest] - mu_c, axis=1) < np.linalg.norm(x[rest] - mu_f, axis=1)
            pair = ClusterPair(np.append(pair.c, rest[near_c]), np.append(pair.f, rest[~near_c]))
        step[pair.c], step[pair.f] = mu_f - mu_c, mu_c - mu_f  # (5.1)
    return step, np.array(lone, dtype=np.intp).ravel()


def _random_in_ball(step: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return random vectors, uniform in the balls of radius ||step|| / 4 [S 5.12]."""
    m, d = step.shape
    direction = rng.standard_normal((m, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    r = np.linalg.norm(step, axis=1, keepdims=True) / 4
    ball: FloatArray = r * rng.random((m, 1)) ** (1 / d) * direction
    return ball.astype(step.dtype)


def _repair(step: FloatArray, x: FloatArray, who: IntArray, people: FloatArray) -> FloatArray:
    """Let those whom a matcher would still find move with the cluster of somebody near instead.

    Deviation: the paper leaves them; they are the last two of alg. 5, and people with unlike photos.
    """
    step = step.copy()
    for person in np.unique(who[maps_to_own(x + step[who], who, x, who)]):
        own = np.flatnonzero(who == person)
        for other in np.argsort(np.linalg.norm(people - people[person], axis=1))[1 : 1 + _MAX_TRIES]:
            if not maps_to_own(x[own] + step[other], who[own], x, who).any():
                step[person] = step[other]
                break
    return step


def _off_real_faces(step: FloatArray, x: FloatArray, who: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return the new codes, after a random vector [S 5.12] for those that land on an original.

    Deviation: the paper cures single-member pairs only; clusters of like form swap real faces as well.
    """
    step = step.copy()
    for _ in range(_MAX_TRIES):
        new = x + step[who]
        hit = np.unique(who[real_faces(new, x)])
        if not len(hit):
            return new
        step[hit] += _random_in_ball(step[hit], rng)
    raise CannotGuarantee(
        "Some new faces would be real people's: remove photos that are there under several names."
    )
