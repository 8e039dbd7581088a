"""Masks on faces that the model draws: nobody's, but they have eyes and mouths."""

import itertools
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import drawn
import oracles
from ksame.analysis.tracking.propagate import pack_meshes
from ksame.analysis.tracking.track import Track
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.geometry import (
    BROWS,
    FRAME,
    INNER_LIPS,
    LEFT_EYE,
    MESH,
    OVAL,
    RIGHT_EYE,
    Raster,
    align,
    nearest_covered,
    register,
    similarity,
    transform,
    with_ring,
)
from ksame.methods.shift import candidates, choose, likeness
from ksame.methods.shift.choose import choose_identities
from ksame.methods.shift.margin import distance_ratio
from ksame.methods.shift.pool import Pool
from ksame.models import weights
from ksame.models.blendshapes import BLENDSHAPES
from ksame.render import tone
from ksame.render.overlay import brows, frame_code
from ksame.render.overlay.face_overlay import FaceOverlay
from ksame.render.overlay.features import BROW_RAISE_GAIN, EYE_POINTS, MOUTH_POINTS
from ksame.render.overlay.frame_code import FaceView, encode_frame, smooth_codes
from ksame.render.overlay.sampling import SHAPE_SHARE, interpolate_mesh_values
from ksame.render.overlay.textures import extend_skin, match_sharpness, match_skin
from ksame.render.overlay.views import sample_views

quick = settings(max_examples=25, deadline=None)


@pytest.fixture(autouse=True)
def without_the_closer_look(monkeypatch, request):
    """The closer network is for tests that say so."""
    if "weights" not in request.keywords:
        monkeypatch.setattr(frame_code.weights, "cached", lambda name: False)


@cache
def people(n=3):
    """Views of some people, one each, in frames with a ground around the face."""
    rgb, points = drawn.photos(n, seed=4)
    wide = [cv2.copyMakeBorder(one, 60, 60, 60, 60, cv2.BORDER_REPLICATE) for one in rgb]
    return [FaceView(frame, mesh + 60) for frame, mesh in zip(wide, points, strict=True)]


@cache
def pool(p=12):
    model = drawn.model()
    rng = np.random.default_rng(1)
    codes = np.where(model.nuisance, 0, rng.normal(size=(2, p, len(model.deviation))) * model.deviation * 0.6)
    return Pool(codes[0], codes[1], np.zeros((p, 3)), 2, model.digest, "")


@cache
def portraits():
    """The same pool, of faces with pictures: flat skin in colours of their own."""
    stored = []
    for row in range(len(pool())):
        skin = np.full((*FRAME.size(1)[::-1], 3), (150, 110 + 5 * row, 90), np.uint8)
        stored.append(cv2.imencode(".webp", skin[..., ::-1])[1].tobytes())
    codes = pool().codes
    return replace(pool(), deidentified=codes.copy(), images=tuple(stored))


def mask(view=None, row=0):
    faces = pool()
    return FaceOverlay.of(drawn.model(), [view or people()[0]], faces.codes[row], faces.deidentified[row])


def nearest_first(view, faces):
    """Return the rows of a pool from the nearest to a view on."""
    return faces.nearest(frame_code.appearance_code(drawn.model(), view), drawn.model().nuisance)


def inside(points, size):
    region = np.zeros(size[:2], np.uint8)
    cv2.fillPoly(region, [points[list(OVAL)].round().astype(np.int32)], 1)
    return region > 0


# what a frame shows


def test_gamma_is_that_of_the_model_and_there_is_no_difference_without_the_closer_look():
    model, view = drawn.model(), people()[0]
    face = register(view.rgb, view.points, scale=0.375)
    one = np.array(["A"])
    faces = FaceSet(face[None], view.points[None], np.zeros((1, 4)), np.ones(1), one, one)
    np.testing.assert_array_equal(
        frame_code.appearance_code(model, view), model.encode(faces, nuisance=True)[0]
    )
    code = encode_frame(model, view)
    assert not code[: 2 * MESH].any()
    assert code.shape == (2 * MESH + 1 + 51 + 6 + 24,)


@pytest.mark.parametrize(("apart", "looks"), [(60.0, [3]), (50.0, [2]), (15.0, [])])
def test_a_small_face_is_looked_at_closely_less_often(apart, looks, monkeypatch):
    asked, view = [], people()[0]
    monkeypatch.setattr(frame_code.weights, "cached", lambda name: True)
    monkeypatch.setattr(
        frame_code, "refine_landmarks", lambda rgb, mesh, *, views: asked.append(views) or mesh
    )
    size = apart / float(frame_code.eye_distance_and_turn(view.points)[0])
    rgb = cv2.resize(view.rgb, None, fx=size, fy=size)
    encode_frame(drawn.model(), FaceView(rgb, view.points * size))
    assert asked == looks


@pytest.mark.weights
@pytest.mark.parametrize("roll", [0.0, 0.6])
def test_the_closer_look_sees_a_shut_eye_that_the_mesh_does_not_follow(roll):
    weights.path("landmarker")
    model, view = drawn.model(), people()[0]
    turn = cv2.getRotationMatrix2D((view.rgb.shape[1] / 2, view.rgb.shape[0] / 2), np.degrees(-roll), 1)
    points = transform(turn, view.points)
    rgb = cv2.warpAffine(view.rgb, turn, view.rgb.shape[1::-1], borderMode=cv2.BORDER_REPLICATE)
    open_ = frame_code.refined_landmarks(points, encode_frame(model, FaceView(rgb, points)), model)
    shut = rgb.copy()
    for ring in (LEFT_EYE, RIGHT_EYE):
        eye = points[list(ring)]
        box = cv2.convexHull((eye.mean(axis=0) + 1.25 * (eye - eye.mean(axis=0))).round().astype(np.int32))
        skin = rgb[tuple(points[50].round().astype(int)[::-1])]
        cv2.fillConvexPoly(shut, box, skin.tolist())
    seen = frame_code.refined_landmarks(points, encode_frame(model, FaceView(shut, points)), model)

    def opening(mesh):
        return np.linalg.norm(mesh[[159, 386]] - mesh[[145, 374]], axis=1).sum()

    assert opening(seen) < 0.8 * opening(open_)
    # it is the same face in the same place
    assert np.linalg.norm(open_ - points, axis=1).mean() < 0.06 * np.ptp(points)


def test_the_code_says_what_colour_the_skin_is_and_what_is_between_the_lips():
    model, view = drawn.model(), people()[0]
    rgb = np.full_like(view.rgb, (170, 120, 100))
    lips = view.points[list(INNER_LIPS)].round().astype(np.int32)
    cv2.fillPoly(rgb, [lips], (240, 235, 225))  # teeth
    code = encode_frame(model, FaceView(rgb, view.points))
    np.testing.assert_allclose(frame_code.skin_colours(code), np.tile((170, 120, 100), (17, 1)), atol=2)
    assert frame_code.mouth_colours(code)[2].min() > 180
    black = encode_frame(model, FaceView(np.zeros_like(rgb), view.points))
    np.testing.assert_array_equal(frame_code.skin_colours(black), np.full((17, 3), 8))  # it is divided by


