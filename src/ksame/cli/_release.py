"""The commands that make and check releases."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ksame import weights
from ksame.adhoc import obscured
from ksame.cli._shell import Json, Quiet, app, console, print_json, progress
from ksame.core import KSameError, UsageError
from ksame.faces import subjects as people
from ksame.journal import Journal
from ksame.media import VIDEOS, find, find_videos
from ksame.obscure import METHODS as AD_HOC
from ksame.openset import beside, shifted
from ksame.partition import METHODS as PARTITIONS
from ksame.pipeline import METHODS, deidentify
from ksame.pool import build
from ksame.release import CERTIFICATE, Release, Untouched, check_folders, read_private, read_untouched, verify
from ksame.render import Composite
from ksame.training import train
from ksame.videos import disguise

models = typer.Typer(
    rich_markup_mode=None, help="The model files: list them, fetch them, or bring your own copy."
)
app.add_typer(models, name="models", invoke_without_command=True)
model_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The appearance model: train one of your own."
)
app.add_typer(model_app, name="model")
pool_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="People who do not exist, whose faces videos borrow."
)
app.add_typer(pool_app, name="pool")


@app.command()
def run(
    inputs: Annotated[list[Path], typer.Argument(help="Photos, videos, or folders.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The release folder to make.")],
    k: Annotated[int, typer.Option("-k", help="People behind every published face.")] = 5,
    method: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(METHODS)}, shift [ksame-m; shift for videos].")
    ] = None,
    partition: Annotated[str, typer.Option(help=f"One of {', '.join(PARTITIONS)}.")] = "mdav",
    publish: Annotated[
        Literal["portrait", "scene"] | None,
        typer.Option(help="What is published [portrait; scene beside videos]."),
    ] = None,
    subjects: Annotated[
        str, typer.Option(help="Who is the same person: auto, folder, prefix (up to the first _), or a csv.")
    ] = "auto",
    select: Annotated[str | None, typer.Option(help="A csv column whose values are kept apart.")] = None,
    private: Annotated[Path | None, typer.Option(help="Where the mapping goes [OUTPUT.private].")] = None,
    names: Annotated[
        Literal["random", "keep"] | None, typer.Option(help="Published file names [random; keep for scenes].")
    ] = None,
    expression: Annotated[
        Literal["drop", "keep"], typer.Option(help="Carry expressions to the new faces; lowers the claim.")
    ] = "drop",
    composite: Annotated[Composite, typer.Option(help="How a face is set into a scene.")] = "picture",
    model: Annotated[str, typer.Option(help="The appearance model: shipped, own, or a file.")] = "shipped",
    seed: Annotated[int | None, typer.Option(help="Repeat a run; keep it as secret as the mapping.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Photos at a time [one per core].")] = None,
    engine: Annotated[str, typer.Option(help="The joblib backend: threading, loky, dask.")] = "threading",
    accept_no_guarantee: Annotated[
        bool, typer.Option("--accept-no-guarantee", help=f"Allow {', '.join(AD_HOC)}.")
    ] = False,
    strength: Annotated[float | None, typer.Option(help="How strong an ad hoc method is.")] = None,
    grey: Annotated[bool, typer.Option("--grey", help="Ad hoc methods work in grey.")] = False,
    audio: Annotated[
        Literal["keep", "drop", "disguise"],
        typer.Option(help="The sound of videos; disguise: pitch changed."),
    ] = "keep",
    texture: Annotated[
        Literal["code", "pixel"],
        typer.Option(help="New faces in videos; pixel keeps more, also of who it is."),
    ] = "code",
    keep: Annotated[list[Path] | None, typer.Option(help="Photos of people who stay visible.")] = None,
    quality: Annotated[int | None, typer.Option(help="Of videos, 0 to 100 [80].")] = None,
    pool: Annotated[
        str, typer.Option(help="People who do not exist: shipped, or a file by pool build.")
    ] = "shipped",
    tracks: Annotated[
        Path | None,
        typer.Option(help="Tracks of videos, corrected by hand: PRIVATE/tracks of an earlier run."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a stopped run was.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier release.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do all but write.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a certified release from photos or videos."""
    began = time.monotonic()
    photos, videos = find(inputs), find_videos(inputs)
    method = _method_for(method, mixed=bool(photos and videos), videos=bool(videos))
    publish = publish or ("scene" if videos else "portrait")
    if videos and publish == "portrait":
        raise UsageError("Videos, and photos beside them, are published as scenes: leave out --publish.")
    if method in AD_HOC and not accept_no_guarantee:
        raise UsageError(
            f"{method} guarantees nothing: give --accept-no-guarantee too, or leave out --method."
        )
    if resume and not overwrite and (output / CERTIFICATE).is_file():
        raise UsageError(f"There is nothing to resume: {output} is finished.")
    out, secret = check_folders(output, private, overwrite=overwrite or dry_run)
    _check_apart(inputs, out, secret)
    journal, certificate, untouched, notes = None, None, [], []
    if not dry_run:
        fresh = secrets.randbits(256) if seed is None else seed
        journal = Journal.open(secret / "journal.jsonl", seed=fresh, resume=resume)
    try:
        with progress(quiet) as watch:
            common: dict[str, Any] = {"seed": seed, "jobs": jobs, "engine": engine} | {
                "journal": journal,
                "watch": watch,
            }
            if method == "shift":
                parts = []
                if photos:
                    parts += [
                        shifted(
                            inputs,
                            publish=publish,
                            subjects=subjects,
                            texture=texture,
                            pool=pool,
                            names=names,
                            **common,
                        )
                    ]
                if videos:
                    del common["engine"]
                    parts += [
                        disguise(
                            inputs,
                            audio=audio,
                            texture=texture,
                            keep=keep or (),
                            names=names or "keep",
                            quality=quality,
                            corrected=tracks,
                            pool=pool,
                            **common,
                        )
                    ]
                release = parts[0] if len(parts) == 1 else beside(*parts)
            elif method in AD_HOC:
                release = obscured(
                    inputs, method, grey=grey, strength=strength, names=names or "keep", **common
                )
            else:
                release = deidentify(
                    inputs,
                    k,
                    method=method,
                    partition=partition,
                    publish=publish,
                    subjects=subjects,
                    select=select,
                    names=names,
                    expression=expression,
                    composite=composite,
                    model=model,
                    **common,
                )
            if not dry_run:
                release.save(out, private=secret, overwrite=overwrite)
        if not dry_run:
            certificate = verify(out, private=secret).certificate
            untouched, notes = read_untouched(secret), read_private(secret)[1].get("notes", [])
    except KSameError as error:
        # What was found is kept where trying again makes sense: on a full disk, or when going on.
        if journal and not resume and error.exit_code != 1:
            journal.remove()
        raise
    if journal:
        journal.remove()
    figures = _summary(release, certificate, time.monotonic() - began)
    code = 5 if figures["untouched_faces"] else 4 if figures["failures"] else 0
    _tell_failures(figures["failures"])
    if not quiet:
        _tell(release, figures, notes, None if dry_run else out)
    _tell_untouched(untouched, secret)
    if as_json:
        listed = {"notes": notes, "untouched": [one._asdict() for one in untouched]}
        print_json(figures | listed | {"release": str(out), "private": str(secret), "exit_code": code})
    raise typer.Exit(code)


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
            console.print(f"[green]✓[/] {escape(check)}")
        for what in result.unchecked:
            console.print(f"[yellow]![/] not checked: {escape(what)}")
        console.print(f"[bold]Verified as far as listed.[/] The claim: {escape(result.certificate['claim'])}")
    if as_json:
        keys = ("k", "bound", "method", "publish", "kind", "claim")
        print_json(
            {key: result.certificate[key] for key in keys}
            | {"checks": list(result.checks), "unchecked": list(result.unchecked), "exit_code": 0}
        )


