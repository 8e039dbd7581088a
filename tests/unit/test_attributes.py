"""Apparent gender, age and expression by the networks; skin tone against its definition."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import oracles
from ksame.core.errors import UsageError
from ksame.core.geometry import FRAME, MOUTH_LEFT, MOUTH_RIGHT, register, to_frame, transform
from ksame.models import attributes as module
from ksame.models import weights
from ksame.models.attributes import AGE_BANDS, UNSURE, age_band, predict_face_attributes
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes
from samples import faces, mesh

CLASSES = {"gender": 2, "age": 81, "emotion": 7}
CSU = "pyvision/data/csuScrapShots/"


@pytest.fixture
def blind(monkeypatch):
    """Networks that see nothing: every class is as likely. What they were shown is kept."""
    shown = {}

    def infer(name, x, **_):
        shown[name] = x
        return [np.full((len(x), CLASSES[name]), 1 / CLASSES[name], np.float32)]

    monkeypatch.setattr(module, "infer", infer)
    return shown


def some(n=3, seed=0):
    given = faces(n, seed)
    return given.rgb, given.points


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_every_column_has_one_row_per_face(n):
    found = predict_face_attributes(*some(n))
    columns = [found.gender, found.gender_score, found.age, found.expression, found.expression_score]
    columns += [found.lightness, found.ita, *found.sure.values()]
    assert len(found) == n
    assert [column.shape for column in columns] == [(n,)] * 11
    assert [found.column(name).shape for name in ("gender", "age", "expression")] == [(n,)] * 3
    assert set(found.gender) <= {"female", "male"}
    assert set(found.expression) <= {"neutral", "smiling"}


def test_networks_see_what_they_were_trained_on(blind):
    predict_face_attributes(*some(2))
    assert blind["gender"].shape == (8, 3, 32, 32)  # 2 views and their mirror images of 2 faces
    assert blind["age"].shape == (4, 3, 64, 64)
    assert blind["emotion"].shape == (8, 64, 64, 1)
    for x in blind.values():
        assert -1 <= x.min() < 0 < x.max() <= 1
    for name, axis in (("gender", 3), ("age", 3), ("emotion", 2)):
        one_way, mirrored = np.split(blind[name], 2)
        np.testing.assert_allclose(np.flip(one_way, axis), mirrored, atol=1e-6)


@pytest.mark.usefixtures("blind")
def test_age_is_the_expectation_over_the_classes():
    assert predict_face_attributes(*some(1)).age == pytest.approx((0.25 + sum(range(1, 81))) / 81)


@pytest.mark.usefixtures("blind")
def test_a_wider_mouth_is_nearer_to_a_smile():
    rgb, points = some(4)
    for row, step in enumerate((0, 4, 8, 12)):
        points[row, MOUTH_LEFT, 0] -= step
        points[row, MOUTH_RIGHT, 0] += step
    score = predict_face_attributes(rgb, points).expression_score
    assert (np.diff(score) > 0).all()


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.3, 1.6), st.floats(-20, 20))
def test_skin_is_the_median_of_three_discs_in_lab(seed, scale, shift):
    five = scale * (FRAME.five + shift)
    points = mesh(five)
    rng = np.random.default_rng(seed)
    points[module.SKIN_PATCH_POINTS] = scale * rng.uniform(0, 256, size=(3, 2))  # some of them at the border
    size = (round(320 * scale), round(256 * scale), 3)
    rgb = (rng.integers(0, 256, size=3) * rng.uniform(0.7, 1, size)).astype(np.uint8)
    found = module.measure_skin(rgb, points)
    wanted = oracles.skin(
        rgb, points[module.SKIN_PATCH_POINTS], module.SKIN_PATCH_RADIUS * np.hypot(*(five[1] - five[0]))
    )
    np.testing.assert_allclose(found, wanted, rtol=0.01, atol=0.3)  # OpenCV interpolates a table


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize(
    ("colour", "lightness", "ita", "sure"),
    [
        ((119, 119, 119), 50.0, None, False),
        ((255, 219, 172), 89.0, 53.0, True),
        ((80, 50, 35), 24.0, -60.0, True),
    ],
)
def test_skin_of_a_flat_colour(colour, lightness, ita, sure):
    rgb, points = some(1)
    rgb[:] = colour
    found = predict_face_attributes(rgb, points)
    assert found.lightness == pytest.approx(lightness, abs=1)
    if ita is not None:
        assert found.ita == pytest.approx(ita, abs=3)
    assert found.sure["skin"] == sure


@pytest.mark.usefixtures("blind")
def test_skin_half_in_shadow_is_unsure():
    rgb, points = some(1)
    points[0, module.SKIN_PATCH_POINTS] = [[60, 190], [196, 190], [128, 90]]
    rgb[:] = (200, 150, 120)
    assert predict_face_attributes(rgb, points).sure["skin"].all()
    rgb[:, :, :128] //= 2
    assert not predict_face_attributes(rgb, points).sure["skin"].any()


@pytest.mark.usefixtures("blind")
def test_an_unsure_label_is_a_value_of_its_own():
    found = predict_face_attributes(*some(2))
    assert not found.sure["gender"].any()  # logit 0, which leans to neither side of even
    assert found.column("gender").tolist() == [UNSURE, UNSURE]
    assert found.sure["age"].all()
    assert found.column("age").tolist() == [AGE_BANDS[1]] * 2
    with pytest.raises(UsageError, match="There is no label 'skin'"):
        found.column("skin")
    with pytest.raises(TypeError):
        found.sure["gender"] = np.ones(2, bool)


@given(st.floats(0, 130))
def test_age_bands_cover_every_age_in_order(age):
    assert age_band(age) in AGE_BANDS
    assert AGE_BANDS.index(age_band(age)) <= AGE_BANDS.index(age_band(age + 1))


@pytest.mark.parametrize("age", [-1, np.nan, np.inf])
def test_no_band_for_what_is_no_age(age):
    with pytest.raises(UsageError, match="age must be"):
        age_band(age)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda rgb, points: (rgb / 255, points), "uint8"),
        (lambda rgb, points: (rgb[0], points[0]), "uint8"),
        (lambda rgb, points: (rgb, points[:1]), "points must be finite"),
        (lambda rgb, points: (rgb, points[:, :5]), "points must be finite"),
        (lambda rgb, points: (rgb, points * np.nan), "points must be finite"),
        (lambda rgb, points: (rgb, points + 500), "an eye lies outside"),
    ],
)
def test_refuses(change, match):
    with pytest.raises(UsageError, match=match):
        predict_face_attributes(*change(*some(2)))


def photos(names, archive):
    return [np.array(Image.open(io.BytesIO(archive.read(f"{CSU}{n}"))).convert("RGB")) for n in names]


def registered(images):
    """The largest face of each picture on the frame, with its mesh."""
    rgb, points = [], []
    for image in images:
        found, _ = predict_meshes(image, detect(image)[:1])
        rgb.append(register(image, found[0]))
        points.append(transform(to_frame(found[0]), found[0]))
    return np.stack(rgb), np.stack(points)


@pytest.fixture(scope="module")
def csu():
    """The first photo of each of the 30 people, with the gender that the set gives them."""
    with zipfile.ZipFile(weights.path("csu")) as archive:
        lines = archive.read(f"{CSU}gender.txt").decode().split()
        gender = dict(zip(lines[::2], lines[1::2], strict=True))
        names = sorted(name for name in gender if name.endswith("aa.pgm"))
        images = photos(names, archive)
    return images, *registered(images), np.array([{"F": "female", "M": "male"}[gender[n]] for n in names])


@pytest.mark.weights
def test_apparent_gender_of_people(csu):
    _, rgb, points, gender = csu
    found = predict_face_attributes(rgb, points)
    right = found.gender == gender
    assert len(right) == 30
    assert right.mean() >= 0.9
    assert right[found.sure["gender"]].mean() >= 0.95
    assert found.sure["gender"].mean() >= 0.8
    assert ((found.gender_score > 0.5) == (found.gender == "male")).all()


@pytest.mark.weights
def test_apparent_age_of_students(csu):
    age = predict_face_attributes(*csu[1:3]).age
    assert 18 < np.median(age) < 35
    assert ((age > 10) & (age < 60)).all()


@pytest.mark.weights
def test_grey_pictures_have_no_skin_tone(csu):
    assert not predict_face_attributes(*csu[1:3]).sure["skin"].any()


@pytest.mark.weights
def test_smiles_are_told_from_sober_faces():
    with zipfile.ZipFile(weights.path("csu")) as archive:
        smiling = photos(["00012ae.pgm", "00018af.pgm", "00014aj.pgm"], archive)
        sober = photos(["00019ah.pgm", "00027ae.pgm", "00021aa.pgm"], archive)
    found = predict_face_attributes(*registered(smiling + sober))
    assert found.expression.tolist() == ["smiling"] * 3 + ["neutral"] * 3
    assert found.sure["expression"].all()


@pytest.mark.weights
def test_the_mirror_image_looks_alike(csu):
    images, rgb, points, _ = csu
    there = predict_face_attributes(rgb[:8], points[:8])
    back = predict_face_attributes(*registered([image[:, ::-1] for image in images[:8]]))
    assert np.abs(there.age - back.age).mean() < 2
    assert np.abs(there.gender_score - back.gender_score).mean() < 0.1
    assert np.abs(there.expression_score - back.expression_score).mean() < 0.1


@pytest.mark.weights
def test_a_face_looks_the_same_in_any_company_and_at_half_size(csu):
    _, rgb, points, _ = csu
    together, alone = predict_face_attributes(rgb, points), predict_face_attributes(rgb[4:5], points[4:5])
    small = predict_face_attributes(
        np.stack([np.array(Image.fromarray(r).reduce(2)) for r in rgb]), (points + 0.5) / 2 - 0.5
    )
    for name in ("gender_score", "age", "expression_score", "lightness", "ita"):
        np.testing.assert_allclose(getattr(alone, name), getattr(together, name)[4:5], rtol=1e-3, atol=1e-3)
    assert np.abs(small.age - together.age).mean() < 2
    assert (small.gender == together.gender).mean() >= 0.9
    assert (small.expression == together.expression).mean() >= 0.8
