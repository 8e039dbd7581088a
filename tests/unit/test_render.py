"""Surrogates, portraits and scenes on drawn faces and plain colours."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from ksame.core.geometry import (
    BACKGROUND_GREY,
    FRAME,
    INNER_LIPS,
    LEFT_EYE,
    MESH,
    OVAL,
    Raster,
    transform,
    with_ring,
)
from ksame.render.blend import COMPOSITES, blend_scene
from ksame.render.cover import cover_faces, cover_in_place
from ksame.render.mean_face import MIN_MEMBER_WEIGHT, apply_variation, draw_mean_face
from ksame.render.portrait import Surrogate, draw_portrait, fade_mask
from ksame.spaces.appearance import landmarks_on_frame

GREEN, MAGENTA, GREY = (40, 160, 60), (230, 20, 220), (120, 110, 100)


def triangles():
    return drawn.model().ring_triangles


def shape(scale=1.0):
    """The mean face with its ring, on the frame."""
    return with_ring(drawn.model().shape) * scale


def covered(scale=1.0):
    size = FRAME.size(scale)
    return Raster.of(shape(scale), triangles(), *size).covered


def flat(colour, scale=1.0):
    width, height = FRAME.size(scale)
    return np.full((height, width, 3), colour, np.uint8)


def hull(points, height, width):
    mask = np.zeros((height, width), np.uint8)
    cv2.fillConvexPoly(mask, cv2.convexHull(points.round().astype(np.int32)), 1)
    return mask > 0


def mean_of(images, shapes=None, shares=None):
    n = len(images)
    shapes = np.tile(shape(), (n, 1, 1)) if shapes is None else shapes
    return draw_mean_face(
        np.stack(images), shapes, np.full(n, 1 / n) if shares is None else shares, triangles()
    )


# surrogates


@pytest.mark.parametrize("n", [2, 5])
def test_the_surrogate_of_equal_pictures_is_that_picture(n):
    face = drawn.people(1, scale=1.0)
    shapes = np.tile(with_ring(landmarks_on_frame(face)), (n, 1, 1))
    new = draw_mean_face(face.rgb.repeat(n, axis=0), shapes, np.full(n, 1 / n), triangles())
    np.testing.assert_allclose(new.shape, shapes[0], atol=1e-9)
    inside = Raster.of(shapes[0], triangles(), 256, 320).covered
    assert inside.sum() > 30_000
    np.testing.assert_array_equal(new.rgb[inside], face.rgb[0, inside])
    assert not new.rgb[~inside].any()


def test_a_surrogate_has_the_mean_shape_and_the_mean_colour():
    rng = np.random.default_rng(0)
    shapes = shape() + rng.normal(size=(2, 1, 2)) * 6  # moved as a whole: one face on another's place
    new = mean_of([flat((100, 60, 20)), flat((140, 80, 40))], shapes, np.array([0.25, 0.75]))
    np.testing.assert_allclose(new.shape, 0.25 * shapes[0] + 0.75 * shapes[1])
    inside = Raster.of(new.shape, triangles(), 256, 320).covered
    assert np.abs(new.rgb[inside].astype(int) - (130, 75, 35)).max() <= 1


def test_the_surrogate_does_not_depend_on_the_order_of_its_members():
    faces = drawn.people(4, scale=0.5)
    shapes = with_ring(landmarks_on_frame(faces))
    one = draw_mean_face(faces.rgb, shapes, np.full(4, 0.25), triangles())
    other = draw_mean_face(faces.rgb[::-1], shapes[::-1], np.full(4, 0.25), triangles())
    assert np.abs(one.rgb.astype(int) - other.rgb).max() <= 1


def test_what_only_one_member_has_leaves_less_than_its_share():
    """A dark bar over the eyes of one of five: less than a fifth of it is seen, and never nothing."""
    face = drawn.people(1, scale=1.0)
    rgb = face.rgb.repeat(5, axis=0).copy()
    rgb[2, 120:150] = 0
    new = draw_mean_face(
        rgb, np.tile(with_ring(landmarks_on_frame(face)), (5, 1, 1)), np.full(5, 0.2), triangles()
    )
    bar = np.zeros((320, 256), bool)
    bar[128:142] = Raster.of(with_ring(landmarks_on_frame(face))[0], triangles(), 256, 320).covered[128:142]
    light = face.rgb[0, bar].astype(float)
    darker = (light - new.rgb[bar]).sum() / light.sum()
    assert 0.04 < darker < 0.12  # 1/4 against 4: 1/17


def test_no_member_counts_for_more_than_four_times_another():
    """Nowhere, however unlike the members are: no part of a surrogate is one person's."""
    values = np.array([0, 90, 120, 150, 255])
    shapes = np.stack([opened(INNER_LIPS, share) for share in (3.0, 0.05, 0.05, 0.05, 0.05)])
    new = mean_of([flat((value,) * 3) for value in values], shapes)
    inside = Raster.of(new.shape, triangles(), 256, 320).covered
    least = np.average(
        values, weights=[1, MIN_MEMBER_WEIGHT, MIN_MEMBER_WEIGHT, MIN_MEMBER_WEIGHT, MIN_MEMBER_WEIGHT]
    )
    most = np.average(
        values, weights=[MIN_MEMBER_WEIGHT, MIN_MEMBER_WEIGHT, MIN_MEMBER_WEIGHT, MIN_MEMBER_WEIGHT, 1]
    )
    assert new.rgb[inside].min() >= int(least)
    assert new.rgb[inside].max() <= int(most) + 1


