"""Videos as their users see them: one new face each, sound and clock kept, corrected by hand."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from films import FRAMES, HEIGHT, WIDTH, film, shot, sound_of
from ksame import io
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes
from ksame.models.recognisers import RECOGNISERS, embed

pytestmark = pytest.mark.weights


def codes(path, recogniser):
    """Return the code of the largest face in every picture, by the recogniser that is here."""
    found = []
    for frame in io.read_frames(path):
        points, presence = predict_meshes(frame.rgb, detect(frame.rgb))
        if len(points) and presence[0] > 0.5:
            found.append(embed(recogniser, frame.rgb, points[:1])[0])
    return np.array(found)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return film(tmp_path_factory.mktemp("clip") / "ward.mp4", ["00001aa"])


@pytest.fixture(scope="module")
def released(clip, recogniser, tmp_path_factory):
    from running import shell

    out = tmp_path_factory.mktemp("video") / "out"
    return out, shell("run", str(clip), "-o", str(out), "--seed", "1", cwd=out.parent)


def test_a_video_comes_out_with_another_face_and_all_else_kept(clip, released, recogniser):
    out, ran = released
    assert ran.code == 0, ran.err
    new = out / "images" / "ward.mp4"
    before, after = io.probe_video(clip), io.probe_video(new)
    assert (after.frames, after.rate, after.width, after.height) == (FRAMES, before.rate, WIDTH, HEIGHT)
    assert sound_of(new) == sound_of(clip)
    assert io.metadata_of_video(new) == []
    old, now = codes(clip, recogniser), codes(new, recogniser)
    same = RECOGNISERS[recogniser].same_person
    assert len(now) > FRAMES / 2, "the new face is a face"
    assert np.linalg.norm(old[:, None] - now[None], axis=2).min() > same, (
        "and nobody takes it for the old one"
    )
    assert np.linalg.norm(now - now.mean(axis=0), axis=1).max() < same, "but one person's"


def test_a_grey_video_stays_grey(clip, released):
    out, _ = released
    for before, after in zip(io.read_frames(clip), io.read_frames(out / "images" / "ward.mp4"), strict=True):
        assert (before.rgb == before.rgb[..., :1]).all(), "as the clip is"
        assert (after.rgb == after.rgb[..., :1]).all()


def test_what_it_claims_is_nothing_and_it_verifies(released, cli):
    out, _ = released
    ran = cli("verify", out, "--private", f"{out}.private", "--json")
    assert (ran.code, ran.json["kind"], ran.json["method"]) == (0, "none", "shift")
    text = (out / "certificate.json").read_text()
    assert "person-001" not in text
    assert "ward" not in text, "file names are in the manifest only"
    assert "ward" in (out / "SHA256SUMS").read_text(), "scenes keep their names unless asked"


def test_tracks_can_be_corrected_by_hand(clip, released, cli, tmp_path):
    out, _ = released
    tracks = json.loads((tmp_path.joinpath(f"{out}.private") / "tracks" / "ward.mp4.json").read_text())
    assert len(tracks["tracks"]) == 1
    tracks["tracks"][0]["keep"] = True
    (tmp_path / "tracks").mkdir()
    (tmp_path / "tracks" / "ward.mp4.json").write_text(json.dumps(tracks))
    ran = cli("run", clip, "-o", tmp_path / "again", "--tracks", tmp_path / "tracks", "--audio", "drop", "-q")
    assert ran.code == 0
    shown = tmp_path / "again" / "images" / "ward.mp4"
    pairs = zip(io.read_frames(clip), io.read_frames(shown), strict=True)
    assert max(np.abs(a.rgb.astype(int) - b.rgb).mean() for a, b in pairs) < 4, "kept by hand"
    assert not io.probe_video(shown).audio_streams


def test_two_people_have_two_faces_and_one_may_stay(cli, tmp_path, recogniser):
    both = film(tmp_path / "both.mp4", ["00001aa", "00005aa"], sound=None, frames=16)
    photo = tmp_path / "five.png"
    cv2.imwrite(str(photo), shot("00005aa"))
    ran = cli("run", both, "-o", tmp_path / "out", "--keep", photo, "--seed", "2", "--json", "-q")
    assert (ran.code, ran.json["people"]) == (0, 2)
    assert "stay visible" in ran.json["claim"], "whoever reads the certificate is told"
    first = next(iter(io.read_frames(both))).rgb.astype(int)
    now = next(iter(io.read_frames(tmp_path / "out" / "images" / "both.mp4"))).rgb
    changed = np.abs(first - now).mean(axis=2)
    assert changed[:, 240:].mean() < 4 < changed[:, :240].mean()


def test_what_is_no_video_is_said(cli, tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"no video at all")
    ran = cli("run", tmp_path / "a.mp4", "-o", tmp_path / "out")
    assert (ran.code, "a.mp4" in ran.sentence) == (4, True)
    assert not (tmp_path / "out").exists()


def test_a_video_without_a_face_is_published_as_it_is(cli, tmp_path):
    empty = film(tmp_path / "empty.mp4", [], frames=6)
    ran = cli("run", empty, "-o", tmp_path / "out", "--json", "-q")
    assert (ran.code, ran.json["people"]) == (0, 0)
    assert "images/empty.mp4: No face was found in it: every frame is unchanged." in ran.json["notes"]
    assert io.probe_video(tmp_path / "out" / "images" / "empty.mp4").frames == 6


@pytest.mark.parametrize("publish", ["portrait", "scene"])
def test_stills_of_few_people(publish, people, cli, tmp_path, recogniser):
    some = tmp_path / "some"
    some.mkdir()
    for name in ("00001_aa.pgm", "00001_ab.pgm", "00005_aa.pgm"):
        (some / name).write_bytes((people / name).read_bytes())
    args = (
        "--method",
        "shift",
        "--publish",
        publish,
        "--subjects",
        "prefix",
        "--names",
        "keep",
        "--seed",
        "1",
    )
    ran = cli("run", some, "-o", tmp_path / "out", *args, "--json", "-q")
    assert (ran.code, ran.json["people"], ran.json["kind"]) == (0, 2, "none")
    seen = {}
    for path in sorted((tmp_path / "out" / "images").iterdir()):
        rgb = io.read_photo(path)
        points, presence = predict_meshes(rgb, detect(rgb))
        assert presence[0] > 0.5
        assert (rgb == rgb[..., :1]).all(), "a grey photo stays grey"
        seen[path.stem] = embed(recogniser, rgb, points[:1])[0]
    same = RECOGNISERS[recogniser].same_person
    assert np.linalg.norm(seen["00001_aa"] - seen["00001_ab"]) < same, "one person, one new face"
    assert np.linalg.norm(seen["00001_aa"] - seen["00005_aa"]) > same / 2


def test_a_pool_is_built_and_used(clip, cli, tmp_path):
    made = cli("pool", "build", "-o", tmp_path / "pool.npz", "--size", "4", "--seed", "1", "-q")
    assert made.code == 0
    ran = cli("run", clip, "-o", tmp_path / "out", "--pool", tmp_path / "pool.npz", "--json", "-q")
    assert (ran.code, ran.json["people"]) == (0, 1)
