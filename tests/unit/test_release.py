"""The certificate: it says nothing of the people, and no change to a release goes unnoticed."""

import hashlib
import json
import re
import stat
import zlib
from dataclasses import replace

import numpy as np
import pytest

from ksame.core.errors import Failure, GuaranteeViolated, InputError, UsageError
from ksame.core.guarantee import Guarantee
from ksame.io import encode_png
from ksame.methods import KSamePixel
from ksame.release import (
    MakingNotes,
    MappingRow,
    Private,
    Release,
    ResidualRecord,
    as_written,
    check_folders,
    read_manifest,
    read_private,
    verify,
)


def picture(level: int) -> bytes:
    return encode_png(np.full((8, 8, 3), level, np.uint8))


@pytest.fixture
def release() -> Release:
    """Two groups: a, b, b, c and d, e, f."""
    people = ["ann", "bob", "bob", "cyd", "dan", "eve", "fay"]
    groups = [0, 0, 0, 0, 1, 1, 1]
    outputs = [f"images/{index:02}.png" for index in range(7)]
    return Release(
        files={name: picture(50 + group) for name, group in zip(outputs, groups, strict=True)},
        guarantee=Guarantee("k-anonymity", 3, 0.5, assumptions=("the names are right",)),
        method=KSamePixel(k=3),
        publish="portrait",
        details={"untouched_faces": 0},
        private=Private(
            tuple(
                MappingRow(f"{who}_{i}.jpg", who, g, o)
                for i, (who, g, o) in enumerate(zip(people, groups, outputs, strict=True))
            ),
            {"seed": 987654321},
            (Failure('h\udce9l\u00e8ne, "x".jpg', "no face was found"),),
        ),
    )


@pytest.fixture
def saved(release, tmp_path):
    return release.save(tmp_path / "out")


def test_saved_release_verifies_with_and_without_the_private_folder(saved):
    assert len(verify(saved).checks) == 4
    checks = verify(saved, private=f"{saved}.private").checks
    assert len(checks) == 6
    assert "at least 3 different people" in str(verify(saved, private=f"{saved}.private"))


def test_certificate_holds_no_name_no_mapping_and_no_seed(saved, release):
    text = (saved / "certificate.json").read_text()
    for secret in ("ann", "bob", "cyd", "987654321", "_0.jpg"):
        assert secret not in text
    assert "987654321" not in repr(release)
    assert "ann" not in repr(release)
    certificate = json.loads(text)
    assert certificate["group_sizes"] == [3, 4]
    assert certificate["people_per_group"] == [3, 3]
    assert certificate["k"] == 3
    assert certificate["bound"] == 0.5
    assert certificate["method"] == {
        "name": "ksame-pixel",
        "k": 3,
        "select": None,
        "partition": "mdav",
    }


def test_private_folder_is_for_its_owner_only_and_keeps_odd_names(saved):
    secret = saved.with_name("out.private")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o700
    assert (secret / "mapping.csv").read_text().splitlines()[0] == "input,subject,group,output"
    line = (secret / "failures.csv").read_bytes().splitlines()[1]
    assert line == b'"h\xe9l\xc3\xa8ne, ""x"".jpg",no face was found'


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rewrite(path, change):
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in change(lines)))


def sha(data):
    return hashlib.sha256(data).hexdigest()


