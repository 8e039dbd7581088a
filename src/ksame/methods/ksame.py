"""The k-Same family: group the codes of the faces, and replace every group's codes.

k-Same-M, k-Same-Pixel and k-Same-Eigen publish each group's mean [N fig. 10-11, G6 alg. 4.1];
k-Same-furthest publishes the mean of a group far away [S alg. 3], and k-Diff-furthest moves each face
towards such a group [S alg. 4].
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.analysis.strata import ATTRIBUTE_WEIGHTS, PREDICTED_LABELS, default_strata, select_label
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.errors import GuaranteeViolated
from ksame.core.faces import FaceSet, Space
from ksame.core.geometry import FRAME, PORTRAIT_FACE_XYXY
from ksame.core.guarantee import Guarantee, Kind
from ksame.core.options import option
from ksame.core.partition_type import check_law
from ksame.methods.base import GroupMethod, Plan, Publish
from ksame.partition import METHODS as PARTITIONS
from ksame.partition import make_strata, select
from ksame.render.base import ImageRenderer, PortraitRenderer
from ksame.render.blend import Composite
from ksame.render.mean_face import MeanFaceRenderer, draw_codes, draw_mean_faces, expression_deltas
from ksame.replace import centroid, furthest_pairs, kdiff
from ksame.spaces import AppearanceSpace, EigenSpace, PixelSpace
from ksame.spaces.appearance import landmarks_on_frame

__all__ = ["KDiffFurthest", "KSame", "KSameEigen", "KSameFurthest", "KSamePixel"]

EXPRESSION_KEPT_ASSUMPTION = (
    "k people share each new face, but their expressions are carried over, and may tell them apart"
)
DRAWN_ASSUMPTION = "the images are drawn from the codes, and lie near them"
SCENE_ASSUMPTION = (
    "faces are set into the original photos: hair, ears, skin colour, light and background are still there"
)
SPEED = "about 18 photos per second on 2 cores"


class Replacement(NamedTuple):
    """New codes, and of whom they are made."""

    identity: IntArray  # (n,): the new code of each face
    members: tuple[IntArray, ...]  # per identity the rows whose mean it is; none where it is no mean
    codes: FloatArray  # (n, d): the new codes
    guarantee: Guarantee


@dataclass(frozen=True, kw_only=True)
class CodeMethod(GroupMethod):
    """Encode the faces, stratify them, and replace the codes within each stratum."""

    speed: ClassVar[str] = SPEED
    people_per_stratum: ClassVar[int] = 0
    """In k: apparent gender and age are kept apart, fewer people merged with the nearest; 0: nobody is."""

    def plan(self, people: IdentifiedPhotos, context: Context) -> Plan:
        """Encode, stratify, replace."""
        space = self.space(people.faces)
        codes = space.encode(people.faces)
        strata: NDArray[Any] = np.zeros(len(codes), np.intp)
        notes: tuple[str, ...] = ()
        if self.select is not None:
            strata = select_label(people, self.select, context)
        elif self.people_per_stratum:
            strata, notes = default_strata(people, codes, self.people_per_stratum * self.k, context)
        replacement = self.replace(codes, people.subject, strata, context)
        if replacement.guarantee.k_anonymous:
            check_law(replacement.identity, people.subject, self.k)
        renderer, guarantee = self.renderer(space, people.faces, replacement)
        looked = self.select is None or self.select not in people.faces.labels
        return Plan(
            replacement.identity,
            renderer,
            guarantee,
            public={"model": space.digest} if isinstance(space, AppearanceSpace) else {},
            notes=notes,
            networks=self.networks(context) if looked else (),
        )

    def networks(self, context: Context) -> tuple[str, ...]:
        """Return what predicts the label to select by."""
        return ATTRIBUTE_WEIGHTS if self.select in PREDICTED_LABELS else ()

    @abstractmethod
    def space(self, faces: FaceSet) -> Space:
        """Return the space whose codes are replaced."""

    @abstractmethod
    def replace(
        self, codes: FloatArray, subjects: NDArray[Any], strata: NDArray[Any], context: Context
    ) -> Replacement:
        """Return the new codes."""

    def renderer(
        self, space: Space, faces: FaceSet, replacement: Replacement
    ) -> tuple[PortraitRenderer, Guarantee]:
        """Return what draws the new codes: here the space decodes them."""
        _, firsts = np.unique(replacement.identity, return_index=True)
        images = list(space.decode(replacement.codes[firsts]))
        box = PORTRAIT_FACE_XYXY * (images[0].shape[1] / FRAME.width)
        return ImageRenderer(images, replacement.identity, box), replacement.guarantee


@dataclass(frozen=True, kw_only=True)
class Centroid(CodeMethod):
    """Every member of a group gets the group's mean."""

    partition: str = option("mdav", "How groups are formed.", choices=PARTITIONS)

    def replace(
        self, codes: FloatArray, subjects: NDArray[Any], strata: NDArray[Any], context: Context
    ) -> Replacement:
        """Group the codes within each stratum, and return the means [N fig. 10]."""
        groups = select(
            codes, self.k, label=strata, partition=self.partition, subjects=subjects, rng=context.seed
        )
        new, guarantee = centroid(codes, groups)
        return Replacement(groups.labels, groups.groups, new, guarantee)


