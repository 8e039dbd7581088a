from __future__ import annotations

import numpy as np
import pytest

from ksame.core.errors import GuaranteeViolated, UsageError
from ksame.core.partition_type import SubjectCodes


def test_photos_of_one_person_become_their_mean():
    people = SubjectCodes.of([[0.0], [5.0], [1.0], [7.0]], 2, ["b", "a", "b", "a"])
    assert people.codes.tolist() == [[0.5], [6.0]]  # in the order of first appearance
    assert people.subject_index.tolist() == [0, 1, 0, 1]


def test_each_photo_takes_its_subjects_group():
    people = SubjectCodes.of(np.arange(8.0)[:, None], 2, list("abcdabcd"))
    assert people.partition([0, 1, 1, 0]).labels.tolist() == [0, 1, 1, 0, 0, 1, 1, 0]


def test_a_partition_of_people_is_held_to_the_law():
    people = SubjectCodes.of(np.arange(8.0)[:, None], 2, list("abcdabcd"))
    with pytest.raises(GuaranteeViolated):
        people.partition([0, 1, 1, 1])


@pytest.mark.parametrize("subjects", [None, list("abcd")])
def test_codes_with_one_photo_each_are_not_copied(subjects):
    x = np.arange(4, dtype=np.float32)[:, None]
    assert SubjectCodes.of(x, 2, subjects).codes is x


def test_single_precision_stays_single():
    assert SubjectCodes.of(np.ones((4, 1), np.float32), 2, list("aabc")).codes.dtype == np.float32


def test_layout_becomes_one():
    assert SubjectCodes.of(np.asfortranarray(np.eye(4)), 2, None).codes.flags.c_contiguous


def test_largest_codes_still_have_finite_distances():
    x = np.full((4, 2), 9.9e149)
    assert np.isfinite(((SubjectCodes.of(x, 2, None).codes - -x) ** 2).sum())
    with pytest.raises(UsageError, match=r"smaller than 1e\+150"):
        SubjectCodes.of(x * 10, 2, None)
