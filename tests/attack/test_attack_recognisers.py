"""Classic recognisers against their twins; recognisers by name; an .onnx file of one's own."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics.pairwise import additive_chi2_kernel

import oracles
from ksame.attack import classic
from ksame.attack.embed import embed_faces
from ksame.attack.recognisers import ATTACKERS, Recogniser, choose_recognisers, from_onnx
from ksame.attack.score import score
from ksame.core.errors import UsageError, WeightsError
from ksame.io.sources import find_sources
from ksame.models import runtime, weights
from ksame.models.recognisers import RECOGNISERS, VERIFIERS
from samples import mesh

CLASSIC = ["eigenfaces", "eigenfaces-mahalanobis", "fisherfaces", "lbp", "hog", "lpq"]
TRAINED = CLASSIC[:3]
DEEP = ["dlib", *(name for name in ("sface", "facenet", "mobilefacenet") if weights.cached(name))]


def chips(height: int, width: int, colours: int = 256) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.uint8, (height, width), elements=st.integers(0, colours - 1))


def blots(n: int, seed: int = 0) -> np.ndarray:
    """Return n smooth chips, as faces are."""
    coarse = np.random.default_rng(seed).integers(0, 256, (n, 12, 12)).astype(np.uint8)
    return np.stack(
        [cv2.resize(c, (classic.SIDE, classic.SIDE), interpolation=cv2.INTER_CUBIC) for c in coarse]
    )


# the codes


@given(st.one_of(chips(18, 25), chips(11, 11, 3)))
def test_lbp_counts_as_its_twin_does(chip):
    assert classic.lbp(chip[None])[0].tolist() == oracles.lbp(chip).tolist()


@given(st.one_of(chips(12, 22), chips(22, 12, 3)))
def test_hog_votes_as_its_twin_does(chip):
    np.testing.assert_allclose(classic.hog(chip[None])[0], oracles.hog(cv2.equalizeHist(chip)), atol=1e-5)


@given(st.one_of(chips(14, 22), chips(14, 14, 3)))
def test_lpq_counts_as_its_twin_does(chip):
    assert classic.lpq(chip[None])[0].tolist() == oracles.lpq(chip).tolist()


@given(chips(6, 10, 40))
def test_pixels_are_equalised_and_halved(chip):
    quarters = oracles.equalised(chip).astype(int).reshape(3, 2, 5, 2).sum(axis=(1, 3)).ravel()
    assert np.abs(classic.pixels(chip[None])[0] - quarters / 4).max() <= 1.5  # equal but for two roundings


@given(chips(18, 18, 40), st.sets(st.integers(0, 255), min_size=40, max_size=40))
def test_no_change_of_brightness_or_contrast_moves_a_code(chip, greys):
    assume(np.ptp(chip))  # one flat grey is not the other
    other = np.array(sorted(greys), np.uint8)[chip]
    for codes in (classic.pixels, classic.lbp):
        assert (codes(chip[None]) == codes(other[None])).all()
    assert (classic.hog(chip[None, :12, :12]) == classic.hog(other[None, :12, :12])).all()


@given(chips(14, 14, 40), st.integers(1, 6), st.integers(0, 15))
def test_lpq_does_not_see_gain_and_offset(chip, gain, offset):
    assert (classic.lpq(chip[None]) == classic.lpq(gain * chip[None] + np.uint8(offset))).all()


@pytest.mark.parametrize("name", CLASSIC)
@given(order=st.permutations(range(3)))
def test_a_code_depends_on_nothing_but_its_chip(name, order):
    some = blots(3)[[*order, *order]]
    codes = ATTACKERS[name].codes(some)
    for chip, code in zip(some, codes, strict=True):
        assert ATTACKERS[name].codes(chip[None])[0].tobytes() == code.tobytes()


@pytest.mark.weights
@pytest.mark.parametrize("name", DEEP)
def test_a_deep_code_depends_on_nothing_but_its_chip(name):
    rgb = np.random.default_rng(0).integers(0, 256, (320, 256, 3)).astype(np.uint8)
    one, other = ATTACKERS[name].chips(rgb, np.stack([mesh(), mesh() + 9]))
    first, _, again = ATTACKERS[name].codes(np.stack([one, other, one]))
    alone = ATTACKERS[name].codes(one[None])[0]
    assert first.tobytes() == again.tobytes() == alone.tobytes()


def test_the_chip_is_the_inner_face_grey_and_upright():
    rgb = np.zeros((320, 256, 3), np.uint8)
    rgb[130:143, 78:91], rgb[130:143, 166:179] = (255, 0, 0), (0, 255, 0)  # the eyes of the frame
    turn = cv2.getRotationMatrix2D((128, 160), 30, 0.9)
    turned = cv2.warpAffine(rgb, turn, (256, 320))
    points = mesh() @ turn[:, :2].T + turn[:, 2]
    plain, back = classic.chips(rgb, mesh()[None])[0], classic.chips(turned, points[None])[0]
    assert plain.shape == (classic.SIDE, classic.SIDE)
    at = (np.array([[84, 136], [172, 136]]) - [128, 180]) * 2 / 3 + 50.5
    for chip in (plain, back):
        for (x, y), grey in zip(at.round().astype(int), (76, 150), strict=True):  # 0.299 R, 0.587 G
            assert abs(int(chip[y, x]) - grey) <= 1
    assert classic.chips(rgb, np.zeros((0, 468, 2))).shape == (0, classic.SIDE, classic.SIDE)


# the distances


@given(arrays(np.uint8, (7, 5), elements=st.integers(0, 9)))
def test_histogram_distances_are_their_formulas(x):
    gallery, probes, who = x[:4], x[4:], np.arange(4)
    a, b = probes[:, None].astype(float), gallery[None].astype(float)
    chi = -additive_chi2_kernel(probes.astype(float), gallery.astype(float))
    np.testing.assert_allclose(classic.chi_square(gallery, who)(probes), chi, rtol=1e-5)
    norm = np.linalg.norm(a, axis=2) * np.linalg.norm(b, axis=2)
    cosine = 1 - (a * b).sum(axis=2) / np.maximum(norm, 1e-9)
    np.testing.assert_allclose(classic.cosine(gallery, who)(probes), cosine, atol=1e-6)


def test_many_faces_are_compared_block_by_block():
    rng = np.random.default_rng(0)
    gallery, probes = (
        rng.integers(0, 9, (300, 6)).astype(np.uint8),
        rng.integers(0, 9, (3, 6)).astype(np.uint8),
    )
    whole = classic.chi_square(gallery, np.arange(300))(probes)
    one_by_one = [classic.chi_square(row[None], np.zeros(1))(probes)[:, 0] for row in gallery]
    assert (whole == np.stack(one_by_one, axis=1)).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(9, 14), (25, 8)])  # fewer and more faces than pixels
def test_trained_distances_are_those_of_their_twins(seed, shape):
    rng = np.random.default_rng(seed)
    gallery = rng.integers(0, 256, shape).astype(np.uint8)
    probes = rng.integers(0, 256, (3, shape[1])).astype(np.uint8)
    who = np.arange(len(gallery)) % 4
    _, axes, _ = oracles.eigenspace(gallery, 0.95)
    eigen = [[np.linalg.norm((p - g) @ axes) for g in gallery.astype(float)] for p in probes.astype(float)]
    np.testing.assert_allclose(classic.eigenfaces(gallery, who)(probes), eigen, rtol=1e-3)
    np.testing.assert_allclose(
        classic.mahalanobis(gallery, who)(probes), oracles.mahalanobis(gallery, probes), rtol=1e-3
    )
    np.testing.assert_allclose(
        classic.fisherfaces(gallery, who)(probes),
        oracles.fisherfaces(gallery, who.tolist(), probes),
        rtol=2e-3,
    )


def test_with_one_photo_each_fisherfaces_are_whitened_eigenfaces():
    x = classic.pixels(blots(8))
    np.testing.assert_allclose(
        classic.fisherfaces(x[:6], np.arange(6))(x[6:]),
        classic.mahalanobis(x[:6], np.arange(6))(x[6:]),
        rtol=1e-3,
    )


def test_fisherfaces_learn_what_changes_within_people():
    """A light that is on or off is the largest change in the pictures; only fisherfaces see past it."""
    rng = np.random.default_rng(0)
    people = rng.normal(0, 6, (12, 60))
    light = 15 * rng.choice([-1, 1], 60)
    on, off = people + light, people - light
    noisy = (128 + np.stack([on, off, on + rng.normal(0, 1, on.shape)]).round()).clip(0, 255).astype(np.uint8)
    gallery, who = np.concatenate([noisy[0, :6], noisy[1]]), np.r_[:6, :12]
    probes = noisy[2, 6:]  # people known only without the light
    named = {
        train: who[train(gallery, who)(probes).argmin(axis=1)]
        for train in (classic.eigenfaces, classic.fisherfaces)
    }
    assert (named[classic.fisherfaces] == np.arange(6, 12)).all()
    assert (named[classic.eigenfaces] == np.arange(6, 12)).mean() < 0.5


def test_a_space_is_learnt_from_all_photos_of_some_people(monkeypatch):
    monkeypatch.setattr(classic, "_TRAINING_FACES_MAX", 4)
    x, who = classic.pixels(blots(8)), np.array(list("abcdabcd"))
    some = np.isin(who, ["a", "c"])
    far = classic.eigenfaces(x, who)(x)
    np.testing.assert_allclose(far[:, some], classic.eigenfaces(x[some], who[some])(x), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("people", [1, 3])
def test_equal_pictures_are_equally_far(name, people):
    who = ATTACKERS[name]
    subjects = np.arange(4) % people
    for blank in (np.zeros((4, classic.SIDE, classic.SIDE), np.uint8), blots(1).repeat(4, axis=0)):
        gallery = who.codes(blank)
        for size in (1, 4):
            far = who.train(gallery[:size], subjects[:size])(who.codes(blots(3, seed=1)))
            assert np.isfinite(far).all()
            assert (far == far[:, :1]).all()
        result = score(who.train, gallery, gallery, subjects, subjects, attack="naive", recogniser=name)
        assert result.rank1 == pytest.approx(1 / people)


@pytest.mark.parametrize("name", CLASSIC)
def test_one_person_alone_is_no_trouble(name):
    codes = ATTACKERS[name].codes(blots(4))
    far = ATTACKERS[name].train(codes[:3], np.zeros(3))(codes)
    assert far.shape == (4, 3)
    assert np.isfinite(far).all()


@pytest.mark.weights
def test_unprotected_copies_are_named_by_all_and_other_photos_by_most(family):
    recognisers = [ATTACKERS[name] for name in CLASSIC + DEEP]
    sources = find_sources(family)
    seen = embed_faces(sources, recognisers)
    who = np.array([source.name.split("/")[0] for source in sources])
    first = np.arange(len(who)) % 2 == 0
    for name in CLASSIC + DEEP:
        codes, train = seen.codes[name], ATTACKERS[name].train
        copy = score(train, codes, codes, who, who, attack="naive", recogniser=name)
        assert copy.rank1 == 1
        other = score(
            train, codes[first], codes[~first], who[first], who[~first], attack="naive", recogniser=name
        )
        assert other.rank1 >= (1 if name in DEEP else 0.8), name


# by name


def test_names_are_those_promised():
    assert list(ATTACKERS) == [*CLASSIC, "sface", "mobilefacenet", "dlib", "facenet"]
    assert all(name == who.name for name, who in ATTACKERS.items())


def test_an_attacker_that_is_added_attacks_and_judges_nothing(bare, monkeypatch):
    mine = Recogniser("mine", classic.chips, classic.hog, classic.cosine)
    monkeypatch.setitem(ATTACKERS, "mine", mine)
    assert choose_recognisers("mine") == ([mine], ())
    assert choose_recognisers("all")[0][-1] is mine
    assert "mine" not in RECOGNISERS
    assert not any("mine" in names for names in VERIFIERS)


def test_some_are_chosen_by_name_once_each():
    found, notes = choose_recognisers(" hog,lbp , hog")
    assert [who.name for who in found] == ["hog", "lbp"]
    assert notes == ()
    assert choose_recognisers(["hog", "lbp"])[0] == found


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(UsageError, match=r"'arcface'.*eigenfaces-mahalanobis.*mobilefacenet"):
        choose_recognisers("lbp,arcface")
    with pytest.raises(UsageError, match="no recogniser ''"):
        choose_recognisers("")


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """Take away the network and the cache."""
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("KSAME_OFFLINE", "1")


def test_all_is_all_that_are_here(bare):
    found, notes = choose_recognisers()
    assert [who.name for who in found] == CLASSIC
    assert [note.split(":")[0] for note in notes] == [
        f"Without {n}" for n in ("sface", "mobilefacenet", "dlib", "facenet")
    ]
    assert "ksame models add dlib FILE" in notes[2]
    assert "ksame models add sface FILE" in notes[0]
    assert all(note.endswith(".") for note in notes)


@pytest.mark.parametrize(
    ("name", "way"), [("dlib", "models add dlib"), ("sface", "ksame models add sface FILE")]
)
def test_one_that_was_named_and_is_missing_is_an_error(bare, name, way):
    with pytest.raises(WeightsError, match=way):
        choose_recognisers(f"lbp,{name}")


def test_a_nonsense_code_does_not_pass_for_a_missing_face(monkeypatch):
    monkeypatch.setattr(runtime, "infer", lambda name, x, shape: [np.full((1, 128), np.inf, np.float32)])
    with pytest.raises(WeightsError, match="sface gave a code that is not finite"):
        ATTACKERS["sface"].codes(np.zeros((1, 112, 112, 3), np.uint8))


# an .onnx file of one's own: a few bytes of protocol buffers, so that no package is needed to write it


def field(number: int, value: int | str | bytes) -> bytes:
    """Return one field of a message: a varint, or something with its length before it."""

    def varint(n: int) -> bytes:
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def node(kind: str, source: str, target: str, **lists: tuple[int, ...]) -> bytes:
    """Return a NodeProto with attributes that are lists of integers (type 7)."""
    made = field(1, source) + field(2, target) + field(4, kind)
    for name, values in lists.items():
        made += field(5, field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7))
    return made


def port(name: str, shape: tuple[int | str, ...]) -> bytes:
    """Return a ValueInfoProto: floats, a side by number or, left open, by name."""
    sides = b"".join(field(1, field(1 if isinstance(side, int) else 2, side)) for side in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, sides)))


def network(
    path: Path, shape: tuple[int | str, ...], *, last: bool = False, vector: bool = True, twice: bool = False
) -> Path:
    """Write a network: pictures averaged over squares of 28 pixels, and laid out as one vector."""
    nodes = [node("Transpose", "x", "t", perm=(0, 3, 1, 2))] if last else []
    nodes.append(node("AveragePool", "t" if last else "x", "p", kernel_shape=(28, 28), strides=(28, 28)))
    nodes.append(node("Flatten", "p", "code"))
    outputs = [port("code", ("n", "d"))] if vector else [port("p", ("n", 3, "h", "w"))]
    outputs += [port("p", ("n", 3, "h", "w"))] if twice else []
    graph = b"".join(field(1, n) for n in nodes) + field(2, "g") + field(11, port("x", shape))
    graph += b"".join(field(12, out) for out in outputs)
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 13)))
    return path


@pytest.mark.parametrize(
    ("shape", "last", "size"),
    [
        ((1, 3, 112, 112), False, 112),
        ((1, 112, 112, 3), True, 112),
        (("n", 3, "h", "w"), False, 112),
        (("n", 3, 140, 140), False, 140),
    ],
)
def test_an_onnx_file_is_a_recogniser(tmp_path, shape, last, size):
    who = from_onnx(network(tmp_path / "mine.onnx", shape, last=last))
    assert (who.name, who.same_person) == ("mine", None)
    rgb = np.full((320, 256, 3), (0, 127, 255), np.uint8)
    chips = who.chips(rgb, mesh()[None])
    assert chips.shape == (1, size, size, 3)
    fed = (np.array([0, 127, 255]) - 127.5) / 127.5
    means = fed.repeat((size // 28) ** 2)  # channel by channel
    np.testing.assert_allclose(who.codes(chips)[0], means / np.linalg.norm(means), atol=1e-6)
    codes = who.codes(np.stack([np.zeros_like(chips[0]), chips[0]]))
    assert who.train(codes, np.arange(2))(codes).argmin(axis=1).tolist() == [0, 1]


def test_its_chip_is_the_usual_one_at_its_size(tmp_path):
    """The eyes, a third of the way down the 112 px layout, are where they should be at 140 px."""
    rgb = np.zeros((320, 256, 3), np.uint8)
    rgb[134:139, 82:87], rgb[134:139, 170:175] = 255, 255
    who = from_onnx(network(tmp_path / "mine.onnx", (1, 3, 140, 140)))
    chip = who.chips(rgb, mesh()[None])[0, ..., 0]
    left, right = (np.argwhere(chip[:, half] > 127).mean(axis=0) for half in (np.s_[:70], np.s_[70:]))
    expected = np.array([[51.6963, 38.2946], [51.5014, 73.5318 - 56]]) * 140 / 112
    np.testing.assert_allclose([left, right], expected, atol=5)  # the made-up mesh is wider than a face


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"shape": (1, 1, 112, 112)}, r"must take one image.*\(1, 1, 112, 112\)"),
        ({"shape": (1, "c", 112, 112)}, "must take one image"),
        ({"shape": (1, 3, 112, 96)}, "must be square"),
        ({"shape": (1, 3, 28, 28)}, r"at least 16 numbers\. Got \(1, 3\)"),
        ({"shape": (1, 3, 112, 112), "vector": False}, r"one vector.*\(1, 3, 4, 4\)"),
        ({"shape": (1, 3, 112, 112), "twice": True}, r"one vector.*\(1, 48\), \(1, 3, 4, 4\)"),
    ],
)
def test_what_is_no_recogniser_is_refused(tmp_path, options, why):
    file = network(tmp_path / "mine.onnx", **options)
    with pytest.raises(UsageError, match=rf"mine\.onnx is not a recogniser: .*{why}"):
        from_onnx(file)


def test_what_is_no_network_is_refused(tmp_path):
    (tmp_path / "mine.onnx").write_bytes(b"not a network")
    with pytest.raises(UsageError, match="cannot be read as an ONNX network"):
        choose_recognisers(str(tmp_path / "mine.onnx"))
    with pytest.raises(UsageError, match="There is no file"):
        choose_recognisers(str(tmp_path / "other.onnx"))


def test_a_network_that_fails_on_a_picture_is_refused(tmp_path, monkeypatch):
    file = network(tmp_path / "mine.onnx", (1, 3, 112, 112))
    monkeypatch.setattr(runtime, "infer", lambda *args, **options: (_ for _ in ()).throw(RuntimeError("no")))
    with pytest.raises(UsageError, match="does not run on one image"):
        from_onnx(file)


def test_a_file_beside_all_the_others(tmp_path, bare):
    found, _ = choose_recognisers(["all", network(tmp_path / "mine.onnx", (1, 3, 112, 112))])
    assert [who.name for who in found] == [*CLASSIC, "mine"]
    with pytest.raises(UsageError, match="there is already a recogniser lbp"):
        choose_recognisers([network(tmp_path / "lbp.onnx", (1, 3, 112, 112))])