def in_glasses(rgb, points, colour):
    """Paint over the cheeks as far down as large glasses reach."""
    painted = rgb.copy()
    low, high = points[[117, 346]].min(axis=0) - (30, 15), points[[205, 425]].max(axis=0) - (-30, -4)
    cv2.rectangle(painted, low.astype(int).tolist(), high.astype(int).tolist(), colour, -1)
    return painted


def test_through_glasses_the_skin_is_that_of_the_cheeks_below():
    model, view = drawn.model(), people()[0]
    rgb = np.full_like(view.rgb, (160, 112, 100))
    grey = in_glasses(rgb, view.points, (150, 135, 130))
    bare, seen = (encode_frame(model, FaceView(one, view.points)) for one in (rgb, grey))
    assert (
        not frame_code.wears_glasses([bare])
        and frame_code.wears_glasses([seen])
        and not frame_code.wears_glasses([bare, bare, seen])
    )
    above = np.array([160, 112, 100]) * frame_code.CHEEK_COLOUR_RATIO
    np.testing.assert_allclose(frame_code.skin_colours(seen, glasses=True), np.tile(above, (17, 1)), atol=4)
    np.testing.assert_allclose(np.median(frame_code.skin_colours(seen)[:12], axis=0), (150, 135, 130), atol=4)
    for paint, told in ((rgb, False), (grey, True)):
        assert FaceOverlay.of(model, [FaceView(paint, view.points)], *pool().codes[:2]).glasses is told


def test_grey_skin_tells_nothing_of_glasses():
    model, view = drawn.model(), people()[0]
    grey = in_glasses(np.full_like(view.rgb, 120), view.points, (110, 110, 110))
    assert not frame_code.wears_glasses([encode_frame(model, FaceView(grey, view.points))])


def test_a_grey_view_has_the_code_of_a_face_of_usual_hue(monkeypatch):
    model, view = drawn.model(), people()[0]
    colour = model.texture.reshape(-1, 3).mean(axis=0)
    grey = tone.to_grey(view.rgb)
    usual = np.clip(np.rint(grey * (colour / (colour @ [0.299, 0.587, 0.114]))), 0, 255).astype(np.uint8)
    found = frame_code.appearance_code(model, FaceView(grey, view.points))
    monkeypatch.setattr(frame_code, "is_monochrome", lambda rgb: False)
    twin, bare = (frame_code.appearance_code(model, FaceView(rgb, view.points)) for rgb in (usual, grey))
    assert np.linalg.norm(found - twin) < 0.1 * np.linalg.norm(bare - twin)


def test_of_a_turned_head_the_near_cheek_counts():
    points = people()[0].points
    rgb = np.full_like(people()[0].rgb, (160, 112, 100))
    rgb[:, int(points[1, 0]) + 5 :] = 250  # a white wall, where a cheek would be

    def below(mesh):
        return frame_code._side_colours(
            frame_code.sample_skin_colours(rgb, mesh, frame_code._BELOW_CHEEK_POINTS), mesh
        )

    both = below(points)
    turned = points.copy()
    right = points[:, 0] > points[1, 0]
    turned[right, 0] = points[1, 0] + 0.3 * (points[right, 0] - points[1, 0])
    near = below(turned)
    assert both[1].min() > 200 and np.abs(near - (160, 112, 100)).max() < 3


def test_a_mole_is_no_light():
    model, view = drawn.model(), people()[0]
    new_face = mask()
    mole = view.rgb.copy()
    cv2.circle(mole, view.points[50].round().astype(int).tolist(), 4, (0, 0, 0), -1)
    plain, marked = (
        new_face.draw(view.rgb, view.points, encode_frame(model, FaceView(rgb, view.points)))
        for rgb in (view.rgb, mole)
    )
    face = inside(new_face.warp_to_mesh(view.points), plain.shape)
    assert np.abs(plain.astype(int) - marked)[face].max() < 16


def test_half_a_face_in_the_shade_has_a_new_one_that_is():
    model, view = drawn.model(), people()[0]
    new_face = mask()
    across = np.interp(
        np.arange(view.rgb.shape[1]), [view.points[:, 0].min(), view.points[:, 0].max()], [1, 0.5]
    )
    shaded = (view.rgb * across[None, :, None]).astype(np.uint8)
    plain, dim = (
        new_face.draw(rgb, view.points, encode_frame(model, FaceView(rgb, view.points))).astype(float)
        for rgb in (view.rgb, shaded)
    )
    face = inside(new_face.warp_to_mesh(view.points), view.rgb.shape)
    middle = view.points[:, 0].mean()
    left, right = (
        face & half for half in (np.arange(face.shape[1]) < middle, np.arange(face.shape[1]) > middle)
    )
    lights = [dim[half].mean() / plain[half].mean() for half in (left, right)]
    assert lights[0] > lights[1] + 0.12


@quick
@given(st.integers(0, 999), st.integers(1, 12), st.floats(0.3, 2))
def test_calm_codes_are_those_of_a_window_that_looks_both_ways(seed, t, sigma):
    rng = np.random.default_rng(seed)
    codes, seen = rng.normal(size=(t, 5)), rng.random(t) < 0.6
    seen[rng.integers(t)] = True
    np.testing.assert_allclose(
        smooth_codes(codes, seen, sigma=sigma), oracles.calm(codes, seen, sigma), atol=1e-9
    )
    backwards = smooth_codes(codes[::-1], seen[::-1], sigma=sigma)[::-1]
    np.testing.assert_allclose(smooth_codes(codes, seen, sigma=sigma), backwards, atol=1e-9)  # no lag


def test_a_face_that_is_never_seen_has_no_code():
    with pytest.raises(UsageError, match="seen well enough"):
        smooth_codes(np.zeros((3, 2)), [False] * 3)


# drawing


@quick
@given(st.integers(0, 999), st.floats(0.2, 1.5))
def test_values_are_spread_over_a_mesh_as_a_raster_does(seed, scale):
    model, rng = drawn.model(), np.random.default_rng(seed)
    target = with_ring(model.shape + rng.normal(size=2) * 9) * scale
    values = rng.normal(size=(len(target), 3)) * 0.2 + target[:, [0, 1, 0]]
    size = (round(FRAME.height * scale), round(FRAME.width * scale))
    raster = Raster.of(target, model.ring_triangles, size[1], size[0])
    exact = np.zeros((*size, 3))
    exact[raster.covered] = raster.weights @ values
    quickly = interpolate_mesh_values(target, model.ring_triangles, values, size)
    covered = raster.covered.astype(np.uint8)
    inner = cv2.erode(covered, np.ones((3, 3))) > 0  # of the outermost pixels one in thousands is missed
    away = np.abs(quickly - exact)[inner]
    assert np.quantile(away, 0.9) < 0.05 + 0.2 / scale  # off on edges only
    assert away.max() <= np.ptp(values[model.ring_triangles], axis=1).max()
    found = (quickly != 0).any(axis=2)
    assert found[inner].all()
    assert not found[cv2.dilate(covered, np.ones((3, 3))) == 0].any()