@app.command(name="demo")
def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for the demonstration.")] = Path(
        "demo"
    ),
) -> None:
    """See it work: sample people, their new faces, a certificate that holds, and one that does not."""
    from ksame import demo  # late: it brings tables and charts

    with progress(False) as watch:
        demo.run(output, say=lambda text: console.print(text), watch=watch)


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
    table = Table(*(name for name in rows[0] if name != "sha256"), box=None)
    for row in rows:
        table.add_row(*(escape(value) for name, value in row.items() if name != "sha256"))
    Console(soft_wrap=False, highlight=False).print(table)


@models.command()
def fetch(names: Annotated[list[str], typer.Argument(help="Names from ksame models list.")]) -> None:
    """Fetch model files into the cache, verified."""
    for path in weights.fetch(names):
        console.print(f"[green]✓[/] {escape(str(path))}")


@models.command()
def add(name: str, file: Path) -> None:
    """Put a copy that you brought into the cache, if it is the right file."""
    console.print(f"[green]✓[/] {escape(str(weights.add(name, file)))}")


@model_app.command(name="train")
def train_model(
    inputs: Annotated[list[Path], typer.Argument(help="Photos, or folders of photos.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, .npz.")],
    jobs: Annotated[int | None, typer.Option(help="Photos at a time [one per core].")] = None,
    quiet: Quiet = False,
) -> None:
    """Train an appearance model on a folder of faces."""
    with progress(quiet) as watch:
        training = train(inputs, output, jobs=jobs, watch=watch)
    for failure in training.failures:
        console.print(f"[yellow]![/] {escape(failure.input)}: {escape(failure.reason)}")
    if not quiet:
        console.print(escape(str(training)))
        console.print(f"[green]✓[/] {escape(str(training.report))}")


