"""Draw one portrait for each group of people that no verifier takes for one of them [A 3.4]."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.partition_type import Partition
from ksame.methods.anonfaces.candidate import PortraitSet
from ksame.methods.anonfaces.measure import (
    LightChange,
    change_light,
)
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
    """Draw a portrait for each group that no recogniser takes for one of its people, if that can be done.

    Parameters
    ----------
    space, generator
        The face space and what draws it.
    codes, attributes : (n, d), (n, a)
        Of the faces.
    members : mapping of str to (n, e)
        What the recognisers that judge make of the faces: see ``embed_registered``.
    partition : Partition
        The groups.
    random_weights, beta
        See ``ksame.replace.mix``: weights are drawn, and those of people at risk are reduced [A 3.4, 5.1].
        Deviation: once, and then other random faces are tried: they help more than further rounds.
    plain, rng
        Ask for a plain ground; for weights and random faces.
    grey : collection of int
        Groups whose portrait has no colour.
    extra_flaw : callable, optional
        Given a portrait and its face's mesh points, says what else is wrong with it; 0 is nothing.
    jobs, progress
        See ``photos.deidentify``; at most two portraits are worked on at a time.
    """
    helpers = ThreadPoolExecutor(min(jobs or os.cpu_count() or 1, _WORKERS_MAX))
    targets = group_targets(attributes, partition, plain)
    studio = PortraitSearch(
        space, generator, codes, members, partition, targets, rng, helpers, progress, grey, extra_flaw
    )
    try:
        return _search_portraits(studio, random_weights, beta)
    finally:  # a thread that is still inside a network when the interpreter ends would abort the process
        helpers.shutdown(cancel_futures=True)


def _search_portraits(studio: PortraitSearch, random_weights: float | None, beta: float) -> PortraitSet:
    partition, codes = studio.partition, studio.codes
    first = [int(rows[0]) for rows in partition.groups]
    same = int(studio.rng.integers(2**63))  # the weights are drawn alike both times
    mixed, _ = mix(codes, partition, random_weights=random_weights, rng=same)
    at_risk = studio.attempt("drawing portraits", mixed[first], [1] * len(first))
    mixed, _ = mix(
        codes,
        partition,
        random_weights=random_weights,
        rng=same,
        # who is recognised; then nobody, since what the reduced weights make is drawn with all the others
        at_risk=lambda _, rows: at_risk.pop(int(partition.labels[rows[0]]), np.zeros(len(rows), bool)),
        beta=beta,
        rounds=1,
    )
    studio.attempt("trying again", mixed[first], [studio.tries(number) for number in range(len(first))])
    return studio.result()


def draw_expression(
    space: GeneratorSpace, generator: ImageGenerator, code: FloatArray, *, to: bool, light: LightChange
) -> NDArray[np.uint8]:
    """Draw the person of a code once more, smiling or not, and otherwise the same."""
    now = dict(zip(ATTRIBUTES, space.told(code[None])[0].tolist(), strict=True))
    change = dict.fromkeys(ATTRIBUTE_TOLERANCES, 0.0) | {
        "smile": (SURE_SMILE_LOGIT if to else SURE_NEUTRAL_LOGIT) - now["smile"]
    }
    moved = space.moved(code, change)
    return change_light(space.draw(moved[None], generator)[0], light)
