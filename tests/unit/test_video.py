from __future__ import annotations

import dataclasses
import os
import weakref
from fractions import Fraction
from itertools import pairwise

import av
import numpy as np
import pytest
from av.video.reformatter import VideoReformatter
from PIL import Image

from ksame.core.errors import InputError, KSameError, UsageError
from ksame.io import ClipFrame, metadata_of_video, probe_video, read_frames, write_video
from ksame.io.containers import is_truncated
from ksame.io.video_pixels import frame_planes
from ksame.io.video_write import to_encoder_frame

SECRET = "SECRET"


def pictures(count=30, height=48, width=64):
    """A slope of colours that changes from picture to picture, with a red corner at the top left."""
    y, x = np.mgrid[:height, :width]
    slope = np.stack([x * 255 // max(1, width - 1), y * 255 // max(1, height - 1), 0 * x], axis=2)
    slope[: height // 4 + 1, : width // 4 + 1] = 200, 30, 30
    return [(slope + np.array([0, 0, 60 + 4 * i % 120])).clip(0, 255).astype(np.uint8) for i in range(count)]


def film(
    path,
    shots=None,
    *,
    codec="libx264",
    pixels="yuv420p",
    rate=Fraction(25),
    clock=None,
    times=None,
    sounds=(),
    seconds=None,
    full=False,
    turn=None,
    mirror=False,
    options=(),
    movflags="",
    secrets=False,
):
    """Make a small video: the source of every test."""
    shots = pictures() if shots is None else shots
    clock = clock or 1 / rate
    with av.open(path, "w", container_options={"movflags": movflags} if movflags else {}) as out:
        video = out.add_stream(codec, rate, options=dict(options))
        (video.height, video.width), video.pix_fmt = shots[0].shape[:2], pixels
        video.codec_context.time_base = clock
        video.codec_context.color_range = 2 if full else 1
        if turn is not None:
            video.set_display_rotation(turn, hflip=mirror)
        voices = [(out.add_stream(name, 48_000), layout) for name, layout in sounds]
        for voice, layout in voices:
            voice.codec_context.layout = layout
        if secrets:
            out.metadata.update(
                title=SECRET, location="+48.8577+002.2950/", creation_time="2020-01-01T00:00:00Z"
            )
            video.metadata.update(language="fra", handler_name=SECRET)
            out.set_chapters(
                [
                    {
                        "id": 1,
                        "start": 0,
                        "end": 500,
                        "time_base": Fraction(1, 1000),
                        "metadata": {"title": SECRET},
                    }
                ]
            )
        for index, shot in enumerate(shots):
            rgb = av.VideoFrame.from_ndarray(shot)
            frame = rgb.reformat(format=pixels, dst_colorspace=5, dst_color_range=2 if full else 1)
            frame.pts, frame.time_base = times[index] if times else index, clock
            out.mux(video.encode(frame))
        out.mux(video.encode(None))
        for number, (voice, layout) in enumerate(voices):
            for part in tones(440 * (number + 1), seconds or len(shots) / rate, layout):
                out.mux(voice.encode(part))
            out.mux(voice.encode(None))
    return path


def tones(pitch, seconds, layout):
    wave = 0.3 * np.sin(2 * np.pi * pitch * np.arange(int(48_000 * seconds)) / 48_000)
    for at in range(0, len(wave), 4800):
        channels = np.tile(wave[at : at + 4800].astype(np.float32), (1 if layout == "mono" else 2, 1))
        part = av.AudioFrame.from_ndarray(channels, "fltp", layout)
        part.sample_rate, part.pts, part.time_base = 48_000, at, Fraction(1, 48_000)
        yield part


def again(source, target, **options):
    """Read a video and write it as it is."""
    clip = probe_video(source)
    written = write_video(clip, target, read_frames(source), **options)
    return clip, written, probe_video(target)


def sound_of(path, stream=0):
    with av.open(path) as file:
        return [(p.pts * p.time_base, bytes(p)) for p in file.demux(audio=stream) if p.dts is not None]


def heard(path, stream=0):
    with av.open(path) as file:
        return np.concatenate([frame.to_ndarray()[0] for frame in file.decode(audio=stream)])


def pitch_of(wave):
    return np.abs(np.fft.rfft(wave)).argmax() * 48_000 / len(wave)


def apart(one, other):
    """The mean difference of two lists of frames, in shades."""
    return np.mean([np.abs(a.rgb.astype(int) - b.rgb).mean() for a, b in zip(one, other, strict=True)])


def test_a_clip_tells_what_it_is(tmp_path):
    path = film(tmp_path / "a.mp4", rate=Fraction(30000, 1001), sounds=[("aac", "mono"), ("aac", "stereo")])
    clip = probe_video(path)
    assert (clip.width, clip.height, clip.codec, clip.pixel_format, clip.bit_depth) == (
        64,
        48,
        "h264",
        "yuv420p",
        8,
    )
    assert (clip.rate, clip.frames, clip.rotation) == (Fraction(30000, 1001), 30, 0)
    assert (clip.duration, clip.aspect) == (Fraction(1001, 1000), 1)
    assert [(s.codec, s.rate, s.channels) for s in clip.audio_streams] == [
        ("aac", 48_000, 1),
        ("aac", 48_000, 2),
    ]
    assert clip.bit_rate and not clip.other_streams


def test_frames_are_upright_contiguous_and_in_order(tmp_path):
    path = film(tmp_path / "a.mp4", options={"bf": "3"}.items())
    got = list(read_frames(path))
    assert [f.index for f in got] == list(range(30))
    assert [f.time for f in got] == [Fraction(i, 25) for i in range(30)]
    assert all(f.rgb.shape == (48, 64, 3) and f.rgb.flags.c_contiguous for f in got)
    originals = [ClipFrame(i, 0, 0, Fraction(0), shot) for i, shot in enumerate(pictures())]
    assert apart(got, originals) < 4


@pytest.mark.parametrize(
    ("source", "target", "codec", "options"),
    [
        ("a.mp4", "b.mp4", "h264", {}),
        ("a.mp4", "b.mov", "h264", {"options": [("bf", "3")]}),
        ("a.mp4", "b.mp4", "hevc", {"codec": "libx265", "options": [("x265-params", "log-level=none")]}),
        ("a.webm", "b.webm", "vp8", {"codec": "libvpx"}),
        ("a.webm", "b.webm", "vp9", {"codec": "libvpx-vp9"}),
        ("a.mp4", "b.mp4", "mpeg4", {"codec": "mpeg4"}),
        ("a.avi", "b.mkv", "mjpeg", {"codec": "mjpeg", "pixels": "yuvj420p", "full": True}),
    ],
)
def test_codec_clock_size_and_colours_are_kept(tmp_path, source, target, codec, options):
    source, target = film(tmp_path / source, pictures(12), **options), tmp_path / target
    clip, written, copy = again(source, target)
    assert (clip.codec, copy.codec) == (codec, codec)
    assert (copy.width, copy.height, copy.pixel_format) == (clip.width, clip.height, clip.pixel_format)
    assert (copy.rate, copy.duration, copy.colour) == (clip.rate, clip.duration, clip.colour)
    before, after = list(read_frames(source)), list(read_frames(target))
    assert [f.time for f in before] == [f.time for f in after]
    assert apart(before, after) < 3
    assert (written.frames, written.duration, written.notes) == (12, clip.duration, ())
    assert metadata_of_video(target) == []


def test_av1_stays_av1_and_prints_nothing(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("SVT_LOG", "1")  # for the film made here
    source = film(tmp_path / "a.mkv", pictures(4, 64, 64), codec="libsvtav1")
    _, written, copy = again(source, tmp_path / "b.mp4")
    assert (copy.codec, written.frames, metadata_of_video(tmp_path / "b.mp4")) == ("av1", 4, [])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("source", "codec", "target", "now"),
    [("a.mkv", "mpeg2video", "b.mp4", "h264"), ("a.mp4", "libx264", "b.webm", "vp9")],
)
def test_a_codec_that_cannot_be_written_is_replaced_and_told(tmp_path, source, codec, target, now):
    _, written, copy = again(film(tmp_path / source, pictures(4), codec=codec), tmp_path / target)
    assert copy.codec == now
    assert any(f"The video codec is {now}" in note for note in written.notes)


def test_a_clock_too_fine_for_mpeg4_moves_the_pictures_to_h264(tmp_path):
    source = film(tmp_path / "a.ts", pictures(4), codec="mpeg4")  # 1/90000 s
    _, written, copy = again(source, tmp_path / "b.mp4")
    assert (copy.codec, len(written.notes), written.duration) == ("h264", 1, Fraction(4, 25))


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_a_variable_rate_stays_as_it_is(tmp_path, suffix):
    times = [0, 40, 80, 200, 240, 300, 301, 500, 540, 580, 900, 1000]
    source = film(
        tmp_path / f"a{suffix}", pictures(12), clock=Fraction(1, 1000), times=times, options=[("bf", "0")]
    )
    clip, written, copy = again(source, tmp_path / f"b{suffix}")
    assert [f.time for f in read_frames(copy.path)] == [Fraction(t, 1000) for t in times]
    assert copy.duration == clip.duration == written.duration == Fraction(1040, 1000)


@pytest.mark.parametrize("start", [-1024, 10240])
def test_a_video_that_starts_before_or_after_its_sound_keeps_its_place(tmp_path, start):
    times = [start + 512 * i for i in range(12)]
    source = film(
        tmp_path / "a.mp4", pictures(12), clock=Fraction(1, 12800), times=times, sounds=[("aac", "mono")]
    )
    _, written, copy = again(source, tmp_path / "b.mp4")
    before, after = list(read_frames(source)), list(read_frames(copy.path))
    assert [f.time for f in after] == [f.time for f in before]
    assert before[0].time == max(0, Fraction(start, 12800))  # what is before 0 is not shown, as in players
    assert sound_of(source) == sound_of(copy.path)
    assert written.frames == len(before)


def test_a_broadcast_is_counted_from_its_own_beginning(tmp_path):
    source = film(tmp_path / "a.ts", pictures(12), times=[900_000 + i for i in range(12)])  # ten hours in
    clip, _, copy = again(source, tmp_path / "b.mp4")
    assert clip.start > 35_000
    assert [f.time for f in read_frames(copy.path)] == [Fraction(i, 25) for i in range(12)]
    assert copy.duration == Fraction(12, 25)


def test_sound_of_a_broadcast_stays_with_its_pictures(tmp_path):
    source = film(tmp_path / "a.ts", pictures(12), sounds=[("aac", "stereo")])
    for audio in ("keep", "disguise"):
        _, _, copy = again(source, tmp_path / f"{audio}.mkv", audio=audio)
        assert abs(sound_of(copy.path)[0][0] - next(read_frames(copy.path)).time) < Fraction(1, 10)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_pictures_are_turned_upright_and_need_no_mark(tmp_path, turn, mirror):
    source = film(tmp_path / "a.mp4", pictures(3), turn=turn, mirror=mirror)
    stored = film(tmp_path / "plain.mp4", pictures(3))
    clip, _, copy = again(source, tmp_path / "b.mp4")
    first = next(read_frames(stored)).rgb
    upright = np.rot90(first, turn // 90)  # FFmpeg turns counterclockwise, then mirrors
    upright = upright[:, ::-1] if mirror else upright
    assert (clip.height, clip.width) == upright.shape[:2]
    assert np.array_equal(next(read_frames(source)).rgb, upright)
    assert mirror or clip.rotation == -turn % 360
    assert copy.rotation == 0 and (copy.width, copy.height) == (clip.width, clip.height)
    with av.open(copy.path) as file:
        assert next(file.decode(video=0)).rotation == 0


@pytest.mark.parametrize("full", [False, True])
def test_range_and_matrix_are_really_used(tmp_path, full):
    shots = [np.full((48, 64, 3), (200, 120, 40), np.uint8)] * 3
    source = film(tmp_path / "a.mkv", shots, full=full)
    _, _, copy = again(source, tmp_path / "b.mkv")
    for path in (source, copy.path):
        assert np.abs(next(read_frames(path)).rgb.astype(int) - shots[0]).max() <= 3
        with av.open(path) as file:
            luma = np.frombuffer(bytes(next(file.decode(video=0)).planes[0]), np.uint8)[0]
        y = (0.299 * 200 + 0.587 * 120 + 0.114 * 40) / 255  # ITU-R BT.601, what players assume at this size
        assert abs(int(luma) - (255 * y if full else 16 + 219 * y)) <= 2
    assert copy.colour.range == (2 if full else 1)


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((47, 63), {"codec": "libvpx-vp9"}),
        ((47, 63), {"codec": "mpeg4"}),
        ((47, 63), {"pixels": "yuv444p"}),
        ((47, 63), {"codec": "ffv1"}),
        ((1, 1), {"codec": "libvpx-vp9"}),
        ((1, 1), {"codec": "ffv1"}),
    ],
)
def test_odd_sizes_are_kept(tmp_path, size, options):
    source = film(tmp_path / "a.mkv", pictures(3, *size), **options)
    _, written, copy = again(source, tmp_path / "b.mkv")
    assert (copy.height, copy.width) == size
    assert written.frames == len(list(read_frames(copy.path))) == 3


def test_ten_bits_stay_ten_bits_with_a_note(tmp_path):
    clip, written, copy = again(
        film(tmp_path / "a.mp4", pictures(3), pixels="yuv420p10le"), tmp_path / "b.mp4"
    )
    assert (clip.bit_depth, copy.bit_depth, copy.pixel_format) == (10, 10, "yuv420p10le")
    assert written.notes == ("Colours were rounded from 10 to 8 bits.",)


def test_wide_pixels_stay_wide_and_turn_with_the_picture(tmp_path):
    clip = dataclasses.replace(probe_video(film(tmp_path / "a.mp4", pictures(3))), aspect=Fraction(4, 3))
    write_video(clip, tmp_path / "b.mp4", read_frames(clip.path))
    assert probe_video(tmp_path / "b.mp4").aspect == Fraction(4, 3)


def test_a_stream_that_changes_its_size_is_written_at_its_first(tmp_path):
    small = [film(tmp_path / f"{i}.ts", pictures(5, 48 * i, 64 * i)) for i in (1, 2)]
    joined = tmp_path / "a.ts"
    joined.write_bytes(b"".join(path.read_bytes() for path in small))
    lost: list[str] = []
    assert {f.rgb.shape for f in read_frames(joined, broken=lost)} == {(48, 64, 3)}


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_kept_sound_is_the_same_to_the_last_bit(tmp_path, suffix):
    source = film(
        tmp_path / f"a{suffix}", sounds=[("aac", "mono"), ("aac", "stereo")], seconds=2
    )  # the sound is longer than the pictures
    _, written, copy = again(source, tmp_path / f"b{suffix}")
    for stream in (0, 1):
        assert sound_of(source, stream) == sound_of(copy.path, stream)
    assert [s.channels for s in copy.audio_streams] == [1, 2]
    assert len(heard(copy.path)) >= 2 * 48_000
    assert any("people can be recognised by them" in note for note in written.notes)


def test_sound_of_old_files_that_only_count_their_channels_is_kept(tmp_path):
    source = film(tmp_path / "a.avi", pictures(5), codec="mpeg4", sounds=[("pcm_s16le", "stereo")])
    _, _, copy = again(source, tmp_path / "b.mp4")
    assert np.array_equal(heard(source), heard(copy.path))


def test_sound_of_old_files_can_be_disguised(tmp_path):
    source = film(tmp_path / "a.avi", pictures(5), codec="mpeg4", sounds=[("pcm_s16le", "stereo")], seconds=1)
    _, _, copy = again(source, tmp_path / "b.mp4", audio="disguise")
    assert (copy.audio_streams[0].codec, copy.audio_streams[0].channels) == ("aac", 2)
    assert abs(len(heard(copy.path)) - 48_000) <= 1024


def test_hevc_has_the_tag_that_plays_everywhere(tmp_path):
    source = film(
        tmp_path / "a.mkv", pictures(3), codec="libx265", options=[("x265-params", "log-level=none")]
    )
    _, _, copy = again(source, tmp_path / "b.mp4")
    with av.open(copy.path) as file:
        assert file.streams.video[0].codec_context.codec_tag == "hvc1"


def test_sound_can_be_dropped(tmp_path):
    source = film(tmp_path / "a.mp4", pictures(5), sounds=[("aac", "mono")])
    _, written, copy = again(source, tmp_path / "b.mp4", audio="drop")
    assert (copy.audio_streams, written.notes) == ((), ("The audio was left out.",))


@pytest.mark.parametrize(
    ("suffix", "codec", "sound"), [(".mp4", "libx264", "aac"), (".webm", "libvpx-vp9", "libopus")]
)
def test_disguised_sound_has_another_pitch_and_the_same_length(tmp_path, suffix, codec, sound):
    source = film(
        tmp_path / f"a{suffix}",
        pictures(5),
        codec=codec,
        sounds=[(sound, "mono"), (sound, "stereo")],
        seconds=2,
    )
    _, written, copy = again(source, tmp_path / f"b{suffix}", audio="disguise")
    steps = []
    for stream in (0, 1):
        before, after = heard(source, stream), heard(copy.path, stream)
        assert abs(len(before) - len(after)) <= 1024  # one packet of the codec
        steps.append(12 * np.log2(pitch_of(after) / pitch_of(before)))
    assert 2.8 < abs(steps[0]) < 5.2
    assert steps[1] == pytest.approx(steps[0], abs=0.2)
    assert any("no guarantee" in note for note in written.notes)
    assert metadata_of_video(copy.path) == []


def test_nothing_of_the_metadata_is_left(tmp_path):
    for suffix in (".mp4", ".mkv"):
        source = film(tmp_path / f"a{suffix}", pictures(5), secrets=True, sounds=[("aac", "mono")])
        assert {"tags", "encoder notes"} <= set(metadata_of_video(source)), suffix
        assert SECRET.encode() in source.read_bytes()
        _, _, copy = again(source, tmp_path / f"b{suffix}")
        assert metadata_of_video(copy.path) == []
        for trace in (SECRET.encode(), b"48.85", b"x264", b"fra\0"):
            assert trace not in copy.path.read_bytes()
        with av.open(copy.path) as file:
            assert not file.chapters()


def test_other_streams_are_left_out_and_told(tmp_path):
    source = tmp_path / "a.mkv"
    with av.open(source, "w") as out:
        big, small = out.add_stream("mpeg4", 25), out.add_stream("mpeg4", 25)
        big.width, big.height, small.width, small.height = 64, 48, 32, 32
        out.add_attachment("secret.txt", "text/plain", SECRET.encode())
        for stream, height, width in ((big, 48, 64), (small, 32, 32)):
            for index, shot in enumerate(pictures(3, height, width)):
                frame = av.VideoFrame.from_ndarray(shot).reformat(format="yuv420p")
                frame.pts, frame.time_base = index, Fraction(1, 25)
                out.mux(stream.encode(frame))
            out.mux(stream.encode(None))
    assert "attachments" in metadata_of_video(source)
    clip, written, copy = again(source, tmp_path / "b.mkv")
    assert (clip.width, clip.other_streams, copy.other_streams) == (64, ("video", "attachment"), ())
    assert written.notes == ("Left out: attachment, video.",)
    assert SECRET.encode() not in copy.path.read_bytes()


def test_quality_changes_the_size(tmp_path):
    source = film(tmp_path / "a.mp4", pictures(10), options=[("crf", "1")])
    sizes = []
    for quality in (0, 50, None, 100):
        _, _, copy = again(source, tmp_path / f"{quality}.mp4", quality=quality)
        sizes.append(copy.path.stat().st_size)
    assert all(less < more for less, more in pairwise(sizes))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"quality": 101}, "0 to 100"),
        ({"audio": "louder"}, "audio must be one of"),
        ({"target": "b.avi"}, "Videos are written as"),
        ({"target": "a.mp4"}, "exists already"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, says):
    source = film(tmp_path / "a.mp4", pictures(3))
    target = tmp_path / options.pop("target", "b.mp4")
    with pytest.raises(UsageError, match=says):
        again(source, target, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_sound_that_does_not_fit_the_file_is_refused(tmp_path):
    source = film(tmp_path / "a.mp4", pictures(3), sounds=[("aac", "mono")])
    with pytest.raises(InputError, match=r"aac cannot be copied.*\.mkv"):
        again(source, tmp_path / "b.webm")


def missing_one(shots):
    return (frame for frame in shots if frame.index != 2)


def too_small(shots):
    return (dataclasses.replace(frame, rgb=frame.rgb[1:]) for frame in shots)


def stopped(shots):
    yield next(shots)
    raise KeyboardInterrupt


def full_disk(shots):
    yield next(shots)
    raise OSError(28, os.strerror(28))


def unreadable(shots):
    yield next(shots)
    raise OSError(5, os.strerror(5))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (missing_one, UsageError, "none left out: 2 is expected. Got 3"),
        (too_small, UsageError, r"must be \(48, 64, 3\) uint8. Got \(47, 64, 3\)"),
        (lambda shots: iter(()), InputError, "no frame to write"),
        (stopped, KeyboardInterrupt, None),
        (full_disk, KSameError, "The disk is full"),
        (unreadable, KSameError, "could not be written"),
    ],
)
def test_whatever_goes_wrong_no_half_file_is_left(tmp_path, change, error, says):
    source = film(tmp_path / "a.mp4", pictures(5), sounds=[("aac", "mono")])
    with pytest.raises(error, match=says):
        write_video(probe_video(source), tmp_path / "b.mp4", change(read_frames(source)))
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_what_is_no_video_is_refused_in_one_sentence(tmp_path):
    def refused(name, says):
        for read in (probe_video, lambda path: list(read_frames(path))):
            with pytest.raises(InputError, match=says) as error:
                read(tmp_path / name)
            assert str(error.value).count(". ") == 0 and str(error.value).endswith(".")

    for kind in ("png", "jpeg", "webp", "tiff"):
        Image.fromarray(pictures(1)[0]).save(tmp_path / f"{kind}.mp4", format=kind)
        refused(f"{kind}.mp4", "damaged or not a video")
    Image.fromarray(pictures(1)[0]).save(tmp_path / "gif.mp4", format="gif")
    refused("gif.mp4", "a still image, not a video")
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"
    whole = film(tmp_path / "whole.mp4", pictures(3)).read_bytes()
    (tmp_path / "heic.mp4").write_bytes(heic + whole[int.from_bytes(whole[:4], "big") :])
    refused("heic.mp4", "a still image, not a video")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("hello\n" * 1000)
    (tmp_path / "list.mp4").write_text("#EXTM3U\n#EXTINF:1,\nwhole.mp4\n")
    (tmp_path / "concat.mp4").write_text("ffconcat version 1.0\nfile 'whole.mp4'\n")
    (tmp_path / "moov.mp4").write_bytes(whole[: len(whole) // 2])
    for name in ("empty", "text", "list", "concat", "moov"):
        refused(f"{name}.mp4", "damaged or not a video")
    refused("none.mp4", "not a file")


def test_sound_alone_is_no_video(tmp_path):
    path = tmp_path / "a.mp4"
    with av.open(path, "w") as out:
        voice = out.add_stream("aac", 48_000)
        voice.codec_context.layout = "mono"
        for part in tones(440, 1, "mono"):
            out.mux(voice.encode(part))
        out.mux(voice.encode(None))
    with pytest.raises(InputError, match="no video stream"):
        probe_video(path)


def test_a_video_without_pictures_is_refused(tmp_path):
    path = tmp_path / "a.mkv"
    with av.open(path, "w") as out:
        video, voice = out.add_stream("mpeg4", 25), out.add_stream("aac", 48_000)
        video.width, video.height, voice.codec_context.layout = 64, 48, "mono"
        for part in tones(440, 1, "mono"):
            out.mux(voice.encode(part))
        out.mux(voice.encode(None))
    with pytest.raises(InputError, match="no frame of it can be decoded"):
        probe_video(path)


def noisy(count=60):
    return [np.random.default_rng(i // 3).integers(0, 255, (48, 64, 3), np.uint8) for i in range(count)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.mkv", {}),
        ("a.ts", {}),
        ("a.mp4", {"movflags": "faststart"}),
        ("a.webm", {"codec": "libvpx-vp9"}),
        ("a.avi", {"codec": "mpeg4"}),
    ],
)
def test_of_a_file_cut_short_the_good_part_is_kept_and_the_loss_is_told(tmp_path, name, options):
    path = film(tmp_path / name, noisy(), options=[("g", "12")], **options)
    whole = [frame.rgb for frame in read_frames(path)]
    assert len(whole) == 60
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10 | 1])
    lost: list[str] = []
    good = list(read_frames(path, broken=lost))
    assert 10 < len(good) < 45
    assert all(np.array_equal(frame.rgb, rgb) for frame, rgb in zip(good, whole, strict=False))
    assert len(lost) == 1 and "is damaged" in lost[0]
    some = []
    with pytest.raises(InputError, match="is damaged"):
        some += iter(read_frames(path))  # the list grows before the error comes
    assert write_video(probe_video(path), tmp_path / "b.mkv", read_frames(path, broken=[])).frames == len(
        good
    )


