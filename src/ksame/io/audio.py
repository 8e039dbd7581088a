"""The audio of a video: copied bit for bit, or shifted in pitch."""

from __future__ import annotations

import hashlib
import heapq
import secrets
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer, OutputContainer
from av.error import FFmpegError
from av.filter import Graph
from av.packet import Packet
from av.stream import Stream

from ksame.core.errors import InputError
from ksame.io.clip import Clip
from ksame.io.video import open_media

PITCH_SHIFTS_SEMITONES = (-5, -4, -3, 3, 4, 5)
DAMAGED_NOTE = "The audio is damaged: some of it was lost."


def audio_hashes(path: str | Path) -> tuple[str, ...]:
    """Return the sha256 of each audio stream's packets: equal hashes mean equal audio.

    Parameters
    ----------
    path : str or Path
        The video.
    """
    with open_media(Path(path)) as file:
        sums = {stream.index: hashlib.sha256() for stream in _streams(file)}
        try:
            for packet in file.demux([file.streams[index] for index in sums]) if sums else ():
                if packet.dts is not None:  # else it marks the end of a stream
                    data = bytes(packet)
                    sums[packet.stream_index].update(len(data).to_bytes(8, "little") + data)
        except FFmpegError:  # lost packets cannot be compared
            pass
    return tuple(one.hexdigest() for one in sums.values())


def copy_audio(clip: Clip, out: OutputContainer, notes: list[str]) -> Iterator[Packet[Stream]]:
    """Add copies of the audio streams to a file; return their packets unchanged, ready to be muxed."""
    with open_media(clip.path) as file:
        try:
            copies = {stream.index: _add_stream_copy(stream, out) for stream in _streams(file)}
        except ValueError as error:
            names = " and ".join(sorted({audio.codec for audio in clip.audio_streams}))
            raise InputError(
                f"Audio in {names} cannot be copied into this type of file:"
                " choose a target that ends in .mkv, or disguise or drop the audio."
            ) from error
    return _copy_packets(clip, copies, notes) if copies else iter(())  # an empty list would mean all streams


def disguise_audio(clip: Clip, out: OutputContainer, notes: list[str]) -> Iterator[Packet[Stream]]:
    """Add the audio streams to a file; return their packets, all shifted by the same random pitch."""
    ratio = 2 ** (secrets.choice(PITCH_SHIFTS_SEMITONES) / 12)
    codec = "libopus" if out.format.name == "webm" else "aac"
    rates = av.Codec(codec, "w").audio_rates or ()
    shifted = []
    with open_media(clip.path) as file:
        for stream in _streams(file):
            rate = stream.rate if stream.rate in rates else 48_000
            target = out.add_stream(codec, rate, options={"flags": "+bitexact"})
            assert isinstance(target, AudioStream)
            target.codec_context.layout = _layout(stream)
            shifted.append(_shift_pitch(clip, stream.index, target, ratio, notes))
    return heapq.merge(*shifted, key=_packet_time)


def _add_stream_copy(stream: AudioStream, out: OutputContainer) -> AudioStream:
    copy = out.add_stream_from_template(stream)
    copy.codec_context.layout = _layout(stream)
    return copy


def _layout(stream: AudioStream) -> str:
    """Return the channel layout; old files state the number of channels only."""
    return {"1 channels": "mono", "2 channels": "stereo"}.get(stream.layout.name, stream.layout.name)


def _streams(file: InputContainer) -> list[AudioStream]:
    return [stream for stream in file.streams.audio if stream.codec_context is not None]


def _packet_time(packet: Packet[Stream]) -> Fraction:
    return (packet.dts or 0) * packet.time_base


