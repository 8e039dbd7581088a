"""The laboratory's other commands: choosing k, and the papers' experiments."""

from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest
from PIL import Image

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def pairs(family, tmp_path_factory):
    """Return 5 people in two photos each, laid out as the experiments want them."""
    folder = tmp_path_factory.mktemp("pairs")
    for path in sorted(family.rglob("*.pgm")):
        how = "neutral" if path.stem == "1" else "smiling"
        shutil.copy(path, folder / f"{path.parent.name}_{how}.pgm")
    return folder


def test_tune_recommends_a_k_and_writes_a_page(people, cli, tmp_path, recogniser):
    page = tmp_path / "tune.html"
    args = ("--k", "2,3", "--methods", "ksame-m", "--risk", "0.5", "--subjects", "prefix", "--seed", "1")
    ran = cli("tune", people, *args, "-o", page, "--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert {row["k"] for row in found["table"]} == {2, 3}
    assert all(row["rank1"] <= row["bound"] + 1e-12 for row in found["table"])
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/") > 2
    assert not re.search(r"(src|href)=[\"']?https?:", text)


@pytest.mark.parametrize("ks", ["1:3", "5:2", "two", ""])
def test_tune_says_which_k_it_understands(people, cli, ks):
    ran = cli("tune", people, "--k", ks)
    assert (ran.code, "2:20" in ran.sentence) == (2, True)


def test_an_experiment_writes_table_and_figure(pairs, cli, tmp_path):
    ran = cli("experiment", "sun-fig2.4", "--data", pairs, "-o", tmp_path / "out")
    assert ran.code == 0
    assert len(pd.read_csv(tmp_path / "out" / "sun-fig2.4.csv"))
    with Image.open(tmp_path / "out" / "sun-fig2.4.png") as figure:
        assert figure.width > 400


def test_an_experiment_that_is_not_one_and_data_that_is_none(pairs, cli, tmp_path):
    ran = cli("experiment", "newton-table9", "--data", pairs)
    assert (ran.code, "newton-table1" in ran.sentence) == (2, True)
    (tmp_path / "empty").mkdir()
    ran = cli("experiment", "newton-table1", "--data", tmp_path / "empty")
    assert ran.code == 2
