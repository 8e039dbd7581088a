"""Videos as inputs of a run: faces are tracked through each, and one identity per person is drawn.

Each file is read twice, to track the faces and to draw; in between some views of each person are looked at
closely. What is in doubt is covered: only tracks decide, so that a detector that misses a frame exposes
nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.tracking.scan import scan_video
from ksame.analysis.tracking.track import (
    Track,
    annotate_tracks,
    build_tracks,
    find_kept_tracks,
    identify_tracks,
)
from ksame.analysis.tracking.track_file import refind_meshes, tracks_from_json, tracks_to_json
from ksame.core.context import Context
from ksame.core.errors import Failure, InputError, UsageError
from ksame.core.faces import FaceView
from ksame.core.folders import fit_name
from ksame.core.options import Options, option
from ksame.methods.base import Method, Plan
from ksame.models import runtime
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes, preload_landmarker
from ksame.models.recognisers import RECOGNISERS, embed
from ksame.pipeline.photos import Output
from ksame.pipeline.video_render import (
    CODEC_THREADS,
    RenderedVideo,
    ScannedVideo,
    frame_progress,
    single_threaded,
)
from ksame.release import MappingRow, Private, Release
from ksame.release.names import published_names
from ksame.render.overlay.renderer import OverlayRenderer
from ksame.render.overlay.views import sample_views

__all__ = ["IdentifiedVideos", "Videos"]

SURROUNDINGS_ASSUMPTION = "hair, ears, body, voice, place and way of moving are still there"
KEPT_PEOPLE_ASSUMPTION = "some people were asked to stay visible, and are shown as they are"
PITCH_ASSUMPTION = "the changed pitch of the sound is no guarantee"
DETECTORS = ("yunet", "mesh", "blazeface")


@dataclass(frozen=True, eq=False)
class IdentifiedVideos:
    """Videos whose faces have been tracked and given their persons."""

    clips: tuple[ScannedVideo, ...]
    failures: tuple[Failure, ...]
    recogniser: str  # that told people apart
    context: Context

    @property
    def tracks(self) -> list[tuple[ScannedVideo, Track]]:
        """All tracks, with their videos."""
        return [(clip, track) for clip in self.clips for track in clip.tracks]

    @property
    def subject(self) -> NDArray[np.str_]:
        """The person of each track."""
        return np.array([track.person for _, track in self.tracks], str)

    def views(self, max_count: int) -> dict[str, list[FaceView]]:
        """Return up to so many views of each person who is replaced; networks that search are closed."""
        runtime.unload("yunet", "blazeface", "mesh")
        films = [(clip.clip.path, clip.frames, clip.tracks) for clip in self.clips]
        progress = frame_progress(self.context.progress, "looking closely", len(films))
        return sample_views(films, max_count=max_count, progress=progress)


@dataclass(frozen=True, kw_only=True)
class Videos(Options):
    """The videos of a run, and what is done with sound and visible people."""

    medium: ClassVar[str] = "videos"

    files: tuple[io.FoundFile, ...] = ()
    audio: Literal["keep", "drop", "disguise"] = option("keep", "The sound; disguise changes its pitch.")
    keep: Sequence[str | Path] = option((), "Photos of people who stay visible.", or_path=())
    quality: int | None = option(None, "Of the encoding, 0 to 100; by default no change should be visible.")
    tracks: str | Path | None = option(
        None, "Tracks corrected by hand: the folder PRIVATE/tracks of an earlier run.", or_path=()
    )

    def __post_init__(self) -> None:
        """Refuse a quality that there is not."""
        super().__post_init__()
        if self.quality is not None and not 0 <= self.quality <= 100:
            raise UsageError(f"quality must be an integer from 0 to 100. Got {self.quality}.")

    def identify(self, method: Method[Any], output: Output, context: Context) -> IdentifiedVideos:
        """Track the faces through every video, and say who each track is over all of them."""
        recogniser = context.verifiers[0]
        # Each network takes up to 100 MB, the slow one twice that while it is opened: those that search make
        # way for those that look closely.
        with single_threaded(), _preload_in_background("mesh", recogniser):
            clips, failures = self._scan(recogniser, context)
        return IdentifiedVideos(self._identify(clips, recogniser), failures, recogniser, context)

    def plan(self, people: IdentifiedVideos, method: Method[Any], context: Context) -> Plan:
        """Plan with the networks that look closely opened in the background."""
        slow_first = (*("landmarker", "gender", "age"), context.verifiers[-1], *context.verifiers)
        with single_threaded(), _preload_in_background(*slow_first):
            plan = method.plan(people, context)
        runtime.unload(*context.verifiers)
        return plan

    def release(
        self, people: IdentifiedVideos, plan: Plan, method: Method[Any], output: Output, context: Context
    ) -> Release:
        """Return the release that a plan makes of videos; each is rendered when it is written."""
        assert isinstance(plan.renderer, OverlayRenderer)  # no other method serves videos
        overlays = dict(
            zip(people.subject.tolist(), (plan.renderer.overlays[i] for i in plan.identity), strict=True)
        )
        clips = people.clips
        # names of their own: beside photos the same one would say which belong together
        names = published_names(
            [_output_name(clip) for clip in clips], names=output.names, seed=context.seed ^ 1
        )
        identity = dict(zip(people.subject.tolist(), plan.identity.tolist(), strict=True))
        rows = [
            MappingRow(clip.name, person, identity[person], name)
            for clip, name in zip(clips, names, strict=True)
            for person in dict.fromkeys(track.person for track in clip.tracks)
        ]
        rendered = {
            name: RenderedVideo(clip, overlays, plan.renderer.texture, self.audio, self.quality, context)
            for clip, name in zip(clips, names, strict=True)
        }
        kept = {track.person for _, track in people.tracks if track.keep}
        hidden = [track for _, track in people.tracks if not track.keep]
        drawn = sum(int(track.drawn.sum()) for track in hidden if overlays[track.person] is not None)
        guarantee = plan.guarantee
        for assumption in self._assumptions(people.recogniser, bool(kept)):
            guarantee = guarantee.lower(because=assumption)
        return Release(
            files={},
            clips=rendered,
            guarantee=guarantee,
            method=method,
            publish=output.publish,
            networks=tuple(dict.fromkeys((*DETECTORS, people.recogniser, *plan.networks))),
            details={
                **plan.public,
                "audio": self.audio,
                "kept_people": len(kept),
                "unusable_faces": sum(not track.drawn.any() for track in hidden),  # covered in every frame
                "frames": sum(clip.frames for clip in clips),
                "faces_drawn": drawn,
                "faces_covered": sum(map(len, hidden)) - drawn,
            },
            private=Private(
                mapping=tuple(rows),
                settings={**self.settings(), **output.settings(), "notes": list(plan.notes), **plan.private},
                failures=people.failures,
                attachments={fit_name(f"tracks/{clip.name}", ".json"): _tracks_text(clip) for clip in clips},
            ),
        )

    def _assumptions(self, recogniser: str, some_stay: bool) -> Iterator[str]:
        """Yield what the claim does not cover."""
        yield SURROUNDINGS_ASSUMPTION
        yield f"{recogniser} told people apart, one from another"
        if self.audio == "disguise":
            yield PITCH_ASSUMPTION
        if some_stay:
            yield KEPT_PEOPLE_ASSUMPTION

    def _scan(self, recogniser: str, context: Context) -> tuple[list[ScannedVideo], tuple[Failure, ...]]:
        """Track the faces through every video; what cannot be read becomes a failure."""
        clips: list[ScannedVideo] = []
        failures: list[Failure] = []
        for video in self.files:
            broken: list[str] = []
            try:
                clip = self._scan_one(video, recogniser, broken, context)
                if clip.frames:
                    clips.append(clip)
                elif not broken:
                    broken.append(f"{str(video.path)!r} cannot be read: it has no frame.")
            except InputError as error:
                broken.append(str(error))
            failures += [Failure(video.name, sentence) for sentence in broken]
        if not clips:
            raise InputError(f"No video could be read: {failures[0].input}: {failures[0].reason}")
        return clips, tuple(failures)

    def _scan_one(
        self, video: io.FoundFile, recogniser: str, broken: list[str], context: Context
    ) -> ScannedVideo:
        """Find the tracks of a video, or take those that were corrected by hand."""
        clip = io.probe_video(video.path)
        codes = partial(embed, recogniser)
        file = None if self.tracks is None else Path(self.tracks, fit_name(video.name, ".json"))
        if file is not None and file.is_file():
            count = sum(1 for _ in io.read_frames(video.path, broken=broken))
            size = {"width": clip.width, "height": clip.height, "frames": count}
            corrected = tracks_from_json(file.read_text(encoding="utf-8"), **size)
            frames = io.read_frames(video.path, broken=[])
            return ScannedVideo(video.name, clip, refind_meshes(corrected, frames, embed=codes), count)
        seen = scan_video(
            io.read_frames(video.path, broken=broken, exact=False, threads=CODEC_THREADS),
            embed=codes,
            threads=max(1, (context.jobs or 2) - 1),  # and one that tracks
            progress=frame_progress(context.progress, f"tracking faces in {video.name}", clip.frames),
        )
        same = RECOGNISERS[recogniser].same_person
        return ScannedVideo(video.name, clip, build_tracks(seen, same=same), seen.frames)

    def _identify(self, clips: Sequence[ScannedVideo], recogniser: str) -> tuple[ScannedVideo, ...]:
        """Say who each track is, over all clips, and who stays visible."""
        same = RECOGNISERS[recogniser].same_person
        names = identify_tracks([clip.tracks for clip in clips], same)
        codes = [code for photo in self.keep for code in _photo_codes(photo, recogniser)]
        if self.keep and not codes:
            raise InputError("No face was found in the photos of those who stay visible (--keep).")
        result = []
        for clip, persons in zip(clips, names, strict=True):
            stay = np.array([track.keep for track in clip.tracks], bool)  # the track file may say so
            if codes:
                stay |= find_kept_tracks(clip.tracks, np.stack(codes), same)
            result.append(clip._replace(tracks=annotate_tracks(clip.tracks, persons, stay)))
        return tuple(result)


@contextmanager
def _preload_in_background(*names: str) -> Iterator[None]:
    """Open networks in a thread of its own while work begins: together they take three seconds."""
    with ThreadPoolExecutor(1) as pool:
        for name in dict.fromkeys(names):
            pool.submit(preload_landmarker if name == "landmarker" else partial(runtime.preload, name))
        yield


def _tracks_text(clip: ScannedVideo) -> str:
    """Return the tracks of a video as a text that can be corrected by hand."""
    return tracks_to_json(clip.tracks, width=clip.clip.width, height=clip.clip.height, frames=clip.frames)


def _photo_codes(photo: str | Path, recogniser: str) -> NDArray[np.float32]:
    """Return the embeddings of the faces on a photo."""
    rgb = io.read_photo(photo)
    points, presence = predict_meshes(rgb, detect(rgb))
    return embed(recogniser, rgb, points[presence > 0.5])


def _output_name(clip: ScannedVideo) -> str:
    """Return the name of the file: its own, or as mp4 where its type cannot be written."""
    path = Path(clip.name)
    return clip.name if path.suffix.lower() in (".mp4", ".m4v", ".mov", ".mkv", ".webm") else f"{path}.mp4"
