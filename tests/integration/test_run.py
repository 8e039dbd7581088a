"""The whole way: photos in, a release that anyone can verify out."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from PIL import Image, ImageOps

import ksame
from ksame import io
from ksame.cli import demo
from ksame.methods import METHODS
from ksame.methods.base import GroupMethod
from ksame.models.detectors import detect
from ksame.render.tone import is_monochrome
from running import digests, tree

pytestmark = pytest.mark.weights

PRIVATE = {"mapping.csv", "settings.json", "failures.csv", "untouched.csv", "faceless.csv"}


def mapping(private: Path) -> list[dict[str, str]]:
    with (private / "mapping.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def table(path: Path, rows: list[tuple[str, ...]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


PORTRAITS = [
    name for name, one in METHODS.items() if isinstance(one, GroupMethod) and "portrait" in one.outputs
]


@pytest.mark.parametrize("method", PORTRAITS)
def test_a_release_is_what_the_contract_says(method, people, tmp_path, cli):
    out, private = tmp_path / "out", tmp_path / "out.private"
    ran = cli("run", people, "-o", out, "-k", 3, "--subjects", "prefix", "--method", method, "--json")
    assert ran.code == 0
    assert (ran.json["exit_code"], ran.json["people"], ran.json["photos"]) == (0, 12, 14)
    assert ran.json["claim"] in ran.err
    assert tree(tmp_path) >= {"out", "out.private"}
    assert {name.split("/")[0] for name in tree(out)} == {"images", "certificate.json", "SHA256SUMS"}

    files = sorted((out / "images").iterdir())
    assert len(files) == 14
    assert all(io.metadata_of(file.read_bytes()) == [] for file in files)
    assert len({path.stat().st_mtime_ns for path in (out, *out.rglob("*"))}) == 1, "times tell an order"
    assert tree(private) == PRIVATE
    assert private.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in private.iterdir())

    rows = mapping(private)
    assert {row["input"] for row in rows} == {path.name for path in people.iterdir()}
    assert {row["output"] for row in rows} == {f"images/{file.name}" for file in files}
    if method != "kdiff-furthest":  # it keeps every face its own, and claims no k-anonymity
        assert ran.json["distinct"] == len({file.read_bytes() for file in files}) <= 12 // 3
        assert ran.json["bound"] <= 0.5
    told = (out / "certificate.json").read_text() + str(tree(out))
    assert not any(path.stem in told for path in people.iterdir()), "a name was published"
    assert str(json.loads((private / "settings.json").read_text())["seed"]) not in told

    proof = cli("verify", out, "--private", private, "--json")
    assert (proof.code, proof.json["method"]) == (0, method)
    assert "Verified" in proof.err


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "ksame-pixel", "--partition", "ksame"),
        ("--method", "ksame-furthest"),
        ("--method", "kdiff-furthest"),
        ("--publish", "scene", "--partition", "random"),
    ],
)
def test_the_same_seed_gives_the_same_bytes(options, people, tmp_path, cli):
    for name, jobs in (("one", 1), ("two", 2)):
        where = ("-o", tmp_path / name / "out", "--jobs", jobs)
        assert cli("run", people, *where, "-k", 3, "--subjects", "prefix", "--seed", 7, *options).code == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_without_a_seed_runs_have_nothing_in_common(people):
    runs = [ksame.deidentify(people, 3, subjects="prefix", partition="random") for _ in range(4)]
    names = [name for run in runs for name in run.files]
    assert len(set(names)) == len(names)
    groups = [{row.input: row.group for row in run.private.mapping} for run in runs]
    # women and men are kept apart, so that two runs may agree by chance: one did in some hundred
    assert any(one != groups[0] for one in groups[1:])
    assert len({run.private.settings["seed"] for run in runs}) == len(runs)


def test_all_partitions_can_be_chosen(people, tmp_path, cli):
    how = ("-k", 3, "--subjects", "prefix", "--method", "ksame-pixel", "--dry-run", "--json")
    for name in ksame.partition.METHODS:
        ran = cli("run", people, "-o", tmp_path / name, "--partition", name, *how)
        assert ran.code == 0
        assert ran.json["distinct"] <= 4


def test_kept_names_mirror_the_tree(photos, tmp_path, cli):
    for number, path in enumerate(sorted(photos.iterdir())):
        image = Image.open(path)
        to = photos / ("left" if number % 2 else "right") / f"{path.stem}.jpg"
        to.parent.mkdir(exist_ok=True)
        image.save(to)
        path.unlink()
    Image.open(photos / "left/00001_ab.jpg").save(photos / "left/00001_ab.png")  # two files, one stem
    names = tree(photos) - {"left", "right"}
    out = tmp_path / "out"
    ran = cli("run", photos, "-o", out, "-k", 3, "--subjects", "prefix", "--names", "keep", "--json")
    assert (ran.code, ran.json["published"]) == (0, 15)
    assert "file names were kept and are outside this guarantee" in ran.json["claim"]
    wanted = {f"images/{Path(name).with_suffix('.png').as_posix()}" for name in names}
    wanted |= {"images/left/00001_ab_2.png"}
    assert {name for name in tree(out) if name.endswith(".png")} == wanted


@pytest.mark.parametrize("method", ["ksame-m", "ksame-furthest"])
def test_selected_labels_are_kept_apart(method, people, tmp_path, cli):
    women = {1, 6, 8, 9, 10, 11, 12}
    rows = [
        (path.name, f"p{path.name[:5]}", "f" if int(path.name[:5]) in women else "m")
        for path in people.iterdir()
    ]
    subjects = table(tmp_path / "who.csv", [("file", "subject", "gender"), *rows])
    label = {name: gender for name, _, gender in rows}
    k = 3 if method == "ksame-m" else 2
    how = ("--subjects", subjects, "--select", "gender", "--method", method)
    assert cli("run", people, "-o", tmp_path / "out", "-k", k, *how).code == 0
    groups: dict[str, set[str]] = {}
    for row in mapping(tmp_path / "out.private"):
        groups.setdefault(row["group"], set()).add(label[row["input"]])
        assert row["subject"] == f"p{row['input'][:5]}"
    assert sorted(map(len, groups.values())) == [1] * len(groups)
    assert set().union(*groups.values()) == {"f", "m"}

    few = cli("run", people, "-o", tmp_path / "few", "-k", 6, *how)
    assert few.code == 3
    assert not (tmp_path / "few").exists()


def test_gender_and_age_may_be_predicted(people, tmp_path, cli):
    how = ("-k", 3, "--subjects", "prefix", "--method", "ksame-pixel", "--select", "gender", "--json")
    ran = cli("run", people, "-o", tmp_path / "out", *how)
    assert ran.code == 0
    assert json.loads((tmp_path / "out" / "certificate.json").read_text())["method"]["select"] == "gender"


def test_a_folder_per_person(family, tmp_path, cli):
    ran = cli("run", family, "-o", tmp_path / "out", "-k", 2, "--subjects", "folder", "--json")
    assert (ran.code, ran.json["people"], ran.json["bound"]) == (0, 5, 0.5)
    assert "each person's photos are in one folder" in ran.json["claim"]


def test_a_recogniser_groups_who_is_not_named(family, tmp_path, cli, recogniser):
    ran = cli("run", family, "-o", tmp_path / "out", "-k", 2, "--json")
    assert (ran.code, ran.json["people"]) == (0, 5)
    assert recogniser in ran.json["claim"], "who told people apart is among the assumptions"
    assert "s1/1.pgm, s1/3.pgm" in ran.err, "the table shows who was taken for one person"
    who: dict[str, set[str]] = {}
    for row in mapping(tmp_path / "out.private"):
        who.setdefault(row["subject"], set()).add(row["input"].split("/")[0])
    assert sorted(map(len, who.values())) == [1] * 5


@pytest.mark.parametrize("publish", ["portrait", "scene"])
def test_every_face_of_a_photo_is_replaced(publish, family, tmp_path, cli, recogniser):
    photos = tmp_path / "photos"
    photos.mkdir()
    names = {"five_1": "s5/3", "ten_1": "s10/1", "ten_2": "s10/3", "old_1": "s13/1", "new_1": "s20/1"}
    for name, photo in names.items():
        Image.open(family / f"{photo}.pgm").save(photos / f"{name}.png")
    large, small = (Image.open(family / f"{photo}.pgm") for photo in ("s1/1", "s5/1"))
    couple = Image.new("L", (400, 280), 120)
    couple.paste(large.resize((184, 224)), (200, 30))
    couple.paste(small.resize((138, 168)), (20, 70))
    couple.save(photos / "couple_1.png")

    out = tmp_path / "out"
    ran = cli("run", photos, "-o", out, "-k", 2, "--subjects", "prefix", "--publish", publish, "--json")
    assert (ran.code, ran.json["photos"], ran.json["faces"], ran.json["untouched_faces"]) == (0, 6, 7, 0)
    assert ran.json["people"] == 5, "the smaller face is known from a photo of her own"
    rows = [row for row in mapping(tmp_path / "out.private") if row["input"] == "couple_1.png"]
    assert [row["subject"] for row in rows] == ["couple", "five"], "the largest face has the photo's name"
    assert ran.json["published"] == (7 if publish == "portrait" else 6)
    assert len({row["output"] for row in rows}) == (2 if publish == "portrait" else 1)
    if publish == "scene":
        old, new = io.read_photo(photos / "couple_1.png"), io.read_photo(out / rows[0]["output"])
        for x, y, right, bottom in detect(old).xyxy.astype(int):
            change = np.abs(new[y:bottom, x:right].astype(int) - old[y:bottom, x:right])
            assert np.median(change) > 3


@pytest.mark.parametrize("method", ["ksame-m", "kdiff-furthest"])
def test_grey_photos_stay_grey_among_toned_ones(method, people, tmp_path):
    """A group of both has a face with colour, and so has a code that is drawn by the axes of the model."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, path in enumerate(sorted(people.glob("*_aa.pgm"))[:6]):
        grey = Image.open(path).convert("L")
        toned = ImageOps.colorize(grey, (20, 5, 0), (255, 240, 205))
        (toned if number % 2 else grey).save(photos / f"{path.stem}.png")
    how = {"method": method, "subjects": "prefix", "publish": "scene", "seed": 1}
    for name, data in ksame.deidentify(photos, 3, **how).files.items():
        old, new = io.read_photo(photos / PurePosixPath(name).name), io.decode(data)
        assert (old != new).any()
        assert is_monochrome(new)
        assert (new == new[..., :1]).all() == (old == old[..., :1]).all()


