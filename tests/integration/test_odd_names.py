"""Files and folders with names that look like something else, from the command line to the report."""

from __future__ import annotations

import os
import shutil
import unicodedata
from pathlib import Path

import pytest

from films import film
from ksame import io
from ksame.core.folders import fit_name
from ksame.core.text import make_visible, read_csv
from ksame.release import read_private
from odd_names import ODD
from running import shell, tree

pytestmark = pytest.mark.weights


def lines_of(err: str) -> list[str]:
    """Return the lines of stderr, after checking that there is nothing in them that a terminal obeys."""
    assert "Traceback" not in err
    assert {c for c in err if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} <= {"\n"}
    return err.splitlines()


@pytest.fixture
def photos(people, tmp_path) -> Path:
    """Twelve people, each in a folder of an odd name, under an odd name; and a file that is no photo."""
    folder = tmp_path / "in[/b]"
    for number, path in enumerate(sorted(people.glob("*_aa.pgm"))):
        to = folder / ODD[number] / f"{ODD[-number - 1]}.pgm"
        to.parent.mkdir(parents=True)
        shutil.copy(path, to)
    (folder / ODD[3] / f"{ODD[4]}.png").write_bytes(b"")
    shutil.copy(people / "00001_ab.pgm", folder / ODD[0] / f"{'n' * 251}.pgm")
    return folder


def test_photos_of_odd_names(photos, tmp_path):
    out = tmp_path / "out\x1b[31m[/red]\n"
    secret = out.with_name(f"{out.name}.private")
    how = ("--subjects", "folder", "-k", 3, "--method", "ksame-pixel", "--names", "keep")
    ran = shell("run", photos, "-o", out, *how, "--json")
    assert ran.code == 4, ran.err
    assert ran.out.isascii()
    broken = f"{ODD[3]}/{ODD[4]}.png"
    assert [failure["input"] for failure in ran.json["failures"]] == [broken]
    assert [row["input"] for row in read_csv(secret / "failures.csv")] == [broken]
    lines = lines_of(ran.err)
    assert any(line.startswith(f"! {make_visible(broken)}: ") for line in lines)
    assert f"✓ written and verified: {make_visible(str(out))}" in lines
    inputs = {name for name in tree(photos) if (photos / name).is_file()} - {broken}
    rows = read_private(secret).mapping
    assert {row.input for row in rows} == inputs
    assert {row.subject for row in rows} == set(ODD[:12])
    assert {row.output for row in rows} == {f"images/{name[:-4]}.png" for name in inputs}
    assert all(len(os.fsencode(part)) <= 255 for row in rows for part in row.output.split("/"))
    told = shell("verify", out, "--private", secret)
    assert told.code == 0
    assert lines_of(told.err)
    again = shell("run", photos, "-o", out, *how)
    assert again.code == 2
    assert lines_of(again.err)[-1].startswith(f"ksame: {make_visible(str(out))} already has files in it")
    audit = shell("audit", out, "--originals", photos, "--attackers", "eigenfaces")
    assert audit.code in (0, 3, 4), audit.err
    assert lines_of(audit.err)
    assert (out / "report.html").read_text(encoding="utf-8")


def test_a_csv_may_name_people_as_the_mapping_does(photos, tmp_path):
    names = sorted(name for name in tree(photos) if (photos / name).is_file())
    names = [name for name in names if name.isascii() and name.isprintable()]
    given = tmp_path / "given"
    for name in names:
        (given / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photos / name, given / name)
    how = ("--method", "ksame-pixel", "-k", 2)
    assert shell("run", given, "-o", tmp_path / "one", *how, "--subjects", "folder").code == 0
    mapping = (tmp_path / "one.private" / "mapping.csv").read_text()
    assert "'=HYPERLINK(1)/" in mapping
    subjects = tmp_path / "who.csv"
    subjects.write_text(mapping.replace("input,", "file,", 1))
    ran = shell("run", given, "-o", tmp_path / "two", *how, "--subjects", subjects)
    assert ran.code == 0, ran.err


def test_videos_of_odd_names(recogniser, tmp_path):
    folder = tmp_path / "in"
    (folder / "a[").mkdir(parents=True)
    odd = "a[/red]\x1b[31m\n\u202e.mp4"
    whole = film(folder / odd, ["00001aa"], frames=6, sound=None)
    long = f"{'n' * 251}.mp4"
    shutil.copy(whole, folder / long)
    (folder / f"{'z' * 251}.avi").write_bytes(b"")
    ran = shell("run", folder, "-o", tmp_path / "out", "--seed", 1, "--json")
    assert ran.code == 4, ran.err
    assert [failure["input"] for failure in ran.json["failures"]] == [f"{'z' * 251}.avi"]
    lines = lines_of(ran.err)
    assert f"tracking faces in {make_visible(odd)}: 6 of 6" in lines
    assert f"drawing {make_visible(odd)}: 6 of 6" in lines
    assert tree(tmp_path / "out" / "images") == {"a[", odd, long}
    assert tree(tmp_path / "out.private" / "tracks") == {"a[", f"{odd}.json", fit_name(long, ".json")}
    assert shell("verify", tmp_path / "out", "--private", tmp_path / "out.private").code == 0


@pytest.mark.parametrize("name", ["concat:x.mp4", "http:x.mp4", "-x.mp4", os.fsdecode(b"\xff.mp4")])
def test_a_video_whose_name_is_no_protocol(name, tmp_path, monkeypatch):
    film(tmp_path / "whole.mp4", [], frames=3, sound=None).rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert io.probe_video(name).frames == 3
