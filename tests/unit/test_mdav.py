from __future__ import annotations

import numpy as np
import pytest

from ksame.partition import mdav


def test_pairs_form_from_the_outside_in():
    # mean 3.0: r = 10 takes 8, s = 0 takes 1; the two in the middle are left
    assert mdav([[0], [1], [3], [4], [8], [10]], k=2).labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_an_outlier_takes_its_nearest_with_it():
    assert mdav([[0.0], [0.1], [0.2], [0.3], [0.4], [99.0]], k=2).labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_fewer_than_2k_are_one_group():
    assert mdav([[0], [1], [100], [101], [102]], k=3).sizes.tolist() == [5]


def test_fewer_than_3k_are_two_groups_the_second_takes_the_rest():
    # mean 3.2: r = 11 takes 2 (lines 12-14); the rest form the other group (line 15)
    assert mdav([[0], [1], [2], [2], [11]], k=2).labels.tolist() == [0, 0, 1, 0, 1]


def test_of_equally_far_faces_the_lowest_row_is_r():
    # a square: all four corners are equally far from the mean, 0 is r and takes 1, not 2
    square = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert mdav(square, k=2).labels.tolist() == [0, 0, 1, 1]
    assert mdav(square[[0, 2, 1, 3]], k=2).labels.tolist() == [0, 0, 1, 1]


def test_s_is_sought_among_those_that_r_leaves():
    # all equal: r = 0 takes 0 and 1, then s = 2 takes 2 and 3
    assert mdav(np.zeros((7, 2)), k=2).labels.tolist() == [0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_where_the_faces_lie_does_not_matter(offset):
    x = np.random.default_rng(0).integers(0, 1000, (60, 3)).astype(float)  # sums stay exact
    assert np.array_equal(mdav(x + offset, 4).labels, mdav(x, 4).labels)


def test_units_do_not_matter():
    x = np.random.default_rng(0).standard_normal((60, 3))
    assert np.array_equal(mdav(x * 2.0**-300, 4).labels, mdav(x, 4).labels)