def test_scenes_keep_name_and_size_and_lose_the_metadata(people, tmp_path, cli):
    photos = tmp_path / "photos"
    photos.mkdir()
    for path in people.glob("*_aa.pgm"):
        Image.open(path).convert("RGB").save(photos / f"{path.stem}.webp", lossless=True)
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = "holiday", 6  # a description, and: turn it by 90 degrees to the right
    upright = Image.open(people / "00003_aa.pgm")
    turned = upright.convert("RGB").transpose(Image.Transpose.ROTATE_90)
    (photos / "00003_aa.webp").unlink()
    turned.save(photos / "00003_aa.jpg", exif=exif, comment=b"me", quality=95)
    out = tmp_path / "out"
    ran = cli("run", photos, "-o", out, "-k", 3, "--subjects", "prefix", "--publish", "scene", "--json")
    assert ran.code == 0
    assert ran.json["claim"].startswith("k-anonymity of the face codes")
    assert json.loads((out / "certificate.json").read_text())["scope"] == "code"
    assert {name.removeprefix("images/") for name in tree(out)} >= tree(photos)
    for path in photos.iterdir():
        data = (out / "images" / path.name).read_bytes()
        assert io.metadata_of(data) == []
        old, new = io.read_photo(path).astype(int), io.decode(data).astype(int)
        assert old.shape == new.shape
        assert np.abs(old[:8] - new[:8]).mean() < 8, "what is not a face stays, and stays where it was"
        assert (old != new).any()
    assert cli("verify", out, "--private", f"{out}.private").code == 0


