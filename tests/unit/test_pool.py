"""The identity pool: what the filters keep, what the shift leaves alone, and the files in the box."""

import hashlib
import sys
from dataclasses import replace
from importlib import resources

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.lab.training.parameter_gan import MIN_FACES, as_conditions, check_collapse, train_code_generator
from ksame.methods.shift.pool import CodeGenerator, Pool, make_pool
from ksame.methods.shift.pool.gan import Net
from ksame.models.attributes import Attributes
from ksame.spaces import AppearanceSpace

module = sys.modules["ksame.methods.shift.pool.build"]  # the function of that name hides it
seeds = st.integers(0, 10**6)


def small(m=8, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return Pool(rng.normal(size=(m, d)), rng.normal(size=(m, d)), np.zeros((m, 3)), 2, "space", "said")


def random_codes(n=24, seed=0):
    """Codes of the shipped model's faces, light and pose 0."""
    space = drawn.model()
    codes = np.random.default_rng(seed).normal(size=(n, len(space.deviation))) * space.deviation
    return np.where(space.nuisance, 0.0, codes), space


# in the box


@pytest.mark.parametrize("name", ["generator.npz", "pool.npz", "people.npz"])
def test_the_files_in_the_box_are_those_of_the_card_and_small_and_without_pickle(name):
    folder = resources.files("ksame") / "models" / "data"
    data = (folder / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() in (folder / "README.md").read_text()
    assert len(data) < (300_000 if name != "people.npz" else 1_500_000)
    with resources.as_file(folder / name) as path, np.load(path, allow_pickle=False) as file:
        assert all(file[key].dtype.kind in "fiuU" for key in file.files)


def test_the_pool_in_the_box_is_neutral_frontal_and_of_the_model_in_the_box():
    pool, space, generator = Pool.bundled(codes=True), drawn.model(), CodeGenerator.bundled()
    assert pool.space == generator.space == space.digest
    assert len(pool) >= 400
    assert (pool.codes[:, space.nuisance] == 0).all()
    assert np.abs(pool.shifts[:, space.nuisance]).max() < 1e-3  # single precision
    assert (pool.labels[:, 2] < -0.75).all()
    assert 0.3 < (pool.labels[:, 0] > 0).mean() < 0.7
    assert "learned from" in pool.checked


def test_the_shifts_in_the_box_keep_the_mean_colour():
    pool, space = Pool.bundled(codes=True), drawn.model()
    assert np.abs(pool.shifts @ module.mean_colour(space).T).max() < 0.1  # grey levels


def test_no_two_faces_in_the_box_share_a_code_and_none_is_its_own_de_identified():
    pool, space = Pool.bundled(codes=True), drawn.model()
    x, new = pool.codes / space.deviation, pool.deidentified / space.deviation
    apart = np.linalg.norm(x[:, None] - x, axis=2) + 99 * np.eye(len(x))
    assert apart.min() > 3  # standard deviations; random ones are at 13
    assert np.linalg.norm(new - x, axis=1).min() > 3


def test_the_people_in_the_box_are_women_and_men_young_and_old_with_a_face_each():
    pool, space = Pool.bundled(), drawn.model()
    assert pool.space == space.digest and len(pool) == len(pool.images) >= 150
    assert (pool.codes[:, space.nuisance] == 0).all() and "not for commercial use" in pool.licence
    assert 0.3 < (pool.labels[:, 0] > 0).mean() < 0.7
    assert (pool.labels[:, 1] > 0.5).mean() > 0.05 < (pool.labels[:, 1] < -0.5).mean()
    assert (pool.labels[:, 2] < -0.5).all()
    faces = [pool.image(row) for row in range(len(pool))]
    light = [cv2.cvtColor(face, cv2.COLOR_RGB2LAB)[200, 90, 0] / 2.55 for face in faces]
    assert np.quantile(light, 0.1) < 50 and np.quantile(light, 0.9) > 60  # dark skin and light


# the generator


def test_a_generator_is_the_same_for_a_seed_and_another_without_one():
    generator = CodeGenerator.bundled()
    a, b = (generator.sample(5, 3, smiling=0.5) for _ in range(2))
    assert (a == b).all()
    assert (generator.sample(5) != generator.sample(5)).any()


def test_conditions_do_what_they_say():
    generator, space = CodeGenerator.bundled(), drawn.model()
    mouth = [
        np.ptp(space.shapes(generator.sample(60, 0, smiling=value))[:, [61, 291], 0], axis=1).mean()
        for value in (-1, 1)
    ]
    assert mouth[1] > 1.1 * mouth[0]  # a smile is wide


@pytest.mark.parametrize("value", [1.5, [0.0, 0.0], float("nan")])
def test_conditions_outside_their_range_are_refused(value):
    with pytest.raises(UsageError, match="smiling must be"):
        CodeGenerator.bundled().sample(3, smiling=value)


@pytest.mark.parametrize("judged", [4, 7])
def test_a_generator_is_saved_and_read(tmp_path, judged):
    rng = np.random.default_rng(0)
    one = CodeGenerator(Net.start(rng, 8, 4), Net.start(rng, judged, 1), np.arange(1.0, 5), "space")
    one.save(tmp_path / "g.npz")
    other = CodeGenerator.load(tmp_path / "g.npz")
    assert one.digest == other.digest and other.noise == 5
    codes, c = one.sample(6, 0), np.zeros((6, 3))
    assert (other.sample(6, 0) == codes).all()
    assert one.score(codes, c).shape == (6,)
    share = one.discriminator_rank(codes, c, np.random.default_rng(1))
    order = np.argsort(one.score(codes, c))
    assert (np.diff(share[order]) >= -0.25).all() and ((share >= 0) & (share <= 1)).all()


def test_networks_that_do_not_fit_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="do not generate"):
        CodeGenerator(Net.start(rng, 8, 4), Net.start(rng, 9, 1), np.ones(4), "space")


@pytest.mark.parametrize("kind", [CodeGenerator, Pool])
def test_what_is_no_such_file_is_refused_in_one_sentence(tmp_path, kind):
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "other.npz", codes=np.array([{"a": 1}], dtype=object))
    np.savez(tmp_path / "bare.npz", x=np.zeros(3))
    for name in ("text.npz", "other.npz", "bare.npz", "missing.npz"):
        with pytest.raises(UsageError, match="is not a"):
            kind.load(tmp_path / name)


