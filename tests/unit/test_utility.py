"""What is left of the data, on faces that are drawn and on columns that are made up."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import drawn
from ksame.analysis.photos import select_usable
from ksame.audit.utility import (
    detection_rate,
    face_columns,
    features,
    find_disadvantaged,
    measures,
    missing_notes,
)
from ksame.audit.utility.features import DISTANCES, IMAGE_SIZE, distances
from ksame.audit.utility.figures import (
    COMMONEST_LABEL,
    classify_faces,
    psnr,
    squared_error,
    ssim,
)
from ksame.audit.utility.measures import clean_labels, connected_rows, predict_person_labels, slices
from ksame.audit.utility.video import (
    SHAPES,
    align_frames,
    estimate_rest_motion,
    expression_rows,
    flicker,
    identity_consistency,
    is_unchanged,
    pairs_alike,
    time_correlation,
)
from ksame.core.errors import UsageError, WeightsError
from ksame.core.geometry import moving_least_squares, transform
from ksame.models import weights
from ksame.models.blendshapes import BLENDSHAPES
from ksame.models.detectors import DETECTORS, detect

MARKED = {"mouthSmileLeft", "mouthSmileRight", "smile width"}


@pytest.fixture(scope="module")
def face():
    """Return a drawn face on a plain ground, and its mesh."""
    rgb, points = drawn.photos(1, spread=0)
    return rgb[0], points


def corners_moved(rgb, mesh, x, y):
    """Return the picture with the corners of the mouth moved apart by x and down by y, in frame pixels."""
    still = mesh[[33, 263, 1, 152, 10, 234, 454, 6, 2, 13, 14]]
    source = np.concatenate([still, mesh[[61, 291]]])
    target = source.copy()
    target[-2:] += rgb.shape[1] / 256 * np.array([[-x, y], [x, y]])
    at = moving_least_squares(source, target, rgb.shape[1], rgb.shape[0])
    return cv2.remap(rgb, at, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def seen(rgb):
    """Return the features of the largest face that is found in a picture."""
    points, good = select_usable(rgb, detect(rgb))
    return face_columns(rgb, points[good[:1]])


def whole(table, part="all"):
    """Return one slice as a table by measure."""
    return table[table["slice"] == part].set_index("measure")


# features


def test_a_face_has_every_column_and_no_face_has_the_same_ones_empty(face):
    rgb, points = face
    one, none = face_columns(rgb, points), face_columns(rgb, points[:0])
    assert {n: (c.shape[1:], c.dtype) for n, c in one.items()} == {
        n: (c.shape[1:], c.dtype) for n, c in none.items()
    }
    assert {len(column) for column in one.values()} == {1}
    assert {len(column) for column in none.values()} == {0}
    assert one["image"].shape == (1, *IMAGE_SIZE[::-1])
    assert missing_notes() == () or "blendshapes" not in one or "age" not in one


def test_where_a_face_is_in_its_photo_does_not_matter(face):
    rgb, points = face
    moved = cv2.copyMakeBorder(rgb, 40, 0, 24, 0, cv2.BORDER_REPLICATE)
    here, there = face_columns(rgb, points), face_columns(moved, points + np.array([24, 40]))
    assert np.abs(here["image"].astype(float) - there["image"]).mean() < 1
    for name in here.keys() - {"image", "age", "lightness", "ita"}:
        assert there[name].astype(float) == pytest.approx(here[name].astype(float), abs=0.05), name


def test_the_picture_is_the_inner_face(face):
    rgb, points = face
    dark = np.where((rgb == rgb[0, 0]).all(axis=2, keepdims=True), np.uint8(0), rgb)
    image, other = (face_columns(photo, points)["image"][0] for photo in (rgb, dark))
    assert (image != other).mean() < 0.01  # the ground is not in it
    dark = image[:32].mean(axis=1).argmin()  # the eyes, at y = 136 of the frame
    assert abs(dark - (136 - 100) / 2) < 4


def test_the_mean_face_has_a_small_appearance_code(face):
    other, points = drawn.photos(1, seed=3, spread=1)
    near, far = (np.linalg.norm(face_columns(*one)["appearance"]) for one in (face, (other[0], points)))
    assert near < 0.3 < far


def test_a_wider_smile_is_a_stronger_one(face):
    rgb, points = face
    strong, weak = (seen(corners_moved(rgb, points[0], *move)) for move in ((8, -8), (-8, 8)))
    name, parts = next(c for c in (("blendshapes", BLENDSHAPES), ("distances", DISTANCES)) if c[0] in strong)
    for part in MARKED & set(parts):
        at = parts.index(part)
        assert strong[name][0, at] > weak[name][0, at] + 0.05


def test_distances_are_in_units_of_the_eyes_and_do_not_know_size_place_or_roll(face):
    points = face[1]
    turn = np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    assert distances(2.5 * points @ turn + 17) == pytest.approx(distances(points))
    wide = points.copy()
    eyes = [np.mean(points[0][list(part)], axis=0) for part in (drawn.LEFT_EYE, drawn.RIGHT_EYE)]
    step = (eyes[1] - eyes[0]) / 10
    wide[0, 61] -= step
    wide[0, 291] += step
    assert distances(wide)[0] - distances(points)[0] == pytest.approx([0.2, 0, 0, 0], abs=0.01)


def test_what_is_missing_is_left_out_and_told(face, monkeypatch):
    def nothing(names):
        raise WeightsError(f"{names[0]} is missing.")

    monkeypatch.setattr(weights, "fetch", nothing)
    features._missing.cache_clear()
    try:
        assert set(face_columns(*face)) == {"image", "appearance", "proportions", "distances"}
        assert [note.split(":")[0].split()[0] for note in missing_notes()] == ["Gender,", "Expressions"]
        assert "landmarker is missing." in missing_notes()[1]
    finally:
        features._missing.cache_clear()


# measures


def made_up(n, seed=0):
    rng = np.random.default_rng(seed)
    sure = np.ones(n, bool)
    return {
        "appearance": rng.normal(size=(n, 4)),
        "gender_score": np.where(np.arange(n) % 2, 0.9, 0.1),
        "age": np.full(n, 30.0),
        "smile_score": np.where(np.arange(n) % 4 < 2, 0.9, 0.1),
        "lightness": np.full(n, 60.0),
        "ita": np.full(n, 40.0),
        **{f"{name}_sure": sure for name in ("gender", "age", "smile", "skin")},
        "proportions": rng.random((n, 2)),
        "distances": rng.random((n, 4)),
    }


def test_every_difference_is_the_mean_of_what_was_changed():
    before = made_up(20)
    after = before | {
        "age": before["age"] + np.tile([3.0, -13], 10),
        "lightness": before["lightness"] - 4,
        "ita": before["ita"] + 7,
        "smile_score": 1 - before["smile_score"],
        "proportions": before["proportions"] + np.outer(np.tile([1.0, -3], 10), [0.02, 0.01]),
        "distances": before["distances"] + [0.4, 0, 0, 0],
    }
    table = whole(measures(before, after, subjects=np.arange(20)))
    value = table["deidentified"]
    assert value["apparent age, difference (years)"] == pytest.approx(8)
    assert value["apparent age (years)"] == pytest.approx(25)
    assert value["skin lightness, difference (L*)"] == pytest.approx(4)
    assert value["skin tone, difference (ITA, degrees)"] == pytest.approx(7)
    share = "(share of the face's width)"
    assert value[f"width of the nose, difference {share}"] == pytest.approx(0.04)
    assert value[f"fullness of the lips, difference {share}"] == pytest.approx(0.02)
    old, new = table.loc[f"width of the nose {share}", ["original", "deidentified"]]
    assert (old, new) == pytest.approx((before["proportions"][:, 0].mean(), old - 0.02))
    assert value["apparent gender kept (share)"] == 1
    assert value["apparent expression kept (share)"] == 0
    assert value["apparent age band kept (share)"] == 1
    assert value["expression, difference (mesh, distances of the eyes)"] == pytest.approx(0.1)
    assert value["smile width, difference (distances)"] == pytest.approx(0.4)


def test_only_originals_that_are_sure_are_asked():
    before = made_up(20)
    after = dict(before)
    before["gender_sure"] = before["skin_sure"] = np.arange(20) >= 5
    after["gender_score"] = np.where(np.arange(20) < 5, 1 - before["gender_score"], before["gender_score"])
    after["ita"] = np.where(np.arange(20) < 5, 0.0, 40.0)
    value = whole(measures(before, after, subjects=np.arange(20)))["deidentified"]
    assert value["apparent gender kept (share)"] == 1
    assert value["skin tone, difference (ITA, degrees)"] == 0


def test_a_face_that_was_not_found_is_counted_and_not_measured():
    before = made_up(20)
    after = {name: column.astype(float) for name, column in before.items()}
    for column in after.values():
        column[:5] = np.nan
    table = whole(measures(before, after, subjects=np.arange(20)))
    assert table.loc["faces not found (share)"][["original", "deidentified"]].tolist() == [0, 0.25]
    assert table.loc["information loss (appearance, standard deviations)", "deidentified"] == 0


def test_when_no_face_is_found_again_that_is_all_there_is_to_say():
    before = made_up(20) | {"image": np.zeros((20, 40, 32), np.uint8)}
    after = {name: np.full(column.shape, np.nan) for name, column in before.items()}
    table = measures(before, after, subjects=np.arange(20), groups=np.arange(20) // 5)
    assert whole(table).index[0] == "faces not found (share)"
    rest = table[(table["measure"] != "faces not found (share)") & (table["slice"] == "all")]
    assert rest["measure"].str.contains("groups").all()  # what people are grouped is known all the same


def test_slices_are_by_what_is_given_or_say_that_it_was_predicted():
    faces = made_up(40)
    told = {"gender": np.array(["f", "m"] * 20), "age": np.array(["24", "37.5"] * 20), "ethnicity": [""] * 40}
    table = measures(faces, faces, subjects=np.arange(40), labels=told)
    assert set(table["slice"]) == {"all", "gender: f", "gender: m", "age: under 35", "age: 35-54"}
    assert table.attrs["people"]["gender: f"] == 20
    table = measures(faces, faces, subjects=np.arange(40))
    assert set(table["slice"]) == {"all", "gender (predicted): female", "gender (predicted): male"}


def test_a_measure_that_few_people_of_a_slice_have_is_not_shown_for_it():
    faces = made_up(20)
    faces["age_sure"] = np.arange(20) < 8  # four of them female
    table = measures(faces, faces, subjects=np.arange(20), labels={"gender": ["female", "male"] * 10})
    shown = set(table[table["measure"] == "apparent age band kept (share)"]["slice"])
    assert shown == {"all", "age (predicted): under 35"}


def test_groups_are_as_mixed_as_they_are():
    faces = {"appearance": np.random.default_rng(0).normal(size=(8, 2))}
    labels = {"gender": list("ffffmmfm"), "expression": ["smiling"] * 8, "ethnicity": ["x"] * 7 + [""]}
    table = whole(
        measures(faces, faces, subjects=np.arange(8), groups=[0, 0, 1, 1, 2, 2, 3, 3], labels=labels)
    )
    row = table.loc["gender mixed within groups (entropy, 0 to 1)"]
    p = 5 / 8
    assert row["original"] == pytest.approx(-(p * np.log2(p) + (1 - p) * np.log2(1 - p)))
    assert row["deidentified"] == 0.25
    assert table.loc["groups of one gender (share)", "deidentified"] == 0.75
    assert table.loc["expression mixed within groups (entropy, 0 to 1)", "deidentified"] == 0
    assert "age mixed within groups (entropy, 0 to 1)" not in table.index


def test_labels_that_nobody_has_say_nothing():
    faces = {"appearance": np.zeros((6, 2))}
    table = measures(faces, faces, subjects=np.arange(6), groups=np.arange(6), labels={"gender": [""] * 6})
    assert not table["measure"].str.contains("gender").any()


def test_one_person_has_no_distance_from_others():
    faces = {"appearance": np.zeros((3, 2))}
    assert not measures(faces, faces, subjects=["A"] * 3)["measure"].str.contains("between people").any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"subjects": []}, "at least one face"),
        ({"subjects": np.arange(5)}, "one row per face: 5"),
        ({"groups": np.arange(5)}, "one row per face: 4"),
        ({"labels": {"gender": ["f"]}}, "'gender' must have one value per face"),
    ],
)
def test_what_is_not_parallel_is_refused(change, words):
    faces = {"appearance": np.zeros((4, 2))}
    with pytest.raises(UsageError, match=words):
        measures(faces, faces, **{"subjects": np.arange(4), **change})


# slices


def test_few_people_are_never_shown_alone_nor_by_subtraction():
    who, label = np.arange(23), np.array(["a"] * 10 + ["b"] * 8 + ["c"] * 3 + ["d"] * 2)
    people = {name: int(rows.sum()) for name, rows in slices(who, {"ethnicity": label}, {}).items()}
    assert people == {"all": 23, "ethnicity: a": 10, "ethnicity: b": 8, "ethnicity: others (few)": 5}
    label[-1] = "a"
    people = {name: int(rows.sum()) for name, rows in slices(who, {"ethnicity": label}, {}).items()}
    assert people == {"all": 23, "ethnicity: a": 11, "ethnicity: others (few)": 12}
    # many photos are not many people
    assert set(slices(who % 4, {"ethnicity": label}, {})) == {"all"}


def test_ages_in_years_are_bands_and_nonsense_is_not_known():
    assert clean_labels({"age": ["24", "35-54", "-3", "", "nan"]}, 5)["age"].tolist() == [
        "under 35",
        "35-54",
        "",
        "",
        "",
    ]


def test_people_are_predicted_as_a_whole():
    columns = {
        "gender_score": np.array([0.9, 0.3, 0.2, np.nan]),
        "gender_sure": np.array([1.0, 1, 0, np.nan]),
        "age": np.array([20.0, 60, 30, np.nan]),
        "age_sure": np.array([1.0, 1, 1, np.nan]),
    }
    found = predict_person_labels(columns, ["A", "A", "B", "B"])
    assert found["gender"].tolist() == ["male", "male", "unsure", "unsure"]
    assert found["age"].tolist() == ["35-54", "35-54", "under 35", "under 35"]
    assert predict_person_labels({}, []) == {}


# classifiers


def shaded(classes, rng):
    """Return noisy pictures (n, 40, 32) that are brighter on one side: which one is their class."""
    ramp = np.linspace(-40, 40, 32)
    images = np.where(np.asarray(classes) == "m", 1, -1)[:, None, None] * ramp + rng.normal(128, 20, (40, 32))
    return np.clip(images + rng.normal(0, 10, images.shape), 0, 255).astype(np.uint8)


def test_classifiers_tell_what_is_there_and_only_guess_what_is_gone():
    rng = np.random.default_rng(0)
    classes = np.array(["f", "m"] * 20)
    before = shaded(classes, rng)
    gone = np.repeat(before[:1], 40, axis=0)
    right = classify_faces(before, gone, classes, np.arange(40))
    for name in ("linear SVM", "RBF SVM", "LDA trained on originals"):
        old, new = (side.mean() for side in right[name])
        assert old == 1
        assert new == 0.5
    assert right[COMMONEST_LABEL][0].mean() == 0.5


def test_a_published_picture_is_never_in_training_and_in_the_test():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(60), 2)
    classes = np.where(group % 2, "m", "f")
    noise = rng.integers(0, 256, (60, 40, 32), np.uint8)[group]  # it tells a group, and nothing of its class
    together = connected_rows(np.arange(120), group)
    right = classify_faces(noise, noise, classes, together)
    assert right["RBF SVM"][1].mean() < 0.7
    torn = classify_faces(noise, noise, classes, np.arange(120))  # as if the papers' folds were taken
    assert torn["RBF SVM"][1].mean() == 1


def test_classes_that_are_rare_or_not_known_are_left_out():
    rng = np.random.default_rng(0)
    classes = np.array(["f", "m"] * 10 + ["", "x"])
    images = shaded(classes, rng)
    right = classify_faces(images, images, classes, np.arange(22))
    assert np.isnan(right["linear SVM"][0]).tolist() == [False] * 20 + [True] * 2
    assert classify_faces(images, images, np.array(["f"] * 22), np.arange(22)) == {}


def test_the_table_says_what_was_told_apart_and_by_whose_word():
    rng = np.random.default_rng(0)
    faces = made_up(24) | {"image": shaded(np.where(np.arange(24) % 2, "m", "f"), rng)}
    table = whole(measures(faces, faces, subjects=np.arange(24), labels={"gender": ["f", "m"] * 12}))
    assert table.loc["gender, linear SVM (accuracy)", "original"] == 1
    assert "expression (predicted), linear SVM (accuracy)" in table.index


def test_of_very_many_faces_some_are_classified(monkeypatch):
    monkeypatch.setattr("ksame.audit.utility.figures.MAX_FACES", 20)
    rng = np.random.default_rng(0)
    faces = {"image": shaded(np.where(np.arange(60) % 2, "m", "f"), rng)}
    table = whole(
        measures(faces, faces, subjects=[f"{i:02}" for i in range(60)], labels={"gender": ["f", "m"] * 30})
    )
    assert 0.4 <= table.loc["gender, most frequent label (accuracy)", "original"] <= 1


# who is treated worse


def unfair(by, n=60):
    rng = np.random.default_rng(0)
    before = {"appearance": rng.normal(size=(n, 3))}
    step = np.where(np.arange(n) % 2, 1.0, 1.0 + by) + rng.normal(0, 0.1, n)
    after = {"appearance": before["appearance"] + step[:, None] * [1, 0, 0]}
    return measures(before, after, subjects=np.arange(n), labels={"gender": ["female", "male"] * (n // 2)})


def test_those_who_lose_more_are_named_and_the_others_are_not():
    found = find_disadvantaged(unfair(1.0))
    assert found["slice"].tolist() == ["gender: female"]
    assert found["says"][0].startswith("Worse for gender female: information loss (appearance,")
    assert found["here"][0] == pytest.approx(2, abs=0.1)
    assert found["all"][0] == pytest.approx(1.5, abs=0.1)
    assert find_disadvantaged(unfair(0.0)).empty


def test_what_originals_have_too_is_compared_by_what_is_lost():
    before = {"appearance": np.random.default_rng(0).normal(size=(40, 2))}
    after = {"appearance": before["appearance"].copy()}
    after["appearance"][:20:2] = np.nan  # half of the women
    found = find_disadvantaged(
        measures(before, after, subjects=np.arange(40), labels={"gender": ["f", "m"] * 20})
    )
    assert found["says"].tolist() == [
        "Worse for gender f: faces not found (share) is 0.5 (originals: 0); for all people it is"
        " 0.25 (originals: 0)."
    ]


def test_of_many_small_differences_as_many_are_shown_as_are_not_noise():
    table = unfair(1.0)
    name = "information loss (appearance, standard deviations)"
    table.attrs["chance"] = {"gender: female": {name: 0.06}, "gender: male": {name: 0.09}}
    assert find_disadvantaged(table)["slice"].tolist() == [
        "gender: female"
    ]  # 0.09 <= 2/2 of 0.1 lets the first in, too
    assert find_disadvantaged(table, level=0.08).empty


def test_a_table_without_its_people_is_refused():
    table = unfair(1.0)
    table.attrs.clear()
    with pytest.raises(UsageError, match="attrs are gone"):
        find_disadvantaged(table)


# pictures, detectors, identities


def test_pictures_must_be_parallel_and_large_enough():
    a = np.zeros((2, 12, 12), np.uint8)
    with pytest.raises(UsageError, match="parallel"):
        squared_error(a, a[:1])
    with pytest.raises(UsageError, match="11 x 11"):
        ssim(a[:, :10], a[:, :10])
    assert psnr(255.0**2) == 0


def test_the_rate_of_detection_is_the_share_of_pictures_with_a_face(face):
    blank = np.full((120, 120, 3), 128, np.uint8)
    rates = detection_rate(iter([face[0], blank]), jobs=1)
    assert rates == dict.fromkeys(DETECTORS, 0.5)
    assert detection_rate([blank], detectors=["yunet"]) == {"yunet": 0}
    with pytest.raises(UsageError, match="at least one image"):
        detection_rate([])


def test_frames_without_a_face_are_left_out_and_ties_are_chance():
    codes = [[0.0], [0.0], [np.nan], [0.0], [0.0]]
    assert identity_consistency(codes, list("ABXAB"), folds=2) == 0.5
    with pytest.raises(UsageError, match=r"folds must be in \[2, 4\]"):
        identity_consistency(codes, list("ABXAB"))
    with pytest.raises(UsageError, match="one person"):
        identity_consistency(codes, list("AB"))


# videos


def test_what_is_published_as_it_was_is_told_from_what_was_covered_or_replaced():
    rng = np.random.default_rng(3)
    face = rng.integers(60, 200, (40, 30)).astype(np.uint8)
    coded = np.clip(face + rng.normal(0, 2, face.shape), 0, 255).astype(np.uint8)
    assert is_unchanged(face, coded)
    assert not is_unchanged(face, np.full_like(face, 130)), "a cover"
    assert not is_unchanged(face, rng.permutation(face)), "another face"
    flat = np.full_like(face, 90)
    assert not is_unchanged(flat, flat), "nobody can be seen on a flat ground"
    assert not is_unchanged(face[:0], face[:0])


def test_motion_is_that_of_a_face_at_rest(face):
    grey = cv2.cvtColor(face[0], cv2.COLOR_RGB2GRAY)
    mesh = face[1][0]
    noisy = np.clip(grey + np.random.default_rng(1).normal(0, 2, grey.shape), 0, 255).astype(np.uint8)
    shaken = np.roll(noisy, (1, -2), axis=(0, 1))
    move = estimate_rest_motion(np.stack([shaken, grey]), mesh)
    np.testing.assert_allclose(transform(move, mesh) - mesh, np.tile((-2, 1), (468, 1)), atol=0.2)
    assert estimate_rest_motion(np.stack([grey, np.roll(noisy, 12, axis=1)]), mesh) is None
    assert estimate_rest_motion(np.stack([grey, noisy]), mesh + 10_000) is None, (
        "nothing is known of what is out of sight"
    )


def test_shaking_and_sunshine_are_no_flicker(face):
    grey = cv2.cvtColor(face[0], cv2.COLOR_RGB2GRAY)
    mesh = face[1][0]
    region = np.zeros(grey.shape, np.uint8)
    cv2.fillConvexPoly(region, cv2.convexHull(np.rint(mesh).astype(np.int32)), 1)

    def ratio(new):
        old = np.stack([grey, np.roll(bright, (1, 2), axis=(0, 1))])
        move = estimate_rest_motion(old, np.add(mesh, (2, 1)))
        found = flicker(align_frames(old, move), align_frames(np.stack(new), move), region > 0)
        return found.after / found.pixels

    bright = np.clip(1.1 * grey, 0, 255).astype(np.uint8)
    other = cv2.GaussianBlur(cv2.flip(grey, 1), (0, 0), 2)  # as good as another face
    lit = np.clip(1.1 * other, 0, 255).astype(np.uint8)
    follows = ratio([other, np.roll(lit, (1, 2), axis=(0, 1))])
    assert follows < 1
    assert ratio([other, lit]) > 2 * follows, "it stays behind"
    assert ratio([other, np.roll(other, (1, 2), axis=(0, 1))]) > 4 * follows, "it stays dark"


@pytest.mark.parametrize("kind, parts", [("blendshapes", BLENDSHAPES), ("distances", DISTANCES)])
def test_expressions_have_a_row_for_each_that_is_known(kind, parts):
    rng = np.random.default_rng(4)
    before = {kind: rng.random((9, len(parts)))}
    after = {kind: np.vstack([before[kind][:8] / 2, np.full((1, len(parts)), np.nan)])}
    rows = {
        name: value for name, old, value in expression_rows(before, after, list("AAAABBBBB")) if np.isnan(old)
    }
    assert {name for name in rows if "over time" in name} == {
        f"{name} over time (correlation)" for name in SHAPES[kind]
    }
    assert rows["smile over time (correlation)"] == pytest.approx(1)
    column = list(SHAPES[kind]["jaw"])
    assert rows[f"jaw, difference ({kind})"] == pytest.approx((before[kind][:8, column] / 2).mean())
    nobody = {kind: np.full((9, len(parts)), np.nan)}
    assert all(np.isnan(value) for *_, value in expression_rows(before, nobody, list("AAAABBBBB")))
    assert not list(expression_rows({}, after, list("AAAABBBBB")))


def test_measures_of_videos_want_a_person_for_each_frame():
    with pytest.raises(UsageError, match="one person"):
        pairs_alike([[0.0]], ["A", "B"], 1)
    with pytest.raises(UsageError, match="one person"):
        time_correlation([0.0, 1.0], [0.0, 1.0], ["A"])
