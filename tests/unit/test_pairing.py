"""Who is who in an audit: names that are alike are not one person, and a page names nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ksame.attack.embed import FaceEmbeddings
from ksame.audit.inputs import AttackInputs, AuditRequest, EmbeddedPairs, Gallery, build_gallery
from ksame.audit.pairing import (
    Claim,
    FacePairs,
    _anonymise,
    _identify_people,
    gallery_subjects,
    keep_with_originals,
)
from ksame.audit.suite import match_people, run_attacks
from ksame.core.errors import GuaranteeViolated, InputError, UsageError
from ksame.io.sources import Source
from ksame.release import MappingRow


def pairs(*inputs: str) -> FacePairs:
    """Return a release of photos PERSON/PHOTO.jpg."""
    rows = tuple(MappingRow(name, name.split("/")[0], 0, name) for name in inputs)
    return FacePairs(rows, {name: Source(name, Path(name)) for name in inputs})


OURS = pairs("ann/1.jpg", "bob/1.jpg")


@pytest.mark.parametrize(("how", "told"), [("folder", None), (None, "folder")])
def test_a_stranger_whose_photo_has_a_known_name_stays_one(how, told):
    who = gallery_subjects(["ann/7.jpg", "eve/1.jpg"], OURS, how, told)
    assert who == ["ann", "stranger: eve"]


def test_without_a_rule_a_name_counts_only_if_it_is_one_persons():
    assert gallery_subjects(["x/1.jpg", "bob/1.jpg"], OURS, None, "auto") == ["stranger: x/1.jpg", "bob"]
    one = pairs("ann/1.jpg", "bob/2.jpg")
    assert gallery_subjects(["x/1.jpg"], one, None, "auto") == ["ann"]
    assert gallery_subjects(["x/1.jpg", "y/1.jpg"], one, None, "auto")[0].startswith("stranger")


@pytest.mark.parametrize("how", ["prefix", "folder"])
def test_photos_that_follow_no_rule_show_strangers(how):
    subjects = gallery_subjects(["7.jpg", "8.jpg", "_8.jpg"], OURS, how, None)
    assert all(subject.startswith("stranger: ") for subject in subjects)
    assert len(set(subjects)) == 3


def test_a_table_of_the_gallery_that_names_nobody_of_the_release_is_refused(tmp_path):
    table = tmp_path / "who.csv"
    table.write_text("file,subject\ng/1.jpg,eve\ng/2.jpg,bob\n")
    found = gallery_subjects(["g/1.jpg", "g/2.jpg", "g/3.jpg"], OURS, str(table), None)
    assert found == ["stranger: eve", "bob", "stranger: g/3.jpg"]
    with pytest.raises(UsageError, match="shows nobody of the release"):
        gallery_subjects(["g/1.jpg"], OURS, str(table), None)
    table.write_text("file,subject\nann/1.jpg,ann\n")
    assert gallery_subjects(["g/1.jpg"], OURS, str(table), None) == ["stranger: g/1.jpg"], (
        "a table of the originals says nothing of strangers"
    )
    table.write_text("photo,person\n")
    with pytest.raises(UsageError, match="columns file and subject"):
        gallery_subjects(["g/1.jpg"], OURS, str(table), None)


def test_originals_that_were_moved_are_not_paired_with_somebody_else():
    found = keep_with_originals(
        OURS.rows, [Source("eve/1.jpg", Path("1.jpg")), Source("ann/1.jpg", Path("2.jpg"))]
    )
    assert list(found.sources) == ["ann/1.jpg"]
    assert found.missing == ("bob/1.jpg",)


def test_people_of_an_ad_hoc_release_are_told_by_the_rule():
    names = ["ann/1.jpg", "ann/2.jpg", "bob/1.jpg"]
    sources = [Source(name, Path(name)) for name in names]
    rows = [
        MappingRow(n, f"{n}#{rank}", 0, n) for n, rank in zip([*names, names[0]], (0, 0, 0, 1), strict=True)
    ]
    whole = FacePairs(tuple(rows), {s.name: s for s in sources})
    assert _identify_people(whole, sources, "folder").subjects == ["ann", "ann", "bob", "ann/1.jpg#1"]
    assert "--subjects" in _identify_people(whole, sources, None).notes[0]


def test_what_is_broken_is_told_without_a_name():
    error = GuaranteeViolated("Subject 'O'Hara\nAnn' is behind 2 different published faces: comparing.")
    assert _anonymise(error) == "One person is behind 2 different published faces: comparing."


def faces(boxes, photo) -> FaceEmbeddings:
    n = len(boxes)
    return FaceEmbeddings(
        np.array(photo), np.array(boxes, float), np.zeros((n, 468, 2)), {"r": np.zeros((n, 2))}
    )


def test_a_face_of_a_scene_is_the_one_in_its_place():
    seen = faces([[100, 0, 180, 80], [0, 0, 40, 40]], [0, 0])  # the larger one is somebody else's
    box = np.array([[2.0, 1.0, 41.0, 42.0]])
    assert seen.match_boxes([0], box, in_place=True).tolist() == [1]
    assert seen.match_boxes([0], box, in_place=False).tolist() == [0], "a crop: it may be anywhere"


def trial(gallery: list[tuple[str, str]]) -> AttackInputs:
    seen = faces([[0, 0, 9, 9]] * 2, [0, 1])
    who, photos = [w for w, _ in gallery], [str(Path(p).resolve()) for _, p in gallery]
    crowd = Gallery(seen, who, photos, [], [], np.zeros(1, np.intp))
    request = AuditRequest([], [], None)
    return AttackInputs(request, Claim(Path(), {}), OURS, EmbeddedPairs(seen, seen, [], [], {}), crowd)


def test_other_photos_are_those_of_the_people_and_not_of_strangers():
    same = [("ann", "ann/1.jpg"), ("bob", "bob/1.jpg")]
    assert not trial([*same, ("eve", "eve/1.jpg"), ("eve", "eve/2.jpg")]).has_other_photos
    assert trial([*same, ("bob", "bob/2.jpg")]).has_other_photos
    assert not trial([("ann", "ann/8.jpg"), ("ann", "ann/9.jpg")]).has_other_photos, (
        "these are other photos anyhow"
    )


def test_an_attacker_who_sees_no_face_at_all_measures_nothing():
    lost = faces([[0, 0, 9, 9]] * 2, [-1, -1])
    with pytest.raises(InputError, match="nothing can be measured"):
        build_gallery(
            AuditRequest([], [], None), Claim(Path(), {}), OURS, EmbeddedPairs(lost, lost, [], [], {}), []
        )


def test_numbered_people_of_two_releases_are_joined_by_their_photos():
    rows = [
        MappingRow("a.jpg", "person-001", 0, "x"),
        MappingRow("a.jpg", "person-002", 0, "x"),
        MappingRow("b.jpg", "person-003", 1, "y"),
    ]
    other = [
        MappingRow("b.jpg", "person-001", 0, "x"),
        MappingRow("c.jpg", "person-001", 0, "y"),
        MappingRow("d.jpg", "person-002", 1, "z"),
    ]
    assert match_people(rows, other, by_name=False) == ["person-003", "person-003", "not here: person-002"]
    assert match_people(rows, other, by_name=True) == ["person-001", "person-001", "person-002"]


@pytest.mark.parametrize(
    ("certificate", "sentence"),
    [
        ({"method": {"name": "tomorrow"}}, "The method tomorrow cannot be run on other photos"),
        ({}, "The method is not known"),
    ],
)
def test_a_method_that_cannot_be_run_again_is_named(certificate, sentence):
    inputs = replace(trial([("ann", "ann/1.jpg"), ("bob", "bob/1.jpg")]), claim=Claim(Path(), certificate))
    blank = inputs.gallery._replace(largest=np.array([-1, -1]))
    results, notes = run_attacks(replace(inputs, gallery=blank), [])
    assert (results, notes) == ([], [f"{sentence}, so no parrot attack was tried."])
