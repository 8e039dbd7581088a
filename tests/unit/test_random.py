from __future__ import annotations

import numpy as np
import pytest

from ksame.partition import random


@pytest.mark.parametrize(
    ("n", "k", "sizes"),
    [(10, 5, [5, 5]), (14, 5, [7, 7]), (17, 5, [5, 6, 6]), (9, 5, [9]), (7, 2, [2, 2, 3])],
)
def test_sizes_are_even_even_where_k_and_k_plus_one_do_not_sum_to_n(n, k, sizes):
    assert sorted(random(np.zeros((n, 1)), k, rng=0).sizes.tolist()) == sizes


def test_every_pair_is_equally_likely():
    draws = 3000
    rng = np.random.default_rng(0)
    together = np.zeros((4, 4))
    for _ in range(draws):
        labels = random(np.zeros((4, 1)), 2, rng=rng).labels
        together += labels[:, None] == labels
    share = together[np.triu_indices(4, 1)] / draws
    assert np.abs(share - 1 / 3).max() < 0.05  # five standard deviations are 0.043
