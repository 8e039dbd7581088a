"""Compare apparent gender, age and skin of people and pool faces, and order pool faces for trial."""

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
from ksame.models import attributes as attribute_models
from ksame.models import weights as weight_files
from ksame.spaces import AppearanceSpace

DISSIMILAR_POOL_SHARES = (0.4, 0.7)  # tiers of a pool's women or men, the least similar tried first
# Distances of a woman and a man, of 20 years, and of a light and a dark face, in mean distances of the pool
GENDER_WEIGHT, AGE_WEIGHT, SKIN_WEIGHT = 10.0, 2.0, 2.0
SKIN_GREY_LEVELS = 50.0  # from dark to light skin
# Probabilities of "male" between which a face of either gender is assigned. Of 142 people of london/ and
# canada/ at three sizes, 8 men and 1 woman scored from 0.5 to 0.75, 2 men and 3 women from 0.25 to 0.5.
UNSURE_GENDER_RANGE = 0.25, 0.5


def apparent_attributes(views: Sequence[FaceView]) -> FloatArray:
    """Return the apparent gender (male) and youth (2,) of a person, on the scale of a pool's labels.

    0 is uncertain, equally far from women and men; NaN is unknown, when the model is not available.
    """
    male = young = np.nan
    if weight_files.cached("gender"):
        score = gender_probability(views)
        male = float(score >= UNSURE_GENDER_RANGE[1]) - float(score <= UNSURE_GENDER_RANGE[0])
    if weight_files.cached("age"):
        young = float(
            np.clip((50 - np.median(_predict_views(attribute_models.predict_age, views))) / 20, -1, 1)
        )
    return np.array([male, young])


def gender_probability(views: Sequence[FaceView]) -> float:
    """Return the mean predicted probability that a person is male."""
    return float(_predict_views(attribute_models.predict_gender_score, views).mean())


def _predict_views(
    predict: Callable[[NDArray[np.uint8], FloatArray], FloatArray], views: Sequence[FaceView]
) -> FloatArray:
    """Return predictions (n,) for views, one view at a time: together they would take 70 MB."""

    def predict_view(view: FaceView) -> FloatArray:
        points = transform(to_frame(view.points), view.points)
        return predict(register(view.rgb, view.points)[None], points[None])

    return np.concatenate(map_pairs(predict_view, views))


def with_attribute_codes(
    gammas: Sequence[Sequence[FloatArray]],
    attribute_codes: Sequence[FloatArray],
    pool: Pool,
    model: AppearanceSpace,
) -> tuple[FloatArray, FloatArray]:
    """Append weighted attributes to the codes of people (m, d + 3) and of a pool (p, d + 3).

    The nearest pool faces are then those of the same gender and age, and as light as the person's lightest
    view; others follow only when these are exhausted. A dark image drawn lighter has too much contrast.
    """
    mean_distance = float(np.linalg.norm(pool.codes - pool.codes.mean(axis=0), axis=1).mean())
    textured = slice(len(model.shape_axes), len(model.nuisance))
    lighter = np.asarray(model.texture_axes, np.float64).mean(axis=1) / SKIN_GREY_LEVELS  # (d_t,)
    lightest = [max(float(code[textured] @ lighter) for code in own) for own in gammas]
    gamma = np.array([np.mean(own, axis=0) for own in gammas])
    attributes = np.column_stack([np.stack(attribute_codes), lightest])
    pool_attributes = np.column_stack([pool.labels[:, :2], pool.codes[:, textured] @ lighter])
    weights = mean_distance * np.array([GENDER_WEIGHT, AGE_WEIGHT, SKIN_WEIGHT])
    weights = np.where(np.isnan(attributes).any(axis=0), 0, weights)
    people_codes = np.hstack([gamma, weights * np.nan_to_num(attributes)])
    return people_codes, np.hstack([pool.codes, weights * pool_attributes])


def dissimilarity_tiers(old: Embeddings, pool: Pool) -> IntArray:
    """Return the tier (m,) of each pool face for a person: 0 for the least similar women and men, and so on.

    Drawn on a person, faces are nearer to the original than on their own, but in nearly the same order; so
    fewer need to be tried, and those that are tried protect better.
    """
    tiers = np.zeros(len(pool), np.intp)
    if not pool.seen.keys() & old.keys():
        return tiers
    faces = ({name: codes[[row]] for name, codes in pool.seen.items()} for row in range(len(pool)))
    margin, male = np.array([margin_to_original(face, old) for face in faces]), pool.labels[:, 0] > 0
    for group in (male, ~male):
        rank = np.argsort(np.argsort(-margin[group])) / max(int(group.sum()), 1)  # 0: least similar
        tiers[group] = np.searchsorted(DISSIMILAR_POOL_SHARES, rank, side="right")
    return tiers
