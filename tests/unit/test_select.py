from __future__ import annotations

import numpy as np
import pytest

from ksame.core.errors import CannotGuarantee, UsageError
from ksame.partition import StratumMerge, hierarchical, ksame, make_strata, select


def faces(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_strata_are_partitioned_on_their_own():
    x, label = faces(20), np.array(["f", "m"] * 10)
    groups = select(x, 3, label=label, partition="hierarchical")
    for part in "fm":
        alone = hierarchical(x[label == part], 3).labels
        _, first = np.unique(groups.labels[label == part], return_inverse=True)
        assert np.array_equal(np.argsort(np.unique(first, return_index=True)[1])[first], alone)


def test_any_function_of_the_signature_is_a_method():
    calls = []

    def method(codes, k, *, subjects, rng):
        calls.append((len(codes), k, isinstance(rng, np.random.Generator)))
        return ksame(codes, k, subjects=subjects, rng=rng)

    select(faces(9), 2, label=[0, 0, 0, 0, 1, 1, 1, 1, 1], partition=method)
    assert calls == [(4, 2, True), (5, 2, True)]


def test_same_seed_same_groups_and_equal_strata_are_not_drawn_alike():
    x, label = np.tile(faces(12), (2, 1)), np.repeat([0, 1], 12)
    one, two = (select(x, 3, label=label, partition="random", rng=5).labels for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one[:12], one[12:] - one[12:].min())


def test_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"partition must be one of mdav, .*kmeans.* Got 'best'"):
        select(faces(4), 2, label=[0] * 4, partition="best")


def test_unknown_answer_to_small_strata_is_refused():
    with pytest.raises(UsageError, match=r"small must be 'refuse' or 'merge'\. Got 'drop'"):
        make_strata(faces(4), 2, label=[0] * 4, small="drop")  # type: ignore[arg-type]


def test_every_face_needs_a_label():
    with pytest.raises(UsageError, match=r"label must have one value per code: 4\. Got 3"):
        select(faces(4), 2, label=list("aab"))


def test_small_strata_are_refused_by_name_and_size():
    with pytest.raises(CannotGuarantee) as refusal:
        select(faces(9), 3, label=list("aaaabbccc"))
    assert str(refusal.value) == (
        "Each stratum needs at least k = 3 distinct subjects; too few in 'b' (2):"
        " lower k, omit these faces, or merge them with the nearest stratum."
    )


def test_photos_do_not_make_a_stratum_large():
    with pytest.raises(CannotGuarantee, match=r"too few in 'b' \(1\)"):
        select(faces(8), 2, label=list("aaaabbbb"), subjects=list("wxyzvvvv"))


def test_a_subject_with_two_labels_is_refused_by_name():
    label = ["neutral", "smiling", "neutral", "neutral"]
    with pytest.raises(UsageError) as refusal:
        select(faces(4), 2, label=label, subjects=["ann", "ann", "bob", "cas"])
    assert str(refusal.value) == (
        "Subject 'ann' has the labels neutral, smiling, but no subject may be in two groups:"
        " give each subject one label, or release the photos of each label separately."
    )


def test_small_strata_are_merged_with_the_nearest_and_reported():
    x = np.array([[0.0], [0.0], [0.0], [10.0], [10.0], [10.0], [9.0], [1.0]])
    part, merges = make_strata(x, 3, label=list("aaabbbcd"), small="merge")
    assert part.tolist() == [1, 1, 1, 0, 0, 0, 0, 1]
    assert merges == (StratumMerge("c", 1, "b", 3), StratumMerge("d", 1, "a", 3))
    groups = select(x, 3, label=list("aaabbbcd"), small="merge")
    assert groups.labels.tolist() == [0, 0, 0, 1, 1, 1, 1, 0]


def test_merging_goes_on_until_all_are_large_enough():
    part, merges = make_strata([[0.0], [1.0], [3.0], [7.0]], 4, label=list("abcd"), small="merge")
    assert part.tolist() == [0] * 4
    assert [(merge.stratum, merge.into) for merge in merges] == [
        ("a", "b"),
        ("c", "b + a"),
        ("d", "b + a + c"),
    ]


def test_nothing_is_merged_without_need():
    assert make_strata(faces(6), 2, label=[0, 0, 1, 1, 2, 2], small="merge")[1] == ()


def test_too_few_people_in_all_cannot_be_merged_into_enough():
    with pytest.raises(CannotGuarantee, match=r"k must be an integer in \[2, 3\]"):
        make_strata(faces(3), 4, label=list("abc"), small="merge")
