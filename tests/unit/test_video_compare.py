"""Two clips side by side, on pictures that are made up; and what the page says of them."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd

import drawn
import films
from ksame.analysis.tracking.link import MARGIN_FRAMES
from ksame.analysis.tracking.track import Track
from ksame.attack.embed import FaceEmbeddings
from ksame.audit.report.page import page
from ksame.audit.report.result import Report, VideoFigures
from ksame.audit.report.wording import make_headline
from ksame.audit.video.video_audit import _without_margins
from ksame.audit.video.video_compare import (
    ComparedClip,
    FramePair,
    _explaining_tracks,
    _frame_pairs,
    _has_residual,
    _has_unchanged_track,
    concatenate_clips,
)
from ksame.audit.video.video_metrics import ClipPair, _metadata, _sound
from ksame.core.geometry import MESH
from ksame.core.guarantee import Guarantee

NONE = Guarantee("none", assumptions=("hair is still there",))


def track(box, frames=3, **more):
    boxes = np.tile(np.array(box, float), (frames, 1))
    return Track(0, boxes, np.full(frames, "seen"), np.zeros((frames, MESH, 2), np.int16), **more)


def clip(frame, xyxy, codes):
    n = len(frame)
    seen = FaceEmbeddings(
        photo=np.arange(n),
        xyxy=np.array(xyxy, float).reshape(-1, 4),
        points=np.zeros((n, MESH, 2)),
        codes={"mine": np.array(codes, float).reshape(n, 1)},
    )
    no = np.zeros(n, bool)
    at = np.array(frame, np.intp)
    return ComparedClip((9, 9), at, at, seen, seen, no, np.full(n, -1), np.zeros((n, 3)), no, (1,), (2,))


def test_margins_in_time_of_a_track_are_left_out():
    state = np.array(["covered"] * 12 + ["seen"] * 3 + ["covered"] * 4)
    boxes = np.zeros((19, 4))
    whole = Track(5, boxes, state, np.zeros((19, MESH, 2), np.int16))
    some = _without_margins(whole)
    assert (some.start, len(some)) == (5 + MARGIN_FRAMES, 15 - MARGIN_FRAMES), (
        "a face that hides longer is hidden, not away"
    )
    hidden = Track(5, boxes[:2], state[:2], whole.shape[:2])
    assert _without_margins(hidden) is hidden


def test_frames_are_counted_on_from_clip_to_clip():
    whole = concatenate_clips(
        [clip([0, 4], [[0, 0, 1, 1]] * 2, [[0], [1]]), clip([8], [[0, 0, 1, 1]], [[2]])]
    )
    assert whole.frame.tolist() == [0, 4, 17]
    assert (whole.frames, whole.unchanged_frames, whole.residual_frames) == ((18, 18), (1, 10), (2, 11))


def test_the_nearest_track_that_holds_a_face_explains_it():
    tracks = [track([0, 0, 40, 40]), track([10, 10, 34, 34], frames=1)]
    faces = np.array([[14, 14, 30, 30], [14, 14, 30, 30], [60, 60, 70, 70.0]])
    assert _explaining_tracks(np.array([0, 2, 0]), faces, tracks).tolist() == [1, 0, -1]


def test_a_place_where_a_track_says_there_is_a_face_must_not_be_as_it_was():
    rng = np.random.default_rng(0)
    old = rng.integers(0, 256, (60, 60)).astype(np.uint8)
    covered = old.copy()
    covered[5:45, 5:45] = 0
    tracks = [track([5, 5, 45, 45])]
    nothing = np.zeros(0, np.intp)
    assert _has_unchanged_track(1, (old, old), tracks, nothing)
    assert not _has_unchanged_track(1, (old, covered), tracks, nothing)
    assert not _has_unchanged_track(1, (old, old), tracks, np.array([0])), (
        "a face that was found is looked at by itself"
    )
    assert not _has_unchanged_track(1, (old, old), [track([5, 5, 45, 45], keep=True)], nothing)
    assert not _has_unchanged_track(7, (old, old), tracks, nothing)


def test_what_became_of_the_sound_is_said(tmp_path):
    loud = films.film(tmp_path / "loud.mp4", [], frames=3)
    longer = films.film(tmp_path / "longer.mp4", [], frames=3, sound=4.0)
    mute = films.film(tmp_path / "mute.mkv", [], frames=3, sound=None)

    def said(original, published):
        return _sound(ClipPair("a.mp4", original, published, None, (), None))

    assert (said(loud, loud), said(mute, mute)) == ("the same bit for bit", "none")
    assert (said(loud, mute), said(loud, longer)) == ("dropped", "changed")
    assert "tags" in _metadata(loud), "a title"
    (tmp_path / "a.avi").write_bytes(b"RIFF")
    assert _metadata(tmp_path / "a.avi") == ("not checked",)


def test_a_smaller_copy_is_compared_at_the_size_of_the_original(tmp_path):
    large = films.film(tmp_path / "a.mp4", [], frames=5, sound=None, size=(64, 48))
    small = films.film(tmp_path / "b.mp4", [], frames=4, sound=None, size=(32, 24))
    counts = [0, 0]
    moments = [*_frame_pairs(large, small, 2, counts)]
    assert counts == [5, 4]
    assert [(m.frame, m.new.shape) for m in moments] == [(0, (48, 64, 3)), (2, (48, 64, 3))]
    assert moments[0].previous is None
    assert [image.shape for image in moments[1].previous] == [(48, 64)] * 2


def test_a_detector_that_sees_what_nothing_explains():
    face = drawn.photos(1, spread=0)[0][0]
    moment = FramePair(0, face, face, None)
    assert _has_residual(moment, (), np.zeros((0, MESH, 2)))
    whole = track([0, 0, *face.shape[1::-1]])
    assert not _has_residual(moment, (whole,), np.zeros((0, MESH, 2)))


def film(**more):
    line = np.array([[0.0, 0.1, 0.2], [1.0, 0.5, np.nan]])
    whole = {
        "file": "images/a.mp4",
        "frames": (90, 88),
        "seconds": (3.0, 2.9),
        "sound": "dropped",
        "metadata": ("title",),
        "compared": 30,
        "faces": 50,
        "drawn": 30,
        "kept": 5,
        "people": 2,
        "visible": tuple(range(14)),
        "residual": (3,),
        "blendshapes": {"jawOpen": (0.1, 0.2, 0.1, float("nan"))},
        "traces": {"smile": line, "jaw": line},
    }
    return VideoFigures(**whole | more)


def report(*films, left=0):
    table = pd.DataFrame(columns=["measure", "original", "deidentified", "slice"])
    certificate = {"method": "shift", "kind": "none", "bound": 1.0, "claim": str(NONE), "files": {}}
    return Report(certificate, (), (), "", (), table, {}, left, videos=films)


def test_the_page_tells_what_became_of_a_video():
    html = page(report(film()))
    words = re.sub(r"<[^>]+>", " ", html)
    for said in (
        "88 frames, originally 90",
        "2.9 s, originally 3",
        "dropped",
        "title",
        "5 stay visible on request",
    ):
        assert said in words
    assert "in 14 frames: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..." in words
    assert "Unexplained face" in words
    assert "smile" in html
    same = page(report(film(frames=(9, 9), metadata=(), visible=(), residual=(), traces={})))
    assert "9 frames, unchanged" in same
    assert "Unexplained" not in same


def test_faces_that_can_be_seen_are_in_the_first_sentence():
    assert "2 faces can still be seen in the 30 frames" in make_headline(report(film(), left=2)).sentence
    assert "still be seen" not in make_headline(report(film())).sentence


def test_the_figures_of_a_video_are_in_the_json():
    (found,) = json.loads(report(film()).to_json())["videos"]
    assert found["frames"] == {"original": 90, "published": 88}
    assert found["blendshapes"]["jawOpen"]["correlation"] is None
    assert "videos" not in json.loads(report().to_json())
