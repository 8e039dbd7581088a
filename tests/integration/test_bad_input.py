"""Whatever is wrong with what was given: one sentence, the right exit code, nothing unprotected written."""

from __future__ import annotations

import csv
import os
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ksame import io
from running import digests, shell, tree

pytestmark = pytest.mark.weights

QUICK = ("-k", 3, "--subjects", "prefix", "--method", "ksame-pixel")  # pixels need no drawing


def bomb() -> bytes:
    """A PNG of 60 bytes that says it has ten thousand million pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(b"\0" * 30))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


def spoil(folder: Path) -> dict[str, str]:
    """Put every kind of file that cannot be used into a folder; return what must be said of each."""
    whole = io.encode(io.read_photo(folder / "00003_aa.pgm"), ".jpg")
    noise = np.random.default_rng(0).bytes(len(whole) - 300)
    files = {
        "corrupt.jpg": whole[:300] + noise,
        "truncated.jpg": whole[: len(whole) // 2],
        "zero.jpg": b"",
        "header.png": b"\x89PNG\r\n\x1a\n",
        "text.jpg": b"Dear diary, this is no photo.\n",
        "bomb.png": bomb(),
        "sky.png": io.encode_png(np.full((300, 300, 3), (120, 160, 220), np.uint8)),
        "dot.png": io.encode_png(np.zeros((1, 1, 3), np.uint8)),
        "line.png": io.encode_png(np.zeros((1, 4000, 3), np.uint8)),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    small = Image.open(folder / "00004_aa.pgm")
    small.resize((24, 36)).save(folder / "tiny.png")
    (folder / "gone.jpg").symlink_to("nowhere.jpg")
    (folder / "self.jpg").symlink_to("self.jpg")
    os.mkfifo(folder / "pipe.jpg")
    no_face = dict.fromkeys(("sky.png", "dot.png", "line.png"), "no face was found")
    links = dict.fromkeys(("gone.jpg", "self.jpg", "pipe.jpg"), "it is not a file, or a broken link")
    return dict.fromkeys(files, "cannot be read") | no_face | links | {"tiny.png": ""}


def failures(private: Path) -> dict[str, str]:
    with (private / "failures.csv").open(newline="", errors="surrogateescape") as file:
        return {row["input"]: row["reason"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("publish", [("--method", "ksame-pixel"), ("--publish", "scene")])
def test_what_cannot_be_used_is_named_and_the_rest_is_done(publish, photos, tmp_path):
    says = spoil(photos)
    covered = {"tiny.png"} if "scene" in publish else set()  # a face that is too small: no failure in a scene
    good = {path.name for path in photos.glob("*_a?.pgm")}
    subjects = tmp_path / "who.csv"
    lines = [f"{name},{name[:5]}" for name in good] + [f"{name},nobody" for name in says]
    subjects.write_text("\n".join(["file,subject", *lines]))
    how = ("-k", 3, "--subjects", subjects, *publish, "--json", "--quiet")
    ran = shell("run", photos, "-o", tmp_path / "out", *how)
    assert ran.code == ran.json["exit_code"] == 4
    found = {failure["input"]: failure["reason"] for failure in ran.json["failures"]}
    assert found.keys() == says.keys() - covered
    assert all(says[name] in reason for name, reason in found.items()), found
    assert found == failures(tmp_path / "out.private")
    assert all(name in ran.err for name in found), "--quiet does not hide an error"
    assert ran.json["published"] == len(good) + len(covered) == 14 + len(covered)
    written = list((tmp_path / "out" / "images").iterdir())
    assert len(written) == 14 + len(covered), "nothing is written for the others"
    assert shell("verify", tmp_path / "out", "--private", tmp_path / "out.private").code == 0


def test_photos_without_any_face(tmp_path, cli):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        (photos / f"{number}.png").write_bytes(io.encode_png(np.full((64, 64, 3), 90 + number, np.uint8)))
    ran = cli("run", photos, "-o", tmp_path / "out", "-k", 2, "--json")
    assert ran.code == ran.json["exit_code"] == 4
    assert ran.sentence == "No face could be used in the 3 photos given: 0.png: no face was found and 2 more."
    assert tree(tmp_path) - {"photos", "photos/0.png", "photos/1.png", "photos/2.png"} == set()


def test_a_file_that_may_not_be_read(photos, tmp_path):
    (photos / "00005_aa.pgm").chmod(0)
    # root may read everything: the command is run without that power (prctl: drop from the bounding set)
    start = "import ctypes, os\n" + "".join(
        f"ctypes.CDLL(None).prctl(24, {power}, 0, 0, 0)\n" for power in (1, 2)
    )
    start += "os.execv(sys.executable, [sys.executable, '-m', 'ksame', *sys.argv[1:]])"
    ran = shell("run", photos, "-o", tmp_path / "out", *QUICK, "--json", start=start)
    assert ran.code == 4
    (failure,) = ran.json["failures"]
    assert failure["input"] == "00005_aa.pgm"
    assert failure["reason"].endswith("cannot be read: Permission denied.")
    (photos / "shut").mkdir(mode=0)
    ran = shell("run", photos, "-o", tmp_path / "none", *QUICK, start=start)
    assert ran.code == 4
    assert "shut' cannot be read: Permission denied" in ran.sentence
    (photos / "shut").chmod(0o700)


def test_a_folder_without_photos(tmp_path, cli):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    for given, code, says in (
        (tmp_path / "empty", 2, "There are no photos"),
        (tmp_path / "nowhere", 2, "There is no file or folder"),
        (tmp_path / "notes.txt", 4, "neither a photo nor a video"),
    ):
        ran = cli("run", given, "-o", tmp_path / "out")
        assert ran.code == code
        assert says in ran.sentence
        assert tree(tmp_path) == {"empty", "notes.txt"}


def test_a_folder_that_has_files_in_it(people, tmp_path, cli):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("the only copy")
    for more in ((), ("--overwrite",), ("--resume",), ("--resume", "--overwrite")):
        ran = cli("run", people, "-o", out, *QUICK, *more)
        assert ran.code == 2
        assert "name another folder" in ran.sentence
    assert tree(tmp_path) == {"out", "out/thesis.txt"}
    (tmp_path / "file").touch()
    ran = cli("run", people, "-o", tmp_path / "file", *QUICK)
    assert (ran.code, "is a file" in ran.sentence) == (2, True)


def test_folders_inside_one_another(photos, tmp_path, cli):
    before = tree(tmp_path)
    inside = photos / "inner"
    for given, more in (
        (photos, ("-o", photos)),
        (photos, ("-o", photos / "out")),
        (photos, ("-o", photos / "a" / ".." / "out")),
        (photos / "00001_aa.pgm", ("-o", photos)),
        (photos, ("-o", tmp_path)),
        (photos, ("-o", tmp_path / "out", "--private", photos)),
        (photos, ("-o", tmp_path / "out", "--private", inside)),
        (photos, ("-o", tmp_path / "out", "--private", tmp_path / "out" / "secret")),
    ):
        ran = cli("run", given, *more, *QUICK)
        assert ran.code == 2, more
        assert ran.sentence
        assert tree(tmp_path) == before
    (tmp_path / "link").symlink_to(photos)
    ran = cli("run", photos, "-o", tmp_path / "link" / "out", *QUICK)
    assert (ran.code, "inside the input" in ran.sentence) == (2, True)


def test_links_that_lead_in_circles(photos, tmp_path, cli):
    (photos / "up").symlink_to(tmp_path)
    (photos / "round").symlink_to(photos)
    (photos / "again.pgm").symlink_to(photos / "00001_aa.pgm")
    ran = cli("run", photos, "-o", tmp_path.with_name(tmp_path.name + "-out"), *QUICK, "--json")
    assert (ran.code, ran.json["photos"]) == (0, 14), "each real file counts once"
    (tmp_path / "loop").symlink_to("loop")
    ran = cli("run", photos, "-o", tmp_path / "loop", *QUICK)
    assert (ran.code, "leads back to itself" in ran.sentence) == (2, True)


@pytest.mark.parametrize("names", ["random", "keep"])
def test_names_that_are_not_text(names, people, tmp_path):
    photos, odd = tmp_path / os.fsdecode(b"ph\xf6tos"), os.fsdecode(b"\xff\xfe[red]_\n1.pgm")
    shutil.copytree(people, photos)
    (photos / "00003_aa.pgm").rename(photos / odd)
    (photos / os.fsdecode(b"\xe4.jpg")).write_bytes(b"")
    ran = shell("run", photos, "-o", tmp_path / "out", *QUICK, "--names", names, "--json")
    assert ran.code == 4
    assert [os.fsencode(failure["input"]) for failure in ran.json["failures"]] == [b"\xe4.jpg"]
    assert ran.json["published"] == 14
    assert shell("verify", tmp_path / "out", "--private", tmp_path / "out.private").code == 0
    assert os.fsencode(odd) in (tmp_path / "out.private" / "mapping.csv").read_bytes()
    kept = tmp_path / "out" / "images" / odd.replace(".pgm", ".png")
    assert kept.exists() == (names == "keep")


def test_equal_names_in_two_folders(people, tmp_path, cli):
    one, two = tmp_path / "one", tmp_path / "two"
    for number, path in enumerate(sorted(people.glob("*_aa.pgm"))):
        to = (one, two)[number % 2]
        to.mkdir(exist_ok=True)
        shutil.copy(path, to / f"p{number // 2}_1.pgm")
    ran = cli("run", one, two, "-o", tmp_path / "out", "-k", 3, "--subjects", "folder", "--json")
    assert (ran.code, "2 distinct subjects" in ran.sentence) == (3, True)
    how = ("-k", 3, "--subjects", "prefix", "--method", "ksame-pixel", "--names", "keep", "--json")
    ran = cli("run", one, two, "-o", tmp_path / "out", *how)
    assert (ran.code, ran.json["photos"], ran.json["published"], ran.json["people"]) == (0, 12, 12, 6)
    wanted = {f"images/{folder}/p{i}_1.png" for folder in ("one", "two") for i in range(6)}
    assert tree(tmp_path / "out") >= wanted


@pytest.mark.parametrize(
    ("k", "code", "says"),
    [
        ("five", 2, "valid integer"),
        ("2.5", 2, "valid integer"),
        ("", 2, "valid integer"),
        ("1", 2, "published unchanged"),
        ("0", 2, "at least 2"),
        ("-3", 2, "at least 2"),
        ("13", 3, "k must be an integer in [2, 12]: 12 distinct subjects were given. Got 13."),
    ],
)
def test_a_k_that_cannot_be(k, code, says, people, tmp_path, cli):
    ran = cli("run", people, "-o", tmp_path / "out", "--subjects", "prefix", "-k", k, "--json")
    assert ran.code == ran.json["exit_code"] == code
    assert says in ran.sentence
    assert ran.json["error"] == ran.sentence
    assert tree(tmp_path) == set()


def test_photos_that_fail_may_leave_too_few_people(photos, tmp_path, cli):
    (photos / "00012_aa.pgm").write_bytes(b"")
    ran = cli("run", photos, "-o", tmp_path / "out", "--subjects", "prefix", "-k", 12)
    assert ran.code == 3
    assert "11 distinct subjects were given. Got 12." in ran.sentence
    assert "00012_aa.pgm" in ran.err, "or nobody knows where the twelfth has gone"
    assert tree(tmp_path) == {"photos"} | {f"photos/{name}" for name in tree(photos)}


def test_one_person_only(people, family, tmp_path, cli, recogniser):
    one = tmp_path / "one"
    one.mkdir()
    shutil.copy(people / "00001_aa.pgm", one)
    shutil.copy(people / "00001_ab.pgm", one)
    for given, who in ((one, "prefix"), (family / "s1", "auto")):
        ran = cli("run", given, "-o", tmp_path / "out", "-k", 2, "--subjects", who)
        assert ran.code == 3
        assert "At least 2 distinct subjects are needed" in ran.sentence
    assert tree(tmp_path) == {"one", "one/00001_aa.pgm", "one/00001_ab.pgm"}


def test_one_photo_under_two_names(photos, tmp_path, cli):
    shutil.copy(photos / "00003_aa.pgm", photos / "twin_1.pgm")
    ran = cli("run", photos, "-o", tmp_path / "out", *QUICK)
    assert ran.code == 3
    assert "show the same photo under the names of two people" in ran.sentence
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows[:-2], "gives no subject for"),
        (lambda rows: [*rows, "stranger.jpg,eve"], "names photos that are not in the input"),
        (lambda rows: [*rows, rows[-1]], "names a photo more than once"),
        (lambda rows: ["name,subject", *rows[1:]], "must have the columns file and subject"),
        (lambda rows: [], "must have the columns file and subject"),
        (lambda rows: ["\0" * 10], "must have the columns file and subject"),
    ],
)
def test_a_csv_that_does_not_fit(change, says, people, tmp_path, cli):
    rows = ["file,subject", *(f"{path.name},{path.name[:5]}" for path in sorted(people.iterdir()))]
    subjects = tmp_path / "who.csv"
    subjects.write_text("\n".join(change(rows)))
    ran = cli("run", people, "-o", tmp_path / "out", "-k", 3, "--subjects", subjects, "--json")
    assert ran.code == ran.json["exit_code"] == 2
    assert says in ran.sentence
    assert tree(tmp_path) == {"who.csv"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--subjects", "nowhere.csv"), "nowhere.csv cannot be read"),
        (("--subjects", "folder"), "Photos must be in one folder per person"),
        (("--subjects", "prefix", "--select", "shoe"), "no column to select by 'shoe': choose one of gender"),
        (("--method", "magic"), "There is no method 'magic': choose one of ksame-m"),
        (("--partition", "magic"), "There is no partition 'magic'"),
        (("--composite", "magic"), "magic"),
        (("--publish", "magic"), "There is no output 'magic': choose one of portrait, scene"),
        (("--publish", "scene", "--method", "ksame-eigen"), "publishes portrait only, not scene"),
        (("--engine", "magic", "--subjects", "prefix"), "There is no engine 'magic'"),
        (("--seed", "-1"), "seed must be an integer from 0"),
        (("--method", "blur", "--accept-no-guarantee"), "published as scene, has no option -k"),
        (("--jobs", "many"), "valid integer"),
        (("--magic",), "No such option: --magic"),
        (
            ("--model", "nowhere.npz", "--subjects", "prefix"),
            "--model: there is no file or folder 'nowhere.npz'",
        ),
    ],
)
def test_options_that_make_no_sense(options, says, people, tmp_path, cli):
    ran = cli("run", people, "-o", tmp_path / "out", "-k", 3, "--json", *options)
    assert ran.code == ran.json["exit_code"] == 2
    assert says in ran.sentence
    assert ran.json["error"] == ran.sentence
    assert tree(tmp_path) == set()


LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))"


@pytest.mark.parametrize(
    ("size", "stage", "more"),
    [
        (1_000, "the journal", ()),
        (12_000, "the pictures", ()),
        (12_000, "photos that are made side by side", ("--method", "ksame-m", "--publish", "scene")),
    ],
)
def test_a_full_disk(size, stage, more, people, tmp_path):
    """A limit on the size of files gives the error of a full disk at the first write that is too much."""
    before = digests(people)
    how = ("run", people, "-o", tmp_path / "out", *QUICK, *more)
    ran = shell(*how, "--json", start=LIMIT.format(size))
    assert ran.code == ran.json["exit_code"] == 1
    assert "The disk is full" in ran.sentence
    assert tree(tmp_path) == {"out.private", "out.private/journal.jsonl"}, stage
    assert digests(people) == before
    assert shell(*how, "--resume").code == 0
    assert shell("verify", tmp_path / "out", "--private", tmp_path / "out.private").code == 0


def test_a_full_disk_leaves_the_earlier_release_and_its_mapping(people, released):
    before = digests(released.parent)
    ran = shell("run", people, "-o", released, *QUICK, "--overwrite", start=LIMIT.format(12_000))
    assert (ran.code, "The disk is full" in ran.sentence) == (1, True)
    after = digests(released.parent)
    assert after.pop("out.private/journal.jsonl")
    assert after == before
    assert shell("verify", released, "--private", f"{released}.private").code == 0


def test_a_place_that_cannot_be_written(people):
    ran = shell("run", people, "-o", "/proc/out", *QUICK, "--json")
    assert ran.code == ran.json["exit_code"] == 1
    assert ran.sentence.startswith("/proc/out.private cannot be used")


def test_verify_wants_a_release(tmp_path, cli, released):
    ran = cli("verify", tmp_path / "nowhere", "--json")
    assert ran.code == ran.json["exit_code"] == 2
    assert "is not a folder" in ran.sentence
    ran = cli("verify", released, "--private", tmp_path)
    assert (ran.code, "is missing" in ran.sentence) == (2, True)
