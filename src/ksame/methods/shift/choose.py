"""Choose a synthetic identity that verifiers match neither to the original nor to anyone else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np

from ksame.core.arrays import RandomState
from ksame.core.faces import FaceView
from ksame.core.geometry import eye_distance_and_turn
from ksame.core.parallel import map_pairs
from ksame.methods.shift.candidates import Candidate, ChoiceContext, relaxed_margin, search_candidates
from ksame.methods.shift.likeness import apparent_attributes, dissimilarity_tiers, with_attribute_codes
from ksame.methods.shift.margin import Embeddings, embed_views, privacy_margin
from ksame.methods.shift.pool import Pool
from ksame.models import runtime
from ksame.render.overlay.face_overlay import FaceOverlay, Texture
from ksame.render.overlay.frame_code import (
    SMALL_FACE_EYE_DISTANCE_PX,
    appearance_code,
    encode_frame,
)
from ksame.render.tone import is_monochrome
from ksame.spaces import AppearanceSpace

NEAREST_POOL_FACES = 12  # drawn from at random: the nearest alone would reveal where the original lies


def choose_identities(
    model: AppearanceSpace,
    people: Sequence[Sequence[FaceView]],
    pool: Pool,
    *,
    recognisers: Sequence[str],
    texture: Texture = "code",
    margin: float = 2.0,
    nearest_count: int = NEAREST_POOL_FACES,
    tries: int = 24,
    rng: RandomState = None,
) -> list[FaceOverlay | None]:
    """Return for each person an overlay of a distinct pool face that verifiers do not match to them.

    Each candidate is verified on the person's own views. If a verifier matches the new face to the original,
    or to another person, another pool face is tried; two new faces may be slightly nearer than that. People
    of certain apparent gender (``UNSURE_GENDER_RANGE``) get a face of that gender and of their age, as far
    as the models ``gender`` and ``age`` are available, and of the lightness of their lightest view.

    Parameters
    ----------
    model : AppearanceSpace
        The model that draws the faces.
    people : sequence of sequences of FaceView
        Some good views of each person, spread over their detections.
    pool : Pool
        The pool of synthetic identities.
    recognisers : sequence of str
        The verifiers: names in ``models.recognisers.RECOGNISERS``.
    texture : str
        See ``FaceOverlay.draw``.
    margin : float
        Target distance of a new face from the original: 1 is the threshold for one person, 2 where
        recognisers seldom identify a person among a thousand strangers. After some trials slightly less
        suffices (``RELAXED_MARGIN_SHARE``), as it does on one of sixteen views (``VIEWS_PER_EXCEPTION``);
        where no face reaches the margin, the furthest is chosen if it is beyond 1.
    nearest_count, rng : see ``replace.assign_identities``
    tries : int
        Pool faces tried per person. A person who is matched in all of them gets None and must be covered.
    """
    context = _make_context(model, people, pool, recognisers, texture, nearest_count, rng)
    tiers = np.stack([dissimilarity_tiers(embeddings, pool) for embeddings in context.old])
    used = np.zeros((len(people), len(pool)), bool)
    chosen: dict[int, Candidate] = {}
    remaining = list(range(len(people)))
    exhausted: set[int] = set()  # people whose candidates all failed once
    while remaining:
        candidates = search_candidates(context, remaining, tiers, chosen, used, margin, tries)
        chosen |= _assign_distinct(candidates, context.old, chosen, preferred_margin=relaxed_margin(margin))
        remaining = [i for i in remaining if i not in chosen and i not in exhausted]
        exhausted.update(i for i in remaining if i not in candidates)
    runtime.unload("gender")
    return [context.candidate_overlay(chosen[i]) if i in chosen else None for i in range(len(people))]


def _make_context(
    model: AppearanceSpace,
    people: Sequence[Sequence[FaceView]],
    pool: Pool,
    recognisers: Sequence[str],
    texture: Texture,
    nearest_count: int,
    rng: RandomState,
) -> ChoiceContext:
    """Measure codes, attributes and embeddings of all views."""
    codes, gammas = (
        [map_pairs(partial(encode, model), views) for views in people]
        for encode in (encode_frame, appearance_code)
    )
    apparent = [apparent_attributes(views) for views in people]
    attribute_codes = with_attribute_codes(gammas, apparent, pool, model)
    runtime.unload("age")
    return ChoiceContext(
        model=model,
        people=people,
        monochrome=[[is_monochrome(view.rgb) for view in views] for views in people],
        codes=codes,
        gammas=gammas,
        male=[one[0] for one in apparent],
        small_face=[_small_face_level(views) for views in people],
        pool=pool,
        attribute_codes=attribute_codes,
        old=[{name: embed_views(views, name) for name in recognisers} for views in people],
        verifiers=recognisers,
        texture=texture,
        nearest_count=nearest_count,
        rng=np.random.default_rng(rng),
    )


def _small_face_level(views: Sequence[FaceView]) -> float:
    """Return how small a face is in the median view: 0 where it has full detail, up to 1.

    Measured by the distance between the eyes, so a head turned away in most views counts as smaller.
    """
    distance = float(np.median([eye_distance_and_turn(view.points)[0] for view in views]))
    return max(0.0, 1 - distance / SMALL_FACE_EYE_DISTANCE_PX)


def _assign_distinct(
    candidates: Mapping[int, Sequence[Candidate]],
    old: Sequence[Embeddings],
    chosen: Mapping[int, Candidate],
    *,
    preferred_margin: float,
) -> dict[int, Candidate]:
    """Return the best candidate of each person, as far as they are distinct.

    Prefer candidates with adjusted brows among those that reach ``preferred_margin``, then the largest
    margin. People with the fewest valid candidates are assigned first.
    """
    assigned: dict[int, Candidate] = {}
    for i in sorted(candidates, key=lambda i: len(candidates[i])):
        others = [*chosen.values(), *assigned.values()]
        free = [one for one in candidates[i] if _is_distinct(one, old, others)]
        if free:
            assigned[i] = max(
                free, key=lambda one: (one.brows_adjusted and one.margin >= preferred_margin, one.margin)
            )
    return assigned


def _is_distinct(candidate: Candidate, old: Sequence[Embeddings], others: Collection[Candidate]) -> bool:
    """Return whether a candidate matches no other person, original or new."""
    if candidate.row in [other.row for other in others]:
        return False
    new = [other.embeddings for other in others]
    return privacy_margin(candidate.embeddings, candidate.person, old, new) > 1
