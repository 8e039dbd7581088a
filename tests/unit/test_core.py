import numpy as np
import pytest

import ksame
from ksame.core import guarantee
from ksame.core.errors import CannotGuarantee, GuaranteeViolated, UsageError
from ksame.core.faces import FaceSet
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition, as_k, check_law


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "code"),
        [
            ("KSameError", 1),
            ("UsageError", 2),
            ("GuaranteeError", 3),
            ("CannotGuarantee", 3),
            ("GuaranteeViolated", 3),
            ("InputError", 4),
            ("ResidualFace", 5),
            ("WeightsError", 1),
        ],
    )
    def test_one_tree_with_the_exit_codes_of_the_command_line(self, name, code):
        error = getattr(ksame, name)
        assert issubclass(error, ksame.KSameError) and error.exit_code == code

    def test_wrong_arguments_are_also_value_errors(self):
        assert issubclass(UsageError, ValueError) and issubclass(CannotGuarantee, ValueError)

    def test_public_names_exist(self):
        assert all(hasattr(guarantee, name) for name in guarantee.__all__)


class TestAsK:
    @pytest.mark.parametrize("k", [2, np.int64(2), np.uint8(2)])
    def test_an_integer_of_any_make(self, k):
        assert as_k(k, 2) == 2 and type(as_k(k, 2)) is int

    @pytest.mark.parametrize("k", [2.0, "2", None, True, np.True_, [2]])
    def test_no_integer_is_no_k(self, k):
        with pytest.raises(UsageError, match="an integer of at least 2"):
            as_k(k)

    @pytest.mark.parametrize("k", [1, 0, -3])
    def test_k_below_two_would_publish_faces(self, k):
        with pytest.raises(UsageError, match="published unchanged"):
            as_k(k, 10)

    def test_k_above_the_people_there_are(self):
        with pytest.raises(CannotGuarantee, match=r"in \[2, 3\]: 3 distinct subjects were given\. Got 4\."):
            as_k(4, 3)

    @pytest.mark.parametrize("subjects", [0, 1])
    def test_nobody_to_hide_among(self, subjects):
        with pytest.raises(CannotGuarantee, match=f"Got {subjects}"):
            as_k(2, subjects)


class TestLaw:
    def test_one_face_per_person_gives_one_over_the_smallest_group(self):
        assert check_law(["x", "x", "y", "y", "y"], range(5), k=2) == 0.5

    def test_several_photos_give_the_largest_share(self):
        assert check_law([0] * 4, list("AAAB"), k=2) == 0.75

    def test_photos_of_one_person_do_not_make_a_group(self):
        with pytest.raises(GuaranteeViolated, match="stands for 1 distinct subjects, fewer than k = 2"):
            check_law([0, 0, 1, 1], list("AABC"), k=2)

    def test_one_person_behind_two_faces(self):
        with pytest.raises(GuaranteeViolated, match="'A' is behind 2 different published faces"):
            check_law([0, 0, 1, 1], list("ABAC"), k=2)

    def test_two_faces_of_one_crowd_are_refused_unless_they_are_asked_for(self):
        outputs, subjects = ["calm", "smile"] * 2, list("AABB")
        with pytest.raises(GuaranteeViolated, match="'A' is behind 2 different published faces"):
            check_law(outputs, subjects, k=2)
        assert check_law(outputs, subjects, k=2, allow_several=True) == 0.5

    def test_two_faces_of_two_crowds_narrow_the_guess(self):
        with pytest.raises(GuaranteeViolated, match="'B' is behind 2 different published faces"):
            check_law([0, 0, 1, 1], list("ABBC"), k=2, allow_several=True)

    @pytest.mark.parametrize(("outputs", "subjects"), [([0, 0], [1]), ([[0, 0]], [[1, 2]])])
    def test_each_output_needs_a_subject(self, outputs, subjects):
        with pytest.raises(UsageError, match="Each output needs one subject"):
            check_law(outputs, subjects, k=2)

    def test_nothing_is_not_proof(self):
        with pytest.raises(GuaranteeViolated, match="no faces were given"):
            check_law([], [], k=2)


