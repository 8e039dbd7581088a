"""People who do not exist, drawn by a generator, as a pool: the faces that videos borrow [S 7.3, 8.3.4]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ksame.core import FloatArray, RandomState
from ksame.pool import Pool
from ksame.pool.build import APART, Candidates, grown
from ksame.pool.build import look as seen_of
from ksame.portraits.group import NON_COMMERCIAL, tools
from ksame.portraits.learn import SPAN
from ksame.portraits.measure import Drawn, look
from ksame.portraits.surrogate import MALE, NEUTRAL, known
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS
from ksame.represent.generator import ATTRIBUTES, GeneratorSpace
from ksame.represent.synthesis import Generator

__all__ = ["people"]

JUDGES = ("sface", "mobilefacenet")  # to both of them all portraits are different people
_SEEN = RECOGNISERS[JUDGES[0]].dimensions
_BATCH = 32  # portraits at a time, at most
_PSI = 0.9  # how far from the mean style: nearer ones look alike
_AMONG = 24  # random styles for each wish
_TURN = 8.0  # px on the canonical frame: more is not frontal
_GROWN = 16.0  # years
_BARE = -0.5  # standard deviations of glasses and hats, that are asked for


def people(
    size: int,
    *,
    generator: str | Path = "shipped",
    model: str | Path = "shipped",
    space: AppearanceSpace | None = None,
    k: int = 2,
    seed: RandomState = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Pool:
    """Draw neutral, frontal portraits of different people and make a pool of their codes.

    Parameters
    ----------
    size : int
        Number of identities, at least 2k. A drawn face takes half a second.
    generator, model : str or path
        ``shipped``, or the folder of a generator and the map that was learnt from it.
    space : AppearanceSpace, optional
        The model that videos are drawn with; by default the one in the box.
    k, seed, watch
        See ``ksame.pool.build``.

    Raises
    ------
    CannotGuarantee
        If the generator does not draw so many different faces.
    """
    guide, draws = tools(generator, model)
    rng = np.random.default_rng(seed)
    model_of_videos = space or AppearanceSpace.shipped()
    casting = _Casting(guide, draws, model_of_videos, rng, batch=min(_BATCH, 2 * size))
    said = _said() + (f" {NON_COMMERCIAL}" if str(generator) == "shipped" else "")
    return grown(
        size, casting.more, model_of_videos, k=k, recogniser=JUDGES[0], said=said, rng=rng, watch=watch
    )


@dataclass(eq=False)
class _Casting:
    """Where people are drawn until enough are different; all who were taken are remembered."""

    guide: GeneratorSpace
    draws: Generator
    space: AppearanceSpace
    rng: np.random.Generator
    batch: int
    taken: dict[str, FloatArray] = field(default_factory=dict)  # what each judge makes of them

    def more(self) -> Candidates:
        """Draw some more and return those who are new."""
        seen = look(self.guide.draw(self._codes(self.batch), self.draws, half=True), self.guide)
        plain = np.flatnonzero(_plain(seen.attributes))
        new = plain[self._new(known(seen.faces[plain], JUDGES))]
        return self._coded(seen, new)

    def _codes(self, n: int) -> FloatArray:
        """Return random codes (n, d), turned to the front, even over gender, age and skin [S 8.3.4].

        For each wish the one of some random styles is taken that is nearest to it: what is steered far looks
        like others that were, and in the end not like a face.
        """
        styles = self.draws.styles(self.rng.standard_normal((n * _AMONG, self.draws.noise)))
        random = self.guide.mean + _PSI * (np.tile(styles, 2) - self.guide.mean)
        codes = []
        for some in np.split(random, n):
            wish, to = self._wish(), self.guide.told(some)
            to[:, [ATTRIBUTES.index(name) for name in wish]] = list(wish.values())
            codes.append(self.guide.steered(some[self.guide.effort(some, to).argmin()], wish))
        return np.stack(codes)

    def _wish(self) -> Mapping[str, float]:
        bare = dict(zip(ATTRIBUTES, self.guide.level + _BARE * self.guide.unit, strict=True))
        even = {name: self.rng.uniform(*span) for name, span in SPAN.items()}
        gender = MALE if self.rng.random() < 0.5 else -MALE
        return even | {
            "gender": gender, "smile": NEUTRAL, "yaw": 0.0, "glasses": bare["glasses"], "hat": bare["hat"],
        }  # fmt: skip

    def _new(self, codes: Mapping[str, FloatArray]) -> list[int]:
        """Return the rows that no judge takes for one of those before or for one who was taken."""
        rows = []
        for row in range(len(codes[JUDGES[0]])):
            one = {name: code[row] for name, code in codes.items()}
            if all(_apart(self.taken.get(name), code) > _same(name) for name, code in one.items()):
                rows.append(row)
                before = self.taken
                self.taken = {
                    name: code[None] if name not in before else np.vstack([before[name], code])
                    for name, code in one.items()
                }
        return rows

    def _coded(self, seen: Drawn, rows: NDArray[np.intp]) -> Candidates:
        """Return faces as codes of the appearance model, if what that draws of them is a face."""
        if not len(rows):
            return Candidates(*(np.zeros((0, n)) for n in (len(self.space.deviation), 3, _SEEN)))
        codes = np.where(self.space.nuisance, 0.0, self.space.encode(seen.faces[rows]))  # [S 7.3.2]
        found, views = seen_of(codes, self.space, JUDGES[0])
        return Candidates(codes[found], _labels(seen.attributes[rows])[found], views)


def _plain(attributes: FloatArray) -> NDArray[np.bool_]:
    """Return who (n,) is grown up, looks ahead, does not smile and wears neither glasses nor a hat."""
    told = dict(zip(ATTRIBUTES, attributes.T, strict=True))
    bare = (told["glasses"] < 0) & (told["hat"] < 0) & (told["age"] >= _GROWN)
    plain: NDArray[np.bool_] = bare & (told["smile"] < 0) & (np.abs(told["yaw"]) < _TURN)
    return plain


def _labels(attributes: FloatArray) -> FloatArray:
    """Return male, young, smiling (n, 3) in [-1, 1], as ``ksame.pool.learn.as_conditions`` spreads them."""
    told = dict(zip(ATTRIBUTES, attributes.T, strict=True))
    spread = [told["gender"] / 6, (50 - told["age"]) / 20, (told["smile"] - 3) / 4]
    labels: FloatArray = np.clip(np.stack(spread, axis=1), -1, 1)
    return labels


def _same(judge: str) -> float:
    """Return the distance up to which new faces are taken for one person when they are given to people.

    At that of ``surrogate.THRESHOLDS`` of 200 strangers, too, forty pairs would count as one person.
    """
    return RECOGNISERS[judge].same_person


def _apart(taken: FloatArray | None, code: FloatArray) -> float:
    return np.inf if taken is None else float(np.linalg.norm(taken - code, axis=1).min())


def _said() -> str:
    """Return what the faces were compared with."""
    portraits = " and ".join(f"{name} (above {_same(name)})" for name in JUDGES)
    limit = _same(JUDGES[0])
    return (
        f"Portraits that a generator drew, of different people to {portraits}; drawn from their codes no two"
        f" are nearer than {APART * limit:.2f} to {JUDGES[0]}, and no de-identified face is within"
        f" {limit:.2f} of its own; they were not compared with the photos that the generator learned from."
    )