def test_a_shut_lid_has_no_slope():
    target = np.array([[0, 0], [20, 0], [10, 0.01], [10, 15.0]])
    found = interpolate_mesh_values(
        target, np.array([[0, 1, 2], [0, 1, 3]]), np.array([[0.0], [1], [2], [3]]), (20, 24)
    )
    assert found.min() >= 0 and found.max() <= 3


def test_nothing_of_the_old_face_is_left_and_nothing_far_away_changes():
    view = people()[0]
    new_face, code = mask(view), encode_frame(drawn.model(), view)
    signal = view.rgb.copy()
    signal[inside(view.points, signal.shape)] = (255, 0, 255)  # a face that must not shine through
    drawn_over = new_face.draw(signal, view.points, code)
    worn = new_face.warp_to_mesh(view.points)
    plain = new_face.draw(view.rgb, view.points, code)
    shines = np.abs(drawn_over.astype(int) - plain).max(axis=2)
    assert shines[inside(worn, signal.shape)].max() < 0.15 * 255
    eroded = cv2.erode(inside(worn, signal.shape).astype(np.uint8), np.ones((9, 9)))
    assert not shines[eroded > 0].any()
    mesh = with_ring(worn)
    low, high = mesh.min(axis=0), mesh.max(axis=0)
    room = 0.5 * (high - low)
    far = np.ones(signal.shape[:2], bool)
    (x0, y0), (x1, y1) = (low - room).astype(int).clip(0), (high + room).astype(int)
    far[y0:y1, x0:x1] = False
    assert (drawn_over[far] == signal[far]).all()


def test_the_frame_that_was_given_is_not_changed_and_the_face_is_new():
    view = people()[0]
    before = view.rgb.copy()
    new = mask().draw(view.rgb, view.points, encode_frame(drawn.model(), view))
    assert (view.rgb == before).all()
    changed = np.abs(new.astype(int) - before)[inside(view.points, new.shape)]
    assert changed.mean() > 3


def test_a_face_outside_the_frame_changes_nothing():
    view = people()[0]
    code = encode_frame(drawn.model(), view)
    assert (mask().draw(view.rgb, view.points + 5000, code) == view.rgb).all()


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0, 2.0])
def test_faces_of_every_size_are_drawn_alike(scale):
    view = people()[0]
    new_face = mask()
    size = [round(side * scale) for side in view.rgb.shape[1::-1]]
    code = encode_frame(drawn.model(), view)
    large = new_face.draw(view.rgb, view.points, code)
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    frame = cv2.resize(view.rgb, size, interpolation=how)
    small = new_face.draw(frame, (view.points + 0.5) * scale - 0.5, code)
    expected = cv2.resize(large, size, interpolation=how)
    assert np.abs(small.astype(int) - expected).mean() < 4


