from __future__ import annotations

import numpy as np
import pytest

from ksame.partition.remaining import RemainingCodes, _exact_sum, _two_sum


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_answers_stay_those_of_a_full_scan_while_rows_are_taken(dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 5)).astype(dtype)  # more than one block
    remaining, rows = RemainingCodes(x), np.arange(3000)
    while len(rows) > 40:
        point = remaining.code(int(rng.choice(rows)))
        distance = ((x[rows].astype(np.float64) - point) ** 2).sum(axis=1)
        near, far = remaining.nearest_and_farthest(point, 7)
        assert near.tolist() == rows[np.argsort(distance, kind="stable")[:7]].tolist()
        assert far == rows[distance.argmax()] == remaining.farthest(point)
        taken = rng.choice(rows, size=int(rng.integers(1, 40)), replace=False)
        remaining.remove(taken)
        rows = np.setdiff1d(rows, taken)
        assert remaining.rows.tolist() == rows.tolist()
        assert len(remaining) == len(rows)
        assert taken[0] not in remaining
        assert rows[0] in remaining
        np.testing.assert_allclose(remaining.mean(), x[rows].mean(axis=0, dtype=np.float64), atol=1e-12)


def test_many_candidates_are_measured_in_blocks():
    remaining = RemainingCodes(np.full((5000, 2), 0.1))
    assert remaining.nearest(remaining.mean(), 3).tolist() == [0, 1, 2]
    assert remaining.farthest(remaining.mean()) == 0


def test_ties_go_to_the_first_in_the_order():
    order = np.array([2, 0, 3, 1])
    remaining = RemainingCodes(np.zeros((4, 1)), order)
    assert remaining.nearest(np.zeros(1), 3).tolist() == [2, 0, 3]
    assert remaining.nearest_and_farthest(np.zeros(1), 2)[1] == 3


def test_everything_can_be_taken():
    remaining = RemainingCodes(np.eye(3))
    remaining.remove(np.array([1, 2, 0]))
    assert len(remaining) == 0
    assert remaining.rows.tolist() == []


def test_codes_are_only_read():
    x = np.random.default_rng(0).standard_normal((50, 3))
    before = x.copy()
    remaining = RemainingCodes(x)
    remaining.remove(remaining.nearest(remaining.code(0), 20))
    assert np.array_equal(x, before)


def test_two_sum_loses_nothing():
    s, error = _two_sum(np.array([1e16]), np.array([1.0]))
    assert (s.tolist(), error.tolist()) == ([1e16], [1.0])


def test_exact_sum_keeps_what_a_plain_sum_drops():
    x = np.array([[1e16], [1.0], [-1e16], [1.0], [0.5]])
    high, low = _exact_sum(x)
    assert (high + low).tolist() == [2.5]
    assert x.sum(axis=0).tolist() != [2.5]
