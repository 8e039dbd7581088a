"""The method heads: its claim, where heads go, where they come from, and a run from end to end."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import ksame
from backgrounds import background
from heads import bundled_heads
from ksame import io
from ksame.core.errors import GuaranteeViolated, UsageError
from ksame.core.geometry import FRAME, five_points, transform
from ksame.core.guarantee import Guarantee
from ksame.methods import METHODS
from ksame.methods.heads.regions import group_placements
from ksame.render.head import tone
from ksame.render.head.canvas import compose, place_head, placement_scale, sample_canvas, warp
from ksame.render.head.cutout import cut_head, head_flaws
from ksame.render.head.region import head_mask, template


def test_scope_head_lies_between_code_and_file():
    file, head, code = (Guarantee("k-anonymity", 5, 0.2, scope=scope) for scope in ("file", "head", "code"))
    assert code < head < file
    assert file.meet(head).scope == "head" and head.meet(code).scope == "code"
    assert file.lower(scope="head", because="x").lower(scope="code", because="y").scope == "code"
    for low, high in ((code, "head"), (head, "file"), (code, "file")):
        with pytest.raises(GuaranteeViolated, match="scope cannot go"):
            low.lower(scope=high, because="I wish")


def test_the_claim_names_what_is_outside():
    claim = Guarantee("k-anonymity", 5, 0.2, scope="head")
    for word in ("placement", "neck", "clothes", "hair beyond"):
        assert word in str(claim)
    assert "docs/explanation/guarantees/heads.md" in claim.proof


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.7])
def test_a_canvas_comes_back_where_it_was_taken(scale):
    rng = np.random.default_rng(1)
    placement = np.array([[scale, -0.1 * scale, 30.0], [0.1 * scale, scale, 20.0]])
    photo = cv2.GaussianBlur(rng.integers(0, 256, (120, 160), np.uint8), (0, 0), 6)
    canvas = sample_canvas(photo, placement)
    x, y = 128, 178
    there = transform(placement, [[x, y]])[0]
    if (there < (158, 118)).all():
        at = there.round().astype(int)
        assert abs(int(canvas[y + 190, x + 192]) - int(photo[at[1], at[0]])) < 12


def test_warps_compose():
    one, two = np.array([[2.0, 0, 3], [0, 2, 1]]), np.array([[0.0, -1, 5], [1, 0, 7]])
    point = np.array([[4.0, 9]])
    np.testing.assert_allclose(transform(compose(one, two), point), transform(one, transform(two, point)))
    assert placement_scale(compose(one, two)) == pytest.approx(2)


def test_a_group_shares_scale_and_roll_and_each_face_keeps_its_middle():
    person = bundled_heads(1, seed=3)[0].mesh
    points = np.stack([person, 1.3 * person + 4, 0.8 * person[:, ::1] + 9])
    points[1] = transform(np.array([[0.99, -0.14, 0], [0.14, 0.99, 0]]), points[1])
    placements = group_placements(points, [np.array([0, 1]), np.array([2])])
    np.testing.assert_allclose(placements[0][:, :2], placements[1][:, :2])
    np.testing.assert_allclose(placements[2], place_head(points[2]), atol=1e-6)
    for placement, mesh in zip(placements, points, strict=True):
        middle = transform(placement, FRAME.five).mean(axis=0)
        np.testing.assert_allclose(middle, five_points(mesh).mean(axis=0), atol=1e-6)


def test_a_head_the_parser_does_not_see_gets_a_generous_template():
    person = bundled_heads(1, seed=3)[0]
    blank = np.full((640, 512, 3), 127, np.uint8)
    found = head_mask(blank, place_head(person.mesh), person.mesh, np.zeros((0, 3)))
    assert not found.parsed
    assert (found.mask | ~template(250.0)).all()


def test_a_neighbour_is_not_part_of_a_head():
    left, right = (one for one in bundled_heads(2, seed=3))
    photo = np.full((640, 900, 3), 150, np.uint8)
    placements = []
    for person, x in ((left, 0.0), (right, 330.0)):
        move = np.array([[1.0, 0, x], [0, 1, 0]])
        matte = warp(person.matte, move, (900, 640))[..., None]
        photo[:] = (photo * (1 - matte) + warp(person.rgb, move, (900, 640)) * matte).round()
        placements.append(compose(move, place_head(person.mesh)))
    centre = [*transform(placements[1], FRAME.five[:3].mean(axis=0)), placement_scale(placements[1])]
    alone = head_mask(photo, placements[0], left.mesh, np.zeros((0, 3)))
    apart = head_mask(photo, placements[0], left.mesh, np.array([centre]))
    assert apart.mask.sum() <= alone.mask.sum()
    assert apart.parsed


def test_a_crown_that_the_edge_cuts_is_a_flaw():
    person = bundled_heads(1, seed=3)[0]
    matte = person.matte[..., None]
    portrait = (person.rgb * matte + 150 * (1 - matte)).round().astype(np.uint8)
    assert head_flaws(portrait, person.mesh).crown == 0
    top = int(person.mesh[10, 1]) - 10
    assert head_flaws(portrait[top:], person.mesh - (0, top)).crown > 20
    cut = cut_head(portrait, person.mesh)
    assert cut.alpha[int(person.mesh[1, 1]), int(person.mesh[1, 0])] == 255
    assert cut.alpha[2, 2] == 0


def test_skin_is_brought_towards_a_target_but_not_beyond_a_limit():
    skin = tone.to_rgb(np.full((4, 4, 3), (60.0, 15, 18), np.float32))
    lab = np.array([60.0, 15, 18])
    assert np.array_equal(tone.match_skin(skin, lab, None), skin)
    near = tone.to_lab(tone.match_skin(skin, lab, lab + np.array([4, 2, -3])))
    np.testing.assert_allclose(near[0, 0], lab + np.array([4, 2, -3]), atol=0.6)
    far = tone.to_lab(tone.match_skin(skin, lab, lab + np.array([60, 0, 0])))
    assert far[0, 0, 0] == pytest.approx(60 + tone.MAX_TONE_SHIFT[0], abs=1)


def test_grain_is_measured_as_it_was_added():
    rng = np.random.default_rng(0)
    flat = np.full((200, 200, 3), 128.0, np.float32)
    noisy = np.clip(flat + rng.normal(0, 5, (200, 200, 1)), 0, 255).astype(np.uint8)
    known = np.ones((200, 200), bool)
    assert tone.grain_sigma(noisy, known) == pytest.approx(5, rel=0.15)
    assert tone.grain_sigma(flat.astype(np.uint8), known) == 0
    assert tone.add_grain(flat, 3.0, rng).std() == pytest.approx(3, rel=0.05)


def test_a_folder_of_heads_needs_no_generator():
    context = ksame.core.context.Context(verifiers=("sface",))
    assert "stylegan" in METHODS["heads"].networks(context)
    own = METHODS["heads"].with_options({"heads": "somewhere"})
    assert "stylegan" not in own.networks(context)
    assert own.settings(public=True)["heads"] == "custom", "no path in the certificate"


@pytest.fixture(scope="module")
def photos():
    """Four people of no real life, one photo each."""
    rng = np.random.default_rng(4)
    images = []
    for person in bundled_heads(4, seed=5):
        wall, matte = background(rng, 640, 512), person.matte[..., None]
        images.append((person.rgb * matte + wall * (1 - matte)).round().astype(np.uint8))
    return images


@pytest.fixture(scope="module")
def portraits(tmp_path_factory):
    """A folder of two portraits to cut heads from."""
    folder = tmp_path_factory.mktemp("portraits")
    for number, person in enumerate(bundled_heads(6, seed=8)[4:]):
        matte = person.matte[..., None]
        rgb = (person.rgb * matte + 150 * (1 - matte)).round().astype(np.uint8)
        (folder / f"{number}.png").write_bytes(io.encode_png(rgb))
    return folder


@pytest.mark.parametrize("placement", ["exact", "group"])
def test_a_run_replaces_heads_and_verifies(photos, portraits, tmp_path, placement):
    release = ksame.deidentify(
        photos, 2, method="heads", heads=str(portraits), placement=placement, subjects=list("abcd"), seed=1,
        names="random",
    )  # fmt: skip
    assert release.guarantee.scope == "head" and release.guarantee.k == 2
    release.save(tmp_path / "out")
    done = ksame.verify(tmp_path / "out", private=tmp_path / "out.private")
    assert any("head regions" in line for line in done.unchecked)
    certificate = release.certificate()
    assert certificate["placement"] == placement
    assert certificate["people_per_group"] == [2, 2] or certificate["people_per_group"] == [4]


def test_too_few_portraits_are_refused(photos, tmp_path):
    (tmp_path / "one.png").write_bytes(io.encode_png(np.full((64, 64, 3), 200, np.uint8)))
    with pytest.raises(UsageError, match="add portraits"):
        ksame.deidentify(photos, 2, method="heads", heads=str(tmp_path), subjects=list("abcd"), seed=1)
