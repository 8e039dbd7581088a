"""One portrait for each group of people: mixed from their codes, set to their attributes, judged [A 3.4].

All who are in a group get the same file, hair, ears and ground included: nothing of any photo is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core import FaceSet, FloatArray, Guarantee, IntArray, Partition
from ksame.geometry import FRAME
from ksame.portraits.measure import Drawn, look
from ksame.replace import mix
from ksame.represent.appearance import on_frame
from ksame.represent.embedding import embed
from ksame.represent.generator import ATTRIBUTES, GeneratorSpace
from ksame.represent.synthesis import Generator

__all__ = ["THRESHOLDS", "Portraits", "known", "portraits", "recognised", "smiles"]

THRESHOLDS = {"sface": 1.128, "mobilefacenet": 1.01, "facenet": 0.91, "dlib": 0.6}
"""Distances below which a recogniser would call two faces one person: dlib's of the paper [A 3.4], SFace's of
its authors, and where one in 1,000 pairs of strangers among 341 legislators is nearer."""

GAIN = 1.3  # a mean of people, read off by a regression, is paler than any of them
SPIRIT = 0.7  # how much of a random face goes in: means of groups are too much alike
MALE, SMILING, NEUTRAL = 4.0, 3.0, -1.5  # log odds at which nobody doubts it
PLAIN = 1.0  # of the ground
_NEAR = {"gender": 2.0, "age": 5.0, "smile": 1.5, "light": 2.0, "tone": 8.0, "yaw": 4.0}
_NEAR |= {"nose": 2.0, "lips": 2.0, "width": 6.0}  # near enough
_FLAWED = {"ground": 3.6, "hat": -2.25, "glasses": -1.6}  # from where on there is what nobody asked for
_ODD = 1.0  # standard deviations of the mesh: beyond are features that melt
_CORRECTIONS = 2  # looks at a picture before it is taken as it is
_FINE = 0.3  # nobody is recognised, and the picture has hardly a flaw
_STEP = 0.7  # of what is off, that a correction makes good
_TRIES = 3  # random faces for a group whom no weights protect
_SPIRITS = 1500  # random styles to choose from, at least
_AMONG = 15  # of those that nobody has yet, the ones that must be changed least to fit a group


class Portraits(NamedTuple):
    """The portraits of groups."""

    codes: FloatArray  # (g, d): what was drawn
    drawn: Sequence[NDArray[np.uint8]]  # g pictures
    wished: FloatArray  # (g, a): the attributes that were asked for
    seen: FloatArray  # (g, a): those that the pictures have; NaN where no face is found
    guarantee: Guarantee
    at_risk: IntArray  # rows of faces that some recogniser takes for their group's portrait; keep it private


def known(faces: FaceSet, judges: Sequence[str]) -> dict[str, FloatArray]:
    """Return what each recogniser makes of faces: name to (n, d)."""
    mesh, scale = on_frame(faces), faces.rgb.shape[2] / FRAME.width
    return {
        name: np.concatenate(
            [embed(name, rgb, scale * p[None]) for rgb, p in zip(faces.rgb, mesh, strict=True)]
        ).astype(np.float64)
        for name in judges
    }


def portraits(
    space: GeneratorSpace,
    generator: Generator,
    codes: FloatArray,
    attributes: FloatArray,
    members: Mapping[str, FloatArray],
    partition: Partition,
    *,
    random_weights: float | None = None,
    rounds: int = 1,
    beta: float = 0.1,
    plain: bool = False,
    rng: np.random.Generator,
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
    random_weights, rounds, beta
        See ``ksame.replace.mix``: weights are drawn, and those of people at risk are reduced [A 3.4, 5.1].
    plain : bool
        Ask for a plain ground.
    rng : Generator
        For weights and random faces.
    watch : callable, optional
        Told how far it is.
    """
    studio = _Studio(space, generator, members, partition, _wishes(attributes, partition, plain), rng)
    mixed, _ = mix(
        codes,
        partition,
        random_weights=random_weights,
        rng=rng,
        at_risk=lambda code, rows: studio.judged(code, int(partition.labels[rows[0]]), rows, watch),
        beta=beta,
        rounds=rounds,
    )
    for number, rows in enumerate(partition.groups):
        studio.settle(mixed[rows[0]], number, rows)
        if watch:
            watch("settling portraits", number + 1, len(partition.groups))
    return studio.result()


def recognised(
    picture: Mapping[str, FloatArray] | None, members: Mapping[str, FloatArray], rows: IntArray
) -> NDArray[np.bool_]:
    """Return which faces some recogniser takes for a portrait, by what each makes of it.

    None: no face was found to judge by, so that everybody counts as recognised.
    """
    if picture is None:
        return np.ones(len(rows), bool)
    risk = np.zeros(len(rows), bool)
    for name, code in picture.items():
        risk |= np.linalg.norm(members[name][rows] - code, axis=1) < THRESHOLDS[name]
    return risk