# learning


def seen(male, age, smile):
    n, text = len(age), np.full(len(age), "")
    return Attributes(
        text, np.array(male), np.array(age), text, np.array(smile), np.zeros(n), np.zeros(n), {}
    )


def test_conditions_are_spread_over_their_range():
    c = as_conditions(seen([0.0, 0.5, 1.0], [20.0, 50.0, 90.0], [0.0, 0.9526, 1.0]))
    np.testing.assert_allclose(c, [[-1, 1, -1], [0, 0, 0], [1, -1, 1]], atol=1e-3)


def test_a_generator_is_learned_from_codes_and_judged():
    codes, space = random_codes(MIN_FACES)
    c = np.random.default_rng(1).uniform(-1, 1, (MIN_FACES, 3))
    generator = train_code_generator(codes, c, space, steps=30, batch=16, seed=0)
    assert generator.space == space.digest
    assert generator.sample(4, 0).shape == (4, len(space.deviation))
    found = check_collapse(generator, codes, c, space, seed=0)
    assert found.all.p < 0.01  # thirty steps are not enough, and the test says so
    with pytest.raises(UsageError, match=f"at least {MIN_FACES}"):
        train_code_generator(codes[:9], c[:9], space)


# the pool


@given(seeds, st.integers(1, 12))
def test_nearest_is_the_order_of_distances_without_light_and_pose(seed, m):
    pool = small(m, seed=seed)
    rng = np.random.default_rng(seed + 1)
    code, nuisance = rng.normal(size=6), rng.random(6) < 0.4
    plain = [0.0 if out else x for x, out in zip(code, nuisance, strict=True)]
    slow = sorted(
        range(m), key=lambda i: sum((a - b) ** 2 for a, b in zip(pool.codes[i], plain, strict=True))
    )
    assert pool.nearest(code, nuisance).tolist() == slow
    assert pool.nearest(np.array(plain)).tolist() == slow


