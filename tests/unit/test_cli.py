from __future__ import annotations

import errno
import io
import json

import pytest
from rich.console import Console

import ksame
from ksame.cli import release_commands, summary
from ksame.cli import shell as cli_shell
from ksame.core.guarantee import Guarantee
from ksame.core.options import flag_of
from ksame.methods import AD_HOC, METHODS
from ksame.models import weights
from ksame.pipeline import OUTPUTS, Photos, Videos
from ksame.release import MappingRow, Private, Release, ResidualRecord
from running import shell

OWNERS = (*METHODS.values(), *OUTPUTS.values(), Photos, Videos)


def test_the_version_and_the_help(cli):
    assert cli("--version") == (0, f"ksame {ksame.__version__}\n", "")
    asked = cli("--help")
    assert asked.code == 0
    assert all(command in asked.out for command in ("run", "verify", "demo", "models"))
    nothing = cli()
    assert "Traceback" not in nothing.err
    assert "verify" in nothing.out + nothing.err


@pytest.mark.parametrize("args", [("magic",), ("run",), ("verify",), ("models", "magic"), ("run", "x", "-o")])
def test_what_is_no_command_is_one_sentence_on_stderr_and_an_object_on_stdout(args, cli):
    ran = cli(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.sentence.endswith("see ksame --help.")
    ran = cli(*args, "--json")
    assert ran.json == {"error": ran.sentence, "exit_code": 2}


def test_the_help_of_run_has_a_section_for_each_owner(cli):
    help_ = cli("run", "--help").out
    sections = {line.removesuffix(":"): at for at, line in enumerate(help_.splitlines()) if line[:1] == "O"}
    owners = {
        "--model": "Options of ksame-m, ksame-furthest, kdiff-furthest",
        "--plain": "Options of anonfaces",
        "--embedding": "Options of anonfaces, heads",
        "--pool": "Options of shift",
        "--strength": "Options of ad hoc methods",
        "--names": "Options of --publish portrait, --publish scene",
        "--search": "Options of --publish scene",
        "--subjects": "Options of photos",
        "--tracks": "Options of videos",
        "--engine": "Options",
    }
    assert set(owners.values()) <= set(sections)
    lines = help_.splitlines()
    for flag, owner in owners.items():
        (at,) = [at for at, line in enumerate(lines) if f" {line} ".startswith(f"   {flag} ")]
        assert max((start, name) for name, start in sections.items() if start < at)[1] == owner
    every = [one.name for options in OWNERS for one in options.option_fields()]
    assert all(f"{flag_of(name)} " in help_ for name in every), "no option is left out"
    told = " ".join(help_.split())
    assert "Published file names [random; keep for --publish scene]." in told
    assert "What the workers are: threads, processes." in told


def test_the_methods_are_listed_with_what_each_promises(cli):
    rows = cli("methods", "--json").json["methods"]
    assert [row["method"] for row in rows] == list(METHODS)
    of = {row["method"]: row for row in rows}
    assert all({"method", "promise", "publishes", "works on", "speed", "licence"} <= set(row) for row in rows)
    nothing = {name for name, row in of.items() if row["promise"].startswith("nothing")}
    assert nothing == {*AD_HOC, "shift"}
    assert (of["shift"]["works on"], of["ksame-m"]["works on"]) == ("photos, videos", "photos")
    assert (of["ksame-m"]["publishes"], of["blur"]["publishes"]) == ("portrait, scene", "scene")
    assert "stylegan" in of["anonfaces"]["licence"], "not for commercial use"
    assert of["ksame-m"]["licence"] == "free for commercial use"
    assert of["pixelate"]["strength"] == "blocks across the face [8], 1 to 32"
    table = cli("methods")
    assert table.code == 0
    assert set(METHODS) <= set(table.out.split()), "no name is broken"
    assert of["pixelate"]["strength"] in " ".join(table.out.split())


def test_it_runs_as_a_module():
    assert shell("--version").out == f"ksame {ksame.__version__}\n"
    assert shell("verify", "nowhere").code == 2


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "The disk is full: make room and try again."),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 1, "x cannot be used: Permission denied"),
        (OSError("odd"), 1, "A file cannot be used: odd: check the path"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_of_the_system_are_sentences_too(error, code, says, cli, monkeypatch):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(release_commands, "verify", fail)
    ran = cli("verify", "x")
    assert ran.code == code
    assert says in (ran.sentence if says else ran.err)


def test_the_models_are_listed(cli):
    ran = cli("models", "list", "--json")
    assert [row["name"] for row in ran.json["models"]] == list(weights.CATALOGUE)
    for args in (("models",), ("models", "list")):
        table = cli(*args)
        assert table.code == 0
        assert all(name in table.out for name in weights.CATALOGUE)


@pytest.mark.weights
def test_models_are_fetched(cli):
    ran = cli("models", "fetch", "yunet", "mesh")
    assert ran.code == 0
    assert str(weights.path("mesh")) in ran.err


def test_a_model_that_is_not_there_or_is_another_file(cli, tmp_path, monkeypatch):
    ran = cli("models", "fetch", "magic")
    assert (ran.code, "choose one of yunet" in ran.sentence) == (2, True)
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KSAME_OFFLINE", "1")
    ran = cli("models", "fetch", "yunet")
    assert (ran.code, "KSAME_OFFLINE is set" in ran.sentence) == (1, True)
    (tmp_path / "fake.onnx").write_bytes(b"not it")
    ran = cli("models", "add", "yunet", tmp_path / "fake.onnx")
    assert (ran.code, "is not the one that was reviewed" in ran.sentence) == (1, True)
    ran = cli("models", "add", "yunet", tmp_path / "nowhere.onnx")
    assert (ran.code, "There is no file" in ran.sentence) == (2, True)
    assert not (tmp_path / "cache").exists()


@pytest.mark.weights
def test_a_copy_of_a_model_is_added(cli, tmp_path, monkeypatch):
    copy = tmp_path / "brought"
    copy.write_bytes(weights.path("yunet").read_bytes())
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path / "cache"))
    assert cli("models", "add", "yunet", copy).code == 0
    assert (tmp_path / "cache" / "yunet.onnx").read_bytes() == copy.read_bytes()


