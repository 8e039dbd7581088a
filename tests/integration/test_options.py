"""An option that nobody owns, or a value that there is not, is refused before any work; the others count."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import ksame
from films import film
from ksame.core.context import Context
from ksame.core.errors import UsageError
from ksame.methods import METHODS, Shift
from ksame.models import recognisers
from ksame.models.recognisers import RECOGNISERS, VERIFIERS
from ksame.pipeline import Portraits, find_media, run
from running import digests, tree

pytestmark = pytest.mark.weights

AD_HOC = ("--method", "pixelate", "--accept-no-guarantee")
SHIFT = ("--method", "shift")


@pytest.fixture
def few(people: Path, tmp_path: Path) -> Path:
    """Return a folder of three people in three photos."""
    folder = tmp_path / "few"
    folder.mkdir()
    for photo in sorted(people.glob("*_aa.pgm"))[:3]:
        shutil.copy(photo, folder)
    return folder


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a network would be fetched, or a photo or a video be looked at."""
    for module, work in (("run", "prepare"), ("photos", "analyse_photos"), ("videos", "scan_video")):
        place = import_module(f"ksame.pipeline.{module}")  # ksame.pipeline.run is its function
        monkeypatch.setattr(place, work, lambda *_, **__: pytest.fail("the work began"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((*AD_HOC, "--publish", "portrait"), "pixelate publishes scene only, not portrait"),
        ((*AD_HOC, "--partition", "nonsense"), "has no option --partition"),
        ((*AD_HOC, "--partition", "mdav"), "has no option --partition"),
        ((*AD_HOC, "--subjects", "nonsense.csv"), "leave out --subjects"),
        ((*AD_HOC, "--subjects", "prefix"), "leave out --subjects"),
        ((*AD_HOC, "-k", "3"), "has no option -k"),
        ((*AD_HOC, "--strength", "-1"), "strength"),
        ((*AD_HOC, "--verifiers", "sface"), "asks no verifiers"),
        (("--keep", "nobody.jpg"), "has no option --keep"),
        (("--pool", "nowhere.npz"), "has no option --pool"),
        (("--pool", "bundled"), "has no option --pool"),
        (("--embedding", "nonsense"), "'nonsense' is not one of 'mobilefacenet'"),
        (("--embedding", "sface"), "has no option --embedding"),
        (("--tracks", "nowhere"), "has no option --tracks"),
        (("--quality", "999"), "has no option --quality"),
        (("--quality", "50"), "has no option --quality"),
        (("--audio", "drop"), "has no option --audio"),
        (("--texture", "pixel"), "has no option --texture"),
        (("--strength", "2"), "has no option --strength"),
        (("--generator", "bundled"), "has no option --generator"),
        (("--verifiers", "sface"), "asks no verifiers"),
        (("--composite", "poisson"), "--composite has an effect on scenes only"),
        (("--search", "full"), "has no option --search"),
        (("--partition", "nonsense"), "There is no partition 'nonsense': choose one of mdav"),
        (("--model", "nowhere.npz"), "--model: there is no file or folder 'nowhere.npz'"),
        (("--model", "shipped"), "--model: there is no file or folder 'shipped'"),
        (("--engine", "dask"), "There is no engine 'dask': choose one of threads, processes."),
        (("--method", "ksame-pixel", "--publish", "scene"), "ksame-pixel publishes portrait only, not scene"),
        (("--method", "ksame-pixel", "--expression", "keep"), "has no option --expression"),
        ((*SHIFT, "-k", "3"), "has no option -k"),
        ((*SHIFT, "--pool", "nowhere.npz"), "--pool: there is no file or folder 'nowhere.npz'"),
        ((*SHIFT, "--publish", "portrait", "--texture", "pixel"), "--texture has an effect on scenes only"),
        ((*SHIFT, "--verifiers", "nonsense"), "There is no verifier 'nonsense'"),
        ((*SHIFT, "--verifiers", ","), "There is no verifier ''"),
        (("--method", "anonfaces", "--generator", "nowhere"), "go together"),
        (
            ("--method", "anonfaces", "--generator", "nowhere", "--generator-map", "nowhere.npz"),
            "--generator: there is no file or folder 'nowhere'",
        ),
    ],
)
def test_photos_are_not_looked_at(options, says, people, tmp_path, cli, no_work):
    ran = cli("run", people, "-o", tmp_path / "out", "--json", *options)
    assert ran.code == ran.json["exit_code"] == 2
    assert says in ran.sentence
    assert tree(tmp_path) == set()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--quality", "999"), "quality must be an integer from 0 to 100. Got 999."),
        (("--quality", "-1"), "quality must be an integer from 0 to 100. Got -1."),
        (("--tracks", "nowhere"), "--tracks: there is no file or folder 'nowhere'"),
        (("--keep", "nobody.jpg"), "--keep: there is no file or folder 'nobody.jpg'"),
        (("--pool", "nowhere.npz"), "--pool: there is no file or folder 'nowhere.npz'"),
        (("--subjects", "nonsense.csv"), "has no option --subjects"),
        (("--publish", "portrait"), "published as scenes"),
        (("--method", "ksame-m"), "ksame-m does not work on videos: choose shift"),
        ((*AD_HOC,), "pixelate does not work on videos: choose shift"),
        (("--faceless", "publish"), "--faceless has an effect on photos only"),
        (("--allow-residual",), "--allow-residual has an effect on photos only"),
    ],
)
def test_videos_are_not_looked_at(options, says, tmp_path, cli, no_work):
    clip = film(tmp_path / "a.mp4", [], frames=2, sound=None)
    ran = cli("run", clip, "-o", tmp_path / "out", "--json", *options)
    assert ran.code == ran.json["exit_code"] == 2
    assert says in ran.sentence
    assert tree(tmp_path) == {"a.mp4"}


