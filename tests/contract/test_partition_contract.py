"""The contract of every partition in METHODS; a new method is tested by being listed there."""

from __future__ import annotations

import numpy as np
import pytest

from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.partition_type import check_law
from ksame.partition import METHODS

pytestmark = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
DETERMINISTIC = {"mdav", "maxdist", "hierarchical"}
RANDOM = {"ksame", "kmember", "random"}  # the rest may be either, and is held to what it shows


def faces(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def sets(groups):
    return frozenset(frozenset(group.tolist()) for group in groups.groups)


def is_random(method, x):
    return len({sets(method(x, 3, rng=seed)) for seed in range(8)}) > 1


@pytest.mark.parametrize("k", [2, 3, 5])
def test_groups_are_as_many_as_k_allows_for_every_n(method, k):
    for n in range(k, 5 * k + 1):
        groups = method(faces(n), k, rng=0)
        assert len(groups.labels) == n
        assert groups.k == k
        assert len(groups) == n // k
        assert groups.sizes.min() >= k
        assert groups.sizes.max() < 2 * k


def test_k_of_all_is_one_group(method):
    assert method(faces(6), 6).labels.tolist() == [0] * 6


def test_two_far_apart_groups_are_found(method):
    if method is METHODS["random"]:
        assert is_random(method, faces(20))
        return
    x = np.concatenate([faces(5), faces(5, seed=1) + 100])
    assert method(x, 5, rng=0).labels.tolist() == [0] * 5 + [1] * 5


def test_too_few_subjects_are_refused_with_the_range_of_k(method):
    with pytest.raises(CannotGuarantee) as refusal:
        method(faces(12), 20)
    assert str(refusal.value) == "k must be an integer in [2, 12]: 12 distinct subjects were given. Got 20."


def test_k_counts_subjects_and_not_photos(method):
    with pytest.raises(CannotGuarantee, match=r"in \[2, 3\]: 3 distinct subjects were given\. Got 4\."):
        method(faces(12), 4, subjects=list("abcabcabcabc"))


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_subjects_are_refused(method, n):
    with pytest.raises(CannotGuarantee, match="At least 2 distinct subjects"):
        method(np.zeros((n, 3)), 2)


@pytest.mark.parametrize("k", [1, 0, -3, 2.5, 5.0, "5", True, np.bool_(True), None, [2]], ids=repr)
def test_k_that_is_no_integer_above_one_is_refused(method, k):
    with pytest.raises(UsageError, match="k must be an integer of at least 2"):
        method(faces(12), k)


def test_k_may_be_any_integer_type(method):
    assert method(faces(12), np.int32(3), rng=0).k == 3


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros(12),
        np.zeros((12, 2, 2)),
        np.zeros((12, 0)),
        [],
        [[1.0], [2.0, 3.0]],
        [["a"], ["b"]],
        [[1j], [2j]],
        [[None], [None]],
        None,
    ],
    ids=["vector", "cube", "no columns", "empty", "ragged", "words", "complex", "objects", "nothing"],
)
def test_codes_that_are_no_matrix_of_numbers_are_refused(method, codes):
    with pytest.raises(UsageError, match="codes must be"):
        method(codes, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_codes_without_finite_distances_are_refused(method, bad):
    x = faces(12)
    x[3, 1] = bad
    with pytest.raises(UsageError, match="codes must be finite"):
        method(x, 3)


@pytest.mark.parametrize("subjects", [["a"] * 11, [["a"]] * 12, "a"])
def test_subjects_must_name_each_face(method, subjects):
    with pytest.raises(UsageError, match="subjects must have one entry per code: 12"):
        method(faces(12), 3, subjects=subjects)


def test_same_seed_same_groups(method):
    x = faces(30)
    assert np.array_equal(method(x, 3, rng=7).labels, method(x, 3, rng=7).labels)


def test_a_generator_is_a_seed_too(method):
    x = faces(30)
    drawn = method(x, 3, rng=np.random.default_rng(7))
    assert np.array_equal(drawn.labels, method(x, 3, rng=7).labels)


def test_randomness_is_as_stated(method):
    name = next(name for name, listed in METHODS.items() if listed is method)
    random = is_random(method, faces(30))
    assert not (random and name in DETERMINISTIC)
    assert not (not random and name in RANDOM)


def test_without_a_seed_random_methods_vary_and_others_do_not(method):
    x = faces(30)
    unseeded = {sets(method(x, 3)) for _ in range(8)}
    assert (len(unseeded) > 1) == is_random(method, x)


def test_order_of_rows_does_not_matter_unless_it_is_drawn(method):
    x = faces(40)
    if is_random(method, x):  # then the law must hold for any order; which groups, the seed decides
        shuffled = method(x[::-1], 3, rng=0)
        assert check_law(shuffled.labels, np.arange(40), 3) == shuffled.bound
        return
    order = np.random.default_rng(1).permutation(40)
    moved = {frozenset(order[list(group)].tolist()) for group in sets(method(x[order], 3))}
    assert moved == sets(method(x, 3))


def test_input_is_not_modified(method):
    x, subjects = faces(12), np.array(list("abcdefabcdef"))
    before = x.copy(), subjects.copy()
    method(x, 3, subjects=subjects)
    assert np.array_equal(x, before[0])
    assert np.array_equal(subjects, before[1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8, ">f8"])
def test_type_and_layout_of_codes_do_not_matter(method, dtype):
    x = np.random.default_rng(0).integers(0, 200, (30, 4))
    plain = method(x.astype(np.float64), 3, rng=0).labels
    codes = x.astype(dtype)
    wide = np.repeat(codes, 2, axis=1)
    for same in (codes, np.asfortranarray(codes), wide[:, ::2], codes.tolist()):
        assert np.array_equal(method(same, 3, rng=0).labels, plain)


def test_read_only_codes_are_read(method):
    x = faces(12)
    x.flags.writeable = False
    assert len(method(x, 3)) == 4


def test_one_column_is_enough(method):
    assert len(method(faces(12, d=1), 3)) == 4


def test_more_columns_than_rows_are_fine(method):
    assert len(method(faces(12, d=50), 3)) == 4


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6, 1e-200])
def test_copies_are_grouped_too(method, value):
    groups = method(np.full((17, 3), value), 4)
    assert len(groups) == 4
    assert groups.sizes.min() >= 4


def test_no_subject_is_in_two_groups(method):
    rng = np.random.default_rng(0)
    subjects = np.concatenate([np.arange(10), rng.integers(0, 10, 50)]).astype(str)
    groups = method(faces(60), 3, subjects=subjects, rng=0)
    assert check_law(groups.labels, subjects, 3) == groups.bound
    assert groups.people.tolist() == [len(set(subjects[rows])) for rows in groups.groups]
    assert groups.people.sum() == 10


def test_a_second_photo_of_every_subject_changes_nothing(method):
    x = faces(20)
    once = method(x, 3, rng=0)
    twice = method(np.concatenate([x, x]), 3, subjects=np.tile(np.arange(20), 2), rng=0)
    assert np.array_equal(twice.labels, np.tile(once.labels, 2))
    assert twice.bound == once.bound


def test_names_of_subjects_do_not_matter(method):
    x, people = faces(30), np.arange(30) % 12
    names = np.array([f"{'zyxwvutsrqpo'[person]}" for person in people])
    assert np.array_equal(
        method(x, 3, subjects=people, rng=0).labels, method(x, 3, subjects=names, rng=0).labels
    )