def test_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch):
    for terminal in (True, False):
        paper = io.StringIO()
        monkeypatch.setattr(cli_shell, "console", Console(file=paper, force_terminal=terminal, width=80))
        with cli_shell.progress(False) as watch:
            for done in range(1, 41):
                watch("finding faces", done, 40)
        text = paper.getvalue()
        assert ("\x1b[" in text) == terminal
        assert terminal or text.splitlines() == [f"finding faces: {done} of 40" for done in range(4, 41, 4)]


def test_who_was_taken_for_one_person_is_shown_and_the_rest_counted(monkeypatch):
    paper = io.StringIO()
    monkeypatch.setattr(cli_shell, "console", Console(file=paper, width=200, soft_wrap=True))
    rows = [
        MappingRow(f"[{person}]_{photo}.jpg", f"person-{person:03}", 0, "x")
        for person in range(30)
        for photo in range(1 + 5 * (person == 7))
    ]
    release = Release(
        {},
        Guarantee("none"),
        METHODS["ksame-m"],
        "portrait",
        {"subjects": "auto"},
        Private(tuple(rows), {"linked_loosely": ["person-029"]}),
    )
    summary._print_people(release)
    text = paper.getvalue()
    assert "[29]_0.jpg (may be several people: linked, counted as one)" in text
    assert text.count("counted as one") == 1
    assert text.index("person-029") < text.index("person-007"), "those to be looked at first"
    assert "[7]_0.jpg, [7]_1.jpg, [7]_2.jpg, [7]_3.jpg and 2 more" in text
    assert text.index("person-007") < text.index("person-000"), "those with the most photos first"
    assert "and 10 more people: 10 with 1 photos each" in text


def test_json_holds_names_that_are_not_text(capsys):
    cli_shell.print_json({"input": "\udcff"})
    assert json.loads(capsys.readouterr().out) == {"input": "\udcff"}


def test_untouched_faces_are_told_file_by_file_and_run_by_run(monkeypatch, tmp_path):
    paper = io.StringIO()
    monkeypatch.setattr(cli_shell, "console", Console(file=paper, width=200, soft_wrap=True))
    film = [ResidualRecord("images/[a].mp4", frame, frame / 25, "1 2 3 4") for frame in (17, 18, 18, 19, 40)]
    flicker = [ResidualRecord("images/b.mp4", frame, frame / 25, "1 2 3 4") for frame in range(0, 24, 2)]
    summary.print_residual_faces([ResidualRecord("images/c.jpg"), *film, *flicker], tmp_path)
    lines = paper.getvalue().splitlines()
    assert lines[0] == "A second detector sees 18 untouched faces."
    assert lines[1] == "! images/c.jpg"
    assert lines[2] == "! images/[a].mp4: in frames 17 to 19 (0.68 to 0.76 s), 40 (1.60 s)"
    assert lines[3].endswith("18 (0.72 s) and 2 more")
    assert str(tmp_path / "untouched.csv") in lines[4]
