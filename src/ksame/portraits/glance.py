"""A glance at what styles would draw, in a tenth of the time: is ground plain, skin right and no hat there.

Neither can be told from a style: a line leaves 7 L* of the skin and says next to nothing of the ground; a
blurred picture of 64 px leaves 3.4 L* and knows nine of ten busy grounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core import FloatArray
from ksame.portraits.measure import busy
from ksame.portraits.styles import Styles
from ksame.portraits.unasked import Unasked
from ksame.portraits.wishes import NEAR
from ksame.represent.generator import GeneratorSpace
from ksame.represent.synthesis import Generator

__all__ = ["Glance", "chosen", "odd", "told"]

_SKIN = np.s_[34:42, 20:27], np.s_[34:42, 37:44], np.s_[21:25, 26:38]  # cheeks and forehead, of 64 px
_LIGHT, _GROUND = (0.94, 4.5), (1.28, -0.85)  # from a glance to what a picture has: 238 of london's
_PLAIN, _OFF = 3.5, 9.0  # a ground that is plain enough, and L* that can still be made good
_STEPS = {"light": 15.0, "tone": 15.0}  # at most: at an L* of 58 more of tone makes skin as yellow as none is
_HUE = 72.0  # beyond it skin is yellow or green, as none is; tone would not tell
_MANY = 6  # styles that are glanced at, at most
_WEIGHT = 3.0  # of a hat or a hand beside a busy ground, which is the lesser evil


class Glance(NamedTuple):
    """What a glance tells of a picture, as its attributes are measured."""

    light: float
    tone: float
    hue: float  # degrees from red to yellow
    ground: float
    unasked: Mapping[str, float] = MappingProxyType({})  # above 0: there is a hat, a hand or a neighbour


def told(picture: NDArray[np.uint8]) -> Glance:
    """Return what a small picture (64, 64, 3) tells."""
    lab = cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    skin = np.median(np.concatenate([lab[part].reshape(-1, 3) for part in _SKIN]), axis=0)
    light = float(np.polyval(_LIGHT, skin[0]))
    tone = float(np.degrees(np.arctan2(light - 50, skin[2])))
    hue = float(np.degrees(np.arctan2(skin[2], skin[1])))
    return Glance(light, tone, hue, float(np.polyval(_GROUND, busy(picture))))


def chosen(
    generator: Generator, styles: Styles, codes: FloatArray, wish: Mapping[str, float]
) -> tuple[int, FloatArray]:
    """Return which of codes (c, d), the best first, to draw, and that code with its skin set by a glance.

    The first that is plain, with skin that is not far off; else the one that misses that least.
    """
    if (seen := _glance(generator, styles.space, codes[0])) is None:
        return 0, codes[0]
    looked = [seen]
    while len(looked) < min(_MANY, len(codes)) and _bad(looked[-1], wish) > 0:
        looked.append(_glance(generator, styles.space, codes[len(looked)]) or seen)
    best = int(np.argmin([_bad(one, wish) for one in looked]))
    return best, _set(styles, codes[best], looked[best], wish)


def _set(styles: Styles, code: FloatArray, seen: Glance, wish: Mapping[str, float]) -> FloatArray:
    """Return a code (d,) whose skin should be as wished for, where it is not at a glance."""
    off = {name: wish[name] - getattr(seen, name) for name in _STEPS}
    if all(abs(by) <= NEAR[name] for name, by in off.items()):
        return code
    step = {name: float(np.clip(by, -_STEPS[name], _STEPS[name])) for name, by in off.items()}
    moved = styles.space.moved(code, dict.fromkeys(NEAR, 0.0) | {"hat": 0.0} | step, same=True)
    return np.asarray(styles.reined(moved[None])[0])


def odd(generator: Generator, space: GeneratorSpace, code: FloatArray, wish: Mapping[str, float]) -> float:
    """Return how surely the picture of a code (d,) shows a hat, a hand or a neighbour; up to 0 it does not.

    A hat is none of these where one is wished for. A generator that cannot be glanced at, or of whose
    pictures nothing was learnt, is trusted.
    """
    seen = _glance(generator, space, code)
    return 0.0 if seen is None else _most(seen, wish)


def _most(seen: Glance, wish: Mapping[str, float]) -> float:
    return max([0.0, *(sure for kind, sure in seen.unasked.items() if kind not in wish)])


def _glance(generator: Generator, space: GeneratorSpace, code: FloatArray) -> Glance | None:
    small = generator.glance(space.rows(code[None], generator))
    if small is None:
        return None
    known = Unasked.of(generator)
    return told(small.pictures[0])._replace(unasked=known.seen(small.inner)[0] if known else {})


def _bad(seen: Glance, wish: Mapping[str, float]) -> float:
    """Return by how much ground is too busy, skin off, light coloured or a hat there; 0: it can be drawn."""
    most = min(_PLAIN, wish.get("ground", np.inf) + 1)
    wrong = [seen.ground - most, abs(seen.light - wish["light"]) / _OFF - 1, (seen.hue - _HUE) / 10]
    return sum(max(0.0, one) for one in wrong) + _WEIGHT * _most(seen, wish)