class TestPartition:
    def test_labels_are_numbered_by_first_appearance(self):
        groups = Partition(["b", "a", "b", "a", "a"], k=2)
        assert groups.labels.tolist() == [0, 1, 0, 1, 1]
        assert groups.sizes.tolist() == [2, 3] and len(groups) == 2
        assert [rows.tolist() for rows in groups.groups] == [[0, 2], [1, 3, 4]]

    def test_k_counts_people(self):
        groups = Partition([0, 0, 0, 1, 1], k=2, subjects=list("AABCD"))
        assert groups.people.tolist() == [2, 2]
        assert groups.bound == pytest.approx(2 / 3)

    @pytest.mark.parametrize(
        ("labels", "subjects"),
        [([0, 0, 1], None), ([0, 0, 1, 1], list("ABAC")), ([0, 0, 1, 1], list("AABC")), ([], None)],
    )
    def test_it_cannot_exist_unless_it_keeps_the_law(self, labels, subjects):
        with pytest.raises(GuaranteeViolated):
            Partition(labels, k=2, subjects=subjects)

    def test_nobody_can_change_it_afterwards(self):
        given = np.array([0, 0, 1, 1])
        groups = Partition(given, k=2)
        given[:] = 0
        assert groups.labels.tolist() == [0, 0, 1, 1]
        for array in (groups.labels, groups.subjects, groups.sizes, groups.people):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7
        with pytest.raises(AttributeError):
            groups.k = 3

    def test_k_must_make_sense(self):
        with pytest.raises(UsageError):
            Partition([0, 0], k=1)


class TestGuarantee:
    strong = Guarantee("k-anonymity and wrong-map", k=5, bound=0.2)

    def test_it_says_what_it_claims(self):
        says = str(self.strong)
        assert "k = 5" in says and "chance above 0.2" in says
        assert "another person's" in says and "every byte" in says

    def test_no_guarantee_says_so_first(self):
        assert str(Guarantee("none")).startswith("No guarantee")

    def test_assumptions_are_said(self):
        assert "Assumed: the moon is full." in str(Guarantee("wrong-map", assumptions=("the moon is full",)))

    @pytest.mark.parametrize(
        ("kind", "pages"),
        [
            ("k-anonymity and wrong-map", ["k-anonymity", "wrong-map"]),
            ("k-anonymity", ["k-anonymity"]),
            ("wrong-map", ["wrong-map"]),
            ("none", ["none"]),
        ],
    )
    def test_it_names_the_pages_of_its_proof(self, kind, pages):
        options = {"k": 2, "bound": 0.5} if kind.startswith("k-") else {}
        proof = Guarantee(kind, **options).proof
        assert proof == ", ".join(f"docs/explanation/guarantees/{page}.md" for page in pages)

    @pytest.mark.parametrize(
        "claim",
        [
            {"kind": "privacy"},
            {"kind": "none", "scope": "universe"},
            {"kind": "k-anonymity", "k": 1, "bound": 0.5},
            {"kind": "k-anonymity", "k": 2, "bound": 1.0},
            {"kind": "k-anonymity", "k": 2, "bound": 0.0},
            {"kind": "wrong-map", "k": 2},
            {"kind": "none", "bound": 0.5},
        ],
    )
    def test_contradictions_are_refused(self, claim):
        with pytest.raises(UsageError):
            Guarantee(**claim)

    @pytest.mark.parametrize(
        "step",
        [
            {"kind": "k-anonymity"},
            {"kind": "wrong-map"},
            {"kind": "none"},
            {"bound": 0.75},
            {"scope": "code"},
            {},
        ],
    )
    def test_a_step_lowers_it(self, step):
        weak = self.strong.lower(**step, because="so it is")
        assert weak < self.strong and not self.strong < weak
        assert weak <= weak and not weak < weak
        assert "so it is" in weak.assumptions
        for name, value in step.items():
            assert getattr(weak, name) == value

    def test_lowering_twice_for_one_reason_says_it_once(self):
        once = self.strong.lower(because="so it is")
        assert once.lower(because="so it is") == once

    @pytest.mark.parametrize(
        ("claim", "step", "says"),
        [
            (Guarantee("k-anonymity", 5, 0.2), {"kind": "k-anonymity and wrong-map"}, "kind"),
            (Guarantee("k-anonymity", 5, 0.2), {"bound": 0.1}, "bound"),
            (Guarantee("wrong-map", scope="code"), {"scope": "file"}, "scope"),
            (Guarantee("k-anonymity", 5, 0.2), {"kind": "wrong-map"}, "kind"),
        ],
    )
    def test_no_step_raises_it(self, claim, step, says):
        with pytest.raises(GuaranteeViolated, match=f"only be lowered: {says}"):
            claim.lower(**step, because="I wish")

    def test_the_order_is_partial(self):
        one, other = Guarantee("k-anonymity", 5, 0.2), Guarantee("wrong-map")
        assert not one <= other and not other <= one

    def test_k_anonymity_verifies_on_pictures(self):
        images = np.zeros((5, 2, 2, 3), np.uint8)
        Guarantee("k-anonymity", 5, 0.2).verify(images)
        images[0, 0, 0, 0] = 1
        with pytest.raises(GuaranteeViolated, match="stands for 1"):
            Guarantee("k-anonymity", 5, 0.2).verify(images)

    def test_equal_means_equal_to_the_last_bit(self):
        with pytest.raises(GuaranteeViolated, match="stands for 1"):
            Guarantee("k-anonymity", 2, 0.5).verify([[0.0, 1.0], [-0.0, 1.0]])

    def test_a_share_above_the_bound_is_found(self):
        with pytest.raises(GuaranteeViolated, match=r"a share of 0\.75 in a group, over 0\.5"):
            Guarantee("k-anonymity", 2, 0.5).verify(np.zeros((4, 1)), subjects=list("AAAB"))

    def test_wrong_map_needs_the_originals(self):
        with pytest.raises(UsageError, match="original codes"):
            Guarantee("wrong-map").verify(np.zeros((4, 1)))

    def test_wrong_map_is_checked_against_all_photos_of_a_person(self):
        codes, subjects = np.array([[0.0], [5.0], [6.0], [20.0]]), list("AABC")
        Guarantee("wrong-map").verify([[6.1], [21.0], [1.0], [1.0]], subjects=subjects, originals=codes)
        with pytest.raises(GuaranteeViolated, match="new face 0 is its own"):
            Guarantee("wrong-map").verify([[5.1], [21.0], [1.0], [1.0]], subjects=subjects, originals=codes)

    def test_a_tie_is_no_wrong_map(self):
        with pytest.raises(GuaranteeViolated):
            Guarantee("wrong-map").verify([[1.0], [1.0]], originals=np.array([[0.0], [2.0]]))

    def test_nobody_else_is_no_wrong_map(self):
        with pytest.raises(GuaranteeViolated):
            Guarantee("wrong-map").verify([[9.0]], originals=np.array([[0.0]]))

    def test_no_guarantee_is_always_true(self):
        Guarantee("none").verify(np.arange(3.0)[:, None])


