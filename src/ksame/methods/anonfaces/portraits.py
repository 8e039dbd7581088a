"""Draw one portrait for each group that no verifier matches to a member [A 3.4]."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.partition_type import Partition
from ksame.methods.anonfaces.candidate import PortraitSet
from ksame.methods.anonfaces.measure import LightChange, change_light
from ksame.methods.anonfaces.portrait_search import _WORKERS_MAX, PortraitSearch
from ksame.methods.anonfaces.targets import (
    ATTRIBUTE_TOLERANCES,
    SURE_NEUTRAL_LOGIT,
    SURE_SMILE_LOGIT,
    group_targets,
)
from ksame.models.generator import ImageGenerator
from ksame.replace import mix
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace

__all__ = ["draw_expression", "draw_portraits"]


def draw_portraits(
    space: GeneratorSpace,
    generator: ImageGenerator,
    codes: FloatArray,
    attributes: FloatArray,
    members: Mapping[str, FloatArray],
    partition: Partition,
    *,
    random_weights: float | None = None,
    beta: float = 0.1,
    plain: bool = False,
    grey: Collection[int] = (),
    extra_flaw: Callable[[NDArray[np.uint8], FloatArray], float] | None = None,
    rng: np.random.Generator,
    jobs: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> PortraitSet:
    """Draw a portrait for each group that no verifier matches to a member, where possible.

    Parameters
    ----------
    space, generator
        The face space and the generator that draws it.
    codes, attributes : (n, d), (n, a)
        Of the faces.
    members : mapping of str to (n, e)
        The verifiers' embeddings of the faces: see ``embed_registered``.
    partition : Partition
        The groups.
    random_weights, beta
        See ``ksame.replace.mix``: weights are random, and those of people at risk are reduced [A 3.4, 5.1].
        Deviation: only once; then other random faces are tried, which help more than further rounds.
    plain, rng
        Whether to request a plain background; source of weights and random faces.
    grey : collection of int
        Groups whose portrait has no colour.
    extra_flaw : callable, optional
        Given a portrait and its face's mesh points, says what else is wrong with it; 0 is nothing.
    jobs, progress
        See ``photos.deidentify``; at most two portraits are drawn at a time.
    """
    helpers = ThreadPoolExecutor(min(jobs or os.cpu_count() or 1, _WORKERS_MAX))
    targets = group_targets(attributes, partition, plain)
    search = PortraitSearch(
        space, generator, codes, members, partition, targets, rng, helpers, progress, grey, extra_flaw
    )
    try:
        return _search_portraits(search, random_weights, beta)
    finally:  # a thread that is still inside a network when the interpreter ends would abort the process
        helpers.shutdown(cancel_futures=True)


def _search_portraits(search: PortraitSearch, random_weights: float | None, beta: float) -> PortraitSet:
    partition, codes = search.partition, search.codes
    first = [int(rows[0]) for rows in partition.groups]
    seed = int(search.rng.integers(2**63))  # the same weights both times
    mixed, _ = mix(codes, partition, random_weights=random_weights, rng=seed)
    at_risk = search.attempt("drawing portraits", mixed[first], [1] * len(first))
    mixed, _ = mix(
        codes,
        partition,
        random_weights=random_weights,
        rng=seed,
        # first those recognised, then none: the result of reduced weights is drawn with all the others
        at_risk=lambda _, rows: at_risk.pop(int(partition.labels[rows[0]]), np.zeros(len(rows), bool)),
        beta=beta,
        rounds=1,
    )
    search.attempt("retrying", mixed[first], [search.tries(number) for number in range(len(first))])
    return search.result()


def draw_expression(
    space: GeneratorSpace, generator: ImageGenerator, code: FloatArray, *, to: bool, light: LightChange
) -> NDArray[np.uint8]:
    """Draw the identity of a code again, smiling or neutral, and otherwise unchanged."""
    now = dict(zip(ATTRIBUTES, space.predict_attributes(code[None])[0].tolist(), strict=True))
    change = dict.fromkeys(ATTRIBUTE_TOLERANCES, 0.0) | {
        "smile": (SURE_SMILE_LOGIT if to else SURE_NEUTRAL_LOGIT) - now["smile"]
    }
    moved = space.shift_attributes(code, change)
    return change_light(space.draw(moved[None], generator)[0], light)
