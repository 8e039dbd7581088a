"""One portrait for each group of people: mixed from their codes, set to their attributes, judged [A 3.4].

All who are in a group get the same file, hair, ears and ground included: nothing of any photo is in it.
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
from ksame.methods.anonfaces.candidate import Candidate, GroupAffinity, PortraitSet
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
from ksame.methods.anonfaces.targets import (
    ATTRIBUTE_TOLERANCES,
    attribute_dict,
    attribute_error,
)
from ksame.methods.anonfaces.verifiers import (
    distance_limit,
    embed_registered,
    group_affinity,
    matched_faces,
)
from ksame.models.generator import ImageGenerator
from ksame.models.recognisers import RECOGNISERS
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace

__all__ = []


_FLAW_THRESHOLDS = {
    "ground": 3.6,
    "hat": -2.35,
    "glasses": -1.6,
}  # from where on there is what nobody asked for
_MESH_DEVIATION_MAX = 1.0  # standard deviations of the mesh: beyond are features that melt
_SKIN_CHANGE_MAX = 0.2  # of how light skin is, that a correction may change
_CORRECTIONS_MAX, _NO_CORRECTION_FACTOR = (
    2,
    1.3,
)  # of a picture at most, and times what is near enough that need none
_TOLERANCE_FACTORS = dict.fromkeys(("tone", "yaw", "nose", "lips", "width"), 1.5) | {
    "age": 1.25
}  # times that
_GOOD_PENALTY = 0.2  # nobody is recognised, and the picture has hardly a flaw
_ARTIFACT_PENALTY = 0.5  # the flaw of what is rather a hat, a hand or a neighbour than not: never fine
_AFFINITY_MARGIN = 0.15  # thresholds by which people are nearer to their own group, if it is of one descent
_AFFINITY_LOSS_MAX = (
    0.05  # by which a portrait may then be less like them than they are, else twice: see `kinship`
)
_FOREIGN_AFFINITY_MAX = (
    0.03  # by which it may be nearer to another group of one descent than to its own people
)
_FOREIGN_PENALTY = 3.0  # photos of members near a portrait that are a lesser evil than another descent
_FAR_ERROR_FACTOR = (
    2.0  # times what is near enough, beyond it, that count as a whole: 10 years are not fine, 13 were
)
_CORRECTION_STEP = 0.7  # of what is off, that a correction makes good
_EXPOSURE_LIMITS = 6.0, 0.1  # of L*, or as a share of it, at most: what is still off then
_DARKENING_L_MAX = 8.0  # of L*, at most, likewise: less light washes nothing out
_WARMING_B_MAX = 3.0  # of b*, at most, likewise
_EXTRA_TRIES, _EXTRA_AFFINITY_TRIES = (
    5,
    3,
)  # random faces more for a group whom no weights protect, and for one of one descent
_WORKERS_MAX = 2  # at most: each draws, looks and judges by itself
_CODE_SCALES = (1.0, 0.8, 0.64)  # of what is special about a code: too far out there is no face


@dataclass(eq=False)
class PortraitSearch:
    """Where portraits are drawn and judged; the one that is best for a group is kept."""

    space: GeneratorSpace
    generator: ImageGenerator
    codes: FloatArray  # (n, d): of the faces
    members: Mapping[str, FloatArray]
    partition: Partition
    targets: Sequence[Mapping[str, float]]
    rng: np.random.Generator
    helpers: ThreadPoolExecutor
    progress: Callable[[str, int, int], None] | None = None
    grey: Collection[int] = ()
    extra_flaw: Callable[[NDArray[np.uint8], FloatArray], float] | None = None
    kept: dict[int, Candidate] = field(default_factory=dict)  # the portraits that are fine
    best: dict[int, tuple[float, Candidate]] = field(default_factory=dict)  # of the others, and how bad it is
    plans: dict[int, FloatArray] = field(default_factory=dict)  # the code that a group is to be drawn from

    @cached_property
    def styles(self) -> StylePool:
        """Random styles to mix in, so many that no two groups take the same."""
        tries = (_EXTRA_TRIES + _EXTRA_AFFINITY_TRIES + 1) * len(self.targets)
        return StylePool.drawn(self.space, self.generator, tries, self.rng)

    @cached_property
    def subjects(self) -> NDArray[Any]:
        """Whose each face is (n,)."""
        of = self.partition.subjects
        return np.arange(len(self.codes)) if of is None else of

    @cached_property
    def limits(self) -> list[dict[str, float]]:
        """How near a portrait of each group may be to a member, by each recogniser.

        See ``distance_limit``.
        """
        return [
            {
                name: distance_limit(codes[rows], self.subjects[rows], name)
                for name, codes in self.members.items()
            }
            for rows in self.partition.groups
        ]

    @cached_property
    def affinity(self) -> list[tuple[IntArray, FloatArray]]:
        """For each group the faces of others of its gender, and how much nearer its own are to it (m,)."""
        found = []
        for number in range(len(self.targets)):
            others = np.flatnonzero(np.array(self._like(number))[self.partition.labels])
            found.append((others, self._kinships(number, others)))
        return found

    @cached_property
    def foreign(self) -> list[list[IntArray]]:
        """For each group the faces of each group of its gender that stands apart, and that it is not of."""
        groups = self.partition.groups
        apart = [self._apart(other) for other in range(len(groups))]
        found = []
        for number in range(len(groups)):
            some = [groups[other] for other in np.flatnonzero(np.array(self._like(number)) & apart)]
            found.append([theirs for theirs in some if self._kinships(number, theirs).mean() > 0])
        return found

    def _like(self, number: int) -> list[bool]:
        """Return which other groups are of a group's gender."""
        man = self.targets[number]["gender"] > 0
        return [(target["gender"] > 0) == man and i != number for i, target in enumerate(self.targets)]

    def _kinships(self, number: int, others: IntArray) -> FloatArray:
        """Return how much nearer each face of a group is to its other people than to others (m,)."""
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
        """Return how often another random face is tried for a group at most."""
        return _EXTRA_TRIES + _EXTRA_AFFINITY_TRIES * self._apart(number)

    def attempt(self, stage: str, codes: FloatArray, tries: Sequence[int]) -> dict[int, NDArray[np.bool_]]:
        """Try random faces with mixed codes (g, d) for the groups that have none that is fine, so often each.

        Returns
        -------
        dict
            Who was recognised in each group's last try.
        """
        mine = {number: most for number, most in enumerate(tries) if number not in self.kept}
        risky: dict[int, NDArray[np.bool_]] = {}
        noted: Counter[int] = Counter()

        def settled(number: int, take: Candidate) -> bool:
            noted[number] += 1
            risky[number] = take.risky
            self._note(number, take)
            if self.progress:
                over = sum(one in self.kept or noted[one] == most for one, most in mine.items())
                self.progress(stage, over, len(mine))
            return number in self.kept

        retry_in_order(mine, lambda number: self._begun(number, codes[number]), settled)
        return risky

    def _begun(self, number: int, code: FloatArray) -> Future[Candidate]:
        """Begin a try: plans are made one after another, because each keeps away from all the others."""
        others = [plan for place, plan in self.plans.items() if place != number]
        people = self.codes[self.partition.groups[number]]
        strangers = self.codes[self.affinity[number][0][: None if self._apart(number) else 0]]
        target = self.targets[number]
        numbers, fitting = self.styles.fitting(code, target, people, self.codes, strangers, np.array(others))
        best, plan = choose_style(self.generator, self.styles, fitting, target)
        self.styles.used.append(int(numbers[best]))
        self.plans[number] = plan
        return self.helpers.submit(self._tried, number, plan, tuple(self.kept.values()))

    def _note(self, number: int, take: Candidate) -> None:
        """Keep a take that is fine, or that is the best of a group, unless it has one that is fine."""
        if number in self.kept:
            return
        bad = self._badness(take, number, self.kept.values())
        if take.done and bad < _GOOD_PENALTY:
            self.kept[number] = take
            self.best.pop(number, None)  # 3 MB
        elif number not in self.best or bad < self.best[number][0]:
            self.best[number] = bad, take

    def result(self) -> PortraitSet:
        """Return what is fine, and the best of all tries where nothing is."""
        left = [number for number in range(len(self.targets)) if number not in self.kept]
        rest = self.helpers.map(
            lambda number: self._corrected(self.best[number][1], number, flawed=True), left
        )
        found = self.kept | dict(zip(left, rest, strict=True))
        takes = [found[number] for number in range(len(self.targets))]
        self.generator.unload()
        wished = np.stack([[target.get(name, np.nan) for name in ATTRIBUTES] for target in self.targets])
        none = np.full(len(ATTRIBUTES), np.nan)
        seen = np.stack([none if take.seen is None else take.seen.attributes[0] for take in takes])
        stuck = [
            rows[matched_faces(take.faces or None, self.members, rows)]
            for rows, take in zip(self.partition.groups, takes, strict=True)
        ]
        guarantee = Guarantee("k-anonymity", self.partition.k, self.partition.bound)
        codes, lights, drawn = zip(*((take.code, take.light, take.image) for take in takes), strict=True)
        at_risk = np.sort(np.concatenate(stuck))
        kin = [self._told(take, number) for number, take in enumerate(takes)]
        return PortraitSet(np.stack(codes), lights, drawn, wished, seen, guarantee, at_risk, kin)

    def _tried(self, number: int, plan: FloatArray, kept: Sequence[Candidate]) -> Candidate:
        """Draw what a group is to be drawn from, and judge it; correct it if it is fine beside what is kept.

        Of 37 portraits in which nobody was recognised at a first look, one was when it was corrected, of 28
        others 23 still were.
        """
        special = plan - self.space.mean
        for share in _CODE_SCALES:
            take = self._looked_at(self.space.mean + share * special, number)
            if take.seen is not None:
                break
        take = self._judged(take, number)
        return self._corrected(take, number) if self._badness(take, number, kept) < _GOOD_PENALTY else take

    def _looked_at(self, code: FloatArray, number: int) -> Candidate:
        image = self.space.draw(code[None], self.generator)[0]
        everybody = np.ones(len(self.partition.groups[number]), bool)
        shows = artifact_score(self.generator, self.space, code, self.targets[number])
        take = Candidate(code, image, None, np.inf, np.inf, {}, everybody, odd=shows)
        half = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)  # no less is seen
        seen = measure_portraits(half[None], self.space)
        if self.extra_flaw is not None and len(seen.rows):
            take = take._replace(odd=max(take.odd, self.extra_flaw(half, seen.faces.points[0])))
        return self._measured(take, seen, number) if len(seen.rows) else take

    def _measured(self, take: Candidate, seen: DrawnPortraits, number: int) -> Candidate:
        off = attribute_error(self.targets[number], attribute_dict(seen))
        error = max(
            abs(value) / ATTRIBUTE_TOLERANCES[name] / _TOLERANCE_FACTORS.get(name, 1)
            for name, value in off.items()
        )
        flaws = max(
            self._flaws(seen, self.targets[number]), _ARTIFACT_PENALTY + take.odd if take.odd else 0.0
        )
        return take._replace(seen=seen, error=error, flaws=flaws)

    def _judged(self, take: Candidate, number: int) -> Candidate:
        """Let all recognisers compare a take with every member."""
        found = (
            None
            if take.seen is None
            else embed_registered(take.seen.faces, list(self.members), take.seen.read)
        )
        return self._known(take, found, number)

    def _published(self, take: Candidate, number: int) -> Candidate:
        """Expose a take and judge the very picture that is published."""
        light = take.light._replace(grey=number in self.grey)
        image = change_light(take.image, light)
        rows, face = largest_faces(image[None])
        found = embed_registered(face, list(self.members)) if len(rows) else None
        return self._known(take._replace(image=image, light=light, done=True), found, number)

    def _known(self, take: Candidate, found: dict[str, FloatArray] | None, number: int) -> Candidate:
        risky = matched_faces(found, self.members, self.partition.groups[number], self.limits[number])
        return take._replace(faces=found or {}, risky=risky)

    def _corrected(self, now: Candidate, number: int, *, flawed: bool = False) -> Candidate:
        """Move a take to where its picture has the attributes that are wished for, looking at the picture.

        What has flaws need not be right, unless there is nothing better.
        """
        if now.done:
            return now
        best = self._exposed(now, number)
        most = dict(zip(ATTRIBUTES, self.space.unit.tolist(), strict=True))
        for _ in range(_CORRECTIONS_MAX):
            if now.seen is None or best.error <= _NO_CORRECTION_FACTOR or (now.flaws > 1 and not flawed):
                break
            off = attribute_error(self.targets[number], attribute_dict(now.seen))
            step = {
                name: float(np.clip(_CORRECTION_STEP * by, -most[name], most[name]))
                for name, by in off.items()
            }
            step["hat"] = 0.0  # else one comes along
            moved = self.space.moved(now.code, step, same=True)
            now = self._looked_at(self.styles.reined(moved[None])[0], number)
            lit = self._exposed(now, number)
            if max(lit.error, 1) + lit.flaws < max(best.error, 1) + best.flaws:
                best = lit
        return self._published(best, number)

    def _exposed(self, take: Candidate, number: int) -> Candidate:
        """Expose a take so that its skin is as light and as warm as wished for, or nearly."""
        if take.seen is None:
            return take
        skin, target = attribute_dict(take.seen), self.targets[number]
        now = max(skin["light"], 2 * _EXPOSURE_LIMITS[0])
        most = max(_EXPOSURE_LIMITS[0], _EXPOSURE_LIMITS[1] * now)
        to = now + float(np.clip(target["light"] - now, -max(_DARKENING_L_MAX, most), most))
        warmer = skin_yellowness(to, target["tone"]) - skin_yellowness(skin["light"], skin["tone"])
        light = LightChange(to / now, float(np.nan_to_num(np.clip(warmer, -_WARMING_B_MAX, _WARMING_B_MAX))))
        return self._measured(take, measure_changed_light(take.seen, light, self.space), number)._replace(
            light=light
        )

    def _flaws(self, seen: DrawnPortraits, target: Mapping[str, float]) -> float:
        """Return how much is wrong with a picture: features that melt, a busy ground, a hat, glasses.

        And skin so far from what is wished for that, dyed, it would be that of another descent.
        """
        odd = float(self.space.oddness(self.space.whitened(seen.read))[0])
        dyed = abs(attribute_dict(seen)["light"] / target["light"] - 1)
        wrong = [max(0.0, odd / _MESH_DEVIATION_MAX - 1) * 4, max(0.0, dyed / _SKIN_CHANGE_MAX - 1) * 2]
        for name, most in _FLAW_THRESHOLDS.items():
            at = ATTRIBUTES.index(name)
            if name not in target:
                wrong.append(max(0.0, (float(seen.attributes[0, at]) - most) / float(self.space.unit[at])))
        return max(wrong)

    def _badness(self, take: Candidate, number: int, kept: Iterable[Candidate]) -> float:
        """Return how bad it is: people are recognised, or it is like a kept one, or does not look right."""
        if take.seen is None:
            return float(len(take.risky) + 1)
        alike = any(
            np.linalg.norm(other.faces[name] - code) <= RECOGNISERS[name].same_person
            for other in kept
            for name, code in take.faces.items()
        )
        off = min(max(take.error - 1, 0.0) / _FAR_ERROR_FACTOR, 0.5) * take.done
        return float(
            take.risky.sum() + 0.5 * alike + min(take.flaws, 0.9) / 2 + off + self._strange(take, number)
        )

    def _strange(self, take: Candidate, number: int) -> float:
        """Return how much less like its people a take is than they are to one another, or like others.

        It is what tells descent: a white woman in the dark has a black woman's skin, and no nearer kin among
        black women than among others; a black woman's face in lighter skin has nearer kin among them than
        among the people, of mixed descent, whom it is to stand for.
        """
        (others, each), own = self.affinity[number], self.partition.groups[number]
        most = _AFFINITY_LOSS_MAX if self._apart(number) else 2 * _AFFINITY_LOSS_MAX
        less = [(each.mean() - group_affinity(take.faces, self.members, own, others)) / most]
        less += [
            -group_affinity(take.faces, self.members, own, theirs) / _FOREIGN_AFFINITY_MAX
            for theirs in self.foreign[number]
        ]
        return float(np.clip(max(less) - 1, 0, _FOREIGN_PENALTY))

    def _told(self, take: Candidate, number: int) -> GroupAffinity:
        """Return what is to be said of a group's descent and its portrait's."""
        (others, each), rows = self.affinity[number], self.partition.groups[number]
        own = self.subjects[rows]
        least = min(float(each[own == who].mean()) for who in np.unique(own))
        near = group_affinity(take.faces, self.members, rows, others)
        unlike = self._strange(take, number) >= _GOOD_PENALTY
        return GroupAffinity(float(each.mean()), least, near, self._apart(number), unlike)

    def _apart(self, number: int) -> bool:
        """Return whether a group's people are so near to one another that they are of one descent."""
        return bool(self.affinity[number][1].mean() > _AFFINITY_MARGIN)