def test_a_pool_is_saved_read_and_cannot_be_changed(tmp_path):
    one = small()
    one.save(tmp_path / "p.npz")
    other = Pool.load(tmp_path / "p.npz")
    assert one.digest == other.digest != small(seed=1).digest
    assert (other.k, other.space, other.checked, len(other)) == (2, "space", "said", 8)
    np.testing.assert_allclose(other.shifts, other.deidentified - other.codes)
    with pytest.raises(ValueError, match="read-only"):
        other.codes[0] = 0
    with pytest.raises(UsageError, match="two codes"):
        Pool(np.zeros((3, 2)), np.zeros((2, 2)), np.zeros((3, 3)), 2, "", "")


@given(seeds, st.floats(0.1, 2))
def test_apart_keeps_all_that_is_far_from_those_before(seed, least):
    seen = np.random.default_rng(seed).normal(size=(15, 2))
    kept = module.distinct_rows(seen, least)
    slow = []
    for row in range(15):
        if all(np.linalg.norm(seen[row] - seen[other]) >= least for other in slow):
            slow.append(row)
    assert kept.tolist() == slow


def test_frontal_drops_the_turned():
    space = drawn.model()
    pose = np.flatnonzero(space.nuisance[: len(space.shape_axes)])
    codes = np.zeros((3, len(space.deviation)))
    codes[1, pose[0]] = 1.1 * space.deviation[pose[0]]
    codes[2, pose[-1]] = -1.1 * space.deviation[pose[-1]]
    codes[:, space.nuisance.argmin()] = 1e6  # the rest is not looked at
    assert module.is_frontal(codes, space).tolist() == [True, False, False]


@settings(max_examples=5)
@given(seeds)
def test_a_shift_changes_neither_light_nor_pose_nor_mean_colour(seed):
    codes, space = random_codes(seed=seed)
    male = np.arange(len(codes)) % 2 == 0
    new = module.deidentify_codes(codes, male, space, 2, np.random.default_rng(seed))
    shift = new - codes
    assert np.abs(shift[:, space.nuisance]).max() < 1e-6
    images = (shift[:, len(space.shape_axes) :] @ space.texture_axes).reshape(len(codes), -1, 3)
    assert np.abs(images.mean(axis=1)).max() < 1e-2
    assert np.linalg.norm(shift / space.deviation, axis=1).min() > 1
    # women move by differences of women's means: the sum over steps to and fro stays among them
    alone = module.deidentify_codes(codes[male], male[male], space, 2, np.random.default_rng(seed))
    assert np.allclose(alone, new[male])


def test_few_of_one_kind_are_moved_with_the_others():
    codes, space = random_codes(8)
    new = module.deidentify_codes(codes, np.arange(8) == 0, space, 2, np.random.default_rng(0))
    assert np.linalg.norm((new - codes) / space.deviation, axis=1).min() > 1


# building, with a network's eyes


@pytest.mark.weights
def test_a_pool_is_built_and_looked_at(monkeypatch, recogniser):
    monkeypatch.setattr(module, "BATCH_SAMPLES", 48)
    told = []
    pool = make_pool(4, seed=3, recogniser=recogniser, progress=lambda *a: told.append(a))
    assert len(pool) == 4 and told[-1][0] == "drawing faces"
    assert "not compared" in pool.checked
    space = drawn.model()
    good, before = module.check_drawn_faces(pool.codes, space, recogniser)
    also, after = module.check_drawn_faces(pool.deidentified, space, recogniser)
    assert good.all() and also.all()
    limit = module.RECOGNISERS[recogniser].same_person
    assert (np.linalg.norm(before - after, axis=1) > limit).all()
    assert len(module.distinct_rows(before, module.MIN_DISTANCE_RATIO * limit)) == 4


@pytest.mark.weights
def test_a_face_out_of_place_is_not_one(recogniser):
    space = drawn.model()
    codes = np.zeros((2, len(space.deviation)))
    codes[1, 0] = 60 * space.deviation[0]  # no head turns so far
    good, seen = module.check_drawn_faces(codes, space, recogniser)
    assert good.tolist() == [True, False]
    assert seen.shape == (1, module.RECOGNISERS[recogniser].dimensions)


def stubbed(monkeypatch):
    """Candidates and looks without networks: every face is seen as its first components."""

    def candidates(n, generator, space, recogniser, rng):
        codes = np.where(space.nuisance, 0.0, rng.normal(size=(9, len(space.deviation))) * space.deviation)
        return module.PoolCandidates(codes, rng.uniform(-1, 1, (9, 3)), codes / space.deviation)

    def look(codes, space, recogniser):
        good = np.ones(len(codes), bool)
        good[::5] = False
        return good, codes[good] / space.deviation

    monkeypatch.setattr(module, "sample_candidates", candidates)
    monkeypatch.setattr(module, "check_drawn_faces", look)


