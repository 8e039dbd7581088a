from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from ksame.core.errors import CannotGuarantee
from ksame.core.partition_type import Partition, check_law
from ksame.partition import METHODS, hierarchical, kmeans, make_strata, partition_quality, select
from ksame.partition.hierarchical import Linkage
from ksame.partition.kmeans import _assign, _exchange

reals = st.floats(-100, 100).map(lambda x: x if abs(x) > 1e-6 else 0.0)
grid = st.integers(-2, 2).map(float)  # full of ties
few = st.sampled_from([0.0, 1.0, 0.1])  # full of copies
huge = reals.map(lambda x: x * 1e140)
tiny = reals.map(lambda x: x * 1e-200)  # squares underflow


@st.composite
def codes_and_k(draw, elements=(reals, grid, few, huge, tiny), max_count=30):
    """Return codes of one of many kinds, and a k that they can meet."""
    n, d = draw(st.integers(2, max_count)), draw(st.integers(1, 6))
    x = draw(arrays(np.float64, (n, d), elements=draw(st.sampled_from(elements))))
    if np.abs(x).max() < 1e9:
        x = x + draw(st.sampled_from([0.0, 0.0, 1e6]))
        x = x.astype(draw(st.sampled_from([np.float64, np.float64, np.float32])))
    return x, draw(st.integers(2, n))


def sets(partition):
    return {frozenset(group.tolist()) for group in partition.groups}