def test_an_ad_hoc_method_must_be_accepted_and_claims_nothing(people, tmp_path, cli):
    how = ("run", people, "-o", tmp_path / "out", "--method", "pixelate", "--json")
    assert "--accept-no-guarantee" in cli(*how).sentence
    ran = cli(*how, "--accept-no-guarantee")
    assert (ran.code, ran.json["kind"], ran.json["published"]) == (0, "none", 14)
    assert cli("verify", tmp_path / "out", "--private", tmp_path / "out.private").code == 0


def test_arrays_are_photos_too(people, tmp_path):
    grey = [np.asarray(Image.open(path)) for path in sorted(people.glob("*_aa.pgm"))]
    images = [np.repeat(one[..., None], 3, axis=2) for one in grey[:6]] + grey[6:]
    release = ksame.deidentify(images, 3, subjects=[f"p{i}" for i in range(12)], method="ksame-eigen")
    assert str(release.guarantee).startswith("k-anonymity with k = 3")
    assert "seed" not in repr(release)
    assert "array-" not in repr(release)
    release.save(tmp_path / "out")
    ksame.verify(tmp_path / "out", private=tmp_path / "out.private")
    with pytest.raises(ksame.UsageError, match=r"one person per photo: 12\. Got 3"):
        ksame.deidentify(images, 3, subjects=["a", "b", "c"])
    with pytest.raises(ksame.InputError, match=r"array-00000 must be \(h, w, 3\)"):
        ksame.deidentify(np.zeros((4, 4, 4), np.uint8), 3)


