"""What every command shares: the console, errors as one sentence, progress, JSON."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ksame import __version__
from ksame.core.arrays import ProgressCallback
from ksame.core.errors import KSameError
from ksame.core.text import make_visible

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None
)
console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)

Part = str | tuple[str, str]
"""A piece of a line: text, or text and its style."""

# The parser's own errors; typer carries its click along or imports it, by its version.
WrongUsage: Any = typer.BadParameter.__mro__[1]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


def main() -> None:
    """Run the command line; an error is one sentence and its exit code."""
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        code = 130  # Ctrl-C; typer's newer versions return it
    except (KSameError, OSError, WrongUsage) as error:
        code = _print_error(error)
    sys.exit(code)


def _print_error(error: Exception) -> int:
    """Say what is wrong, and return the exit code that says it too."""
    code = int(getattr(error, "exit_code", 1))
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
        for line in str(getattr(error, "message", "")).splitlines():
            say(line)
        return code
    sentence = make_visible(_sentence(error))
    for note in getattr(error, "__notes__", ()):
        warn(note)
    say(("ksame:", "bold red"), " ", sentence)
    if "--json" in sys.argv:
        print_json({"error": sentence, "exit_code": code})
    return code


def _sentence(error: Exception) -> str:
    """Say what is wrong in one sentence, also where the parser or the system found it."""
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return "The disk is full: make room and try again."
        what = error.filename or "A file"
        return f"{what} cannot be used: {error.strerror or error}: check the path and its permissions."
    if isinstance(error, WrongUsage):
        words = " ".join(str(error.format_message()).split()).rstrip(".")
        return f"{words}: see ksame --help."
    return str(error)


def say(*parts: Part) -> None:
    """Print a line of text on stderr.

    All that is printed goes through here or ``say_table``. Styles are given beside the text and never in
    it, so that a name that looks like markup is not taken for it, and ``make_visible`` shows what a terminal
    would obey.
    """
    console.print(text_of(*parts))


def text_of(*parts: Part) -> Text:
    """Return parts as text for the terminal, in which no name can be markup or an escape."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((make_visible(text), style) for text, style in pairs))


def warn(text: str) -> None:
    """Print what went wrong, or what to bear in mind."""
    say(("!", "yellow"), " ", text)


def confirm(text: str) -> None:
    """Print what was done, or where it lies."""
    say(("✓", "green"), " ", text)


def say_table(
    columns: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    to: Console | None = None,
    unbroken: Container[str] = (),
) -> None:
    """Print a table; no figure is cut short, and some columns are not broken."""
    table = Table(box=None)
    for column in columns:
        table.add_column(text_of(column), overflow="fold", no_wrap=column in unbroken)
    for row in rows:
        table.add_row(*map(text_of, row))
    (to or console).print(table)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Replace faces so that nobody can name the person better than a stated bound, and prove it."""
    if version:
        sys.stdout.write(f"ksame {__version__}\n")
        raise typer.Exit


@contextmanager
def progress(quiet: bool) -> Iterator[ProgressCallback]:
    """Give a bar on a terminal and a plain line every tenth elsewhere."""
    if quiet:
        yield lambda stage, done, total: None
        return
    stage_name = TextColumn("{task.description}", markup=False)  # it may hold the name of a video
    columns = (stage_name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def watch(stage: str, done: int, total: int) -> None:
            if not console.is_terminal:
                if done == total or done * 10 // total > (done - 1) * 10 // total:
                    say(f"{stage}: {done} of {total}")
                return
            if stage not in tasks:
                tasks[stage] = bar.add_task(make_visible(stage), total=total)
            bar.update(tasks[stage], completed=done)

        yield watch


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")
