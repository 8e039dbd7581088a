"""The ad hoc methods: what they change, what they leave alone, and that nothing comes back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

import oracles
from ksame.core.errors import UsageError
from ksame.core.geometry import FRAME, five_points, similarity, to_frame, transform
from ksame.core.guarantee import Guarantee
from ksame.render.obscure import METHODS, NO_GUARANTEE, obscure
from ksame.render.obscure.face_region import FaceRegion, bounding_slices, fill_hull
from ksame.render.obscure.shapes import PART_ELLIPSES
from ksame.render.obscure.values import FACE_WIDTH, _noise_positions
from samples import mesh

RANDOM = ("potato", "noise-grey", "noise-bw", "warp")
FADING = ("blur", "warp", "potato")  # at the edge of the face these may leave a value as it was
SIZE = (96, 80)  # of the photo: small, because the twins are slow
DONORS = np.random.default_rng(9).integers(0, 256, (3, 320, 256, 3), dtype=np.uint8)

methods = pytest.mark.parametrize("method", METHODS)
# where a face may be: its middle anywhere in and around the photo, cut by the border or outside
places = st.tuples(st.floats(0, 360), st.floats(0.05, 0.6), st.floats(-40, 120), st.floats(-40, 120))


def photo(seed=0, size=SIZE):
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def placed(turn, scale, x, y):
    """A face (1, 468, 2) with the middle of the frame at x, y."""
    a, b = scale * np.cos(np.radians(turn)), scale * np.sin(np.radians(turn))
    matrix = np.array([[a, -b, x], [b, a, y]])
    return mesh(transform(matrix, FRAME.five - [128, 172]))[None]


FACE = placed(20, 0.3, 40, 48)


def moved(x, y):
    return FACE + np.array([x, y])


def run(rgb, points, method, **options):
    return obscure(rgb, points, method, **{"rng": 3, "donors": DONORS, **options})


def test_the_list_is_the_one_of_the_papers_and_promises_nothing():
    assert list(METHODS) == [
        *("black-out", "bar", "t-mask", "mouth-grey", "mouth-bw", "ordinal", "pixelate"),
        *("negative-grey", "negative-bw", "potato", "threshold", "noise-grey", "noise-bw", "blur", "warp"),
    ]
    assert Guarantee("none") == NO_GUARANTEE
    for method in METHODS.values():
        assert method.about
        assert bool(method.strength) == (method.default is not None)
        assert method.default is None or method.low <= method.default <= method.high


@methods
@settings(max_examples=30)
@given(place=places, grey=st.booleans())
def test_only_the_face_changes_and_all_of_it_is_worked_on(method, place, grey):
    rgb, points = photo(), placed(*place)
    kept = rgb.copy()
    rgb.flags.writeable = False
    out = run(rgb, points, method, grey=grey)
    assert (rgb == kept).all()
    assert out.shape == rgb.shape
    assert out.dtype == np.uint8
    depth = oracles.depth_in_hull(points[0], *SIZE)
    if method == "black-out":
        assert not out[depth > 1e-3].any()
    else:
        assert (out == rgb)[depth < -1e-3].all()
    if grey:
        assert (out[depth > 1e-3] == out[depth > 1e-3][:, :1]).all()
    if method not in ("bar", "t-mask", *FADING) and depth.max() > 8:
        assert (out != rgb).any(axis=-1)[depth > 1e-3].mean() > 0.5


@settings(max_examples=200)
@given(places)
def test_the_mask_is_the_hull(place):
    points = placed(*place)[0]
    depth, mask = oracles.depth_in_hull(points, *SIZE), fill_hull(points, SIZE)
    assert mask[depth > 1e-3].all()
    assert not mask[depth < -1e-3].any()


@settings(max_examples=30)
@given(st.floats(0, 360), st.floats(0.15, 0.5))
def test_regions_follow_roll_and_scale(turn, scale):
    rgb = np.full((200, 200, 3), 200, np.uint8)
    points = placed(turn, scale, 100, 100)
    left, right, nose, *mouth = np.rint(five_points(points[0])).astype(int)
    black = {name: ~run(rgb, points, name).any(axis=-1) for name in ("bar", "t-mask", "mouth-grey")}
    for x, y in (left, right):
        assert all(black[name][y, x] for name in black)
    assert not black["bar"][nose[1], nose[0]]
    assert black["t-mask"][nose[1], nose[0]]
    assert black["mouth-grey"][nose[1], nose[0]]
    for x, y in mouth:
        assert not any(black[name][y, x] for name in black)


@pytest.mark.parametrize("margin", [0, 0.35, 0.5])
def test_black_out_covers_a_margin(margin):
    out = run(photo() | 1, FACE, "black-out", strength=margin)
    middle = (FACE[0].min(axis=0) + FACE[0].max(axis=0)) / 2
    larger = oracles.depth_in_hull(middle + (1 + margin) * (FACE[0] - middle), *SIZE)
    assert not out[larger > 1e-3].any()
    assert out[larger < -1e-3].all()


def the_mask():
    return fill_hull(FACE[0], SIZE)


@pytest.mark.parametrize("bins", [2, 5, 7, 64])
def test_ordinal_is_its_twin(bins):
    assert (run(photo(), FACE, "ordinal", strength=bins) == oracles.ordinal(photo(), the_mask(), bins)).all()


@pytest.mark.parametrize("t", [0, 65, 118, 255])
def test_threshold_and_negatives_are_their_twins(t):
    rgb, mask = photo(), the_mask()
    assert (run(rgb, FACE, "threshold", strength=t) == oracles.threshold(rgb, mask, t)).all()
    assert (run(rgb, FACE, "negative-bw", strength=t) == oracles.negative(rgb, mask, t)).all()
    assert (run(rgb, FACE, "negative-grey") == oracles.negative(rgb, mask)).all()


@settings(max_examples=30)
@given(places, st.floats(1, 32))
def test_pixelate_is_its_twin_and_constant_on_blocks_of_the_frame(place, blocks):
    rgb, points = photo(), placed(*place)
    mask, matrix, size = fill_hull(points[0], SIZE), to_frame(points[0]), FACE_WIDTH / blocks
    out = run(rgb, points, "pixelate", strength=blocks)
    assert np.abs(out - oracles.pixelate(rgb, mask, matrix, size).astype(int)).max() <= 1  # ties of rounding
    seen = {}
    for y, x in np.argwhere(mask):
        seen.setdefault(oracles.square_of_frame(matrix, x, y, size), set()).add(tuple(out[y, x]))
    assert all(len(colours) == 1 for colours in seen.values())


@pytest.mark.parametrize("share", [0.01, 0.5, 1])
def test_noise_is_its_twin(share):
    rgb, mask, matrix = photo(), the_mask(), to_frame(FACE[0])
    rng = np.random.default_rng(int(np.random.default_rng(3).integers(2**63)))
    hit = rng.random((FRAME.height, FRAME.width)) < share
    values = rng.integers(256, size=hit.shape, dtype=np.uint8)
    new = run(rgb, FACE, "noise-grey", strength=share)
    assert (new == oracles.noise(rgb, mask, matrix, hit, values)).all()
    if share < 1:
        assert (run(rgb, FACE, "noise-bw", strength=share) == oracles.noise(rgb, mask, matrix, hit)).all()


@settings(max_examples=20)
@given(st.integers(0, 3), st.integers(0, 99), st.integers(0, 2**63 - 1))
def test_noise_is_on_the_same_positions_of_every_face_of_a_run(quarter, other, seed):
    """Two photos, one of them turned: on the frame the same pixels are flipped."""
    flipped = []
    for turns, pixels in ((0, 0), (quarter, other)):
        rgb = np.rot90(photo(pixels, (320, 256)), turns)
        points = transform(turned(256, 320, turns), mesh())[None]
        black_white = run(rgb, points, "threshold", grey=True)
        new = run(rgb, points, "noise-bw", rng=seed)
        flipped.append(np.rot90((new != black_white).any(axis=-1), -turns))
    deep = oracles.depth_in_hull(mesh(), 40, 256) > 1  # the forehead is enough
    assert (flipped[0][:40] == flipped[1][:40])[deep].all()
    assert np.array_equal(flipped[0][100:200, 80:180], flipped[1][100:200, 80:180])
    assert 0.4 < flipped[0][100:200, 80:180].mean() < 0.6


def turned(width, height, turns):
    """The matrix that takes pixels of a picture to those of np.rot90(picture, turns)."""
    quarter = {
        0: [[1, 0, 0], [0, 1, 0]],
        1: [[0, 1, 0], [-1, 0, width - 1]],
        2: [[-1, 0, width - 1], [0, -1, height - 1]],
        3: [[0, -1, height - 1], [1, 0, 0]],
    }
    return np.array(quarter[turns], float)


@methods
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_rolled_photo_gives_the_rolled_result(method, turns):
    rgb = np.rint(gaussian_filter(photo(1, (120, 100)).astype(float), (4, 4, 0)) * 2.0 - 128)
    rgb = np.clip(rgb, 0, 255).astype(np.uint8)
    points = placed(10, 0.35, 52, 60)
    rolled = run(np.rot90(rgb, turns), transform(turned(100, 120, turns), points), method)
    back, upright = np.rot90(rolled, -turns), run(rgb, points, method)
    inner = oracles.depth_in_hull(points[0], 120, 100) > 2
    different = (np.abs(back.astype(int) - upright) > 12).any(axis=-1)[inner]
    assert different.mean() < 0.04  # the edges of bars and blocks, where a pixel is on either side


@methods
def test_same_seed_same_bytes_and_without_one_the_random_methods_vary(method):
    one, two = (run(photo(), FACE, method, rng=7) for _ in range(2))
    assert one.tobytes() == two.tobytes()
    one, two = (run(photo(), FACE, method, rng=None) for _ in range(2))
    assert (one.tobytes() == two.tobytes()) == (method not in RANDOM)
    assert run(photo(), FACE, method, rng=np.random.default_rng(1)).shape == one.shape


@pytest.mark.parametrize("method", [name for name in METHODS if name not in FADING])
def test_a_face_found_twice_does_not_come_back(method):
    once = run(photo(), FACE, method)
    assert (run(photo(), np.concatenate([FACE, FACE]), method) == once).all()
    # found a second time, a little beside: what was changed by the first stays changed
    near = np.concatenate([FACE, moved(1.3, -0.8)])
    covered = (once == 0).all(axis=-1) if method in ("bar", "t-mask") else the_mask()
    again = run(photo(), near, method)
    assert ((again == photo()).all(axis=-1) & covered).sum() <= (once == photo()).all(axis=-1)[covered].sum()


@pytest.mark.parametrize("method", ["mouth-grey", "mouth-bw", "bar", "t-mask"])
def test_what_one_face_covers_no_other_uncovers(method):
    rgb = photo() | 1
    both = np.concatenate([FACE, moved(3, 6)])
    covered = ~run(rgb, FACE, method).any(axis=-1) | ~run(rgb, both[1:], method).any(axis=-1)
    assert not run(rgb, both, method)[covered].any()


@methods
def test_no_face_no_change(method):
    rgb = photo()
    for points in (np.zeros((0, 468, 2)), FACE + 5000, FACE - 5000):
        out = run(rgb, points, method)
        assert (out == rgb).all()
        assert not np.shares_memory(out, rgb)


@methods
def test_faces_larger_than_the_photo_and_smaller_than_a_pixel(method):
    for points in (placed(30, 5, 40, 48), placed(30, 0.002, 40, 48)):
        assert run(photo(), points, method).shape == (*SIZE, 3)
    if method == "black-out":
        assert not run(photo(), placed(30, 5, 40, 48), method).any()


@methods
def test_several_faces_are_each_worked_on(method):
    """Also with other faces in the photo, each one is as if alone."""
    rgb = photo(2, (96, 200))
    points = np.concatenate([FACE, moved(110, 0)])
    out = run(rgb, points, method)
    assert (out[:, :90] == run(rgb, points[:1], method)[:, :90]).all()
    assert (out[:, 110:] != rgb[:, 110:]).any()


@pytest.mark.parametrize("strength", [0.02, 0.2, 1.0])
def test_blur_is_a_gaussian_of_that_width(strength):
    rgb, points = photo(4, (240, 200)), placed(0, 0.5, 100, 120)
    # coarse structure, so that there is something left to compare when the blur is wide
    rgb = np.clip(gaussian_filter(rgb.astype(float), (8, 8, 0)) * 12 - 11 * 128, 0, 255).astype(np.uint8)
    sigma = strength * 0.5 * 88
    truth = gaussian_filter(rgb.astype(float), (sigma, sigma, 0), mode="reflect")
    piece = bounding_slices(
        (points[0] - [100, 120]) * 0.5 + [100, 120], rgb.shape
    )  # away from what the blur cannot see
    error = np.abs(run(rgb, points, "blur", strength=strength)[piece] - truth[piece])
    assert error.mean() < (1.0 if strength < 1 else 4.0)


def test_warp_moves_the_inside_and_keeps_the_edge():
    x = np.arange(240)
    stripes = (
        np.repeat((127 + 120 * np.sin(x / 6))[None, :, None], 240, axis=0).repeat(3, axis=2).astype(np.uint8)
    )
    points = placed(0, 0.6, 120, 120)
    depth = oracles.depth_in_hull(points[0], 240, 240)
    change = np.abs(run(stripes, points, "warp").astype(int) - stripes).max(axis=-1)
    assert change[(depth > 0) & (depth < 1)].mean() < 8
    assert change[depth > 25].mean() > 15
    weak = np.abs(run(stripes, points, "warp", strength=0.02).astype(int) - stripes).max(axis=-1)
    assert weak[depth > 25].mean() < change[depth > 25].mean() / 3


def test_potato_takes_the_parts_and_leaves_the_rest():
    """A flat face with a dot on each part, donors with another dot: the donors' is left, in its light."""
    rgb, points = np.full((320, 256, 3), 120, np.uint8), mesh()[None]
    donors = np.full((2, 320, 256, 3), 60, np.uint8)
    for (x, y), _, _ in PART_ELLIPSES:
        rgb[y - 3 : y + 4, x - 12 : x - 5] = 255
        donors[:, y - 3 : y + 4, x + 5 : x + 12] = [[[[30]]], [[[10]]]]
    out = run(rgb, points, "potato", donors=donors).astype(int)
    for (x, y), _, _ in PART_ELLIPSES:
        assert np.abs(out[y, x - 8] - 120).max() < 12
        assert np.abs(out[y, x + 8] - 40).max() < 8  # the mean of 30 and 10, in a light that doubles 60
    assert (out[270:] == 120).all()
    assert (run(rgb, points, "potato", donors=donors, strength=1)[124, 90] != out[124, 90]).all()


