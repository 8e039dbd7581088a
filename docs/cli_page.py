"""Write the reference page of the command line from the command line itself, so that it cannot drift."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ksame.cli import app

HEAD = """# Command line

Generated from `ksame --help` when these pages are built. See [exit codes](exit-codes.md), and
[file formats](release-folder.md) for what the commands write.
"""


def write_cli_page(path: Path) -> None:
    """Write the page; an unchanged page keeps its file time, so that a build does not repeat work."""
    text = "\n".join([HEAD, *sections(typer.main.get_command(app), ("ksame",))])
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def sections(command: Any, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the section of a command and those of its subcommands."""
    context = command.make_context(" ".join(names), [], resilient_parsing=True)
    yield f"{'#' * (len(names) + 1)} `{' '.join(names)}`\n"
    yield f"{' '.join((command.help or '').split())}\n"
    yield f"```text\n{' '.join(command.get_usage(context).split())}\n```\n"
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        if row := parameter.get_help_record(context):
            title = getattr(parameter, "rich_help_panel", None) or "Arguments and options"
            groups.setdefault(title, []).append(row)
    for title, rows in groups.items():
        yield f"| {title} | |\n|---|---|"
        yield "\n".join(f"| {code(names)} | {cell(text)} |" for names, text in rows) + "\n"
    if epilog := getattr(command, "epilog", None):
        yield f"{epilog}\n"
    for name, subcommand in sorted(getattr(command, "commands", {}).items()):
        yield from sections(subcommand, (*names, name))


def code(text: str) -> str:
    """Return text as code in a cell of a table."""
    return f"`{cell(text)}`"


def cell(text: str) -> str:
    """Return text on one line, with what a table would take for its own escaped."""
    return " ".join(text.split()).replace("|", r"\|")


if __name__ == "__main__":
    write_cli_page(Path(__file__).parent / "reference" / "cli.md")
