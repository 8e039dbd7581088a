"""Portraits: how they are measured, what is learnt from them, whom they are of, and people who share one."""

import dataclasses
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

import drawn
import generators
import samples
from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.context import Context
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.geometry import FRAME
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition
from ksame.lab.training import generator_map
from ksame.lab.training import parameter_gan as conditions
from ksame.methods import AnonFaces
from ksame.methods.anonfaces import grouping, measure, method, styles, targets, verifiers
from ksame.methods.shift.pool import skin_texture, synthetic_people
from ksame.methods.shift.pool.build import landmark_error
from ksame.models.detectors import detect
from ksame.models.generator import ImageGenerator
from ksame.models.landmarks import predict_meshes
from ksame.models.recognisers import RECOGNISERS, embed
from ksame.spaces.generator_space import ATTRIBUTES, FEATURE_BLOCKS, GeneratorSpace, split_features

A = len(ATTRIBUTES)


@pytest.fixture(scope="module")
def space():
    return GeneratorSpace.bundled()


@pytest.fixture(scope="module")
def generator():
    return ImageGenerator.bundled()


def column(name):
    return ATTRIBUTES.index(name)


# measured


@pytest.fixture(scope="module")
def pictures(space, generator):
    """A woman and a man, the man's smile, and nobody; with the codes of the first three."""
    rng = np.random.default_rng(4)
    styles = np.tile(generator.styles(rng.normal(size=(2, generator.noise))), 2)
    woman, man = (
        space.set_attributes(
            space.mean + 0.6 * (style - space.mean), {"yaw": 0.0, "smile": -2.0, "gender": logit}
        )
        for style, logit in zip(styles, (-4.0, 4.0), strict=True)
    )
    smiling = space.set_attributes(man, {"smile": 5.0, "gender": 4.0, "yaw": 0.0})
    codes = np.stack([woman, man, smiling])
    seen = space.draw(codes, generator, half=True)
    return codes, np.concatenate([seen, np.full((1, *seen.shape[1:]), 90, np.uint8)])


@pytest.mark.weights
def test_portraits_are_looked_at_as_photos_and_show_what_was_asked_for(pictures, space):
    _, some = pictures
    seen = measure.measure_portraits(some, space)
    assert seen.rows.tolist() == [0, 1, 2]  # in the last there is nobody
    assert seen.attributes.shape == (3, A)
    assert (np.sign(seen.attributes[:, column("gender")]) == [-1, 1, 1]).all()
    assert (np.sign(seen.attributes[:, column("smile")]) == [-1, -1, 1]).all()
    assert np.abs(seen.attributes[:, column("yaw")]).max() < 10
    without = measure.measure_portraits(some, None)
    worn = [column("glasses"), column("hat")]
    assert (without.attributes[:, worn] == 0).all()
    keep = [i for i in range(A) if i not in worn]
    np.testing.assert_allclose(without.attributes[:, keep], seen.attributes[:, keep])


@pytest.mark.weights
def test_what_is_read_off_a_drawn_face_points_to_its_style(pictures, space):
    codes, some = pictures
    _, faces = measure.largest_faces(some)
    read, true = space.encode(faces) - space.mean, codes - space.mean
    cosines = [[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in true[:2]] for a in read[:2]]
    assert np.argmax(cosines, axis=1).tolist() == [0, 1]
    assert min(cosines[0][0], cosines[1][1]) > 0.3


@pytest.mark.weights
def test_where_nobody_is_there_is_nothing_to_measure(space):
    nothing = measure.measure_portraits(np.zeros((2, 64, 64, 3), np.uint8), space)
    assert len(nothing.rows) == len(nothing.faces) == 0
    assert nothing.attributes.shape == (0, A)


def test_a_busy_ground_is_told_from_a_plain_one():
    plain = np.full((128, 128, 3), 120, np.uint8)
    face = plain.copy()
    face[20:, 30:98] = 255  # whoever stands before it does not count
    noisy = np.random.default_rng(0).integers(0, 256, (128, 128, 3)).astype(np.uint8)
    assert measure.background_busyness(plain) == measure.background_busyness(face) == 0
    assert measure.background_busyness(noisy) > 2


# learnt


