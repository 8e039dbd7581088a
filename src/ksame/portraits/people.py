"""People who do not exist, drawn by a generator, as a pool: the faces that videos borrow [S 7.3, 8.3.4]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame import weights
from ksame.core import CannotGuarantee, FloatArray, RandomState, UsageError
from ksame.faces.landmarks import closer
from ksame.pool import Pool
from ksame.portraits import texture
from ksame.portraits.group import tools
from ksame.portraits.measure import look
from ksame.portraits.surrogate import MALE, NEUTRAL, known
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS
from ksame.represent.generator import ATTRIBUTES, GeneratorSpace
from ksame.represent.synthesis import Generator

__all__ = ["people"]

JUDGES = ("sface", "mobilefacenet")  # to both of them all portraits are different people
LICENCE = "The new faces were drawn by MobileStyleGAN, distilled from StyleGAN2: not for commercial use."
_BATCH = 16  # portraits at a time, at most
_PSI = 0.8  # how far from the mean style: nearer ones look alike, further ones have more hair in the face
_AMONG = 96  # random styles for each wish
# years, and L* of the skin: darker ones are light-skinned people in the dark more often than dark-skinned
_SPAN = {"age": (18.0, 68.0), "light": (42.0, 76.0)}
_TURN = 8.0  # px on the canonical frame: more is not frontal
_GROWN = 16.0  # years
_BARE = -0.5  # standard deviations of glasses and hats, that are asked for
_ALIKE = 0.85  # of the distance up to which recognisers take two photos for one person
_QUALITY = 82  # of the stored pictures: 6 kB each
_PATIENCE = 60  # portraits drawn for each one wanted: a tenth are good


def people(
    size: int,
    *,
    generator: str | Path = "shipped",
    model: str | Path = "shipped",
    space: AppearanceSpace | None = None,
    seed: RandomState = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Pool:
    """Draw neutral, frontal portraits of different people and make a pool of their faces.

    Deviation: [S 7.3] borrows the difference between two faces of a pool and draws it with the appearance
    model. These faces are worn as they are drawn, skin and all: they are nobody's already.

    Parameters
    ----------
    size : int
        Number of identities. Of ten portraits that are drawn one or two are good; each takes half a second.
    generator, model : str or path
        ``shipped``, or the folder of a generator and the map that was learnt from it.
    space : AppearanceSpace, optional
        The model that videos are drawn with; by default the one in the box.
    seed, watch
        See ``ksame.pool.build``.

    Raises
    ------
    CannotGuarantee
        If the generator does not draw so many different faces.
    """
    if size < 2:
        raise UsageError(f"A pool has at least 2 identities. Got {size}.")
    guide, draws = tools(generator, model)
    weights.fetch(["landmarker"])
    model_of_videos = space or AppearanceSpace.shipped()
    casting = _Casting(guide, draws, model_of_videos, np.random.default_rng(seed))
    found: list[_Person] = []
    for _ in range(0, size * _PATIENCE, _BATCH):
        found += casting.more()
        if watch:
            watch("making faces", min(len(found), size), size)
        if len(found) >= size:
            return _pool(found[:size], model_of_videos, LICENCE if str(generator) == "shipped" else "")
    raise CannotGuarantee(
        f"The generator drew too few faces that differ for a pool of {size}: ask for fewer."
    )


class _Person(NamedTuple):
    """Somebody who does not exist."""

    code: FloatArray  # (d,) of the appearance model
    label: FloatArray  # (3,)
    picture: bytes


def _pool(found: list[_Person], space: AppearanceSpace, licence: str) -> Pool:
    codes = np.stack([one.code for one in found])
    labels = np.stack([one.label for one in found])
    pictures = tuple(one.picture for one in found)
    pool = Pool(codes, codes.copy(), labels, 1, space.digest, _said(), pictures, licence)
    return pool.shown_to([name for name in RECOGNISERS if weights.cached(name)], space.shape)


@dataclass(eq=False)
class _Casting:
    """Where people are drawn until enough are different; all who were taken are remembered."""

    guide: GeneratorSpace
    draws: Generator
    space: AppearanceSpace
    rng: np.random.Generator
    taken: dict[str, FloatArray] = field(default_factory=dict)  # what each judge makes of them

    def more(self) -> list[_Person]:
        """Draw some more and return those who are new."""
        portraits = self.guide.draw(self._codes(_BATCH), self.draws, half=True)
        seen = look(portraits, self.guide)
        good, pictures = [], []
        for row in np.flatnonzero(_plain(seen.attributes)).tolist():
            portrait = portraits[seen.rows[row]]
            mesh = closer(portrait, seen.faces.points[row])
            face = texture.worn(portrait, mesh, self.space)
            if texture.at_rest(mesh) and texture.clean(face, self.space):
                good.append(row)
                pictures.append(face)
        new = self._new(known(seen.faces[good], JUDGES)) if good else []
        some = [good[row] for row in new]
        if not some:
            return []
        codes = np.where(self.space.nuisance, 0.0, self.space.encode(seen.faces[some]))  # [S 7.3.2]
        stored = [_stored(pictures[row]) for row in new]
        return list(map(_Person, codes, _labels(seen.attributes[some]), stored))

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
        even = {name: self.rng.uniform(*span) for name, span in _SPAN.items()}
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
    """Return the distance up to which new faces are taken for one person when a pool is made.

    Less than elsewhere: portraits by one generator are nearer to one another than people are, and at the
    whole distance it draws some 120 different ones.
    """
    return _ALIKE * RECOGNISERS[judge].same_person


def _apart(taken: FloatArray | None, code: FloatArray) -> float:
    return np.inf if taken is None else float(np.linalg.norm(taken - code, axis=1).min())


def _stored(face: NDArray[np.uint8]) -> bytes:
    """Return a picture as a file."""
    _, file = cv2.imencode(".webp", face[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, _QUALITY])
    return file.tobytes()


def _said() -> str:
    """Return what the faces were compared with."""
    portraits = " and ".join(f"{name} (above {_same(name):.2f})" for name in JUDGES)
    return (
        f"Portraits that a generator drew, of different people to {portraits}; they were not compared with"
        " the photos that the generator learned from."
    )