def faces(n=3, **changed):
    arrays = {
        "rgb": np.zeros((n, 4, 4, 3), np.uint8),
        "points": np.zeros((n, 5, 2)),
        "xyxy": np.zeros((n, 4)),
        "score": np.linspace(0, 1, n),
        "source": np.array([f"{i}.jpg" for i in range(n)]),
        "subject": np.array([f"s{i}" for i in range(n)]),
        "labels": {"gender": np.arange(n)},
    }
    return FaceSet(**{**arrays, **changed})


class TestFaceSet:
    @pytest.mark.parametrize("index", [[0, 2], np.array([True, False, True]), slice(0, 3, 2)])
    def test_a_mask_an_index_or_a_slice_gives_a_face_set(self, index):
        some = faces()[index]
        assert len(some) == 2 and some.subject.tolist() == ["s0", "s2"]
        assert some.labels["gender"].tolist() == [0, 2]

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("rgb", np.zeros((3, 4, 4), np.uint8)),
            ("rgb", np.zeros((3, 4, 4, 1), np.uint8)),
            ("rgb", np.zeros((3, 4, 4, 3))),
            ("points", np.zeros((3, 5))),
            ("points", np.zeros((3, 5, 3))),
            ("points", np.zeros((2, 5, 2))),
            ("xyxy", np.zeros((3, 5))),
            ("score", np.zeros(2)),
            ("source", np.array(["a.jpg"])),
            ("subject", np.array(["a"] * 4)),
        ],
    )
    def test_arrays_that_are_not_parallel_are_refused(self, column, value):
        with pytest.raises(UsageError, match=column):
            faces(**{column: value})

    def test_labels_are_parallel_and_cannot_be_changed(self):
        with pytest.raises(UsageError, match=r"age must have one row per face: 3\. Got 2\."):
            faces(labels={"age": np.zeros(2)})
        with pytest.raises(TypeError):
            faces().labels["age"] = np.zeros(3)


def test_a_claim_of_heads_says_what_it_covers():
    claim = str(Guarantee("k-anonymity", 5, 0.2, scope="head"))
    assert claim.startswith("k-anonymity of the heads with k = 5: every new head stands for at least 5")
    assert "the neck, clothes and the place" in claim


def test_a_claim_of_codes_says_that_images_show_more():
    claim = str(Guarantee("k-anonymity", 5, 0.2, scope="code"))
    assert claim.startswith("k-anonymity of the face codes with k = 5")
