"""Attacks on codes: what the law promises holds for all of them, and what breaks it is caught."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ksame
import oracles
from ksame import attack
from ksame.core.errors import InputError, UsageError
from ksame.core.partition_type import Partition

DIRECT = [attack.naive, attack.reverse]


def people(n=60, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def k_same(codes, k=5):
    return ksame.replace.centroid(codes, ksame.partition.mdav(codes, k))


@pytest.mark.parametrize("run", [*DIRECT, lambda a, b, **o: attack.parrot(a, b, lambda x: x, **o)])
def test_an_unprotected_copy_is_named_every_time(run):
    codes = people()
    result = run(codes, codes, k=5)
    assert (result.rank1, result.verdict, result.bound, result.probes) == (1.0, "broken", 0.2, 60)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32), st.integers(2, 4), st.integers(2, 4), st.sampled_from(["flat", "curved", "learnt"])
)
def test_2_no_recogniser_passes_the_bound_on_k_anonymous_codes(seed, k, groups, kind):
    """[N thm. 2], whatever the recogniser: naive, reverse and parrot."""
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(k * groups + int(rng.integers(k)), 3))
    new, guarantee = k_same(codes, k)
    axes = rng.normal(size=(3, 2))

    def train(gallery, subjects):
        if kind == "flat":
            return lambda probes: np.abs(probes[:, None] - gallery).sum(axis=2)
        if kind == "curved":
            return lambda probes: np.sin(9 * (probes @ axes)[:, None, 0] * (gallery @ axes)[:, 1])
        middle = gallery.mean(axis=0)
        return lambda probes: -((probes - middle) @ (gallery - middle).T)

    again = {"recogniser": train, "bound": guarantee.bound}
    for result in (
        attack.naive(codes, new, **again),
        attack.reverse(codes, new, **again),
        attack.parrot(codes, new, lambda x: k_same(x, k), **again),
        attack.parrot(codes, new, lambda x: k_same(x, k), others=codes + 0.1, **again),
    ):
        assert result.rank1 <= guarantee.bound + 1e-12
        assert result.verdict != "broken"
        assert result.bound == guarantee.bound


def test_the_mean_of_the_k_nearest_is_not_k_same_and_is_caught():
    """What most public code does (each face's own k neighbours), beside a partition."""
    codes, k = people(400, 20), 5
    far = ((codes[:, None] - codes) ** 2).sum(axis=2)
    imitation = codes[np.argsort(far, axis=1)[:, :k]].mean(axis=1)
    result = attack.naive(codes, imitation, k=k)
    assert result.rank1 > 0.6
    assert result.verdict == "broken"
    true = attack.naive(codes, k_same(codes, k)[0], k=k)
    assert true.rank1 <= 0.2
    assert true.verdict != "broken"


def test_a_parrot_finds_what_is_only_disguised():
    codes = people()
    turn = np.linalg.qr(people(6, 6, seed=1))[0]
    disguised = 3 * codes @ turn + 7
    assert attack.naive(codes, disguised).rank1 < 0.2
    parrot = attack.parrot(codes, disguised, lambda x: 3 * x @ turn + 7)
    assert (parrot.rank1, parrot.attack) == (1.0, "parrot")
    with pytest.raises(UsageError, match=r"one face for each of 60. Got 59"):
        attack.parrot(codes, disguised, lambda x: x[1:])


def test_a_swap_that_can_be_guessed_is_undone():
    """k-Diff-furthest on clear clusters: its own output has the same clusters, and swaps back."""
    rng = np.random.default_rng(0)
    codes = np.concatenate([rng.normal(-20, 1, (12, 2)), rng.normal(20, 1, (12, 2))])
    new, _ = ksame.replace.kdiff(codes, 12, rng=0)
    assert attack.naive(codes, new).rank1 == 0
    undone = attack.reconstruction(codes, new, lambda x: ksame.replace.kdiff(x, 12, rng=1))
    assert undone.rank1 > 0.5
    assert undone.attack == "reconstruction"


def test_several_guesses_have_several_times_the_bound():
    codes = people()
    new, _ = k_same(codes)
    one = attack.naive(codes, new, k=20)
    some = attack.group(codes, new, 5, k=20)
    assert some.rank1 == one.cmc[4] > one.rank1
    assert (some.bound, some.chance, some.attack) == (0.25, 5 * one.chance, "group")
    assert some.low < some.rank1 < some.high
    assert attack.group(codes, new, k=5).rank1 == some.rank1
    with pytest.raises(UsageError, match="How many people may be named"):
        attack.group(codes, new)
    assert attack.top_guesses(one, 30).verdict == "undecided"  # thirty twentieths promise nothing
    assert attack.top_guesses(one, 100).rank1 == 1
    with pytest.raises(UsageError, match=r"guesses must be in \[1, 100\]. Got 0"):
        attack.top_guesses(one, 0)


@given(st.data())
def test_two_releases_leave_those_who_share_every_group(data):
    sides = []
    for _ in range(2):
        who = data.draw(st.lists(st.integers(0, 5), min_size=2, max_size=9))
        labels = data.draw(st.lists(st.integers(0, 2), min_size=len(who), max_size=len(who)))
        sides.append(list(zip(labels, who, strict=True)))
    both = {p for _, p in sides[0]} & {p for _, p in sides[1]}
    groups, subjects = ([[row[i] for row in side] for side in sides] for i in (0, 1))
    if len(both) < 2:
        with pytest.raises(UsageError, match=r"nobody in common|At least 2 people"):
            attack.intersection(*groups, *subjects)
        return
    result = attack.intersection(*groups, *subjects, bound=0.5)
    left = [len(oracles.candidates(person, sides)) for person in both]
    assert result.rank1 == pytest.approx(np.mean([1 / n for n in left]))
    assert result.cmc[-1] == pytest.approx(1)
    assert result.bound == 0.5


def test_partitions_can_be_compared_as_they_are():
    one, two = Partition([0, 0, 1, 1], 2), Partition([0, 1, 0, 1], 2)
    assert attack.intersection(one, one, k=2).rank1 == 0.5
    assert attack.intersection(one, two, k=2).rank1 == 1.0
    with pytest.raises(UsageError, match="Got 3 groups and 2 subjects"):
        attack.intersection([0, 0, 0], [0, 0, 0], [1, 2])


def test_rows_may_come_in_any_order_with_names_of_any_kind():
    codes = people()
    order = np.random.default_rng(1).permutation(60)
    for names in (np.arange(60), [f"p{i}" for i in range(60)]):
        mixed = np.asarray(names)[order]
        assert attack.naive(codes, codes[order], subjects=names, released_subjects=mixed).rank1 == 1
        assert attack.naive(codes, codes, released_subjects=names).rank1 == 1
    as_text = order.astype(str)
    assert attack.naive(codes, codes[order], subjects=range(60), released_subjects=as_text).rank1 == 1
    assert attack.naive(codes.tolist(), codes.tolist()).rank1 == 1
    nan = codes.copy()
    nan[:30] = np.nan
    assert attack.naive(codes, nan).faceless == 30


def test_a_recogniser_by_name_or_by_hand_compares_codes():
    codes = np.abs(people())
    assert attack.naive(codes, codes, recogniser="lbp").recogniser == "lbp"

    def mine(gallery, subjects):
        return lambda probes: -(probes @ gallery.T)

    assert attack.naive(codes, codes, recogniser=mine).recogniser == "mine"
    with pytest.raises(UsageError, match="no recogniser 'magic'"):
        attack.naive(codes, codes, recogniser="magic")


def test_only_other_photos_where_both_are_told():
    codes = people(10)
    both = np.concatenate([codes, codes + 50])
    who = np.tile(np.arange(10), 2)
    options = {"subjects": who, "released_subjects": np.arange(10)}
    told = attack.naive(both, codes, **options, photos=np.arange(20), released_photos=np.arange(10))
    assert attack.naive(both, codes, **options).rank1 == 1
    assert told.rank1 < 1
    with pytest.raises(UsageError, match=r"Each face needs one photo. Got 3 for 20"):
        attack.naive(both, codes, **options, photos=[1, 2, 3])


A = np.eye(3)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((A, A[:2]), {}, "3 originals and 2 released faces: say who is who"),
        ((A, A[:, :2]), {}, "codes of the same length. Got 3 and 2"),
        ((A[:1], A[:1]), {}, "At least 2 people are needed"),
        ((A, A), {"subjects": [1, 1, 1]}, "At least 2 people are needed"),
        ((A, A), {"subjects": [0, 1, 2], "released_subjects": [3, 4, 5]}, "Nobody is on both sides"),
        ((A, A), {"subjects": [0, 1]}, "subjects must name each of 3 faces. Got 2"),
        ((A, A), {"bound": 0.2, "k": 5}, "bound or k, not both"),
        ((A, A), {"k": 0}, "k must be at least 1"),
        ((A, A), {"bound": 1.5}, r"bound must be in \[0, 1\]"),
        ((A, np.full((3, 3), np.inf)), {}, "released must be finite"),
        ((np.zeros((0, 3)), A), {}, "originals must show at least one face"),
        ((A, [[1.0], [1.0, 2.0], [3.0]]), {}, "n rows of equally many numbers"),
        ((np.zeros(3), A), {}, r"codes \(n, d\) or a list of images. Got \(3,\)"),
        ((A, np.zeros((3, 8, 8, 4), np.uint8)), {}, r"images \(h, w, 3\) or \(h, w\). Got \(8, 8, 4\)"),
        ((A, np.zeros((3, 8, 8), np.uint8)), {}, "one of each cannot be compared"),
        (("photos", A), {}, "Got one path, 'photos'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(args, options, message):
    with pytest.raises(UsageError, match=message) as caught:
        attack.naive(*args, **options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_pictures_that_are_not_there_and_codes_where_pictures_are_needed(tmp_path):
    with pytest.raises(InputError, match="There is no image"):
        attack.naive([tmp_path / "a.png", tmp_path / "b.png"], A)
    with pytest.raises(UsageError, match="this attack needs images"):
        attack.automatic_parrot(A, A)
    with pytest.raises(UsageError, match="cannot read images"):
        noise = np.zeros((2, 8, 8), np.uint8)
        attack.naive(noise, noise, recogniser=lambda gallery, subjects: None)
