import numpy as np
import pytest

from ksame import replace
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.partition_type import Partition
from ksame.replace import centroid, furthest, furthest_pairs, kdiff, mix, risk_weights
from ksame.replace.mix import MAX_WEIGHT_SHARE


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


class TestFurthest:
    def test_each_cluster_gets_the_mean_of_the_other(self):
        new, guarantee = furthest([[0], [1], [10], [12]], 2, rng=3)
        assert new.ravel().tolist() == [11, 11, 0.5, 0.5]
        assert (guarantee.kind, guarantee.bound) == ("k-anonymity and wrong-map", 0.5)

    def test_who_is_left_joins_the_nearer_of_the_last_two_and_moves_no_mean(self):
        pairs = furthest_pairs([[0.0], [0.5], [10.0], [12.0], [6.6], [4.4]], 2, rng=1)
        assert pairs.partition.labels.tolist() == [0, 0, 1, 1, 1, 0]
        assert sorted(pairs.means.ravel()) == [0.25, 11.0]

    def test_a_surrogate_averages_k_people_where_the_paper_would_publish_one(self):
        codes = cloud(40, 128)  # in many dimensions clusters overlap at the first addition [S 4.3]
        pairs = furthest_pairs(codes, 5, rng=0)
        for group, mean in enumerate(pairs.means):
            np.testing.assert_allclose(mean, codes[pairs.partition.labels == group].mean(axis=0))
        assert pairs.wrong_map

    def test_partners_are_each_others_unless_exchanged(self):
        pairs = furthest_pairs(cloud(40, 128), 5, rng=0)
        assert (pairs.sources[pairs.sources] == np.arange(8)).all() and (pairs.sources != np.arange(8)).all()

    def test_partners_are_exchanged_where_a_swap_leads_home(self):
        codes = cloud(12, 2)
        pairs = furthest_pairs(codes, 2, rng=0)
        assert pairs.sources.tolist() == [2, 3, 1, 0, 5, 4]  # a cycle of four and one pair
        assert pairs.wrong_map
        new, guarantee = furthest(codes, 2, rng=0)
        guarantee.verify(new, originals=codes)

    def test_wrong_map_is_not_claimed_where_it_does_not_hold(self):
        kite = [[0.0, 0], [10, 0], [5, 1], [5, 8]]  # docs/explanation/guarantees/wrong-map.md, gap 2
        new, guarantee = furthest(kite, 2, rng=0)
        assert guarantee.kind == "k-anonymity"
        assert "wrong-map was attempted" in str(guarantee)
        guarantee.verify(new)

    def test_three_people_with_one_code_are_refused_where_theorem_3_ties(self):
        with pytest.raises(CannotGuarantee, match="real person"):
            furthest([[0.0], [10.0], [10.0], [10.0]], 2, rng=0)

    def test_photos_of_one_person_share_a_cluster(self):
        subjects = np.repeat(np.arange(12), 3)
        codes = cloud(12)[subjects] + 0.1 * cloud(36, seed=1)
        new, guarantee = furthest(codes, 3, subjects=subjects, rng=0)
        guarantee.verify(new, subjects=subjects, originals=codes)
        assert guarantee.bound <= 1 / 3

    def test_single_precision_stays_single(self):
        assert furthest(cloud(20).astype(np.float32), 3, rng=0)[0].dtype == np.float32

    @pytest.mark.parametrize("method", [furthest, kdiff])
    def test_two_clusters_of_k_people_are_needed(self, method):
        with pytest.raises(CannotGuarantee, match=r"6 distinct subjects for k = 3\. Got 5\."):
            method(cloud(5), 3)

    @pytest.mark.parametrize("method", [furthest, kdiff])
    def test_photos_do_not_count_as_people(self, method):
        with pytest.raises(CannotGuarantee, match="Got 3"):
            method(cloud(30), 2, subjects=np.arange(30) % 3)

    @pytest.mark.parametrize("method", [furthest, kdiff])
    def test_one_photo_under_all_names_is_refused(self, method):
        with pytest.raises(CannotGuarantee, match="real p"):
            method(np.ones((8, 3)), 2, rng=0)

    @pytest.mark.parametrize("method", [furthest, kdiff])
    def test_subjects_must_fit(self, method):
        with pytest.raises(UsageError, match=r"one entry per code: 8\. Got 7"):
            method(cloud(8), 2, subjects=range(7))


