"""One portrait for each group of people: mixed from their codes, set to their attributes, judged [A 3.4].

All who are in a group get the same file, hair, ears and ground included: nothing of any photo is in it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core import FloatArray, Guarantee, IntArray, Partition
from ksame.portraits.glance import chosen, odd
from ksame.portraits.judge import THRESHOLDS, kinship, known, limit, recognised
from ksame.portraits.measure import Drawn, Light, exposed, largest, look, seen_exposed, yellow
from ksame.portraits.styles import Styles
from ksame.portraits.turns import in_turn
from ksame.portraits.wishes import MALE, NEAR, NEUTRAL, SMILING, missed, named, wishes_of
from ksame.replace import mix
from ksame.represent.embedding import RECOGNISERS
from ksame.represent.generator import ATTRIBUTES, GeneratorSpace
from ksame.represent.synthesis import Generator

__all__ = [
    "MALE", "NEUTRAL", "SMILING", "THRESHOLDS", "Kin", "Portraits", "known", "portraits", "recognised",
    "smiles",
]  # fmt: skip

_FLAWED = {"ground": 3.6, "hat": -2.35, "glasses": -1.6}  # from where on there is what nobody asked for
_ODD = 1.0  # standard deviations of the mesh: beyond are features that melt
_DYED = 0.2  # of how light skin is, that a correction may change
_CORRECTIONS, _ENOUGH = 2, 1.3  # of a picture at most, and times what is near enough that need none
_LOOSE = dict.fromkeys(("tone", "yaw", "nose", "lips", "width"), 1.5) | {"age": 1.25}  # times that
_FINE = 0.2  # nobody is recognised, and the picture has hardly a flaw
_UNASKED = 0.5  # the flaw of what is rather a hat, a hand or a neighbour than not: never fine
_APART = 0.15  # thresholds by which people are nearer to their own group, if it is of one descent
_STRANGE = 0.05  # by which a portrait may then be less like them than they are, else twice: see `kinship`
_NEARER = 0.03  # by which it may be nearer to another group of one descent than to its own people
_WORST = 3.0  # photos of members near a portrait that are a lesser evil than another descent
_FAR = 2.0  # times what is near enough, beyond it, that count as a whole: 10 years are not fine, 13 were
_STEP = 0.7  # of what is off, that a correction makes good
_EXPOSED = 6.0, 0.1  # of L*, or as a share of it, at most: what is still off then
_DARKER = 8.0  # of L*, at most, likewise: less light washes nothing out
_WARMER = 3.0  # of b*, at most, likewise
_TRIES, _MORE = 5, 3  # random faces more for a group whom no weights protect, and for one of one descent
_HELPERS = 2  # at most: each draws, looks and judges by itself
_SHRUNK = (1.0, 0.8, 0.64)  # of what is special about a code: too far out there is no face


class Kin(NamedTuple):
    """How much nearer faces are to a group's people than to others of its gender: see ``kinship``."""

    people: float  # to one another
    least: float  # of the person who is least like the others: how mixed the group is
    portrait: float
    apart: bool  # the people stand apart, as those of one descent do
    unlike: bool  # the portrait is less like them than it should be, or more like others


class Portraits(NamedTuple):
    """The portraits of groups."""

    codes: FloatArray  # (g, d): what was drawn
    lights: Sequence[Light]  # g: how it was exposed then
    drawn: Sequence[NDArray[np.uint8]]  # g pictures
    wished: FloatArray  # (g, a): the attributes that were asked for
    seen: FloatArray  # (g, a): those that the pictures have; NaN where no face is found
    guarantee: Guarantee
    at_risk: IntArray  # rows of faces that a recogniser takes for their group's portrait: private
    kin: Sequence[Kin]  # g: private