def linear(n=300, seed=0):
    """Samples in which all follows from the style by a line, with a tenth of noise."""
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(n, 2 * generators.WIDTH))
    read = codes @ rng.normal(size=(8, 2088)) + 0.1 * rng.normal(size=(n, 2088))
    attributes = codes @ rng.normal(size=(8, A)) + 0.1 * rng.normal(size=(n, A))
    return generator_map.Samples(codes, read, attributes)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return ImageGenerator.load(generators.tiny(tmp_path_factory.mktemp("tiny")))


def test_what_follows_by_a_line_is_learnt_and_said(small):
    found = generator_map.learn_map(linear(), small)
    assert found.styles > 0.9 and min(found.attributes.values()) > 0.9
    assert str(found).startswith("Learnt from 300 synthetic faces.") and "gender 0.9" in str(found)
    assert found.space.generator == small.digest
    np.testing.assert_allclose(found.space.mean, np.tile(small.mean, 2))
    assert found.space.worn.shape == (2, sum(FEATURE_BLOCKS.values()) + 1)


def test_glasses_are_known_by_the_same_features_in_another_map():
    rng = np.random.default_rng(0)
    known = SimpleNamespace(
        worn=rng.normal(size=(2, 5)), axes=rng.normal(size=(4, 6)), centre=rng.normal(size=6)
    )
    centre, axes, seen = rng.normal(size=6), rng.normal(size=(6, 6)), rng.normal(size=(3, 6))
    other = generator_map._transfer_classifier(known, centre, axes)
    before = (seen - known.centre) @ known.axes.T @ known.worn[:, :-1].T + known.worn[:, -1]
    np.testing.assert_allclose((seen - centre) @ axes.T @ other[:, :-1].T + other[:, -1], before)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_a_map_of_low_rank_is_the_nearest_in_what_it_predicts(rank):
    rng = np.random.default_rng(0)
    x, full = rng.normal(size=(40, 6)), rng.normal(size=(6, 5))
    down, up = generator_map._low_rank(x, full, rank)
    assert down.shape == (6, rank) and up.shape == (rank, 5)
    left = np.linalg.svd(x @ full, compute_uv=False)[rank:]  # no matrix of that rank comes nearer
    np.testing.assert_allclose(np.linalg.norm(x @ full - x @ down @ up), np.linalg.norm(left), atol=1e-9)


def test_too_few_faces_and_a_generator_of_none_are_refused(small, tmp_path):
    with pytest.raises(UsageError, match=r"at least 300 faces\. Got 12"):
        generator_map.train_generator_map(small, tmp_path / "map.npz", count=12)
    for wrong in (tmp_path / "map.txt", tmp_path / "nowhere" / "map.npz", tmp_path):
        with pytest.raises(UsageError, match=r"a file NAME\.npz in a folder that is there"):
            generator_map.train_generator_map(small, wrong)


@pytest.mark.weights
def test_a_generator_that_draws_no_faces_is_refused(small, space, monkeypatch, tmp_path):
    wide = dataclasses.replace(space, mean=np.zeros(2 * generators.WIDTH))
    monkeypatch.setattr(GeneratorSpace, "bundled", lambda: wide)
    monkeypatch.setattr(generator_map, "MIN_FACES", 20)
    with pytest.raises(CannotGuarantee, match="use a generator of faces"):
        generator_map.train_generator_map(small, tmp_path / "map.npz", count=20)
    assert not list(tmp_path.iterdir())


@pytest.mark.weights
def test_a_map_is_learnt_from_what_a_generator_draws(cli, generator, monkeypatch, tmp_path):
    monkeypatch.setattr(generator_map, "MIN_FACES", 16)
    monkeypatch.setattr(generator_map, "_UNSTEERED_SHARE", 0.75)
    ran = cli("model", "train", "--generator", "bundled", "-o", tmp_path / "map.npz", "--count", "16")
    assert ran.code == 0
    assert "drawing faces: 16 of 16" in ran.err and "synthetic faces" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["map.npz"]
    found = GeneratorSpace.load(tmp_path / "map.npz")
    found.check_generator(generator)
    assert found.digest != GeneratorSpace.bundled().digest


# people who share one


def attributes_like(**columns):
    n = len(next(iter(columns.values())))
    seen = np.zeros((n, A))
    for name, values in columns.items():
        seen[:, column(name)] = values
    return seen