class TestKDiff:
    def test_clusters_swap_places_and_keep_their_form(self):
        new, guarantee = kdiff([[0.0], [1.0], [10.0], [12.0]], 2, rng=0)
        assert new.ravel().tolist() == [10.5, 11.5, -0.5, 1.5]
        assert (guarantee.kind, guarantee.k, guarantee.bound) == ("wrong-map", 1, 1.0)

    def test_clusters_of_like_form_do_not_swap_real_faces(self):
        codes = np.array([[0.0], [2.0], [10.0], [12.0]])
        for seed in range(10):
            new, guarantee = kdiff(codes, 2, rng=seed)
            assert not np.isin(new, codes).any()
            assert guarantee.wrong_map

    @pytest.mark.parametrize("single", ["grow", "ball"])
    def test_single_pairs_publish_no_real_face(self, single):
        codes = cloud(41, 128)  # every pair overlaps at the first addition, and one face is left over
        new, guarantee = kdiff(codes, 5, rng=0, single=single)
        nearest = np.linalg.norm(new[:, None] - codes, axis=2).min(axis=1)
        assert nearest.min() > 0.1
        assert guarantee.wrong_map

    def test_a_face_in_a_ball_is_within_a_quarter_of_the_way(self):
        codes = np.array([[0.0, 0], [100, 0], [50, 60], [50, -60]])
        new, _ = kdiff(codes, 2, rng=0, single="ball")
        way = np.linalg.norm(codes[:, None] - codes, axis=2)
        nearest = np.linalg.norm(new[:, None] - codes, axis=2).min(axis=1)
        assert (nearest <= way.max() / 4).all() and (nearest > 0).all()

    def test_nothing_is_claimed_where_wrong_map_does_not_hold(self):
        # four people alike on their mean, each with one photo a world away: their own photos are nearest
        subjects = np.repeat(np.arange(4), 2)
        spots = 1000.0 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
        codes = np.stack([spots, -spots * 1.001], axis=1).reshape(8, 2) + cloud(8, 2)
        new, guarantee = kdiff(codes, 2, subjects=subjects, rng=0)
        assert guarantee.kind == "none"
        assert "fails for" in str(guarantee)
        assert new.shape == codes.shape

    def test_an_unknown_cure_is_refused(self):
        with pytest.raises(UsageError, match="'grow' or 'ball'"):
            kdiff(cloud(8), 2, single="swap")