def portraits(
    space: GeneratorSpace,
    generator: Generator,
    codes: FloatArray,
    attributes: FloatArray,
    members: Mapping[str, FloatArray],
    partition: Partition,
    *,
    random_weights: float | None = None,
    beta: float = 0.1,
    plain: bool = False,
    grey: Collection[int] = (),
    rng: np.random.Generator,
    jobs: int | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Portraits:
    """Draw a portrait for each group that no recogniser takes for one of its people, if that can be done.

    Parameters
    ----------
    space, generator
        The face space and what draws it.
    codes, attributes : (n, d), (n, a)
        Of the faces.
    members : mapping of str to (n, e)
        What the recognisers that judge make of the faces: see ``known``.
    partition : Partition
        The groups.
    random_weights, beta
        See ``ksame.replace.mix``: weights are drawn, and those of people at risk are reduced [A 3.4, 5.1].
        Deviation: once, and then other random faces are tried: they help more than further rounds.
    plain, rng
        Ask for a plain ground; for weights and random faces.
    grey : collection of int
        Groups whose portrait has no colour.
    jobs, watch
        See ``ksame.deidentify``; at most two portraits are worked on at a time.
    """
    helpers = ThreadPoolExecutor(min(jobs or os.cpu_count() or 1, _HELPERS))
    wishes = wishes_of(attributes, partition, plain)
    studio = _Studio(space, generator, codes, members, partition, wishes, rng, helpers, watch, grey)
    try:
        return _made(studio, random_weights, beta)
    finally:  # a thread that is still inside a network when the interpreter ends would abort the process
        helpers.shutdown(cancel_futures=True)


def _made(studio: _Studio, random_weights: float | None, beta: float) -> Portraits:
    partition, codes = studio.partition, studio.codes
    first = [int(rows[0]) for rows in partition.groups]
    same = int(studio.rng.integers(2**63))  # the weights are drawn alike both times
    mixed, _ = mix(codes, partition, random_weights=random_weights, rng=same)
    at_risk = studio.attempt("drawing portraits", mixed[first], [1] * len(first))
    mixed, _ = mix(
        codes,
        partition,
        random_weights=random_weights,
        rng=same,
        # who is recognised; then nobody, since what the reduced weights make is drawn with all the others
        at_risk=lambda _, rows: at_risk.pop(int(partition.labels[rows[0]]), np.zeros(len(rows), bool)),
        beta=beta,
        rounds=1,
    )
    studio.attempt("trying again", mixed[first], [studio.tries(number) for number in range(len(first))])
    return studio.result()


def smiles(
    space: GeneratorSpace, generator: Generator, code: FloatArray, *, to: bool, light: Light
) -> NDArray[np.uint8]:
    """Draw the person of a code once more, smiling or not, and otherwise the same."""
    now = dict(zip(ATTRIBUTES, space.told(code[None])[0].tolist(), strict=True))
    change = dict.fromkeys(NEAR, 0.0) | {"smile": (SMILING if to else NEUTRAL) - now["smile"]}
    moved = space.moved(code, change)
    return exposed(space.draw(moved[None], generator)[0], light)


class _Take(NamedTuple):
    """One try at a portrait."""

    code: FloatArray
    picture: NDArray[np.uint8]
    seen: Drawn | None
    error: float  # of the attribute that is farthest off, in what is near enough
    flaws: float  # 0: it looks like a photo of a bare-headed person
    faces: dict[str, FloatArray]  # what recognisers make of it
    risky: NDArray[np.bool_]  # (m,): whom of the group they take it for
    light: Light = Light()  # how it is exposed
    odd: float = 0.0  # how surely it shows a hat, a hand or a neighbour: see `glance.odd`
    done: bool = False  # its attributes were corrected


@dataclass(eq=False)
class _Studio:
    """Where portraits are drawn and judged; the one that is best for a group is kept."""

    space: GeneratorSpace
    generator: Generator
    codes: FloatArray  # (n, d): of the faces
    members: Mapping[str, FloatArray]
    partition: Partition
    wishes: Sequence[Mapping[str, float]]
    rng: np.random.Generator
    helpers: ThreadPoolExecutor
    watch: Callable[[str, int, int], None] | None = None
    grey: Collection[int] = ()
    kept: dict[int, _Take] = field(default_factory=dict)  # the portraits that are fine
    best: dict[int, tuple[float, _Take]] = field(default_factory=dict)  # of the others, and how bad it is
    plans: dict[int, FloatArray] = field(default_factory=dict)  # the code that a group is to be drawn from

    @cached_property
    def styles(self) -> Styles:
        """Random styles to mix in, so many that no two groups take the same."""
        tries = (_TRIES + _MORE + 1) * len(self.wishes)
        return Styles.drawn(self.space, self.generator, tries, self.rng)

    @cached_property
    def subjects(self) -> NDArray[Any]:
        """Whose each face is (n,)."""
        of = self.partition.subjects
        return np.arange(len(self.codes)) if of is None else of

    @cached_property
    def limits(self) -> list[dict[str, float]]:
        """How near a portrait of each group may be to a member, by each recogniser; see ``limit``."""
        return [
            {name: limit(codes[rows], self.subjects[rows], name) for name, codes in self.members.items()}
            for rows in self.partition.groups
        ]

    @cached_property
    def kin(self) -> list[tuple[IntArray, FloatArray]]:
        """For each group the faces of others of its gender, and how much nearer its own are to it (m,)."""
        found = []
        for number in range(len(self.wishes)):
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
        man = self.wishes[number]["gender"] > 0
        return [(wish["gender"] > 0) == man and i != number for i, wish in enumerate(self.wishes)]

    def _kinships(self, number: int, others: IntArray) -> FloatArray:
        """Return how much nearer each face of a group is to its other people than to others (m,)."""
        rows = self.partition.groups[number]
        each = [
            kinship(
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
        return _TRIES + _MORE * self._apart(number)

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

        def settled(number: int, take: _Take) -> bool:
            noted[number] += 1
            risky[number] = take.risky
            self._note(number, take)
            if self.watch:
                over = sum(one in self.kept or noted[one] == most for one, most in mine.items())
                self.watch(stage, over, len(mine))
            return number in self.kept

        in_turn(mine, lambda number: self._begun(number, codes[number]), settled)
        return risky

    def _begun(self, number: int, code: FloatArray) -> Future[_Take]:
        """Begin a try: plans are made one after another, because each keeps away from all the others."""
        others = [plan for place, plan in self.plans.items() if place != number]
        people = self.codes[self.partition.groups[number]]
        strangers = self.codes[self.kin[number][0][: None if self._apart(number) else 0]]
        wish = self.wishes[number]
        numbers, fitting = self.styles.fitting(code, wish, people, self.codes, strangers, np.array(others))
        best, plan = chosen(self.generator, self.styles, fitting, wish)
        self.styles.used.append(int(numbers[best]))
        self.plans[number] = plan
        return self.helpers.submit(self._tried, number, plan, tuple(self.kept.values()))

    def _note(self, number: int, take: _Take) -> None:
        """Keep a take that is fine, or that is the best of a group, unless it has one that is fine."""
        if number in self.kept:
            return
        bad = self._badness(take, number, self.kept.values())
        if take.done and bad < _FINE:
            self.kept[number] = take
            self.best.pop(number, None)  # 3 MB
        elif number not in self.best or bad < self.best[number][0]:
            self.best[number] = bad, take

    def result(self) -> Portraits:
        """Return what is fine, and the best of all tries where nothing is."""
        left = [number for number in range(len(self.wishes)) if number not in self.kept]
        rest = self.helpers.map(
            lambda number: self._corrected(self.best[number][1], number, flawed=True), left
        )
        found = self.kept | dict(zip(left, rest, strict=True))
        takes = [found[number] for number in range(len(self.wishes))]
        self.generator.let_go()
        wished = np.stack([[wish.get(name, np.nan) for name in ATTRIBUTES] for wish in self.wishes])
        none = np.full(len(ATTRIBUTES), np.nan)
        seen = np.stack([none if take.seen is None else take.seen.attributes[0] for take in takes])
        stuck = [
            rows[recognised(take.faces or None, self.members, rows)]
            for rows, take in zip(self.partition.groups, takes, strict=True)
        ]
        guarantee = Guarantee("k-anonymity", self.partition.k, self.partition.bound)
        codes, lights, drawn = zip(*((take.code, take.light, take.picture) for take in takes), strict=True)
        at_risk = np.sort(np.concatenate(stuck))
        kin = [self._told(take, number) for number, take in enumerate(takes)]
        return Portraits(np.stack(codes), lights, drawn, wished, seen, guarantee, at_risk, kin)

    def _tried(self, number: int, plan: FloatArray, kept: Sequence[_Take]) -> _Take:
        """Draw what a group is to be drawn from, and judge it; correct it if it is fine beside what is kept.

        Of 37 portraits in which nobody was recognised at a first look, one was when it was corrected, of 28
        others 23 still were.
        """
        special = plan - self.space.mean
        for share in _SHRUNK:
            take = self._looked_at(self.space.mean + share * special, number)
            if take.seen is not None:
                break
        take = self._judged(take, number)
        return self._corrected(take, number) if self._badness(take, number, kept) < _FINE else take

    def _looked_at(self, code: FloatArray, number: int) -> _Take:
        picture = self.space.draw(code[None], self.generator)[0]
        everybody = np.ones(len(self.partition.groups[number]), bool)
        shows = odd(self.generator, self.space, code, self.wishes[number])
        take = _Take(code, picture, None, np.inf, np.inf, {}, everybody, odd=shows)
        half = cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)  # no less is seen
        seen = look(half[None], self.space)
        return self._measured(take, seen, number) if len(seen.rows) else take

    def _measured(self, take: _Take, seen: Drawn, number: int) -> _Take:
        off = missed(self.wishes[number], named(seen))
        error = max(abs(value) / NEAR[name] / _LOOSE.get(name, 1) for name, value in off.items())
        flaws = max(self._flaws(seen, self.wishes[number]), _UNASKED + take.odd if take.odd else 0.0)
        return take._replace(seen=seen, error=error, flaws=flaws)

    def _judged(self, take: _Take, number: int) -> _Take:
        """Let all recognisers compare a take with every member."""
        found = None if take.seen is None else known(take.seen.faces, list(self.members), take.seen.read)
        return self._known(take, found, number)

    def _published(self, take: _Take, number: int) -> _Take:
        """Expose a take and judge the very picture that is published."""
        light = take.light._replace(grey=number in self.grey)
        picture = exposed(take.picture, light)
        rows, face = largest(picture[None])
        found = known(face, list(self.members)) if len(rows) else None
        return self._known(take._replace(picture=picture, light=light, done=True), found, number)

    def _known(self, take: _Take, found: dict[str, FloatArray] | None, number: int) -> _Take:
        risky = recognised(found, self.members, self.partition.groups[number], self.limits[number])
        return take._replace(faces=found or {}, risky=risky)

    def _corrected(self, now: _Take, number: int, *, flawed: bool = False) -> _Take:
        """Move a take to where its picture has the attributes that are wished for, looking at the picture.

        What has flaws need not be right, unless there is nothing better.
        """
        if now.done:
            return now
        best = self._exposed(now, number)
        most = dict(zip(ATTRIBUTES, self.space.unit.tolist(), strict=True))
        for _ in range(_CORRECTIONS):
            if now.seen is None or best.error <= _ENOUGH or (now.flaws > 1 and not flawed):
                break
            off = missed(self.wishes[number], named(now.seen))
            step = {name: float(np.clip(_STEP * by, -most[name], most[name])) for name, by in off.items()}
            step["hat"] = 0.0  # else one comes along
            moved = self.space.moved(now.code, step, same=True)
            now = self._looked_at(self.styles.reined(moved[None])[0], number)
            lit = self._exposed(now, number)
            if max(lit.error, 1) + lit.flaws < max(best.error, 1) + best.flaws:
                best = lit
        return self._published(best, number)

    def _exposed(self, take: _Take, number: int) -> _Take:
        """Expose a take so that its skin is as light and as warm as wished for, or nearly."""
        if take.seen is None:
            return take
        skin, wish = named(take.seen), self.wishes[number]
        now = max(skin["light"], 2 * _EXPOSED[0])
        most = max(_EXPOSED[0], _EXPOSED[1] * now)
        to = now + float(np.clip(wish["light"] - now, -max(_DARKER, most), most))
        warmer = yellow(to, wish["tone"]) - yellow(skin["light"], skin["tone"])
        light = Light(to / now, float(np.nan_to_num(np.clip(warmer, -_WARMER, _WARMER))))
        return self._measured(take, seen_exposed(take.seen, light, self.space), number)._replace(light=light)

    def _flaws(self, seen: Drawn, wish: Mapping[str, float]) -> float:
        """Return how much is wrong with a picture: features that melt, a busy ground, a hat, glasses.

        And skin so far from what is wished for that, dyed, it would be that of another descent.
        """
        odd = float(self.space.oddness(self.space.whitened(seen.read))[0])
        dyed = abs(named(seen)["light"] / wish["light"] - 1)
        wrong = [max(0.0, odd / _ODD - 1) * 4, max(0.0, dyed / _DYED - 1) * 2]
        for name, most in _FLAWED.items():
            at = ATTRIBUTES.index(name)
            if name not in wish:
                wrong.append(max(0.0, (float(seen.attributes[0, at]) - most) / float(self.space.unit[at])))
        return max(wrong)

    def _badness(self, take: _Take, number: int, kept: Iterable[_Take]) -> float:
        """Return how bad it is: people are recognised, or it is like a kept one, or does not look right."""
        if take.seen is None:
            return float(len(take.risky) + 1)
        alike = any(
            np.linalg.norm(other.faces[name] - code) <= RECOGNISERS[name].same_person
            for other in kept
            for name, code in take.faces.items()
        )
        off = min(max(take.error - 1, 0.0) / _FAR, 0.5) * take.done
        return float(
            take.risky.sum() + 0.5 * alike + min(take.flaws, 0.9) / 2 + off + self._strange(take, number)
        )

    def _strange(self, take: _Take, number: int) -> float:
        """Return how much less like its people a take is than they are to one another, or like others.

        It is what tells descent: a white woman in the dark has a black woman's skin, and no nearer kin among
        black women than among others; a black woman's face in lighter skin has nearer kin among them than
        among the people, of mixed descent, whom it is to stand for.
        """
        (others, each), own = self.kin[number], self.partition.groups[number]
        most = _STRANGE if self._apart(number) else 2 * _STRANGE
        less = [(each.mean() - kinship(take.faces, self.members, own, others)) / most]
        less += [-kinship(take.faces, self.members, own, theirs) / _NEARER for theirs in self.foreign[number]]
        return float(np.clip(max(less) - 1, 0, _WORST))

    def _told(self, take: _Take, number: int) -> Kin:
        """Return what is to be said of a group's descent and its portrait's."""
        (others, each), rows = self.kin[number], self.partition.groups[number]
        own = self.subjects[rows]
        least = min(float(each[own == who].mean()) for who in np.unique(own))
        near = kinship(take.faces, self.members, rows, others)
        unlike = self._strange(take, number) >= _FINE
        return Kin(float(each.mean()), least, near, self._apart(number), unlike)

    def _apart(self, number: int) -> bool:
        """Return whether a group's people are so near to one another that they are of one descent."""
        return bool(self.kin[number][1].mean() > _APART)
