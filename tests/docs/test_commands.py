"""Every command that the documentation shows exists, with the options that it is shown with."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import typer

from ksame.cli import app
from ksame.core.errors import UsageError
from ksame.methods import METHODS
from ksame.pipeline import OUTPUTS, Photos, Videos, find_method, route
from pages import GENERATED, PAGES, ROOT, commands

SHOWN = [
    pytest.param(words, id=f"{page.relative_to(ROOT)}: {' '.join(words)}")
    for page in PAGES
    if page != GENERATED
    for words in commands(page)
]
NOT_CHECKED = {".", "cp", "rm", "/usr/bin/time"}


def parse(words: list[str]) -> dict[str, Any]:
    """Return the values that the command line reads from arguments; nothing is run."""
    command, name = typer.main.get_command(app), "ksame"
    while words and words[0] in getattr(command, "commands", {}):
        name, *words = words
        command = command.commands[name]
    assert not words or not hasattr(command, "commands"), f"{name} has no command {words[0]}"
    values = dict(command.make_context(name, list(words)).params)
    if name == "run":
        check_options(values)
    return values


def check_options(values: dict[str, Any]) -> None:
    """Raise if nobody in a run has an option that is given, or not that value."""
    videos = any(path.suffix == ".mp4" for path in values["inputs"])
    medium = Videos() if videos else Photos()
    owners = (*METHODS.values(), *OUTPUTS.values(), Photos, Videos)
    generated = {field.name for owner in owners for field in owner.option_fields()}
    method = find_method(values["method"] or ("shift" if videos else "ksame-m"))
    given = {
        name: value for name, value in values.items() if name in generated and value not in (None, (), [])
    }
    route([medium], method, values["publish"], given)


@pytest.mark.parametrize("words", SHOWN)
def test_a_command_that_is_shown_can_be_parsed(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for word in words[1:]:  # whatever it names is there
        path = tmp_path / word
        if word[0] not in "-/." and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch() if path.suffix else path.mkdir()
    match words:
        case ["ksame", "--version"]:
            return
        case ["ksame", *arguments] | ["/usr/bin/time", "-f", _, "ksame", *arguments]:
            assert parse(arguments)
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case ["pip", "install", what]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            assert what == "." or re.fullmatch(r"\.\[(\w+)\]", what)[1] in extras
        case ["python" | "python3", "-m", module, *_]:
            assert module == "venv" or (ROOT / module / "__main__.py").is_file()
        case ["python", script, *_]:  # the examples of extend.md, which test_extend.py runs
            assert script.endswith(".py")
        case _:
            assert words[0] in NOT_CHECKED


@pytest.mark.parametrize(
    "words",
    [
        "magic",
        "run photos -o release --magic",
        "run photos -o release --publish magic",
        "run photos -o release --search full",
        "run clip.mp4 -o release -k 5",
    ],
)
def test_what_does_not_exist_is_found(words):
    with pytest.raises((typer.BadParameter.__mro__[1], UsageError, AssertionError)):
        parse(words.split())