def test_each_person_is_the_mean_of_their_photos():
    own = grouping.per_person(np.array([[1.0], [3.0], [10.0]]), np.array(["b", "b", "a"]))
    assert own.tolist() == [[2.0], [2.0], [10.0]]


def test_what_is_kept_together_is_counted_in_people():
    own = attributes_like(gender=[1, 1, -1, -1, 1], age=[20, 20, 60, 60, 60], tone=[0, 40, 40, 40, 40])
    kept = method._homogeneity(own, np.array([0, 0, 1, 1, 1]), np.array(list("AABCD")))
    assert kept == {"gender": 0.25, "age band": 1.0, "skin tone": 0.75}
    assert (
        method._table(kept) == "People in groups of one kind only: gender 25%, age band 100%, skin tone 75%."
    )


def test_genders_are_kept_apart_and_few_dark_people_are_merged_within_one():
    rng = np.random.default_rng(0)
    own = attributes_like(gender=[1] * 6 + [-1] * 6, tone=[40] * 5 + [-40] + [40, 0, 20] + [-40] * 3)
    near = rng.normal(size=(12, 4))
    codes, part, notes = grouping.stratified_codes(near, own, np.arange(12), 3, None, np.zeros(12, bool))
    assert codes.shape == (12, 6)
    assert len(set(part[:6])) == 1  # one dark man is no group of three
    assert len(set(part[6:])) == 2 and not set(part[:6]) & set(part[6:])
    assert any("male, dark skin" in note for note in notes)
    few = attributes_like(gender=[1] * 4 + [-1] * 2, tone=[40] * 6)
    assert (
        len(set(grouping.stratified_codes(near[:6], few, np.arange(6), 3, None, np.zeros(6, bool))[1])) == 1
    )  # two women are too few
    given = np.array([0, 1] * 6)
    assert (
        grouping.stratified_codes(near, own, np.arange(12), 3, given, np.zeros(12, bool))[1] == given
    ).all()


def test_people_with_grey_photos_only_are_kept_apart_where_there_are_enough_of_them():
    near = np.random.default_rng(0).normal(size=(12, 4))
    own = attributes_like(gender=[1] * 8 + [-1] * 4, tone=[40] * 12)
    people = np.array(list("ABCDEFGGHIJK"))
    grey = np.array([True] * 3 + [False] * 3 + [True, False] + [True] * 2 + [False] * 2)
    _, part, notes = grouping.stratified_codes(near, own, people, 3, None, grey)
    assert [len(set(part[rows])) for rows in (np.s_[:3], np.s_[3:8], np.s_[8:])] == [1, 1, 1]
    assert len({part[0], part[3], part[8]}) == 3, "two women with grey photos are too few for a group"
    assert any("female, other skin, grey photos" in note for note in notes)


def test_skin_is_measured_in_colour():
    seen = attributes_like(light=[60.0, 70.0, 30.0, 40.0], tone=[90.0, 50.0, 40.0, -90.0], age=[1, 2, 3, 4])
    found = method._skin_in_colour(seen, np.array([True, False, False, True]), np.array(list("AAAB")))
    assert found[:, column("light")].tolist() == [50, 70, 30, 40], "of A's two colour photos, B's own"
    assert found[:3, column("tone")].tolist() == [45, 50, 40]
    assert found[3, column("tone")] == pytest.approx(np.degrees(np.arctan(-10 / 16)))
    others = [name not in ("light", "tone") for name in ATTRIBUTES]
    assert (found[:, others] == seen[:, others]).all()


def test_a_grey_photo_has_the_mean_colours_and_its_own_lightness(space):
    seen = np.random.default_rng(0).normal(size=(2, len(space.centre)))
    known = space.remove_colour(seen)
    code, mesh, small = split_features(known)
    np.testing.assert_array_equal(np.hstack([code, mesh]), seen[:, : code.shape[1] + mesh.shape[1]])
    lab, own, mean = (
        x.reshape(len(x), -1, 3)
        for x in (small, split_features(seen)[2], split_features(space.centre[None])[2])
    )
    np.testing.assert_array_equal(lab[..., 0], own[..., 0])
    np.testing.assert_array_equal(lab[..., 1:], np.repeat(mean, 2, axis=0)[..., 1:])