def smiles(space: GeneratorSpace, generator: Generator, code: FloatArray, *, to: bool) -> NDArray[np.uint8]:
    """Draw the person of a code once more, smiling or not, and otherwise the same."""
    now = dict(zip(ATTRIBUTES, space.told(code[None])[0].tolist(), strict=True))
    change = dict.fromkeys(_NEAR, 0.0) | {"smile": (SMILING if to else NEUTRAL) - now["smile"]}
    moved = space.moved(code, change)
    drawn: NDArray[np.uint8] = space.draw(moved[None], generator)[0]
    return drawn


class _Take(NamedTuple):
    """One try at a portrait."""

    code: FloatArray
    seen: Drawn | None
    error: float  # of the attribute that is farthest off, in what is near enough
    flaws: float  # 0: it looks like a photo of a bare-headed person


@dataclass(eq=False)
class _Studio:
    """Where portraits are drawn and judged; what was drawn last for a group is kept."""

    space: GeneratorSpace
    generator: Generator
    members: Mapping[str, FloatArray]
    partition: Partition
    wishes: Sequence[Mapping[str, float]]
    rng: np.random.Generator
    takes: dict[int, _Take] = field(default_factory=dict)
    spirits: dict[int, IntArray] = field(default_factory=dict)  # which fit a group, in the order of trial
    risky: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    faces: dict[int, dict[str, FloatArray]] = field(default_factory=dict)  # what recognisers make of them

    @cached_property
    def styles(self) -> FloatArray:
        """Random styles (s, d), as differences from the mean."""
        count = max(_SPIRITS, 2 * (_TRIES + 1) * len(self.wishes))  # so that no two groups take the same
        z = self.rng.standard_normal((count, self.generator.noise))
        return np.tile(self.generator.styles(z), 2) - self.space.mean

    def judged(
        self, code: FloatArray, number: int, rows: IntArray, watch: Callable[[str, int, int], None] | None
    ) -> NDArray[np.bool_]:
        """Draw a group's portrait from its mixed code and say who is recognised in it."""
        if number not in self.spirits:
            self.spirits[number] = self._fitting(code, self.wishes[number])
            if watch:
                watch("drawing portraits", number + 1, len(self.wishes))
        return self._take(code, number, rows, 0)

    def settle(self, code: FloatArray, number: int, rows: IntArray) -> None:
        """Try other random faces for a group in whose portrait somebody is recognised, and keep the best."""
        best = self._now(number, rows)
        for tried in range(1, _TRIES + 1):
            if best[0] < _FINE:
                break
            self._take(code, number, rows, tried)
            best = min(best, self._now(number, rows), key=lambda one: one[0])
        _, self.takes[number], self.risky[number], self.faces[number] = best

    def _now(
        self, number: int, rows: IntArray
    ) -> tuple[float, _Take, NDArray[np.bool_], dict[str, FloatArray]]:
        return self._badness(number, rows), self.takes[number], self.risky[number], self.faces[number]

    def result(self) -> Portraits:
        """Draw what was settled at full size."""
        groups = range(len(self.wishes))
        codes = np.stack([self.takes[number].code for number in groups])
        self.generator.let_go()  # the networks of both sizes would not fit in memory together
        drawn = [self.space.draw(code[None], self.generator)[0] for code in codes]
        wished = np.stack([[self.wishes[n].get(name, np.nan) for name in ATTRIBUTES] for n in groups])
        none = np.full(len(ATTRIBUTES), np.nan)
        found = [self.takes[n].seen for n in groups]
        seen = np.stack([none if one is None else one.attributes[0] for one in found])
        stuck = np.sort(np.concatenate([r[self.risky[n]] for n, r in enumerate(self.partition.groups)]))
        guarantee = Guarantee("k-anonymity", self.partition.k, self.partition.bound)
        return Portraits(codes, drawn, wished, seen, guarantee, stuck)

    def _take(self, code: FloatArray, number: int, rows: IntArray, tried: int) -> NDArray[np.bool_]:
        spirit = self.styles[self.spirits[number][tried]]
        take = self._set(self._begun(code) + SPIRIT * spirit, self.wishes[number])
        self.takes[number] = take
        found = None if take.seen is None else known(take.seen.faces, list(self.members))
        self.faces[number] = found or {}
        self.risky[number] = recognised(found, self.members, rows)
        return self.risky[number]

    def _begun(self, code: FloatArray) -> FloatArray:
        """Return a group's code with more of what is its own."""
        begun: FloatArray = self.space.mean + GAIN * (code - self.space.mean)
        return begun

    def _fitting(self, code: FloatArray, wish: Mapping[str, float]) -> IntArray:
        """Return random styles that with a group's code nearly give what is wished for, in random order.

        What must be steered far leaves the space of faces.
        """
        begun = self._begun(code) + SPIRIT * self.styles
        effort = self.space.effort(begun, self._asked(begun, wish))
        effort[[spirit for tried in self.spirits.values() for spirit in tried]] = np.inf
        return self.rng.permutation(np.argsort(effort)[:_AMONG])[: _TRIES + 1]

    def _asked(self, codes: FloatArray, wish: Mapping[str, float]) -> FloatArray:
        """Return the attributes (n, a) that codes should get: the wishes, and less than usual of the rest."""
        told = self.space.told(codes)
        asked = told.copy()
        for name in _FLAWED:
            at = ATTRIBUTES.index(name)
            asked[:, at] = np.minimum(told[:, at], self.space.level[at] - 0.5 * self.space.unit[at])
        for name, value in wish.items():
            asked[:, ATTRIBUTES.index(name)] = value
        return asked

    def _set(self, code: FloatArray, wish: Mapping[str, float]) -> _Take:
        """Move a code to where its picture has the attributes that are wished for, looking at the picture."""
        asked = self._asked(code[None], wish)[0]
        code = self.space.steered(code, dict(zip(ATTRIBUTES, asked.tolist(), strict=True)))
        best: _Take | None = None
        for _ in range(_CORRECTIONS + 1):
            seen = look(self.space.draw(code[None], self.generator, half=True), self.space)
            if not len(seen.rows):  # too far out to be a face
                code = self.space.mean + 0.8 * (code - self.space.mean)
                best = best or _Take(code, None, np.inf, np.inf)
                continue
            off = _off(wish, dict(zip(ATTRIBUTES, seen.attributes[0].tolist(), strict=True)))
            error = max(abs(value) / _NEAR[name] for name, value in off.items())
            take = _Take(code, seen, error, self._flaws(seen, wish))
            if best is None or max(error, 1) + take.flaws < max(best.error, 1) + best.flaws:
                best = take
            if error <= 1 or take.flaws > 1:  # a picture that is no good need not be right
                break
            most = dict(zip(ATTRIBUTES, self.space.unit.tolist(), strict=True))
            step = {name: float(np.clip(_STEP * by, -most[name], most[name])) for name, by in off.items()}
            code = self.space.moved(code, step)
        assert best is not None  # there is at least one look
        return best

    def _flaws(self, seen: Drawn, wish: Mapping[str, float]) -> float:
        """Return how much is wrong with a picture: features that melt, a busy ground, a hat, glasses."""
        odd = float(self.space.oddness(self.space.whitened(seen.read))[0])
        wrong = [max(0.0, odd / _ODD - 1) * 4]
        for name, most in _FLAWED.items():
            at = ATTRIBUTES.index(name)
            if name not in wish:
                wrong.append(max(0.0, (float(seen.attributes[0, at]) - most) / float(self.space.unit[at])))
        return max(wrong)

    def _badness(self, number: int, rows: IntArray) -> float:
        """Return how bad it is: people are recognised, or it is like another's, or does not look right."""
        if self.takes[number].seen is None:
            return float(len(rows) + 1)
        alike = any(
            np.linalg.norm(other[name] - code) < THRESHOLDS[name]
            for place, other in self.faces.items()
            for name, code in self.faces[number].items()
            if place < number and other
        )
        return float(self.risky[number].sum() + 0.5 * alike + min(self.takes[number].flaws, 0.9) / 2)


