"""The reference pages list every field, key and exit code that there is."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

import ksame
from ksame.audit.report.result import Report, VideoFigures
from ksame.core import errors
from ksame.core.guarantee import Guarantee
from ksame.release.private import PRIVATE_FILES
from ksame.release.writer import FORMAT
from pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
WALKS = ROOT / "tests" / "golden" / "walks"


def words(page: str) -> set[str]:
    """Return what a page shows as code in the first column of its tables."""
    cells = re.findall(r"^\| (.*?) \|", (REFERENCE / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("walk", sorted(WALKS.glob("*.json")), ids=lambda path: path.stem)
def test_every_field_of_a_recorded_certificate_is_explained(walk):
    claims = json.loads(walk.read_text())["claims"]
    if claims.get("format") == FORMAT:  # a record of an earlier format is about to be written again
        assert claims.keys() <= words("release-folder.md")


@pytest.mark.weights
@pytest.mark.parametrize("method", ["ksame-m", "blur"])
def test_every_field_of_a_certificate_is_explained(method, people):
    options = {"search": "fast"} if method == "blur" else {"k": 3, "subjects": "prefix"}
    release = ksame.deidentify(people, method=method, **options)
    assert release.certificate().keys() <= words("release-folder.md")


def test_every_private_file_is_explained():
    assert set(PRIVATE_FILES) <= words("release-folder.md")


def test_every_key_of_the_audit_is_explained():
    nothing = pd.DataFrame(columns=["measure", "original", "deidentified", "slice"])
    report = Report({}, (), (), "", (), nothing, {}, 0)
    keys = {*json.loads(report.to_json()), *report.attacks.columns, *nothing.columns}
    video = VideoFigures("a", (0, 0), (0.0, 0.0), "none", (), 0, 0, 0, 0, 0, (), ())
    assert keys | video.figures().keys() <= words("audit-json.md")


def test_every_exit_code_names_its_errors():
    rows = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8").splitlines()
    codes = {int(match[1]): row for row in rows if (match := re.match(r"\| (\d+) \|", row))}
    known = [item for item in vars(errors).values() if isinstance(item, type)]
    for error in (item for item in known if issubclass(item, errors.KSameError)):
        assert f"`{error.__name__}`" in codes[error.exit_code]


@pytest.mark.parametrize(
    "claim",
    [Guarantee("k-anonymity and wrong-map", 5, 0.2), Guarantee("k-anonymity", 5, 0.2), Guarantee("none")],
    ids=lambda claim: claim.kind,
)
def test_the_proof_that_a_certificate_names_is_a_page(claim):
    for page in claim.proof.split(", "):
        assert (ROOT / page).is_file()
