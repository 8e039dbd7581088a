from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ksame.analysis import identify, linkage
from ksame.analysis.identify import (
    IdentifiedPhotos,
    SubjectHints,
    SubjectSource,
    identify_faces,
    read_subject_hints,
)
from ksame.analysis.linkage import ONE_RECOGNISER, THREE_RECOGNISERS, choose_linkage, embed_faces
from ksame.analysis.photos import AnalysedPhotos, analyse_photos
from ksame.attack.score import interval
from ksame.core.context import Context
from ksame.core.errors import CannotGuarantee, Failure, UsageError, WeightsError
from ksame.io.sources import Source, find_sources
from samples import faces

NAMES = ["a/ann_1.jpg", "a/ann_2.jpg", "b/bob_1.jpg"]


def photos(names=NAMES):
    return [Source(name, np.zeros((2, 2, 3), np.uint8)) for name in names]


def found(set_of_faces, photo=None, rank=None):
    n = len(set_of_faces)
    photo = np.arange(n) if photo is None else np.array(photo)
    rank = np.zeros(n, int) if rank is None else np.array(rank)
    return AnalysedPhotos(tuple(photos(map(str, range(n)))), set_of_faces, photo, (), rank, ())


def test_who_is_who_is_read_before_the_long_work(tmp_path):
    assert read_subject_hints(photos(), "auto", 9) == SubjectHints("auto")
    assert read_subject_hints(photos(), "folder", 2) == SubjectHints("folder", ["a", "a", "b"])
    assert read_subject_hints(photos(), "prefix", 2) == SubjectHints("prefix", ["ann", "ann", "bob"])
    assert read_subject_hints(photos(), ["x", "x", 7], 2) == SubjectHints("given", ["x", "x", "7"])
    table = tmp_path / "who.csv"
    table.write_text("file,subject,age\nann_1.jpg,A,30\nann_2.jpg,A,30\nbob_1.jpg,B,40\n")
    for file in (table, str(table)):
        given = read_subject_hints(photos(), file, 2)
        assert (given.how, given.subjects) == ("csv", ["A", "A", "B"])
        assert given.labels["age"].tolist() == ["30", "30", "40"]


def test_too_few_people_or_names_are_told_at_once():
    with pytest.raises(CannotGuarantee, match=r"2 distinct subjects were given\. Got 3"):
        read_subject_hints(photos(), "prefix", 3)
    with pytest.raises(UsageError, match=r"one person per photo: 3\. Got 2"):
        read_subject_hints(photos(), ["x", "y"], 2)


def test_no_recogniser_is_asked_where_every_face_is_named(monkeypatch):
    monkeypatch.setattr(identify, "choose_linkage", lambda: pytest.fail("it was asked"))
    given = SubjectHints("prefix", ["ann", "bob", "ann"], {"sex": np.array(["f", "m", "f"])})
    people = identify_faces(found(faces(3), photo=[0, 1, 2]), given, 2, Context())
    named, told = people.faces, people.subject_source
    assert named.subject.tolist() == ["ann", "bob", "ann"]
    assert named.labels["sex"].tolist() == ["f", "m", "f"]
    assert (told.how, told.recognisers) == ("prefix", ())
    assert told.assumption == "each person has one prefix in the file names"


def test_a_second_face_in_a_photo_is_asked_about(monkeypatch):
    codes = np.array([[0.0], [5.0], [0.1]])
    monkeypatch.setattr(identify, "choose_linkage", lambda: linkage.ONE_RECOGNISER)
    monkeypatch.setattr(identify, "embed_faces", lambda *_: {"dlib": codes})
    given = SubjectHints("prefix", ["ann", "bob"], {"sex": np.array(["f", "m"])})
    people = identify_faces(found(faces(3), photo=[0, 1, 1], rank=[0, 0, 1]), given, 2, Context())
    named, told = people.faces, people.subject_source
    assert named.subject.tolist() == ["ann", "bob", "ann"], "ann is in bob's photo"
    assert named.labels["sex"].tolist() == ["f", "m", "f"], "and has her own label there"
    assert told.recognisers == ("dlib",)
    assert told.assumption.startswith(
        "each person has one prefix in the file names, the largest face of a photo is"
    )


@pytest.mark.weights
@pytest.mark.parametrize("scale", [0.5, 1.0, 1.7])
def test_people_are_told_apart_at_any_scale_of_the_registered_pictures(scale, family):
    context = Context()
    photos = analyse_photos(find_sources(family), context, scale=scale)
    people = identify_faces(photos, SubjectHints("auto"), 5, context)
    named, told = people.faces, people.subject_source
    pairs = set(
        zip(named.subject.tolist(), (name.split("/")[0] for name in named.source.tolist()), strict=True)
    )
    assert len(pairs) == len(set(named.subject)) == 5
    assert told.recognisers == choose_linkage().recognisers
    assert told.assumption == str(choose_linkage())