def opened(ring, share):
    """The mean face with a ring of landmarks opened or closed in the vertical."""
    points = drawn.model().shape.copy()
    middle = points[list(ring), 1].mean()
    points[list(ring), 1] = middle + share * (points[list(ring), 1] - middle)
    return with_ring(points)


@pytest.mark.parametrize("ring", [INNER_LIPS, LEFT_EYE])
def test_inside_mouth_and_eyes_those_count_who_have_them_open(ring):
    shapes = np.stack([opened(ring, 3.0), opened(ring, 0.05)])
    new = mean_of([flat((200,) * 3), flat((100,) * 3)], shapes)
    x, y = new.shape[list(ring)].mean(axis=0).round().astype(int)
    assert 175 <= new.rgb[y, x, 0] <= 180  # of the open one, but no more than four fifths
    assert abs(int(new.rgb[y + 45, x, 0]) - 150) <= 2  # the rest is the mean


def test_another_landmark_scheme_has_neither_lips_nor_lids():
    faces = drawn.sixty_eight(3, scale=1.0)
    from scipy.spatial import Delaunay

    mesh = Delaunay(faces.points[0]).simplices
    images = np.stack([flat((value,) * 3) for value in (90, 120, 150)])
    new = draw_mean_face(images, faces.points[[0, 0, 0]], np.full(3, 1 / 3), mesh)
    inside = Raster.of(faces.points[0], mesh, 256, 320).covered
    assert np.ptp(new.rgb[inside]) == 0
    assert (draw_portrait(new)[0, 0] == BACKGROUND_GREY).all()


def test_a_face_varied_by_nothing_is_itself():
    face = Surrogate(drawn.people(1, scale=1.0).rgb[0], shape())
    nothing = np.zeros((120, 96, 3), np.float32)
    same = apply_variation(face, shape(), nothing, shape(0.375), triangles())
    np.testing.assert_array_equal(same.rgb[covered()], face.rgb[covered()])


def test_a_face_varied_by_a_colour_and_a_place():
    face = Surrogate(flat(GREY), shape())
    change = np.full((120, 96, 3), (10, -200, 200), np.float32)
    new = apply_variation(face, shape() + 5, change, shape(0.375), triangles())
    inside = Raster.of(new.shape, triangles(), 256, 320).covered
    assert np.unique(new.rgb[inside], axis=0).tolist() == [[130, 0, 255]]  # clipped, not wrapped


# portraits