@dataclass(frozen=True, kw_only=True)
class KSamePixel(Centroid):
    """k-Same-Pixel [N fig. 10]: the mean of the group's registered pixels; ghosts where faces differ."""

    name: ClassVar[str] = "ksame-pixel"
    promise: ClassVar[str] = "k-anonymity of every byte of a portrait."
    outputs: ClassVar[tuple[Publish, ...]] = ("portrait",)
    registered_scale: ClassVar[float | None] = 1.0  # pixel vectors of large photos would not fit in memory

    def space(self, faces: FaceSet) -> Space:
        """Return the pixels themselves."""
        return PixelSpace.fit(faces)


@dataclass(frozen=True, kw_only=True)
class KSameEigen(Centroid):
    """k-Same-Eigen [N fig. 11]: the mean of the group's projections on eigenfaces; blurred."""

    name: ClassVar[str] = "ksame-eigen"
    promise: ClassVar[str] = "k-anonymity of every byte of a portrait."
    outputs: ClassVar[tuple[Publish, ...]] = ("portrait",)
    registered_scale: ClassVar[float | None] = 1.0

    def space(self, faces: FaceSet) -> Space:
        """Return the eigenfaces of these photos."""
        return EigenSpace.fit(faces)


@dataclass(frozen=True, kw_only=True)
class AppearanceMethod(CodeMethod):
    """Codes of the appearance model, drawn at the resolution of the photos."""

    scene_assumption: ClassVar[str | None] = SCENE_ASSUMPTION
    people_per_stratum: ClassVar[int] = 1
    expression: Literal["drop", "keep"] = option(
        "drop", "Carry each photo's expression to the new face [S 7.2]; lowers the claim."
    )
    composite: Composite = option("colour", "How a face is blended into a scene [S 6.2].", only="scenes")
    model: str | Path = option(
        "bundled",
        "The appearance model: bundled, own (of these photos), or a file.",
        or_path=("bundled", "own"),
    )

    def space(self, faces: FaceSet) -> AppearanceSpace:
        """Return the bundled model, one trained on these faces, or one from a file."""
        if self.model == "own":
            return AppearanceSpace.fit(faces)
        return AppearanceSpace.bundled() if self.model == "bundled" else AppearanceSpace.load(self.model)

    def networks(self, context: Context) -> tuple[str, ...]:
        """Return what predicts gender and age, which are kept apart by default."""
        return ATTRIBUTE_WEIGHTS if self.select is None or self.select in PREDICTED_LABELS else ()

    def renderer(
        self, space: Space, faces: FaceSet, replacement: Replacement
    ) -> tuple[PortraitRenderer, Guarantee]:
        """Return what draws the means, or the codes."""
        assert isinstance(space, AppearanceSpace)
        new, guarantee = replacement, replacement.guarantee
        drawn = (
            draw_mean_faces(space, faces, new.members) if new.members else draw_codes(space, faces, new.codes)
        )
        keep = self.expression == "keep"
        if keep:
            guarantee = guarantee.lower(kind="none", because=EXPRESSION_KEPT_ASSUMPTION)
        if guarantee.kind == "wrong-map":  # it was checked on the codes
            guarantee = guarantee.lower(scope="code", because=DRAWN_ASSUMPTION)
        deltas = expression_deltas(space, faces) if keep else None
        shapes = landmarks_on_frame(faces)
        return MeanFaceRenderer(
            space, drawn, new.identity, faces.points, shapes, self.composite, deltas
        ), guarantee


