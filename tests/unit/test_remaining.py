from __future__ import annotations

import numpy as np
import pytest

from ksame.partition.remaining import Remaining, _exact_sum, _two_sum


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_answers_stay_those_of_a_full_scan_while_rows_are_taken(dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 5)).astype(dtype)  # more than one block
    left, rows = Remaining(x), np.arange(3000)
    while len(rows) > 40:
        point = left.code(int(rng.choice(rows)))
        distance = ((x[rows].astype(np.float64) - point) ** 2).sum(axis=1)
        near, far = left.near_and_far(point, 7)
        assert near.tolist() == rows[np.argsort(distance, kind="stable")[:7]].tolist()
        assert far == rows[distance.argmax()] == left.farthest(point)
        taken = rng.choice(rows, size=int(rng.integers(1, 40)), replace=False)
        left.take(taken)
        rows = np.setdiff1d(rows, taken)
        assert left.rows.tolist() == rows.tolist()
        assert len(left) == len(rows)
        assert taken[0] not in left
        assert rows[0] in left
        np.testing.assert_allclose(left.mean(), x[rows].mean(axis=0, dtype=np.float64), atol=1e-12)


def test_many_candidates_are_measured_in_blocks():
    left = Remaining(np.full((5000, 2), 0.1))
    assert left.nearest(left.mean(), 3).tolist() == [0, 1, 2]
    assert left.farthest(left.mean()) == 0


def test_ties_go_to_the_first_in_the_order():
    order = np.array([2, 0, 3, 1])
    left = Remaining(np.zeros((4, 1)), order)
    assert left.nearest(np.zeros(1), 3).tolist() == [2, 0, 3]
    assert left.near_and_far(np.zeros(1), 2)[1] == 3


def test_everything_can_be_taken():
    left = Remaining(np.eye(3))
    left.take(np.array([1, 2, 0]))
    assert len(left) == 0
    assert left.rows.tolist() == []


def test_codes_are_only_read():
    x = np.random.default_rng(0).standard_normal((50, 3))
    before = x.copy()
    left = Remaining(x)
    left.take(left.nearest(left.code(0), 20))
    assert np.array_equal(x, before)


def test_two_sum_loses_nothing():
    s, error = _two_sum(np.array([1e16]), np.array([1.0]))
    assert (s.tolist(), error.tolist()) == ([1e16], [1.0])


def test_exact_sum_keeps_what_a_plain_sum_drops():
    x = np.array([[1e16], [1.0], [-1e16], [1.0], [0.5]])
    high, low = _exact_sum(x)
    assert (high + low).tolist() == [2.5]
    assert x.sum(axis=0).tolist() != [2.5]