def test_the_driver_refuses_the_same_in_python(people, no_work):
    media = find_media([people])
    for method, says in (
        (Shift(texture="pixel"), "--texture has an effect on scenes only"),
        (Shift(pool="nowhere.npz"), "--pool: there is no file"),
        (METHODS["blur"], "blur publishes scene only, not portrait"),
    ):
        with pytest.raises(UsageError, match=says):
            run(media, method, Portraits(), Context())
    with pytest.raises(UsageError, match="has no option --pool"):
        ksame.deidentify(people, 3, pool="bundled")


@pytest.mark.parametrize(
    ("method", "missing"),
    [("shift", "facenet"), ("anonfaces", "dlib"), ("shift", "landmarker"), ("ksame-m", "age")],
)
def test_a_run_that_lacks_a_network_fails_at_the_start(method, missing, few, tmp_path, cli, cache_without):
    cache_without(missing)
    before = tree(tmp_path)
    k = () if method == "shift" else ("-k", 2)
    ran = cli("run", few, "-o", tmp_path / "out", "--method", method, *k, "--subjects", "prefix", "--json")
    assert ran.code == ran.json["exit_code"] == 1
    assert f"models add {missing}" in ran.sentence
    assert "finding faces" not in ran.err
    assert tree(tmp_path) == before


def test_verifiers_are_those_that_are_named_whatever_is_cached(few, tmp_path, cli, cache_without):
    how = (*SHIFT, "--publish", "portrait", "--subjects", "prefix", "--seed", 3, "--jobs", 1)
    for name in ("one", "again"):
        assert cli("run", few, "-o", tmp_path / name, *how, "--verifiers", "dlib", "-q").code == 0
        cache_without("sface", "mobilefacenet", "facenet")
    certificate = json.loads((tmp_path / "one" / "certificate.json").read_text())
    assert certificate["verifiers"] == ["dlib"]
    assert not set(certificate["weights"]) & {"sface", "mobilefacenet", "facenet"}
    assert digests(tmp_path / "one") == digests(tmp_path / "again")
    assert digests(tmp_path / "one.private") == digests(tmp_path / "again.private")


def test_a_recogniser_more_changes_nothing_that_is_published(few, monkeypatch):
    how = {"method": "shift", "publish": "portrait", "subjects": "prefix", "seed": 3}
    before = ksame.deidentify(few, **how)
    assert before.certificate()["verifiers"] == list(VERIFIERS.identity)
    monkeypatch.setattr(
        recognisers, "RECOGNISERS", {"mine": replace(RECOGNISERS["dlib"], name="mine")} | RECOGNISERS
    )
    monkeypatch.setitem(RECOGNISERS, "mine", replace(RECOGNISERS["sface"], name="mine", same_person=9.0))
    after = ksame.deidentify(few, **how)
    assert before.files == after.files
    assert before.certificate() == after.certificate()


@pytest.mark.parametrize(
    "options",
    [
        ("--publish", "portrait", "-k", 2, "--subjects", "prefix"),
        ("--publish", "scene", "-k", 2, "--subjects", "prefix", "--search", "fast"),
        (*SHIFT, "--publish", "scene", "--subjects", "prefix", "--search", "fast"),
        (*AD_HOC, "--search", "fast"),
    ],
    ids=["portrait", "scene", "shift", "pixelate"],
)
def test_processes_publish_the_same_bytes_as_threads(options, few, tmp_path, cli):
    for engine in ("threads", "processes"):
        out = tmp_path / engine / "out"
        ran = cli("run", few, "-o", out, *options, "--seed", 3, "--jobs", 2, "--engine", engine, "-q")
        assert ran.code == 0
    assert digests(tmp_path / "threads") == digests(tmp_path / "processes")


def test_whoever_obscures_asks_nobody_who_is_who(few, tmp_path, cli, cache_without):
    cache_without("sface", "mobilefacenet", "dlib", "facenet")
    ran = cli("run", few, "-o", tmp_path / "out", *AD_HOC, "--strength", 12, "--json", "-q")
    assert ran.code == 0
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["method"] == {"name": "pixelate", "grey": False, "strength": 12.0}
    assert certificate["claim"] == "No guarantee: nothing is promised about recognition."
    assert certificate["people_per_group"] == [1] * 3
    assert certificate["verifiers"] == []


def test_a_shift_of_photos_is_run_again_by_its_audit(few, tmp_path, cli):
    ksame.deidentify(few, method="shift", publish="portrait", subjects="prefix", seed=3).save(
        tmp_path / "out"
    )
    figures = tmp_path / "a.json"
    how = ("--attackers", "lbp", "--subjects", "prefix", "--json", figures)
    ran = cli("audit", tmp_path / "out", "--originals", few, *how)
    assert ran.code == 0, ran.err
    rows = json.loads(figures.read_text())["attacks"]
    assert "parrot" in {row["attack"] for row in rows}
    assert "not known" not in ran.err