def test_a_portrait_is_a_face_on_a_plain_ground():
    face = Surrogate(flat(GREY), shape())
    image = draw_portrait(face)
    outside = ~hull(shape()[list(OVAL)], 320, 256)
    assert np.abs(image[outside].astype(int) - BACKGROUND_GREY).max() <= 3
    assert (image[0] == BACKGROUND_GREY).all()
    x, y = shape()[list(OVAL)].mean(axis=0).round().astype(int)
    assert image[y, x].tolist() == list(GREY)


def test_a_portrait_shows_nothing_from_outside_the_outline():
    """It is a function of the face alone: whatever lies around it, the bytes are the same."""
    one, other = flat(GREY), flat(GREY)
    around = cv2.dilate(hull(shape()[list(OVAL)], 320, 256).astype(np.uint8), np.ones((3, 3), np.uint8))
    other[around == 0] = 255
    np.testing.assert_array_equal(
        draw_portrait(Surrogate(one, shape())), draw_portrait(Surrogate(other, shape()))
    )


@given(st.floats(0, 30), st.floats(0, 20), st.floats(20, 75))
@settings(max_examples=30)
def test_a_fade_rises_inwards_from_nothing_to_all(edge, inset, radius):
    turn = np.linspace(0, 2 * np.pi, 40)
    ring = 100 + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    alpha = fade_mask(ring, 200, 200, edge=edge, inset=inset)
    assert alpha.min() >= 0
    assert alpha.max() <= 1 + 1e-6
    assert not alpha[0].any()
    row = alpha[100, 100:]
    assert (np.diff(row) <= 1e-6).all()
    if radius > edge + inset + edge / 2 + 6:
        assert row[0] > 0.999


def test_a_fade_that_is_cut_by_the_border_stays_whole_there():
    ring = np.array([[-50.0, -50], [90, -50], [90, 90], [-50, 90]])
    alpha = fade_mask(ring, 100, 100, edge=10, inset=0)
    assert alpha[50, 50] > 0.999
    assert alpha[50, 99] < 1e-3


# scenes


def placed(scale=1.0, dx=100.0, dy=80.0, roll=0.1):
    """The mean face somewhere in a photo."""
    a = scale * np.exp(1j * roll)
    return transform(np.array([[a.real, -a.imag, dx], [a.imag, a.real, dy]]), drawn.model().shape)


def photo_of(points, height=480, width=480):
    """A magenta face on green."""
    photo = np.full((height, width, 3), GREEN, np.uint8)
    cv2.fillConvexPoly(photo, cv2.convexHull(points[list(OVAL)].round().astype(np.int32)), MAGENTA)
    return photo


def like(image, colour, max_count=60):
    return np.abs(image.astype(int) - colour).max(axis=2) < max_count


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_a_scene_covers_the_old_face_and_leaves_the_rest(scale):
    points = placed(scale)
    photo = photo_of(points)
    before = photo.copy()
    wider = drawn.model().shape * (0.9, 1.05)  # another face: narrower, longer
    new = blend_scene(photo, points, Surrogate(flat(GREY), shape()), wider, triangles())
    np.testing.assert_array_equal(photo, before)
    face = hull(points[list(OVAL)], 480, 480)
    assert like(new, MAGENTA)[face].mean() < 0.02  # the old contour lies under the new one's soft edge
    assert like(new, MAGENTA).sum() < 0.03 * face.sum()
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.6 * (high - low) + 2
    y, x = np.indices((480, 480))
    far = (x < low[0] - room[0]) | (x > high[0] + room[0]) | (y < low[1] - room[1]) | (y > high[1] + room[1])
    assert far.any()
    np.testing.assert_array_equal(new[far], photo[far])


AT_THE_BORDER = [(-120, 80), (330, 80), (100, -150), (100, 320), (-150, -180)]


@pytest.mark.parametrize(("dx", "dy"), AT_THE_BORDER)
def test_faces_at_the_border_are_replaced_up_to_it(dx, dy):
    points = placed(dx=dx, dy=dy)
    photo = photo_of(points)
    face = hull(points[list(OVAL)], 480, 480)
    assert 0 < face.sum() < 30_000
    new = blend_scene(photo, points, Surrogate(flat(GREY), shape()), drawn.model().shape, triangles())
    assert like(new, MAGENTA)[face].mean() < 0.03