@pytest.mark.parametrize(("codec", "cuts"), [("libx264", "0"), ("mpeg4", "1000000000")])  # none is seen
def test_damage_in_the_middle_costs_the_pictures_up_to_the_next_that_stands_alone(tmp_path, codec, cuts):
    path = film(
        tmp_path / "a.mp4",
        noisy(),
        codec=codec,
        options=[("g", "12"), ("bf", "0"), ("sc_threshold", cuts)],
    )
    whole = list(read_frames(path))
    with av.open(path) as file:
        packet = [packet for packet in file.demux(video=0) if packet.size][30]
    data = bytearray(path.read_bytes())
    data[packet.pos : packet.pos + packet.size] = b"\xff" * packet.size
    path.write_bytes(data)
    lost: list[str] = []
    good = list(read_frames(path, broken=lost))
    assert [frame.time * 25 for frame in good] == [*range(30), *range(36, 60)]
    assert [frame.index for frame in good] == list(range(54))
    assert lost == [f"{str(path)!r} is damaged: 6 of 60 frames were lost after the first 30."]
    written = write_video(probe_video(path), tmp_path / "b.mp4", good)
    assert (written.frames, written.duration) == (54, Fraction(60, 25))  # the clock runs on
    assert all(np.array_equal(f.rgb, whole[int(f.time * 25)].rgb) for f in good)


