"""The laws of replacements; the numbers are those of the list of properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from ksame import replace
from ksame.core.errors import CannotGuarantee, GuaranteeViolated
from ksame.core.partition_type import Partition, check_law
from ksame.replace.centroid import SAME_CODE_TOLERANCE
from ksame.replace.furthest import _clusters
from ksame.replace.kdiff import _displacements
from ksame.replace.pairs import maps_to_own

quick = settings(max_examples=60, deadline=None)


@st.composite
def people(draw, pairs=False):
    """Draw codes of distinct faces, their subjects and k."""
    k = draw(st.integers(2, 5))
    m = draw(st.integers(2 * k if pairs else k, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    subjects = np.repeat(np.arange(m), rng.integers(1, draw(st.integers(2, 4)), size=m))
    rng.shuffle(subjects)
    centres = rng.normal(size=(draw(st.integers(1, 4)), draw(st.integers(2, 30)))) * draw(st.floats(0, 9))
    faces = centres[rng.integers(len(centres), size=m)] + rng.normal(size=(m, centres.shape[1]))
    return faces[subjects] + 0.1 * rng.normal(size=(len(subjects), centres.shape[1])), subjects, k


def grouped(subjects, k, seed=0):
    """Return a partition that does not depend on the codes."""
    names = np.unique(subjects)
    label = np.minimum(np.random.default_rng(seed).permutation(len(names)) // k, len(names) // k - 1)
    return Partition(label[np.searchsorted(names, subjects)], k, subjects)


def k_anonymous(draw, codes, subjects, k):
    """Yield new codes and guarantee of each k-anonymous method."""
    yield replace.centroid(codes, grouped(subjects, k))
    yield replace.mix(codes, grouped(subjects, k), random_weights=0.5 / (2 * k), rng=draw)
    yield replace.furthest(codes, k, subjects=subjects, rng=draw)


@quick
@given(people(pairs=True), st.integers(0, 999))
def test_2_outputs_are_constant_on_groups_and_k_anonymous_by_counting(faces, seed):
    codes, subjects, k = faces
    before = codes.copy()
    for new, guarantee in k_anonymous(seed, codes, subjects, k):
        outputs = [row.tobytes() for row in new]
        assert len(set(outputs)) <= len(np.unique(subjects)) / k
        assert check_law(outputs, subjects, k) <= guarantee.bound
        guarantee.verify(new, subjects=subjects, originals=codes)
    assert (codes == before).all()


@quick
@given(people())
def test_2_the_centroid_is_the_mean_of_the_people_by_the_naive_twin(faces):
    codes, subjects, k = faces
    groups = grouped(subjects, k)
    new, _ = replace.centroid(codes, groups)
    np.testing.assert_allclose(new, oracles.mixed(codes, groups.labels, subjects), rtol=1e-9, atol=1e-12)


@quick
@given(people(), st.integers(0, 999))
def test_2_the_mix_is_the_weighted_mean_by_the_naive_twin(faces, seed):
    codes, subjects, k = faces
    groups = grouped(subjects, k)
    w = np.random.default_rng(seed).uniform(0.5, 1.5, size=subjects.max() + 1)
    new, _ = replace.mix(codes, groups, weights=w[subjects])
    twin = oracles.mixed(codes, groups.labels, subjects, lambda name: w[name])
    np.testing.assert_allclose(new, twin, rtol=1e-9, atol=1e-12)


@quick
@given(people(pairs=True), st.integers(0, 999), st.sampled_from(["grow", "ball"]))
def test_4_the_nearest_original_is_somebody_elses_whenever_wrong_map_is_claimed(faces, seed, single):
    codes, subjects, k = faces
    for new, guarantee in (
        replace.furthest(codes, k, subjects=subjects, rng=seed),
        replace.kdiff(codes, k, subjects=subjects, rng=seed, single=single),
    ):
        assert guarantee.wrong_map == oracles.is_wrong_map(new, codes, subjects)


@quick
@given(people(), st.integers(0, 999))
def test_4_the_check_is_the_definition(faces, seed):
    codes, subjects, _ = faces
    rng = np.random.default_rng(seed)
    new = codes[rng.permutation(len(codes))] + rng.normal(size=codes.shape) * rng.uniform(0, 2)
    home = maps_to_own(new, subjects, codes, subjects)
    assert (not home.any()) == oracles.is_wrong_map(new, codes, subjects)


@quick
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.integers(1, 9))
def test_4_theorem_3_and_a_sharper_theorem_4_for_clusters_that_lie_apart(seed, in_c, in_f, d):
    rng = np.random.default_rng(seed)
    c, f = rng.normal(size=(in_c, d)), rng.normal(size=(in_f, d))
    r_c, r_f = (np.linalg.norm(x - x.mean(axis=0), axis=1).max() for x in (c, f))
    subjects = np.arange(in_c + in_f)
    for least in (r_c + r_f, np.hypot(r_c, r_f)):  # [S 4.3], and what theorem 4 needs
        f = f + c.mean(axis=0) - f.mean(axis=0)
        f[:, 0] += 1.001 * least + 1e-6
        codes, across = np.append(c, f, axis=0), f.mean(axis=0) - c.mean(axis=0)
        assert oracles.is_wrong_map(np.append(c + across, f - across, axis=0), codes, subjects)
        if least == r_c + r_f:
            swapped = [f.mean(axis=0)] * in_c + [c.mean(axis=0)] * in_f
            assert oracles.is_wrong_map(np.array(swapped), codes, subjects)


@quick
@given(st.integers(0, 2**32), st.integers(3, 20), st.integers(1, 9))
def test_4_one_forced_member_keeps_wrong_map(seed, n, d):
    """The member that algorithm 5 forces into C_c does no harm, whatever the overlap."""
    codes = np.random.default_rng(seed).normal(size=(n, d))
    far = np.linalg.norm(codes - codes[0], axis=1)
    f, near = far.argmax(), far[1:].argmin() + 1
    trio = codes[[0, near, f]]
    across = trio[2] - trio[:2].mean(axis=0)
    assert oracles.is_wrong_map(np.append(trio[:2] + across, trio[2:] - across, axis=0), trio, range(3))


@quick
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(2, 30), st.integers(1, 12))
def test_5_lemma_2_the_added_face_stays_the_nearest_outside_face_to_the_moved_mean(seed, d, outside, n):
    rng = np.random.default_rng(seed)
    cluster, gamma = rng.normal(size=(n, d)), rng.normal(size=(outside, d))
    x = np.linalg.norm(gamma - cluster.mean(axis=0), axis=1).argmin()
    moved = np.append(cluster, gamma[[x]], axis=0).mean(axis=0)
    distance = np.linalg.norm(gamma - moved, axis=1)
    assert distance[x] < np.delete(distance, x).min()


@quick
@given(people(pairs=True), st.integers(0, 999))
def test_5_clusters_are_those_of_the_naive_twin(faces, seed):
    codes, _, k = faces
    labels, means, _ = _clusters(codes, k, np.random.default_rng(seed))
    pairs, left = oracles.furthest_clusters(codes, k, np.random.default_rng(seed))
    for i, rows in enumerate(rows for pair in pairs for rows in pair):
        assert (labels[rows] == i).all()
        np.testing.assert_allclose(means[i], codes[rows].mean(axis=0), atol=1e-12)
    for row in left:
        last = len(means) - 2
        to_c, to_f = np.linalg.norm(codes[row] - means[last:], axis=1)
        assert labels[row] == (last if to_c < to_f else last + 1)


@quick
@given(people(pairs=True), st.integers(0, 999), st.sampled_from(["grow", "ball"]))
def test_5_k_diff_steps_are_those_of_the_naive_twin(faces, seed, single):
    codes, _, k = faces
    step, lone = _displacements(codes, k, np.random.default_rng(seed), single)
    pairs, rest = oracles.kdiff_clusters(codes, k, np.random.default_rng(seed), single)
    for c, f in pairs:
        across = codes[f].mean(axis=0) - codes[c].mean(axis=0)
        np.testing.assert_allclose(step[c], [across] * len(c), atol=1e-12)
        np.testing.assert_allclose(step[f], [-across] * len(f), atol=1e-12)
    for row in rest:  # across is the last pair's
        to_c, to_f = (np.linalg.norm(codes[row] - codes[rows].mean(axis=0)) for rows in pairs[-1])
        np.testing.assert_allclose(step[row], across if to_c < to_f else -across, atol=1e-12)
    assert sorted(lone) == sorted(i for c, f in pairs if len(c) == len(f) == 1 for i in c + f)
    assert single == "ball" or not len(lone)


few_values = arrays(np.float64, st.tuples(st.integers(4, 12), st.integers(1, 3)), elements=st.integers(-2, 2))


@settings(max_examples=200, deadline=None)
@given(few_values, st.integers(0, 999))
def test_6_no_surrogate_is_an_original_unless_asked_for(codes, seed):
    """Codes on a grid, with duplicates: a new code within NEAR spreads of an original is refused."""
    spread = np.sqrt(((codes - codes.mean(axis=0)) ** 2).sum(axis=1).mean())
    groups = grouped(np.arange(len(codes)), 2, seed)
    means = oracles.mixed(codes, groups.labels, np.arange(len(codes)))
    if (oracles.nearest_distance(means, codes) <= SAME_CODE_TOLERANCE * spread + 1e-12).any():
        with pytest.raises(CannotGuarantee):
            replace.centroid(codes, groups)
        with pytest.raises(CannotGuarantee):
            replace.mix(codes, groups)
    else:
        np.testing.assert_allclose(replace.centroid(codes, groups)[0], means, atol=1e-12)
    new, guarantee = replace.centroid(codes, groups, allow_real=True)
    np.testing.assert_allclose(new, means, atol=1e-12)
    guarantee.verify(new)
    for method in (replace.furthest, replace.kdiff):
        try:
            new, guarantee = method(codes, 2, rng=seed)
        except CannotGuarantee:
            continue
        assert (oracles.nearest_distance(new, codes) > SAME_CODE_TOLERANCE * spread).all()
        guarantee.verify(new, originals=codes)


METHODS = {
    "furthest": replace.furthest,
    "grow": lambda codes, k, **options: replace.kdiff(codes, k, single="grow", **options),
    "ball": lambda codes, k, **options: replace.kdiff(codes, k, single="ball", **options),
    "mix": lambda codes, k, subjects, rng: replace.mix(
        codes, grouped(subjects, k), random_weights=0.1 / k, rng=rng
    ),
}


@pytest.mark.parametrize("name", METHODS)
@quick
@given(people(pairs=True), st.integers(0, 999))
def test_9_the_same_seed_gives_the_same_bytes(name, faces, seed):
    codes, subjects, k = faces
    one, two = (METHODS[name](codes, k, subjects=subjects, rng=seed) for _ in range(2))
    assert one[0].tobytes() == two[0].tobytes() and one[1] == two[1]


@pytest.mark.parametrize("name", METHODS)
def test_9_without_a_seed_two_runs_differ(name):
    codes, subjects = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60)
    one, two = (METHODS[name](codes, 2, subjects=subjects, rng=None)[0] for _ in range(2))
    assert (one != two).any()


@quick
@given(people(pairs=True), st.integers(0, 999), st.sampled_from(["grow", "ball"]))
def test_k_diff_moves_all_photos_of_a_person_alike_and_keeps_faces_distinct(faces, seed, single):
    codes, subjects, k = faces
    new, guarantee = replace.kdiff(codes, k, subjects=subjects, rng=seed, single=single)
    for name in np.unique(subjects):
        move = (new - codes)[subjects == name]
        np.testing.assert_allclose(move, np.broadcast_to(move[0], move.shape), atol=1e-9)
    assert len(np.unique(new, axis=0)) == len(new)
    assert not guarantee.k_anonymous


def test_a_claim_of_wrong_map_that_is_not_true_is_found_out():
    codes = np.arange(6.0)[:, None]
    _, guarantee = replace.furthest(np.array([[0.0], [1], [10], [12]]), 2, rng=0)
    with pytest.raises(GuaranteeViolated):
        guarantee.verify(np.repeat([[0.5], [4.5]], 3, axis=0), originals=codes)
