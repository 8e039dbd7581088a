"""The k-Same methods: group the codes, replace each group, and plan who gets which face."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import GuaranteeViolated
from ksame.core.faces import Space
from ksame.core.guarantee import Guarantee, Kind
from ksame.methods.drawing import Plan
from ksame.partition import make_strata as parts_of
from ksame.partition import select as group_by
from ksame.replace import centroid, furthest_pairs, kdiff
from ksame.spaces import AppearanceSpace, EigenSpace, PixelSpace
from ksame.spaces.generator_space import GeneratorSpace


class KSameMethod(NamedTuple):
    """The space a method works in, and how it replaces."""

    space: type[Space]
    replace: Literal["centroid", "furthest", "kdiff", "mix"]


METHODS = {
    "ksame-m": KSameMethod(AppearanceSpace, "centroid"),
    "ksame-pixel": KSameMethod(PixelSpace, "centroid"),
    "ksame-eigen": KSameMethod(EigenSpace, "centroid"),
    "ksame-furthest": KSameMethod(AppearanceSpace, "furthest"),
    "kdiff-furthest": KSameMethod(AppearanceSpace, "kdiff"),
    "anonfaces": KSameMethod(GeneratorSpace, "mix"),
}


def plan_replacement(
    codes: FloatArray,
    k: int,
    how: str,
    partition: str,
    subjects: NDArray[Any],
    label: NDArray[Any],
    seed: int,
) -> Plan:
    """Group and replace the codes; people with different labels are kept apart."""
    rng = np.random.default_rng(seed)
    if how == "centroid":
        groups = group_by(codes, k, label=label, partition=partition, subjects=subjects, rng=rng)
        new, guarantee = centroid(codes, groups)
        return Plan(groups.labels, groups.groups, new, guarantee)
    label, _ = parts_of(codes, k, label=label, subjects=subjects)  # one label each, and enough people
    parts = [np.flatnonzero(label == value) for value in np.unique(label)]
    make = _plan_furthest if how == "furthest" else _plan_kdiff
    plans = [make(codes[rows], k, subjects[rows], rng) for rows in parts]
    return _merge_plans(parts, plans, codes, subjects)


def _plan_furthest(codes: FloatArray, k: int, subjects: NDArray[Any], rng: np.random.Generator) -> Plan:
    """Give each cluster the mean of the one far away from it [S alg. 3]."""
    pairs = furthest_pairs(codes, k, subjects=subjects, rng=rng)
    return Plan(pairs.partition.labels, pairs.members, pairs.codes, pairs.guarantee)


def _plan_kdiff(codes: FloatArray, k: int, subjects: NDArray[Any], rng: np.random.Generator) -> Plan:
    """Shift each face towards the cluster far away from it [S alg. 4]; every face stays its own."""
    new, guarantee = kdiff(codes, k, subjects=subjects, rng=rng)
    return Plan(np.arange(len(codes)), (), new, guarantee)


def _merge_plans(
    parts: Sequence[IntArray], plans: Sequence[Plan], codes: FloatArray, subjects: NDArray[Any]
) -> Plan:
    """Put the plans of all parts together, with the weakest of their claims that is true of the whole."""
    output, new = np.zeros(len(codes), np.intp), np.empty_like(codes)
    made_of: list[IntArray] = []
    count = 0
    for rows, plan in zip(parts, plans, strict=True):
        output[rows], new[rows] = plan.output + count, plan.codes
        made_of += [rows[members] for members in plan.members]
        count += int(plan.output.max()) + 1
    guarantee = plans[0].guarantee
    for plan in plans[1:]:
        guarantee = guarantee.meet(plan.guarantee)
    if guarantee.wrong_map and len(plans) > 1:  # it was checked within each part only
        astray = Guarantee("wrong-map")
        try:
            astray.verify(new, subjects=subjects, originals=codes)
        except GuaranteeViolated:
            kind: Kind = "k-anonymity" if guarantee.k_anonymous else "none"
            guarantee = guarantee.lower(kind=kind, because="wrong-map holds within each part only")
    return Plan(output, tuple(made_of), new, guarantee)
