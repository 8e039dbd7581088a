"""Runs over videos that are stopped, that meet odd files, that leave a face, or that have photos beside."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess

import av
import pytest
from PIL import Image

from films import FRAMES, film, sound_of
from ksame import io
from ksame.core.errors import GuaranteeViolated
from ksame.core.guarantee import Guarantee
from ksame.methods import METHODS
from ksame.pipeline.video_render import RenderedVideo
from ksame.release import MakingNotes, Private, Release, verify
from running import begin, digests, shell, tree

pytestmark = pytest.mark.weights

# ends the process as kill -9 does, when the first clip is finished and the second begun
KILL = """
import os, signal
from ksame.pipeline import video_render as m
film, made = m.RenderedVideo._filmed, []
def die_at_the_second(self, path):
    made.append(path)
    if len(made) == 2:
        die = lambda frame: os.kill(os.getpid(), signal.SIGKILL)
        m.io.write_video = lambda clip, target, drawn, **how: [die(frame) for frame in drawn]
    return film(self, path)
m.RenderedVideo._filmed = die_at_the_second
"""


@pytest.fixture(scope="module")
def clips(recogniser, tmp_path_factory):
    """A folder of two clips, of one person each."""
    folder = tmp_path_factory.mktemp("clips")
    film(folder / "a.mp4", ["00001aa"], frames=12)
    film(folder / "b.mp4", ["00005aa"], frames=12, sound=None)
    return folder


@pytest.fixture(scope="module")
def whole(clips, tmp_path_factory):
    """The bytes of a run that nobody disturbed, and what it said."""
    folder = tmp_path_factory.mktemp("whole")
    ran = shell("run", clips, "-o", folder / "out", "--seed", 5, "--json")
    assert ran.code == 0, ran.err
    return folder, ran


def test_what_was_done_is_said_in_the_words_of_videos(whole):
    _, ran = whole
    lines = ran.err.splitlines()
    for stage in ("tracking faces in a.mp4", "looking closely", "choosing new faces", "drawing b.mp4"):
        assert any(line.startswith(stage) for line in lines), f"no progress: {stage}"
    assert (
        "2 people in 2 videos of 24 frames: faces were drawn 24 times and covered 0 times; sound kept."
        in lines
    )
    assert "photos" not in ran.err
    told = ran.json
    assert (told["photos"], told["videos"], told["frames"], told["people"]) == (0, 2, 24, 2)
    assert (told["faces_drawn"], told["faces_covered"], told["audio"]) == (24, 0, "keep")
    assert told["frames_per_second"] > 0
    assert told["untouched"] == []
    licence, voices = told["notes"]
    assert "not for commercial use" in licence and "--pool parametric" in licence
    assert voices == "images/a.mp4: The voices are unchanged: people can be recognised by them."


def test_a_dry_run_says_what_would_be_done(clips, cli, tmp_path):
    ran = cli("run", clips / "b.mp4", "-o", tmp_path / "out", "--seed", "5", "--dry-run")
    assert ran.code == 0
    assert "1 people in 1 videos of 12 frames: faces would be drawn 12 times" in ran.err
    assert "nothing was written" in ran.err
    assert tree(tmp_path) == set()


def test_a_stopped_run_goes_on_without_drawing_again(clips, whole, cli, tmp_path, monkeypatch):
    how = ("run", clips, "-o", tmp_path / "out", "--seed", 5)
    assert shell(*how, start=KILL).code == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    left = {name for name in tree(tmp_path) if (tmp_path / name).is_file()}
    private = {name for name in left if name.startswith("out.private/")}
    assert {name.rpartition(".")[2] for name in left - private} <= {"mp4", "partial"}, "new faces, hidden"
    (kept,) = private - {"out.private/journal.jsonl"}
    assert kept.startswith("out.private/finished/")
    assert (tmp_path / "out.private").stat().st_mode & 0o777 == 0o700
    lines = [
        json.loads(line) for line in (tmp_path / "out.private" / "journal.jsonl").read_text().splitlines()
    ]
    assert [set(line) for line in lines] == [{"seed"}, {"name", "stamp", "notes"}], (
        "no code, no mesh, no file's name"
    )
    drawn, film_it = [], RenderedVideo._filmed
    monkeypatch.setattr(
        RenderedVideo, "_filmed", lambda self, path: drawn.append(path.name) or film_it(self, path)
    )
    ran = cli(*how, "--resume", "--json", "-q")
    assert (ran.code, drawn) == (0, ["b.mp4"])
    assert digests(tmp_path) == digests(whole[0]), (
        "the same bytes as without the interruption, and nothing else"
    )
    assert ran.json["notes"] == whole[1].json["notes"]


def test_a_clip_that_changed_meanwhile_is_drawn_again(clips, cli, tmp_path, monkeypatch):
    how = ("run", clips / "a.mp4", "-o", tmp_path / "out", "--seed", "5", "-q")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ksame.release.writer.write_private_parts", stop)
    assert cli(*how).code == 130
    assert any((tmp_path / "out.private" / "finished").iterdir()), "Ctrl-C leaves what was done"
    drawn, film_it = [], RenderedVideo._filmed
    monkeypatch.setattr(
        RenderedVideo, "_filmed", lambda self, path: drawn.append(path.name) or film_it(self, path)
    )
    assert cli(*how, "--resume").code == 130
    assert drawn == []
    assert cli(*how, "--resume", "--quality", "40").code == 130
    assert drawn == ["a.mp4"], "with another quality it is another clip"


def test_ctrl_c_while_drawing(clips, tmp_path):
    how = ("run", clips, "-o", tmp_path / "out", "--seed", "5", "--jobs", "1")
    with begin(*how, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("drawing b.mp4"):  # its first picture: there must be time to be stopped
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in rest
    assert not (tmp_path / "out").exists()
    assert len(list((tmp_path / "out.private" / "finished").iterdir())) == 1


def test_a_face_that_is_left_is_listed_by_picture_and_time(clips, cli, tmp_path):
    (tmp_path / "tracks").mkdir()
    nothing = {"width": 480, "height": 320, "frames": 12, "tracks": []}
    (tmp_path / "tracks" / "a.mp4.json").write_text(json.dumps(nothing))
    ran = cli("run", clips / "a.mp4", "-o", tmp_path / "out", "--tracks", tmp_path / "tracks", "--json", "-q")
    assert (ran.code, ran.json["exit_code"], ran.json["untouched_faces"]) == (5, 5, 12)
    assert "A second detector sees 12 untouched faces." in ran.err
    assert "images/a.mp4: in frames 0 to 11 (0.00 to 0.37 s)" in ran.err
    fourth = ran.json["untouched"][3]
    assert (fourth["output"], fourth["frame"], fourth["seconds"]) == ("images/a.mp4", 3, 0.1)
    left, top, right, bottom = map(int, fourth["box"].split())
    assert 10 < left < right < 240 and 20 < top < bottom < 300, "where the face is"
    with (tmp_path / "out.private" / "untouched.csv").open(newline="") as file:
        assert [row["frame"] for row in csv.DictReader(file)] == [str(n) for n in range(12)]
    assert "a second detector saw untouched" in cli("verify", tmp_path / "out").err


@pytest.mark.parametrize("kind", ["flipped", "extra", "missing"])
def test_any_change_to_a_video_is_found(kind, whole, cli, tmp_path):
    out = shutil.copytree(whole[0] / "out", tmp_path / "out")
    assert cli("verify", out, "--private", whole[0] / "out.private").code == 0
    video = out / "images" / "a.mp4"
    if kind == "flipped":
        data = bytearray(video.read_bytes())
        data[len(data) // 2] ^= 1
        video.write_bytes(data)
    elif kind == "extra":
        (out / "images" / "c.mp4").write_bytes(video.read_bytes())
    else:
        video.unlink()
    assert cli("verify", out).code == 3


class Copied:
    """A careless writer: the original, title and all."""

    def __init__(self, source):
        self.source = source

    def make(self, path):
        path.write_bytes(self.source.read_bytes())
        return MakingNotes()


def test_a_video_with_metadata_is_no_release(clips, tmp_path):
    release = Release(
        {}, Guarantee("none"), METHODS["shift"], "scene", {"unusable_faces": 0}, Private((), {}),
        clips={"images/a.mp4": Copied(clips / "a.mp4")},
    )  # fmt: skip
    with pytest.raises(GuaranteeViolated, match=r"'a.mp4' carries metadata"):
        verify(release.save(tmp_path / "out"))


def test_photos_and_videos_go_into_one_release(clips, people, cli, tmp_path):
    both = tmp_path / "both"
    both.mkdir()
    (both / "a.mp4").write_bytes((clips / "a.mp4").read_bytes())
    for name in ("00001_aa.pgm", "00005_aa.pgm"):
        (both / name).write_bytes((people / name).read_bytes())
    out = tmp_path / "out"
    ran = cli("run", both, "-o", out)
    assert (ran.code, "--method shift" in ran.sentence, "apart" in ran.sentence) == (2, True, True)
    ran = cli("run", both, "-o", out, "--method", "ksame-m")
    assert (ran.code, "shift" in ran.sentence) == (2, True)
    ran = cli("run", both, "-o", out, "--method", "shift", "--publish", "portrait")
    assert (ran.code, "scenes" in ran.sentence) == (2, True)
    how = ("--method", "shift", "--subjects", "prefix", "--names", "random", "--seed", "1", "--json")
    ran = cli("run", both, "-o", out, *how)
    assert (ran.code, ran.json["photos"], ran.json["videos"], ran.json["people"]) == (0, 2, 1, 3)
    assert "2 people in 2 photos" in ran.err
    assert "1 people in 1 videos" in ran.err
    assert "not between them" in ran.json["claim"]
    names = {path.name for path in (out / "images").iterdir()}
    assert sorted(name.rpartition(".")[2] for name in names) == ["mp4", "png", "png"]
    assert len({name.partition(".")[0] for name in names}) == 3, "no name says which belong together"
    assert cli("verify", out, "--private", f"{out}.private").code == 0


def test_a_folder_with_nothing_to_shift(cli, tmp_path):
    (tmp_path / "in").mkdir()
    ran = cli("run", tmp_path / "in", "-o", tmp_path / "out", "--method", "shift")
    assert (ran.code, "no photos" in ran.sentence) == (2, True)


def odd_files(folder):
    """Fill a folder with what people's folders hold beside good videos."""
    film(folder / "good.mp4", ["00001aa"], frames=8)
    film(folder / "one.mkv", [], frames=3, size=(1, 1), sound=None, pixels="yuv444p")
    film(folder / "odd.mp4", ["00001aa"], frames=8, size=(271, 311), sound=None, pixels="yuv444p")
    film(folder / "deep.mkv", ["00001aa"], frames=8, sound=None, pixels="yuv420p10le")
    film(folder / "long.mp4", [], frames=6, sound=4.0)
    whole = film(folder / "cut.mkv", ["00001aa"], frames=FRAMES, sound=None)
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size * 6 // 10])
    Image.new("RGB", (64, 48)).save(folder / "still.mp4", format="png")
    (folder / "empty.mp4").touch()
    for name, frames in (("sound.mp4", False), ("none.mkv", True)):
        with av.open(str(folder / name), "w") as out:
            if frames:
                video = out.add_stream("mpeg4", 25)
                video.width, video.height = 64, 48
            voice = out.add_stream("aac", 16000, layout="mono")
            silence = av.AudioFrame(format="fltp", layout="mono", samples=1024)
            silence.sample_rate = 16000
            for plane in silence.planes:
                plane.update(bytes(plane.buffer_size))
            out.mux(voice.encode(silence))
            out.mux(voice.encode())
    return folder


