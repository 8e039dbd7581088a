from __future__ import annotations

import numpy as np

from ksame.partition import maxdist


def test_each_seed_is_the_farthest_from_the_last():
    # mean 6.3: 20 takes 14; farthest from 20 is 0, it takes 1; 4 and 5 (not 14, which is taken) are left
    assert maxdist([[0], [1], [4], [5], [14], [20]], k=2).labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_it_is_not_mdav():
    # after 20 and 0, the next seed is 11, farthest from 0; MDAV would ask the mean again
    x = np.array([[0], [1], [4], [4.5], [11], [10], [14], [20]])
    assert maxdist(x, k=2).labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_copies_go_by_row():
    assert maxdist(np.zeros((6, 2)), k=2).labels.tolist() == [0, 0, 1, 1, 2, 2]
