"""Videos: each person gets one new face for all clips of a run, of somebody who does not exist [S 7].

Each file is read twice, to follow the faces and to draw; in between some are looked at closely. What is
in doubt is covered; nothing but a track decides, so that a detector that blinks shows nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.tracking.scan import scan_video
from ksame.analysis.tracking.track import (
    annotate_tracks,
    build_tracks,
    find_kept_tracks,
    identify_tracks,
)
from ksame.analysis.tracking.track_file import refind_meshes, tracks_from_json, tracks_to_json
from ksame.core.arrays import ProgressCallback
from ksame.core.checkpoint import Checkpoint, resolve_seed
from ksame.core.errors import Failure, InputError, UsageError
from ksame.core.guarantee import Guarantee
from ksame.core.text import fit_name
from ksame.methods.shift.choose import choose_identities
from ksame.methods.shift.pool import Pool
from ksame.models import runtime, weights
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes, preload_landmarker
from ksame.models.recognisers import RECOGNISERS, default_recogniser, embed
from ksame.pipeline.openset import (
    VIEWS_PER_PERSON,
    Texture,
    available_landmarkers,
    available_verifiers,
    load_pool,
    pool_notes,
    texture_assumption,
)
from ksame.pipeline.video_render import (
    CODEC_THREADS,
    RenderedVideo,
    ScannedVideo,
    frame_progress,
    single_threaded,
)
from ksame.release import MappingRow, Private, Release
from ksame.render.overlay.face_overlay import FaceOverlay
from ksame.render.overlay.views import sample_views
from ksame.render.scene import published_names
from ksame.spaces import AppearanceSpace

VIDEO_SURROUNDINGS_ASSUMPTION = "hair, ears, body, voice, place and way of moving are still there"
KEPT_PEOPLE_ASSUMPTION = "some people were asked to stay visible, and are shown as they are"
PITCH_ASSUMPTION = "the changed pitch of the sound is no guarantee"


def deidentify_video(
    inputs: str | Path | Iterable[str | Path],
    *,
    audio: Literal["keep", "drop", "disguise"] = "keep",
    texture: Texture = "code",
    keep: Sequence[str | Path] = (),
    pool: str | Path = "shipped",
    names: Literal["random", "keep"] = "keep",
    corrected: str | Path | None = None,
    quality: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
    progress: ProgressCallback | None = None,
) -> Release:
    """Return a release of videos in which every person has one new face.

    Parameters
    ----------
    inputs : path or several
        Videos, or folders of them.
    audio : str
        ``keep`` copies the sound, ``drop`` leaves it out, ``deidentify_video`` changes its pitch.
    texture : str
        ``code``: of the old skin only its colour at some spots reaches the new face. ``pixel``: gaze and
        wrinkles are kept, and so is more of who it is.
    keep : sequence of paths
        Photos of people who stay visible.
    pool : str or path
        The people who do not exist: ``shipped`` (portraits, not for commercial use), ``parametric``, or a
        file by ``ksame pool build``.
    names : str
        Published file names.
    corrected : path, optional
        A folder of tracks as an earlier run wrote them to its private folder, corrected by hand: what they
        say wins.
    quality : int, optional
        0 to 100; by default no change should be seen.
    seed, jobs, checkpoint, progress
        See ``photos.deidentify``.
    """
    found = io.find_videos([inputs] if isinstance(inputs, str | Path) else inputs)
    if not found:
        raise UsageError(
            "There are no videos in what was given: name video files, or folders that hold some."
        )
    seed = resolve_seed(seed, checkpoint)
    recogniser = default_recogniser()
    model, identities, who = AppearanceSpace.bundled(), load_pool(pool), available_verifiers()
    near = available_landmarkers()  # before any face is looked at
    # Each network takes up to 100 MB, the slow one twice that while it is opened: those that search make way
    # for those that look closely, and it comes before the other recognisers.
    with single_threaded():
        with _preload_in_background("mesh", recogniser):
            clips, failures = _scan_videos(found, recogniser, corrected, jobs, progress)
        clips = _identify_people(clips, keep, recogniser)
        runtime.unload("yunet", "blazeface", "mesh")
        with _preload_in_background(*near, who[-1], *who):
            faces = _choose_overlays(clips, model, identities, who, texture, seed, progress)
        runtime.unload(recogniser, *who)
    # names of their own: beside photos the same one would say which belong together
    outputs = published_names([_output_name(clip) for clip in clips], names=names, seed=seed ^ 1)
    order = {person: i for i, person in enumerate(sorted(faces))}
    rows = [
        MappingRow(clip.name, track.person, order[track.person], output)
        for clip, output in zip(clips, outputs, strict=True)
        for track in {track.person: track for track in clip.tracks}.values()
    ]
    done = {
        output: RenderedVideo(clip, faces, texture, audio, quality, jobs, checkpoint, progress)
        for clip, output in zip(clips, outputs, strict=True)
    }
    stay = {track.person for clip in clips for track in clip.tracks if track.keep}
    assumptions = [
        texture_assumption(texture),
        VIDEO_SURROUNDINGS_ASSUMPTION,
        f"{recogniser} told people apart, one from another",
    ]
    assumptions += [PITCH_ASSUMPTION] if audio == "disguise" else []
    assumptions += [KEPT_PEOPLE_ASSUMPTION] if stay else []
    # a track that is never drawn is covered in every picture
    hidden = [track for clip in clips for track in clip.tracks if not track.keep]
    never = [track for track in hidden if not track.drawn.any()]
    drawn = sum(int(track.drawn.sum()) for track in hidden if faces[track.person] is not None)
    used = ["yunet", "mesh", "blazeface", recogniser, *who, *near]
    return Release(
        files={},
        clips=done,
        guarantee=Guarantee("none", assumptions=tuple(assumptions)),
        k=1,
        method="shift",
        publish="scene",
        details={
            "texture": texture,
            "audio": audio,
            "people": len(faces),
            "covered_people": sum(mask is None for mask in faces.values()),
            "kept_people": len(stay),
            "unusable_faces": len(never),
            "pictures": sum(clip.frames for clip in clips),
            "faces_drawn": drawn,
            "faces_covered": sum(map(len, hidden)) - drawn,
            "pool": identities.digest,
            "non_commercial": bool(identities.licence),
            "model": model.digest,
            "weights": {name: weights.CATALOGUE[name].sha256 for name in dict.fromkeys(used)},
        },
        private=Private(
            mapping=tuple(rows),
            settings={
                "method": "shift",
                "audio": audio,
                "texture": texture,
                "names": names,
                "seed": seed,
                "notes": pool_notes(identities),
            },
            failures=failures,
            attachments={fit_name(f"tracks/{clip.name}", ".json"): _tracks_text(clip) for clip in clips},
        ),
    )


@contextmanager
def _preload_in_background(*names: str) -> Iterator[None]:
    """Open networks in a thread of its own while work begins: together they take three seconds."""
    with ThreadPoolExecutor(1) as pool:
        for name in dict.fromkeys(names):
            pool.submit(preload_landmarker if name == "landmarker" else partial(runtime.preload, name))
        yield


def _scan_videos(
    found: Sequence[io.FoundFile],
    recogniser: str,
    corrected: str | Path | None,
    jobs: int | None,
    progress: ProgressCallback | None,
) -> tuple[list[ScannedVideo], tuple[Failure, ...]]:
    """Follow the faces through every video; what cannot be read becomes a failure."""
    clips: list[ScannedVideo] = []
    failures: list[Failure] = []
    for video in found:
        broken: list[str] = []
        try:
            clip = _scan_video(video, recogniser, corrected, broken, jobs, progress)
            if clip.frames:
                clips.append(clip)
            elif not broken:
                broken.append(f"{str(video.path)!r} cannot be read: it has no picture.")
        except InputError as error:
            broken.append(str(error))
        failures += [Failure(video.name, sentence) for sentence in broken]
    if not clips:
        raise InputError(f"No video could be read: {failures[0].input}: {failures[0].reason}")
    return clips, tuple(failures)


def _scan_video(
    video: io.FoundFile,
    recogniser: str,
    corrected: str | Path | None,
    broken: list[str],
    jobs: int | None,
    progress: ProgressCallback | None,
) -> ScannedVideo:
    """Find the tracks of a video, or take those that somebody corrected."""
    clip = io.probe_video(video.path)
    show = partial(embed, recogniser)
    paper = Path(corrected, fit_name(video.name, ".json")) if corrected is not None else None
    if paper is not None and paper.is_file():
        count = sum(1 for _ in io.read_frames(video.path, broken=broken))
        size = {"width": clip.width, "height": clip.height, "frames": count}
        told = tracks_from_json(paper.read_text(encoding="utf-8"), **size)
        return ScannedVideo(
            video.name, clip, refind_meshes(told, io.read_frames(video.path, broken=[]), embed=show), count
        )
    seen = scan_video(
        io.read_frames(video.path, broken=broken, exact=False, threads=CODEC_THREADS),
        embed=show,
        threads=max(1, (jobs or 2) - 1),  # and one that follows
        progress=frame_progress(progress, f"following faces in {video.name}", clip.frames),
    )
    same = RECOGNISERS[recogniser].same_person
    return ScannedVideo(video.name, clip, build_tracks(seen, same=same), seen.frames)


def _tracks_text(clip: ScannedVideo) -> str:
    """Return the tracks of a video as a text that somebody can correct."""
    return tracks_to_json(clip.tracks, width=clip.clip.width, height=clip.clip.height, frames=clip.frames)


def _identify_people(
    clips: Sequence[ScannedVideo], keep: Sequence[str | Path], recogniser: str
) -> list[ScannedVideo]:
    """Say who each track is, over all clips, and who stays visible."""
    same = RECOGNISERS[recogniser].same_person
    names = identify_tracks([clip.tracks for clip in clips], same)
    codes = [code for photo in keep for code in _photo_codes(photo, recogniser)]
    if keep and not codes:
        raise InputError("No face was found in the photos of those who stay visible (--keep).")
    result = []
    for clip, who in zip(clips, names, strict=True):
        stay = np.array([track.keep for track in clip.tracks], bool)  # somebody may have said so by hand
        if codes:
            stay |= find_kept_tracks(clip.tracks, np.stack(codes), same)
        result.append(clip._replace(tracks=annotate_tracks(clip.tracks, who, stay)))
    return result


def _photo_codes(photo: str | Path, recogniser: str) -> NDArray[np.float32]:
    """Return the codes of the faces on a photo."""
    rgb = io.read_photo(photo)
    points, presence = predict_meshes(rgb, detect(rgb))
    return embed(recogniser, rgb, points[presence > 0.5])


def _choose_overlays(
    clips: Sequence[ScannedVideo],
    model: AppearanceSpace,
    pool: Pool,
    who: Sequence[str],
    texture: Texture,
    seed: int,
    progress: ProgressCallback | None,
) -> dict[str, FaceOverlay | None]:
    """Choose a new face for every person; None: nobody could be found, so the face is covered."""
    films = [(clip.clip.path, clip.frames, clip.tracks) for clip in clips]
    views = sample_views(
        films, max_count=VIEWS_PER_PERSON, progress=frame_progress(progress, "looking closely", len(clips))
    )
    everyone: dict[str, FaceOverlay | None] = dict.fromkeys(t.person for clip in clips for t in clip.tracks)
    if not views:
        return everyone
    known = sorted(views)
    rng = np.random.default_rng(seed)
    if progress:
        progress("choosing new faces", 0, len(known))
    made = choose_identities(
        model,
        [views[person] for person in known],
        pool,
        recognisers=who,
        texture=texture,
        rng=rng,
    )
    if progress:
        progress("choosing new faces", len(known), len(known))
    return {**everyone, **dict(zip(known, made, strict=True))}


def _output_name(clip: ScannedVideo) -> str:
    """Return the name of the file: its own, or as mp4 where its type cannot be written."""
    path = Path(clip.name)
    return clip.name if path.suffix.lower() in (".mp4", ".m4v", ".mov", ".mkv", ".webm") else f"{path}.mp4"
