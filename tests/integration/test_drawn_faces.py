"""The drawn methods through Python: who shares a face, what the claim becomes, what the options change."""

import numpy as np
import pytest

import ksame
from ksame import io
from ksame.core.errors import UsageError, WeightsError
from ksame.methods import METHODS, KSame
from ksame.methods.obscure import draw_synthetic_faces
from ksame.models.detectors import DETECTORS, detect

pytestmark = pytest.mark.weights


def run(people, **options):
    return ksame.deidentify(people, **({"k": 2, "subjects": "prefix", "seed": 3} | options))


def pictures(release):
    return {row.input: io.decode(release.files[row.output]) for row in release.private.mapping}


@pytest.mark.parametrize("publish", ["portrait", "scene"])
@pytest.mark.parametrize("method", ["ksame-m", "ksame-furthest", "kdiff-furthest"])
def test_every_new_face_is_found_by_two_detectors(method, publish, people):
    release = run(people, method=method, publish=publish)
    seen = list(pictures(release).values())
    for detector in ("yunet", "blazeface"):
        assert detector in DETECTORS
        missed = [len(detect(image, detector=detector)) == 0 for image in seen]
        assert not any(missed), f"{detector} misses {sum(missed)} of {len(missed)}"


def test_furthest_publishes_k_anonymous_faces_of_others(people):
    release = run(people, method="ksame-furthest", select="gender")
    assert release.guarantee.k_anonymous
    shared = {}
    for row in release.private.mapping:
        shared.setdefault(release.files[row.output], set()).add(row.subject)
    assert min(map(len, shared.values())) >= 2
    ksame.core.partition_type.check_law(
        [release.files[row.output] for row in release.private.mapping],
        [row.subject for row in release.private.mapping],
        2,
    )


def test_kdiff_publishes_distinct_faces_and_claims_no_bound(people):
    release = run(people, method="kdiff-furthest")
    assert not release.guarantee.k_anonymous
    assert release.guarantee.bound == 1
    assert len(set(release.files.values())) == len(release.private.mapping)


def test_expressions_are_kept_and_the_claim_is_lowered(people):
    plain, kept = run(people), run(people, expression="keep")
    assert kept.guarantee < plain.guarantee
    assert kept.guarantee.kind == "none"
    assert "expressions are carried over" in str(kept.guarantee)
    before, after = pictures(plain), pictures(kept)
    two = [name for name in before if name.startswith(("00001_", "00002_"))]
    changed = [name for name in before if (before[name] != after[name]).any()]
    # who has one photo has nothing to differ from; of two photos one is the neutral one
    assert set(changed) <= set(two)
    assert len(changed) == 2
    for name in changed:
        assert 0.2 < np.abs(before[name].astype(int) - after[name]).mean() < 30


def test_a_neutral_photo_may_be_named(people, tmp_path):
    names = sorted(path.name for path in people.iterdir())
    for neutral in ("aa", "ab"):
        table = tmp_path / f"{neutral}.csv"
        rows = [f"{n},{n[:5]},{'neutral' if n[6:8] == neutral else 'other'}" for n in names]
        table.write_text("\n".join(["file,subject,expression", *rows]))
        plain, kept = (
            pictures(run(people, subjects=table, expression=expression)) for expression in ("drop", "keep")
        )
        assert (plain[f"00001_{neutral}.pgm"] == kept[f"00001_{neutral}.pgm"]).all()


def test_a_model_of_ones_own(people, tmp_path):
    own = run(people, model="own")
    assert own.guarantee.k == 2
    with pytest.raises(UsageError, match="not an appearance model"):
        (tmp_path / "no.npz").write_bytes(b"no")
        run(people, model=tmp_path / "no.npz")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"publish": "scene"}, "publishes portrait only, not scene"),
        ({"expression": "keep"}, "no option --expression"),
    ],
)
@pytest.mark.parametrize("method", ["ksame-pixel", "ksame-eigen"])
def test_pixel_methods_draw_nothing_for_a_scene(method, options, says, people):
    with pytest.raises(UsageError, match=f"{method} .*{says}"):
        run(people, method=method, **options)