def test_the_bound_of_a_class_face_is_counted():
    claim = Guarantee("k-anonymity", 2, 0.5)
    assert method._with_bound(claim, 0.5) is claim
    lower = method._with_bound(claim, 0.75)
    assert lower.bound == 0.75 and method.EXPRESSIONS_COUNTED_APART in lower.assumptions


def test_a_second_face_is_drawn_only_where_the_same_people_stand_behind_both(monkeypatch, space):
    """Of two groups one has all its people in both expressions; in the other one person never smiles."""
    monkeypatch.setattr(
        method, "draw_expression", lambda *how, to, light: np.full((1, 1, 3), 1 + to, np.uint8)
    )
    subjects = np.array(list("AABBCCDD"))
    seen = attributes_like(smile=[-1, 1, -1, 1, -1, 1, -1, -1])
    groups = Partition([0, 0, 0, 0, 1, 1, 1, 1], k=2, subjects=subjects)
    found = SimpleNamespace(
        drawn=[np.zeros((1, 1, 3), np.uint8)] * 2,
        requested=attributes_like(smile=[3, -1]),
        codes=np.zeros((2, 4)),
        lights=[measure.LightChange()] * 2,
    )
    output, images = method._with_smiles(space, None, found, groups, seen, subjects)
    assert output.tolist() == [2, 0, 2, 0, 1, 1, 1, 1]
    assert len(images) == 3 and images[2][0, 0, 0] == 1  # the one who was drawn smiling, now neutral


def test_everybody_of_a_group_is_compared_with_each_of_its_pictures_as_published(monkeypatch):
    monkeypatch.setattr(
        method, "_portrait_embeddings", lambda image, members: {"sface": np.array([[float(image)]])}
    )
    groups = Partition([0, 0, 0, 0, 1, 1], k=2, subjects=list("AABBCD"))
    members = {"sface": np.array([[0.0], [50.0], [70.0], [90.0], [200.0], [300.0]])}
    found = SimpleNamespace(drawn=[0.5, 250.0], at_risk=np.array([0]))  # judged when they were drawn
    output = np.array([0, 2, 0, 2, 1, 1])
    near = method._at_risk(found, [0.5, 250.0, 70.9], output, groups, members, Context(jobs=1))
    assert near.tolist() == [0, 2]  # the third wears the first picture, and is known by the second


@pytest.mark.parametrize(("generator", "learnt"), [("bundled", "map.npz"), ("folder", "bundled")])
def test_a_generator_and_its_map_go_together(generator, learnt):
    with pytest.raises(UsageError, match="go together: give both"):
        AnonFaces(generator=generator, generator_map=learnt)


def test_what_is_no_embedding_is_refused():
    with pytest.raises(UsageError, match="no embedding 'arcface': choose one of mobilefacenet"):
        AnonFaces(k=2, embedding="arcface")


def test_faces_are_looked_at_once_however_many_portraits_are_tried(monkeypatch, space):
    looked = []
    monkeypatch.setattr(method, "analyse_faces", lambda *how: looked.append(how) or "seen")
    people = IdentifiedPhotos.from_faces(samples.faces(4))
    for k in (2, 3, 4):
        assert AnonFaces(k=k).features(people, space, Context()) == "seen"
    assert len(looked) == 1


def test_wishes_are_means_of_people_and_leave_no_doubt_of_gender():
    seen = attributes_like(gender=[2, 2, -1], age=[20, 40, 60], smile=[1, 1, -1], glasses=[-1, -1, 4])
    groups = Partition([0, 0, 0], k=2, subjects=list("AAB"))
    (target,) = targets.group_targets(seen, groups, plain=False)
    assert target["age"] == 45  # A is 30 on average
    assert target["gender"] > 0 and target["smile"] > 0 and target["yaw"] == 0
    assert target["glasses"] == 1.5 and "hat" not in target and "background" not in target
    assert "background" in targets.group_targets(seen, groups, plain=True)[0]


WISH = {
    "gender": 4.0, "age": 40.0, "smile": -1.5, "light": 60.0, "tone": 40.0, "yaw": 0.0, "nose": 60.0,
    "lips": 21.0, "width": 190.0,
}  # fmt: skip