def is_level(sizes):
    """Whether sizes are floor(n/m) and ceil(n/m), as many of each as make n."""
    n, m = sum(sizes), len(sizes)
    return sorted(sizes) == sorted([n // m] * (m - n % m) + [n // m + 1] * (n % m))


def random_labels(n, k, seed):
    return np.random.default_rng(seed).permutation(np.arange(n) % (n // k))


@given(codes_and_k(), st.sampled_from(get_args(Linkage)))
def test_hierarchical_is_its_twin_on_every_input(case, linkage):
    x, k = case
    assert sets(hierarchical(x, k, linkage=linkage)) == oracles.hierarchical_groups(x, k, linkage)


@pytest.mark.parametrize(("n", "k"), [(90, 2), (91, 3), (97, 10), (100, 7)])
@pytest.mark.parametrize("linkage", get_args(Linkage))
def test_hierarchical_is_its_twin_on_larger_sets(n, k, linkage):
    x = np.random.default_rng(n).standard_normal((n, 3))
    assert sets(hierarchical(x, k, linkage=linkage)) == oracles.hierarchical_groups(x, k, linkage)


@given(codes_and_k(), st.sampled_from([hierarchical, kmeans]))
def test_sizes_differ_by_one_at_most(case, method):
    x, k = case
    sizes = method(x, k).sizes.tolist()
    assert len(sizes) == len(x) // k
    assert is_level(sizes)


@given(codes_and_k(), st.integers(0, 99), st.integers(1, 30))
def test_exchanges_never_raise_the_squares_and_keep_the_sizes(case, seed, neighbours):
    x, k = case
    assume(len(x) >= 2 * k)
    x = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    before = random_labels(len(x), k, seed)
    after = _exchange(x, before, neighbours)
    assert oracles.label_squares(x, after) <= oracles.label_squares(x, before) * (1 + 1e-12)
    assert is_level(np.bincount(after).tolist())


@given(codes_and_k(elements=(reals, grid, few), max_count=14), st.integers(0, 99))
def test_no_exchange_remains_that_would_help(case, seed):
    x, k = case
    assume(len(x) >= 2 * k)
    labels = kmeans(x, k, rng=seed, neighbours=99).labels
    least = oracles.label_squares(x, labels)
    scatter = ((x.astype(float) - x.mean(axis=0, dtype=float)) ** 2).sum() + 1e-9
    for a in range(labels.max() + 1):
        for other in oracles.trades(labels, a):
            assert oracles.label_squares(x, other) >= least - 1e-9 * scatter


# with k = 2 each swap has a mirror image of equal gain
@pytest.mark.parametrize(("n", "k"), [(9, 3), (12, 3), (13, 3), (14, 4), (16, 5)])
@pytest.mark.parametrize("seed", range(3))
def test_exchanges_are_those_of_the_twin(n, k, seed):
    x = np.random.default_rng(seed).standard_normal((n, 3))
    x -= x.mean(axis=0)
    labels = random_labels(n, k, seed)
    assert _exchange(x, labels, n).tolist() == oracles.traded(x, labels).tolist()


@given(codes_and_k(), st.integers(0, 99))
def test_assignment_places_all_and_respects_capacity(case, seed):
    x, k = case
    m = len(x) // k
    capacity = np.bincount(random_labels(len(x), k, seed), minlength=m)
    labels = _assign(x, x[:m], capacity)
    assert np.array_equal(np.bincount(labels, minlength=m), capacity)


def test_kmeans_loss_against_the_optimum_is_as_stated():
    rng = np.random.default_rng(0)
    loss = []
    for seed in range(40):
        x = rng.standard_normal((9, 2))
        groups = kmeans(x, 3, rng=seed)
        loss.append(oracles.label_squares(x, groups.labels) / oracles.least_squares(x, groups.sizes) - 1)
    assert min(loss) > -1e-9
    assert np.mean(loss) < 0.05


@given(codes_and_k(elements=(reals, grid, few, huge)), st.integers(0, 99))
def test_partition_quality_is_its_twin(case, seed):
    x, k = case
    labels = random_labels(len(x), k, seed)
    found = partition_quality(x, Partition(labels, k))
    x = x.astype(float) - x.mean(axis=0, dtype=float)
    scale = np.abs(x).max() or 1.0
    units = (scale, scale, scale, 1.0, scale**2 or 1.0)
    expected = oracles.judgement(x, labels)
    got = (found.least, found.mean, found.greatest, found.silhouette, found.squares)
    for one, two, unit in zip(got, expected, units, strict=True):
        assert one == two or math.isclose(one / unit, two / unit, abs_tol=1e-6) or math.isnan(one + two)


@st.composite
def labelled(draw):
    n = draw(st.integers(4, 40))
    subjects = np.array(draw(st.lists(st.integers(0, n // 2), min_size=n, max_size=n)))
    label = np.array(draw(st.lists(st.sampled_from("abcd"), min_size=n // 2 + 1, max_size=n // 2 + 1)))
    x = np.random.default_rng(draw(st.integers(0, 99))).standard_normal((n, 3))
    return x, subjects, label[subjects], draw(st.integers(2, 4))


@given(labelled(), st.sampled_from(list(METHODS)), st.integers(0, 9))
def test_select_never_mixes_parts_nor_splits_people(case, method, seed):
    x, subjects, label, k = case
    people = {part: len(set(subjects[label == part].tolist())) for part in set(label.tolist())}
    if min(people.values()) < k:
        with pytest.raises(CannotGuarantee):
            select(x, k, label=label, partition=method, subjects=subjects)
        return
    groups = select(x, k, label=label, partition=method, subjects=subjects, rng=seed)
    assert check_law(groups.labels, subjects, k) == groups.bound
    assert all(len(set(label[rows].tolist())) == 1 for rows in groups.groups)
    assert len(groups) == sum(count // k for count in people.values())


@given(labelled())
def test_merged_strata_are_unions_of_strata_and_all_merges_are_returned(case):
    x, subjects, label, k = case
    assume(len(set(subjects.tolist())) >= k)
    part, merges = make_strata(x, k, label=label, subjects=subjects, small="merge")
    for name in set(label.tolist()):
        assert len(set(part[label == name].tolist())) == 1
    for number in set(part.tolist()):
        assert len(set(subjects[part == number].tolist())) >= k
    assert len(set(label.tolist())) - len(merges) == len(set(part.tolist()))
    assert all(merge.subjects < k for merge in merges)
    groups = select(x, k, label=label, subjects=subjects, small="merge")
    assert all(len(set(part[rows].tolist())) == 1 for rows in groups.groups)
