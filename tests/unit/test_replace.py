import numpy as np
import pytest

from ksame import replace
from ksame.core import CannotGuarantee, Partition, UsageError
from ksame.replace import centroid


def cloud(n, d=8, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


class TestCentroid:
    def test_every_face_becomes_the_mean_of_its_group(self):
        new, guarantee = centroid([[0.0, 1], [2, 5], [7, 7], [9, 8]], Partition([1, 1, 0, 0], k=2))
        assert new.tolist() == [[1, 3], [1, 3], [8, 7.5], [8, 7.5]]
        assert (guarantee.kind, guarantee.k, guarantee.bound) == ("k-anonymity", 2, 0.5)

    def test_a_person_with_many_photos_weighs_no_more_than_one_with_a_single_photo(self):
        groups = Partition([0] * 4, k=2, subjects=["A", "A", "A", "B"])
        new, guarantee = centroid([[0.0], [1.0], [2.0], [5.0]], groups)
        assert new.ravel().tolist() == [3.0] * 4  # (1 + 5) / 2, not (0 + 1 + 2 + 5) / 4
        assert guarantee.bound == 0.75

    def test_single_precision_stays_single(self):
        new, _ = centroid(cloud(10).astype(np.float32), Partition([0] * 10, k=10))
        assert new.dtype == np.float32 and len(np.unique(new, axis=0)) == 1

    @pytest.mark.parametrize("value", [0.0, 0.1, 1e6, 1e-200])
    def test_a_photo_under_k_names_is_not_published(self, value):
        with pytest.raises(CannotGuarantee, match=r"1 group.* real person's face"):
            centroid(np.full((3, 4), value), Partition([0] * 3, k=3))

    def test_a_mean_that_falls_on_a_face_of_another_group_is_not_published(self):
        with pytest.raises(CannotGuarantee, match="real person"):
            centroid([[0.0], [2.0], [1.0], [9.0]], Partition([0, 0, 1, 1], k=2))

    def test_some_duplicates_are_no_obstacle_while_the_mean_is_nobody(self):
        new, _ = centroid([[0.0], [0.0], [3.0], [7.0], [7.0], [9.0]], Partition([0, 0, 0, 1, 1, 1], k=3))
        assert new[0, 0] == 1.0

    def test_real_codes_can_be_asked_for_and_the_claim_says_so(self):
        new, guarantee = centroid(np.ones((3, 2)), Partition([0] * 3, k=3), allow_real=True)
        assert (new == 1).all()
        assert "real person" in str(guarantee)

    @pytest.mark.parametrize(
        ("codes", "says"),
        [
            (np.ones(4), "shape"),
            (np.ones((4, 0)), "shape"),
            (np.ones((3, 2)), "each of the 4 faces. Got 3"),
            ([[0.0], [1.0], [np.nan], [2.0]], "finite"),
        ],
    )
    def test_codes_that_do_not_fit_are_refused(self, codes, says):
        with pytest.raises(UsageError, match=says):
            centroid(codes, Partition([0, 0, 1, 1], k=2))


def test_the_public_names():
    assert all(callable(getattr(replace, name)) for name in replace.__all__)
