"""The one driver: from photos and videos to a release, in five stages.

``run`` analyses the sources, identifies the people, has the method plan, and returns a release, which renders
its files when it is written and certified. The command line, ``ksame.deidentify``, ``tune`` and the audit's
parrot attack all come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ksame.core.arrays import ProgressCallback
from ksame.core.context import Context, ignore_progress
from ksame.core.errors import UsageError
from ksame.core.guarantee import Guarantee
from ksame.core.options import Options, route_options
from ksame.io.sources import ImageInput, find_inputs
from ksame.methods import METHODS, Method
from ksame.methods.base import GroupMethod
from ksame.models import weights
from ksame.models.recognisers import VERIFIERS
from ksame.pipeline.photos import OUTPUTS, Output, Photos
from ksame.pipeline.videos import Videos
from ksame.release import Private, Release

__all__ = [
    "Medium",
    "default_method",
    "deidentify",
    "find_media",
    "find_method",
    "prepare",
    "release_of",
    "route",
    "run",
]

Medium = Photos | Videos
ONE_RELEASE_ASSUMPTION = "no other release made from photos of these people is compared with this one"
NAMES_KEPT_ASSUMPTION = "file names were kept and are outside this guarantee"
SEPARATE_IDENTITIES_ASSUMPTION = (
    "people were told apart among the photos and among the videos, not between them: one person may have two"
    " new faces, and two people may share one"
)


def run(media: Sequence[Medium], method: Method[Any], output: Output, context: Context) -> Release:
    """Return the release of some photos, videos, or both.

    Parameters
    ----------
    media : sequence of Photos or Videos
        The inputs, each with its options.
    method : Method
        How faces are replaced; its fields are its options.
    output : Portraits or Scenes
        What is published.
    context : Context
        What all stages share.
    """
    _check(media, method, output)
    context = prepare(method, output, context)
    parts = []
    for medium in media:
        people = medium.identify(method, output, context)
        plan = medium.plan(people, method, context)  # type: ignore[arg-type]  # each its own people
        parts.append(release_of(medium, people, plan, method, output, context))
    return parts[0] if len(parts) == 1 else _merge(*parts)


def prepare(method: Method[Any], output: Output, context: Context) -> Context:
    """Return the context with the verifiers named, after fetching every network that the run will need."""
    context = replace(context, verifiers=context.verifiers or VERIFIERS.identity)
    weights.fetch([*output.detectors, *method.networks(context)])
    context.progress("preparing", 1, 1)
    return context


def release_of(
    medium: Medium, people: Any, plan: Any, method: Method[Any], output: Output, context: Context
) -> Release:
    """Return the release of one medium, its claim lowered to what publishing leaves true."""
    release = medium.release(people, plan, method, output, context)
    guarantee = release.guarantee
    if isinstance(method, GroupMethod):  # what kept expressions leave of its claim rests on them too
        guarantee = guarantee.lower(because=ONE_RELEASE_ASSUMPTION)
        if output.names == "keep":
            guarantee = guarantee.lower(because=NAMES_KEPT_ASSUMPTION)
    if output.publish == "scene" and method.scene_assumption is not None and medium.medium == "photos":
        guarantee = guarantee.lower(scope="code", because=method.scene_assumption)
    return replace(
        release,
        guarantee=guarantee,
        verifiers=context.verifiers if method.uses_verifiers else (),
        private=replace(
            release.private,
            settings={**release.private.settings, "seed": context.seed},
        ),
    )


def deidentify(
    inputs: ImageInput | Iterable[ImageInput],
    k: int | None = None,
    *,
    method: str | Method[Any] = "ksame-m",
    publish: str | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    engine: str = "threads",
    verifiers: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    **options: Any,
) -> Release:
    """Replace every face in photos and videos, and return the release with the claim that is true of it.

    Parameters
    ----------
    inputs : path, array, or several
        Photos, videos, folders, or (h, w, 3) uint8 arrays.
    k : int, optional
        People behind every published face, by default 5; for methods that group people.
    method : str or Method
        A name of ``ksame.methods.METHODS``, or one of its classes with options:
        ``ksame.methods.KSame(k=10, partition="kmeans")``.
    publish : str, optional
        ``portrait``: the new face alone. ``scene``: the photo or video with the new face in it.
    seed : int, optional
        For tests and repeated runs; keep it as secret as the mapping.
    jobs, engine, verifiers, progress
        See ``ksame.core.context.Context``.
    **options
        Options of the method, the output and the inputs, as on the command line: ``subjects``, ``names``,
        ``partition``, ``select``, ``search``, ``audio`` ...

    Examples
    --------
    ::

        release = ksame.deidentify("photos/", k=5)
        print(release.guarantee)
        release.save("out/")
    """
    given = [inputs] if isinstance(inputs, str | Path | np.ndarray) else list(inputs)
    chosen = find_method(method) if isinstance(method, str) else method
    if k is not None:
        options["k"] = k
    in_order = not isinstance(options.get("subjects", "auto"), str | Path)
    media = find_media(given, in_order=in_order)
    routed = route(media, chosen, publish, options)
    fixed: dict[str, Any] = {} if seed is None else {"seed": seed}
    context = Context(
        jobs=jobs, engine=engine, verifiers=tuple(verifiers), progress=progress or ignore_progress, **fixed
    )
    return run(*routed, context)


def route(
    media: Sequence[Medium], method: Method[Any], publish: str | None, options: dict[str, Any]
) -> tuple[list[Medium], Method[Any], Output]:
    """Return inputs, method and output with their options; refuse one that none of them owns."""
    output = find_output(method, publish, media)
    by_medium = {medium.medium: medium for medium in media}
    owners: dict[str, Options] = {"method": method, "output": output, **by_medium}
    chosen = f"{method.name} for {' and '.join(by_medium)}, published as {output.publish},"
    done: dict[str, Any] = route_options(options, owners, {f"{output.publish}s", *by_medium}, chosen)
    method, output = done.pop("method"), done.pop("output")
    return list(done.values()), method, output


def find_method(name: str) -> Method[Any]:
    """Return the method of a name, with its default options."""
    if name not in METHODS:
        raise UsageError(f"There is no method {name!r}: choose one of {', '.join(METHODS)}.")
    return METHODS[name]


def default_method(media: Sequence[Medium]) -> Method[Any]:
    """Return the method for what is not told: it must be one for photos, or one for videos."""
    kinds = {medium.medium for medium in media}
    if len(kinds) == 2:
        raise UsageError(
            "There are photos and videos in the inputs: give --method shift to release both together, without"
            " a promise, or release them apart, each with its claim."
        )
    return METHODS["shift" if "videos" in kinds else "ksame-m"]


def find_output(method: Method[Any], publish: str | None, media: Sequence[Medium]) -> Output:
    """Return what is published: what is asked for, or the method's first output; scenes beside videos."""
    videos = any(medium.medium == "videos" for medium in media)
    if publish is None:
        publish = "scene" if videos else method.outputs[0]
    for medium in media:
        if medium.medium not in method.media:
            able = ", ".join(name for name, one in METHODS.items() if medium.medium in one.media)
            raise UsageError(f"{method.name} does not work on {medium.medium}: choose {able}.")
    if publish not in OUTPUTS:
        raise UsageError(f"There is no output {publish!r}: choose one of {', '.join(OUTPUTS)}.")
    if publish not in method.outputs:
        raise UsageError(f"{method.name} publishes {' or '.join(method.outputs)} only, not {publish}.")
    if videos and publish == "portrait":
        raise UsageError("Videos, and photos beside them, are published as scenes: leave out --publish.")
    return OUTPUTS[publish]()


