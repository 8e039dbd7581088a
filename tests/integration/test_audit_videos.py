"""The audit of videos as its users see it: what is hidden, what is not, and what is left."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import ksame
from films import film
from ksame import io
from ksame.core.errors import UsageError
from running import digests

pytestmark = pytest.mark.weights
FRAMES = 8


def shift(inputs, **options):
    return ksame.deidentify(inputs, method="shift", seed=1, **options)


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Return a folder with a clip of two people and one of nobody."""
    folder = tmp_path_factory.mktemp("clips")
    film(folder / "both.mp4", ["00001aa", "00005aa"], frames=FRAMES)
    film(folder / "empty.mp4", [], frames=4)
    return folder


@pytest.fixture(scope="module")
def out(clips, recogniser, tmp_path_factory):
    """Return their release."""
    folder = tmp_path_factory.mktemp("videos") / "out"
    shift(clips).save(folder)
    return folder


@pytest.fixture(scope="module")
def copied(clips, tmp_path_factory):
    """Return a folder with the clips as they are, which claims to be de-identified."""
    return shutil.copytree(clips, tmp_path_factory.mktemp("copied") / "out")


def row(report, measure):
    table = report.utility[report.utility["slice"] == "all"].set_index("measure")
    return table.loc[measure]


def test_a_release_of_videos_is_audited_by_the_command(out, clips, recogniser, cli, tmp_path):
    before = digests(clips)
    ran = cli(
        "audit", out, "--originals", clips, "--attackers", recogniser, "--json", tmp_path / "a.json", "-q"
    )
    assert ran.code == 0, ran.err
    figures = json.loads((tmp_path / "a.json").read_text())
    assert (figures["method"], figures["publish"], figures["residual_faces"]) == ("shift", "scene", 0)
    both, empty = figures["videos"]
    assert both["frames"] == {"original": FRAMES, "published": FRAMES}
    assert (both["sound"], both["metadata"], both["visible"]) == ("the same bit for bit", [], [])
    assert (both["people"], both["compared"], both["faces"], both["drawn"]) == (
        2,
        FRAMES,
        2 * FRAMES,
        2 * FRAMES,
    )
    assert both["seconds"]["original"] == pytest.approx(both["seconds"]["published"], abs=0.05)
    assert (empty["people"], empty["faces"], empty["frames"]["published"]) == (0, 0, 4)
    assert {one["attack"] for one in figures["attacks"]} == {"naive", "naive, other moment", "reverse"}
    assert all((one["verdict"], one["people"]) == ("undecided", 2) for one in figures["attacks"])
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "of 100 faces" in page
    assert "person-001" not in page
    assert page.count("data:image/png") == 2, "a strip of each person's new face, and no original"
    assert cli("verify", out, "--private", f"{out}.private").code == 0, "the report may be added"
    assert digests(clips) == before


def test_new_faces_stay_one_persons_and_are_not_the_old_ones(out, clips, recogniser):
    report = ksame.audit(out, originals=clips, attackers=recogniser, frames=4)
    assert report.videos[0].compared == 4
    assert row(report, "nearest face is the same person's, lbp (share)").deidentified == 1
    assert row(report, f"two frames of a person matched, {recogniser} (share)").deidentified == 1
    assert row(report, "original face visible (share)").deidentified == 0
    assert row(report, "flicker, new to old (ratio)").deidentified > 0
    assert set(report.detected.values()) == {1.0}


def test_an_unprotected_copy_is_seen_through_without_a_mapping(copied, clips, recogniser, cli, tmp_path):
    report = ksame.audit(copied, originals=clips / "both.mp4", attackers=recogniser, frames=4)
    assert {r.rank1 for r in report.results} == {1.0}
    assert report.videos[0].visible == (0, 2, 4, 6)
    assert report.residual_faces == 8
    assert row(report, "original face visible (share)").deidentified == 1
    assert not report.pairs, "they are originals: no picture of them is shown unasked"
    assert any("no original here" in note for note in report.notes)
    page = tmp_path / "page.html"
    ran = cli("audit", copied, "--originals", clips, "--attackers", "lbp", "-o", page)
    assert (ran.code, "can still be seen" in page.read_text(encoding="utf-8")) == (5, True)


