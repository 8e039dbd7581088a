"""The laws of the utility measures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from ksame.audit.utility import find_disadvantaged, measures, video
from ksame.audit.utility.features import proportions
from ksame.audit.utility.figures import diversity, entropy, psnr, squared_error, ssim
from ksame.audit.utility.measures import MIN_PEOPLE, connected_rows, difference_p_value, slices
from ksame.audit.utility.video import flicker, identity_consistency, pairs_alike, time_correlation

grey = arrays(np.uint8, (2, 14, 13))
few = st.integers(0, 3)


def columns(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Return made-up features of n faces."""
    return {
        "image": rng.integers(0, 256, (n, 20, 16), np.uint8),
        "appearance": rng.normal(size=(n, 3)).astype(np.float32),
        "gender_score": rng.random(n),
        "age": rng.uniform(1, 80, n),
        "smile_score": rng.random(n),
        "lightness": rng.uniform(20, 90, n),
        "ita": rng.uniform(-50, 60, n),
        **{f"{name}_sure": rng.random(n) < 0.8 for name in ("gender", "age", "smile", "skin")},
        "proportions": rng.random((n, 2)),
        "blendshapes": rng.random((n, 52), np.float32),
    }


def lost(columns: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns with NaN where no face was found."""
    floats = {name: column.astype(np.float64) for name, column in columns.items()}
    for column in floats.values():
        column[rows] = np.nan
    return floats


@given(grey, grey)
@settings(max_examples=15)
def test_ssim_is_its_definition(a, b):
    expected = [oracles.ssim(x, y) for x, y in zip(a, b, strict=True)]
    assert ssim(a, b) == pytest.approx(expected, abs=1e-9)
    assert ssim(a, b) == pytest.approx(ssim(b, a), abs=1e-12)
    assert (np.abs(ssim(a, b)) <= 1 + 1e-9).all()


@given(grey)
def test_equal_pictures_lose_nothing(a):
    assert ssim(a, a) == pytest.approx([1, 1], abs=1e-9)
    assert squared_error(a, a).tolist() == [0, 0]
    assert np.isnan(psnr(0.0))


@given(st.lists(st.tuples(few, few), min_size=1, max_size=20))
def test_entropy_is_its_definition_and_within_0_and_1(pairs):
    values, groups = zip(*pairs, strict=True)
    mixed = entropy(values, groups)
    assert mixed == pytest.approx(oracles.group_entropy(values, groups), abs=1e-12)
    assert ((mixed >= 0) & (mixed <= 1)).all()


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5), few), min_size=1, max_size=12))
def test_diversity_is_that_of_all_pairs_of_people(rows):
    x, who = np.array([row[:2] for row in rows], float), [row[2] for row in rows]
    assert diversity(x, who) == pytest.approx(oracles.diversity(x, who))


@given(st.integers(0, 99), st.floats(-3, 3), st.floats(0.1, 9))
def test_proportions_are_their_definition_and_do_not_know_size_place_or_roll(seed, roll, size):
    mesh = np.random.default_rng(seed).normal(0, 50, (2, 468, 2))
    found = proportions(mesh)
    assert found == pytest.approx(np.array([oracles.proportions(one) for one in mesh]))
    turn = size * np.array([[np.cos(roll), np.sin(roll)], [-np.sin(roll), np.cos(roll)]])
    assert proportions(mesh @ turn + (17, -4)) == pytest.approx(found)


@given(st.lists(st.tuples(few, few, few), min_size=1, max_size=9))
def test_faces_are_kept_together_that_share_something(rows):
    parts = connected_rows(*zip(*rows, strict=True))
    found = {frozenset(np.flatnonzero(parts == part).tolist()) for part in np.unique(parts)}
    assert found == {frozenset(part) for part in oracles.kept_together(*zip(*rows, strict=True))}


@given(st.lists(st.tuples(st.integers(0, 4), few), min_size=3, max_size=20), st.integers(2, 3))
def test_identity_consistency_is_its_definition(rows, folds):
    x, who = np.array([[row[0]] for row in rows], float), [row[1] for row in rows]
    assert identity_consistency(x, who, folds=folds) == pytest.approx(
        oracles.identity_consistency(x, who, folds)
    )
    among = identity_consistency(x, who, folds=folds, others=[[2.0], [np.nan], [9.0]])
    assert among == pytest.approx(oracles.identity_consistency(x, who, folds, [[2.0], [9.0]]))


# videos


@given(st.lists(st.tuples(st.integers(0, 6), few), max_size=20), st.integers(0, 4))
def test_pairs_alike_is_its_definition(rows, threshold):
    x, who = np.array([[row[0]] for row in rows], float).reshape(-1, 1), [row[1] for row in rows]
    wanted = pytest.approx(oracles.pairs_alike(x, who, threshold), nan_ok=True)
    assert pairs_alike(x, who, threshold) == wanted
    gap = np.vstack([x, [[np.nan]]])
    assert pairs_alike(gap, [*who, 0], threshold) == wanted, "a frame without a face is none"


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4), few), max_size=20))
def test_expressions_over_time_are_compared_within_people(rows):
    before, after, who = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    found = time_correlation(before, after, who)
    assert found == pytest.approx(oracles.over_time(before, after, who), nan_ok=True)
    shifted = [2 * value + 7 * person for value, person in zip(after, who, strict=True)]
    assert time_correlation(before, shifted, who) == pytest.approx(found, nan_ok=True), (
        "a mood is not a movement"
    )
    assert time_correlation(after, before, who) == pytest.approx(found, nan_ok=True)


@given(arrays(np.uint8, (4, 11, 12), elements=st.integers(100, 112)), arrays(np.bool_, (11, 12)))
def test_flicker_is_counted_where_the_original_is_still(pictures, region):
    before, after = pictures[:2], pictures[2:]
    wanted = oracles.flicker(before, after, region, video.STILL_GREY_LEVELS, video.STILL_WINDOW_PX)
    assert flicker(before, after, region) == pytest.approx(wanted)
    assert flicker(before, before, region)[0] == flicker(before, before, region)[1]


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("fmx")), min_size=1, max_size=60))
def test_slices_of_a_label_are_complementary_and_about_enough_people(rows):
    who, label = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    parts = slices(who, {"gender": label}, {})
    assert parts.pop("all").all()
    if parts:
        assert (np.sum(list(parts.values()), axis=0) == 1).all()
        assert min(len(set(who[part])) for part in parts.values()) >= MIN_PEOPLE


@given(st.integers(0, 2**32))
@settings(max_examples=10)
def test_the_order_of_the_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    n = 24
    before, after = columns(rng, n), lost(columns(rng, n), rng.random(n) < 0.1)
    who, groups = rng.integers(0, 18, n), rng.integers(0, 6, n)
    labels = {"gender": rng.choice(["f", "m", ""], n), "age": rng.choice(["20", "40", "70"], n)}
    order = rng.permutation(n)
    one = measures(before, after, subjects=who, groups=groups, labels=labels)
    two = measures(
        {name: column[order] for name, column in before.items()},
        {name: column[order] for name, column in after.items()},
        subjects=who[order],
        groups=groups[order],
        labels={name: column[order] for name, column in labels.items()},
    )
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    assert repr(one.attrs) == repr(two.attrs)  # NaN is not equal to itself


@given(st.integers(0, 2**32))
@settings(max_examples=4)
def test_a_set_that_was_not_changed_loses_nothing(seed):
    rng = np.random.default_rng(seed)
    faces = columns(rng, 24)
    table = measures(faces, faces, subjects=rng.integers(0, 20, 24))
    value = table[table["slice"] == "all"].set_index("measure")["deidentified"]
    for name, number in value.items():
        if "loss" in name or "difference" in name or "not found" in name:
            assert number == 0
        elif "kept" in name or "SSIM" in name:
            assert number == pytest.approx(1, abs=1e-9)
    assert np.isnan(value["PSNR (dB)"])
    both = table[~table["original"].isna() & ~table["measure"].str.contains("LDA")]
    assert (both["original"] == both["deidentified"]).all()
    assert find_disadvantaged(table).empty


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_means_of_slices_add_up_to_the_mean_of_all(seed):
    rng = np.random.default_rng(seed)
    n = 40
    before, after = ({"appearance": rng.normal(size=(n, 2))} for _ in range(2))
    label = rng.choice(["f", "m"], n)
    table = measures(before, after, subjects=np.arange(n), labels={"gender": label})
    loss = table[table["measure"].str.startswith("information loss")].set_index("slice")["deidentified"]
    share = {f"gender: {value}": (label == value).mean() for value in "fm"}
    assert sum(share[name] * loss[name] for name in share) == pytest.approx(loss["all"])
    by_hand = np.mean(
        [np.linalg.norm(a - b) for a, b in zip(*[s["appearance"] for s in (before, after)], strict=True)]
    )
    assert loss["all"] == pytest.approx(by_hand)


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_chance_is_welchs_test_over_people(seed):
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(seed)
    harm, rows = rng.normal(size=20), np.arange(20) < rng.integers(2, 18)
    expected = ttest_ind(harm[rows], harm[~rows], equal_var=False).pvalue
    assert difference_p_value(harm, np.arange(20), rows) == pytest.approx(expected)
    twice = np.concatenate([harm, harm])  # two equal photos of everybody are no more people
    assert difference_p_value(twice, np.tile(np.arange(20), 2), np.tile(rows, 2)) == pytest.approx(expected)
