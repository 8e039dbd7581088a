"""Photos as inputs of a run: found, analysed, identified, and published as portraits or scenes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ksame.analysis.identify import IdentifiedPhotos, identify_faces, read_subject_hints
from ksame.analysis.photos import analyse_photos
from ksame.analysis.strata import check_label
from ksame.core.context import Context
from ksame.core.options import Options, option
from ksame.core.partition_type import check_law
from ksame.io.sources import Source
from ksame.methods.base import Method, Plan
from ksame.pipeline.outputs import Output, PublishedFiles
from ksame.release import MappingRow, Private, Release

__all__ = ["Photos"]


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
        if guarantee.k_anonymous and output.publish == "portrait":
            _check_portraits(published, people, method)
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


def _check_portraits(published: PublishedFiles, people: IdentifiedPhotos, method: Method[Any]) -> None:
    """Raise unless the law holds on the bytes that are published."""
    hashes = [hashlib.sha256(published.files[name]).hexdigest() for name in published.names]
    several = getattr(method, "expression", "drop") == "keep"  # a neutral and a smiling face of one group
    check_law(hashes, people.subject, method.k, allow_several=several)