@pytest.mark.parametrize("composite", ["colour", "poisson"])
@pytest.mark.parametrize(("dx", "dy"), AT_THE_BORDER)
def test_other_composites_bring_the_new_faces_detail_up_to_the_border(composite, dx, dy):
    points = placed(dx=dx, dy=dy)
    face = hull(points[list(OVAL)], 480, 480)
    striped = flat(GREY)
    striped[:, ::16] = 255
    options = {"face": Surrogate(striped, shape()), "shape": drawn.model().shape, "triangles": triangles()}
    new = blend_scene(photo_of(points), points, composite=composite, **options)
    assert np.ptp(new[face][:, 1]) > 40  # the old face was flat


def test_a_face_outside_the_photo_changes_nothing():
    points = placed(dx=2000)
    photo = photo_of(placed())
    new = blend_scene(photo, points, Surrogate(flat(GREY), shape()), drawn.model().shape, triangles())
    np.testing.assert_array_equal(new, photo)


def test_a_large_surrogate_is_shrunk_without_skipping_pixels():
    """A fine checkerboard on the new face becomes its mean, not one of its colours."""
    board = (np.indices((960, 768)).sum(axis=0) % 2 * 255).astype(np.uint8)
    face = Surrogate(np.repeat(board[..., None], 3, axis=2), shape(3.0))
    points = placed(0.5, roll=0.0)
    new = blend_scene(photo_of(points), points, face, drawn.model().shape, triangles())
    x, y = points[list(OVAL)].mean(axis=0).round().astype(int)
    patch = new[y - 15 : y + 15, x - 15 : x + 15].astype(int)
    assert np.abs(patch - 127).max() < 25


def disc(size=80, radius=30):
    y, x = np.indices((size, size)) - size // 2
    return (np.hypot(x, y) < radius).astype(np.float32)


def test_feather_is_the_picture_inside_and_the_ground_outside():
    background, image, alpha = (
        np.full((80, 80, 3), 50, np.uint8),
        np.full((80, 80, 3), 300, np.float32),
        disc(),
    )
    alpha[40, 40] = 0.5
    new = COMPOSITES["feather"](background, image, alpha)
    assert (new[alpha == 0] == 50).all()
    assert (new[alpha == 1] == 255).all()
    assert abs(int(new[40, 40, 0]) - 152) <= 1


def test_colour_takes_the_mean_colour_of_what_it_replaces():
    rng = np.random.default_rng(0)
    background = np.full((80, 80, 3), (180, 140, 120), np.uint8)
    image = (90 + 10 * rng.normal(size=(80, 80, 1)) * np.ones(3)).astype(np.float32)
    new = COMPOSITES["colour"](background, image, disc())[disc() == 1]
    assert np.abs(new.mean(axis=0) - (180, 140, 120)).max() < 4
    assert 7 < new[:, 1].std() < 13  # the new face's own detail is kept


def test_poisson_keeps_gradients_and_takes_colour_from_the_boundary():
    background = np.full((80, 80, 3), (180, 140, 120), np.uint8)
    flat_new = COMPOSITES["poisson"](background, np.full((80, 80, 3), 60, np.float32), disc())
    assert np.abs(flat_new.astype(int) - background).max() <= 3
    image = np.full((80, 80, 3), 60, np.float32)
    image[35:45, 35:45] += 50
    new = COMPOSITES["poisson"](background, image, disc()).astype(int)
    assert 35 < new[40, 40, 0] - new[40, 28, 0] < 60
    assert np.abs(new - background)[disc() == 0].max() <= 1  # OpenCV rounds there too


@pytest.mark.parametrize("composite", COMPOSITES)
def test_where_there_is_no_face_the_ground_stays(composite):
    background = np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype(np.uint8)
    new = COMPOSITES[composite](background, np.zeros((40, 40, 3), np.float32), np.zeros((40, 40), np.float32))
    np.testing.assert_array_equal(new, background)


# cover


