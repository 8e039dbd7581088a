"""Random styles, one of which is mixed into each portrait: choose one that fits a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from ksame.core.arrays import FloatArray, IntArray
from ksame.methods.anonfaces.targets import ATTRIBUTE_TOLERANCES, REQUESTED_LOGITS, sufficient_range
from ksame.models.generator import ImageGenerator
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace

__all__ = ["StylePool"]

MEAN_GAIN = 1.1  # compensates that a regressed mean of people is nearer to the mean style than any of them
RANDOM_STYLE_SHARE = 0.9  # weight of the random style: means of groups are too similar
CANDIDATE_STYLES = 40  # unused styles that need least change to fit a group
# Distances of geometry and colour from the mean, in mean distances of random styles: nearer, portraits are
# too similar; further, there are hands, hats and neighbours, or coloured light.
DISTANCE_RANGES = (0.86, 0.92), (0.0, 0.84)
SKIN_OFFSETS = {"light": 3.5, "tone": 7.0}  # added to targets: images are darker than linearly predicted
_ACCESSORY_OFFSETS = {"background": 0.4, "hat": 0.9, "glasses": 0.4}  # standard deviations below the mean
_SPREAD_ATTRIBUTES = ("age", "nose", "lips", "width")  # limited to a range: equal values are too similar
_MIN_RANDOM_STYLES = 3000  # few of them have dark skin
_AFFINITY_LIMITS = 8.0, 300  # difference from the group's skin in L*, and number of styles compared


@dataclass(frozen=True, eq=False)
class StylePool:
    """Random styles of a generator (s, d), as offsets from the mean; each is used once."""

    space: GeneratorSpace
    styles: FloatArray
    used: list[int] = field(default_factory=list)

    @classmethod
    def draw(
        cls, space: GeneratorSpace, generator: ImageGenerator, tries: int, rng: np.random.Generator
    ) -> Self:
        """Draw random styles, enough for a number of tries."""
        z = rng.standard_normal((max(_MIN_RANDOM_STYLES, CANDIDATE_STYLES + tries), generator.noise))
        return cls(space, np.tile(generator.styles(z), 2) - space.mean)

    @cached_property
    def lights(self) -> FloatArray:
        """Lightness of the skin of each random style (s,)."""
        return self.space.predict_attributes(self.space.mean + self.styles)[:, ATTRIBUTES.index("light")]

    @cached_property
    def usual(self) -> float:
        """Mean distance of random styles from the mean style."""
        return float(np.linalg.norm(self.styles, axis=1).mean())

    @cached_property
    def _precision(self) -> FloatArray:
        """The inverse covariance of random geometries, shrunk towards the identity."""
        geometry = np.split(self.styles, 2, axis=1)[0]
        spread = geometry.T @ geometry / len(geometry)
        return np.linalg.inv(spread + np.trace(spread) / len(spread) * np.eye(len(spread)))

    def affinity(self, codes: FloatArray, people: FloatArray, strangers: FloatArray) -> FloatArray:
        """Return the affinity (n,) of images of codes (n, d) to some people rather than to strangers.

        A linear discriminant of geometries with the covariance of random styles: over tries for one group it
        correlates with ``group_affinity`` at 0.26 to 0.55, a cosine with the members' codes at 0.07 to 0.37.

        Parameters
        ----------
        people, strangers : (m, d), (o, d)
            Codes of their faces.
        """
        one, two = (np.split(some.mean(axis=0), 2)[0] for some in (people, strangers))
        affinity: FloatArray = np.split(codes - self.space.mean, 2, axis=1)[0] @ (
            self._precision @ (one - two)
        )
        return affinity

    def choose_styles(
        self,
        code: FloatArray,
        target: Mapping[str, float],
        people: FloatArray,
        everybody: FloatArray,
        strangers: FloatArray,
        others: FloatArray,
    ) -> tuple[IntArray, FloatArray]:
        """Mix a group's code with unused random styles and set its target attributes.

        Styles with skin far from the group's are excluded: changed to it, they would keep features of
        another ancestry. Of the others, use those that need least change, because large changes leave the
        space of faces; of these the quarter of highest affinity to the members rather than to all people,
        or to strangers, which preserves ancestry; of these the styles that are least similar to other
        portraits and to any single member come first.

        Parameters
        ----------
        code : (d,)
            Mixed from the group's.
        target : mapping
            Its attributes.
        people, everybody, strangers, others : (m, d), (n, d), (s, d), (o, d)
            Codes of the group's faces, of all faces, of people of another ancestry, if there are any, and
            of the other groups' portraits.

        Returns
        -------
        numbers : (c,)
            Rows of the styles, best first.
        codes : (c, d)
            Codes mixed with each of them.
        """
        difference = np.abs(self.lights - target["light"])
        difference[self.used] = np.inf
        near_count = min(int((difference < _AFFINITY_LIMITS[0]).sum()), _AFFINITY_LIMITS[1])
        near_skin = np.argsort(difference)[: max(CANDIDATE_STYLES, near_count)]
        group = self.space.mean + MEAN_GAIN * (code - self.space.mean)
        begun = group + RANDOM_STYLE_SHARE * self.styles[near_skin]
        cost = self.space.attribute_cost(begun, self.requested_attributes(begun, target))
        some = np.argsort(cost)[:CANDIDATE_STYLES]
        changed = self.set_attributes(begun[some], target)
        similarity = self.space.geometry_similarity(changed, people)  # (c, m)
        penalty = similarity.max(axis=1) - similarity.mean(axis=1)
        affinity = similarity.mean(axis=1) - self.space.geometry_similarity(changed, everybody).mean(axis=1)
        if len(strangers):
            affinity = self.affinity(changed, people, strangers)
        if len(others):
            penalty = penalty + 2 * self.space.geometry_similarity(changed, others).max(axis=1)
        best = np.flatnonzero(affinity >= np.quantile(affinity, 0.75))
        best = best[np.argsort(penalty[best], kind="stable")]
        return near_skin[some[best]], changed[best]

    def requested_attributes(self, codes: FloatArray, target: Mapping[str, float]) -> FloatArray:
        """Return the attributes (n, a) to set: near the targets, with fewer accessories than predicted.

        Values already within tolerance are kept: set to equal values, portraits would be more similar than
        people.
        """
        told = self.space.predict_attributes(codes)
        asked = told.copy()
        for name, less in _ACCESSORY_OFFSETS.items():
            at = ATTRIBUTES.index(name)
            asked[:, at] = np.minimum(told[:, at], self.space.level[at] - less * self.space.unit[at])
        for name, value in target.items():
            at, to = ATTRIBUTES.index(name), value + SKIN_OFFSETS.get(name, 0)
            near = 0.5 * ATTRIBUTE_TOLERANCES[name] if name in _SPREAD_ATTRIBUTES else 0.0
            some = (
                sufficient_range(to, REQUESTED_LOGITS[name])
                if name in REQUESTED_LOGITS
                else (to - near, to + near)
            )
            asked[:, at] = np.clip(told[:, at], *some)
        return asked

    def set_attributes(self, codes: FloatArray, target: Mapping[str, float]) -> FloatArray:
        """Set the target attributes of codes (n, d), within the range of good images."""
        asked = self.requested_attributes(codes, target)
        once = self.limit_distance(self.space.set_all_attributes(codes, asked))
        return self.limit_distance(
            self.space.set_all_attributes(once, asked)
        )  # what was made longer shows too much of it

    def limit_distance(self, codes: FloatArray) -> FloatArray:
        """Limit the distance of geometry and colour of codes (n, d) from the mean."""
        kept = []
        for half, out in zip(np.split(codes - self.space.mean, 2, axis=1), DISTANCE_RANGES, strict=True):
            far = np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-9) * np.sqrt(2) / self.usual
            kept.append(half * np.clip(far, *out) / far)
        return np.asarray(self.space.mean + np.hstack(kept))
