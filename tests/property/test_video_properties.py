from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ksame.io import metadata_of_video, probe_video, read_frames, write_video

CODECS = {".mp4": "libx264", ".mkv": "mpeg4", ".webm": "libvpx-vp9"}


def film(path, size, clock, times):
    with av.open(path, "w") as out:
        stream = out.add_stream(CODECS[path.suffix], 25, options={"bf": "0"})
        (stream.height, stream.width), stream.codec_context.time_base = size, clock
        for index, time in enumerate(times):
            shot = np.full((*size, 3), 40 + 20 * index, np.uint8)
            image = av.VideoFrame.from_ndarray(shot).reformat(format="yuv420p")
            image.pts, image.time_base = time, clock
            out.mux(stream.encode(image))
        out.mux(stream.encode(None))
    return path


@settings(max_examples=25, deadline=None)
@given(
    suffix=st.sampled_from(sorted(CODECS)),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    gaps=st.lists(st.integers(1, 90), max_size=7),
    ticks=st.sampled_from([1000, 12_800, 30_000]),
)
def test_a_copy_has_the_clock_and_size_of_its_source_and_no_metadata(suffix, height, width, gaps, ticks):
    if suffix == ".mp4":  # H.264 halves its colours: odd sizes do not exist in such sources
        height, width = height + height % 2, width + width % 2
    clock = Fraction(1, 1000 if suffix != ".mp4" else ticks)
    times = [0, *np.cumsum(gaps).tolist()]
    with tempfile.TemporaryDirectory() as folder:
        source = film(Path(folder, f"a{suffix}"), (height, width), clock, times)
        target = Path(folder, f"b{suffix}")
        before = list(read_frames(source, broken=[]))
        written = write_video(probe_video(source), target, before)
        after = list(read_frames(target, broken=[]))
        assert metadata_of_video(target) == []
    assert [frame.time for frame in before] == [time * clock for time in times]
    assert [frame.time for frame in after] == [frame.time for frame in before]
    assert written.frames == len(times)
    for one, other in zip(before, after, strict=True):
        assert one.rgb.shape == other.rgb.shape == (height, width, 3)
        assert np.abs(one.rgb.astype(int) - other.rgb).max() <= 8
