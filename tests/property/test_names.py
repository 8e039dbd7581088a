"""Whatever a file is called: it is shown, stored and read back as a name, and never obeyed."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from ksame import io as ksame_io
from ksame.attack.score import AttackResult
from ksame.audit.report.result import Report, VideoFigures
from ksame.cli import lab_commands, shell, summary
from ksame.core.errors import Failure, GuaranteeViolated, InputError
from ksame.core.folders import fit_name
from ksame.core.guarantee import Guarantee
from ksame.core.text import csv_cell, csv_value, make_visible, read_csv, write_csv
from ksame.io import encode_png
from ksame.methods import METHODS
from ksame.release import MappingRow, Private, Release, ResidualRecord, read_private, verify
from odd_names import ODD, names

UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
FORMULA = tuple("=+-@\t\r\n")
PIXELS = encode_png(np.zeros((2, 2, 3), np.uint8))


def odd_examples(test):
    """Try the known ones each time, beside what Hypothesis thinks of."""
    for name in ODD:
        test = example(name)(test)
    return test


def unseen(text: str) -> set[str]:
    return {character for character in text if unicodedata.category(character) in UNSEEN}


class Terminal:
    """What the command prints, in place of stderr."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        self.paper = io.StringIO()
        self.console = Console(file=self.paper, force_terminal=is_terminal, width=10_000, soft_wrap=True)

    def __enter__(self) -> Terminal:
        self.before, shell.console = shell.console, self.console
        return self

    def __exit__(self, *_: object) -> None:
        shell.console = self.before

    @property
    def lines(self) -> list[str]:
        """What was printed; nothing in it acts on a terminal but the ends of its lines."""
        text = self.paper.getvalue()
        assert not unseen(text.replace("\n", ""))
        text.encode("utf-8")
        return text.removesuffix("\n").split("\n")


@odd_examples
@given(names)
def test_what_is_shown_acts_on_nothing(name):
    shown = make_visible(name)
    assert not unseen(shown)
    assert make_visible(shown) == shown
    assert shown.encode("utf-8")
    if not unseen(name):
        assert shown == name


@odd_examples
@given(names)
def test_a_csv_gives_every_name_back_and_holds_no_formula(name):
    assert csv_value(csv_cell(name)) == name
    quoted = "'" + name
    assert csv_value(csv_cell(quoted)) == quoted
    rows = [(name, quoted, 3), (f"{name}/{name}", "", 4)]
    table = io.StringIO(newline="")
    write_csv(table, [("one", "two", "three"), *rows])
    cells = [cell for row in csv.reader(io.StringIO(table.getvalue(), newline="")) for cell in row]
    assert not any(cell.startswith(FORMULA) for cell in cells)
    with tempfile.TemporaryDirectory() as here:
        file = Path(here, "table.csv")
        file.write_bytes(table.getvalue().encode("utf-8", "surrogateescape"))
        back = [(row["one"], row["two"], int(row["three"])) for row in read_csv(file)]
    assert back == rows


@given(names, st.sampled_from([".png", "_2.png", ".mp4.json"]), st.integers(1, 8))
def test_no_name_is_longer_than_a_file_system_takes(name, ending, times):
    long = f"images/{times * name}"
    fitted = fit_name(long, ending)
    assert fitted.endswith(ending) and fitted.startswith("images/")
    assert len(os.fsencode(fitted.removeprefix("images/"))) <= 255
    if len(os.fsencode(times * name + ending)) <= 255:
        assert fitted == long + ending
    else:
        assert fitted != fit_name(f"{long}x", ending), "names that are cut stay apart"


def release_of(name: str) -> Release:
    """Return a release in which everything that can be is called so; nobody is in it."""
    photo, film = f"images/{name}.png", f"images/{name}.mp4"
    return Release(
        {photo: PIXELS},
        Guarantee("none", assumptions=(f"about {name}",)),
        METHODS["shift"],
        "scene",
        {"subjects": "auto", "unusable_faces": 1},
        Private(
            (MappingRow(f"{name}.jpg", name, 0, photo), MappingRow(film, name, 1, film)),
            {"notes": [f"{name}: a note"]},
            (Failure(f"{name}.bmp", f"{name!r} cannot be read: {name}"),),
        ),
    )