def test_a_recording_that_begins_in_the_middle_starts_at_its_first_whole_picture(tmp_path):
    path = film(tmp_path / "a.ts", noisy(40), options=[("g", "12"), ("bf", "0"), ("sc_threshold", "0")])
    whole = [frame.rgb for frame in read_frames(path)]
    data = path.read_bytes()
    path.write_bytes(
        data[: 188 * 3] + data[len(data) // 5 // 188 * 188 :]
    )  # the tables of streams come first
    lost: list[str] = []
    good = list(read_frames(path, broken=lost))
    assert len(good) == 28 and len(lost) == 1
    assert all(np.array_equal(f.rgb, rgb) for f, rgb in zip(good, whole[12:], strict=True))


def test_too_many_pixels_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ksame.io.video.MAX_PIXELS", 64 * 48 - 1)
    with pytest.raises(InputError, match="million pixels"):
        probe_video(film(tmp_path / "a.mp4", pictures(3)))


def test_a_hole_in_an_even_clock_is_told(tmp_path):
    lost: list[str] = []
    path = film(tmp_path / "a.mkv", pictures(30), times=[*range(20), *range(28, 38)])
    assert len(list(read_frames(path, broken=lost))) == 30
    assert lost == [f"{str(path)!r} may be damaged: there is no new frame from 0.76 to 1.12 s."]


def test_damaged_sound_is_told_and_the_rest_is_as_long(tmp_path):
    path = film(tmp_path / "a.mp4", pictures(30), sounds=[("aac", "mono")])
    with av.open(path) as file:
        packet = [packet for packet in file.demux(audio=0) if packet.size][20]
    data = bytearray(path.read_bytes())
    data[packet.pos : packet.pos + packet.size] = b"\xff" * packet.size
    path.write_bytes(data)
    _, kept, copy = again(path, tmp_path / "keep.mp4")
    assert sound_of(path) == sound_of(copy.path) and len(kept.notes) == 1  # copied as it is
    _, disguised, copy = again(path, tmp_path / "disguise.mp4", audio="disguise")
    assert disguised.notes[1:] == ("The audio is damaged: some of it was lost.",)
    assert len(heard(copy.path)) == pytest.approx(1.2 * 48_000, abs=1024)


def test_sound_that_breaks_off_is_kept_up_to_there(tmp_path):
    path = film(tmp_path / "a.mp4", pictures(30), sounds=[("aac", "mono")], movflags="faststart")
    path.write_bytes(path.read_bytes()[:-1500])
    for audio in ("keep", "disguise"):
        written = write_video(
            probe_video(path), tmp_path / f"{audio}.mp4", read_frames(path, broken=[]), audio=audio
        )
        assert written.frames > 20
        assert len(sound_of(tmp_path / f"{audio}.mp4")) > 10


def test_a_file_without_an_outline_is_never_called_cut(tmp_path):
    assert not is_truncated(film(tmp_path / "a.ts", pictures(3)))


def test_metadata_of_what_is_no_video_or_cut_is_refused(tmp_path):
    (tmp_path / "a.mp4").write_text("hello")
    with pytest.raises(InputError, match="Only MP4"):
        metadata_of_video(tmp_path / "a.mp4")
    for suffix in (".mp4", ".mkv"):
        path = film(tmp_path / f"b{suffix}", pictures(3))
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(InputError, match="ends too early"):
            metadata_of_video(path)


def test_reading_and_writing_go_hand_in_hand(tmp_path):
    """No more frames are in memory than the threads of decoder and encoder hold: far fewer than 200."""
    path = film(tmp_path / "a.mp4", pictures(200))
    frames, in_memory = [], []

    def watched():
        for frame in read_frames(path, threads=1):
            frames.append(weakref.ref(frame.rgb))
            in_memory.append(sum(seen() is not None for seen in frames))
            yield frame

    assert write_video(probe_video(path), tmp_path / "b.mp4", watched(), threads=1).frames == 200
    assert len(in_memory) == 200 and max(in_memory) < 60


def as_written(source, frame):
    """The planes that an encoder is given of a frame, if it takes those of the source."""
    clip = probe_video(source)
    image = to_encoder_frame(frame, clip, clip.pixel_format.replace("yuvj", "yuv"), VideoReformatter())
    assert (image.pts, image.duration, image.color_range) == (
        frame.pts,
        frame.duration,
        clip.colour.range,
    )
    return [plane.astype(int) for plane in frame_planes(image)]


def whole_blocks(box, plane, luma):
    """The part of a plane that holds the colours of a box."""
    y, x = (all_ // some for all_, some in zip(luma.shape, plane.shape, strict=True))
    left, top, right, bottom = box[0] // 2 * 2, box[1] // 2 * 2, -(-box[2] // 2) * 2, -(-box[3] // 2) * 2
    return np.s_[top // y : bottom // y, left // x : right // x]


@pytest.mark.parametrize("pixels", ["yuv420p", "yuv422p", "yuv444p"])
@pytest.mark.parametrize("box", [(10, 8, 30, 28), (11, 7, 31, 29), (0, 0, 9, 5), (41, 31, 64, 48)])
def test_a_picture_is_new_in_its_boxes_and_as_the_file_has_it_elsewhere(tmp_path, box, pixels):
    source = film(tmp_path / "a.mkv", pictures(2), pixels=pixels)
    frame = next(read_frames(source, source=True))
    old, (left, top, right, bottom) = frame_planes(frame.source), box
    before = [plane.copy() for plane in old]
    frame.rgb[top:bottom, left:right] = 30, 90, 200
    whole = as_written(source, frame)
    part = as_written(source, dataclasses.replace(frame, changed_boxes=(box,)))
    for some, all_, was in zip(part, whole, old, strict=True):
        here = whole_blocks(box, was, old[0])
        inside = some[here][1:-1, 1:-1]  # at its edge the colours of whole pictures mix with those beyond
        assert np.abs(inside - all_[here][1:-1, 1:-1]).max() <= 1
        some[here] = was[here]
        np.testing.assert_array_equal(some, was)
    for plane, was in zip(frame_planes(frame.source), before, strict=True):
        np.testing.assert_array_equal(plane, was, "the decoder's own is not drawn into")


def test_boxes_that_overlap_are_all_new_and_without_any_nothing_is(tmp_path):
    source = film(tmp_path / "a.mkv", pictures(2), pixels="yuv444p")
    frame = next(read_frames(source, source=True))
    old = frame_planes(frame.source)
    frame.rgb[8:40, 8:40] = 30, 90, 200
    for plane, was in zip(as_written(source, dataclasses.replace(frame, changed_boxes=())), old, strict=True):
        np.testing.assert_array_equal(plane, was)
    boxes = (8, 8, 30, 40), (21, 8, 40, 40)
    part, whole = (
        as_written(source, dataclasses.replace(frame, changed_boxes=boxes)),
        as_written(source, frame),
    )
    for some, all_ in zip(part, whole, strict=True):
        np.testing.assert_array_equal(some[8:40, 8:40], all_[8:40, 8:40])


@pytest.mark.parametrize("pixels", ["yuv420p", "yuv422p", "yuv444p"])
def test_a_box_in_which_nothing_was_changed_is_not_seen(tmp_path, pixels):
    """Colours that are a level darker than those around them show as a rectangle."""
    y, x = np.mgrid[:96, :128]
    shot = np.stack([60 + x, 70 + y, 150 - x // 2 - y // 4], axis=2).astype(np.uint8)
    source = film(tmp_path / "a.mkv", [shot] * 2, pixels=pixels)
    frame = next(read_frames(source, source=True))
    new = as_written(source, dataclasses.replace(frame, changed_boxes=((0, 0, 128, 96),)))
    for plane, was in zip(new, frame_planes(frame.source), strict=True):
        assert np.abs(plane - was).max() <= 1
        assert abs((plane - was).mean()) < 0.1


def test_a_picture_that_is_new_in_part_is_written(tmp_path):
    source = film(tmp_path / "a.mp4", pictures(3))
    drawn = []
    for frame in read_frames(source, source=True):
        frame.rgb[20:30, 20:40] = 30, 90, 200
        drawn.append(dataclasses.replace(frame, changed_boxes=((20, 20, 40, 30),)))
    written = write_video(probe_video(source), tmp_path / "b.mp4", drawn, quality=100)
    assert written.frames == 3
    assert apart(drawn, read_frames(tmp_path / "b.mp4")) < 2


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((48, 64), {"turn": 90}),
        ((48, 64), {"turn": 180}),
        ((48, 64), {"turn": 0, "mirror": True}),
        ((48, 64), {"pixels": "yuv420p10le"}),
        ((48, 64), {"full": True}),
        ((47, 63), {"pixels": "yuv444p"}),
        ((48, 63), {"pixels": "yuv444p"}),
    ],
)
def test_what_cannot_be_written_as_the_file_has_it_is_written_whole(tmp_path, size, options):
    suffix = ".mp4" if "turn" in options else ".mkv"
    source = film(tmp_path / f"a{suffix}", pictures(3, *size), **options)
    plain = list(read_frames(source))
    shots = list(read_frames(source, source=True))
    assert all(frame.source is None for frame in shots)
    assert apart(plain, shots) == 0
    write_video(probe_video(source), tmp_path / "b.mkv", plain)
    new = [dataclasses.replace(frame, changed_boxes=()) for frame in shots]
    write_video(probe_video(source), tmp_path / "c.mkv", new)
    assert apart(read_frames(tmp_path / "b.mkv"), read_frames(tmp_path / "c.mkv")) == 0


def test_pictures_of_another_size_than_the_first_are_written_whole(tmp_path):
    small = [film(tmp_path / f"{i}.ts", pictures(5, 48 * i, 64 * i)) for i in (1, 2)]
    joined = tmp_path / "a.ts"
    joined.write_bytes(b"".join(path.read_bytes() for path in small))
    shots = list(read_frames(joined, broken=[], source=True))
    assert shots[0].source is not None and shots[-1].source is None
    new = [dataclasses.replace(frame, changed_boxes=()) for frame in shots]
    assert write_video(probe_video(joined), tmp_path / "b.mp4", new).frames == len(shots)
    assert apart(shots, read_frames(tmp_path / "b.mp4")) < 5


def test_pixels_that_cannot_be_written_are_written_whole(tmp_path):
    source = film(tmp_path / "a.mkv", pictures(3), codec="ffv1", pixels="yuv422p")
    shots = [dataclasses.replace(frame, changed_boxes=()) for frame in read_frames(source, source=True)]
    assert shots[0].source is not None
    image = to_encoder_frame(shots[0], probe_video(source), "yuv420p", VideoReformatter())
    assert image.format.name == "yuv420p"


def test_only_who_asks_for_the_source_gets_it(tmp_path):
    source = film(tmp_path / "a.mp4", pictures(2))
    assert next(read_frames(source)).source is None
    assert apart(read_frames(source), read_frames(source, source=True)) == 0