def test_small_parts_are_merged_and_that_is_said(people):
    release = run(people, k=5)
    assert any("merged with" in note for note in release.private.settings["notes"])
    assert "merged" not in str(release.certificate()), "how few of a kind there were is not for the public"


@pytest.mark.parametrize("options", [{}, {"select": "age"}, {"method": "ksame-pixel", "select": "gender"}])
def test_without_its_weights_a_method_does_not_begin(options, people, cache_without, monkeypatch):
    monkeypatch.setattr("ksame.pipeline.photos.analyse_photos", lambda *_, **__: pytest.fail("it began"))
    cache_without("age")
    with pytest.raises(WeightsError, match="models add age"):
        run(people, **options)


def test_what_a_method_does_not_ask_need_not_be_there(people, cache_without):
    cache_without("age", "gender", "emotion", "sface", "dlib", "stylegan")
    assert len(run(people, method="ksame-pixel").files) == 14


def test_potato_takes_its_parts_from_nobody(people):
    donors = draw_synthetic_faces(7)
    assert donors.shape[1:] == (320, 256, 3)
    assert all(len(detect(face)) for face in donors)
    release = ksame.deidentify(people, method="potato", seed=7)
    assert release.guarantee.kind == "none"
    assert len(release.files) == 14


def test_the_face_that_kdiff_starts_from_is_made_of_many_people_however_many_photos_they_have(monkeypatch):
    from ksame.render import mean_face, portrait
    from ksame.spaces import AppearanceSpace
    from samples import faces as made_up

    few = made_up(12)
    many = few[np.arange(12 * 26) % 12]
    used = []

    def count(rgb, shapes, shares, triangles):
        used.append(len(rgb))
        return portrait.Surrogate(rgb[0], shapes[0])

    monkeypatch.setattr(mean_face, "draw_mean_face", count)
    space = AppearanceSpace.bundled()
    codes = np.zeros((len(many), len(space.deviation)))
    monkeypatch.setattr(mean_face, "_apply_code_changes", lambda space, face, codes: [face])
    mean_face.draw_codes(space, many, codes)
    assert used == [12]


@pytest.mark.parametrize("method", ["ksame-m", "ksame-furthest", "kdiff-furthest"])
def test_a_person_with_two_labels_is_refused_by_every_method(method, people, tmp_path):
    table = tmp_path / "moods.csv"
    names = sorted(path.name for path in people.iterdir())
    rows = [f"{n},{n[:5]},{'up' if i % 2 else 'down'}" for i, n in enumerate(names)]
    table.write_text("\n".join(["file,subject,mood", *rows]))
    with pytest.raises(UsageError, match="has the labels down, up"):
        run(people, method=method, subjects=table, select="mood", publish="scene")


def test_a_method_may_be_given_as_it_is(people):
    named = run(people, partition="kmeans", select="gender")
    method = KSame(k=2, partition="kmeans", select="gender")
    assert method == METHODS["ksame-m"].with_options({"k": 2, "partition": "kmeans", "select": "gender"})
    given = ksame.deidentify(people, method=method, subjects="prefix", seed=3)
    assert (given.method, given.files) == (named.method, named.files) == (method, named.files)


def test_a_list_of_names_follows_the_photos_in_their_order(people):
    paths = sorted(people.iterdir(), reverse=True)
    release = run(people)
    listed = ksame.deidentify(paths, k=2, subjects=[path.name[:5] for path in paths], seed=3)
    assert {row.input: row.subject for row in listed.private.mapping} == {
        row.input: row.subject for row in release.private.mapping
    }
    with pytest.raises(UsageError, match="single photos"):
        ksame.deidentify(people, k=2, subjects=["a"] * 14)
    with pytest.raises(UsageError, match="given twice"):
        ksame.deidentify([*paths, paths[0]], k=2, subjects=["a"] * 15)
