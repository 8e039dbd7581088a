"""The identity shift: one per person, another for everybody, expressions kept to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from ksame import replace
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.replace import assign_identities, kdiff, shift

quick = settings(max_examples=50, deadline=None)


@st.composite
def videos(draw, most_people=4, most_pool=6):
    """Codes of frames, who is in each, a pool before and after, and which components are light or pose."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    d, m = draw(st.integers(2, 6)), draw(st.integers(1, most_people))
    p = draw(st.integers(m, most_pool))
    who = np.concatenate([np.arange(m), rng.integers(m, size=draw(st.integers(0, 8)))])
    rng.shuffle(who)
    still = rng.random(d) < 0.3
    still[rng.integers(d)] = False
    pool = rng.normal(size=(p, d))
    return rng.normal(size=(len(who), d)), who, pool, pool + rng.normal(size=(p, d)), still


@quick
@given(videos(), st.data())
def test_pool_faces_are_those_of_trying_every_way(video, data):
    codes, who, pool, after, still = video
    names = list(dict.fromkeys(who.tolist()))
    people = np.array([codes[who == name].mean(axis=0) for name in names])
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    used = rng.random((len(names), len(pool))) < data.draw(st.sampled_from([0.0, 0.3]))
    expected = oracles.pool_faces(people, pool, still, used)
    if expected is None:
        with pytest.raises(CannotGuarantee, match="too few free faces"):
            assign_identities(people, pool, nuisance=still, used=used)
        return
    assert assign_identities(people, pool, nuisance=still, used=used).tolist() == list(expected)
    new, guarantee = shift(codes, pool, after, subjects=who, nuisance=still, used=used)
    np.testing.assert_allclose(new, oracles.shifted(codes, who.tolist(), expected, pool, after, still))
    assert guarantee.kind == "none" and f"{len(pool)} shifts" in str(guarantee)


@quick
@given(videos(most_pool=12), st.integers(1, 5), st.integers(0, 99))
def test_one_shift_per_person_and_another_for_everybody(video, among, seed):
    codes, who, pool, after, still = video
    before = codes.copy()
    new, _ = shift(codes, pool, after, subjects=who, nuisance=still, nearest_count=among, rng=seed)
    steps = []
    for name in np.unique(who):
        step = new[who == name] - codes[who == name]
        np.testing.assert_allclose(step, step[[0]].repeat(len(step), axis=0), atol=1e-12)  # [S 7.2]
        steps.append(step[0].round(9).tobytes())
    assert len(set(steps)) == len(steps)
    assert (new[:, still] == codes[:, still]).all()
    assert (codes == before).all()


@quick
@given(videos(), st.integers(0, 99))
def test_the_order_of_people_and_pool_does_not_matter(video, seed):
    codes, who, pool, after, still = video
    rng = np.random.default_rng(seed)
    rows, faces = rng.permutation(len(codes)), rng.permutation(len(pool))
    new, _ = shift(codes, pool, after, subjects=who, nuisance=still)
    again, _ = shift(codes[rows], pool[faces], after[faces], subjects=who[rows], nuisance=still)
    np.testing.assert_allclose(again, new[rows], atol=1e-12)


@quick
@given(st.integers(0, 999), st.integers(2, 6))
def test_any_of_the_nearest_is_one_of_them_and_not_always_the_same(seed, among):
    rng = np.random.default_rng(seed)
    person, pool = rng.normal(size=(1, 5)), rng.normal(size=(20, 5))
    used = rng.random(20) < 0.2
    order = [i for i in np.argsort(np.linalg.norm(pool - person, axis=1)) if not used[i]]
    chosen = {
        int(assign_identities(person, pool, used=used, nearest_count=among, rng=i)[0]) for i in range(40)
    }
    assert chosen <= set(order[:among])
    assert len(chosen) > 1


def test_people_who_compete_for_the_nearest_get_distinct_faces_further_away():
    crowd = np.zeros((6, 3))
    chosen = assign_identities(crowd, np.arange(30.0).reshape(10, 3), nearest_count=2, rng=0)
    assert sorted(chosen.tolist()) == [0, 1, 2, 3, 4, 5]


def test_without_a_seed_two_runs_differ():
    pool = np.random.default_rng(0).normal(size=(200, 4))
    assert len({int(assign_identities(np.zeros((1, 4)), pool, nearest_count=100)[0]) for _ in range(12)}) > 1


def test_single_precision_stays_single():
    x = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    pool = x + np.float32(0.01)
    new, _ = shift(x, pool, kdiff(pool, 3, rng=0)[0])
    assert new.dtype == np.float32
    assert replace.shift is shift


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"nuisance": [True, True]}, UsageError, "not all"),
        ({"nuisance": [True]}, UsageError, "2 components"),
        ({"nearest_count": 0}, UsageError, "nearest_count must be"),
        ({"subjects": ["A"]}, UsageError, "one entry per code"),
        ({"used": [True, True, False]}, CannotGuarantee, "2 subjects"),
        ({"pool_shifted": [[0.0, 1.0]]}, UsageError, "must both be"),
        ({"pool_codes": np.eye(3), "pool_shifted": np.eye(3)}, UsageError, "must both be"),
        ({"pool_codes": [[0.0, 1.0]], "pool_shifted": [[0.0, 1.0]]}, CannotGuarantee, "too few"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, error, words):
    given = {"pool_codes": np.ones((3, 2)), "pool_shifted": np.zeros((3, 2)), **options}
    with pytest.raises(error, match=words):
        shift(np.zeros((2, 2)), **given)