@pool_app.callback()
def _pool() -> None:
    """People who do not exist, whose faces videos borrow."""


@pool_app.command(name="build")
def build_pool(
    output: Annotated[Path, typer.Option("--output", "-o", help="The pool file to write, .npz.")],
    size: Annotated[int, typer.Option(help="How many people.")] = 400,
    k: Annotated[int, typer.Option("-k", help="The most faces in a cluster of k-Diff-furthest.")] = 2,
    seed: Annotated[int | None, typer.Option(help="Repeat a run.")] = None,
    quiet: Quiet = False,
) -> None:
    """Make up people: drawn by the generator, checked, and de-identified once by k-Diff-furthest."""
    with progress(quiet) as watch:
        pool = build(size, k=k, seed=seed, watch=watch)
    pool.save(output)
    if not quiet:
        console.print(escape(pool.checked))
        console.print(f"[green]✓[/] {len(pool)} people who do not exist: {escape(str(output))}")


def _method_for(method: str | None, *, mixed: bool, videos: bool) -> str:
    """Return the method that is meant: videos are released by the identity shift."""
    if videos and method not in (None, "shift"):
        raise UsageError(f"{method} is for photos: leave out --method, and videos are released by shift.")
    if mixed and method is None:
        raise UsageError(
            "There are photos and videos in the inputs: give --method shift to release both together, without"
            " a promise, or release them apart, each with its claim."
        )
    return method or ("shift" if videos else "ksame-m")


def _check_apart(inputs: list[Path], out: Path, secret: Path) -> None:
    """Refuse to write among the inputs, or over them."""
    for path in inputs:
        real = Path(os.path.realpath(path))  # a link that leads to itself is for the reader to report
        for what, folder in (("release", out), ("private folder", secret)):
            if real == folder or real in folder.parents:
                raise UsageError(
                    f"The {what} {folder} would lie inside the input {path}: name a folder elsewhere."
                )
            if folder in real.parents:
                raise UsageError(
                    f"The input {path} lies inside the {what} {folder}: name a folder elsewhere."
                )


