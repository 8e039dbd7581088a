"""Render a video frame by frame when its place in the release is known."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
from threadpoolctl import threadpool_limits

from ksame import io
from ksame.analysis.residual import residual_faces
from ksame.analysis.tracking.mesh_store import iterate_chunks
from ksame.analysis.tracking.track import (
    Track,
)
from ksame.core.arrays import FloatArray, ProgressCallback
from ksame.core.context import Context
from ksame.core.errors import Failure, InputError
from ksame.core.faces import FaceView
from ksame.core.parallel import prefetch, prefetch_count
from ksame.methods.shift.method import VIEWS_PER_PERSON
from ksame.release import MakingNotes, ResidualRecord
from ksame.render import blend, cover
from ksame.render.overlay.face_overlay import FaceOverlay, Texture
from ksame.render.overlay.frame_code import encode_frame, reanchor, smooth_codes
from ksame.render.overlay.views import evenly_spaced
from ksame.render.tone import is_monochrome, to_tone

SMOOTHING_REACH_FRAMES = 3  # on either side of a frame whose code is smoothed
CODE_AHEAD_FRAMES = 2  # encoded in advance, so that drawing does not wait for codes
TRACK_BLOCK_FRAMES = 32  # frames whose tracks are looked up together
# Threads of decoder and encoder: two cores are busy already, and more threads only take turns
CODEC_THREADS = 1 if (os.cpu_count() or 1) <= 2 else 0
NO_FACE_NOTE = "No face was found in it: every frame is unchanged."


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run BLAS and OpenCV in the calling thread: frames are processed in parallel already."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        cv2.setNumThreads(before)


FrameCodes = Future[dict[int, FloatArray]]
"""The codes of the faces in a frame that will be drawn, by track number."""


class ScannedVideo(NamedTuple):
    """A video and the faces in it."""

    name: str
    clip: io.Clip
    tracks: tuple[Track, ...]
    frames: int  # that could be read


def frame_progress(progress: ProgressCallback | None, stage: str, frames: int) -> Any:
    """Return a callback that takes the number of frames done; the total is an estimate."""
    return (
        None if progress is None else lambda done: progress(stage, min(done, max(frames, 1)), max(frames, 1))
    )


@dataclass(frozen=True, eq=False)
class RenderedVideo:
    """A video that is drawn when its place in the release is known."""

    video: ScannedVideo
    faces: Mapping[str, FaceOverlay | None]
    texture: Texture
    audio: Literal["keep", "drop", "disguise"]
    quality: int | None
    context: Context

    def make(self, path: Path) -> MakingNotes:
        """Write the video, unless a run that was stopped did; return what came to light."""
        checkpoint = self.context.checkpoint
        if checkpoint is None:
            return self._filmed(path)
        key = self._key()
        known = checkpoint.load_video(key, path)
        if known is not None:
            untouched, notes = known
            return MakingNotes(tuple(ResidualRecord(*one) for one in untouched), tuple(notes))
        made = self._filmed(path)
        if not made.failures:
            checkpoint.store_video(key, path, [made.untouched, made.notes])
        return made

    def _key(self) -> str:
        """Return a hash of all that the video is made from: the file, the tracks, the faces, how."""
        stat = self.video.clip.path.stat()
        how = (self.texture, self.audio, self.quality, stat.st_size, stat.st_mtime_ns, version("ksame"))
        key = hashlib.sha256(repr((how, self.video.frames)).encode())
        for track in self.video.tracks:
            key.update(repr((track.person, track.start, track.keep, track.state.tolist())).encode())
            mask = self.faces[track.person]
            drawn = [] if mask is None else [getattr(mask, part.name) for part in fields(mask)]
            # without the model, which is the version's
            for array in chain([track.box], iterate_chunks(track.shape), drawn[1:]):
                key.update(np.ascontiguousarray(array).tobytes())
        return key.hexdigest()

    def _filmed(self, path: Path) -> MakingNotes:
        """Write the video; return where a second detector still saw an untouched face, and what to know."""
        untouched: list[ResidualRecord] = []
        frames = prefetch(io.read_frames(self.video.clip.path, broken=[], threads=CODEC_THREADS, source=True))
        try:
            with single_threaded():
                written = io.write_video(
                    self.video.clip,
                    path,
                    self._drawn(frames, untouched),
                    audio=self.audio,
                    quality=self.quality,
                    threads=CODEC_THREADS,
                )
        except InputError as error:  # the others are released all the same
            return MakingNotes(failures=(Failure(self.video.name, str(error)),))
        nobody = () if self.video.tracks else (NO_FACE_NOTE,)
        return MakingNotes(tuple(untouched), (*written.notes, *nobody))

    def _drawn(
        self, frames: Iterable[io.ClipFrame], untouched: list[ResidualRecord]
    ) -> Iterator[io.ClipFrame]:
        """Yield the frames with new faces, a few prepared in advance and in parallel."""
        tell = frame_progress(self.context.progress, f"drawing {self.video.name}", self.video.frames)
        workers = self.context.jobs or 2
        size = 3 * self.video.clip.width * self.video.clip.height
        most = prefetch_count(size, least=workers, max_count=2 * workers)
        with ThreadPoolExecutor(workers) as pool:
            ready: deque[Future[tuple[io.ClipFrame, FloatArray]]] = deque()
            for frame, codes in self._coded(frames, pool):
                ready.append(pool.submit(self._finish, frame, codes))
                if len(ready) > most:
                    yield self._done(ready.popleft(), untouched, tell)
            while ready:
                yield self._done(ready.popleft(), untouched, tell)

    def _done(
        self, work: Future[tuple[io.ClipFrame, FloatArray]], untouched: list[ResidualRecord], progress: Any
    ) -> io.ClipFrame:
        frame, left = work.result()
        seconds = round(float(frame.time), 3)
        untouched += [
            ResidualRecord("", frame.index, seconds, " ".join(f"{edge:.0f}" for edge in box)) for box in left
        ]
        if progress:
            progress(frame.index + 1)
        return frame

    def _coded(
        self, frames: Iterable[io.ClipFrame], pool: ThreadPoolExecutor
    ) -> Iterator[tuple[io.ClipFrame, list[FrameCodes | None]]]:
        """Yield each frame with the codes of itself, in the middle, and of its neighbours in time."""
        waiting: deque[io.ClipFrame] = deque()
        codes: deque[FrameCodes | None] = deque([None] * SMOOTHING_REACH_FRAMES)

        def first() -> tuple[io.ClipFrame, list[FrameCodes | None]]:
            near = list(islice(codes, 2 * SMOOTHING_REACH_FRAMES + 1))
            codes.popleft()
            return waiting.popleft(), near

        for frame in frames:
            waiting.append(frame)
            codes.append(pool.submit(self._codes, frame))
            if len(waiting) > SMOOTHING_REACH_FRAMES + CODE_AHEAD_FRAMES:
                yield first()
        codes.extend([None] * SMOOTHING_REACH_FRAMES)
        while waiting:
            yield first()

    def _codes(self, frame: io.ClipFrame) -> dict[int, FloatArray]:
        """Return gamma' of every face of a frame that will be drawn, by track number."""
        codes = {}
        for number, track in self._there(frame):
            mask = self.faces[track.person]
            if not track.keep and mask is not None and track.drawn[frame.index - track.start]:
                codes[number] = encode_frame(mask.model, FaceView(frame.rgb, track.mesh(frame.index)))
        return codes

    def _there(self, frame: io.ClipFrame) -> list[tuple[int, Track]]:
        """Return the tracks in a frame, with their numbers."""
        some = self._blocks.get(frame.index // TRACK_BLOCK_FRAMES, ())
        return [(n, self.video.tracks[n]) for n in some if frame.index in self.video.tracks[n].frames]

    @cached_property
    def _blocks(self) -> dict[int, list[int]]:
        """The tracks in each block of frames: to ask all of them about each frame would take long."""
        blocks: dict[int, list[int]] = {}
        for number, track in enumerate(self.video.tracks):
            for block in range(track.start // TRACK_BLOCK_FRAMES, track.frames[-1] // TRACK_BLOCK_FRAMES + 1):
                blocks.setdefault(block, []).append(number)
        return blocks

    @cached_property
    def _monochrome(self) -> bool:
        """Whether the video has no colour, by some frames with faces: decided once, so that none flickers."""
        with_faces = sorted({index for track in self.video.tracks for index in track.frames})
        some = io.read_frames_at(
            self.video.clip.path, evenly_spaced(with_faces, VIEWS_PER_PERSON), self.video.frames
        )
        return bool(with_faces) and all(is_monochrome(frame.rgb) for frame in some)

    def _finish(
        self, frame: io.ClipFrame, near: Sequence[FrameCodes | None]
    ) -> tuple[io.ClipFrame, FloatArray]:
        """Draw or cover every face of a frame, and check it with a second detector."""
        rgb = frame.rgb  # its codes are made before anything is drawn, and nobody else looks at it
        original = rgb.copy() if self._monochrome else rgb
        boxes, hidden, new = [], [], list[blend.Box]()
        for number, track in self._there(frame):
            box = track.box[frame.index - track.start]
            boxes.append(box)
            if track.keep:
                continue
            codes = [coded.result().get(number) if coded else None for coded in near]
            mask, code = self.faces[track.person], codes[SMOOTHING_REACH_FRAMES]
            if mask is None or code is None:
                hidden.append(box)
                continue
            seen = [one is not None for one in codes]
            filled = np.stack([code if one is None else one for one in codes])
            smoothed = reanchor(smooth_codes(filled, seen)[SMOOTHING_REACH_FRAMES], code, mask.model)
            new += mask.draw_on(rgb, track.mesh(frame.index), smoothed, texture=self.texture)
        new += cover.cover_in_place(rgb, np.array(hidden).reshape(-1, 4))
        if self._monochrome:
            rgb[:] = to_tone(rgb, original)
        covered = np.array(boxes).reshape(-1, 4)
        return replace(frame, changed_boxes=tuple(new)), residual_faces(rgb, covered, frame.index)
