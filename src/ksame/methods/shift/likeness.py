"""Apparent gender, age and skin of people and pool faces, and in which order faces are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.faces import FaceView
from ksame.core.geometry import register, to_frame, transform
from ksame.core.parallel import map_pairs
from ksame.methods.shift.margin import Embeddings, margin_to_original
from ksame.methods.shift.pool import Pool
from ksame.models import attributes, weights
from ksame.spaces import AppearanceSpace

DISSIMILAR_POOL_SHARES = (
    0.4,
    0.7,
)  # shares of a pool's women or men, least like a person first: they are tried in this order
# How far a woman is from a man, 20 years from none, and a light face from a dark one, in usual distances
GENDER_WEIGHT, AGE_WEIGHT, SKIN_WEIGHT = 10.0, 2.0, 2.0
SKIN_GREY_LEVELS = 50.0  # of grey from dark to light
# How surely somebody must be taken for a man to get a face of either gender. Of 142 people of london/ and
# canada/ at three sizes, 8 men and 1 woman were seen from 0.5 to 0.75, 2 men and 3 women from 0.25 to 0.5.
UNSURE_GENDER_RANGE = 0.25, 0.5


def apparent_attributes(views: Sequence[FaceView]) -> FloatArray:
    """Return how male and how young (2,) somebody looks, as a pool's labels say it.

    0 is unsure, which is as near to a woman as to a man; NaN is unknown: the network is not here.
    """
    male = young = np.nan
    if weights.cached("gender"):
        score = gender_probability(views)
        male = float(score >= UNSURE_GENDER_RANGE[1]) - float(score <= UNSURE_GENDER_RANGE[0])
    if weights.cached("age"):
        young = float(np.clip((50 - np.median(_predict_views(attributes.predict_age, views))) / 20, -1, 1))
    return np.array([male, young])


def gender_probability(views: Sequence[FaceView]) -> float:
    """Return how surely somebody is taken for a man, from 0 to 1."""
    return float(_predict_views(attributes.predict_gender_score, views).mean())


def _predict_views(
    guess: Callable[[NDArray[np.uint8], FloatArray], FloatArray], views: Sequence[FaceView]
) -> FloatArray:
    """Return what a network guesses (n,) of some views, one by one: together they would take 70 MB."""

    def of(view: FaceView) -> FloatArray:
        points = transform(to_frame(view.points), view.points)
        return guess(register(view.rgb, view.points)[None], points[None])

    return np.concatenate(map_pairs(of, views))


def with_attribute_codes(
    gammas: Sequence[Sequence[FloatArray]],
    attribute_codes: Sequence[FloatArray],
    pool: Pool,
    model: AppearanceSpace,
) -> tuple[FloatArray, FloatArray]:
    """Return codes (m, d + 3) of people and (p, d + 3) of a pool, in which looks are far apart.

    So the nearest are those of the same gender and age and in as much light as the person's lightest view,
    and others come only where there are no more of them. A dark picture that is drawn light looks harsh.
    """
    usual = float(np.linalg.norm(pool.codes - pool.codes.mean(axis=0), axis=1).mean())
    textured = slice(len(model.shape_axes), len(model.nuisance))
    lighter = np.asarray(model.texture_axes, np.float64).mean(axis=1) / SKIN_GREY_LEVELS  # (d_t,)
    most = [max(float(code[textured] @ lighter) for code in own) for own in gammas]
    gamma = np.array([np.mean(own, axis=0) for own in gammas])
    seen = np.column_stack([np.stack(attribute_codes), most])
    theirs = np.column_stack([pool.labels[:, :2], pool.codes[:, textured] @ lighter])
    much = np.where(np.isnan(seen).any(axis=0), 0, usual * np.array([GENDER_WEIGHT, AGE_WEIGHT, SKIN_WEIGHT]))
    return np.hstack([gamma, much * np.nan_to_num(seen)]), np.hstack([pool.codes, much * theirs])


def trial_order(old: Embeddings, pool: Pool) -> IntArray:
    """Return whose turn (m,) it is to be tried on a person: 0 of the women and men who are least alike, ...

    On a person faces are nearer to the old one than beside it, but in much the same order; so fewer need be
    tried, and those that are hide better.
    """
    turns = np.zeros(len(pool), np.intp)
    if not pool.seen.keys() & old.keys():
        return turns
    faces = ({name: codes[[row]] for name, codes in pool.seen.items()} for row in range(len(pool)))
    far, male = np.array([margin_to_original(face, old) for face in faces]), pool.labels[:, 0] > 0
    for some in (male, ~male):
        place = np.argsort(np.argsort(-far[some])) / max(int(some.sum()), 1)  # 0: least alike
        turns[some] = np.searchsorted(DISSIMILAR_POOL_SHARES, place, side="right")
    return turns