def test_potato_in_grey_takes_grey_parts():
    out = run(photo(), FACE, "potato", grey=True)[the_mask()]
    assert (out == out[:, :1]).all()


def test_noise_of_a_face_beyond_the_frame_is_that_of_the_frame_again():
    points = mesh()
    face = FaceRegion(
        np.zeros((700, 600, 3), np.uint8), fill_hull(points, (700, 600)), fill_hull(points, (700, 600)),
        points,
        np.eye(2, 3), 5, 0, DONORS,
    )  # fmt: skip
    hit, values = _noise_positions(face, np.ones((700, 600), bool), 0.5)
    hit, values = hit.reshape(700, 600), values.reshape(700, 600)
    assert np.array_equal(hit[:320, :256], hit[320:640, 256:512])
    assert np.array_equal(values[:320, :256], values[320:640, 256:512])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"method": "mask"}, "method must be one of black-out, bar"),
        ({"rgb": np.zeros((9, 9), np.uint8)}, r"\(h, w, 3\) uint8"),
        ({"rgb": np.zeros((9, 9, 3))}, r"\(h, w, 3\) uint8"),
        ({"points": np.zeros((468, 2))}, r"\(n, 468, 2\)"),
        ({"points": np.zeros((1, 5, 2))}, r"\(n, 468, 2\)"),
        ({"points": FACE * np.nan}, "finite"),
        ({"points": FACE + 1e7}, "finite"),
        ({"points": FACE * 0}, "not all at the same place"),
        ({"strength": 0}, r"sigma.* must be in \[0.02, 2\]. Got 0"),
        ({"strength": np.nan}, "must be in"),
        ({"method": "negative-grey", "strength": 3}, "no strength"),
        ({"method": "potato", "donors": None}, "potato averages 2 donors"),
        ({"method": "potato", "strength": 4}, "Got 3"),
        ({"method": "potato", "donors": DONORS[:, :9]}, r"donors must be \(m, 320, 256, 3\)"),
        ({"method": "potato", "donors": DONORS / 255}, "uint8"),
    ],
)
def test_errors_say_what_is_wrong(change, match):
    given = {"rgb": photo(), "points": FACE, "method": "blur", "donors": DONORS, **change}
    with pytest.raises(UsageError, match=match):
        obscure(given.pop("rgb"), given.pop("points"), given.pop("method"), **given)


def test_a_mirrored_mesh_is_refused_because_its_regions_would_be_nowhere():
    """Eyes and nose in an equilateral triangle, mirrored, fit the frame best at scale zero."""
    three = FRAME.five[:3] @ [1, 1j]
    z = np.conj(three - three.mean())
    # turn z until its least-squares scale on the frame vanishes: sum conj(z) w = 0
    w = three - three.mean()
    z = z - w * (np.conj(w) * z).sum() / (np.abs(w) ** 2).sum()
    five = np.concatenate([np.stack([z.real, z.imag], axis=1) + 50, [[40, 60], [60, 60]]])
    assert np.abs(similarity(five[:3], FRAME.five[:3])[:, :2]).max() < 1e-9
    with pytest.raises(UsageError, match="face 0"):
        obscure(photo(), mesh(five)[None], "bar")
