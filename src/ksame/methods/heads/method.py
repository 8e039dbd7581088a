"""k-anonymous heads: people in groups, one synthetic head per group, set into the photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.errors import CannotGuarantee
from ksame.core.guarantee import Guarantee
from ksame.core.options import option
from ksame.core.partition_type import Partition, check_law
from ksame.methods.anonfaces.measure import LightChange, change_light
from ksame.methods.anonfaces.method import (
    NON_COMMERCIAL,
    RANDOM_WEIGHT_SHARE,
    FaceFeatures,
    PortraitMethod,
)
from ksame.methods.anonfaces.portraits import draw_portraits
from ksame.methods.base import Plan, Publish
from ksame.methods.heads.portraits import choose_portraits, cut_flaw, largest_face_points
from ksame.methods.heads.regions import FaceMasks, group_placements, hair_extent, read_masks
from ksame.methods.heads.renderer import HeadRenderer
from ksame.models import runtime
from ksame.models.generator import ImageGenerator
from ksame.models.segmentation import SEGMENTATION_WEIGHTS
from ksame.render.head.canvas import place_head
from ksame.render.head.cutout import Head, cut_head
from ksame.render.head.region import group_region
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace

__all__ = ["Heads"]

POSE_BIN_PX = 20.0  # canonical px of nose shift from one pose bin to the next
POSE_BINS_MAX = 2  # bins on either side of the frontal one; further turned heads are covered
PLACEMENT_ASSUMPTIONS = {
    "exact": "position, size, tilt and pose bin of each head are the person's own, and are outside this"
    " guarantee",
    "group": "position and pose bin of each head are the person's own, and are outside this guarantee; size"
    " and tilt are those of its group",
}
EXPERIMENTAL = (
    "Heads are experimental: seams at necks and collars are common, so look at every photo before you publish"
    " it."
)
SURROUNDINGS_ASSUMPTION = "neck, clothes, the place and the time of a photo do not tell who is on it"


class GroupPortraits(NamedTuple):
    """The portraits of groups, and how to draw one of them again in another pose."""

    images: Sequence[NDArray[np.uint8]]
    codes: FloatArray | None = None  # (g, d); None: a folder's
    lights: Sequence[LightChange] = ()
    at_risk: int = 0  # faces that a recogniser takes for their group's portrait


@dataclass(frozen=True, kw_only=True)
class Heads(PortraitMethod):
    """Replace whole heads: one synthetic head per group, set into a region that is the same for all of it."""

    name: ClassVar[str] = "heads"
    promise: ClassVar[str] = (
        "k-anonymity of the whole head in a scene: hair, ears and jaw too. Experimental: seams at necks."
    )
    speed: ClassVar[str] = "about 2 s per head on 2 cores"
    outputs: ClassVar[tuple[Publish, ...]] = ("scene",)

    placement: Literal["exact", "group"] = option(
        "exact", "Whether a head keeps its own scale and roll, or takes those of its group."
    )
    heads: str | Path = option(
        "generator",
        "Where heads come from: the generator, or a folder of synthetic portraits that you may use.",
        or_path=("generator",),
    )

    def networks(self, context: Context) -> tuple[str, ...]:
        """Return what grouping needs, the parser, the matting, and the generator unless a folder is given."""
        grouping = super().networks(context)
        if self.heads != "generator":
            grouping = tuple(name for name in grouping if name != "stylegan")
        return (*grouping, *SEGMENTATION_WEIGHTS)

    def plan(self, people: IdentifiedPhotos, context: Context) -> Plan:
        """Group people, get a portrait for each group, and outline what is replaced."""
        rng = context.rng()
        space, generator = self.load() if self.heads == "generator" else (GeneratorSpace.bundled(), None)
        seen = self.features(people, space, context)
        own = [place_head(one) for one in people.faces.points]
        masks = read_masks(people, own, context)
        groups, attributes, notes = self.group(people, seen, context, rng, also=hair_extent(masks))
        bound = check_law(groups.labels, people.subject, self.k)
        if generator is None:
            portraits = GroupPortraits(choose_portraits(self.heads, attributes, groups))
        else:
            portraits = draw_head_portraits(space, generator, seen, attributes, groups, context, rng)
        bins = pose_bins(attributes[:, ATTRIBUTES.index("yaw")], steerable=portraits.codes is not None)
        heads, which = cut_heads(space, generator, portraits, groups.labels, bins)
        renderer, unparsed = self._renderer(people, groups, heads, which, own, masks, context)
        covered = int((renderer.head < 0).sum())
        guarantee = Guarantee("k-anonymity", groups.k, bound)
        guarantee = guarantee.lower(scope="head", because=PLACEMENT_ASSUMPTIONS[self.placement])
        guarantee = guarantee.lower(because=SURROUNDINGS_ASSUMPTION)
        bundled = generator is not None and self.generator == "bundled"
        sources = people.faces.source
        turned = f"{covered} heads are turned too far, or could not be outlined: they are covered."
        return Plan(
            groups.labels,
            renderer,
            guarantee,
            public={
                "placement": self.placement,
                "covered_heads": covered,
                "still_near": portraits.at_risk,
                "non_commercial": bundled,
            },
            private={
                "covered_heads": sorted({str(name) for name in sources[renderer.head < 0]}),
                "unparsed_heads": sorted({str(name) for name in sources[unparsed]}),
                "pose_bins": bins.tolist(),
            },
            notes=(
                EXPERIMENTAL,
                *notes,
                *([turned] if covered else []),
                *([NON_COMMERCIAL] if bundled else []),
            ),
            networks=self.networks(context),
        )

    def _renderer(
        self,
        people: IdentifiedPhotos,
        groups: Partition,
        heads: Sequence[Head],
        which: IntArray,
        placements: Sequence[FloatArray],
        masks: FaceMasks,
        context: Context,
    ) -> tuple[HeadRenderer, NDArray[np.bool_]]:
        """Return what sets the heads in, and which faces the parser did not see: those are covered."""
        if self.placement == "group":
            placements = group_placements(people.faces.points, groups.groups)
            masks = read_masks(people, placements, context)
        owner = {int(head): group for head, group in zip(which, groups.labels.tolist(), strict=True)}
        regions = [
            group_region([masks.union(groups.groups[owner[number]])], head.silhouette())
            for number, head in enumerate(heads)
        ]
        head = np.where(masks.parsed, which, -1)
        return HeadRenderer(heads, regions, head, placements), ~masks.parsed


def draw_head_portraits(
    space: GeneratorSpace,
    generator: ImageGenerator,
    seen: FaceFeatures,
    attributes: FloatArray,
    groups: Partition,
    context: Context,
    rng: np.random.Generator,
) -> GroupPortraits:
    """Draw a portrait for each group until its head is whole: see ``cut_flaw``."""
    codes = space.mean + space.whiten(seen.features) @ space.down @ space.up
    found = draw_portraits(
        space, generator, codes, attributes, seen.codes, groups,
        random_weights=RANDOM_WEIGHT_SHARE / float(groups.people.max()), plain=True,
        extra_flaw=cut_flaw, rng=rng, jobs=context.jobs, progress=context.progress,
    )  # fmt: skip
    return GroupPortraits(found.drawn, found.codes, found.lights, len(found.at_risk))


def pose_bins(yaw: FloatArray, *, steerable: bool) -> IntArray:
    """Return the pose bin of each face by its nose shift (n,) in canonical px; beyond the last one: outside.

    Where the heads cannot be steered all faces of the frontal bin and the next are in the frontal one.

    Examples
    --------
    >>> pose_bins(np.array([-3.0, 14.0, 70.0]), steerable=True).tolist()
    [0, 1, 4]
    >>> pose_bins(np.array([-3.0, 14.0, 70.0]), steerable=False).tolist()
    [0, 0, 4]
    """
    bins = np.rint(yaw / POSE_BIN_PX).astype(np.intp)
    return bins if steerable else np.where(np.abs(bins) <= 1, 0, bins)


def cut_heads(
    space: GeneratorSpace,
    generator: ImageGenerator | None,
    portraits: GroupPortraits,
    labels: IntArray,
    bins: IntArray,
) -> tuple[list[Head], IntArray]:
    """Return a head for each group and pose bin that is there, and which each face gets (n,), or -1.

    Raises
    ------
    CannotGuarantee
        If no head can be cut from the frontal portrait of a group.
    """
    heads: list[Head] = []
    which = np.full(len(labels), -1, np.intp)
    for group, image in enumerate(portraits.images):
        frontal = _cut(image)
        if frontal is None:
            raise CannotGuarantee(
                f"No face is found in the portrait of group {group}: run again, or use --seed."
            )
        for number in np.unique(bins[labels == group]).tolist():
            if abs(number) > (POSE_BINS_MAX if portraits.codes is not None else 0):
                continue
            turned = _turned(space, generator, portraits, group, number) if number else frontal
            which[(labels == group) & (bins == number)] = len(heads)
            heads.append(turned or frontal)
    if generator is not None:
        generator.unload()
    runtime.unload("modnet")
    return heads, which


def _turned(
    space: GeneratorSpace,
    generator: ImageGenerator | None,
    portraits: GroupPortraits,
    group: int,
    number: int,
) -> Head | None:
    """Return a group's head turned to a pose bin; None if no face is seen in it then."""
    assert generator is not None and portraits.codes is not None
    change = dict.fromkeys(ATTRIBUTES, 0.0) | {"yaw": number * POSE_BIN_PX}
    del change["background"]
    code = space.shift_attributes(portraits.codes[group], change)
    return _cut(change_light(space.draw(code[None], generator)[0], portraits.lights[group]))


def _cut(portrait: NDArray[np.uint8]) -> Head | None:
    points = largest_face_points(portrait)
    return None if points is None else cut_head(portrait, points)