class TestMix:
    groups = Partition([0, 0, 0, 1, 1, 1], k=2, subjects=list("AABCCD"))
    codes = np.array([[0.0], [2.0], [5.0], [10.0], [10.5], [20.0]])

    def test_without_weights_it_is_the_centroid(self):
        assert (mix(self.codes, self.groups)[0] == centroid(self.codes, self.groups)[0]).all()

    def test_a_person_weighs_the_mean_of_the_photos(self):
        new, guarantee = mix(self.codes, self.groups, weights=[1, 5, 2, 1, 1, 1])
        assert new[0, 0] == pytest.approx((3 * 1 + 2 * 5) / 5)
        assert guarantee.bound == pytest.approx(2 / 3)

    def test_random_weights_stay_within_delta(self):
        for seed in range(50):
            new, _ = mix([[0.0], [1.0]], Partition([0, 0], k=2), random_weights=0.1, rng=seed)
            assert 0.4 < new[0, 0] == new[1, 0] < 0.6

    @pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1, -1], [1, 1, 1, 1, 1, np.inf]])
    def test_weights_that_make_no_sense_are_refused(self, weights):
        with pytest.raises(UsageError, match="6 finite numbers"):
            mix(self.codes, self.groups, weights=weights)

    @pytest.mark.parametrize("weights", [[99, 99, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]])
    def test_weights_that_leave_one_face_are_refused(self, weights):
        with pytest.raises(CannotGuarantee, match="more than 90%"):
            mix(self.codes, self.groups, weights=weights)

    @pytest.mark.parametrize("delta", [0, -1, 0.41, np.nan])
    def test_a_delta_that_could_leave_one_face_is_refused(self, delta):
        with pytest.raises(UsageError, match=r"above 0 and at most 0\.4"):
            mix(self.codes, self.groups, random_weights=delta)

    def test_weights_cannot_be_given_and_drawn(self):
        with pytest.raises(UsageError, match="not both"):
            mix(self.codes, self.groups, weights=np.ones(6), random_weights=0.1)

    def test_a_weighted_mean_that_is_a_real_face_is_refused(self):
        with pytest.raises(CannotGuarantee, match="real person"):
            mix([[0.0], [1.0], [2.0]], Partition([0, 0, 0], k=3), weights=[2, 1, 2])

    def test_weights_fall_until_nobody_is_at_risk(self):
        codes = np.array([[0.0], [4.0], [50.0], [54.0]])
        asked = []

        def near(code, rows):
            asked.append(rows.tolist())
            return np.abs(codes[rows, 0] - code) < 1.5

        new, guarantee = mix(codes, Partition([0, 0, 1, 1], k=2), weights=[3, 1, 1, 1], at_risk=near)
        assert 1.5 <= new[0, 0] < 2 and new[2, 0] == 52
        assert guarantee.assumptions == ()
        assert asked.count([0, 1]) > 1 and asked.count([2, 3]) == 1

    def test_who_stays_at_risk_is_reported_and_not_hidden(self):
        weights, still = risk_weights(self.codes, self.groups, lambda code, rows: rows == 0)
        assert still.tolist() == [0, 1]  # one photo at risk puts the person at risk
        assert weights[0] == weights[1] < weights[2] <= MAX_WEIGHT_SHARE
        assert weights[3:].tolist() == [0.5] * 3
        _, guarantee = mix(self.codes, self.groups, at_risk=lambda code, rows: rows == 0)
        assert "2 of 6 faces stayed at risk" in str(guarantee)

    def test_where_all_are_at_risk_nobody_gains(self):
        weights, still = risk_weights(self.codes, self.groups, lambda code, rows: rows >= 0, rounds=3)
        assert still.tolist() == list(range(6)) and weights.tolist() == [0.5] * 6

    def test_the_last_reduction_is_assessed_too(self):
        seen = []
        risk_weights(self.codes, self.groups, lambda code, rows: seen.append(code[0]) or rows == 2, rounds=1)
        assert len(seen) == 3 and seen[1] < seen[0]  # group 0 before and after one round, group 1 once

    def test_all_weight_cannot_be_taken(self):
        weights, still = risk_weights(self.codes, self.groups, lambda code, rows: rows >= 0, beta=0.9)
        assert len(still) == 6 and weights.tolist() == [0.5] * 6

    @pytest.mark.parametrize("options", [{"beta": 0}, {"beta": 1}, {"rounds": 0}])
    def test_beta_and_rounds_must_make_sense(self, options):
        with pytest.raises(UsageError, match="beta must be in"):
            mix(self.codes, self.groups, at_risk=lambda code, rows: rows < 0, **options)


def test_the_public_names():
    assert all(callable(getattr(replace, name)) for name in replace.__all__)


def test_the_members_of_a_new_face_are_those_it_is_the_mean_of():
    codes = np.random.default_rng(3).normal(size=(12, 3))
    pairs = furthest_pairs(codes, 3, rng=0)
    for group, members in zip(pairs.partition.groups, pairs.members, strict=True):
        assert np.allclose(pairs.codes[group], codes[members].mean(axis=0))
