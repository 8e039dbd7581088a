"""Pixelation and blur: found out, imitated, undone; and what that means for pictures of people."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from ksame import attack, io
from ksame.analysis.photos import select_usable
from ksame.attack import compare, degradation
from ksame.attack.degradation import (
    Degradation,
    DegradationStudy,
    Enhancer,
    apply_degradation,
    estimate_degradation,
)
from ksame.attack.recognisers import ATTACKERS
from ksame.core.errors import UsageError, WeightsError
from ksame.core.geometry import register, to_frame, transform
from ksame.io.photos import read_pixels
from ksame.io.sources import Source
from ksame.models.detectors import detect
from ksame.render.obscure import obscure


@pytest.fixture(scope="module")
def photos(people):
    """Ten people, one photo each, and where the face is."""
    found = []
    for path in sorted(people.glob("*_aa.pgm"))[:10]:
        rgb = io.read_photo(path)
        points, good = select_usable(rgb, detect(rgb))
        found.append((rgb, points[good[:1]]))
    return found


@pytest.fixture(scope="module")
def faces(photos):
    """The same, registered: pictures (10, 320, 256, 3) and meshes on the frame."""
    rgb = np.stack([register(photo, mesh[0]) for photo, mesh in photos])
    return rgb, np.stack([transform(to_frame(mesh[0]), mesh[0]) for _, mesh in photos])


def hidden(photos, method, strength=None):
    return [obscure(photo, mesh, method, strength=strength) for photo, mesh in photos]


def as_jpeg(face, quality):
    return cv2.imdecode(cv2.imencode(".jpg", face, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)


def published(photos, method, strength, *, quality=None):
    """Faces hidden in their photos, perhaps kept as JPEG, and registered again."""
    new = hidden(photos, method, strength)
    new = new if quality is None else [as_jpeg(photo, quality) for photo in new]
    return np.stack([register(photo, mesh[0]) for photo, (_, mesh) in zip(new, photos, strict=True)])


@given(st.integers(0, 2**32), st.integers(2, 9))
def test_runs_are_those_counted_step_by_step(seed, block):
    rng = np.random.default_rng(seed)
    row = rng.integers(0, 40, (6, 12, 3)).repeat(block, axis=1) + rng.integers(0, 3, (6, 12 * block, 3))
    expected = [run for line in row for run in oracles.runs_of(line, 4)]
    np.testing.assert_allclose(degradation._edge_distances(row.astype(np.float32)), expected, rtol=1e-5)


@pytest.mark.parametrize("blocks", [5, 8, 12, 16])
@pytest.mark.parametrize("quality", [None, 85])
def test_the_faces_vote_for_the_size_of_the_blocks(photos, blocks, quality):
    found = estimate_degradation(published(photos, "pixelate", blocks, quality=quality))
    assert (found.kind, found.amount) == ("pixelate", blocks)


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.35])
def test_blur_is_measured_against_sharp_faces(photos, faces, sigma):
    found = estimate_degradation(published(photos, "blur", sigma), faces[0])
    assert found.kind == "blur"
    assert found.amount == pytest.approx(sigma, rel=0.15)


def test_sharp_faces_are_called_sharp(faces):
    rgb, meshes = faces
    assert (
        estimate_degradation(rgb[:5], rgb[5:])
        == estimate_degradation(rgb)
        == estimate_degradation(rgb[:0])
        == Degradation(None)
    )
    np.testing.assert_array_equal(apply_degradation(Degradation(None), rgb[0], meshes[:1]), rgb[0])
    with pytest.raises(UsageError, match="faces must be registered"):
        estimate_degradation(rgb[:, 1:])


def test_what_is_found_is_done_as_it_was(photos):
    photo, points = photos[0]
    found = Degradation("pixelate", 8.0)
    np.testing.assert_array_equal(
        apply_degradation(found, photo, points), obscure(photo, points, "pixelate", strength=8)
    )
    study = DegradationStudy([Source("photo", photo)], {0: points}, photo[None], found)
    (imitated,) = study.imitations()
    np.testing.assert_array_equal(read_pixels(imitated), apply_degradation(found, photo, points))


def test_faces_for_study_come_from_where_they_are_known_to_be(photos, tmp_path):
    flat = Source("flat", np.full((320, 256, 3), 90, np.uint8))
    (tmp_path / "broken.png").write_bytes(b"")
    broken = Source("broken", tmp_path / "broken.png")
    assert len(degradation.sample_faces([flat, broken])) == 0
    assert len(degradation.sample_faces([flat, broken], meshes={0: photos[0][1]})) == 1
    some = degradation.sample_faces(
        [Source(str(i), photo) for i, (photo, _) in enumerate(photos)], max_count=3
    )
    assert 1 <= len(some) <= 4


def test_blocks_are_averaged_as_square_by_square():
    rng = np.random.default_rng(0)
    small = rng.normal(size=(160, 128)).astype(np.float32)
    made = degradation._degraded(np.stack([small] * 3, axis=2)[None], Degradation("pixelate", 7.0))
    slow = oracles.block_means(small, degradation.FACE_WIDTH / 7, 2)
    np.testing.assert_allclose(made[0, ..., 0], slow, atol=1e-5)


@pytest.mark.parametrize("found", [Degradation("pixelate", 9.0), Degradation("blur", 0.15)])
def test_the_likeliest_face_is_the_likeliest(faces, found):
    """No other coefficients are better: |D (m + Phi c) - y|^2 per observation + noise^2 c^T c / lambda."""
    rgb, _ = faces
    enhancer = Enhancer.fit(rgb, found, noise=5.0)
    half = degradation._half_size(rgb).reshape(len(rgb), -1)
    _, phi, variance = degradation.principal_components(half, keep=100)
    inside = degradation._inside()
    shape = enhancer.mean.shape
    a = degradation._degraded(phi.reshape(-1, *shape), found)[:, inside].reshape(len(phi), -1)
    traces = [np.trace(degradation._degradation_matrix(side, found)) for side in shape[:2]]
    weight = shape[0] * shape[1] / np.prod(traces)
    y = np.random.default_rng(0).normal(0, 30, a.shape[1])

    def cost(c):
        return ((c @ a - y) ** 2).sum() / weight + 25 * (c**2 / variance).sum()

    best = enhancer.gain @ y
    rng = np.random.default_rng(1)
    assert all(
        cost(best) < cost(best + 0.05 * np.sqrt(variance) * rng.normal(size=len(best))) for _ in range(50)
    )


@pytest.mark.parametrize(("method", "strength"), [("pixelate", 10.0), ("blur", 0.12)])
def test_enhanced_faces_are_nearer_to_the_originals(photos, faces, method, strength):
    rgb, _ = faces
    poor = published(photos, method, strength)
    better = Enhancer.fit(rgb, Degradation(method, strength))(poor)
    assert better.shape == poor.shape
    assert better.dtype == np.uint8
    inner = np.s_[:, 130:240, 90:166]
    before, after = (np.abs(x[inner].astype(float) - rgb[inner]).mean() for x in (poor, better))
    assert after < 0.6 * before


def test_an_enhancer_needs_something_to_learn_from_and_something_to_undo(faces):
    for sharp, found in ((faces[0][:1], Degradation("blur", 0.1)), (faces[0], Degradation(None))):
        with pytest.raises(UsageError, match="two sharp ones and a known pixelation or blur"):
            Enhancer.fit(sharp, found)


def test_an_enhanced_recogniser_looks_at_mended_faces(photos):
    who = ATTACKERS["lbp"]
    seen = []

    def mend(faces):
        seen.append(faces.shape)
        return 255 - faces

    mended = degradation.enhancing_recogniser(who, mend)
    photo, points = photos[0]
    assert (mended.chips(photo, points) != who.chips(photo, points)).any()
    assert seen == [(1, 320, 256, 3)]
    assert mended.chips(photo, points[:0]).shape[0] == 0


def run(kind, originals, released):
    return kind(originals, released, recogniser="eigenfaces")


def test_pictures_of_people_who_are_not_hidden_are_named(photos, recogniser):
    originals = [photo for photo, _ in photos]
    result = attack.naive(originals, originals, recogniser=recogniser, k=2)
    assert (result.rank1, result.recogniser, result.faceless) == (1.0, recogniser, 0)
    assert result.verdict == "broken"


def test_black_out_leaves_chance(photos):
    originals = [photo for photo, _ in photos]
    result = run(attack.naive, originals, hidden(photos, "black-out"))
    assert result.rank1 <= 0.2
    assert result.faceless == 0  # it was pointed at


def test_pixelation_hides_little_and_nothing_from_a_parrot(photos):
    photos = photos[:6]
    originals = [photo for photo, _ in photos]
    released = hidden(photos, "pixelate", 10)
    naive = run(attack.naive, originals, released)
    assert naive.rank1 >= 0.4  # chance is a sixth
    automatic = run(attack.automatic_parrot, originals, released)
    assert automatic.rank1 >= max(naive.rank1, 0.9)
    assert automatic.attack == "automatic parrot"
    told = attack.parrot(
        originals, released, lambda _: hidden(photos, "pixelate", 10), recogniser="eigenfaces"
    )
    assert told.rank1 >= 0.9


def test_blur_is_undone_in_part(photos):
    originals = [photo for photo, _ in photos]
    result = run(attack.enhancement, originals, hidden(photos, "blur", 0.1))
    assert result.rank1 >= 0.6
    assert result.attack == "enhancement"


def test_where_nothing_was_done_the_automatic_attacks_are_naive(photos):
    originals = [photo for photo, _ in photos[:4]]
    for kind in (attack.automatic_parrot, attack.enhancement):
        assert kind(originals, originals, recogniser="lbp").rank1 == 1


def test_pictures_without_any_face_are_compared_as_they_are():
    noise = np.random.default_rng(0).integers(0, 255, (4, 60, 50), dtype=np.uint8)
    result = attack.naive(noise, noise, recogniser="lbp")
    assert (result.rank1, result.recogniser) == (1.0, "pixels")
    assert attack.naive(noise / 255, list(noise[..., None]), recogniser="lbp").rank1 == 1
    with pytest.raises(UsageError, match="differ in size"):
        attack.naive(noise, noise[:, 1:], recogniser="lbp")


def test_paths_will_do_and_the_best_recogniser_is_taken(people, recogniser, monkeypatch):
    files = sorted(people.glob("*_aa.pgm"))[:3]
    assert attack.naive(files, [str(file) for file in files]).recogniser == recogniser

    def none():
        raise WeightsError("none is there")

    monkeypatch.setattr(compare, "default_recogniser", none)
    assert attack.naive(files, files).recogniser == "lbp"
