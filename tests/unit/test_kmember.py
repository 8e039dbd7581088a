from __future__ import annotations

import numpy as np
import pytest

from ksame.partition import kmember


@pytest.mark.parametrize("seed", range(4))
def test_a_group_grows_by_the_face_nearest_to_its_mean(seed):
    # from 10 (or 0): 10 takes 7, their mean 8.5 is nearer to 6 than to anything else
    x = [[0], [1], [2], [6], [7], [10]]
    assert kmember(x, k=3, rng=seed).labels.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("seed", range(4))
def test_leftovers_join_where_the_loss_rises_least(seed):
    x = [[0], [1], [9], [10], [2.0]]
    assert kmember(x, k=2, rng=seed).labels.tolist() == [0, 0, 1, 1, 0]


def test_leftovers_weigh_the_size_of_the_group_they_join():
    # Groups {-9.9, -10}, {9.9, 10} stand; 0 and 0.1 and 0.2 are never k = 4 alone.
    # Each leftover moves the mean it joins, so the three need not all be told apart by the first one.
    x = np.array([[-10], [-9.9], [-9.8], [-9.7], [9.7], [9.8], [9.9], [10], [0.01], [0.02], [0.03]])
    labels = kmember(x, k=4, rng=0).labels
    assert labels[:8].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert labels[8:].tolist() == [1, 1, 1]


def test_copies_go_by_row():
    assert sorted(kmember(np.zeros((7, 2)), k=3, rng=0).sizes.tolist()) == [3, 4]
