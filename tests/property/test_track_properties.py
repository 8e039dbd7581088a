"""The law of tracks: whatever was seen is inside a box of its picture, and no track has a hole."""

from __future__ import annotations

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ksame.analysis.tracking.interpolate import interpolate
from ksame.analysis.tracking.observations import Observations
from ksame.analysis.tracking.propagate import mesh_box, pack_meshes, unpack_meshes
from ksame.analysis.tracking.smooth import smooth_meshes
from ksame.analysis.tracking.track import STATES, Track, build_tracks, identify_tracks
from ksame.analysis.tracking.track_file import tracks_from_json, tracks_to_json
from ksame.core.geometry import LEFT_EYE, MESH, RIGHT_EYE
from oracles import interpolated, persons

FACE = np.random.default_rng(0).uniform(-0.5, 0.5, (MESH, 2))
FACE[list(LEFT_EYE)], FACE[list(RIGHT_EYE)] = [-0.2, -0.15], [0.2, -0.15]
FACE[[1, 10, 152]] = [[0, 0.1], [0, -0.5], [0, 0.5]]  # tip of the nose, top and chin
FRAMES, WIDTH, HEIGHT = 70, 640, 480


@st.composite
def seen(draw):
    """Return up to four chains that wander, vanish and jump, seen more or less surely; with some cuts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = []
    for chain in range(draw(st.integers(1, 4))):
        first = int(rng.integers(0, FRAMES - 1))
        last = int(rng.integers(first, FRAMES))
        place, speed, side = rng.uniform(0, [WIDTH, HEIGHT]), rng.normal(0, 8, 2), rng.uniform(30, 90)
        for t in range(first, last + 1):
            place = place + speed + rng.normal(0, 2, 2)
            if t == first or rng.random() < 0.7:
                mesh = FACE * side * rng.uniform(0.9, 1.2) + place
                seen_by = rng.random() < 0.6 or t == first
                sure = rng.choice([0.0, 0.7, 1.0, 1.0])
                code = rng.normal(size=2) if rng.random() < 0.1 else None
                rows.append((t, chain, mesh, 0.9 if seen_by else 0.0, sure, code))
    rows.sort(key=lambda row: row[:2])
    mesh = np.array([row[2] for row in rows])
    xyxy = mesh_box(mesh).astype(np.float32)
    return Observations(
        width=WIDTH,
        height=HEIGHT,
        frames=FRAMES,
        cuts=np.unique(rng.integers(0, FRAMES, draw(st.integers(0, 3)))),
        frame=np.array([row[0] for row in rows]),
        chain=np.array([row[1] for row in rows]),
        xyxy=xyxy,
        score=np.array([row[3] for row in rows], np.float32),
        shape=pack_meshes(mesh, xyxy),
        presence=np.array([row[4] for row in rows], np.float32),
        codes=tuple(row[5] for row in rows),
    )


@settings(max_examples=40)
@given(seen(), st.sampled_from([None, 1.0]))
def test_what_was_seen_is_inside_a_box_and_no_track_has_a_hole(sightings, same):
    found = build_tracks(sightings, same=same)
    event(f"drawn: {any(track.drawn.any() for track in found)}")
    for row in np.flatnonzero((sightings.score > 0) | (sightings.presence >= 0.5)):
        frame, box = sightings.frame[row], sightings.xyxy[row]
        here = [t.box[frame - t.start] for t in found if frame in t.frames]
        assert any((b[:2] <= box[:2] + 1e-3).all() and (b[2:] >= box[2:] - 1e-3).all() for b in here)
    for track in found:
        assert track.start >= 0 and track.frames.stop <= FRAMES
        assert np.isfinite(track.box).all()
        assert (track.box[:, :2] < track.box[:, 2:]).all()
        assert set(track.state.tolist()) <= set(STATES)
        # drawn means: the mesh is known, and lies in the box that is replaced
        assert np.array_equal(track.drawn, track.state != "covered")
        for frame in track.start + np.flatnonzero(track.drawn):
            mesh, box = track.mesh(frame), track.box[frame - track.start]
            side = (box[2:] - box[:2]).max()
            assert (mesh >= box[:2] - 0.5 * side).all() and (mesh <= box[2:] + 0.5 * side).all()


@settings(max_examples=15)
@given(seen())
def test_tracks_begin_before_the_first_sighting_and_end_after_the_last(sightings):
    for chain in np.unique(sightings.chain):
        rows = np.flatnonzero(
            (sightings.chain == chain) & ((sightings.score > 0) | (sightings.presence >= 0.5))
        )
        first, last = sightings.frame[rows[0]], sightings.frame[rows[-1]]
        holds = [t for t in build_tracks(sightings) if first in t.frames and last in t.frames]
        assert holds
        cuts = set(sightings.cuts.tolist())
        assert any(first == 0 or first in cuts or first - 1 in t.frames for t in holds)
        assert any(last == FRAMES - 1 or last + 1 in cuts or last + 1 in t.frames for t in holds)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(1, 12), st.integers(0, 400)), max_size=7
    ),
    st.integers(1, 90),
)
def test_people_are_those_of_the_naive_twin(given, same):
    # distances that are all different: ties may be broken either way
    odd = [(c, start, n, code + 0.001 * i + 0.00001 * i * i) for i, (c, start, n, code) in enumerate(given)]
    clips = [[], []]
    for c, start, n, code in odd:
        shape = np.zeros((n, MESH, 2), np.int16)
        clips[c].append(Track(start, np.zeros((n, 4)), np.full(n, "seen"), shape, np.array([float(code)])))
    names = identify_tracks(clips, float(same))
    flat = [(c, tuple(t.frames), t.code) for c in (0, 1) for t in clips[c]]
    labels = [name for some in names for name in some]
    twin = persons([(c, f, code) for c, f, code in flat], float(same))
    mine = {frozenset(i for i, x in enumerate(labels) if x == name) for name in labels}
    where = {(c, f, float(code[0])): i for i, (c, f, code) in enumerate(flat)}
    assert mine == {frozenset(where[c, f, float(code[0])] for c, f, code in group) for group in twin}
    for i in range(len(flat)):
        for j in range(i):
            if flat[i][0] == flat[j][0] and set(flat[i][1]) & set(flat[j][1]):
                assert labels[i] != labels[j]


@settings(max_examples=12)
@given(st.integers(1, 60), st.integers(0, 10**6), st.floats(-500, 500), st.floats(0.5, 3))
def test_smoothing_is_the_same_backwards_elsewhere_and_larger(t, seed, shift, scale):
    rng = np.random.default_rng(seed)
    mesh = 80 * FACE + rng.normal(0, 4, (t, 1, 2)).cumsum(axis=0) + rng.normal(0, 0.4, (t, MESH, 2))
    calm = smooth_meshes(mesh)
    assert calm.shape == mesh.shape
    moved = smooth_meshes(mesh * scale + shift)
    assert np.allclose(moved, calm * scale + shift, atol=1e-5 * scale)
    if t % 2:  # the picture in the middle is the same from both ends
        assert np.allclose(smooth_meshes(mesh[::-1])[::-1], calm)
    assert np.abs(calm - mesh).max() < 12  # it never strays: a motion is not cut off


@given(st.data())
def test_between_is_the_naive_one(data):
    at = np.array(sorted(data.draw(st.sets(st.integers(0, 20), min_size=1))))
    values = data.draw(arrays(float, (len(at), 3), elements=st.floats(-100, 100)))
    assert np.allclose(interpolate(values, at, 22), interpolated(values, at, 22))


@given(st.integers(0, 10**6))
def test_packed_meshes_are_exact_to_a_fraction_of_a_pixel(seed):
    rng = np.random.default_rng(seed)
    side, at = rng.uniform(20, 800), rng.uniform(-100, 4000, 2)
    mesh = FACE * side + at
    box = mesh_box(mesh).astype(np.float32)
    assert np.abs(unpack_meshes(pack_meshes(mesh, box), box) - mesh).max() < side / 2000


@settings(max_examples=10)
@given(seen())
def test_a_file_of_tracks_brings_them_back(sightings):
    size = {"width": WIDTH, "height": HEIGHT, "frames": FRAMES}
    found = build_tracks(sightings)
    again = tracks_from_json(tracks_to_json(found, **size), **size)
    assert [t.frames for t in again] == [t.frames for t in found]
    for old, new in zip(found, again, strict=True):
        assert np.array_equal(old.state, new.state)
        assert np.abs(old.box - new.box).max() <= 0.0501
        assert not new.drawn.any()
