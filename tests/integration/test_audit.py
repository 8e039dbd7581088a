"""The audit as its users see it: known answers, what is said when something is missing, nothing leaked."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import ksame
from ksame.analysis.photos import analyse_photos
from ksame.core.context import Context
from ksame.io.sources import find_sources
from running import digests

pytestmark = pytest.mark.weights

ATTACKERS = (
    "eigenfaces,lbp,hog"  # classic ones need no weights of their own; a deep one is added where it matters
)
KEYS = {"attack", "recogniser", "rank1", "low", "high", "chance", "bound", "verdict", "probes", "gallery"}


@pytest.fixture(scope="module")
def copied(people, tmp_path_factory) -> Path:
    """Return a folder with the originals as they are, which claims to be de-identified."""
    folder = tmp_path_factory.mktemp("copied") / "out"
    shutil.copytree(people, folder)
    return folder


def rates(report, attack="naive"):
    table = report.attacks
    return dict(
        zip(*(table[table.attack == attack][column] for column in ("recogniser", "rank1")), strict=True)
    )


def test_a_release_is_audited_by_the_command(released, people, cli, tmp_path):
    before = digests(people)
    ran = cli(
        "audit", released, "--originals", people, "--attackers", ATTACKERS, "--json", tmp_path / "a.json"
    )
    assert (ran.code, ran.out) == (0, "")
    figures = json.loads((tmp_path / "a.json").read_text())
    assert {"k", "bound", "method", "publish", "attacks", "utility", "detected", "residual_faces"} <= set(
        figures
    )
    assert all(set(row) >= KEYS for row in figures["attacks"])
    assert all({"measure", "original", "deidentified", "slice"} == set(row) for row in figures["utility"])
    assert {row["attack"] for row in figures["attacks"]} >= {"naive", "reverse", "parrot", "group"}
    assert all(row["verdict"] in ("holds", "undecided") for row in figures["attacks"])
    assert (figures["k"], figures["publish"], figures["residual_faces"]) == (3, "portrait", 0)
    page = (released / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"']?https?:", page)
    assert not any(path.stem in page for path in people.iterdir()), "names of people are nobody's business"
    assert cli("verify", released, "--private", f"{released}.private").code == 0, "the report may be added"
    assert digests(people) == before


def test_an_unprotected_copy_is_recognised_by_everyone(copied, people, recogniser):
    report = ksame.audit(copied, originals=people, attackers=f"all,{recogniser}", subjects="prefix", k=3)
    assert set(rates(report).values()) == {1.0}
    naive = report.attacks[report.attacks.attack == "naive"]
    assert set(naive.verdict) == {"broken"}
    assert not report.pairs, "they are originals: no picture of them is shown unasked"


def test_the_command_fails_for_a_promise_that_is_broken(copied, people, cli, tmp_path):
    page = tmp_path / "page.html"
    ran = cli(
        "audit",
        copied,
        "--originals",
        people,
        "--attackers",
        "lbp",
        "--subjects",
        "prefix",
        "-k",
        "3",
        "-o",
        page,
    )
    assert ran.code == 3
    assert "stands for 1 distinct subjects, fewer than k = 3" in ran.err
    assert "certificate does not verify" not in ran.err, "there is none"
    assert page.is_file()


def test_black_out_leaves_chance_and_pixelation_does_not(people, tmp_path, recogniser):
    for method, strength in (("black-out", {}), ("pixelate", {"strength": 24})):
        ksame.deidentify(people, method=method, seed=1, **strength).save(tmp_path / method)
    kwargs = {"originals": people, "attackers": ["lbp", recogniser], "subjects": "prefix"}
    black = ksame.audit(tmp_path / "black-out", **kwargs)
    for result in black.results:
        if result.attack in ("naive", "reverse", "parrot"):
            assert result.low <= result.chance, f"{result.attack} by {result.recogniser}"
    coarse = ksame.audit(tmp_path / "pixelate", **kwargs)
    naive, automatic = rates(coarse), rates(coarse, "automatic parrot")
    assert max(naive.values()) > 4 / 12
    assert max(automatic.values()) >= max(naive.values())
    assert set(coarse.attacks.verdict) == {"undecided"}, "no bound was promised"


def test_an_imitation_of_k_same_is_caught(people, tmp_path):
    """Every face becomes the mean of its own k nearest: not a partition, so k people do not share a face."""
    faces = analyse_photos(find_sources(people), Context(), scale=1.0).faces
    flat = faces.rgb.reshape(len(faces), -1).astype(float)
    (tmp_path / "fake").mkdir()
    for name, one in zip(faces.source, flat, strict=True):
        near = np.argsort(np.linalg.norm(flat - one, axis=1))[:3]
        mean = flat[near].mean(axis=0).reshape(faces.rgb.shape[1:]).astype(np.uint8)
        Image.fromarray(mean).save(tmp_path / "fake" / Path(name).with_suffix(".png").name)
    report = ksame.audit(
        tmp_path / "fake", originals=people, attackers="eigenfaces,hog", subjects="prefix", k=3
    )
    assert "fewer than k = 3" in report.broken


def test_a_gallery_of_other_photos_and_strangers(released, people, family, tmp_path):
    gallery = tmp_path / "gallery"
    gallery.mkdir()
    for path in people.glob("*_ab.pgm"):
        shutil.copy(path, gallery)
    for i, path in enumerate(sorted(family.rglob("*.pgm"))):
        shutil.copy(path, gallery / f"x{i}_1.pgm")
    report = ksame.audit(released, originals=people, gallery=gallery, attackers="lbp")
    naive = report.attacks[report.attacks.attack == "naive"].iloc[0]
    assert (naive.gallery, naive.probes) == (12, 4), "two people are in it, and ten strangers"
    assert any("parrot attack" in note for note in report.notes), "two people are fewer than k"


@pytest.mark.parametrize("subjects", [None, "prefix", "folder"])
def test_a_gallery_of_strangers_alone_joins_the_originals(released, people, family, tmp_path, subjects):
    """Their file names need not follow the rule of the release."""
    gallery = tmp_path / "gallery"
    gallery.mkdir()
    strangers = sorted(family.rglob("*.pgm"))
    for i, path in enumerate(strangers):
        shutil.copy(path, gallery / f"{i}.pgm")
    report = ksame.audit(released, originals=people, gallery=gallery, attackers="lbp", subjects=subjects)
    naive = report.attacks[report.attacks.attack == "naive"].iloc[0]
    photos = [path.name for path in people.iterdir()]
    assert naive.gallery == len({name.split("_")[0] for name in photos}) + len(strangers)
    assert naive.probes == len(photos)
    assert "parrot" in set(report.attacks.attack)
    assert any("shows nobody of the release" in note for note in report.notes)


def test_without_the_private_folder_it_says_what_it_still_can(released, people, cli, tmp_path, recogniser):
    shutil.rmtree(f"{released}.private")
    report = ksame.audit(released, originals=people, attackers=recogniser)
    assert not report.results
    assert any("private folder" in note for note in report.notes)
    assert set(report.detected.values()) == {1.0}
    assert cli("audit", released, "--originals", people, "--attackers", "lbp").code == 0


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda out, photos: [path.unlink() for path in photos.glob("*.pgm")], "no photos"),
        (lambda out, photos: [p.rename(p.with_name(f"x{p.name}")) for p in photos.iterdir()], "made from"),
    ],
)
def test_originals_that_do_not_match(released, photos, cli, change, sentence):
    change(released, photos)
    ran = cli("audit", released, "--originals", photos, "--attackers", "lbp")
    assert (ran.code, sentence in ran.sentence) == (2, True)


def test_a_photo_that_is_missing_is_counted(released, photos, cli):
    next(photos.glob("*")).unlink()
    ran = cli("audit", released, "--originals", photos, "--attackers", "lbp")
    assert ran.code == 4
    assert "1 photo" in ran.err


def test_one_person_only(people, tmp_path, cli):
    for name in ("photos", "out"):
        (tmp_path / name).mkdir()
        for path in people.glob("00001_*"):
            shutil.copy(path, tmp_path / name)
    ran = cli(
        "audit",
        tmp_path / "out",
        "--originals",
        tmp_path / "photos",
        "--subjects",
        "prefix",
        "--attackers",
        "lbp",
    )
    assert (ran.code, "one person" in ran.sentence) == (2, True)


def test_pictures_without_a_face_are_counted(copied, people, tmp_path):
    out = Path(shutil.copytree(copied, tmp_path / "out"))
    blank = sorted(out.iterdir())[0]
    Image.fromarray(np.full((80, 60), 90, np.uint8)).save(blank.with_suffix(".png"))
    blank.unlink()
    report = ksame.audit(out, originals=people, attackers="lbp", subjects="prefix")
    naive = report.attacks[report.attacks.attack == "naive"].iloc[0]
    assert (naive.probes, naive.rank1 < 1) == (14, True)
    assert any("1 published" in note for note in report.notes)


def test_a_recogniser_file_that_is_not_one(released, people, tmp_path, cli):
    (tmp_path / "me.onnx").write_bytes(b"not a network")
    ran = cli("audit", released, "--originals", people, "--attackers", tmp_path / "me.onnx")
    assert ran.code in (1, 2)
    assert "me.onnx" in ran.sentence


def test_a_release_that_was_tampered_with_is_told_first(released, people, cli):
    victim = next((released / "images").iterdir())
    victim.write_bytes(victim.read_bytes() + b"x")
    ran = cli("audit", released, "--originals", people, "--attackers", "lbp")
    assert ran.code == 3
    assert "was changed" in (released / "report.html").read_text(encoding="utf-8")


def test_two_releases_are_intersected(released, people, tmp_path):
    ksame.deidentify(people, 3, subjects="prefix", partition="random", seed=5).save(tmp_path / "second")
    report = ksame.audit(released, originals=people, attackers="lbp", other=tmp_path / "second")
    crossed = report.attacks[report.attacks.attack == "intersection"].iloc[0]
    assert crossed.rank1 > 1 / 3, "groups that differ give people away"


def test_originals_are_shown_only_when_asked_and_never_in_the_release(released, people, cli, tmp_path):
    ran = cli("audit", released, "--originals", people, "--attackers", "lbp", "--show-originals")
    assert (ran.code, "must not lie in" in ran.sentence) == (2, True)
    shown = ksame.audit(released, originals=people, attackers="lbp", show_originals=True)
    hidden = ksame.audit(released, originals=people, attackers="lbp")
    assert all(pair.before for pair in shown.pairs)
    assert not any(pair.before for pair in hidden.pairs)
    assert all(pair.people >= 3 for pair in hidden.pairs)


def test_nothing_of_a_face_is_left_on_the_disk(released, people, tmp_path, monkeypatch):
    spot = tmp_path / "temporary"
    spot.mkdir()
    monkeypatch.setenv("TMPDIR", str(spot))
    ksame.audit(released, originals=people, attackers="lbp")
    assert not list(spot.rglob("*"))


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_where_nothing_can_be_written_is_told_before_the_work(released, people, cli, tmp_path, option):
    for place in (tmp_path, tmp_path / "nowhere" / "x"):
        ran = cli("audit", released, "--originals", people, option, place)
        assert (ran.code, "cannot be written" in ran.err + ran.out) == (2, True)


def test_nothing_but_the_report_is_added_to_a_release(released, people, cli):
    for option in ("-o", "--json"):
        ran = cli(
            "audit", released, "--originals", people, "--attackers", "lbp", option, released / "mine.txt"
        )
        assert (ran.code, "in the release" in ran.sentence) == (2, True)
    assert not (released / "mine.txt").exists()
