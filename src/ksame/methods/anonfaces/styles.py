"""Random styles, one of which is mixed into each portrait: which of them fits a group, and how far out."""

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

MEAN_GAIN = 1.1  # a mean of people, read off by a regression, is paler than any of them
RANDOM_STYLE_SHARE = 0.9  # how much of a random face goes in: means of groups are too much alike
CANDIDATE_STYLES = 40  # of those that nobody has yet, the ones that must be changed least to fit a group
DISTANCE_RANGES = (
    (0.86, 0.92),
    (0.0, 0.84),
)  # of how far random styles are from the mean, geometry and colour: nearer
# portraits are alike, farther out there are hands, hats and neighbours, or coloured light
SKIN_OFFSETS = {
    "light": 3.5,
    "tone": 7.0,
}  # that is asked for: pictures are darker than a line would have them
_ACCESSORY_OFFSETS = {
    "background": 0.4,
    "hat": 0.9,
    "glasses": 0.4,
}  # than usual, in standard deviations, that is asked for
_SPREAD_ATTRIBUTES = (
    "age",
    "nose",
    "lips",
    "width",
)  # set to a span: set to the same, portraits are too much alike
_MIN_RANDOM_STYLES = 3000  # random styles to choose from, at least: few of them have dark skin
_AFFINITY_LIMITS = 8.0, 300  # L* that the skin of those may be off a group's, and how many are looked at


@dataclass(frozen=True, eq=False)
class StylePool:
    """Random styles of a generator (s, d), as differences from the mean; each is given away once."""

    space: GeneratorSpace
    styles: FloatArray
    used: list[int] = field(default_factory=list)

    @classmethod
    def drawn(
        cls, space: GeneratorSpace, generator: ImageGenerator, tries: int, rng: np.random.Generator
    ) -> Self:
        """Draw styles at random, enough for so many tries."""
        z = rng.standard_normal((max(_MIN_RANDOM_STYLES, CANDIDATE_STYLES + tries), generator.noise))
        return cls(space, np.tile(generator.styles(z), 2) - space.mean)

    @cached_property
    def lights(self) -> FloatArray:
        """How light the skin of random styles is by itself (s,)."""
        return self.space.predict_attributes(self.space.mean + self.styles)[:, ATTRIBUTES.index("light")]

    @cached_property
    def usual(self) -> float:
        """How far random styles are from the mean."""
        return float(np.linalg.norm(self.styles, axis=1).mean())

    @cached_property
    def _precision(self) -> FloatArray:
        """The inverse covariance of geometries of random styles, drawn in to the same in all directions."""
        geometry = np.split(self.styles, 2, axis=1)[0]
        spread = geometry.T @ geometry / len(geometry)
        return np.linalg.inv(spread + np.trace(spread) / len(spread) * np.eye(len(spread)))

    def affinity(self, codes: FloatArray, people: FloatArray, strangers: FloatArray) -> FloatArray:
        """Return how surely pictures of codes (n, d) are rather like some people than like strangers (n,).

        A linear discriminant of geometries, whose spread is that of random styles: of tries for one group it
        goes with `kinship` at 0.26 to 0.55, a cosine with the members' codes did at 0.07 to 0.37.

        Parameters
        ----------
        people, strangers : (m, d), (o, d)
            Codes of their faces.
        """
        one, two = (np.split(some.mean(axis=0), 2)[0] for some in (people, strangers))
        kin: FloatArray = np.split(codes - self.space.mean, 2, axis=1)[0] @ (self._precision @ (one - two))
        return kin

    def fitting(
        self,
        code: FloatArray,
        target: Mapping[str, float],
        people: FloatArray,
        everybody: FloatArray,
        strangers: FloatArray,
        others: FloatArray,
    ) -> tuple[IntArray, FloatArray]:
        """Return a group's code with random styles that nobody had, set to what is wished for.

        Styles whose own skin is far from the group's are left out: steered to it, they would keep features
        of another descent. Of the others, those are taken that need least steering, because what is steered
        far leaves the space of faces; of these the quarter that is rather like the members than like
        everybody, or than strangers, which keeps descent; of these the style comes first that is like no
        other portrait and like no member more than the others.

        Parameters
        ----------
        code : (d,)
            Mixed from the group's.
        target : mapping
            Its attributes.
        people, everybody, strangers, others : (m, d), (n, d), (s, d), (o, d)
            Codes of the group's faces, of all faces, of people of another descent, if there are any, and of
            the other groups' portraits.

        Returns
        -------
        numbers : (c,)
            Of the styles, the best first.
        codes : (c, d)
            With each of them.
        """
        own = np.abs(self.lights - target["light"])
        own[self.used] = np.inf
        kin = np.argsort(own)[
            : max(CANDIDATE_STYLES, min(int((own < _AFFINITY_LIMITS[0]).sum()), _AFFINITY_LIMITS[1]))
        ]
        begun = self.space.mean + MEAN_GAIN * (code - self.space.mean) + RANDOM_STYLE_SHARE * self.styles[kin]
        some = np.argsort(self.space.attribute_cost(begun, self.asked(begun, target)))[:CANDIDATE_STYLES]
        steered = self.set_attributes(begun[some], target)
        like = self.space.geometry_similarity(steered, people)  # (c, m)
        stands_out = like.max(axis=1) - like.mean(axis=1)
        rather = like.mean(axis=1) - self.space.geometry_similarity(steered, everybody).mean(axis=1)
        if len(strangers):
            rather = self.affinity(steered, people, strangers)
        if len(others):
            stands_out = stands_out + 2 * self.space.geometry_similarity(steered, others).max(axis=1)
        near = np.flatnonzero(rather >= np.quantile(rather, 0.75))
        near = near[np.argsort(stands_out[near], kind="stable")]
        return kin[some[near]], steered[near]

    def asked(self, codes: FloatArray, target: Mapping[str, float]) -> FloatArray:
        """Return the attributes (n, a) that codes should get: near the wishes, else rather less.

        What is near enough by itself stays: set to the same, portraits would be more alike than people.
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
        """Return codes (n, d) that are set to what is wished for, and as far out as pictures are good."""
        asked = self.asked(codes, target)
        once = self.reined(self.space.set_all_attributes(codes, asked))
        return self.reined(
            self.space.set_all_attributes(once, asked)
        )  # what was made longer shows too much of it

    def reined(self, codes: FloatArray) -> FloatArray:
        """Return codes (n, d) whose geometry and colour are as far from the mean as pictures are good."""
        kept = []
        for half, out in zip(np.split(codes - self.space.mean, 2, axis=1), DISTANCE_RANGES, strict=True):
            far = np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-9) * np.sqrt(2) / self.usual
            kept.append(half * np.clip(far, *out) / far)
        return np.asarray(self.space.mean + np.hstack(kept))
