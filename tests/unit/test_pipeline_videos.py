"""The order in which pictures of a video are worked on, and the tracks that are asked about each."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksame.analysis.tracking.track import Track
from ksame.core.context import Context
from ksame.pipeline.video_render import SMOOTHING_REACH_FRAMES, RenderedVideo


class Numbered(RenderedVideo):
    """The code of a picture is its number."""

    def _codes(self, frame):
        return frame.index


def film(tracks=()):
    video = SimpleNamespace(tracks=tuple(tracks))
    return Numbered(video, {}, "code", "keep", None, Context())


@pytest.mark.parametrize("count", range(10))
def test_each_picture_comes_with_the_codes_around_it(count):
    frames = [SimpleNamespace(index=i) for i in range(count)]
    with ThreadPoolExecutor(2) as pool:
        found = list(film()._coded(iter(frames), pool))
    assert [frame.index for frame, _ in found] == list(range(count))
    for frame, codes in found:
        around = range(frame.index - SMOOTHING_REACH_FRAMES, frame.index + SMOOTHING_REACH_FRAMES + 1)
        expected = [i if 0 <= i < count else None for i in around]
        assert [code.result() if code else None for code in codes] == expected


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 150), st.integers(1, 90)), max_size=6))
def test_the_tracks_of_a_picture_are_those_that_are_in_it(spans):
    tracks = [
        Track(start, np.zeros((n, 4)), np.full(n, "covered"), np.zeros((n, 468, 2), np.int16))
        for start, n in spans
    ]
    clip = film(tracks)
    for index in range(0, 250, 7):
        there = [number for number, _ in clip._there(SimpleNamespace(index=index))]
        assert there == [n for n, (start, length) in enumerate(spans) if start <= index < start + length]
