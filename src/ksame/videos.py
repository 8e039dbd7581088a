"""Videos: each person gets one new face for all clips of a run, of somebody who does not exist [S 7].

Each file is read twice, to follow the faces and to draw; in between some are looked at closely. What is
in doubt is covered; nothing but a track decides, so that a detector that blinks shows nobody.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ksame import media, networks, render, weights
from ksame.ahead import ahead, room
from ksame.core import FloatArray, Guarantee, InputError, UsageError
from ksame.faces.detect import detect
from ksame.faces.landmarks import get_closer, landmarks
from ksame.faces.left import left_over
from ksame.faces.shelf import in_chunks
from ksame.faces.track import Track, kept, marked, people, tracks, watch
from ksame.faces.tracks_json import find_again, from_json, to_json
from ksame.gather import Watch
from ksame.journal import Journal, seed_of
from ksame.masking import Mask, View, calm, code_of, in_place, looks, masks
from ksame.masking.looks import spread
from ksame.openset import VIEWS, Texture, assumed, closer, judges, limits, pool_of
from ksame.pool import Pool
from ksame.release import Failure, Making, Private, Release, Row, Untouched
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS, default_recogniser, embed
from ksame.scenes import file_names
from ksame.text import fit_name
from ksame.tone import is_monochrome, to_tone

AHEAD = 3  # pictures that the code of one is smoothed over, to either side
LATER = 2  # pictures more that are coded before one is drawn, or whoever draws would wait for the code
BLOCK = 32  # pictures whose tracks are looked up together
# Threads that read and write pictures: on two cores, which are busy with them anyway, more only take turns
THREADS = 1 if (os.cpu_count() or 1) <= 2 else 0
AROUND = "hair, ears, body, voice, place and way of moving are still there"
KEPT = "some people were asked to stay visible, and are shown as they are"
NOBODY = "No face was found in it: every picture is as it was."
DISGUISED = "the changed pitch of the sound is no guarantee"


def disguise(
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
    journal: Journal | None = None,
    watch: Watch | None = None,
) -> Release:
    """Return a release of videos in which every person has one new face.

    Parameters
    ----------
    inputs : path or several
        Videos, or folders of them.
    audio : str
        ``keep`` copies the sound, ``drop`` leaves it out, ``disguise`` changes its pitch.
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
    seed, jobs, journal, watch
        See ``ksame.deidentify``.
    """
    found = media.find_videos([inputs] if isinstance(inputs, str | Path) else inputs)
    if not found:
        raise UsageError(
            "There are no videos in what was given: name video files, or folders that hold some."
        )
    seed = seed_of(seed, journal)
    recogniser = default_recogniser()
    model, identities, who = AppearanceSpace.shipped(), pool_of(pool), judges()
    near = closer()  # before any face is looked at
    # Each network takes up to 100 MB, the slow one twice that while it is opened: those that search make way
    # for those that look closely, and it comes before the other recognisers.
    with _one_thread_each():
        with _opened_beside("mesh", recogniser):
            clips, failures = _followed(found, recogniser, corrected, jobs, watch)
        clips = _recognised(clips, keep, recogniser)
        networks.let_go("yunet", "blazeface", "mesh")
        with _opened_beside(*near, who[-1], *who):
            faces = _new_faces(clips, model, identities, who, texture, seed, watch)
        networks.let_go(recogniser, *who)
    # names of their own: beside photos the same one would say which belong together
    outputs = file_names([_written_as(clip) for clip in clips], names=names, seed=seed ^ 1)
    order = {person: i for i, person in enumerate(sorted(faces))}
    rows = [
        Row(clip.name, track.person, order[track.person], output)
        for clip, output in zip(clips, outputs, strict=True)
        for track in {track.person: track for track in clip.tracks}.values()
    ]
    done = {
        output: Disguised(clip, faces, texture, audio, quality, jobs, journal, watch)
        for clip, output in zip(clips, outputs, strict=True)
    }
    stay = {track.person for clip in clips for track in clip.tracks if track.keep}
    assumptions = [assumed(texture), AROUND, f"{recogniser} told people apart, one from another"]
    assumptions += [DISGUISED] if audio == "disguise" else []
    assumptions += [KEPT] if stay else []
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
                "notes": limits(identities),
            },
            failures=failures,
            papers={fit_name(f"tracks/{clip.name}", ".json"): _told_tracks(clip) for clip in clips},
        ),
    )


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let BLAS and OpenCV work in the thread that calls them: pictures are worked on side by side already."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        cv2.setNumThreads(before)


@contextmanager
def _opened_beside(*names: str) -> Iterator[None]:
    """Open networks in a thread of its own while work begins: together they take three seconds."""
    with ThreadPoolExecutor(1) as pool:
        for name in dict.fromkeys(names):
            pool.submit(get_closer if name == "landmarker" else partial(networks.get_ready, name))
        yield


Coded = Future[dict[int, FloatArray]]
"""What a picture shows of each face that will be drawn, by the number of its track."""


class Followed(NamedTuple):
    """A video and the faces in it."""

    name: str
    clip: media.Clip
    tracks: tuple[Track, ...]
    frames: int  # pictures that could be read


def _followed(
    found: Sequence[media.Photo],
    recogniser: str,
    corrected: str | Path | None,
    jobs: int | None,
    tell: Watch | None,
) -> tuple[list[Followed], tuple[Failure, ...]]:
    """Follow the faces through every video; what cannot be read becomes a failure."""
    clips: list[Followed] = []
    failures: list[Failure] = []
    for video in found:
        broken: list[str] = []
        try:
            clip = _follow(video, recogniser, corrected, broken, jobs, tell)
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


def _follow(
    video: media.Photo,
    recogniser: str,
    corrected: str | Path | None,
    broken: list[str],
    jobs: int | None,
    tell: Watch | None,
) -> Followed:
    """Find the tracks of a video, or take those that somebody corrected."""
    clip = media.probe(video.path)
    show = partial(embed, recogniser)
    paper = Path(corrected, fit_name(video.name, ".json")) if corrected is not None else None
    if paper is not None and paper.is_file():
        count = sum(1 for _ in media.frames(video.path, broken=broken))
        size = {"width": clip.width, "height": clip.height, "frames": count}
        told = from_json(paper.read_text(encoding="utf-8"), **size)
        return Followed(
            video.name, clip, find_again(told, media.frames(video.path, broken=[]), embed=show), count
        )
    seen = watch(
        media.frames(video.path, broken=broken, exact=False, threads=THREADS),
        embed=show,
        threads=max(1, (jobs or 2) - 1),  # and one that follows
        progress=_told(tell, f"following faces in {video.name}", clip.frames),
    )
    same = RECOGNISERS[recogniser].same_person
    return Followed(video.name, clip, tracks(seen, same=same), seen.frames)


def _told_tracks(clip: Followed) -> str:
    """Return the tracks of a video as a text that somebody can correct."""
    return to_json(clip.tracks, width=clip.clip.width, height=clip.clip.height, frames=clip.frames)


def _told(tell: Watch | None, stage: str, frames: int) -> Any:
    """Return what is told how many pictures are done; the number of all of them is an estimate."""
    return None if tell is None else lambda done: tell(stage, min(done, max(frames, 1)), max(frames, 1))


def _recognised(clips: Sequence[Followed], keep: Sequence[str | Path], recogniser: str) -> list[Followed]:
    """Say who each track is, over all clips, and who stays visible."""
    same = RECOGNISERS[recogniser].same_person
    names = people([clip.tracks for clip in clips], same)
    codes = [code for photo in keep for code in _codes(photo, recogniser)]
    if keep and not codes:
        raise InputError("No face was found in the photos of those who stay visible (--keep).")
    result = []
    for clip, who in zip(clips, names, strict=True):
        stay = np.array([track.keep for track in clip.tracks], bool)  # somebody may have said so by hand
        if codes:
            stay |= kept(clip.tracks, np.stack(codes), same)
        result.append(clip._replace(tracks=marked(clip.tracks, who, stay)))
    return result


def _codes(photo: str | Path, recogniser: str) -> NDArray[np.float32]:
    """Return the codes of the faces on a photo."""
    rgb = media.read(photo)
    points, presence = landmarks(rgb, detect(rgb))
    return embed(recogniser, rgb, points[presence > 0.5])


def _new_faces(
    clips: Sequence[Followed],
    model: AppearanceSpace,
    pool: Pool,
    who: Sequence[str],
    texture: Texture,
    seed: int,
    tell: Watch | None,
) -> dict[str, Mask | None]:
    """Choose a new face for every person; None: nobody could be found, so the face is covered."""
    films = [(clip.clip.path, clip.frames, clip.tracks) for clip in clips]
    views = looks(films, most=VIEWS, progress=_told(tell, "looking closely", len(clips)))
    everyone: dict[str, Mask | None] = dict.fromkeys(t.person for clip in clips for t in clip.tracks)
    if not views:
        return everyone
    known = sorted(views)
    rng = np.random.default_rng(seed)
    if tell:
        tell("choosing new faces", 0, len(known))
    made = masks(
        model,
        [views[person] for person in known],
        pool,
        recognisers=who,
        texture=texture,
        rng=rng,
    )
    if tell:
        tell("choosing new faces", len(known), len(known))
    return {**everyone, **dict(zip(known, made, strict=True))}


def _written_as(clip: Followed) -> str:
    """Return the name of the file: its own, or as mp4 where its type cannot be written."""
    path = Path(clip.name)
    return clip.name if path.suffix.lower() in (".mp4", ".m4v", ".mov", ".mkv", ".webm") else f"{path}.mp4"


@dataclass(frozen=True, eq=False)
class Disguised:
    """A video that is drawn when its place in the release is known."""

    video: Followed
    faces: Mapping[str, Mask | None]
    texture: Texture
    audio: Literal["keep", "drop", "disguise"]
    quality: int | None
    jobs: int | None
    journal: Journal | None
    watch: Watch | None

    def make(self, path: Path) -> Making:
        """Write the video, unless a run that was stopped did; return what came to light."""
        if self.journal is None:
            return self._filmed(path)
        key = self._key()
        known = self.journal.made(key, path)
        if known is not None:
            untouched, notes = known
            return Making(tuple(Untouched(*one) for one in untouched), tuple(notes))
        made = self._filmed(path)
        if not made.failures:
            self.journal.finish(key, path, [made.untouched, made.notes])
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
            for array in chain([track.box], in_chunks(track.shape), drawn[1:]):
                key.update(np.ascontiguousarray(array).tobytes())
        return key.hexdigest()

    def _filmed(self, path: Path) -> Making:
        """Write the video; return where a second detector still saw an untouched face, and what to know."""
        untouched: list[Untouched] = []
        frames = ahead(media.frames(self.video.clip.path, broken=[], threads=THREADS, source=True))
        try:
            with _one_thread_each():
                written = media.write_video(
                    self.video.clip,
                    path,
                    self._drawn(frames, untouched),
                    audio=self.audio,
                    quality=self.quality,
                    threads=THREADS,
                )
        except InputError as error:  # the others are released all the same
            return Making(failures=(Failure(self.video.name, str(error)),))
        nobody = () if self.video.tracks else (NOBODY,)
        return Making(tuple(untouched), (*written.notes, *nobody))

    def _drawn(self, frames: Iterable[media.Frame], untouched: list[Untouched]) -> Iterator[media.Frame]:
        """Yield the pictures with new faces, worked on a few ahead and side by side."""
        tell = _told(self.watch, f"drawing {self.video.name}", self.video.frames)
        workers = self.jobs or 2
        size = 3 * self.video.clip.width * self.video.clip.height
        most = room(size, least=workers, most=2 * workers)
        with ThreadPoolExecutor(workers) as pool:
            ready: deque[Future[tuple[media.Frame, FloatArray]]] = deque()
            for frame, codes in self._coded(frames, pool):
                ready.append(pool.submit(self._finish, frame, codes))
                if len(ready) > most:
                    yield self._done(ready.popleft(), untouched, tell)
            while ready:
                yield self._done(ready.popleft(), untouched, tell)

    def _done(
        self, work: Future[tuple[media.Frame, FloatArray]], untouched: list[Untouched], tell: Any
    ) -> media.Frame:
        frame, left = work.result()
        seconds = round(float(frame.time), 3)
        untouched += [
            Untouched("", frame.index, seconds, " ".join(f"{edge:.0f}" for edge in box)) for box in left
        ]
        if tell:
            tell(frame.index + 1)
        return frame

    def _coded(
        self, frames: Iterable[media.Frame], pool: ThreadPoolExecutor
    ) -> Iterator[tuple[media.Frame, list[Coded | None]]]:
        """Yield each picture with the codes of itself, in the middle, and of its neighbours in time."""
        waiting: deque[media.Frame] = deque()
        codes: deque[Coded | None] = deque([None] * AHEAD)

        def first() -> tuple[media.Frame, list[Coded | None]]:
            near = list(islice(codes, 2 * AHEAD + 1))
            codes.popleft()
            return waiting.popleft(), near

        for frame in frames:
            waiting.append(frame)
            codes.append(pool.submit(self._codes, frame))
            if len(waiting) > AHEAD + LATER:
                yield first()
        codes.extend([None] * AHEAD)
        while waiting:
            yield first()

    def _codes(self, frame: media.Frame) -> dict[int, FloatArray]:
        """Return gamma' of every face of a picture that will be drawn, by the number of its track."""
        codes = {}
        for number, track in self._there(frame):
            mask = self.faces[track.person]
            if not track.keep and mask is not None and track.drawn[frame.index - track.start]:
                codes[number] = code_of(mask.model, View(frame.rgb, track.mesh(frame.index)))
        return codes

    def _there(self, frame: media.Frame) -> list[tuple[int, Track]]:
        """Return the tracks that are in a picture, with their numbers."""
        some = self._blocks.get(frame.index // BLOCK, ())
        return [(n, self.video.tracks[n]) for n in some if frame.index in self.video.tracks[n].frames]

    @cached_property
    def _blocks(self) -> dict[int, list[int]]:
        """The tracks in each second or so: to ask all of them about each picture would take long."""
        blocks: dict[int, list[int]] = {}
        for number, track in enumerate(self.video.tracks):
            for block in range(track.start // BLOCK, track.frames[-1] // BLOCK + 1):
                blocks.setdefault(block, []).append(number)
        return blocks

    @cached_property
    def _monochrome(self) -> bool:
        """Whether the video has no colour, by some frames with faces: decided once, so that none flickers."""
        with_faces = sorted({index for track in self.video.tracks for index in track.frames})
        some = media.picked(self.video.clip.path, spread(with_faces, VIEWS), self.video.frames)
        return bool(with_faces) and all(is_monochrome(frame.rgb) for frame in some)

    def _finish(self, frame: media.Frame, near: Sequence[Coded | None]) -> tuple[media.Frame, FloatArray]:
        """Draw or cover every face of a picture itself, and look at it with a second detector."""
        rgb = frame.rgb  # its codes are made before anything is drawn, and nobody else looks at it
        original = rgb.copy() if self._monochrome else rgb
        boxes, hidden, new = [], [], list[render.Box]()
        for number, track in self._there(frame):
            box = track.box[frame.index - track.start]
            boxes.append(box)
            if track.keep:
                continue
            codes = [coded.result().get(number) if coded else None for coded in near]
            mask, code = self.faces[track.person], codes[AHEAD]
            if mask is None or code is None:
                hidden.append(box)
                continue
            seen = [one is not None for one in codes]
            filled = np.stack([code if one is None else one for one in codes])
            smoothed = in_place(calm(filled, seen)[AHEAD], code, mask.model)
            new += mask.draw_on(rgb, track.mesh(frame.index), smoothed, texture=self.texture)
        new += render.cover_on(rgb, np.array(hidden).reshape(-1, 4))
        if self._monochrome:
            rgb[:] = to_tone(rgb, original)
        covered = np.array(boxes).reshape(-1, 4)
        return replace(frame, new=tuple(new)), left_over(rgb, covered, frame.index)
