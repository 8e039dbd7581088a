"""The commands that make and check releases."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ksame.cli.model_commands import model_app, models, pool_app
from ksame.cli.shell import Json, Quiet, app, confirm, print_json, progress, say, warn
from ksame.cli.summary import print_failures, print_residual_faces, print_summary, summary
from ksame.core.checkpoint import Checkpoint
from ksame.core.errors import KSameError, UsageError
from ksame.io import find_photos, find_videos
from ksame.methods.anonfaces.group import EMBEDDINGS
from ksame.methods.ksame import METHODS
from ksame.methods.obscure import METHODS as AD_HOC
from ksame.partition import METHODS as PARTITIONS
from ksame.pipeline.adhoc import obscure_photos
from ksame.pipeline.openset import merge_releases, shift_photos
from ksame.pipeline.photos import deidentify
from ksame.pipeline.videos import deidentify_video
from ksame.release import (
    CERTIFICATE,
    as_written,
    check_folders,
    clear_unfinished,
    read_private,
    read_residual_faces,
    verify,
)
from ksame.render.blend import Composite
from ksame.render.scene import ScenePolicy

app.add_typer(models, name="models", invoke_without_command=True)
app.add_typer(model_app, name="model")
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
    model: Annotated[
        str,
        typer.Option(help="The appearance model: shipped, own, or a file; anonfaces: a generator's map."),
    ] = "shipped",
    generator: Annotated[
        str,
        typer.Option(help="For anonfaces: shipped, or a folder with a mapping and a synthesis."),
    ] = "shipped",
    embedding: Annotated[
        str, typer.Option(help=f"For anonfaces, what people are grouped by: {', '.join(EMBEDDINGS)}.")
    ] = "mobilefacenet",
    plain: Annotated[bool, typer.Option("--plain", help="For anonfaces: ask for a plain ground.")] = False,
    seed: Annotated[int | None, typer.Option(help="Repeat a run; keep it as secret as the mapping.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Photos at a time [one per core].")] = None,
    engine: Annotated[str, typer.Option(help="The joblib backend: threading, loky, dask.")] = "threading",
    accept_no_guarantee: Annotated[
        bool, typer.Option("--accept-no-guarantee", help=f"Allow {', '.join(AD_HOC)}.")
    ] = False,
    search: Annotated[
        Literal["fast", "full"] | None,
        typer.Option(help="Scenes: how thoroughly photos are searched for faces [full].", show_default=False),
    ] = None,
    faceless: Annotated[
        Literal["publish", "skip"] | None,
        typer.Option(help="Scenes: photos in which no face is found [skip].", show_default=False),
    ] = None,
    allow_residual: Annotated[
        bool,
        typer.Option(
            "--allow-residual", help="Scenes: write photos although a face is still seen after covering."
        ),
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
        str,
        typer.Option(
            help="People who do not exist: shipped (no commercial use), parametric, or a file by pool build."
        ),
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
    photos, videos = find_photos(inputs), find_videos(inputs)
    method = _resolve_method(method, mixed=bool(photos and videos), videos=bool(videos))
    publish = publish or ("scene" if videos else "portrait")
    if videos and publish == "portrait":
        raise UsageError("Videos, and photos beside them, are published as scenes: leave out --publish.")
    if method in AD_HOC and not accept_no_guarantee:
        raise UsageError(
            f"{method} guarantees nothing: give --accept-no-guarantee too, or leave out --method."
        )
    policy = _scene_policy(search, faceless, allow_residual, scenes=publish == "scene" or method in AD_HOC)
    if resume and not overwrite and (output / CERTIFICATE).is_file():
        raise UsageError(f"There is nothing to resume: {output} is finished.")
    out, secret = check_folders(output, private, overwrite=overwrite or dry_run)
    _check_output_apart(inputs, out, secret)
    journal, certificate, untouched, notes = None, None, [], []
    if not dry_run:
        clear_unfinished(out, secret)
        fresh = secrets.randbits(256) if seed is None else seed
        journal = Checkpoint.open(secret / "journal.jsonl", seed=fresh, resume=resume)
    try:
        with progress(quiet) as watch:
            common: dict[str, Any] = {"seed": seed, "jobs": jobs, "engine": engine}
            common |= {"checkpoint": journal, "progress": watch}
            if method == "shift":
                parts = []
                own: dict[str, Any] = {"texture": texture, "pool": pool}
                if photos or not videos:
                    parts.append(
                        shift_photos(
                            inputs,
                            publish=publish,
                            subjects=subjects,
                            names=names,
                            scenes=policy,
                            **own,
                            **common,
                        )
                    )
                if videos:
                    del common["engine"]
                    how: dict[str, Any] = {
                        "audio": audio,
                        "quality": quality,
                        "keep": keep or (),
                        "corrected": tracks,
                    }
                    parts.append(deidentify_video(inputs, names=names or "keep", **how, **own, **common))
                release = merge_releases(*parts) if len(parts) == 2 else parts[0]
            elif method in AD_HOC:
                release = obscure_photos(
                    inputs,
                    method,
                    grey=grey,
                    strength=strength,
                    names=names or "keep",
                    scenes=policy,
                    **common,
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
                    scenes=policy,
                    generator=generator,
                    embedding=embedding,
                    plain=plain,
                    model=model,
                    **common,
                )
            if not dry_run:
                release.save(out, private=secret, overwrite=overwrite)
        if not dry_run:
            certificate = verify(out, private=secret).certificate
            release = as_written(release, certificate, secret)
            untouched, notes = read_residual_faces(secret), read_private(secret)[1].get("notes", [])
    except KSameError as error:
        # What was found is kept where trying again makes sense: on a full disk, or when going on.
        if journal and not resume and error.exit_code != 1:
            journal.remove()
        raise
    if journal:
        journal.remove()
    figures = summary(release, certificate, time.monotonic() - began)
    code = 5 if figures["untouched_faces"] or figures["withheld_files"] else 4 if figures["failures"] else 0
    print_failures(figures["failures"])
    if not quiet:
        print_summary(release, figures, notes, None if dry_run else out)
    print_residual_faces(untouched, secret)
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
            confirm(check)
        for what in result.unchecked:
            warn(f"not checked: {what}")
        say(("Verified as far as listed.", "bold"), f" The claim: {result.certificate['claim']}")
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
    from ksame.cli import demo  # late: it brings tables and charts

    with progress(False) as watch:
        demo.run(output, say=say, progress=watch)


def _resolve_method(method: str | None, *, mixed: bool, videos: bool) -> str:
    """Return the method that is meant: videos are released by the identity shift."""
    if videos and method not in (None, "shift"):
        raise UsageError(f"{method} is for photos: leave out --method, and videos are released by shift.")
    if mixed and method is None:
        raise UsageError(
            "There are photos and videos in the inputs: give --method shift to release both together, without"
            " a promise, or release them apart, each with its claim."
        )
    return method or ("shift" if videos else "ksame-m")


def _scene_policy(
    search: Literal["fast", "full"] | None,
    faceless: Literal["publish", "skip"] | None,
    allow_residual: bool,
    *,
    scenes: bool,
) -> ScenePolicy:
    """Return how scenes are made, or say that portraits have nothing of the kind."""
    if not scenes and (search or faceless or allow_residual):
        raise UsageError(
            "--search, --faceless and --allow-residual are for scenes; portraits show nothing of the photo:"
            " leave them out, or give --publish scene."
        )
    return ScenePolicy(search or "full", faceless or "skip", allow_residual)


def _check_output_apart(inputs: list[Path], out: Path, secret: Path) -> None:
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