def _summary(release: Release, certificate: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
    """Return the figures of a run; what only the written files tell is there if they were written."""
    mapping, failures = release.private.mapping, release.private.failures
    named = [*{row.input for row in mapping}, *(failure.input for failure in failures)]
    of_videos = ("pictures", "faces_drawn", "faces_covered", "kept_people", "audio")
    return {
        "method": release.method,
        "publish": release.publish,
        "k": release.k,
        "bound": release.guarantee.bound,
        "kind": release.guarantee.kind,
        "claim": str(release.guarantee),
        "photos": sum(Path(name).suffix.lower() not in VIDEOS for name in named),
        "videos": len(release.clips),
        **{name: release.details[name] for name in of_videos if release.clips},
        "people": len({row.subject for row in mapping}),
        "published": len(release.files) + len(release.clips),
        "faces": len(mapping),
        "distinct": len({row.group for row in mapping}),
        "unusable_faces": release.details["unusable_faces"],
        "untouched_faces": certificate["untouched_faces"] if certificate else None,
        "failures": [failure._asdict() for failure in failures],
        "seconds": round(seconds, 1),
        **({"pictures_per_second": round(release.details["pictures"] / seconds, 1)} if release.clips else {}),
    }


def _tell_failures(failures: Sequence[Mapping[str, str]]) -> None:
    """Name each input that was lost, or a part of it; it is an error, so --quiet does not hide it."""
    for failure in failures:
        console.print(f"[yellow]![/] {escape(failure['input'])}: {escape(failure['reason'])}")


def _tell_untouched(untouched: Sequence[Untouched], secret: Path, most: int = 10) -> None:
    """Say where faces were left, file by file; it is an error, so --quiet does not hide it."""
    if not untouched:
        return
    console.print(f"[bold red]A second detector sees {len(untouched)} untouched faces.[/]")
    for output, some in groupby(untouched, key=lambda one: one.output):
        runs = [escape(run) for run in _runs(list(some))]
        more = f" and {len(runs) - most} more" if len(runs) > most else ""
        where = f": in picture {', '.join(runs[:most])}{more}" if runs else ""
        console.print(f"[red]![/] {escape(output)}{where}")
    console.print(
        f"Each with its box: {escape(str(secret / 'untouched.csv'))}; look at them before you publish."
    )


def _runs(untouched: Sequence[Untouched]) -> Iterator[str]:
    """Yield the pictures of a video in words, those that follow each other as one."""
    frames = {one.frame: one.seconds for one in untouched if one.frame is not None}
    for _, part in groupby(enumerate(sorted(frames)), key=lambda pair: pair[1] - pair[0]):
        run = [frame for _, frame in part]
        if len(run) == 1:
            yield f"{run[0]} ({frames[run[0]]:.2f} s)"
        else:
            yield f"{run[0]} to {run[-1]} ({frames[run[0]]:.2f} to {frames[run[-1]]:.2f} s)"


def _tell(release: Release, figures: Mapping[str, Any], notes: Sequence[str], out: Path | None) -> None:
    """Say in words what was done."""
    if release.details.get("subjects") == "auto":
        _tell_people(release)
    if figures["photos"]:
        photos = [row for row in release.private.mapping if row.output not in release.clips]
        console.print(
            f"{len({row.subject for row in photos})} people in {figures['photos']} photos: {len(photos)}"
            f" faces replaced by {len({row.group for row in photos})} new ones, {len(release.files)} files."
        )
    if figures["videos"]:
        _tell_videos(release, figures, done=out is not None)
    if unusable := figures["unusable_faces"]:
        done = "covered" if figures["publish"] == "scene" else "left out"
        console.print(f"[yellow]![/] {unusable} faces were too small, too turned or too unclear: {done}.")
    for note in notes or release.private.settings.get("notes", ()):
        console.print(f"[yellow]![/] {escape(note)}")
    console.print(f"[bold]{escape(figures['claim'])}[/]")
    if 1 > figures["bound"] > 1 / figures["k"] + 1e-9:
        console.print(
            f"The bound is above 1/k = {1 / figures['k']:.3g}: some people have more photos than others."
        )
    console.print(f"[green]✓[/] written and verified: {out}" if out else "Dry run: nothing was written.")


def _tell_videos(release: Release, figures: Mapping[str, Any], *, done: bool) -> None:
    """Say in words what was done to videos, or in a dry run would be."""
    rows = [row for row in release.private.mapping if row.output in release.clips]
    were = "were" if done else "would be"
    sound = {"keep": "kept", "drop": "left out", "disguise": "changed in pitch"}[figures["audio"]]
    console.print(
        f"{len({row.subject for row in rows})} people in {figures['videos']} videos of {figures['pictures']}"
        f" pictures: faces {were} drawn {figures['faces_drawn']} times and covered"
        f" {figures['faces_covered']} times; sound {sound}."
    )
    if kept := figures["kept_people"]:
        console.print(f"[yellow]![/] {kept} of them stay visible, as asked.")
    console.print(f"{figures['seconds']:.0f} s in all, {figures['pictures_per_second']} pictures a second.")


def _tell_people(release: Release, most: int = 20) -> None:
    """Show who was taken for one person, those with the most photos first."""
    mapping = [row for row in release.private.mapping if row.output not in release.clips]
    ranked = people.table([row.subject for row in mapping], [row.input for row in mapping], first=4)
    table = Table("person", "photos", "which", box=None)
    for who in ranked[:most]:
        more = f" and {who.photos - 4} more" if who.photos > 4 else ""
        table.add_row(who.subject, str(who.photos), escape(", ".join(who.names) + more))
    console.print("Taken for one person each (if that is wrong, name them in a csv: --subjects FILE.csv):")
    console.print(table)
    if len(ranked) > most:
        counts = Counter(who.photos for who in ranked[most:])
        rest = ", ".join(f"{number} with {photos}" for photos, number in sorted(counts.items(), reverse=True))
        console.print(f"and {len(ranked) - most} more people: {rest} photos each.")