def test_odd_files_are_named_and_the_rest_is_done(recogniser, cli, tmp_path):
    (tmp_path / "in").mkdir()
    folder, out = odd_files(tmp_path / "in"), tmp_path / "out"
    ran = cli("run", folder, "-o", out, "--seed", "1", "--json")
    assert ran.code == 4, ran.err
    reasons = {failure["input"]: failure["reason"] for failure in ran.json["failures"]}
    assert set(reasons) == {"cut.mkv", "still.mp4", "empty.mp4", "sound.mp4", "none.mkv"}
    assert "is damaged" in reasons["cut.mkv"]
    assert "no video stream" in reasons["sound.mp4"]
    assert "no frame" in reasons["none.mkv"]
    assert all(f"! {name}: " in ran.err for name in reasons)
    made = {path.name: io.probe_video(path) for path in (out / "images").iterdir()}
    assert set(made) == {"good.mp4", "one.mkv", "odd.mp4", "deep.mkv", "long.mp4", "cut.mkv"}
    assert (made["one.mkv"].width, made["one.mkv"].height, made["one.mkv"].frames) == (1, 1, 3)
    assert (made["odd.mp4"].width, made["odd.mp4"].height) == (271, 311)
    assert made["deep.mkv"].bit_depth == 10
    assert 0 < sum(1 for _ in io.read_frames(out / "images" / "cut.mkv")) < FRAMES, "what is before is kept"
    assert sound_of(out / "images" / "long.mp4") == sound_of(folder / "long.mp4"), "to its own end"
    assert any("deep.mkv: Colours were rounded from 10 to 8 bits" in note for note in ran.json["notes"])
    assert ran.json["people"] == 1, "one person in all of them"
