from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import oracles
from ksame.core.errors import UsageError
from ksame.partition import kmeans, mdav
from ksame.partition.kmeans import _assign, _draw_seeds, _exchange, _nearest_groups, _squared_distances


def faces(n, d=8, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_clumps_of_the_right_size_are_the_groups():
    clumps = [faces(4, seed=seed) * 0.01 + 10 * seed for seed in range(20)]
    order = np.random.default_rng(0).permutation(80)
    labels = kmeans(np.concatenate(clumps)[order], 4, rng=0).labels
    assert {frozenset(order[labels == g] // 4) for g in range(20)} == {frozenset([i]) for i in range(20)}


def test_fewer_than_two_groups_are_one():
    assert kmeans(faces(7), 4).labels.tolist() == [0] * 7


def test_no_neighbours_are_refused():
    with pytest.raises(UsageError, match=r"neighbours must be at least 1\. Got 0"):
        kmeans(faces(8), 2, neighbours=0)


def test_seeds_are_distinct_rows_even_among_copies():
    rng = np.random.default_rng(0)
    for x in (np.zeros((9, 2)), np.repeat([[0.0], [1.0]], 5, axis=0), faces(9)):
        seeds = _draw_seeds(x, len(x), rng)
        assert sorted(seeds) == list(range(len(x)))


def test_seeds_favour_the_distant():
    x = np.concatenate([np.zeros((99, 1)), [[1.0]]])
    assert all(99 in _draw_seeds(x, 2, np.random.default_rng(seed)) for seed in range(20))


def test_assignment_takes_the_nearest_pairs_first():
    x = np.array([[0.0], [1.0], [1.4], [9.0]])
    assert _assign(x, np.array([[1.5], [8.0]]), np.array([2, 2])).tolist() == [1, 0, 0, 1]


def test_assignment_continues_until_all_are_assigned():
    x = np.zeros((200, 1))  # every subject has the same 16 of the 100 centres as candidates
    centres = np.arange(100.0)[:, None]
    assert np.bincount(_assign(x, centres, np.full(100, 2))).tolist() == [2] * 100


def test_distances_and_neighbours_are_those_of_a_full_scan(monkeypatch):
    monkeypatch.setattr(sys.modules["ksame.partition.kmeans"], "_BLOCK_ROWS", 7)
    x = faces(40)
    full = cdist(x, x)
    assert np.allclose(_squared_distances(x, x[:9]), full[:, :9] ** 2)
    expected = np.sort(np.argsort(full + np.diag([np.inf] * 40), axis=1)[:, :5], axis=1)
    assert np.array_equal(_nearest_groups(x, 5), expected)


def test_exchange_reaches_groups_that_become_neighbours():
    x = faces(200, d=2)
    x -= x.mean(axis=0)
    few, all_ = (
        oracles.label_squares(x, _exchange(x, np.arange(200) % 40, neighbours)) for neighbours in (3, 39)
    )
    assert few < 1.2 * all_ < 0.1 * oracles.label_squares(x, np.arange(200) % 40)


def test_exact_lloyd_steps_from_the_result_gain_next_to_nothing():
    x = faces(300)
    labels = kmeans(x, 6, rng=0).labels
    squares = oracles.label_squares(x, labels)
    for _ in range(5):
        centroids = np.stack([x[labels == group].mean(axis=0) for group in range(50)])
        _, places = linear_sum_assignment(cdist(x, np.repeat(centroids, 6, axis=0), "sqeuclidean"))
        labels = places // 6
    assert oracles.label_squares(x, labels) > 0.99 * squares


def test_squares_are_below_those_of_mdav():
    for seed in range(3):
        x = faces(400, seed=seed)
        assert oracles.label_squares(x, kmeans(x, 5, rng=0).labels) < oracles.label_squares(
            x, mdav(x, 5).labels
        )