@odd_examples
@given(names)
def test_a_run_is_told_in_lines_of_text(name):
    release = release_of(name)
    figures = {**summary.summary(release, None, 1.0), "publish": "scene"}
    untouched = [
        ResidualRecord(f"images/{name}.png"),
        ResidualRecord(f"images/{name}.mp4", 3, 0.1, "1 2 3 4"),
    ]
    with Terminal() as terminal:
        summary.print_failures(figures["failures"])
        summary.print_summary(release, figures, [f"{name}: noted"], Path(name))
        summary.print_residual_faces(untouched, Path(name))
        with shell.progress(quiet=False) as watch:
            watch(f"drawing {name}", 1, 1)
        code = shell._print_error(InputError(f"{name} cannot be read."))
    lines, shown = terminal.lines, make_visible(name)
    assert code == 4
    assert lines[0] == f"! {shown}.bmp: {make_visible(repr(name))} cannot be read: {shown}"
    assert f"! {shown}: noted" in lines
    assert f"✓ written and verified: {shown}" in lines or name != Path(name).name
    assert f"! images/{shown}.mp4: in frames 3 (0.10 s)" in lines
    assert f"drawing {shown}: 1 of 1" in lines
    assert lines[-1] == f"ksame: {shown} cannot be read."
    assert any(f"about {shown}" in line for line in lines)
    assert any(f"{shown}.jpg" in line for line in lines), "who was taken for one person"


@odd_examples
@settings(max_examples=30)
@given(names)
def test_a_terminal_gets_no_escape_but_the_styles(name):
    with Terminal(is_terminal=True) as terminal:
        shell.say((name, "bold"), " ", name)
        with shell.progress(quiet=False) as watch:
            watch(f"drawing {name}", 1, 2)
    whole = terminal.paper.getvalue()
    first = whole.partition("\n")[0]
    assert first == f"\x1b[1m{make_visible(name)}\x1b[0m {make_visible(name)}"
    assert make_visible(name) in whole.partition("\n")[2]


@odd_examples
@given(names)
def test_json_is_ascii_and_gives_every_name_back(name):
    paper = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shell.sys, "stdout", paper)
        shell.print_json({"failures": [{"input": name}], "release": name})
    assert paper.getvalue().isascii()
    assert json.loads(paper.getvalue()) == {"failures": [{"input": name}], "release": name}


class Shown(HTMLParser):
    """The text of a page, and the elements that may do something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.acting: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "a", "link", "base") or any(key.startswith("on") for key, _ in attrs):
            self.acting.append(tag)


def report_of(name: str) -> Report:
    """Return what an audit found, in which everything that can be is called so."""
    seconds = np.column_stack([np.arange(3.0), np.ones(3), np.ones(3)])
    film = VideoFigures(
        f"images/{name}.mp4", (3, 3), (1.0, 1.0), "none", (name,), 3, 3, 3, 0, 1, (), (),
        traces={"smile": seconds},
    )  # fmt: skip
    result = AttackResult(
        "naive", name, rank1=0.5, low=0.4, high=0.6, chance=0.1, bound=0.2, verdict="broken",
        probes=9, gallery=9, people=9, tpr=0.1, cmc=np.array([0.5, 0.7, 1.0]),
    )  # fmt: skip
    slices = {"slice": ["all", f"gender {name}", "gender x"], "measure": ["smile (share)"] * 3}
    utility = pd.DataFrame({**slices, "original": [0.5, 0.5, 0.4], "deidentified": [0.4, 0.3, 0.5]})
    return Report(
        {"method": name, "claim": name, "assumptions": [name]}, (f"checked {name}",), (name,), "",
        (result,), utility, {"yunet": 1.0}, 0, notes=(f"{name}: noted",), record={name: [name]},
        videos=(film,),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*Glyph.*missing:UserWarning")  # of rare letters, which a browser has
@odd_examples
@settings(max_examples=10)
@given(names)
def test_a_report_shows_every_name_as_text(name):
    report = report_of(name)
    page = report.to_html()
    assert page.encode("utf-8")
    assert not unseen(page.replace("\n", ""))
    shown = Shown(page)
    assert not shown.acting
    assert f"images/{make_visible(name)}.mp4" in shown.text
    assert f"{make_visible(name)}: noted" in shown.text
    assert json.loads(report.to_json())["notes"] == [f"{name}: noted"]
    with Terminal() as terminal:
        lab_commands._print_report(report)
    assert f"! {make_visible(name)}: noted" in terminal.lines


@odd_examples
@settings(max_examples=40)
@given(names)
def test_a_release_of_files_that_are_called_so_verifies(name):
    release = release_of(name)
    with tempfile.TemporaryDirectory() as here:
        out = release.save(Path(here, f"out{name[:20]}"), private=Path(here, "secret"))
        verify(out)
        kept = read_private(Path(here, "secret"))
        assert tuple(kept.mapping) == release.private.mapping
        assert kept.settings["notes"] == release.private.settings["notes"]
        (failure,) = read_csv(Path(here, "secret", "failures.csv"))
        assert Failure(**failure) == release.private.failures[0]
        assert [photo.name for photo in ksame_io.find_photos([out / "images"])] in ([f"{name}.png"], [])
        (out / "images" / f"{name}.png").unlink()
        with pytest.raises(GuaranteeViolated) as caught, Terminal():
            verify(out)
    with Terminal() as terminal:
        assert shell._print_error(caught.value) == 3
    assert len(terminal.lines) == 1
