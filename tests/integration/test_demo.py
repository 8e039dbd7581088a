"""The demonstration as a stranger sees it."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from running import shell

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo [bold]")  # a name that markup must not eat
    return folder, shell("demo", cwd=folder)


def test_it_shows_people_their_new_faces_and_both_verdicts(shown):
    folder, ran = shown
    assert (ran.code, ran.out) == (0, "")
    assert "k-anonymity with k = 5" in ran.err
    assert ran.err.count("✓") == 6
    assert re.search(r"✗ 'images/[0-9a-f]{16}\.png' was changed", ran.err)
    assert str(folder / "demo" / "report.html") in " ".join(ran.err.split("\n"))
    with Image.open(folder / "demo" / "faces.png") as image:
        assert image.width > image.height > 500
    page = (folder / "demo" / "report.html").read_text(encoding="utf-8")
    assert "k-anonymity with k = 5" in page
    assert "The strongest attack tried" in page
    assert "data:image/png;base64," in page
    assert not re.search(r"(src|href)=[\"']?https?:", page), "the page needs no network"


def test_what_it_leaves_verifies(shown, cli):
    folder, _ = shown
    release = folder / "demo" / "release"
    ran = cli("verify", release, "--private", f"{release}.private", "--json")
    assert (ran.code, ran.json["k"]) == (0, 5)


def test_it_writes_over_nothing_but_itself(shown, tmp_path, cli):
    folder, _ = shown
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    ran = cli("demo", "-o", tmp_path)
    assert (ran.code, "name another folder" in ran.sentence) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]
    again = cli("demo", "-o", folder / "demo")
    assert again.code == 0
