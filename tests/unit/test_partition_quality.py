from __future__ import annotations

import math
import sys
from dataclasses import FrozenInstanceError, astuple

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

import oracles
from ksame.core.errors import UsageError
from ksame.core.partition_type import Partition
from ksame.partition import kmeans, partition_quality


def faces(n, d=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_values_computed_by_hand():
    found = partition_quality([[0.0], [1.0], [3.0], [10.0], [14.0]], Partition([0, 0, 0, 1, 1], k=2))
    assert found.least == (1 + 4) / 2
    assert found.mean == (2 + 4) / 2
    assert found.greatest == (3 + 4) / 2
    assert math.isclose(found.squares, 42 / 9 + 8)
    # (mean to own, mean to other) of each: (2, 12), (1.5, 11), (2.5, 9), (4, 26/3), (4, 38/3)
    scores = [10 / 12, 9.5 / 11, 6.5 / 9, 1 - 4 / (26 / 3), 1 - 4 / (38 / 3)]
    assert math.isclose(found.silhouette, sum(scores) / 5)


def test_quality_is_frozen():
    with pytest.raises(FrozenInstanceError):
        partition_quality(faces(4), Partition([0, 0, 1, 1], k=2)).squares = 0.0  # type: ignore[misc]


def test_one_group_has_no_silhouette():
    found = partition_quality(faces(4), Partition([0] * 4, k=4))
    assert math.isnan(found.silhouette)
    assert found.squares > 0


def test_copies_score_nothing():
    assert astuple(partition_quality(np.ones((4, 2)), Partition([0, 0, 1, 1], k=2))) == (0.0,) * 5


def test_several_photos_of_a_person_count_as_their_mean():
    x = faces(8)
    once = Partition(np.arange(8) % 4, k=2)
    twice = Partition(np.tile(once.labels, 2), k=2, subjects=np.tile(np.arange(8), 2))
    moved = np.concatenate([x + 0.5, x - 0.5])
    assert np.allclose(astuple(partition_quality(moved, twice)), astuple(partition_quality(x, once)))


def test_codes_may_be_of_another_space_but_not_of_other_faces():
    groups = Partition([0, 0, 1, 1], k=2)
    assert partition_quality(faces(4, d=2), groups) != partition_quality(faces(4, d=3), groups)
    with pytest.raises(UsageError, match="subjects must have one entry per code: 5"):
        partition_quality(faces(5), groups)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_block_size_does_not_change_the_result(monkeypatch, dtype):
    x = faces(60).astype(dtype)
    groups = kmeans(x, 4, rng=0)
    whole = partition_quality(x, groups)
    monkeypatch.setattr(sys.modules["ksame.partition.quality"], "_MAX_DISTANCES", 7 * 60)
    assert np.allclose(astuple(partition_quality(x, groups)), astuple(whole))
    assert np.allclose(astuple(whole), oracles.judgement(x, groups.labels))
    assert math.isclose(whole.silhouette, silhouette_score(x, groups.labels), rel_tol=1e-5)


def test_copies_in_two_groups_are_at_no_distance():
    x = np.concatenate([[[0.0, 0.1]], np.ones((17, 2))])
    labels = np.arange(18) % 9
    assert math.isclose(
        partition_quality(x, Partition(labels, k=2)).silhouette, oracles.judgement(x, labels)[3]
    )


def test_an_offset_changes_nothing():
    x = faces(30)
    groups = kmeans(x, 5, rng=0)
    assert np.allclose(
        astuple(partition_quality(x + 1e6, groups)), astuple(partition_quality(x, groups)), rtol=1e-6
    )
