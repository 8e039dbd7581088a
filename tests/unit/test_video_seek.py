from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksame.io import read_frames, read_frames_at
from unit.test_video import film, noisy

KINDS = {
    "plain.mp4": {"options": [("g", "12"), ("bf", "0"), ("sc_threshold", "0")]},
    "between.mp4": {"options": [("g", "12"), ("bf", "3"), ("sc_threshold", "0")]},
    "open.mkv": {"options": [("g", "12"), ("bf", "3"), ("x264-params", "open-gop=1:scenecut=0")]},
    "broadcast.ts": {"options": [("g", "12"), ("bf", "2")]},
    "turned.mp4": {"options": [("g", "12")], "turn": 90, "mirror": True},
    "vp9.webm": {"codec": "libvpx-vp9", "options": [("g", "12"), ("deadline", "realtime")]},
    "old.mp4": {"codec": "mpeg4", "options": [("g", "12")]},
    "uneven.mkv": {"times": [n * n // 9 + n for n in range(60)], "options": [("g", "12")]},
    "one.mp4": {"options": [("g", "600")]},
}


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    room = tmp_path_factory.mktemp("clips")
    return {name: film(room / name, noisy(), **how) for name, how in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.sets(st.integers(0, 59), max_size=5))
def test_what_is_picked_is_what_reading_all_gives(clips, name, wanted):
    whole = {frame.index: frame for frame in read_frames(clips[name])}
    some = list(read_frames_at(clips[name], wanted, 60))
    assert sorted(frame.index for frame in some) == sorted(wanted)
    for frame in some:
        same = whole[frame.index]
        assert (frame.pts, frame.time, frame.duration) == (same.pts, same.time, same.duration)
        np.testing.assert_array_equal(frame.rgb, same.rgb)


def test_a_picture_is_sought_and_not_read_up_to(clips, monkeypatch):
    def everything(*args, **options):
        raise AssertionError("all of it was read")

    monkeypatch.setattr("ksame.io.video_seek.read_frames", everything)
    assert [frame.index for frame in read_frames_at(clips["between.mp4"], [3, 50, 52], 60)] == [3, 50, 52]
    assert list(read_frames_at(clips["plain.mp4"], [], 60)) == []


def test_where_numbers_cannot_be_told_from_the_clock_all_is_read(tmp_path):
    path = film(tmp_path / "a.mp4", noisy(), options=[("g", "12"), ("bf", "0"), ("sc_threshold", "0")])
    with av.open(path) as file:
        packet = [packet for packet in file.demux(video=0) if packet.size][30]
    data = bytearray(path.read_bytes())
    data[packet.pos : packet.pos + packet.size] = b"\xff" * packet.size
    path.write_bytes(data)
    whole = list(read_frames(path, broken=[]))
    assert len(whole) == 54
    some = {frame.index: frame for frame in read_frames_at(path, [2, 29, 40], 54)}
    assert some[40].time == Fraction(46, 25), "six were lost before it"
    assert all((frame.rgb == whole[index].rgb).all() for index, frame in some.items())
    # nobody counted, and so the damage itself must be met
    assert {frame.index for frame in read_frames_at(path, [2, 33], 60)} == {2, 33}