@given(
    st.integers(-20, 80), st.integers(-20, 60), st.integers(1, 50), st.integers(1, 50), st.integers(0, 10**6)
)
@settings(max_examples=40)
def test_nothing_of_what_is_covered_is_left(left, top, width, height, seed):
    rng = np.random.default_rng(seed)
    photo, other = rng.integers(0, 256, (2, 70, 90, 3)).astype(np.uint8)
    before, box = photo.copy(), np.array([[left, top, left + width, top + height]], float)
    inside = np.s_[max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    covered = cover_faces(photo, box)
    np.testing.assert_array_equal(photo, before)
    photo[inside] = other[inside]
    np.testing.assert_array_equal(cover_faces(photo, box), covered)


def test_a_cover_has_the_colours_around_it_and_leaves_the_rest():
    photo = np.zeros((120, 160, 3), np.uint8)
    photo[:, :80], photo[:, 80:] = (200, 40, 40), (40, 40, 200)
    photo[40:80, 60:100] = 255  # what is covered is white
    covered = cover_faces(photo, np.array([[60.0, 40, 100, 80]]))
    red, blue = covered[60, 52], covered[60, 108]
    assert red[0] > 150 > 90 > red[2] and blue[2] > 150 > 90 > blue[0]
    assert covered[60, 80, 1] < 60  # nothing white
    np.testing.assert_array_equal(covered[:25], photo[:25])
    np.testing.assert_array_equal(covered[:, :45], photo[:, :45])


def test_faces_side_by_side_do_not_colour_each_other():
    photo = np.full((120, 200, 3), 90, np.uint8)
    photo[40:80, 60:100] = photo[40:80, 104:144] = 255
    assert (cover_faces(photo, np.array([[60.0, 40, 100, 80], [104, 40, 144, 80]])) == 90).all()


def test_a_cover_over_all_of_a_photo_is_grey():
    photo = np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype(np.uint8)
    assert (cover_faces(photo, np.array([[-50.0, -50, 90, 90]])) == BACKGROUND_GREY // 2).all()


def test_without_boxes_nothing_is_covered():
    photo = np.zeros((5, 5, 3), np.uint8)
    assert cover_faces(photo, np.zeros((0, 4))) is photo


def test_the_ring_lies_around_the_mesh():
    ring_triangles = with_ring(drawn.model().shape)
    assert ring_triangles.shape == (MESH + len(OVAL), 2)
    assert hull(ring_triangles, 320, 256)[hull(drawn.model().shape, 320, 256)].all()
    assert triangles().max() == len(ring_triangles) - 1


@pytest.mark.parametrize(
    "boxes",
    [
        np.zeros((0, 4)),
        [[40, 30, 80, 70]],
        [[40, 30, 80, 70], [60, 50, 120, 100], [65, 60, 90, 80]],  # over one another
        [[-20, -10, 30, 25], [180, 90, 230, 130], [-90, -90, -60, -60]],  # at the edges and beyond
    ],
)
def test_a_photo_is_covered_itself_as_its_copy_is_and_nowhere_else(boxes):
    photo = np.random.default_rng(0).integers(0, 256, (120, 200, 3), dtype=np.uint8)
    boxes = np.reshape(boxes, (-1, 4)).astype(float)
    before, expected = photo.copy(), cover_faces(photo, boxes)
    np.testing.assert_array_equal(photo, before)
    rest = np.ones(photo.shape[:2], bool)
    for left, top, right, bottom in cover_in_place(photo, boxes):
        assert 0 <= left < right <= 200 and 0 <= top < bottom <= 120
        rest[top:bottom, left:right] = False
    np.testing.assert_array_equal(photo, expected)
    np.testing.assert_array_equal(photo[rest], before[rest])


def test_what_is_under_two_covers_is_not_looked_at_by_the_second():
    """Whatever is there, the same colours come out: they would tell of a face otherwise."""
    photo = np.full((120, 200, 3), 90, np.uint8)
    boxes = np.array([[40.0, 30, 80, 70], [60, 50, 120, 100]])
    other = photo.copy()
    for left, top, right, bottom in boxes.astype(int):
        other[top:bottom, left:right] = 255
    cover_in_place(photo, boxes)
    cover_in_place(other, boxes)
    np.testing.assert_array_equal(photo, other)