@pytest.mark.weights
def test_codes_are_asked_for_what_is_wished_and_keep_what_is_near_enough(space, generator):
    here = styles.StylePool.draw(space, generator, 0, np.random.default_rng(0))
    told = {**WISH, "nose": 60.5, "lips": 40.0, "gender": 5.0, "smile": 2.0, "hat": 9.0}
    base = space.set_attributes(space.mean, told)
    asked = dict(zip(ATTRIBUTES, here.requested_attributes(base[None], WISH)[0], strict=True))
    assert asked["nose"] == pytest.approx(60.5, abs=0.01)  # within the span
    assert asked["lips"] == pytest.approx(21 + targets.ATTRIBUTE_TOLERANCES["lips"] / 2)
    assert asked["gender"] == pytest.approx(5, abs=0.01) and asked["smile"] == -1.5
    assert asked["light"] == 60 + styles.SKIN_OFFSETS["light"] and asked["hat"] < space.level[column("hat")]


def test_who_smiles_more_than_asked_is_not_off():
    seen = {**WISH, "gender": 9.0, "smile": -1.2, "nose": 63.0}
    off = targets.attribute_error(WISH, seen)
    assert off["gender"] == off["smile"] == off["age"] == 0 and off["nose"] == -3
    assert targets.attribute_error(WISH, {**seen, "smile": 0.0})["smile"] == -1.5


# people who do not exist, as a pool


def test_people_of_a_pool_are_plain():
    seen = attributes_like(
        age=[30, 10, 30, 30, 30, 30],
        smile=[-1, -1, 1, -1, -1, -1],
        yaw=[2, 0, 0, -20, 0, 0],
        glasses=[-1, -1, -1, -1, 1, -1],
        hat=[-1, -1, -1, -1, -1, 1],
    )
    assert synthetic_people._is_usable(seen).tolist() == [True] + [False] * 5


def test_their_labels_are_those_of_the_other_pool():
    logits, ages = np.array([-5.0, -1.0, 0.0, 2.0]), np.array([20.0, 40.0, 60.0, 80.0])
    p = 1 / (1 + np.exp(-logits))
    seen = SimpleNamespace(gender_score=p, expression_score=p[::-1], age=ages)
    told = attributes_like(gender=logits, smile=logits[::-1], age=ages)
    np.testing.assert_allclose(
        synthetic_people._condition_labels(told), conditions.as_conditions(seen), atol=1e-6
    )


def test_nobody_is_taken_twice_nor_anyone_alike():
    sampler = synthetic_people._IdentitySampler(None, None, None, None)
    far = synthetic_people._same_identity_distance("sface") + 0.1
    sface = np.array([[0.0], [0.1], [far], [2 * far]])
    other = np.array([[0.0], [5.0], [9.0], [9.0]])
    assert sampler._accept_new({"sface": sface, "mobilefacenet": other}) == [
        0,
        2,
    ]  # the last is the third to one
    assert sampler._accept_new({"sface": sface, "mobilefacenet": other}) == []
    assert sampler._accept_new({"sface": sface + 9, "mobilefacenet": other + 90}) == [0, 2]


@pytest.mark.weights
def test_a_pool_of_people_is_drawn(space):
    told = []
    pool = synthetic_people.draw_synthetic_people(4, seed=2, progress=lambda *how: told.append(how))
    model = drawn.model()
    assert len(pool) == 4 and pool.space == model.digest and told[-1][0] == "drawing faces"
    assert (pool.codes[:, model.nuisance] == 0).all()
    assert (pool.labels[:, 2] <= -0.75).all()  # nobody smiles
    assert "were not compared with" in pool.checked
    assert pool.licence == synthetic_people.POOL_LICENCE and (pool.codes == pool.deidentified).all()
    faces = np.stack([pool.image(row) for row in range(4)])
    assert faces.shape == (4, 320, 256, 3)
    for face in faces:
        assert skin_texture.is_clean_skin(face, model)
        ((mesh,), (presence,)) = predict_meshes(face, detect(face))
        assert presence > 0.9 and landmark_error(mesh, model.shape) < 0.1  # on the mean shape
    codes = [embed("sface", face, model.shape[None])[0] for face in faces]
    apart = np.linalg.norm(np.stack(codes)[:, None] - codes, axis=2)[~np.eye(4, dtype=bool)]
    assert apart.min() > 0.7 * RECOGNISERS["sface"].same_person  # on one shape they are nearer


