from __future__ import annotations

import numpy as np

from ksame.partition import ksame


def test_first_face_of_the_order_takes_its_nearest():
    x = np.array([[0.0], [1.0], [2.5], [4.5], [7.0]])
    first = np.random.default_rng(3).permutation(5)[0]
    nearest = {0: 1, 1: 0, 2: 1, 3: 2, 4: 3}[int(first)]
    labels = ksame(x, k=2, rng=3).labels
    assert labels[first] == labels[nearest]
    assert sorted(np.bincount(labels)) == [2, 3]


def test_of_equally_near_faces_the_first_in_the_order_is_taken():
    order = np.random.default_rng(0).permutation(6)
    labels = ksame(np.zeros((6, 2)), k=2, rng=0).labels
    assert all(labels[a] == labels[b] for a, b in order.reshape(3, 2))


def test_a_face_is_in_its_own_group_even_among_copies():
    x = np.array([[0.0], [0.0], [0.0], [5.0], [5.0], [5.0]])
    for seed in range(20):
        first = np.random.default_rng(seed).permutation(6)[0]
        groups = ksame(x, k=3, rng=seed)
        assert set(x[groups.labels == groups.labels[first], 0]) == {x[first, 0]}


def test_last_group_takes_all_that_are_fewer_than_2k():
    assert sorted(ksame(np.arange(11.0)[:, None], k=4, rng=0).sizes) == [4, 7]
