from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import oracles
from ksame.core.errors import UsageError
from ksame.partition import hierarchical

LINKAGES = ["ward", "single", "complete", "average"]


def faces(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


@pytest.mark.parametrize("linkage", LINKAGES)
def test_clumps_of_the_right_size_are_the_groups(linkage):
    clumps = [faces(4, seed=seed) * 0.01 + 10 * seed for seed in range(5)]
    order = np.random.default_rng(0).permutation(20)
    labels = hierarchical(np.concatenate(clumps)[order], 4, linkage=linkage).labels
    assert {frozenset(order[labels == g] // 4) for g in range(5)} == {frozenset([i]) for i in range(5)}


def test_the_paper_s_sizes_would_not_sum_to_n():
    # n = 29, k = 10: m = 2 and n mod m = 1 would give sizes 11 and 10
    assert sorted(hierarchical(faces(29), 10).sizes) == [14, 15]


def test_a_merge_gives_its_larger_side_whole_and_the_nearest_of_the_other():
    # single linkage: {0, 1, 1.9} and {4, 5} merge last, at 2.1; one group of four, then what is left
    x = np.array([[5.0], [0.0], [4.0], [1.0], [1.9], [100.0], [101.0], [102.5]])
    groups = {frozenset(x[rows, 0]) for rows in hierarchical(x, 4, linkage="single").groups}
    assert groups == {frozenset([0.0, 1.0, 1.9, 4.0]), frozenset([5.0, 100.0, 101.0, 102.5])}


def test_of_equal_sides_the_tighter_is_kept_whole():
    # {0, 2} and {5, 6} merge at 3; for three, {5, 6} and the one nearest to 5.5
    x = np.array([[0.0], [2.0], [5.0], [6.0], [50.0], [52.5]])
    groups = {frozenset(x[rows, 0]) for rows in hierarchical(x, 3, linkage="single").groups}
    assert groups == {frozenset([2.0, 5.0, 6.0]), frozenset([0.0, 50.0, 52.5])}


def test_linkages_differ():
    found = [hierarchical(faces(60), 5, linkage=linkage).labels.tolist() for linkage in LINKAGES]
    assert all(one != two for one, two in itertools.combinations(found, 2))


def test_chains_are_pruned_like_by_the_twin():
    x = np.cumsum(np.arange(1, 121.0))[:, None]  # single linkage of growing gaps is one long chain
    groups = {frozenset(rows.tolist()) for rows in hierarchical(x, 7, linkage="single").groups}
    assert groups == oracles.hierarchical_groups(x, 7, "single")


def test_a_cut_passes_over_merges_that_have_collapsed():
    # clumps of 5, 5, 5, 5 and 3 people give three groups of 5, and two of 4 from the last two clumps,
    # which are joined by a merge over those of the clumps that are gone
    clumps = [(0, 5), (10, 5), (30, 5), (70, 5), (200, 3)]
    x = np.concatenate([start + 0.1 * np.arange(size) ** 2 for start, size in clumps])[:, None]
    groups = {frozenset(rows.tolist()) for rows in hierarchical(x, 4).groups}
    assert groups == oracles.hierarchical_groups(x, 4, "ward")
    assert sorted(map(len, groups)) == [4, 4, 5, 5, 5]


def test_squares_are_far_below_those_of_chance():
    x = faces(300)
    chance = oracles.label_squares(x, np.arange(300) % 60)
    for linkage in ("ward", "complete", "average"):
        assert oracles.label_squares(x, hierarchical(x, 5, linkage=linkage).labels) < 0.5 * chance


def test_unknown_linkage_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="linkage must be one of ward, single, complete, average"):
        hierarchical(faces(6), 2, linkage="centroid")  # type: ignore[arg-type]


def test_more_than_fits_in_memory_is_refused_before_it_is_tried(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=4e9))
    with pytest.raises(
        UsageError, match=r"Linkage of 30000 subjects needs 7\.2 GB .* use the partition mdav"
    ):
        hierarchical(np.zeros((30000, 1)), 2)
