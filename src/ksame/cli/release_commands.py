"""The commands that make and check releases."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ksame import pipeline
from ksame.cli.model_commands import model_app, models, pool_app
from ksame.cli.options import GroupedCommand, with_generated_options
from ksame.cli.shell import Json, Quiet, app, confirm, print_json, progress, say, say_table, warn
from ksame.cli.summary import describe_method, print_result, summary
from ksame.core.checkpoint import Checkpoint
from ksame.core.context import ENGINES, Context
from ksame.core.errors import KSameError, UsageError, WeightsError
from ksame.methods import AD_HOC, METHODS, Method
from ksame.models.recognisers import RECOGNISERS, VERIFIERS
from ksame.pipeline import Medium, Output, default_method, find_media, find_method, route
from ksame.release import CERTIFICATE, as_written, open_folders, verify

CHECKPOINT = "journal.jsonl"  # in the private folder while a run is under way

app.add_typer(models, name="models", invoke_without_command=True)
app.add_typer(model_app, name="model")
app.add_typer(pool_app, name="pool")


@app.command(cls=GroupedCommand)
@with_generated_options
def run(
    inputs: Annotated[list[Path], typer.Argument(help="Photos, videos, or folders.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The release folder to make.")],
    method: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(METHODS)} [ksame-m; shift for videos].")
    ] = None,
    publish: Annotated[
        str | None, typer.Option(help="portrait or scene [portrait; scene for videos and ad hoc methods].")
    ] = None,
    private: Annotated[Path | None, typer.Option(help="Where the mapping goes [OUTPUT.private].")] = None,
    accept_no_guarantee: Annotated[
        bool, typer.Option("--accept-no-guarantee", help="Allow the ad hoc methods, which promise nothing.")
    ] = False,
    verifiers: Annotated[
        str | None,
        typer.Option(
            help=f"Recognisers that judge candidates for new faces [{','.join(VERIFIERS.identity)}]."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat a run; keep it as secret as the mapping.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Workers [one per core].")] = None,
    engine: Annotated[str, typer.Option(help=f"What the workers are: {', '.join(ENGINES)}.")] = "threads",
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier release.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything but write.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Make a certified release from photos or videos."""
    began = time.monotonic()
    given = {name: value for name, value in options.items() if value is not None and value != []}
    judges = _parse_verifiers(verifiers)
    media, chosen, published = _choose(inputs, method, publish, accept_no_guarantee, judges, given)
    fixed: dict[str, Any] = {"jobs": jobs, "engine": engine, "verifiers": judges}
    if resume and not overwrite and (output / CERTIFICATE).is_file():
        raise UsageError(f"There is nothing to resume: {output} is finished.")
    out, secret = open_folders(output, private, inputs=inputs, overwrite=overwrite, dry_run=dry_run)
    fresh = secrets.randbits(256) if seed is None else seed
    checkpoint = None if dry_run else Checkpoint.open(secret / CHECKPOINT, seed=fresh, resume=resume)
    fixed["seed"] = checkpoint.seed if checkpoint and seed is None else fresh
    try:
        with progress(quiet) as callback:
            callback("preparing", 0, 1)
            context = Context(**fixed, checkpoint=checkpoint, progress=callback)
            release = pipeline.run(media, chosen, published, context)
            if not dry_run:
                release.save(out, private=secret, overwrite=overwrite)
        checked = None if dry_run else verify(out, private=secret)
        if checked:
            release = as_written(release, checked)
    except KSameError as error:
        # What was found is kept where trying again makes sense: on a full disk, or when resuming.
        if checkpoint and not resume and (error.exit_code != 1 or isinstance(error, WeightsError)):
            checkpoint.remove()
        raise
    if checkpoint:
        checkpoint.remove()
    figures = summary(release, checked, time.monotonic() - began)
    raise typer.Exit(print_result(release, figures, checked, (out, secret), quiet=quiet, as_json=as_json))


def _choose(
    inputs: list[Path],
    method: str | None,
    publish: str | None,
    accepted: bool,
    judges: tuple[str, ...],
    options: dict[str, Any],
) -> tuple[list[Medium], Method[Any], Output]:
    """Return inputs, method and output with their options, or say before any work what does not fit."""
    media = find_media(inputs)
    chosen = find_method(method) if method else default_method(media)
    if chosen.name in AD_HOC and not accepted:
        raise UsageError(
            f"{chosen.name} guarantees nothing: give --accept-no-guarantee too, or leave out --method."
        )
    if judges and not chosen.uses_verifiers:
        raise UsageError(f"{chosen.name} asks no verifiers: leave out --verifiers.")
    return route(media, chosen, publish, options)


def _parse_verifiers(names: str | None) -> tuple[str, ...]:
    """Return the recognisers that are named, or say which there are; none: those of the run."""
    if names is None:
        return ()
    chosen = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in chosen or ("",):
        if name not in RECOGNISERS:
            raise UsageError(f"There is no verifier {name!r}: choose from {', '.join(RECOGNISERS)}.")
    return chosen


@app.command(name="verify")
def verify_command(
    release: Annotated[Path, typer.Argument(help="The release folder.")],
    private: Annotated[Path | None, typer.Option(help="Its private folder: people are counted too.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Re-check the certificate on the files themselves."""
    result = verify(release, private=private)
    if not quiet:
        for check in result.checks:
            confirm(check)
        for what in result.unchecked:
            warn(f"not checked: {what}")
        say(("Verified as far as listed.", "bold"), f" The claim: {result.certificate['claim']}")
    if as_json:
        keys = ("k", "bound", "publish", "kind", "claim")
        print_json(
            {"method": result.certificate["method"]["name"]}
            | {key: result.certificate[key] for key in keys}
            | {"checks": list(result.checks), "unchecked": list(result.unchecked), "exit_code": 0}
        )


@app.command(name="methods")
def methods_command(as_json: Json = False) -> None:
    """List the methods: what each promises, publishes and works on, how fast it is, and its licence."""
    rows = [describe_method(method) for method in METHODS.values()]
    if as_json:
        print_json({"methods": rows})
        return
    columns = [*rows[0]]
    page = Console(soft_wrap=False, highlight=False)
    say_table(columns, [[row[name] for name in columns] for row in rows], to=page, unbroken=("method",))
    strengths = [(row["method"], row["strength"]) for row in rows if "strength" in row]
    say_table(("method", "--strength"), strengths, to=page)


@app.command(name="demo")
def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for the demonstration.")] = Path(
        "demo"
    ),
) -> None:
    """See it work: sample people, their new faces, a certificate that holds, and one that does not."""
    from ksame.cli import demo  # late: it brings tables and charts

    with progress(False) as watch:
        demo.run(output, say=say, progress=watch)