@dataclass(frozen=True, kw_only=True)
class KSame(AppearanceMethod, Centroid):
    """k-Same-M [G6 alg. 4.1]: every member gets the group's mean in the appearance model."""

    name: ClassVar[str] = "ksame-m"
    promise: ClassVar[str] = "k-anonymity of every byte of a portrait; in a scene of the face's code only."


@dataclass(frozen=True, kw_only=True)
class _Furthest(AppearanceMethod):
    """Pairs of clusters that are far from each other, formed within each stratum."""

    people_per_stratum: ClassVar[int] = 2

    def replace(
        self, codes: FloatArray, subjects: NDArray[Any], strata: NDArray[Any], context: Context
    ) -> Replacement:
        """Replace the codes of each stratum on its own."""
        rng = context.rng()
        strata, _ = make_strata(codes, self.k, label=strata, subjects=subjects)  # one each, enough people
        parts = [np.flatnonzero(strata == value) for value in np.unique(strata)]
        done = [self._replace_stratum(codes[rows], subjects[rows], rng) for rows in parts]
        return _merge_strata(parts, done, codes, subjects)

    @abstractmethod
    def _replace_stratum(
        self, codes: FloatArray, subjects: NDArray[Any], rng: np.random.Generator
    ) -> Replacement:
        """Replace the codes of one stratum."""


@dataclass(frozen=True, kw_only=True)
class KSameFurthest(_Furthest):
    """k-Same-furthest [S alg. 3]: every member gets the mean of a cluster far away."""

    name: ClassVar[str] = "ksame-furthest"
    promise: ClassVar[str] = (
        "k-anonymity of every byte of a portrait, and wrong-map of the codes; in a scene of the codes only."
    )

    def _replace_stratum(
        self, codes: FloatArray, subjects: NDArray[Any], rng: np.random.Generator
    ) -> Replacement:
        pairs = furthest_pairs(codes, self.k, subjects=subjects, rng=rng)
        return Replacement(pairs.partition.labels, pairs.members, pairs.codes, pairs.guarantee)


@dataclass(frozen=True, kw_only=True)
class KDiffFurthest(_Furthest):
    """k-Diff-furthest [S alg. 4]: each face moves towards a cluster far away, and stays one of its own."""

    name: ClassVar[str] = "kdiff-furthest"
    promise: ClassVar[str] = "wrong-map of the codes; no k-anonymity."

    def _replace_stratum(
        self, codes: FloatArray, subjects: NDArray[Any], rng: np.random.Generator
    ) -> Replacement:
        new, guarantee = kdiff(codes, self.k, subjects=subjects, rng=rng)
        return Replacement(np.arange(len(codes)), (), new, guarantee)


def _merge_strata(
    parts: list[IntArray], done: list[Replacement], codes: FloatArray, subjects: NDArray[Any]
) -> Replacement:
    """Put the replacements of all strata together, with the weakest claim that is true of the whole."""
    identity, new = np.zeros(len(codes), np.intp), np.empty_like(codes)
    members: list[IntArray] = []
    count = 0
    for rows, one in zip(parts, done, strict=True):
        identity[rows], new[rows] = one.identity + count, one.codes
        members += [rows[group] for group in one.members]
        count += int(one.identity.max()) + 1
    guarantee = done[0].guarantee
    for one in done[1:]:
        guarantee = guarantee.meet(one.guarantee)
    if guarantee.wrong_map and len(done) > 1:  # it was checked within each stratum only
        try:
            Guarantee("wrong-map").verify(new, subjects=subjects, originals=codes)
        except GuaranteeViolated:
            kind: Kind = "k-anonymity" if guarantee.k_anonymous else "none"
            guarantee = guarantee.lower(kind=kind, because="wrong-map holds within each stratum only")
    return Replacement(identity, tuple(members), new, guarantee)