@pytest.mark.weights
def test_embeddings_do_not_depend_on_the_number_of_workers(family):
    found = analyse_photos(find_sources(family), Context(), scale=1.0).faces
    who = choose_linkage().recognisers
    one, several = (embed_faces(found, who, Context(jobs=jobs)) for jobs in (1, 4))
    for name in one:
        np.testing.assert_array_equal(one[name], several[name])


@pytest.mark.parametrize("linkage", [THREE_RECOGNISERS, ONE_RECOGNISER])
def test_the_certificate_states_the_rule_and_how_often_it_failed(linkage):
    said = str(linkage)
    assert "never" not in said
    assert all(name in said for name in linkage.recognisers)
    for trial in linkage.trials:
        assert f"{trial.split} of {trial.people:,} people" in said
        assert (trial.low, trial.high) == pytest.approx(interval(trial.split, trial.people), abs=1e-4)
    assert "counted as one" in said


@pytest.mark.parametrize(
    ("npm", "cached", "chosen"),
    [
        (True, (), THREE_RECOGNISERS),
        (True, ("dlib",), THREE_RECOGNISERS),  # not what happens to be cached
        (False, ("dlib",), ONE_RECOGNISER),
        (False, (), ONE_RECOGNISER),
        (False, ("sface", "mobilefacenet"), THREE_RECOGNISERS),
    ],
)
def test_the_recognisers_are_three_or_dlib_alone_without_npm(npm, cached, chosen, monkeypatch):
    asked = []
    monkeypatch.setattr(linkage.shutil, "which", lambda name: "/bin/npm" if npm else None)
    monkeypatch.setattr(linkage.weights, "cached", lambda name: name in cached)
    monkeypatch.setattr(linkage.weights, "fetch", asked.extend)
    assert choose_linkage() is chosen
    assert asked == list(chosen.recognisers)


def test_a_recogniser_that_cannot_be_had_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path))
    monkeypatch.setenv("KSAME_OFFLINE", "1")
    with pytest.raises(WeightsError, match="models add"):
        read_subject_hints(photos(), "auto", 2)


@pytest.mark.parametrize("change", [0, 1])
def test_one_photo_of_two_people_is_refused(change):
    some = faces(4)
    rgb = some.rgb.copy()
    rgb[2] = rgb[0] + change  # saved again, a grey level may be off
    twins = replace(some, rgb=rgb, source=np.array(["a.jpg", "b.jpg", "c.jpg", "d.jpg"]))
    with pytest.raises(CannotGuarantee, match=r"'a\.jpg' and 'c\.jpg' show the same photo"):
        identify_faces(found(twins), SubjectHints("given", ["ann", "bob", "cat", "dan"]), 2, Context())
    one = SubjectHints("given", ["ann", "bob", "ann", "dan"])
    named = identify_faces(found(twins), one, 2, Context())
    assert named.subject.tolist() == ["ann", "bob", "ann", "dan"], "one person may give a photo twice"


def test_photos_that_resemble_one_another_are_no_copies():
    some = faces(2)
    rgb = some.rgb.copy()
    rgb[1] = rgb[0]
    rgb[1, :80, :64] += 20
    named = identify_faces(found(replace(some, rgb=rgb)), SubjectHints("given", ["ann", "bob"]), 2, Context())
    assert named.subject.tolist() == ["ann", "bob"]


def test_fewer_people_than_k_are_refused_when_the_faces_are_known():
    three = SubjectHints("given", ["ann", "bob", "ann"])
    assert len(identify_faces(found(faces(3)), three, 2, Context()).faces) == 3
    with pytest.raises(CannotGuarantee, match=r"2 distinct subjects were given\. Got 3") as caught:
        failed = replace(found(faces(3)), failures=(Failure("gone.jpg", "no face was found"),))
        identify_faces(failed, three, 3, Context())
    assert caught.value.__notes__ == ["gone.jpg: no face was found"], "it may be why"


def test_where_it_does_not_matter_every_face_is_somebody_of_their_own(monkeypatch):
    monkeypatch.setattr(identify, "choose_linkage", lambda: pytest.fail("it was asked"))
    people = IdentifiedPhotos.unlinked(found(faces(3), photo=[0, 1, 1], rank=[0, 0, 1]))
    assert len(set(people.subject)) == 3
    assert people.subject_source.assumption is None
    assert people.subject_source.recognisers == ()


def test_views_of_a_person_are_spread_over_their_photos():
    some = faces(7)
    named = replace(some, subject=np.array(list("aabaaaa")))
    pictures = [np.full((2, 2, 3), number, np.uint8) for number in range(7)]
    photos = replace(
        found(named), sources=tuple(Source(str(number), rgb) for number, rgb in enumerate(pictures))
    )
    people = IdentifiedPhotos(photos, named, SubjectSource("given", "as given"))
    views = people.views(3)
    assert list(views) == ["a", "b"]
    assert [view.rgb[0, 0, 0] for view in views["a"]] == [0, 3, 5]
    assert [view.rgb[0, 0, 0] for view in views["b"]] == [2]
    np.testing.assert_array_equal(views["b"][0].points, named.points[2])
