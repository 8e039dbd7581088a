"""Search a portrait for each group: mix its codes, set its attributes and verify the image [A 3.4].

All members of a group get the same file, including hair, ears and background: it contains no part of a photo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition
from ksame.methods.anonfaces.candidate import GroupAffinity, PortraitCandidate, PortraitSet
from ksame.methods.anonfaces.measure import (
    DrawnPortraits,
    LightChange,
    change_light,
    largest_faces,
    measure_changed_light,
    measure_portraits,
    skin_yellowness,
)
from ksame.methods.anonfaces.preview import artifact_score, choose_style
from ksame.methods.anonfaces.retry_scheduler import retry_in_order
from ksame.methods.anonfaces.styles import StylePool
from ksame.methods.anonfaces.targets import ATTRIBUTE_TOLERANCES, attribute_dict, attribute_error
from ksame.methods.anonfaces.verifiers import (
    distance_limit,
    embed_registered,
    group_affinity,
    matched_faces,
)
from ksame.models.generator import ImageGenerator
from ksame.models.recognisers import RECOGNISERS
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace

_FLAW_THRESHOLDS = {"background": 3.6, "hat": -2.35, "glasses": -1.6}  # above them, unrequested
_MESH_DEVIATION_MAX = 1.0  # standard deviations of the mesh: beyond, features are distorted
_SKIN_CHANGE_MAX = 0.2  # relative change of the skin's lightness by a correction
_CORRECTIONS_MAX, _NO_CORRECTION_FACTOR = 2, 1.3  # per image; tolerances below which none is needed
_TOLERANCE_FACTORS = dict.fromkeys(("tone", "yaw", "nose", "lips", "width"), 1.5) | {"age": 1.25}
_GOOD_PENALTY = 0.2  # nobody is matched, and the image has hardly a flaw
_ARTIFACT_PENALTY = 0.5  # flaw of a likely hat, hand or neighbour: never good
_AFFINITY_MARGIN = 0.15  # thresholds by which a group of one ancestry is nearer to itself than to others
_AFFINITY_LOSS_MAX = 0.05  # of such a group's portrait, else twice: see ``group_affinity``
_FOREIGN_AFFINITY_MAX = 0.03  # of a portrait to another group of one ancestry rather than to its own
_FOREIGN_PENALTY = 3.0  # matched photos of members that are preferable to a portrait of another ancestry
_FAR_ERROR_FACTOR = 2.0  # tolerances beyond the first that give the full penalty: 10 years do not, 13 did
_CORRECTION_STEP = 0.7  # share of an error that a correction removes
_EXPOSURE_LIMITS = 6.0, 0.1  # greatest change of L*, absolute or relative
_DARKENING_L_MAX = 8.0  # likewise when darkening, which loses no highlights
_WARMING_B_MAX = 3.0  # greatest change of b*
_EXTRA_TRIES = 5  # further random faces for a group that no weights protect
_EXTRA_AFFINITY_TRIES = 3  # and for a group of one ancestry
_WORKERS_MAX = 2  # each draws, measures and verifies one portrait
_CODE_SCALES = (1.0, 0.8, 0.64)  # of a code's distance from the mean: too far out no face is found


@dataclass(eq=False)
class PortraitSearch:
    """Draw and verify portraits, and keep the best of each group."""

    space: GeneratorSpace
    generator: ImageGenerator
    codes: FloatArray  # (n, d)
    members: Mapping[str, FloatArray]
    partition: Partition
    targets: Sequence[Mapping[str, float]]
    rng: np.random.Generator
    helpers: ThreadPoolExecutor
    progress: Callable[[str, int, int], None] | None = None
    grey: Collection[int] = ()
    extra_flaw: Callable[[NDArray[np.uint8], FloatArray], float] | None = None
    kept: dict[int, PortraitCandidate] = field(default_factory=dict)  # accepted portraits
    best: dict[int, tuple[float, PortraitCandidate]] = field(
        default_factory=dict
    )  # best of the other groups, with its penalty
    plans: dict[int, FloatArray] = field(default_factory=dict)  # the code from which a group is drawn

    @cached_property
    def styles(self) -> StylePool:
        """Random styles to mix in, enough for all tries."""
        tries = (_EXTRA_TRIES + _EXTRA_AFFINITY_TRIES + 1) * len(self.targets)
        return StylePool.draw(self.space, self.generator, tries, self.rng)

    @cached_property
    def subjects(self) -> NDArray[Any]:
        """The subject of each face (n,)."""
        subjects = self.partition.subjects
        return np.arange(len(self.codes)) if subjects is None else subjects

    @cached_property
    def limits(self) -> list[dict[str, float]]:
        """Least distance of each group's portrait to members, by verifier: see ``distance_limit``."""
        return [
            {
                name: distance_limit(codes[rows], self.subjects[rows], name)
                for name, codes in self.members.items()
            }
            for rows in self.partition.groups
        ]

    @cached_property
    def affinity(self) -> list[tuple[IntArray, FloatArray]]:
        """For each group the faces of other groups of its gender, and its members' affinities (m,)."""
        found = []
        for number in range(len(self.targets)):
            others = np.flatnonzero(np.array(self._same_gender_groups(number))[self.partition.labels])
            found.append((others, self._member_affinities(number, others)))
        return found

    @cached_property
    def foreign_groups(self) -> list[list[IntArray]]:
        """For each group the faces of each group of its gender that has another ancestry."""
        groups = self.partition.groups
        distinct = [self._is_distinct(other) for other in range(len(groups))]
        found = []
        for number in range(len(groups)):
            some = [
                groups[other]
                for other in np.flatnonzero(np.array(self._same_gender_groups(number)) & distinct)
            ]
            found.append([theirs for theirs in some if self._member_affinities(number, theirs).mean() > 0])
        return found

    def _same_gender_groups(self, number: int) -> list[bool]:
        """Return which other groups have a group's gender."""
        man = self.targets[number]["gender"] > 0
        return [(target["gender"] > 0) == man and i != number for i, target in enumerate(self.targets)]

    def _member_affinities(self, number: int, others: IntArray) -> FloatArray:
        """Return each member's affinity to the rest of the group rather than to others (m,)."""
        rows = self.partition.groups[number]
        each = [
            group_affinity(
                {name: codes[row] for name, codes in self.members.items()},
                self.members,
                rows[self.subjects[rows] != self.subjects[row]],
                others,
            )
            for row in rows
        ]
        return np.array(each)

    def tries(self, number: int) -> int:
        """Return the greatest number of random faces tried for a group."""
        return _EXTRA_TRIES + _EXTRA_AFFINITY_TRIES * self._is_distinct(number)

    def attempt(self, stage: str, codes: FloatArray, tries: Sequence[int]) -> dict[int, NDArray[np.bool_]]:
        """Try random faces with mixed codes (g, d) for groups without an accepted portrait.

        Returns
        -------
        dict
            Members matched in each group's last try.
        """
        mine = {number: most for number, most in enumerate(tries) if number not in self.kept}
        risky: dict[int, NDArray[np.bool_]] = {}
        noted: Counter[int] = Counter()

        def is_settled(number: int, candidate: PortraitCandidate) -> bool:
            noted[number] += 1
            risky[number] = candidate.risky
            self._keep_best(number, candidate)
            if self.progress:
                over = sum(one in self.kept or noted[one] == most for one, most in mine.items())
                self.progress(stage, over, len(mine))
            return number in self.kept

        retry_in_order(mine, lambda number: self._start_try(number, codes[number]), is_settled)
        return risky

    def _start_try(self, number: int, code: FloatArray) -> Future[PortraitCandidate]:
        """Start a try; codes are chosen sequentially, because each avoids all the others."""
        others = [plan for place, plan in self.plans.items() if place != number]
        people = self.codes[self.partition.groups[number]]
        strangers = self.codes[self.affinity[number][0][: None if self._is_distinct(number) else 0]]
        target = self.targets[number]
        numbers, fitting = self.styles.choose_styles(
            code, target, people, self.codes, strangers, np.array(others)
        )
        best, plan = choose_style(self.generator, self.styles, fitting, target)
        self.styles.used.append(int(numbers[best]))
        self.plans[number] = plan
        return self.helpers.submit(self._try_portrait, number, plan, tuple(self.kept.values()))

    def _keep_best(self, number: int, candidate: PortraitCandidate) -> None:
        """Accept a good candidate, or keep the best, for a group without an accepted one."""
        if number in self.kept:
            return
        bad = self._penalty(candidate, number, self.kept.values())
        if candidate.is_final and bad < _GOOD_PENALTY:
            self.kept[number] = candidate
            self.best.pop(number, None)  # 3 MB
        elif number not in self.best or bad < self.best[number][0]:
            self.best[number] = bad, candidate

    def result(self) -> PortraitSet:
        """Return the accepted portraits, and the best of all tries for other groups."""
        left = [number for number in range(len(self.targets)) if number not in self.kept]
        rest = self.helpers.map(lambda number: self._correct(self.best[number][1], number, flawed=True), left)
        found = self.kept | dict(zip(left, rest, strict=True))
        candidates = [found[number] for number in range(len(self.targets))]
        self.generator.unload()
        requested = np.stack([[target.get(name, np.nan) for name in ATTRIBUTES] for target in self.targets])
        none = np.full(len(ATTRIBUTES), np.nan)
        seen = np.stack(
            [none if candidate.seen is None else candidate.seen.attributes[0] for candidate in candidates]
        )
        stuck = [
            rows[matched_faces(candidate.faces or None, self.members, rows)]
            for rows, candidate in zip(self.partition.groups, candidates, strict=True)
        ]
        guarantee = Guarantee("k-anonymity", self.partition.k, self.partition.bound)
        codes, lights, drawn = zip(
            *((candidate.code, candidate.light, candidate.image) for candidate in candidates), strict=True
        )
        at_risk = np.sort(np.concatenate(stuck))
        affinities = [self._report_affinity(candidate, number) for number, candidate in enumerate(candidates)]
        return PortraitSet(np.stack(codes), lights, drawn, requested, seen, guarantee, at_risk, affinities)

    def _try_portrait(
        self, number: int, plan: FloatArray, kept: Sequence[PortraitCandidate]
    ) -> PortraitCandidate:
        """Draw and verify a candidate; correct it if it is good compared with accepted portraits.

        Of 37 portraits without a match, one had a match after correction; of 28 with a match, 23 still had.
        """
        special = plan - self.space.mean
        for share in _CODE_SCALES:
            candidate = self._draw_candidate(self.space.mean + share * special, number)
            if candidate.seen is not None:
                break
        candidate = self._verify(candidate, number)
        return (
            self._correct(candidate, number)
            if self._penalty(candidate, number, kept) < _GOOD_PENALTY
            else candidate
        )

    def _draw_candidate(self, code: FloatArray, number: int) -> PortraitCandidate:
        image = self.space.draw(code[None], self.generator)[0]
        everybody = np.ones(len(self.partition.groups[number]), bool)
        shows = artifact_score(self.generator, self.space, code, self.targets[number])
        candidate = PortraitCandidate(code, image, None, np.inf, np.inf, {}, everybody, artifact=shows)
        half = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)  # as good for measuring
        seen = measure_portraits(half[None], self.space)
        if self.extra_flaw is not None and len(seen.rows):
            flaw = self.extra_flaw(half, seen.faces.points[0])
            candidate = candidate._replace(artifact=max(candidate.artifact, flaw))
        return self._with_attributes(candidate, seen, number) if len(seen.rows) else candidate

    def _with_attributes(
        self, candidate: PortraitCandidate, seen: DrawnPortraits, number: int
    ) -> PortraitCandidate:
        off = attribute_error(self.targets[number], attribute_dict(seen))
        error = max(
            abs(value) / ATTRIBUTE_TOLERANCES[name] / _TOLERANCE_FACTORS.get(name, 1)
            for name, value in off.items()
        )
        flaws = max(
            self._flaws(seen, self.targets[number]),
            _ARTIFACT_PENALTY + candidate.artifact if candidate.artifact else 0.0,
        )
        return candidate._replace(seen=seen, error=error, flaws=flaws)

    def _verify(self, candidate: PortraitCandidate, number: int) -> PortraitCandidate:
        """Compare a candidate with every member by all verifiers."""
        found = (
            None
            if candidate.seen is None
            else embed_registered(candidate.seen.faces, list(self.members), candidate.seen.read)
        )
        return self._with_matches(candidate, found, number)

    def _verify_published(self, candidate: PortraitCandidate, number: int) -> PortraitCandidate:
        """Apply the light change of a candidate and verify the image that is published."""
        light = candidate.light._replace(grey=number in self.grey)
        image = change_light(candidate.image, light)
        rows, face = largest_faces(image[None])
        found = embed_registered(face, list(self.members)) if len(rows) else None
        return self._with_matches(candidate._replace(image=image, light=light, is_final=True), found, number)

    def _with_matches(
        self, candidate: PortraitCandidate, found: dict[str, FloatArray] | None, number: int
    ) -> PortraitCandidate:
        risky = matched_faces(found, self.members, self.partition.groups[number], self.limits[number])
        return candidate._replace(faces=found or {}, risky=risky)

    def _correct(self, now: PortraitCandidate, number: int, *, flawed: bool = False) -> PortraitCandidate:
        """Correct the attributes of a candidate by measuring its image.

        A candidate with flaws is corrected only if there is no better one.
        """
        if now.is_final:
            return now
        best = self._adjust_light(now, number)
        most = dict(zip(ATTRIBUTES, self.space.unit.tolist(), strict=True))
        for _ in range(_CORRECTIONS_MAX):
            if now.seen is None or best.error <= _NO_CORRECTION_FACTOR or (now.flaws > 1 and not flawed):
                break
            off = attribute_error(self.targets[number], attribute_dict(now.seen))
            step = {
                name: float(np.clip(_CORRECTION_STEP * by, -most[name], most[name]))
                for name, by in off.items()
            }
            step["hat"] = 0.0  # otherwise hats appear
            moved = self.space.shift_attributes(now.code, step, same=True)
            now = self._draw_candidate(self.styles.limit_distance(moved[None])[0], number)
            lit = self._adjust_light(now, number)
            if max(lit.error, 1) + lit.flaws < max(best.error, 1) + best.flaws:
                best = lit
        return self._verify_published(best, number)

    def _adjust_light(self, candidate: PortraitCandidate, number: int) -> PortraitCandidate:
        """Change the light of a candidate towards the lightness and warmth of skin of its target."""
        if candidate.seen is None:
            return candidate
        skin, target = attribute_dict(candidate.seen), self.targets[number]
        now = max(skin["light"], 2 * _EXPOSURE_LIMITS[0])
        most = max(_EXPOSURE_LIMITS[0], _EXPOSURE_LIMITS[1] * now)
        to = now + float(np.clip(target["light"] - now, -max(_DARKENING_L_MAX, most), most))
        warmer = skin_yellowness(to, target["tone"]) - skin_yellowness(skin["light"], skin["tone"])
        light = LightChange(to / now, float(np.nan_to_num(np.clip(warmer, -_WARMING_B_MAX, _WARMING_B_MAX))))
        return self._with_attributes(
            candidate, measure_changed_light(candidate.seen, light, self.space), number
        )._replace(light=light)

    def _flaws(self, seen: DrawnPortraits, target: Mapping[str, float]) -> float:
        """Return the largest flaw of an image: distorted features, busy background, hat, glasses or skin.

        Skin far from its target, if corrected by light, would look like that of another ancestry.
        """
        deviation = float(self.space.shape_deviation(self.space.whiten(seen.read))[0])
        skin_change = abs(attribute_dict(seen)["light"] / target["light"] - 1)
        wrong = [
            max(0.0, deviation / _MESH_DEVIATION_MAX - 1) * 4,
            max(0.0, skin_change / _SKIN_CHANGE_MAX - 1) * 2,
        ]
        for name, most in _FLAW_THRESHOLDS.items():
            at = ATTRIBUTES.index(name)
            if name not in target:
                wrong.append(max(0.0, (float(seen.attributes[0, at]) - most) / float(self.space.unit[at])))
        return max(wrong)

    def _penalty(self, candidate: PortraitCandidate, number: int, kept: Iterable[PortraitCandidate]) -> float:
        """Return the penalty of matched members, of similarity to accepted portraits, and of flaws."""
        if candidate.seen is None:
            return float(len(candidate.risky) + 1)
        alike = any(
            np.linalg.norm(other.faces[name] - code) <= RECOGNISERS[name].same_person
            for other in kept
            for name, code in candidate.faces.items()
        )
        off = min(max(candidate.error - 1, 0.0) / _FAR_ERROR_FACTOR, 0.5) * candidate.is_final
        return float(
            candidate.risky.sum()
            + 0.5 * alike
            + min(candidate.flaws, 0.9) / 2
            + off
            + self._affinity_penalty(candidate, number)
        )

    def _affinity_penalty(self, candidate: PortraitCandidate, number: int) -> float:
        """Return the penalty of a candidate of lower affinity to its group, or of higher affinity to others.

        It detects a wrong ancestry that skin colour does not show: a darkened image of a white woman has no
        higher affinity to black women, and a lightened image of a black woman has a higher affinity to them
        than to a group of mixed ancestry.
        """
        (others, each), own = self.affinity[number], self.partition.groups[number]
        most = _AFFINITY_LOSS_MAX if self._is_distinct(number) else 2 * _AFFINITY_LOSS_MAX
        less = [(each.mean() - group_affinity(candidate.faces, self.members, own, others)) / most]
        less += [
            -group_affinity(candidate.faces, self.members, own, theirs) / _FOREIGN_AFFINITY_MAX
            for theirs in self.foreign_groups[number]
        ]
        return float(np.clip(max(less) - 1, 0, _FOREIGN_PENALTY))

    def _report_affinity(self, candidate: PortraitCandidate, number: int) -> GroupAffinity:
        """Return the affinities of a group and of its portrait."""
        (others, each), rows = self.affinity[number], self.partition.groups[number]
        own = self.subjects[rows]
        least = min(float(each[own == subject].mean()) for subject in np.unique(own))
        near = group_affinity(candidate.faces, self.members, rows, others)
        mismatched = self._affinity_penalty(candidate, number) >= _GOOD_PENALTY
        return GroupAffinity(float(each.mean()), least, near, self._is_distinct(number), mismatched)

    def _is_distinct(self, number: int) -> bool:
        """Return whether a group's members are near enough to each other to be of one ancestry."""
        return bool(self.affinity[number][1].mean() > _AFFINITY_MARGIN)
