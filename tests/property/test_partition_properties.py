from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from ksame.core.partition_type import check_law
from ksame.partition import METHODS, kmember, ksame, maxdist, mdav, random
from ksame.partition.remaining import RemainingCodes

# no number is so much smaller than another that a column's sum needs more than 106 bits
reals = st.floats(-100, 100).map(lambda x: x if abs(x) > 1e-6 else 0.0)
tiny = st.floats(-1e-3, 1e-3).map(lambda x: x * 1e-197)  # squares underflow
huge = reals.map(lambda x: x * 1e147)
wide = st.one_of(st.integers(-9, 9).map(lambda x: x * 1e-6), st.integers(-9, 9).map(lambda x: x * 1e6))
grid = st.integers(-2, 2).map(float)  # full of ties
few = st.sampled_from([0.0, 1.0, 0.1])  # full of copies


@st.composite
def codes_and_k(draw, elements=(reals, wide, grid, few, tiny, huge)):
    """Return codes of one of many kinds, and a k that they can meet."""
    n, d = draw(st.integers(2, 30)), draw(st.integers(1, 10))
    x = draw(arrays(np.float64, (n, d), elements=draw(st.sampled_from(elements))))
    if np.abs(x).max() < 1e9:
        x = x + draw(st.sampled_from([0.0, 0.0, 1e6]))
        x = x.astype(draw(st.sampled_from([np.float64, np.float64, np.float32])))
    return x, draw(st.integers(2, n))


def sets(partition):
    return {frozenset(group.tolist()) for group in partition.groups}


@given(codes_and_k())
@settings(max_examples=300, deadline=None)
def test_mdav_is_its_twin_on_every_input(case):
    x, k = case
    assert sets(mdav(x, k)) == oracles.mdav_groups(x, k)


@given(codes_and_k(), st.integers(0, 99))
@settings(deadline=None)
def test_ksame_is_its_twin_on_every_input(case, seed):
    x, k = case
    order = np.random.default_rng(seed).permutation(len(x))
    assert sets(ksame(x, k, rng=seed)) == oracles.ksame_groups(x, k, order)


@given(codes_and_k())
@settings(deadline=None)
def test_maxdist_is_its_twin_on_every_input(case):
    x, k = case
    assert sets(maxdist(x, k)) == oracles.maxdist_groups(x, k)


@pytest.mark.parametrize(("n", "d", "k"), [(7, 3, 3), (40, 2, 5), (60, 8, 4), (61, 1, 7)])
@pytest.mark.parametrize("seed", range(4))
def test_kmember_is_its_twin_where_no_two_losses_are_equal(n, d, k, seed):
    x = np.random.default_rng(seed).standard_normal((n, d))
    first = int(np.random.default_rng(seed).integers(n))
    assert sets(kmember(x, k, rng=seed)) == oracles.kmember_groups(x, k, first)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.astype(np.float32),
        lambda x: x + 1e6,
        lambda x: np.round(x),
        lambda x: np.round(x)[np.arange(len(x)) // 3 * 3],
        lambda x: x * np.geomspace(1, 1e12, len(x))[:, None],
        lambda x: x * 1e-5 + np.round(x[:, :1]) * 1e3,
    ],
    ids=["normal", "single", "offset", "grid", "copies", "outliers", "tight clusters"],
)
@pytest.mark.parametrize(("n", "d", "k"), [(300, 2, 3), (500, 16, 10), (400, 128, 5), (301, 300, 50)])
def test_mdav_is_its_twin_on_larger_sets(make, n, d, k):
    x = make(np.random.default_rng(n + d + k).standard_normal((n, d)))
    assert sets(mdav(x, k)) == oracles.mdav_groups(x, k)


@pytest.mark.parametrize("method", METHODS)
@given(case=codes_and_k((reals, grid, few)), data=st.data())
@settings(max_examples=50, deadline=None)
def test_every_partition_keeps_the_law(method, case, data):
    x, k = case
    people = data.draw(st.integers(k, len(x)), label="people")
    subjects = np.concatenate(
        [np.arange(people), data.draw(arrays(int, len(x) - people, elements=st.integers(0, people - 1)))]
    )
    before = x.copy()
    groups = METHODS[method](x, k, subjects=subjects, rng=0)
    assert check_law(groups.labels, subjects, k) == groups.bound
    assert len(groups.labels) == len(x)
    assert np.array_equal(x, before)


@given(st.integers(2, 9), st.integers(2, 60), st.integers(0, 99))
@settings(deadline=None)
def test_random_groups_are_of_even_size(k, n, seed):
    n = max(n, k)
    sizes = random(np.zeros((n, 1)), k, rng=seed).sizes
    assert len(sizes) == n // k
    assert sizes.max() - sizes.min() <= 1


def test_mdav_keeps_faces_closer_than_ksame_and_both_closer_than_random():
    """Property 7: total within-group squares, on average over seeds."""
    loss = {"mdav": [], "ksame": [], "random": []}
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal((200, 5))
        for name, losses in loss.items():
            losses.append(oracles.within_squares(x, METHODS[name](x, 5, rng=seed).groups))
    assert np.mean(loss["mdav"]) <= np.mean(loss["ksame"])
    assert max(loss["mdav"] + loss["ksame"]) <= min(loss["random"])


@given(codes_and_k(), st.data())
@settings(deadline=None)
def test_brackets_hold_every_distance(case, data):
    x, _ = case
    remaining = RemainingCodes(np.ascontiguousarray(x))
    point = (
        remaining.code(data.draw(st.integers(0, len(x) - 1)))
        if data.draw(st.booleans())
        else remaining.mean()
    )
    low, high = remaining._brackets(point)
    p = (point - remaining._centre) / remaining._size
    scaled = (((x - point) / remaining._size) ** 2).sum(axis=1) - p @ p
    assert (low <= scaled).all()
    assert (scaled <= high).all()
