from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import oracles
from ksame.analysis import linking
from ksame.analysis.linking import Evidence, ScoreLine, link_people
from ksame.core.errors import UsageError

LINE = ScoreLine(-0.6, 0.74)


@st.composite
def sets_of_faces(draw, *, max_count=3):
    """A few people with a few faces each, more or less alike, as one to three recognisers see them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 14))
    who, noise = rng.integers(0, draw(st.integers(1, n)), n), draw(st.sampled_from([0.1, 0.5, 0.9]))
    found = []
    for r in range(draw(st.integers(1, max_count))):
        codes = rng.normal(size=(n, 4))[who] + noise * rng.normal(size=(n, 4))
        same = draw(st.sampled_from([None, 0.3])) if r == 0 else None
        found.append(
            Evidence(
                codes, mean=2.7, spread=draw(st.sampled_from([0.5, 0.8])), weight=r + 1, same_person=same
            )
        )
    return found


def groups(names):
    """The partition that names make, without the names."""
    return {frozenset(i for i, name in enumerate(names) if name == one) for one in set(names)}


def twin(evidence, names=None):
    plain = [(e.embeddings, e.mean, e.spread, e.weight, e.same_person) for e in evidence]
    names = [None] * len(evidence[0].embeddings) if names is None else names
    return oracles.link_people(plain, LINE, names, linking)


@given(
    sets_of_faces(),
    st.sampled_from([0.08, 0.4]),
    st.sampled_from([-1.0, -2.5]),
    st.sampled_from([1, 4_000_000]),
)
def test_people_are_linked_as_the_twin_does(evidence, loss, different, cells):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linking, "COUNTED_LOSS", loss)
        patch.setattr(linking, "DIFFERENT", different)
        patch.setattr(linking, "_CELLS", cells)  # one row at a time, or all
        found, cuts = twin(evidence)
        assert groups(link_people(evidence, LINE).subjects) == found
        assert all(opinions >= 2 for opinions in cuts)
        event("cut" if cuts else "not cut")


@given(sets_of_faces(), st.data())
def test_names_are_kept_and_spread_as_the_twin_does(evidence, data):
    n = len(evidence[0].embeddings)
    names = data.draw(st.lists(st.sampled_from([None, None, "a", "b"]), min_size=n, max_size=n))
    found = link_people(evidence, LINE, names=names).subjects
    assert all(one == name for one, name in zip(found, names, strict=True) if name is not None)
    assert groups(found) == twin(evidence, names)[0]


@given(sets_of_faces(), st.randoms(use_true_random=False))
def test_the_order_of_faces_does_not_matter(evidence, random):
    order = list(range(len(evidence[0].embeddings)))
    random.shuffle(order)
    moved = [Evidence(e.embeddings[order], e.mean, e.spread, e.weight, e.same_person) for e in evidence]
    found = link_people(moved, LINE).subjects
    back = [found[order.index(i)] for i in range(len(order))]
    assert groups(back) == groups(link_people(evidence, LINE).subjects)


@given(sets_of_faces())
def test_strict_links_are_never_cut(evidence):
    found = groups(link_people(evidence, LINE).subjects)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linking, "LOOSEST_RATE", 1e-30)  # no loose link at all
        strict = groups(link_people(evidence, LINE).subjects)
    assert all(any(one <= other for other in found) for one in strict)
    near = np.linalg.norm(evidence[0].embeddings[:, None] - evidence[0].embeddings, axis=2)
    for a, b in np.argwhere(near <= (evidence[0].same_person or -1)):
        assert any({a, b} <= one for one in found)


@given(sets_of_faces())
def test_what_may_be_paid_for_only_joins(evidence):
    few = groups(link_people(evidence, LINE).subjects)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linking, "COUNTED_LOSS", 1.0)
        many = groups(link_people(evidence, LINE).subjects)
    assert all(any(one <= other for other in many) for one in few)


@given(sets_of_faces(max_count=1))
def test_one_recogniser_alone_cuts_nothing(evidence):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linking, "COUNTED_LOSS", 1.0)
        assert not twin(evidence)[1]
        found = groups(link_people(evidence, LINE).subjects)
        patch.setattr(linking, "OPINIONS", 9)
        assert groups(link_people(evidence, LINE).subjects) == found


@pytest.mark.parametrize(
    ("second", "subjects"),
    [(None, 1), ("sees no difference", 1), ("agrees", 2)],
)
def test_a_chain_is_cut_only_where_two_recognisers_agree(second, subjects, monkeypatch):
    monkeypatch.setattr(linking, "DIFFERENT", -2.0)
    monkeypatch.setattr(linking, "USUAL_FACES", 1e6)  # strangers are as usual, not as in the row
    row = np.array([[0.0], [4.0], [8.1], [12.3]])  # each is like the next one only
    evidence = [Evidence(row, mean=10.0, spread=2.0)]
    if second is not None:
        other = row if second == "agrees" else np.zeros((4, 1))
        evidence.append(Evidence(other, mean=10.0, spread=2.0, weight=1e-6))
    found = link_people(evidence, LINE)
    assert len(set(found.subjects)) == subjects
    assert found.loose.all()


def test_a_loose_link_of_two_is_no_chain_and_never_cut(monkeypatch):
    monkeypatch.setattr(linking, "DIFFERENT", -99.0)  # everybody is different to every recogniser
    codes = np.array([[0.0], [3.5]])
    evidence = [Evidence(codes, mean=10.0, spread=2.0)] * 3
    found = link_people(evidence, LINE)
    assert found.subjects == ["person-001"] * 2
    assert found.loose.all()


def test_loose_links_cost_strangers_at_most_a_tenth():
    rng = np.random.default_rng(3)
    codes = rng.normal(size=(600, 64))
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    apart = np.linalg.norm(codes[:300] - codes[300:], axis=1)
    line = ScoreLine(-0.9, 0.77)  # of one recogniser
    found = link_people([Evidence(codes, apart.mean(), apart.std())], line).subjects
    assert 540 <= len(set(found)) < 600


def test_faces_near_to_everybody_are_compared_with_what_they_are_near_to():
    rng = np.random.default_rng(4)
    sharp = rng.normal(size=(150, 64))
    blurred = rng.normal(size=64) + 0.75 * rng.normal(size=(30, 64))  # 30 people, all of them alike
    codes = np.concatenate([sharp, blurred])
    found = link_people([Evidence(codes, mean=11.3, spread=0.9)], LINE).subjects
    assert len(set(found)) > 150, "a fixed distance would take the 30 for one"
    assert (np.linalg.norm(blurred[:, None] - blurred, axis=2) < 11.3 - 2.8 * 0.9).mean() > 0.5


def test_many_photos_of_one_person_and_few_strangers_stay_one_person():
    rng = np.random.default_rng(5)
    centre = rng.normal(size=(3, 64))
    codes = centre[[0] * 60 + [1, 2]] + 0.45 * rng.normal(size=(62, 64))
    found = link_people([Evidence(codes, mean=11.3, spread=0.9)], LINE).subjects
    assert [len(set(found[:60])), len(set(found))] == [1, 3], "and are no strangers to themselves"


def test_copies_of_one_photo_are_one_person():
    x = np.random.default_rng(0).normal(size=(50, 128)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    found = link_people([Evidence(np.concatenate([x, x]), mean=1.41, spread=0.06)], LINE).subjects
    assert found[:50] == found[50:]


def test_people_are_named_by_first_appearance_and_no_name_is_given_twice():
    codes = np.array([[0.0], [90.0], [0.1], [180.0]])
    evidence = [Evidence(codes, mean=90.0, spread=10.0)]
    assert link_people(evidence, LINE).subjects == ["person-001", "person-002", "person-001", "person-003"]
    taken = link_people(evidence, LINE, names=[None, "person-001", None, None]).subjects
    assert taken == ["person-002", "person-001", "person-002", "person-003"]


def test_a_face_takes_the_name_of_the_nearest():
    codes = np.array([[0.0], [30.0], [16.0]])
    evidence = [Evidence(codes, mean=90.0, spread=10.0)]
    assert link_people(evidence, LINE, names=["ann", "bob", None]).subjects == ["ann", "bob", "bob"]


def test_no_face_is_nobody():
    found = link_people([Evidence(np.zeros((0, 4)), 1.0, 1.0)], LINE)
    assert found.subjects == []
    assert found.loose.shape == (0,)


@pytest.mark.parametrize("bad", [np.zeros(3), np.full((2, 2), np.nan)])
def test_what_is_no_embedding_is_refused(bad):
    with pytest.raises(UsageError, match="finite"):
        Evidence(bad, 1.0, 1.0)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UsageError, match="spread"):
        Evidence(np.zeros((2, 2)), np.nan, 1.0)
    one = Evidence(np.zeros((2, 2)), 1.0, 1.0)
    with pytest.raises(UsageError, match="every face"):
        link_people([one, Evidence(np.zeros((3, 2)), 1.0, 1.0)], LINE)
    with pytest.raises(UsageError, match="every face"):
        link_people([], LINE)
    with pytest.raises(UsageError, match="name or None"):
        link_people([one], LINE, names=["ann"])


@given(st.floats(1e-9, 0.4))
def test_rarer_scores_are_lower(rate):
    assert LINE.at(rate) < LINE.at(1.1 * rate)