def test_a_dry_run_writes_nothing(people, tmp_path, cli):
    ran = cli("run", people, "-o", tmp_path / "out", "-k", 3, "--subjects", "prefix", "--dry-run", "--json")
    assert (ran.code, ran.json["published"]) == (0, 14)
    assert "nothing was written" in ran.err
    assert tree(tmp_path) == set()


def test_quiet_says_nothing_and_json_is_alone_on_stdout(people, tmp_path, cli):
    how = ("-k", 3, "--subjects", "prefix", "--method", "ksame-pixel", "--seed", 1)
    ran = cli("run", people, "-o", tmp_path / "out", *how, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    ran = cli("run", people, "-o", tmp_path / "again", *how, "--quiet", "--json")
    assert ran.json["private"] == str(tmp_path / "again.private")
    assert ran.err == ""
    ran = cli("run", people, "-o", tmp_path / "third", *how)
    assert ran.out == ""
    assert "finding faces: 14 of 14" in ran.err
    assert "The bound is above 1/k" in ran.err, "two people have two photos"
    proof = cli("verify", tmp_path / "out", "--quiet")
    assert (proof.code, proof.out, proof.err) == (0, "", "")


def test_an_earlier_release_is_replaced_only_if_asked(people, released, cli):
    before = digests(released.parent)
    how = ("run", people, "-o", released, "-k", 4, "--subjects", "prefix", "--method", "ksame-pixel")
    for again in (how, (*how, "--resume")):
        refused = cli(*again)
        assert refused.code == 2
        assert refused.sentence
        assert digests(released.parent) == before
    assert cli(*how, "--overwrite").code == 0
    assert cli("verify", released, "--private", f"{released}.private", "--json").json["k"] == 4
    assert tree(released.parent) & {name for name in before if name.endswith(".png")} == set()


def test_the_private_folder_may_be_elsewhere(people, tmp_path, cli):
    secret = tmp_path / "safe" / "secret"
    how = ("-k", 3, "--subjects", "prefix", "--method", "ksame-pixel", "--private", secret)
    assert cli("run", people, "-o", tmp_path / "out", *how).code == 0
    assert tree(secret) == PRIVATE
    assert not (tmp_path / "out.private").exists()
    again = cli("run", people, "-o", tmp_path / "other", *how)
    assert again.code == 2
    assert "mapping of an earlier release" in again.sentence


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def reorder(out: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    lines = (out / "SHA256SUMS").read_bytes().splitlines(keepends=True)
    (out / "SHA256SUMS").write_bytes(b"".join(change(lines)))


def first(out: Path) -> Path:
    return min((out / "images").iterdir())


def relink(out: Path) -> None:
    path = first(out)
    shutil.copy(path, out.parent / "elsewhere.png")
    path.unlink()
    path.symlink_to(out.parent / "elsewhere.png")


TAMPER = {
    "a flipped bit": lambda out: flip(first(out)),
    "a flipped bit of the certificate": lambda out: flip(out / "certificate.json"),
    "a cut file": lambda out: first(out).write_bytes(first(out).read_bytes()[:-1]),
    "a missing file": lambda out: first(out).unlink(),
    "a renamed file": lambda out: first(out).rename(out / "images" / "z.png"),
    "an extra file": lambda out: (out / "images" / "extra.png").touch(),
    "a hidden file": lambda out: (out / ".DS_Store").touch(),
    "a link": relink,
    "no certificate": lambda out: (out / "certificate.json").unlink(),
    "an empty certificate": lambda out: (out / "certificate.json").write_text(""),
    "a flipped bit of the manifest": lambda out: flip(out / "SHA256SUMS"),
    "a line of the manifest missing": lambda out: reorder(out, lambda lines: lines[1:]),
    "lines of the manifest in another order": lambda out: reorder(out, lambda lines: lines[::-1]),
    "no manifest": lambda out: (out / "SHA256SUMS").unlink(),
    "a changed k": lambda out: (out / "certificate.json").write_text(
        (out / "certificate.json").read_text().replace('"k": 3', '"k": 4')
    ),
}


@pytest.mark.parametrize("kind", TAMPER)
def test_verify_returns_3_on_any_change(kind, released, cli):
    assert cli("verify", released).code == 0
    TAMPER[kind](released)
    found = cli("verify", released, "--json")
    assert found.code == found.json["exit_code"] == 3
    assert found.json["error"] == found.sentence


def test_verify_returns_3_when_the_mapping_breaks_the_law(released, cli):
    path = Path(f"{released}.private") / "mapping.csv"
    rows = [row.split(",") for row in path.read_text().splitlines()]
    subjects = Counter(row[1] for row in rows[1:])
    victim = min(subjects)
    path.write_text("\n".join(",".join([r[0], victim, *r[2:]]) if r[2] == "0" else ",".join(r) for r in rows))
    assert cli("verify", released).code == 0
    found = cli("verify", released, "--private", path.parent)
    assert found.code == 3
    assert found.sentence


def test_a_model_is_trained_by_the_command_and_used(people, tmp_path, cli):
    demo.unpack(tmp_path / "photos")
    model = tmp_path / "own.npz"
    some = sorted((tmp_path / "photos").iterdir())[::3]
    ran = cli("model", "train", *some, "-o", model)
    assert ran.code == 0
    assert "Trained on 40 faces" in ran.err
    assert (tmp_path / "own.html").is_file()
    assert cli("model", "train", people, "-o", model).code == 3, "too few for a model of nobody"
    assert cli("model", "train", people, "-o", tmp_path / "own.txt").code == 2
    assert cli("run", people, "-o", tmp_path / "out", "--subjects", "prefix", "--model", model).code == 0