def test_one_person_needs_strangers_to_be_looked_for_among(clips, people, recogniser, tmp_path):
    one = film(tmp_path / "one.mp4", ["00005aa"], sound=None, frames=4)
    (tmp_path / "out").mkdir()
    shutil.copy(one, tmp_path / "out" / "renamed.mp4")
    alone = ksame.audit(tmp_path / "out", originals=one, attackers=recogniser)
    assert not alone.results
    assert any("strangers" in note for note in alone.notes)
    assert alone.videos[0].sound == "none"
    among = ksame.audit(tmp_path / "out", originals=one, attackers=recogniser, gallery=people)
    assert {(r.attack, r.rank1, r.gallery) for r in among.results} == {
        ("naive", 1.0, len(list(people.iterdir()))),
        ("naive, other moment", 1.0, len(list(people.iterdir()))),
        ("reverse", 1.0, len(list(people.iterdir()))),
    }, "whose own photo is in the gallery is found there, too"
    assert any("match people of the videos" in note for note in among.notes)


def test_who_is_in_the_gallery_can_be_said(copied, clips, people, tmp_path):
    report = ksame.audit(
        copied, originals=clips / "both.mp4", attackers="lbp", gallery=people, subjects="prefix", frames=3
    )
    assert report.results[0].gallery == 14, "two in the clip, and twelve strangers by their names"


def test_whoever_stays_visible_on_request_is_no_leak(clips, copied, tmp_path, recogniser):
    release = shift(clips / "both.mp4")
    kept = json.loads(release.private.attachments["tracks/both.mp4.json"])
    kept["tracks"][0]["keep"] = True
    papers = {"tracks/both.mp4.json": json.dumps(kept)}
    release = replace(release, private=replace(release.private, attachments=papers))
    release.save(tmp_path / "out")
    report = ksame.audit(tmp_path / "out", originals=clips, attackers=recogniser, frames=4)
    (film,) = report.videos
    assert (film.kept, film.drawn, film.visible) == (4, 4, ())
    assert {r.people for r in report.results if r.attack == "naive"} == {1}


def test_a_place_that_a_track_knows_is_looked_at_even_if_nobody_finds_a_face_there(clips, out, tmp_path):
    told = json.loads((out.with_name("out.private") / "tracks" / "both.mp4.json").read_text())
    again = shutil.copytree(out, tmp_path / "out")
    private = shutil.copytree(out.with_name("out.private"), tmp_path / "out.private")
    corner = [{"frame": frame, "box": [440.0, 20.0, 480.0, 60.0]} for frame in range(FRAMES)]
    told["tracks"].append({"track": 9, "person": "ann", "boxes": corner})
    (private / "tracks" / "both.mp4.json").write_text(json.dumps(told))
    report = ksame.audit(again, originals=clips, attackers="lbp", frames=3)
    assert report.videos[0].people == 3
    assert report.videos[0].visible == (), "a flat ground shows nobody"


def test_originals_are_shown_only_when_asked(out, clips, tmp_path):
    report = ksame.audit(out, originals=clips, attackers="lbp", frames=3, show_originals=True)
    assert [len(pair.before) for pair in report.pairs] == [1, 1]
    strip = io.decode(report.pairs[0].after)
    assert strip.shape == (128, 3 * 128, 3)
    assert np.abs(strip.astype(int) - io.decode(report.pairs[0].before[0])).mean() > 2
    with pytest.raises(UsageError, match="must not lie in a release"):
        report.save(out / "report.html")


def test_videos_that_do_not_match(out, clips, tmp_path, cli):
    other = film(tmp_path / "other.mp4", [], frames=4)
    ran = cli("audit", out, "--originals", other, "--attackers", "lbp")
    assert (ran.code, "mapping" in ran.sentence) == (2, True)
    shutil.copytree(clips, tmp_path / "foreign")
    ran = cli("audit", tmp_path / "foreign", "--originals", other, "--attackers", "lbp")
    assert (ran.code, "paired with an original" in ran.sentence) == (2, True)


def test_photos_beside_videos_are_looked_at_too(clips, people, recogniser, tmp_path):
    mixed = shutil.copytree(clips, tmp_path / "mixed")
    for name in ("00001_aa.pgm", "00002_aa.pgm"):
        shutil.copy(people / name, mixed)
    shift(mixed, subjects="prefix").save(tmp_path / "out")
    report = ksame.audit(tmp_path / "out", originals=mixed, attackers="lbp", frames=2)
    assert {"naive", "naive, videos"} <= {r.attack for r in report.results}
    assert {"SSIM (1 is equal)", "videos: SSIM (1 is equal)"} <= set(report.utility["measure"])
    assert {"yunet", "yunet, videos"} <= set(report.detected)
    assert sorted(pair.frames for pair in report.pairs) == [1, 1, 2, 2]
    assert "naive, videos" in report.to_html()
    for path in mixed.glob("*.pgm"):
        path.unlink()
    assert any(
        note.startswith("The photos were not audited: ")
        for note in ksame.audit(tmp_path / "out", originals=mixed, attackers="lbp", frames=1).notes
    )