def test_light_is_a_factor():
    view = people()[0]
    model, new_face = drawn.model(), mask()
    dim = FaceView(view.rgb // 2, view.points)
    bright = new_face.draw(view.rgb, view.points, encode_frame(model, view))
    dark = new_face.draw(dim.rgb, view.points, encode_frame(model, dim))
    face = inside(new_face.warp_to_mesh(view.points), dark.shape)
    ratio = dark[face].mean() / bright[face].mean()
    assert ratio == pytest.approx(0.5, abs=0.05)
    assert dark[face].std() / bright[face].std() == pytest.approx(0.5, abs=0.1)


def test_skin_has_the_colour_of_the_scene():
    for view in people():
        new_face = mask(view)
        new = new_face.draw(view.rgb, view.points, encode_frame(drawn.model(), view))
        face = inside(new_face.warp_to_mesh(view.points), new.shape) & inside(view.points, new.shape)
        assert np.abs(new[face].mean(axis=0) - view.rgb[face].mean(axis=0)).max() < 14


def test_of_the_texture_of_a_person_nothing_is_left_but_its_colour():
    one, other = people()[0], people()[1]
    hat, hat_d = pool().codes, pool().deidentified
    model = drawn.model()
    a, b = (FaceOverlay.of(model, [view], hat[0], hat_d[0]) for view in (one, other))
    textured = np.arange(84) >= len(model.shape_axes)
    free = textured & ~model.nuisance
    np.testing.assert_array_equal(a.gamma_d[free], b.gamma_d[free])
    gamma = frame_code.appearance_code(model, one)
    np.testing.assert_array_equal(a.gamma_d[model.nuisance], gamma[model.nuisance])  # light and pose stay


def test_in_pixel_space_old_pixels_are_changed_and_not_replaced():
    view = people()[0]
    new_face = mask()
    code = encode_frame(drawn.model(), view)
    mole = view.rgb.copy()
    at = view.points[50].round().astype(int)  # on the cheek
    cv2.circle(mole, at.tolist(), 4, (0, 0, 0), -1)
    where = tuple(new_face.warp_to_mesh(view.points)[50].round().astype(int)[::-1])
    kept, gone = (new_face.draw(mole, view.points, code, texture=t)[where].mean() for t in ("pixel", "code"))
    assert kept < 60 < gone - 20


# shapes


def test_what_is_shut_stays_shut():
    closed = people()[0].points.copy()
    for ring in (INNER_LIPS, LEFT_EYE, RIGHT_EYE):
        half = len(ring) // 2
        closed[list(ring[1:half])] = closed[list(ring[:half:-1])]
    worn = mask().warp_to_mesh(closed)
    np.testing.assert_allclose(worn[159], worn[145], atol=1e-9)
    np.testing.assert_allclose(worn[13], worn[14], atol=1e-9)


@quick
@given(st.floats(-3.1, 3.1), st.floats(0.2, 4), st.integers(-500, 500))
def test_the_new_shape_turns_and_grows_with_the_old_one(roll, size, away):
    points = people()[0].points
    new_face = mask()
    a = size * np.exp(1j * roll)
    matrix = np.array([[a.real, -a.imag, away], [a.imag, a.real, -away]])
    np.testing.assert_allclose(
        new_face.warp_to_mesh(transform(matrix, points)),
        transform(matrix, new_face.warp_to_mesh(points)),
        atol=1e-6 * size,
    )


def test_a_movement_of_the_old_face_is_a_livelier_movement_of_the_new_one():
    points = people()[0].points
    new_face = mask()
    moved = points.copy()
    moved[[105, 66, 107]] += (0, -6)  # a brow is raised
    away = new_face.warp_to_mesh(moved) - new_face.warp_to_mesh(points)
    np.testing.assert_allclose(away[[105, 66, 107]], [[0, -6 * BROW_RAISE_GAIN]] * 3, atol=0.7)


def test_a_small_face_is_nearer_to_a_large_one_made_small(monkeypatch):
    """Drawn pixel by pixel its lips and lids would be ragged."""
    view, new_face = people()[0], mask()
    code = encode_frame(drawn.model(), view)
    small, large = (scale * (view.points + 0.5) - 0.5 for scale in (0.25, 3))
    few = cv2.resize(view.rgb, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
    wanted = new_face.draw(cv2.resize(view.rgb, None, fx=3, fy=3), large, code)
    wanted = cv2.resize(wanted, few.shape[1::-1], interpolation=cv2.INTER_AREA)
    left, top, right, bottom = small[[33, 105, 263, 17], [0, 1, 0, 1]].astype(int)

    def off():
        drawn_small = new_face.draw(few, small, code)
        return cv2.absdiff(drawn_small, wanted)[top:bottom, left:right].mean()

    larger = off()
    monkeypatch.setattr("ksame.render.overlay.face_overlay.UPSCALED_FACE_PX", 0.0)
    assert larger < 0.85 * off()


def test_a_face_without_any_size_is_drawn():
    view, new_face = people()[0], mask()
    code = encode_frame(drawn.model(), view)
    new = new_face.draw(view.rgb, np.full((MESH, 2), 50.0) + 1e-3 * view.points, code)
    assert np.abs(new.astype(int) - view.rgb).max(axis=2).astype(bool).sum() < 100


def test_the_nearest_covered_pixel():
    covered = np.zeros((6, 7), bool)
    covered[2:4, 2:5] = True
    found = nearest_covered(covered)
    y, x = np.nonzero(covered)
    assert found[covered].tolist() == list(range(6))
    assert (y[found[0, 0]], x[found[0, 0]]) == (2, 2)
    assert (y[found[5, 6]], x[found[5, 6]]) == (3, 4)


def test_the_rim_of_a_face_is_its_skin():
    model = drawn.model()
    shape = model.shape * 0.5
    oval = shape[list(OVAL)]
    within = (oval.mean(axis=0) + 0.98 * (oval - oval.mean(axis=0))).round().astype(np.int32)
    image = np.full((160, 128, 3), (0, 0, 255), np.float32)  # hair and ground
    cv2.fillPoly(image, [cv2.convexHull(within)], (200, 140, 120))
    clean = extend_skin(image, shape)
    ring = with_ring(shape)[MESH:].round().astype(int).clip(0, (127, 159))
    assert np.abs(clean[ring[:, 1], ring[:, 0]] - (200, 140, 120)).mean() < 60  # of 180
    x, y = shape.mean(axis=0).astype(int)
    np.testing.assert_allclose(clean[y, x], (200, 140, 120), atol=1e-3)


# which face


def test_the_recogniser_and_the_person_that_are_nearest_count():
    new = {"sface": np.array([[0.0, 0], [5, 0]]), "dlib": np.array([[0.0]])}
    near, far = {"sface": np.array([[1.02, 0]])}, {"sface": np.array([[2.04, 0], [3.5, 0]])}
    assert distance_ratio(new, []) == distance_ratio(new, [{}]) == np.inf
    assert distance_ratio(new, [far]) == pytest.approx(1.5 / 1.02)
    assert distance_ratio(new, [far, near]) == pytest.approx(1)
    assert distance_ratio(new, [far, {"dlib": np.array([[0.12]])}]) == pytest.approx(0.25)


def fake_embed(monkeypatch, seen):
    """Let every recogniser see what a test says."""
    monkeypatch.setattr("ksame.methods.shift.margin.embed", seen)


def nobody_is_alike(monkeypatch):
    """Let every recogniser see everything as unlike everything as anything else."""
    numbers = itertools.count()
    fake_embed(monkeypatch, lambda name, rgb, points: 9.0 * np.eye(1, 500, next(numbers)))


def test_everybody_gets_another_face_or_none(monkeypatch):
    nobody_is_alike(monkeypatch)
    made = choose_identities(
        drawn.model(), [[view] for view in people()], pool(), nearest_count=1, recognisers=["sface"]
    )
    assert all(one is not None for one in made)
    codes = {one.shift.tobytes() for one in made if one is not None}
    assert len(codes) == 3


def test_whom_every_face_gives_away_gets_none(monkeypatch):
    fake_embed(monkeypatch, lambda name, rgb, points: np.zeros((1, 4)))
    views = [[people()[0]]]
    assert choose_identities(
        drawn.model(), views, pool(), nearest_count=1, recognisers=["sface"], tries=3
    ) == [None]
    assert choose_identities(drawn.model(), views, pool(2), recognisers=["sface"]) == [None]


def test_whom_no_face_hides_by_far_gets_one_that_hides_enough(monkeypatch):
    # the old face, then three trials, all within 1.15 x 1.02, then the best of them once more
    answers = iter([0.0, 1.1, 1.05, 1.03, 1.1])
    fake_embed(monkeypatch, lambda name, rgb, points: np.array([[next(answers)]]))
    made = choose_identities(
        drawn.model(), [[people()[0]]], pool(), nearest_count=1, recognisers=["sface"], tries=3
    )
    assert made[0] is not None
    assert next(answers, None) is None  # what cannot be the best is not looked at again


def test_another_pool_face_is_taken_when_one_is_too_near(monkeypatch):
    answers = iter([0.0, 0.5, 0.7, 9.0])  # the old face, then three trials
    fake_embed(monkeypatch, lambda name, rgb, points: np.array([[next(answers)]]))
    made = choose_identities(drawn.model(), [[people()[0]]], pool(), nearest_count=1, recognisers=["sface"])
    third = nearest_first(people()[0], pool())[2]
    assert made[0] is not None
    np.testing.assert_allclose(made[0].shift, pool().shifts[third])
    assert next(answers, None) is None


@pytest.mark.parametrize("judge", ["sface", "mobilefacenet", "dlib", "facenet"])
def test_every_judge_has_a_veto(judge, monkeypatch):
    """The first two pool faces are the old one to one judge, and better than the third to the others."""
    asked = []

    def seen(name, rgb, points):
        asked.append(name)
        known = name == judge and asked.count(name) <= 3  # the old face comes first
        return np.array([[0.0]]) if known else np.array([[1e3 / asked.count(name)]])

    fake_embed(monkeypatch, seen)
    names = ["sface", "mobilefacenet", "dlib", "facenet"]
    (made,) = choose_identities(drawn.model(), [[people()[0]]], pool(), nearest_count=1, recognisers=names)
    third = nearest_first(people()[0], pool())[2]
    assert made is not None
    np.testing.assert_allclose(made.shift, pool().shifts[third])


def test_faces_that_are_least_like_somebody_are_tried_first():
    n = len(pool())
    far = np.arange(n, dtype=float)[:, None]
    male = np.where(np.arange(n) % 2, 1.0, -1.0)
    labels = np.column_stack([male, np.zeros((n, 2))])
    faces = replace(pool(), labels=labels, seen={"sface": 10 + far, "dlib": 10 - far})
    turns = likeness.dissimilarity_tiers(
        {"sface": np.zeros((2, 1))}, faces
    )  # what dlib makes of the person is not known
    for gender in (-1, 1):
        own = turns[male == gender]
        assert own.tolist() == sorted(own, reverse=True)
        for turn, share in enumerate(likeness.DISSIMILAR_POOL_SHARES):
            assert (own <= turn).mean() == pytest.approx(share, abs=1.5 / len(own))
    unknown = likeness.dissimilarity_tiers({"sface": np.zeros((2, 1))}, pool())
    assert not unknown.any(), "nobody looked at these"


@pytest.mark.parametrize("count", [1, 3])
def test_whose_turn_it_is_comes_first_and_everybody_gets_a_face(count, monkeypatch):
    """Two faces are to come first: three people get them and one more."""
    nobody_is_alike(monkeypatch)
    n = len(pool())
    first = np.full(n, len(likeness.DISSIMILAR_POOL_SHARES))
    first[[4, 7]] = 0
    monkeypatch.setattr(choose, "dissimilarity_tiers", lambda old, pool: first)
    made = choose_identities(
        drawn.model(), [[view] for view in people(count)], pool(), recognisers=["sface"], tries=1
    )
    rows = {int(np.abs(pool().shifts - one.shift).sum(axis=1).argmin()) for one in made}
    assert len(rows) == count
    assert count > 1 or rows < {4, 7}


def test_a_head_that_shakes_is_followed_and_its_play_is_smoothed():
    """Place, size and roll are the frame's own; what features do besides is as calm as it was."""
    model = drawn.model()
    rng = np.random.default_rng(3)
    calmed, code = rng.normal(size=(2, len(encode_frame(model, people()[0]))))
    placed = frame_code.reanchor(calmed, code, model)
    away = slice(936)
    np.testing.assert_array_equal(np.delete(placed, np.r_[away]), np.delete(calmed, np.r_[away]))

    def rigid(one):
        moved = model.shape + one[away].reshape(-1, 2)
        return transform(similarity(model.shape, moved), model.shape) - model.shape

    np.testing.assert_allclose(rigid(placed), rigid(code), atol=1e-9)
    play = [one[away].reshape(-1, 2) - rigid(one) for one in (placed, calmed)]
    np.testing.assert_allclose(play[0], play[1], atol=1e-9)
    still = frame_code.reanchor(code, code, model)
    np.testing.assert_allclose(still, code)


def test_views_are_spread_over_time_and_cut_out(monkeypatch):
    view = people()[0]
    large = cv2.resize(view.rgb, None, fx=3, fy=3)
    mesh = (view.points + 0.5) * 3 - 0.5
    wanted = []

    def picked(path, only, count):
        wanted.extend(sorted(only))
        return (SimpleNamespace(index=i, rgb=large) for i in wanted)

    monkeypatch.setattr("ksame.io.read_frames_at", picked)
    box = np.concatenate([mesh.min(axis=0), mesh.max(axis=0)])
    tracks = [
        Track(
            0,
            np.tile(box, (40, 1)),
            np.full(40, "seen"),
            np.tile(pack_meshes(mesh, box), (40, 1, 1)),
            person=who,
        )
        for who in ("a", "b")
    ]
    found = sample_views([("clip", 40, [tracks[0], replace(tracks[1], keep=True)])], max_count=3)
    assert wanted == [0, 20, 39]
    assert list(found) == ["a"] and len(found["a"]) == 3, "who stays visible is not looked at"
    small = found["a"][0]
    assert np.ptp(small.points, axis=0).max() == pytest.approx(192, abs=1)
    model = drawn.model()
    # it is the same face, smaller
    codes = [frame_code.appearance_code(model, one) for one in (view, small)]
    assert np.abs(codes[0] - codes[1]).max() < 0.2 * model.deviation[0]


@pytest.mark.parametrize(("score", "place"), [(0.95, 1), (0.6, 1), (0.4, 0), (0.05, 0)])
def test_a_man_gets_a_mans_face_and_who_is_unsure_any(monkeypatch, score, place):
    """The nearest pool face is a woman's, the others are men's."""
    nobody_is_alike(monkeypatch)
    monkeypatch.setattr(
        "ksame.methods.shift.likeness.attribute_models.predict_gender_score",
        lambda rgb, points: np.full(len(rgb), score),
    )
    monkeypatch.setattr("ksame.methods.shift.likeness.weight_files.cached", lambda name: name == "gender")
    order = nearest_first(people()[0], pool())
    labels = np.ones((len(pool()), 3))
    labels[order[0]] = -1
    faces = replace(pool(), labels=labels)
    (made,) = choose_identities(drawn.model(), [[people()[0]]], faces, nearest_count=1, recognisers=["sface"])
    assert made is not None
    np.testing.assert_allclose(made.shift, pool().shifts[order[place]])


@pytest.mark.parametrize(("years", "old", "place"), [(70, 3, 0), (25, 3, 3), (25, 12, 0)])
def test_who_is_young_gets_a_young_face_if_there_is_one(monkeypatch, years, old, place):
    """The nearest pool faces are old, the others young."""
    nobody_is_alike(monkeypatch)
    monkeypatch.setattr(
        "ksame.methods.shift.likeness.attribute_models.predict_age",
        lambda rgb, points: np.full(len(rgb), years),
    )
    monkeypatch.setattr("ksame.methods.shift.likeness.weight_files.cached", lambda name: name == "age")
    order = nearest_first(people()[0], pool())
    labels = np.ones((len(pool()), 3))
    labels[order[:old], 1] = -1
    faces = replace(pool(), labels=labels)
    (made,) = choose_identities(drawn.model(), [[people()[0]]], faces, nearest_count=1, recognisers=["sface"])
    assert made is not None
    np.testing.assert_allclose(made.shift, pool().shifts[order[place]])


@pytest.mark.parametrize("tries, place", [(6, 1), (1, 0)])
def test_a_face_with_which_a_man_looks_like_a_woman_is_a_last_resort(monkeypatch, tries, place):
    nobody_is_alike(monkeypatch)
    answers = iter([0.95, 0.2])  # the man himself, then with the nearest face on

    def male(rgb, points):
        return np.full(len(rgb), next(answers, 0.9))

    monkeypatch.setattr("ksame.methods.shift.likeness.attribute_models.predict_gender_score", male)
    monkeypatch.setattr("ksame.methods.shift.likeness.weight_files.cached", lambda name: name == "gender")
    faces = replace(pool(), labels=np.ones((len(pool()), 3)))
    (made,) = choose_identities(
        drawn.model(), [[people()[0]]], faces, nearest_count=1, recognisers=["sface"], tries=tries
    )
    assert made is not None
    np.testing.assert_allclose(made.shift, pool().shifts[nearest_first(people()[0], pool())[place]])


def test_where_all_faces_are_odd_one_of_them_is_taken(monkeypatch):
    nobody_is_alike(monkeypatch)
    answers = iter([0.95])
    monkeypatch.setattr(
        "ksame.methods.shift.likeness.attribute_models.predict_gender_score",
        lambda rgb, points: np.full(len(rgb), next(answers, 0.2)),
    )
    monkeypatch.setattr("ksame.methods.shift.likeness.weight_files.cached", lambda name: name == "gender")
    whole = pool()
    few = replace(whole, codes=whole.codes[:2], deidentified=whole.deidentified[:2], labels=whole.labels[:2])
    (made,) = choose_identities(
        drawn.model(), [[people()[0]]], few, nearest_count=1, recognisers=["sface"], tries=8
    )
    assert made is not None


def test_a_new_face_is_looked_for_among_those_as_light_as_the_lightest_view():
    model, view = drawn.model(), people()[0]
    bright, dim = (
        frame_code.appearance_code(model, FaceView(rgb, view.points)) for rgb in (view.rgb, view.rgb // 2)
    )
    unknown = [np.full(2, np.nan)]
    (both,), theirs = likeness.with_attribute_codes([[dim, bright]], unknown, pool(), model)
    (light,), (dark,) = (
        likeness.with_attribute_codes([[code]], unknown, pool(), model)[0] for code in (bright, dim)
    )
    assert both[-1] == light[-1] > dark[-1]
    assert not theirs[:, -3:-1].any(), "what is not known of somebody does not count"
    grey = [np.clip(model.decode(code[None]).mean(), 0, 255) for code in pool().codes]
    assert np.corrcoef(theirs[:, -1], grey)[0, 1] > 0.9


def test_where_there_are_no_more_women_a_man_will_do(monkeypatch):
    nobody_is_alike(monkeypatch)
    monkeypatch.setattr(
        "ksame.methods.shift.likeness.attribute_models.predict_gender_score",
        lambda rgb, points: np.zeros(len(rgb)),
    )
    monkeypatch.setattr("ksame.methods.shift.likeness.weight_files.cached", lambda name: name == "gender")
    labels = np.ones((len(pool()), 3))
    labels[:2, 0] = -1
    faces = replace(pool(), labels=labels)
    made = choose_identities(
        drawn.model(), [[view] for view in people()], faces, nearest_count=1, recognisers=["sface"]
    )
    rows = {int(np.abs(faces.shifts - one.shift).sum(axis=1).argmin()) for one in made}
    assert len(rows) == 3 and {0, 1} < rows


def test_anybody_may_get_one_of_the_nearest_faces(monkeypatch):
    nobody_is_alike(monkeypatch)
    order, rows = nearest_first(people()[0], pool()), set()
    for seed in range(12):
        (made,) = choose_identities(
            drawn.model(), [[people()[0]]], pool(), nearest_count=3, recognisers=["sface"], rng=seed
        )
        rows.add(int(np.abs(pool().shifts - made.shift).sum(axis=1).argmin()))
    assert rows == set(order[:3].tolist())


def test_who_hides_enough_but_not_well_is_not_covered(monkeypatch):
    """The first judges see 2.0, the last only 1.1 of its distance, for every pool face."""

    def seen(name, rgb, points):
        new = not any(rgb is view.rgb for view in people())
        return np.array([[(2.2 if name != "dlib" else 0.53) * new]])

    fake_embed(monkeypatch, seen)
    names = ["sface", "mobilefacenet", "facenet", "dlib"]
    (made,) = choose_identities(drawn.model(), [[people()[0]]], pool(), recognisers=names, tries=2)
    assert made is not None


@pytest.mark.parametrize(
    ("views", "near", "kept"),
    [
        (16, {}, True),
        (16, {3: 1.1}, True),
        (16, {3: 1.1, 9: 1.12}, False),
        (16, {3: 0.98}, False),
        (15, {3: 1.1}, False),
        (33, {3: 1.1, 9: 1.12}, True),
        (1, {0: 1.1}, False),
    ],
)
def test_of_many_views_one_may_hide_less(monkeypatch, views, near, kept):
    far = np.full(views, 1.3)
    far[list(near)] = list(near.values())
    monkeypatch.setattr(candidates, "embed_view", lambda name, number: np.array([[1.02 * far[number - 1]]]))
    given = SimpleNamespace(
        people=[range(views)],
        old=[{"sface": np.zeros((1, 1))}],
        verifiers=["sface"],
        draw_view=lambda i, mask, view: view + 1,
    )
    order = candidates.verification_order(given.verifiers, views)
    seen, apart = candidates.verify_candidate(given, 0, None, [], 2.0, order)
    scaled = {view: 1 + (one - 1) / 0.15 for view, one in near.items()}
    if kept:
        assert len(seen["sface"]) == views - len(near), "what is nearer is no part of what is compared"
        assert apart == pytest.approx(3)
    else:
        assert not seen and apart == pytest.approx(max(scaled.values())), "it is no better than this"
    assert {view for _, view in order[: len(near)]} == set(near), "they are the first to be looked at next"
    assert sorted(order) == sorted(candidates.verification_order(given.verifiers, views))


def test_two_new_faces_may_be_a_little_alike(monkeypatch):
    """Far from all old faces, and from one another 0.95 of what recognisers take for one person."""
    new = iter([5.0, 5.0 + 0.95 * 1.02] * 20)

    def seen(name, rgb, points):
        old = any(rgb is view.rgb for view in people(2))
        return np.array([[0.0 if old else next(new)]])

    fake_embed(monkeypatch, seen)
    made = choose_identities(
        drawn.model(), [[view] for view in people(2)], pool(), recognisers=["sface"], tries=1
    )
    assert all(one is not None for one in made)


def test_a_face_with_a_picture_is_worn_as_it_is():
    model, faces, view = drawn.model(), portraits(), people()[0]
    codes = faces.codes[3], faces.deidentified[3]
    worn = FaceOverlay.of(model, [view], *codes, image=faces.image(3))
    gamma = frame_code.appearance_code(model, view)
    np.testing.assert_allclose(worn.shift, np.where(model.nuisance, 0, faces.codes[3] - gamma))
    face = worn.base[0]
    np.testing.assert_allclose(
        worn.skin, frame_code.mean_skin_colour(frame_code.skin_colours(encode_frame(model, view)))
    )
    middle = face[face.shape[0] // 2, face.shape[1] // 2]
    assert np.abs(middle - worn.skin).max() < 25  # its skin has the person's colour
    whole = FaceOverlay.of(model, [view], gamma, codes[1])  # the same shift, drawn by the model
    np.testing.assert_allclose(worn.move, SHAPE_SHARE * whole.move, atol=0.2)
    new = worn.draw(view.rgb, view.points, encode_frame(model, view))
    assert (new != view.rgb).any() and new.shape == view.rgb.shape


def test_a_worn_face_may_have_its_whole_form_above_the_lips():
    """Eyes move together with their brows, and the mouth as a whole: points away from both show it."""
    model, faces, view = drawn.model(), portraits(), people()[0]
    codes = faces.codes[3], faces.deidentified[3]
    part, more = (
        FaceOverlay.of(model, [view], *codes, image=faces.image(3), **how) for how in ({}, {"upper": 1.0})
    )
    lips = model.shape[MOUTH_POINTS, 1].min()
    above, below = model.shape[:, 1] < lips - 12, model.shape[:, 1] > lips + 12
    away = np.linalg.norm(model.shape[:, None] - model.shape[MOUTH_POINTS], axis=2).min(axis=1) > 25
    np.testing.assert_allclose(more.move[above & away], part.move[above & away] / SHAPE_SHARE, atol=0.3)
    np.testing.assert_allclose(more.move[below], part.move[below], atol=0.3)


@pytest.mark.parametrize(("times", "afar"), [(1.0, False), (0.3, True)])
def test_from_afar_a_face_has_its_whole_form_and_is_judged_as_it_is_found(times, afar, monkeypatch):
    view = people()[0]
    rgb = cv2.resize(view.rgb, None, fx=times, fy=times, interpolation=cv2.INTER_AREA)
    shapes, looked, wanted = [], [], []
    whole, tried = FaceOverlay.of, candidates.verify_candidate

    def of(*some, upper, **how):
        shapes.append(upper)
        return whole(*some, upper=upper, **how)

    monkeypatch.setattr(candidates.FaceOverlay, "of", of)
    monkeypatch.setattr(
        candidates, "find_mesh_in_box", lambda rgb, mesh, box: looked.append(box) or (mesh + 1, 0.9)
    )
    monkeypatch.setattr(candidates, "verify_candidate", lambda *some: wanted.append(some[4]) or tried(*some))
    new = iter([0.0, *[9.0] * 50])
    fake_embed(monkeypatch, lambda name, rgb, points: np.array([[next(new)]]))
    small = FaceView(rgb, view.points * times)
    assert choose_identities(drawn.model(), [[small]], pool(), recognisers=["sface"], tries=1)[0] is not None
    assert set(shapes) == {1.0 if afar else SHAPE_SHARE}
    assert bool(looked) is afar
    eyes = float(frame_code.eye_distance_and_turn(small.points)[0])
    assert wanted[0] == pytest.approx(
        2 + candidates.SMALL_FACE_EXTRA_MARGIN * max(0, 1 - eyes / frame_code.SMALL_FACE_EYE_DISTANCE_PX)
    )


@quick
@given(arrays(np.uint8, (6, 5, 3)), arrays(float, (2, 2), elements=st.floats(0, 1)))
def test_another_skin_leaves_black_and_grey_and_keeps_the_order_of_light(face, colours):
    skin, wanted = (60 + 100 * light + red * np.array([60, 20, 0]) + (20, 5, 0) for light, red in colours)
    face[0, :4] = [(0, 0, 0), skin, (120, 120, 120), (60, 60, 60)]
    new = match_skin(face, skin, wanted)
    assert np.abs(new[0, 0]).max() < 1 and np.ptp(new[0, 2:4], axis=1).max() < 2
    (old, *_), (goal, *hue), (got, *tone) = _lab(skin), _lab(wanted), _lab(new[0, 1])
    assert got == pytest.approx(np.clip(goal, old - 15, old + 15), abs=1)
    if abs(goal - old) < 15:  # or the colour does not exist in that light
        np.testing.assert_allclose(tone, hue, atol=2)
    before, after = (_lab(x.reshape(-1, 3))[:, 0] for x in (face, new))
    order = np.argsort(before, kind="stable")
    grey = np.ptp(face.reshape(-1, 3), axis=1) == 0  # of colours light may be cut off with their tone
    assert (np.diff(after[order][grey[order]]) > -0.5).all()


def _lab(rgb):
    return cv2.cvtColor(np.float32(rgb).reshape(-1, 1, 3) / 255, cv2.COLOR_RGB2LAB).reshape(np.shape(rgb))


def test_a_patch_of_hair_or_ground_is_no_light():
    """A forehead under a fringe, a third as light as the cheeks, makes the new one little darker."""
    model, view, new_face = drawn.model(), people()[0], mask()
    fringe = view.rgb.copy()
    top, brow = view.points[[10, 9], 1].astype(int)
    fringe[top - 10 : brow] //= 3
    plain, under = (
        new_face.relight(encode_frame(model, FaceView(rgb, view.points))) for rgb in (view.rgb, fringe)
    )
    high, wide = plain.shape[:2]
    part = slice(int(0.28 * high), int(0.33 * high)), slice(int(0.45 * wide), int(0.55 * wide))
    assert under[part].mean() > 0.75 * plain[part].mean()


@quick
@given(st.floats(0.6, 3.5), st.floats(0.5, 2))
def test_a_new_face_is_no_sharper_than_the_frame(sigma, light):
    """A face in a frame out of focus is as soft as the frame, whatever the light."""
    face, shape = drawn.photos(1, seed=4)
    sharp = face[0].astype(np.float32)
    soft = light * cv2.GaussianBlur(sharp, (0, 0), sigma)
    wanted = frame_code.measure_sharpness(soft.mean(axis=2), shape[0])
    assert wanted < frame_code.measure_sharpness(sharp.mean(axis=2), shape[0])
    new = match_sharpness(sharp, shape[0], wanted)
    found = frame_code.measure_sharpness(new.mean(axis=2), shape[0])
    assert 0.5 * wanted < found < 1.6 * wanted + 0.005  # between two steps the mean of both is taken
    np.testing.assert_array_equal(match_sharpness(soft, shape[0], 9.0), soft)  # and never sharper than it was


def test_nothing_is_sharp_where_there_is_next_to_nothing():
    assert frame_code.measure_sharpness(np.full((9, 9), 7, np.uint8), np.zeros((MESH, 2))) == 0


# brows


HAIRS = [*BROWS[0], *BROWS[1]]


def lower_brows(monkeypatch, by, *, less=0.0):
    """Let the closer look see brows lower than they are drawn, in pixels of the model's frame.

    What reads expressions reads them ``less`` raised on whatever is drawn, twice: raised, and not lowered.
    """
    own = [view.rgb for view in people()]

    def see(rgb, mesh, *, views):
        upright = align(mesh[None], drawn.model().shape)[0]
        upright[HAIRS, 1] += by
        return upright

    def read(rgb, meshes, *, views):
        names = np.array([("Up" in name) - ("Down" in name) for name in BLENDSHAPES]) / 2
        return 0.5 - (0 if any(rgb is one for one in own) else less) * names[None]

    monkeypatch.setattr("ksame.render.overlay.brows.refine_landmarks", see)
    monkeypatch.setattr("ksame.render.overlay.brows.predict_blendshapes", read)
    # for it alone: others would look for the file
    monkeypatch.setattr("ksame.render.overlay.brows.weights", SimpleNamespace(cached=lambda name: True))


@pytest.mark.parametrize(
    ("by", "less", "most"),
    [(3.0, 0.0, 0), (-2.0, 0.0, 0), (0.0, 0.06, 1.5), (0.0, -0.9, -2.5), (2.0, 0.04, 1)],
)
def test_brows_that_are_seen_too_low_or_read_too_low_are_drawn_higher(monkeypatch, by, less, most):
    model, view = drawn.model(), people()[0]
    codes = [encode_frame(model, view)]
    mask = replace(FaceOverlay.of(model, [view], *pool().codes[:2]), move=np.zeros((468, 2)))
    lower_brows(monkeypatch, by, less=less)
    moved = brows.adjust_brows(mask, [view], codes, texture="code").move
    np.testing.assert_allclose(moved[HAIRS, 1], -by / brows.BROW_MOVE_SHARE - most, atol=0.2)
    assert not moved[EYE_POINTS].any() and not moved[:, 0].any()
    far = np.linalg.norm(mask.own[:, None] - mask.own[HAIRS], axis=2).min(axis=1) > 30
    assert far.any() and np.abs(moved[far]).max() < 1e-4


def test_brows_of_small_faces_are_left_where_they_are(monkeypatch):
    model, view = drawn.model(), people()[0]
    mask = FaceOverlay.of(model, [view], *pool().codes[:2])
    lower_brows(monkeypatch, 3.0)
    small = FaceView(view.rgb, view.points / 20)
    assert brows.adjust_brows(mask, [small], [encode_frame(model, small)], texture="code") is mask


def test_of_faces_that_hide_one_whose_brows_are_read_as_the_persons_is_taken():
    def trial(row, apart, settled):
        seen = {"sface": np.full((1, 4), 10.0 * row)}
        return candidates.Candidate(0, row, np.zeros((468, 2)), seen, apart, settled)

    old = [{"sface": np.full((1, 4), -10.0)}]
    some = [trial(1, 2.6, False), trial(2, 2.1, True), trial(3, 2.2, True)]
    assert choose._assign_distinct({0: some}, old, {}, preferred_margin=2.0)[0].row == 3
    assert choose._assign_distinct({0: some[:1]}, old, {}, preferred_margin=2.0)[0].row == 1
    assert choose._assign_distinct({0: some}, old, {}, preferred_margin=2.3)[0].row == 1, (
        "margin before brows"
    )


@pytest.mark.parametrize(("first", "tried"), [(1, 3), (5, 5), (99, candidates.TRIALS_PER_SHARE)])
def test_a_few_more_faces_are_tried_where_brows_are_refused(monkeypatch, first, tried):
    """From the ``first`` face on brows can be settled; all hide, and three are tried in any case."""
    rows = itertools.count()
    given = SimpleNamespace(
        people=[[None]],
        small_face=[0.0],
        verifiers=["sface"],
        nearest_rows=lambda left, used: np.array([next(rows)]),
        overlay=lambda i, row: SimpleNamespace(move=np.zeros((468, 2)), row=row, settled=False),
        adjust_brows=lambda i, mask: SimpleNamespace(move=mask.move, row=mask.row, settled=True),
        keeps_gender=lambda i, mask: True,
    )

    def hidden(given, i, mask, theirs, least, order):
        known = {"sface": np.zeros((1, 4))}
        return (known, 2.5) if not mask.settled or mask.row + 1 >= first else ({}, 1.0)

    monkeypatch.setattr(candidates, "verify_candidate", hidden)
    used = np.zeros((1, 40), bool)
    named = candidates.search_candidates(given, [0], np.zeros((1, 40), np.intp), {}, used, 2.0, 24)
    assert len(named[0]) == next(rows) == tried
    assert any(one.brows_adjusted for one in named[0]) is (first <= tried)


def test_who_has_one_face_to_choose_from_chooses_before_who_has_three():
    """Both could have the first one, and it is the best for who has three; somebody else has the last."""

    def trial(person, row, apart):
        seen = {"sface": np.full((1, 4), 10.0 * row)}
        return candidates.Candidate(person, row, np.zeros((468, 2)), seen, apart)

    old = [{"sface": np.full((1, 4), -10.0 - person)} for person in range(3)]
    named = {0: [trial(0, 1, 2.4), trial(0, 2, 2.1), trial(0, 3, 2.3)], 1: [trial(1, 1, 2.2)]}
    taken = choose._assign_distinct(named, old, {2: trial(2, 3, 2.0)}, preferred_margin=2.0)
    assert {i: one.row for i, one in taken.items()} == {0: 2, 1: 1}


def test_brows_are_settled_only_where_that_hides_as_well(monkeypatch):
    """Of two faces the first hides with either brows, the second only with its own."""
    monkeypatch.setattr(
        candidates, "adjust_brows", lambda mask, *some, texture: replace(mask, move=mask.move + 1)
    )
    for settled, moved in ((9.0, True), (1.0, False)):
        answers = iter([0.0, 9.0, settled])  # the old face, the new one, and the new one with other brows
        fake_embed(monkeypatch, lambda name, rgb, points, say=answers: np.array([[next(say)]]))
        made = choose_identities(
            drawn.model(), [[people()[0]]], pool(), nearest_count=1, recognisers=["sface"], tries=1
        )
        assert made[0] is not None
        row = nearest_first(people()[0], pool())[0]
        own = FaceOverlay.of(drawn.model(), [people()[0]], pool().codes[row], pool().deidentified[row]).move
        np.testing.assert_allclose(made[0].move - own, float(moved), atol=1e-9)


@pytest.mark.parametrize("texture", ["code", "pixel"])
@pytest.mark.parametrize("away", [(0, 0), (-70, 0), (60, 90), (5000, 5000)])
def test_a_face_drawn_into_a_frame_is_that_of_its_copy_and_nothing_else_is_new(away, texture):
    view = people()[0]
    code, points = encode_frame(drawn.model(), view), view.points + away
    expected, frame = mask().draw(view.rgb, points, code, texture=texture), view.rgb.copy()
    rest = np.ones(frame.shape[:2], bool)
    for left, top, right, bottom in mask().draw_on(frame, points, code, texture=texture):
        assert 0 <= left < right <= frame.shape[1] and 0 <= top < bottom <= frame.shape[0]
        rest[top:bottom, left:right] = False
    np.testing.assert_array_equal(frame, expected)
    np.testing.assert_array_equal(frame[rest], view.rgb[rest])
    assert (frame == view.rgb).all() == (away == (5000, 5000))


def test_a_new_face_on_a_grey_view_is_judged_in_grey(monkeypatch):
    judged = []
    monkeypatch.setattr(
        candidates, "embed_view", lambda name, view: judged.append(view.rgb) or np.full((1, 1), 99.0)
    )
    monkeypatch.setattr(choose, "embed_views", lambda views, name: np.zeros((len(views), 1)))
    view = people()[0]
    for rgb, grey in ((tone.to_grey(view.rgb), True), (view.rgb, False)):
        judged.clear()
        choose_identities(drawn.model(), [[FaceView(rgb, view.points)]], pool(), recognisers=["sface"], rng=0)
        assert judged and all((one == one[..., :1]).all() == grey for one in judged)
