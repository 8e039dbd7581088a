"""The open set: each person gets a synthetic identity of their own, in photos and videos [S 7].

It needs no k people and claims no k-anonymity.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.context import Context
from ksame.core.errors import UsageError
from ksame.core.faces import FaceView
from ksame.core.guarantee import Guarantee
from ksame.core.options import option
from ksame.methods.base import Method, Plan
from ksame.methods.shift.choose import choose_identities
from ksame.methods.shift.pool import Pool
from ksame.render.overlay.face_overlay import FaceOverlay, Texture
from ksame.render.overlay.renderer import OverlayRenderer
from ksame.spaces import AppearanceSpace

__all__ = ["VIEWS_PER_PERSON", "Shift"]

VIEWS_PER_PERSON = 16  # on which a candidate for the new face is judged
POOL_ASSUMPTION = (
    "the new face is one of a pool of synthetic identities, with the expression, part of the shape, the"
    " height of the brows, the light, the skin colour, the colours between the lips and coarse shades of the"
    " old one; that recognisers do not match it to the old one is measured, not promised"
)
PIXEL_TEXTURE_ASSUMPTION = "old pixels were changed, not replaced: moles, scars and wrinkles are still there"
PARAMETRIC_POOL_HINT = "--pool parametric takes faces that are free of that, and look less real."
NETWORKS = ("landmarker", "gender", "age")  # lids, brows and lips; and whose face is like theirs


class ViewedPeople(Protocol):
    """People in photos or videos, of whom views can be had."""

    @property
    def subject(self) -> NDArray[np.str_]:
        """The person of each face or track (n,)."""

    def views(self, max_count: int) -> dict[str, list[FaceView]]:
        """Return up to so many views of each person who is replaced."""


@dataclass(frozen=True, kw_only=True)
class Shift(Method[ViewedPeople]):
    """One synthetic identity per person, which verifiers match neither to the original nor to anyone else."""

    name: ClassVar[str] = "shift"
    promise: ClassVar[str] = "nothing: that recognisers do not match the new face to the old is measured."
    speed: ClassVar[str] = "videos about 26 to 50 fps at 720p on 2 cores"
    licence: ClassVar[str] = "not for commercial use (the bundled pool; --pool parametric is free)"
    media: ClassVar[tuple[str, ...]] = ("photos", "videos")
    registered_scale: ClassVar[float | None] = 0.5  # the photos themselves are drawn on
    scene_assumption: ClassVar[str | None] = "hair, ears, body and place are still there"
    uses_verifiers: ClassVar[bool] = True

    texture: Texture = option(
        "code", "pixel keeps wrinkles and gaze, and more of who it is [S 7.7].", only="scenes"
    )
    pool: str | Path = option(
        "bundled",
        "The synthetic identities: bundled (not for commercial use), parametric, or a file by pool build.",
        or_path=("bundled", "parametric"),
    )

    def networks(self, context: Context) -> tuple[str, ...]:
        """Return what reads expressions, gender and age, and the verifiers."""
        return (*NETWORKS, *context.verifiers)

    def plan(self, people: ViewedPeople, context: Context) -> Plan:
        """Choose a synthetic identity for every person; who gets none is covered."""
        model, pool = AppearanceSpace.bundled(), self.load_pool()
        persons = list(dict.fromkeys(people.subject.tolist()))
        if len(persons) > len(pool):
            raise UsageError(f"The pool has {len(pool)} faces for {len(persons)} people: build a larger one.")
        overlays: dict[str, FaceOverlay | None] = dict.fromkeys(sorted(persons))
        views = people.views(VIEWS_PER_PERSON)
        known = sorted(views)
        context.progress("choosing new faces", 0, len(known))
        chosen = (
            choose_identities(
                model,
                [views[person] for person in known],
                pool,
                recognisers=context.verifiers,
                texture=self.texture,
                rng=context.rng(),
            )
            if known
            else []
        )
        context.progress("choosing new faces", len(known), len(known))
        overlays |= zip(known, chosen, strict=True)
        order = {person: number for number, person in enumerate(overlays)}
        identity = np.array([order[person] for person in people.subject.tolist()], np.intp)
        photos = people if isinstance(people, IdentifiedPhotos) else None
        assumption = POOL_ASSUMPTION if self.texture == "code" else PIXEL_TEXTURE_ASSUMPTION
        return Plan(
            identity,
            OverlayRenderer(tuple(overlays.values()), identity, self.texture, photos),
            Guarantee("none", assumptions=(assumption,)),
            public={
                "people": len(overlays),
                "covered_people": sum(overlay is None for overlay in overlays.values()),
                "pool_digest": pool.digest,
                "non_commercial": bool(pool.licence),
                "model": model.digest,
            },
            notes=(f"{pool.licence} {PARAMETRIC_POOL_HINT}",) if pool.licence else (),
            networks=self.networks(context),
        )

    def load_pool(self) -> Pool:
        """Return the synthetic identities: bundled portraits by a generator, parametric ones, or a file's."""
        if self.pool in ("bundled", "parametric"):
            return Pool.bundled(codes=self.pool == "parametric")
        return Pool.load(self.pool)