def edit(path, change, *, resign):
    certificate = json.loads(path.read_text())
    change(certificate)
    if resign:
        certificate.pop("digest", None)
        canonical = json.dumps(certificate, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        certificate["digest"] = hashlib.sha256(canonical.encode()).hexdigest()
    path.write_text(json.dumps(certificate, indent=2) + "\n")


TAMPER = {
    "a flipped bit": lambda out: flip(out / "images/03.png"),
    "a missing file": lambda out: (out / "images/03.png").unlink(),
    "an extra file": lambda out: (out / "images/new.png").write_bytes(picture(50)),
    "an extra hidden file": lambda out: (out / ".hidden").write_text("x"),
    "a renamed file": lambda out: (out / "images/03.png").rename(out / "images/33.png"),
    "two files swapped": lambda out: (out / "images/00.png").write_bytes(picture(51)),
    "a file replaced by a link": lambda out: (
        (out / "images/00.png").rename(out.parent / "gone"),
        (out / "images/00.png").symlink_to(out.parent / "gone"),
    ),
    "an appended byte": lambda out: (out / "images/03.png").write_bytes(picture(50) + b"\0"),
    "an emptied file": lambda out: (out / "images/03.png").write_bytes(b""),
    "no certificate": lambda out: (out / "certificate.json").unlink(),
    "an empty certificate": lambda out: (out / "certificate.json").write_text(""),
    "a certificate that is not an object": lambda out: (out / "certificate.json").write_text("[1]"),
    "a certificate cut short": lambda out: (out / "certificate.json").write_text(
        (out / "certificate.json").read_text()[:-30]
    ),
    "a space added to the certificate": lambda out: (out / "certificate.json").write_text(
        (out / "certificate.json").read_text() + " "
    ),
    "a flipped bit in the certificate": lambda out: flip(out / "certificate.json"),
    "no manifest": lambda out: (out / "SHA256SUMS").unlink(),
    "an empty manifest": lambda out: (out / "SHA256SUMS").write_text(""),
    "a flipped bit in the manifest": lambda out: flip(out / "SHA256SUMS"),
    "a manifest that is a link": lambda out: (
        (out / "SHA256SUMS").rename(out.parent / "gone"),
        (out / "SHA256SUMS").symlink_to(out.parent / "gone"),
    ),
    "a file and its line replaced": lambda out: (
        (out / "images/03.png").write_bytes(picture(60)),
        rewrite(
            out / "SHA256SUMS",
            lambda lines: [
                re.sub("^.{64}", sha(picture(60)), line) if "03.png" in line else line for line in lines
            ],
        ),
    ),
    "a line changed": lambda out: rewrite(
        out / "SHA256SUMS", lambda lines: ["0" * 64 + lines[0][64:], *lines[1:]]
    ),
    "a line missing": lambda out: rewrite(out / "SHA256SUMS", lambda lines: lines[:-1]),
    "a line twice": lambda out: rewrite(out / "SHA256SUMS", lambda lines: [*lines, lines[-1]]),
    "lines in another order": lambda out: rewrite(out / "SHA256SUMS", lambda lines: lines[::-1]),
    "binary mode in a line": lambda out: rewrite(
        out / "SHA256SUMS", lambda lines: [lines[0].replace("  ", " *"), *lines[1:]]
    ),
    "no line end": lambda out: (out / "SHA256SUMS").write_bytes((out / "SHA256SUMS").read_bytes()[:-1]),
}
EDITS = {
    "k": lambda c: c.update(k=4),
    "a smaller k": lambda c: c.update(k=2),
    "bound": lambda c: c.update(bound=0.25),
    "kind": lambda c: c.update(kind="k-anonymity and wrong-map"),
    "an impossible kind": lambda c: c.update(kind="magic"),
    "claim": lambda c: c.update(claim="Perfectly safe."),
    "assumptions": lambda c: c.update(assumptions=[]),
    "group sizes": lambda c: c.update(group_sizes=[7]),
    "a manifest's hash": lambda c: c["manifests"].update({"SHA256SUMS": "0" * 64}),
    "no manifest": lambda c: c["manifests"].pop("SHA256SUMS"),
    "a manifest more": lambda c: c["manifests"].update({"MORE": "0" * 64}),
    "a file less": lambda c: c.update(files=6),
    "no files": lambda c: c.update(files=0),
    "a lost key": lambda c: c.pop("scope"),
    "another type": lambda c: c.update(files={}),
    "another type of manifests": lambda c: c.update(manifests=3),
}


@pytest.mark.parametrize("kind", TAMPER)
def test_verify_fails_on_tampering(saved, kind):
    TAMPER[kind](saved)
    with pytest.raises(GuaranteeViolated) as caught:
        verify(saved)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("what", EDITS)
def test_verify_fails_on_an_edited_certificate(saved, what):
    edit(saved / "certificate.json", EDITS[what], resign=False)
    with pytest.raises(GuaranteeViolated):
        verify(saved)


@pytest.mark.parametrize("what", EDITS)
def test_verify_fails_on_an_edited_certificate_whose_digest_was_made_anew(saved, what):
    edit(saved / "certificate.json", EDITS[what], resign=True)
    with pytest.raises(GuaranteeViolated):
        verify(saved, private=f"{saved}.private")
    with pytest.raises(GuaranteeViolated):
        verify(saved)


def test_report_may_be_added(saved):
    (saved / "report.html").write_text("<p>attacked")
    verify(saved)


def test_with_the_private_folder_people_are_counted_and_not_files(release, tmp_path):
    # three files of one face, but two people
    rows = [row._replace(subject="dan") if row.subject == "eve" else row for row in release.private.mapping]
    out = Release(**{**vars(release), "private": Private(tuple(rows), {})}).save(tmp_path / "few")
    verify(out)
    with pytest.raises(GuaranteeViolated, match="2 distinct subjects"):
        verify(out, private=f"{out}.private")


def test_one_person_behind_two_faces_is_found(release, tmp_path):
    row = MappingRow("ann_9.jpg", "ann", 1, "images/99.png")
    files = {**release.files, "images/99.png": picture(51)}
    changed = {"files": files, "private": Private((*release.private.mapping, row), {})}
    out = Release(**{**vars(release), **changed}).save(tmp_path / "two")
    with pytest.raises(GuaranteeViolated, match="'ann' is behind 2"):
        verify(out, private=f"{out}.private")


def test_a_share_over_the_bound_is_found(release, tmp_path):
    tight = Guarantee("k-anonymity", 3, 0.4, assumptions=("the names are right",))
    out = Release(**{**vars(release), "guarantee": tight}).save(tmp_path / "tight")
    with pytest.raises(GuaranteeViolated, match=r"share of 0\.5"):
        verify(out, private=f"{out}.private")


def test_another_releases_private_folder_is_refused(saved, release, tmp_path):
    other = Release(**{**vars(release), "method": KSamePixel(k=3, partition="ksame")}).save(
        tmp_path / "other"
    )
    with pytest.raises(GuaranteeViolated, match="not the one that was issued"):
        verify(saved, private=f"{other}.private")


def test_a_broken_or_missing_private_folder(saved, tmp_path):
    with pytest.raises(UsageError, match=r"mapping\.csv is missing"):
        verify(saved, private=tmp_path)
    mapping = saved.with_name("out.private") / "mapping.csv"
    whole = mapping.read_text()
    for text in ("", "a,b\n1,2\n", whole.replace(",0,", ",zero,"), whole.replace("images/00", "images/0x")):
        mapping.write_text(text)
        with pytest.raises(GuaranteeViolated):
            verify(saved, private=mapping.parent)


def test_a_release_without_k_anonymity_claims_and_checks_no_count(release, tmp_path):
    files = {name: picture(index) for index, name in enumerate(release.files)}
    weak = Guarantee("wrong-map", assumptions=("same metric",))
    out = Release(**{**vars(release), "files": files, "guarantee": weak}).save(tmp_path / "diff")
    assert len(verify(out, private=f"{out}.private").checks) == 4


def test_a_composited_release_is_counted_by_group(release, tmp_path):
    files = {name: picture(index) for index, name in enumerate(release.files)}
    scene = release.guarantee.lower(scope="code", because="faces are blended into the photos")
    out = Release(**{**vars(release), "files": files, "guarantee": scene}).save(tmp_path / "scene")
    assert len(verify(out).checks) == 3
    assert len(verify(out, private=f"{out}.private").checks) == 5


def test_verify_wants_a_folder(tmp_path):
    with pytest.raises(UsageError, match="not a folder"):
        verify(tmp_path / "nowhere")


def test_nothing_is_overwritten_unasked(saved, release, tmp_path):
    with pytest.raises(UsageError, match="already has files"):
        release.save(saved)
    release.save(saved, overwrite=True)
    verify(saved)
    foreign = tmp_path / "holiday"
    foreign.mkdir()
    (foreign / "beach.jpg").write_bytes(b"x")
    with pytest.raises(UsageError, match="not a ksame release"):
        release.save(foreign, overwrite=True)
    assert (foreign / "beach.jpg").read_bytes() == b"x"


def test_an_earlier_mapping_is_not_lost(saved, release, tmp_path):
    with pytest.raises(UsageError, match="holds the mapping of an earlier release"):
        release.save(tmp_path / "elsewhere", private=f"{saved}.private")


@pytest.mark.parametrize("private", ["out", "out/secret", "."])
def test_private_and_release_are_apart(tmp_path, private):
    with pytest.raises(UsageError, match="must be apart"):
        check_folders(tmp_path / "out", tmp_path / private)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        check_folders(tmp_path / "file")
    with pytest.raises(UsageError, match="is a file"):
        check_folders(tmp_path / "out", tmp_path / "file")


class Film:
    """A file that is made in its place, as videos are; what it holds is given."""

    def __init__(self, data: bytes, *seen: ResidualRecord, notes: tuple[str, ...] = ()) -> None:
        self.data, self.making = data, MakingNotes(seen, notes)

    def make(self, path):
        path.write_bytes(self.data)
        return self.making


def test_untouched_faces_are_listed_for_the_owner_and_counted_for_the_public(release, tmp_path):
    seen = ResidualRecord("", 17, 0.567, "10 20 60 80"), ResidualRecord("", 18, 0.6, "11 20 61 80")
    told = Release(
        **{
            **vars(release),
            "details": {},
            "inspect": lambda name, data: int(name == "images/04.png"),
            "clips": {"images/film.png": Film(picture(9), *seen, notes=("Shades were rounded.",))},
        }
    )
    out = told.save(tmp_path / "out")
    secret = tmp_path / "out.private"
    listed = read_private(secret).residual
    assert listed[-2:] == [one._replace(output="images/film.png") for one in seen]
    assert [one.output for one in listed[:-2]] == [f"images/0{n}.png" for n in (4, 5, 6)], "equal files"
    assert json.loads((secret / "settings.json").read_text())["notes"] == [
        "images/film.png: Shades were rounded."
    ]
    public = (out / "certificate.json").read_text()
    assert json.loads(public)["untouched_faces"] == 5
    assert "10 20 60 80" not in public


class Broken(Film):
    """A video that cannot be written."""

    def make(self, path):
        return MakingNotes(failures=(Failure("in/bad.mp4", "it may be damaged."),))


def test_a_film_that_cannot_be_written_is_listed_and_the_others_are_there(release, tmp_path):
    row = MappingRow("in/bad.mp4", "eve", 99, "images/deep/bad.mp4")
    private = replace(release.private, mapping=(*release.private.mapping, row))
    clips = {row.output: Broken(b"")}
    told = Release(**{**vars(release), "clips": clips, "private": private})
    out, secret = told.save(tmp_path / "out"), tmp_path / "out.private"
    found = verify(out, private=secret).certificate
    assert row.output not in read_manifest(out)
    assert found["files"] == len(release.files)
    assert not (out / "images" / "deep").exists(), "an empty folder would not verify"
    assert read_private(secret).mapping == list(release.private.mapping)
    assert read_private(secret).failures[-1] == Failure("in/bad.mp4", "it may be damaged.")
    written = as_written(told, verify(out, private=secret))
    assert (written.clips, written.private.mapping) == ({}, release.private.mapping)
    with pytest.raises(InputError, match=r"No video could be written: in/bad.mp4: it may be damaged"):
        Release(**{**vars(told), "files": {}}).save(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_film_is_made_only_when_it_is_saved(release):
    with pytest.raises(UsageError, match="call save"):
        Release(**{**vars(release), "clips": {"images/film.mp4": Film(b"")}}).certificate()


def test_verify_looks_for_metadata_in_files_whose_hash_is_right(release, tmp_path):
    told = picture(9)
    end = told.index(b"IDAT") - 4
    text = b"tEXtAuthor\0ann"
    chunk = len(text[4:]).to_bytes(4, "big") + text + zlib.crc32(text).to_bytes(4, "big")
    files = dict.fromkeys(release.files, told[:end] + chunk + told[end:])
    with pytest.raises(GuaranteeViolated, match=r"'00.png' carries metadata: text"):
        verify(Release(**{**vars(release), "files": files}).save(tmp_path / "out"))
    clips = {"images/film.mp4": Film(b"no video")}
    with pytest.raises(GuaranteeViolated, match=r"'film.mp4' cannot be checked"):
        verify(Release(**{**vars(release), "clips": clips}).save(tmp_path / "film"))


def test_a_certificate_of_an_older_format_is_not_verified(tmp_path):
    (tmp_path / "certificate.json").write_text('{"format": "ksame certificate 1", "digest": ""}')
    with pytest.raises(GuaranteeViolated, match="older format, or was changed: verify it with"):
        verify(tmp_path)
