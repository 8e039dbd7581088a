"""The commands of the laboratory: attack a release, choose k, do the papers' experiments again.

What they call is imported when they are called: tables and charts take a second to load.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ksame.cli.shell import Json, Quiet, app, confirm, console, progress, say, say_table, warn
from ksame.core.errors import UsageError
from ksame.core.text import csv_cell
from ksame.release import REPORT_FILE

if TYPE_CHECKING:
    import pandas as pd

    from ksame.audit.report.result import Report

Subjects = Annotated[
    str, typer.Option(help="Who is the same person: auto, folder, prefix (up to the first _), or a csv.")
]
Jobs = Annotated[int | None, typer.Option(help="Photos at a time [one per core].")]


@app.command()
def audit(
    release: Annotated[
        Path, typer.Argument(help="A release, or a folder of photos or videos de-identified elsewhere.")
    ],
    originals: Annotated[
        list[Path], typer.Option(help="The photos or videos it was made from.", show_default=False)
    ],
    gallery: Annotated[
        Path | None, typer.Option(help="What an attacker has: other photos of these people, strangers.")
    ] = None,
    attackers: Annotated[str, typer.Option(help="Recognisers by name, .onnx files, or all.")] = "all",
    private: Annotated[Path | None, typer.Option(help="The private folder [RELEASE.private].")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page to write [RELEASE/report.html].")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
    subjects: Annotated[
        str | None, typer.Option(help="Who is on photos that no mapping names: prefix, folder or a csv.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A csv about people: subject, gender, age, ethnicity.")
    ] = None,
    other: Annotated[Path | None, typer.Option(help="A second release of the same people.")] = None,
    k: Annotated[int | None, typer.Option("-k", help="The k of a folder without a certificate.")] = None,
    show_originals: Annotated[
        bool, typer.Option("--show-originals", help="Put original faces on the page: keep it private then.")
    ] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Attack a release with several recognisers, measure what is left, and write one page about it."""
    from ksame.audit.run import audit as examine

    page = _report_path(release, output, show_originals)
    _check_writable(json_file)
    _check_outside_release(json_file, release)
    with progress(quiet) as watch:
        report = examine(
            release,
            originals=originals,
            gallery=gallery,
            attackers=attackers,
            private=private,
            subjects=subjects,
            labels=labels,
            other=other,
            k=k,
            show_originals=show_originals,
            jobs=jobs,
            progress=watch,
        )
    report.save(page)
    if json_file is not None:
        json_file.write_text(report.to_json(), encoding="ascii")
    if not quiet:
        _print_report(report)
        confirm(str(page.resolve()))
    raise typer.Exit(_exit_code(report))