def test_who_has_the_photos_can_refuse_faces(monkeypatch):
    stubbed(monkeypatch)
    pool, again = (
        make_pool(10, seed=0, recogniser="sface", refuse=lambda seen: seen[:, 2] > 0) for _ in "ab"
    )
    assert pool.digest == again.digest
    assert len(pool) == 10
    assert (pool.codes[:, 2] <= 0).all() and (pool.deidentified[:, 2] <= 0).all()
    assert "none is too near" in pool.checked


def test_a_generator_that_makes_no_good_face_is_given_up(monkeypatch):
    stubbed(monkeypatch)
    with pytest.raises(CannotGuarantee, match="request a smaller one"):
        make_pool(10, seed=0, recogniser="sface", refuse=lambda seen: np.ones(len(seen), bool))


def test_a_pool_that_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="at least 2k"):
        make_pool(5, k=3)
    with pytest.raises(UsageError, match="recogniser must be one of"):
        make_pool(5, recogniser="nobody")
    other = CodeGenerator(
        *(getattr(CodeGenerator.bundled(), name) for name in ("generator_net", "discriminator_net", "scale")),
        "other",
    )
    with pytest.raises(UsageError, match="another appearance model"):
        make_pool(5, generator=other)


def test_a_pool_keeps_its_pictures_and_what_they_may_be_used_for(tmp_path):
    rng = np.random.default_rng(2)
    faces = (
        cv2.GaussianBlur(rng.integers(0, 256, (320, 256, 3), np.uint8), (0, 0), 5),
        np.full((320, 256, 3), (180, 140, 120), np.uint8),
    )
    stored = tuple(cv2.imencode(".webp", face[..., ::-1])[1].tobytes() for face in faces)
    pool = replace(small(2), images=stored, licence="For tests only.")
    pool.save(tmp_path / "pool.npz")
    again = Pool.load(tmp_path / "pool.npz")
    assert again.images == stored and again.licence == pool.licence and again.digest == pool.digest
    np.testing.assert_allclose(again.image(1), faces[1], atol=3)
    assert again.digest != small(2).digest and small(2).image(0) is None
    with pytest.raises(UsageError, match="an image of each face"):
        replace(small(3), images=stored)
    with pytest.raises(UsageError, match="Image 0 of the pool"):
        replace(small(2), images=(b"no picture", stored[1])).image(0)


@pytest.mark.weights
def test_a_pool_knows_what_recognisers_make_of_its_faces(tmp_path):
    pool = Pool.bundled()
    some = replace(
        pool,
        codes=pool.codes[:2],
        deidentified=pool.deidentified[:2],
        labels=pool.labels[:2],
        images=pool.images[:2],
        seen={},
    )
    shown = some.with_embeddings(["sface"], AppearanceSpace.bundled().shape)
    np.testing.assert_allclose(shown.seen["sface"], pool.seen["sface"][:2], atol=1e-3)  # half precision
    shown.save(tmp_path / "pool.npz")
    again = Pool.load(tmp_path / "pool.npz")
    assert again.digest == shown.digest != some.digest
    np.testing.assert_allclose(again.seen["sface"], shown.seen["sface"], atol=1e-3)
    assert not small().with_embeddings(["sface"], np.zeros((468, 2))).seen  # there is nothing to look at
    with pytest.raises(UsageError, match="each recogniser's embeddings"):
        replace(small(3), seen={"sface": np.zeros((2, 128))})


def test_who_leaves_the_pictures_out_has_the_other_pool(monkeypatch, tmp_path):
    assert Pool.bundled().images and Pool.bundled().licence
    assert not Pool.bundled(codes=True).images
    models = tmp_path / "models" / "data"
    models.mkdir(parents=True)
    (models / "pool.npz").write_bytes(
        (resources.files("ksame") / "models" / "data" / "pool.npz").read_bytes()
    )
    monkeypatch.setattr(
        sys.modules["ksame.methods.shift.pool.identity_pool"].resources, "files", lambda package: tmp_path
    )
    assert not Pool.bundled().images