def _off(wish: Mapping[str, float], seen: Mapping[str, float]) -> dict[str, float]:
    """Return by how much a picture misses each wish; who looks more like a man than wished misses none."""
    off = {name: wish[name] - seen[name] for name in _NEAR}
    for name, enough in (("gender", 2.0), ("smile", 1.0)):
        if seen[name] * wish[name] > 0 and abs(seen[name]) >= min(enough, abs(wish[name])):
            off[name] = 0.0
    return off


def _wishes(attributes: FloatArray, partition: Partition, plain: bool) -> list[dict[str, float]]:
    """Return what each group's portrait should look like: its people's mean, without doubt of gender."""
    alone = np.arange(len(attributes))
    who = alone if partition.subjects is None else np.unique(partition.subjects, return_inverse=True)[1]
    wishes = []
    for rows in partition.groups:
        people = np.stack([attributes[rows[who[rows] == one]].mean(axis=0) for one in np.unique(who[rows])])
        mean = dict(zip(ATTRIBUTES, people.mean(axis=0).tolist(), strict=True))
        wish = {name: mean[name] for name in ("age", "light", "tone", "nose", "lips", "width")}
        smiling = (attributes[rows, ATTRIBUTES.index("smile")] > 0).mean() > 0.5
        wish |= {"gender": float(np.copysign(MALE, mean["gender"])), "smile": SMILING if smiling else NEUTRAL}
        wish |= {"yaw": 0.0} | {name: mean[name] for name in ("glasses", "hat") if mean[name] > 0}
        wishes.append(wish | ({"ground": PLAIN} if plain else {}))
    return wishes
