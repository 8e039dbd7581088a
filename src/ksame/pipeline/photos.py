"""Photos as inputs of a run, analysed and identified, and as its outputs: portraits, or scenes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ksame import io
from ksame.analysis.identify import IdentifiedPhotos, identify_faces, read_subject_hints
from ksame.analysis.photos import analyse_photos
from ksame.analysis.search import Effort
from ksame.analysis.strata import check_label
from ksame.core.context import Context
from ksame.core.errors import Faceless, Failure
from ksame.core.options import Options, option
from ksame.core.partition_type import check_law
from ksame.io.sources import Source
from ksame.methods.base import Method, Plan, Publish
from ksame.models.detectors import residual
from ksame.release import MappingRow, Private, Release
from ksame.release.names import published_names
from ksame.render.base import PortraitRenderer, SceneRenderer
from ksame.render.scene import RenderedScenes, ScenePlan

__all__ = ["OUTPUTS", "Output", "Photos", "Portraits", "PublishedFiles", "Scenes"]


class PublishedFiles(NamedTuple):
    """Files, the file of each face, and what is said of them."""

    files: Mapping[str, bytes]
    names: Sequence[str]  # (n,)
    inspect: Callable[[str, bytes], int]  # counts the faces in a file that were not replaced
    failures: tuple[Failure, ...]
    faceless: tuple[Faceless, ...] = ()
    public: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class Portraits(Options):
    """Publish the new faces alone, one image per face."""

    publish: ClassVar[Publish] = "portrait"
    effort: ClassVar[Effort] = "fast"  # a portrait shows nothing of the photo
    detectors: ClassVar[tuple[str, ...]] = ("yunet", "mesh", "blazeface")

    names: Literal["random", "keep"] = option("random", "Published file names.")

    def files(self, people: IdentifiedPhotos, plan: Plan, context: Context) -> PublishedFiles:
        """Draw every surrogate once: what is not drawn twice cannot differ."""
        sources = people.faces.source.tolist()
        names = published_names(sources, names=self.names, seed=context.seed, suffix=".png")
        renderer = plan.renderer
        assert isinstance(renderer, PortraitRenderer)  # by the method's outputs
        drawn: dict[Hashable, bytes] = {}
        files: dict[str, bytes] = {}
        hashes: list[str] = []
        for face, name in enumerate(names):
            surrogate = renderer.surrogate(face)
            if surrogate not in drawn:
                drawn[surrogate] = io.encode_png(renderer.portrait(face))
            files[name] = drawn[surrogate]
            hashes.append(hashlib.sha256(files[name]).hexdigest())
        if plan.guarantee.k_anonymous:  # it must hold on the bytes that are published
            check_law(hashes, people.subject, plan.guarantee.k, allow_several=plan.allow_several)
        files = dict(sorted(files.items()))
        box = renderer.face_box

        def count_residual(name: str, data: bytes) -> int:
            return 0 if box is None else len(residual(io.decode(data), box))

        return PublishedFiles(files, names, count_residual, people.photos.failures, public={})


@dataclass(frozen=True, kw_only=True)
class Scenes(Options):
    """Publish the photos with the new faces in them."""

    publish: ClassVar[Publish] = "scene"
    detectors: ClassVar[tuple[str, ...]] = ("yunet", "mesh", "blazeface", "centerface")

    names: Literal["random", "keep"] = option("keep", "Published file names.")
    search: Effort = option("full", "How thoroughly photos are searched for faces.", only="photos")
    faceless: Literal["publish", "skip"] = option("skip", "Photos in which no face is found.", only="photos")
    allow_residual: bool = option(
        False, "Write photos although a face is still seen after it was covered.", only="photos"
    )

    @property
    def effort(self) -> Effort:
        """How thoroughly photos are searched."""
        return self.search

    def files(self, people: IdentifiedPhotos, plan: Plan, context: Context) -> PublishedFiles:
        """Plan the photos; each is rendered when it is written."""
        assert isinstance(plan.renderer, SceneRenderer)  # by the method's outputs
        found = people.photos
        used = set(found.photo.tolist())
        covered = {photo for photo, boxes in enumerate(found.unusable) if len(boxes)} - used
        empty = {photo for photo, readable in enumerate(found.readable) if readable} - used - covered
        without = sorted(covered | empty if self.faceless == "publish" else covered)
        published = sorted([*used, *without])
        names = published_names(
            [found.sources[photo].name for photo in published], names=self.names, seed=context.seed
        )
        scenes = {
            name: ScenePlan(found.sources[photo], np.flatnonzero(found.photo == photo), found.unusable[photo])
            for name, photo in sorted(zip(names, published, strict=True))
        }
        of = dict(zip(published, names, strict=True))
        faceless = tuple(
            Faceless(found.sources[photo].name, of[photo], len(found.unusable[photo])) for photo in without
        )
        done = {one.input for one in faceless}
        files = RenderedScenes(scenes, plan.renderer, context, self.allow_residual)
        return PublishedFiles(
            files,
            [of[photo] for photo in found.photo.tolist()],
            files.inspect,
            tuple(failure for failure in found.failures if failure.input not in done),
            faceless,
            {"search": self.search, "faceless_photos": len(faceless)},
        )


Output = Portraits | Scenes
OUTPUTS: dict[Publish, type[Portraits] | type[Scenes]] = {"portrait": Portraits, "scene": Scenes}


@dataclass(frozen=True, kw_only=True)
class Photos(Options):
    """The photos of a run, and who is on them."""

    medium: ClassVar[str] = "photos"

    sources: tuple[Source, ...] = ()
    subjects: str | Path | Sequence[str] = option(
        "auto", "Who is the same person: auto, folder, prefix (up to the first _), or a csv."
    )

    def identify(self, method: Method[Any], output: Output, context: Context) -> IdentifiedPhotos:
        """Find the faces of all photos and give each its subject."""
        analyse = partial(
            analyse_photos, self.sources, context, scale=method.registered_scale, effort=output.effort
        )
        if not method.uses_subjects:
            return IdentifiedPhotos.unlinked(analyse())
        hints = read_subject_hints(self.sources, self.subjects, method.k)
        if method.select is not None:
            check_label(method.select, hints.labels)
        return identify_faces(analyse(), hints, method.k, context)

    def plan(self, people: IdentifiedPhotos, method: Method[Any], context: Context) -> Plan:
        """Return the plan of the method."""
        return method.plan(people, context)

    def release(
        self, people: IdentifiedPhotos, plan: Plan, method: Method[Any], output: Output, context: Context
    ) -> Release:
        """Return the release that a plan makes of photos."""
        published = output.files(people, plan, context)
        guarantee, source = plan.guarantee, people.subject_source
        if source.assumption is not None:
            guarantee = guarantee.lower(because=source.assumption)
        networks = (*output.detectors, *source.recognisers, *plan.networks)
        return Release(
            files=published.files,
            inspect=published.inspect,
            guarantee=guarantee,
            method=method,
            publish=output.publish,
            networks=tuple(dict.fromkeys(networks)),
            details={
                **({"subjects": source.how} if method.uses_subjects else {}),
                "unusable_faces": sum(map(len, people.photos.unusable)),
                **published.public,
                **plan.public,
            },
            private=Private(
                mapping=tuple(
                    map(
                        MappingRow,
                        people.faces.source.tolist(),
                        people.subject.tolist(),
                        plan.identity.tolist(),
                        published.names,
                    )
                ),
                settings={
                    **({"subjects": source.how} if method.uses_subjects else {}),
                    "linked_loosely": list(source.loose),
                    "notes": list(plan.notes),
                    **output.settings(),
                    **plan.private,
                },
                failures=published.failures,
                faceless=published.faceless,
            ),
        )