def _copy_packets(clip: Clip, copies: dict[int, AudioStream], notes: list[str]) -> Iterator[Packet[Stream]]:
    last: dict[int, int] = {}
    lost = False
    with open_media(clip.path) as file:
        try:
            for packet in file.demux([file.streams[index] for index in copies]):
                if packet.dts is None:
                    continue  # the end of a stream
                if packet.dts <= last.get(packet.stream_index, packet.dts - 1):
                    lost = True  # no container accepts timestamps that do not increase
                    continue
                last[packet.stream_index] = packet.dts
                start = round(clip.start / packet.time_base)
                packet.dts -= start
                packet.pts = None if packet.pts is None else packet.pts - start
                packet.stream = copies[packet.stream_index]
                yield packet
        except FFmpegError:
            lost = True
    if lost:
        notes.append(DAMAGED_NOTE)


def _shift_pitch(
    clip: Clip, index: int, target: AudioStream, ratio: float, notes: list[str]
) -> Iterator[Packet[Stream]]:
    """Yield one stream at another pitch with exactly the same duration."""
    with open_media(clip.path) as file:
        stream = file.streams[index]
        assert isinstance(stream, AudioStream)
        rate = target.rate
        graph = _graph(stream, rate, ratio)
        begin, due, written = None, 0, 0  # samples
        for frame, is_original in _append_silence(_decode_audio(file, stream, notes)):
            if frame is not None and is_original:
                now = (frame.pts or 0) * (frame.time_base or 0) - clip.start
                begin = round(now * rate) if begin is None else begin
                due = round((now + Fraction(frame.samples, frame.sample_rate)) * rate) - begin
            graph.push(frame)
            for ready in _filtered_frames(graph):
                part = _truncate_frame(ready, due - written)
                part.pts, part.time_base = (begin or 0) + written, Fraction(1, rate)
                written += part.samples
                yield from target.encode(part) if part.samples else ()
        yield from target.encode(None)


def _graph(stream: AudioStream, rate: int, ratio: float) -> Graph:
    graph = Graph()
    graph.link_nodes(
        graph.add_abuffer(template=stream),
        graph.add("aresample", f"{stream.rate}:async=1"),  # gaps become silence
        graph.add("asetrate", str(round(stream.rate * ratio))),  # changes pitch and duration
        graph.add("atempo", str(1 / ratio)),  # restores the duration
        graph.add("aresample", str(rate)),
        graph.add("aformat", f"sample_fmts=fltp:channel_layouts={_layout(stream)}"),
        graph.add("abuffersink"),
    )
    graph.configure()
    return graph


def _decode_audio(file: InputContainer, stream: AudioStream, notes: list[str]) -> Iterator[AudioFrame]:
    packets = file.demux(stream)
    while True:
        try:
            packet = next(packets, None)
            if packet is None:
                return
            yield from packet.decode()
        except FFmpegError:  # a damaged packet becomes silence; in a damaged file reading ends here
            if DAMAGED_NOTE not in notes:
                notes.append(DAMAGED_NOTE)


def _append_silence(frames: Iterator[AudioFrame]) -> Iterator[tuple[AudioFrame | None, bool]]:
    """Append silence and the end mark, which push the last samples out of the filters."""
    last = None
    for last in frames:
        yield last, True
    if last is not None:
        silence = AudioFrame(last.format.name, last.layout.name, last.sample_rate)
        for plane in silence.planes:
            plane.update(bytes(plane.buffer_size))
        silence.sample_rate, silence.time_base = last.sample_rate, last.time_base
        ticks = last.samples / (last.sample_rate * (last.time_base or Fraction(1, last.sample_rate)))
        silence.pts = (last.pts or 0) + round(ticks)
        yield silence, False
        yield None, False


def _filtered_frames(graph: Graph) -> Iterator[AudioFrame]:
    while True:
        try:
            frame = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            return
        assert isinstance(frame, AudioFrame)
        yield frame


def _truncate_frame(frame: AudioFrame, max_count: int) -> AudioFrame:
    """Return the first ``max_count`` samples of a frame of planar floats."""
    if frame.samples <= max_count:
        return frame
    samples = np.ascontiguousarray(frame.to_ndarray()[:, : max(0, max_count)], np.float32)
    part = AudioFrame.from_ndarray(samples, "fltp", frame.layout.name)
    part.sample_rate = frame.sample_rate
    return part
