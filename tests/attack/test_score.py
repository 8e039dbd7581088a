"""Scores: ties are chance, strangers and faceless pictures, other photos, intervals and verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import oracles
from ksame.attack.recognisers import euclidean
from ksame.attack.score import FPR, interval, score, verdict
from ksame.core.errors import UsageError


def run(gallery, probes, gallery_subjects, probe_subjects, **options):
    given = [np.asarray(codes, float) for codes in (gallery, probes)]
    return score(euclidean, *given, gallery_subjects, probe_subjects, attack="a", recogniser="r", **options)


@st.composite
def lineups(draw):
    """Few people on few places, so that there are many ties; some strangers, some faceless pictures."""
    place = st.sampled_from([0.0, 1.0, 2.0, np.nan])
    gallery = draw(st.lists(st.tuples(place, st.integers(0, 4)), min_size=1, max_size=8))
    probes = draw(st.lists(st.tuples(place, st.integers(0, 5)), min_size=1, max_size=6))
    there = {person for _, person in gallery}
    if not any(person in there for _, person in probes):
        probes.append((0.0, gallery[0][1]))
    return gallery, probes


@given(lineups())
def test_ties_are_chance_by_every_order_that_there_is(lineup):
    gallery, probes = lineup
    result = run([[x] for x, _ in gallery], [[x] for x, _ in probes], *([p for _, p in s] for s in lineup))
    column = [person for _, person in gallery]
    expected = []
    for x, person in probes:
        if person in column:
            far = [abs(x - g) if np.isfinite(x - g) else np.inf for g, _ in gallery]
            expected.append(oracles.chances(far, column, person))
    np.testing.assert_allclose(result.cmc, np.mean(expected, axis=0), atol=1e-12)
    assert result.rank1 == result.cmc[0]
    assert (np.diff(result.cmc) >= -1e-12).all()
    assert result.cmc[-1] == pytest.approx(1)
    assert (result.probes, result.gallery) == (len(expected), len(set(column)))
    assert result.chance == 1 / len(set(column))


def test_ties_are_what_shuffled_files_give_on_average():
    rng = np.random.default_rng(0)
    gallery, probes = rng.integers(0, 3, size=(30, 2)), rng.integers(0, 3, size=(30, 2))
    found = []
    for _ in range(400):
        order = rng.permutation(30)
        far = np.linalg.norm(probes[:, None] - gallery[order], axis=2)
        found.append(np.mean(order[far.argmin(axis=1)] == np.arange(30)))  # the first file wins
    exact = run(gallery, probes, range(30), range(30)).rank1
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / np.sqrt(len(found))


@given(st.integers(0, 2**32), st.integers(2, 9))
def test_equal_pictures_tie_to_the_last_bit_however_they_lie(seed, k):
    rng = np.random.default_rng(seed)
    gallery = np.repeat(rng.normal(size=(4, 37)), k, axis=0)[rng.permutation(4 * k)]
    # a recogniser that projects by BLAS, which rounds by the place of a row
    axes = rng.normal(size=(37, 11))

    def train(old, subjects):
        return lambda new: np.linalg.norm((new @ axes)[:, None] - old @ axes, axis=2)

    options = {"attack": "reverse", "recogniser": "blas"}
    result = score(train, gallery, gallery, np.arange(4 * k), np.arange(4 * k), **options)
    assert result.rank1 == pytest.approx(1 / k, abs=1e-15)
    assert result.rank1 <= 1 / k + 1e-16


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_tpr_is_that_of_the_best_threshold(seed):
    rng = np.random.default_rng(seed)
    gallery, probes = rng.integers(0, 9, (60, 2)), rng.integers(0, 9, (40, 2))
    result = run(gallery, probes, range(60), range(40))
    far = np.linalg.norm(probes[:, None] - gallery, axis=2)
    own = np.eye(40, 60, dtype=bool)
    assert result.tpr == pytest.approx(oracles.accepted_share(far[own].tolist(), far[~own].tolist(), FPR))


def test_a_probe_without_a_face_is_a_guess_and_is_counted():
    faces = np.eye(5)
    blind = faces.copy()
    blind[:2] = np.nan
    result = run(faces, blind, range(5), range(5))
    assert result.faceless == 2
    assert result.rank1 == pytest.approx((3 + 2 / 5) / 5)
    # an original that nobody finds a face in is named by nobody who sees the others
    assert run(blind, faces, range(5), range(5)).rank1 == pytest.approx(3 / 5)
    assert run(blind * np.nan, faces, range(5), range(5)).rank1 == pytest.approx(1 / 5)


def test_strangers_stand_in_the_gallery_and_unknown_probes_are_left_out():
    result = run([[0.0], [5.0], [9.0]], [[0.1], [9.1], [3.0]], ["a", "stranger", "b"], ["a", "b", "nobody"])
    assert (result.rank1, result.probes, result.people, result.gallery) == (1.0, 2, 2, 3)
    with pytest.raises(UsageError, match="No probe shows a person of the gallery"):
        run([[0.0]], [[0.0]], ["a"], ["b"])


def test_a_photo_is_not_compared_with_itself_where_others_are_asked_for():
    gallery, subjects, photos = [[0.0], [4.0], [1.0]], ["a", "a", "b"], [1, 2, 3]
    same = run(gallery, [[0.0], [1.0]], subjects, ["a", "b"])
    other = run(gallery, [[0.0], [1.0]], subjects, ["a", "b"], gallery_photos=photos, probe_photos=[1, 3])
    assert (same.rank1, same.probes) == (1.0, 2)
    assert (other.rank1, other.probes) == (0.0, 1)  # b has no other photo; a's is farther than b


def test_two_photos_of_a_person_are_not_two_trials():
    once = run(np.eye(6), np.eye(6), range(6), range(6))
    twice = run(np.eye(6), np.repeat(np.eye(6), 2, axis=0), range(6), np.repeat(range(6), 2))
    assert (twice.probes, twice.people) == (12, 6)
    assert (twice.low, twice.high) == (once.low, once.high)


@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
def test_the_interval_covers_95_percent_whatever_the_truth(n):
    ends = np.array([interval(hits, n) for hits in range(n + 1)])
    for p in np.linspace(0.001, 0.999, 97):
        covered = (ends[:, 0] <= p) & (p <= ends[:, 1])
        assert binom.pmf(np.arange(n + 1)[covered], n, p).sum() >= 0.95


@given(st.floats(0, 1), st.integers(1, 500))
def test_the_interval_holds_the_rate_also_where_ties_share_a_hit(rate, n):
    low, high = interval(rate * n, n)
    assert 0 <= low <= rate + 1e-9
    assert rate - 1e-9 <= high <= 1


def test_an_interval_of_nothing_is_refused():
    for hits, trials in ((1, 0), (-1, 5), (6, 5)):
        with pytest.raises(UsageError, match="hits must be in"):
            interval(hits, trials)


def test_verdicts():
    assert verdict(0.0, 0.2, 0.2) == "holds"
    assert verdict(0.21, 0.4, 0.2) == "broken"
    assert verdict(0.2, 0.4, 0.2) == verdict(0.1, 0.3, 0.2) == verdict(0.0, 0.0, None) == "undecided"