def plain_face():
    """The model's mean face on the mean shape, in even light."""
    model = drawn.model()
    scale = FRAME.width / model.detail.shape[1]
    return cv2.resize(model.detail, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), model


def test_light_from_one_side_is_shared_and_highlights_are_dimmed():
    face, model = plain_face()
    slope = np.linspace(0.6, 1.3, 256)[None, :, None]
    lit = np.clip(face * slope, 0, 255).astype(np.uint8)
    cv2.circle(lit, (128, 110), 5, (255, 255, 255), -1)
    new = skin_texture.extract_skin_texture(lit, model.shape, model)

    def sides(image):
        cheeks = image[[200, 200], [80, 176]].mean(axis=1)
        return cheeks[1] / cheeks[0]

    assert sides(lit) > 1.25 and sides(new) < 1.12
    assert new[110, 128].mean() < 0.9 * 255
    np.testing.assert_array_equal(new[0, 0], new[1, 1])  # its edge goes on outside


def test_hair_hands_strands_and_coloured_or_dim_light_are_not_clean():
    face, model = plain_face()
    even = skin_texture.extract_skin_texture(face, model.shape, model)
    assert skin_texture.is_clean_skin(even, model)
    with_hair, strands = even.copy(), even.copy()
    with_hair[95:105, 90:166] = 20  # a fringe: hardly any of the skin, but much of the forehead
    strands[80:230:8, 50:206] = 20
    blue = (even * [0.5, 0.8, 1.2]).clip(0, 255).astype(np.uint8)
    for bad in (with_hair, strands, blue, even // 3):
        assert not skin_texture.is_clean_skin(bad, model)


def test_who_speaks_or_blinks_is_not_at_rest():
    mesh = drawn.model().shape.copy()
    mesh[13] = mesh[14] - (0, 0.5)
    assert skin_texture.is_neutral(mesh)
    speaking, blinking = mesh.copy(), mesh.copy()
    speaking[13] -= (0, 9)
    assert not skin_texture.is_neutral(speaking)
    blinking[[159, 160, 158]] = blinking[145] - (0, 1)
    assert not skin_texture.is_neutral(blinking)


@pytest.mark.weights
def test_a_generator_that_draws_nobody_new_is_refused(monkeypatch):
    monkeypatch.setattr(synthetic_people._IdentitySampler, "sample", lambda self: [])
    with pytest.raises(CannotGuarantee, match="too few distinct faces"):
        synthetic_people.draw_synthetic_people(2)
    with pytest.raises(UsageError, match="at least 2"):
        synthetic_people.draw_synthetic_people(1)


def test_a_pool_that_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="go together"):
        synthetic_people.draw_synthetic_people(8, generator="folder")


def test_who_is_near_to_any_recogniser_is_recognised_and_everybody_where_none_can_judge():
    members = {"sface": np.array([[0.0], [3.0], [9.0]]), "dlib": np.array([[5.0], [5.0], [0.5]])}
    portrait = {"sface": np.array([[1.0]]), "dlib": np.array([[0.0]])}
    assert verifiers.matched_faces(portrait, members, np.array([0, 1, 2])).tolist() == [True, False, True]
    assert verifiers.matched_faces(portrait, members, np.array([1])).tolist() == [False]
    assert verifiers.matched_faces(None, members, np.array([0, 1])).tolist() == [True, True]


def test_a_limit_is_what_different_people_are_apart_by_but_not_much_less_than_the_threshold():
    who = np.array(list("AABBCC"))
    codes = np.array([[0.0], [0.1], [5.0], [5.1], [9.0], [9.1]])
    assert (
        verifiers.distance_limit(codes, who, "dlib") == 0.6
    )  # they are further apart, and A's two photos do not count
    assert verifiers.distance_limit(codes / 7, who, "dlib") == pytest.approx(
        np.quantile([3.9, 4, 4, 4.1], 0) / 7, abs=0.03
    )
    assert verifiers.distance_limit(codes / 1000, who, "dlib") == pytest.approx(0.48)  # as if all were one
    near = verifiers.matched_faces(
        {"dlib": np.array([[0.5]])}, {"dlib": codes}, np.array([0, 1]), {"dlib": 0.45}
    )
    assert near.tolist() == [False, True]
