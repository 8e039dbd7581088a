"""The generator's face space is linear algebra, and the law allows several faces of one crowd."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from ksame.core.errors import GuaranteeViolated
from ksame.core.partition_type import check_law
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace

D, X, F, R = 30, 7, 9, 3
seeds = st.integers(0, 10**6)


def random_space(rng):
    """A small space with as many attributes as there are, and the spread of its styles."""
    a = len(ATTRIBUTES)
    half = rng.normal(size=(D, D))
    spread = half @ half.T / D + 0.1 * np.eye(D)
    slope = rng.normal(size=(a, D)) / np.sqrt(D)
    space = GeneratorSpace(
        "none", rng.normal(size=D), rng.normal(size=F), rng.normal(size=(X, F)), rng.normal(size=(X, R)),
        rng.normal(size=(R, D)), rng.normal(size=a), rng.uniform(0.5, 20, a), slope, spread @ slope.T,
        rng.normal(size=(2, X + 1)),
    )  # fmt: skip
    return space, spread


@settings(max_examples=40)
@given(seeds, st.sets(st.sampled_from(ATTRIBUTES), min_size=1))
def test_a_code_is_moved_by_what_is_asked_in_the_likeliest_way(seed, names):
    rng = np.random.default_rng(seed)
    space, spread = random_space(rng)
    code, by = rng.normal(size=D), {name: float(rng.normal()) for name in sorted(names)}
    rows = [ATTRIBUTES.index(name) for name in by]
    moved = space.shift_attributes(code, by)
    slow, _ = oracles.likeliest(spread, space.slope[rows], np.array([*by.values()]) / space.unit[rows])
    np.testing.assert_allclose(moved - code, slow, atol=1e-3 * np.abs(slow).max())
    change = (space.predict_attributes(moved[None]) - space.predict_attributes(code[None]))[0]
    np.testing.assert_allclose(change[rows], [*by.values()], atol=1e-3 * space.unit[rows].max())


@settings(max_examples=40)
@given(seeds, st.sets(st.sampled_from(ATTRIBUTES), min_size=1))
def test_a_code_is_steered_to_what_is_asked(seed, names):
    rng = np.random.default_rng(seed)
    space, _ = random_space(rng)
    to = {name: float(rng.normal(scale=3)) for name in sorted(names)}
    told = space.predict_attributes(space.set_attributes(rng.normal(size=D), to)[None])[0]
    rows = [ATTRIBUTES.index(name) for name in to]
    np.testing.assert_allclose(told[rows] / space.unit[rows], [*to.values()] / space.unit[rows], atol=1e-3)


@settings(max_examples=40)
@given(seeds)
def test_effort_is_the_squared_length_of_the_likeliest_way_and_none_for_staying(seed):
    rng = np.random.default_rng(seed)
    space, spread = random_space(rng)
    codes = rng.normal(size=(3, D))
    to = space.predict_attributes(codes) + rng.normal(size=(3, len(ATTRIBUTES))) * space.unit
    slow = [
        oracles.likeliest(spread, space.slope, step / space.unit)[1]
        for step in to - space.predict_attributes(codes)
    ]
    np.testing.assert_allclose(space.attribute_cost(codes, to), slow, rtol=1e-6)
    np.testing.assert_allclose(space.attribute_cost(codes, space.predict_attributes(codes)), 0, atol=1e-9)


@settings(max_examples=40)
@given(seeds)
def test_what_is_read_is_clipped_and_told_is_a_line(seed):
    rng = np.random.default_rng(seed)
    space, _ = random_space(rng)
    seen = rng.normal(size=(4, F), scale=3)
    white = space.whiten(seen)
    for i in range(4):
        for j in range(X):
            slow = sum(space.axes[j, f] * (seen[i, f] - space.centre[f]) for f in range(F))
            assert white[i, j] == pytest.approx(min(4.0, max(-4.0, slow)))
        odds = [sum(space.worn[c, j] * white[i, j] for j in range(X)) + space.worn[c, X] for c in (0, 1)]
        np.testing.assert_allclose(space.accessory_log_odds(white)[i], odds)
    np.testing.assert_allclose(space.predict_attributes(space.mean[None])[0], space.level)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=12), st.integers(1, 3))
def test_several_faces_of_one_crowd_keep_the_law_and_no_others(faces, k):
    outputs, subjects = zip(*faces, strict=True)
    if not oracles.law_with_several(outputs, subjects, k):
        with pytest.raises(GuaranteeViolated):
            check_law(outputs, subjects, k, allow_several=True)
        return
    shares = [
        sum(s == who and o == out for o, s in faces) / sum(o == out for o in outputs) for out, who in faces
    ]
    assert check_law(outputs, subjects, k, allow_several=True) == max(shares)
