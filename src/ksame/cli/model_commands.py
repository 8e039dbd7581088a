"""The commands for model files, trained models and identity pools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ksame.cli.shell import Json, Quiet, confirm, print_json, progress, say, say_table, warn
from ksame.core.context import Context
from ksame.core.errors import UsageError
from ksame.lab.training.appearance_model import train_appearance_model
from ksame.lab.training.generator_map import train_generator_map as learn_map
from ksame.methods.shift.pool import make_pool
from ksame.methods.shift.pool.synthetic_people import draw_synthetic_people
from ksame.models import weights
from ksame.models.generator import ImageGenerator

models = typer.Typer(
    rich_markup_mode=None, help="The model files: list them, fetch them, or bring your own copy."
)
model_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The appearance model: train one of your own."
)
pool_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="People who do not exist, whose faces videos borrow."
)


@models.callback()
def _models(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_models()


@models.command(name="list")
def list_models(as_json: Json = False) -> None:
    """List the model files."""
    rows = weights.status()
    if as_json:
        print_json({"models": rows})
        return
    columns = [name for name in rows[0] if name != "sha256"]
    cells = ([row[name] for name in columns] for row in rows)
    say_table(columns, cells, to=Console(soft_wrap=False, highlight=False))


@models.command()
def fetch(names: Annotated[list[str], typer.Argument(help="Names from ksame models list.")]) -> None:
    """Fetch model files into the cache, verified."""
    for path in weights.fetch(names):
        confirm(str(path))


@models.command()
def add(name: str, file: Path) -> None:
    """Put a copy that you brought into the cache, if it is the right file."""
    confirm(str(weights.add(name, file)))


@model_app.command(name="train")
def train_model(
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, .npz.")],
    inputs: Annotated[
        list[Path] | None, typer.Argument(help="Photos, or folders of photos.", show_default=False)
    ] = None,
    generator: Annotated[
        str | None, typer.Option(help="Learn the map of a generator instead: bundled, or its folder.")
    ] = None,
    count: Annotated[int, typer.Option(help="Faces that a generator draws to learn from.")] = 4000,
    seed: Annotated[int, typer.Option(help="Which faces those are.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Photos at a time [one per core].")] = None,
    quiet: Quiet = False,
) -> None:
    """Train an appearance model on a folder of faces, or learn the map of a generator from what it draws."""
    if bool(inputs) == bool(generator):
        raise UsageError(
            "A model is trained on photos, or learnt from a generator: give inputs or --generator."
        )
    if generator:
        _learn_map(generator, output, count, seed, quiet)
        return
    with progress(quiet) as watch:
        training = train_appearance_model(inputs or [], output, context=Context(jobs=jobs, progress=watch))
    for failure in training.failures:
        warn(f"{failure.input}: {failure.reason}")
    if not quiet:
        say(str(training))
        confirm(str(training.report))


def _learn_map(generator: str, output: Path, count: int, seed: int, quiet: bool) -> None:
    draws = ImageGenerator.bundled() if generator == "bundled" else ImageGenerator.load(generator)
    with progress(quiet) as watch:
        learnt = learn_map(draws, output, count=count, seed=seed, progress=watch)
    if not quiet:
        say(str(learnt))
        confirm(str(output))


@pool_app.callback()
def _pool() -> None:
    """People who do not exist, whose faces videos borrow."""


@pool_app.command(name="build")
def build_pool(
    output: Annotated[Path, typer.Option("--output", "-o", help="The pool file to write, .npz.")],
    size: Annotated[
        int | None, typer.Option(help="How many people [400; 160 by a generator of portraits].")
    ] = None,
    generator: Annotated[
        str | None, typer.Option(help="Draw them as portraits: bundled, or the folder of a generator.")
    ] = None,
    model: Annotated[str, typer.Option(help="The map of that generator: bundled, or a file.")] = "bundled",
    k: Annotated[
        int,
        typer.Option("-k", help="The most faces in a cluster of k-Diff-furthest; portraits are not moved."),
    ] = 2,
    seed: Annotated[int | None, typer.Option(help="Repeat a run.")] = None,
    quiet: Quiet = False,
) -> None:
    """Make up people: codes, checked and de-identified once by k-Diff-furthest; or portraits, as they are."""
    if output.suffix != ".npz" or output.is_dir() or not output.parent.is_dir():
        raise UsageError(f"A pool is a file NAME.npz in a folder that is there. Got {str(output)!r}.")
    with progress(quiet) as watch:
        if generator is None:
            pool = make_pool(size or 400, k=k, seed=seed, progress=watch)
        else:
            pool = draw_synthetic_people(
                size or 160, generator=generator, model=model, seed=seed, progress=watch
            )
    pool.save(output)
    if not quiet:
        say(pool.checked)
        confirm(f"{len(pool)} people who do not exist: {output}")