@app.command()
def tune(
    inputs: Annotated[list[Path], typer.Argument(help="Photos, or folders of photos.", show_default=False)],
    ks: Annotated[str, typer.Option("--k", help="The k to try: 2:20, or 2,5,10.")] = "2:20",
    methods: Annotated[str, typer.Option(help="Methods to try, separated by commas.")] = "",
    risk: Annotated[float, typer.Option(help="The chance of being named that you can accept.")] = 0.1,
    subjects: Subjects = "auto",
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("tune.html"),
    show_originals: Annotated[
        bool, typer.Option("--show-originals", help="Put an original face on the page: keep it private then.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Repeat a run.")] = None,
    jobs: Jobs = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show privacy against utility over k, and recommend a k for a risk that you accept."""
    from ksame.audit.tune import METHODS
    from ksame.audit.tune import tune as examine

    _check_writable(output)
    with progress(quiet) as watch:
        tuning = examine(
            inputs,
            ks=_parse_numbers(ks),
            methods=tuple(methods.split(",")) if methods else METHODS,
            risk=risk,
            subjects=subjects,
            seed=seed,
            jobs=jobs,
            progress=watch,
            show_originals=show_originals,
        )
    output.write_text(tuning.page(), encoding="utf-8")
    if not quiet:
        _print_table(tuning.table)
        say((tuning.why, "bold"))
        confirm(str(output.resolve()))
    if as_json:
        sys.stdout.write(tuning.to_json())


@app.command()
def experiment(
    name: Annotated[str, typer.Argument(help="Its name; without a right one they are listed.")],
    data: Annotated[Path, typer.Option(help="A folder with ID_neutral and ID_smiling photos, and info.csv.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where figure and table go.")] = Path(
        "experiments"
    ),
    quiet: Quiet = False,
) -> None:
    """Do a table or a figure of the papers again, beside the paper's own numbers."""
    from ksame.lab.experiments import EXPERIMENTS, load

    # several names may stand for one experiment
    chosen = [*{run: one for one, run in EXPERIMENTS.items()}.values()] if name == "all" else [name]
    if name != "all" and name not in EXPERIMENTS:
        raise UsageError(f"There is no experiment {name!r}: choose all, or one of {', '.join(EXPERIMENTS)}.")
    with progress(quiet) as watch:
        faces = load(data, progress=watch)
    output.mkdir(parents=True, exist_ok=True)
    for one in chosen:
        outcome = EXPERIMENTS[one](faces)
        outcome.figure.savefig(output / f"{one}.png", dpi=150, bbox_inches="tight")
        outcome.table.map(csv_cell).to_csv(output / f"{one}.csv", index=False)
        if not quiet:
            say((outcome.title, "bold"))
            _print_table(outcome.table)
            say(outcome.says)
            confirm(str((output / f"{one}.png").resolve()))


def _exit_code(report: Report) -> int:
    """Return 3 for a promise that does not hold, 5 for faces left untouched, 4 for photos left out."""
    promised_files = report.certificate.get("scope") == "file"
    if report.broken or (promised_files and any(r.verdict == "broken" for r in report.results)):
        return 3
    return 5 if report.residual_faces else 4 if report.missing else 0


def _report_path(release: Path, output: Path | None, show_originals: bool) -> Path:
    """Return where the page goes; one that shows originals never goes among what is published."""
    page = output or release / REPORT_FILE
    if show_originals and release.resolve() in page.resolve().parents:
        raise UsageError("A page that shows originals must not lie in the release: name another with -o.")
    _check_writable(page)
    _check_outside_release(page, release)
    return page


def _check_outside_release(file: Path | None, release: Path) -> None:
    """Refuse to add a file to a release, which would not verify any more; the report is the one exception."""
    inside = file is not None and release.resolve() in file.resolve().parents
    if file is not None and inside and file.resolve() != (release / REPORT_FILE).resolve():
        raise UsageError(
            f"{file} would lie in the release, which holds {REPORT_FILE} and what was certified only."
        )


def _check_writable(file: Path | None) -> None:
    """Refuse a file that cannot be written, before minutes of work."""
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        raise UsageError(f"{file} cannot be written: name a file in a folder that is there.")


def _print_report(report: Report) -> None:
    """Say in a few lines what was found."""
    from ksame.audit.report.wording import make_headline

    for note in report.notes:
        warn(note)
    table = report.attacks
    if len(table):
        best = table.groupby("attack", sort=False).head(1)
        _print_table(best[["attack", "recogniser", "rank1", "low", "high", "chance", "bound", "verdict"]])
    head = make_headline(report)
    say((head.sentence, "bold"), " ", head.why)


def _print_table(table: pd.DataFrame) -> None:
    """Print a table."""
    rows = (
        [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in table.itertuples(index=False)
    )
    wide = Console(stderr=True, highlight=False, width=None if console.is_terminal else 240)
    say_table(map(str, table.columns), rows, to=wide)


def _parse_numbers(text: str) -> list[int]:
    """Return the numbers of ``2:20`` (both ends count) or ``2,5,10``."""
    try:
        if ":" in text:
            first, last = map(int, text.split(":"))
            numbers = list(range(first, last + 1))
        else:
            numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 2:
        raise UsageError(f"--k must be like 2:20 or 2,5,10, from 2 up. Got {text!r}.")
    return numbers