def find_media(inputs: Sequence[ImageInput], *, in_order: bool = False) -> list[Medium]:
    """Return the photos and the videos among files, folders and arrays."""
    photos, videos = find_inputs(inputs, in_order=in_order)
    if not photos and not videos:
        raise UsageError(
            "There are no photos or videos among the inputs: give image or video files, or folders that"
            " contain some."
        )
    media: list[Medium] = [Photos(sources=tuple(photos))] if photos else []
    return [*media, Videos(files=tuple(videos))] if videos else media


def _check(media: Sequence[Medium], method: Method[Any], output: Output) -> None:
    """Refuse what does not fit together, or would have no effect."""
    find_output(method, output.publish, media)
    made = {f"{output.publish}s", *(medium.medium for medium in media)}
    for options in (method, output, *media):
        options.check(made)
    for medium in media:
        if isinstance(medium, Photos) and medium.subjects != "auto" and not method.uses_subjects:
            raise UsageError(f"{method.name} does not ask who is the same person: leave out --subjects.")


def _merge(photos: Release, videos: Release) -> Release:
    """Return one release of photos and videos, whose people nobody compared."""
    first = 1 + max((row.group for row in photos.private.mapping), default=-1)
    rows = (
        row._replace(subject=f"video {row.subject}", group=first + row.group)
        for row in videos.private.mapping
    )
    one, other = photos.details, videos.details
    both = {name: one[name] + other[name] for name in ("people", "covered_people", "unusable_faces")}
    assumptions = (
        *photos.guarantee.assumptions,
        *videos.guarantee.assumptions,
        SEPARATE_IDENTITIES_ASSUMPTION,
    )
    return replace(
        photos,
        clips=videos.clips,
        guarantee=Guarantee("none", assumptions=tuple(dict.fromkeys(assumptions))),
        networks=tuple(dict.fromkeys((*photos.networks, *videos.networks))),
        details={**one, **other, **both},
        private=Private(
            (*photos.private.mapping, *rows),
            {**photos.private.settings, **videos.private.settings},
            photos.private.failures + videos.private.failures,
            videos.private.attachments,
            photos.private.faceless,
        ),
    )
