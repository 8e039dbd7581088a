"""[N thm. 2], exactly: every recogniser there can be, on sets small enough to count them all."""

import itertools
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ksame.core.partition_type import Partition
from ksame.replace import centroid, furthest, mix


@st.composite
def releases(draw):
    """A small release: new codes, the people behind them, the bound that is claimed."""
    k = draw(st.integers(2, 3))
    m = draw(st.integers(2 * k, 6))
    photos = draw(st.lists(st.integers(1, 3), min_size=m, max_size=m))
    subjects = np.repeat(np.arange(m), photos)
    codes = np.random.default_rng(draw(st.integers(0, 2**32))).normal(size=(len(subjects), 3))
    groups = Partition(np.minimum(subjects // k, m // k - 1), k, subjects)
    method = draw(st.sampled_from(["centroid", "mix", "furthest"]))
    if method == "furthest":
        new, guarantee = furthest(codes, k, subjects=subjects, rng=draw(st.integers(0, 99)))
    elif method == "mix":
        new, guarantee = mix(codes, groups, random_weights=0.1, rng=draw(st.integers(0, 99)))
    else:
        new, guarantee = centroid(codes, groups)
    return [row.tobytes() for row in new], subjects, guarantee.bound


def rank1(guess, outputs, subjects):
    """The share of faces that are named rightly, for each published face: exact fractions."""
    right = {output: Fraction(0) for output in outputs}
    for output, subject in zip(outputs, subjects, strict=True):
        right[output] += Fraction(int(guess[output] == subject), outputs.count(output))
    return right


@settings(max_examples=40, deadline=None)
@given(releases())
def test_3_no_recogniser_at_all_names_more_than_the_bound_and_one_attains_it(release):
    outputs, subjects, bound = release
    faces = list(dict.fromkeys(outputs))
    best = Fraction(0)
    # equal bytes get equal guesses, so a recogniser is a function of the published face; one that is told
    # the groups, or knows the method and the originals, is still among these
    for names in itertools.product(range(subjects.max() + 1), repeat=len(faces)):
        right = rank1(dict(zip(faces, names, strict=True)), outputs, subjects)
        assert max(right.values()) <= Fraction(bound).limit_denominator(1000)
        overall = sum(right[output] for output in outputs) / len(outputs)
        assert overall <= Fraction(bound).limit_denominator(1000)
        best = max(best, *right.values())
    assert best == Fraction(bound).limit_denominator(1000)


@settings(max_examples=40, deadline=None)
@given(releases(), st.integers(0, 2**32))
def test_3_throwing_dice_does_not_help(release, seed):
    outputs, subjects, bound = release
    rng = np.random.default_rng(seed)
    belief = {output: rng.dirichlet(np.full(subjects.max() + 1, 0.3)) for output in set(outputs)}
    for output in belief:
        behind = subjects[[o == output for o in outputs]]
        assert belief[output][behind].mean() <= bound + 1e-12
