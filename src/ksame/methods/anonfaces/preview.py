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

from ksame.core.arrays import FloatArray
from ksame.methods.anonfaces.artifact_detector import ArtifactDetector
from ksame.methods.anonfaces.measure import background_busyness
from ksame.methods.anonfaces.styles import StylePool
from ksame.methods.anonfaces.targets import ATTRIBUTE_TOLERANCES
from ksame.models.generator import ImageGenerator
from ksame.spaces.generator_space import GeneratorSpace

__all__ = ["Preview", "artifact_score", "choose_style", "measure_preview"]

_SKIN_PATCHES = np.s_[34:42, 20:27], np.s_[34:42, 37:44], np.s_[21:25, 26:38]  # cheeks and forehead, of 64 px
_LIGHT_FIT, _BACKGROUND_FIT = (
    (0.94, 4.5),
    (1.28, -0.85),
)  # from a glance to what a picture has: 238 of london's
_PLAIN_BACKGROUND_MAX, _SKIN_L_ERROR_MAX = (
    3.5,
    9.0,
)  # a ground that is plain enough, and L* that can still be made good
_MAX_SKIN_STEPS = {
    "light": 15.0,
    "tone": 15.0,
}  # at most: at an L* of 58 more of tone makes skin as yellow as none is
_SKIN_HUE_MAX_DEGREES = 72.0  # beyond it skin is yellow or green, as none is; tone would not tell
_PREVIEWED_STYLES_MAX = 6  # styles that are glanced at, at most
_ARTIFACT_WEIGHT = 3.0  # of a hat or a hand beside a busy ground, which is the lesser evil


class Preview(NamedTuple):
    """What a glance tells of a picture, as its attributes are measured."""

    light: float
    tone: float
    hue: float  # degrees from red to yellow
    background: float
    artifact: Mapping[str, float] = MappingProxyType({})  # above 0: there is a hat, a hand or a neighbour


def measure_preview(image: NDArray[np.uint8]) -> Preview:
    """Return what a small picture (64, 64, 3) tells."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    skin = np.median(np.concatenate([lab[part].reshape(-1, 3) for part in _SKIN_PATCHES]), axis=0)
    light = float(np.polyval(_LIGHT_FIT, skin[0]))
    tone = float(np.degrees(np.arctan2(light - 50, skin[2])))
    hue = float(np.degrees(np.arctan2(skin[2], skin[1])))
    return Preview(light, tone, hue, float(np.polyval(_BACKGROUND_FIT, background_busyness(image))))


def choose_style(
    generator: ImageGenerator, styles: StylePool, codes: FloatArray, target: Mapping[str, float]
) -> tuple[int, FloatArray]:
    """Return which of codes (c, d), the best first, to draw, and that code with its skin set by a glance.

    The first that is plain, with skin that is not far off; else the one that misses that least.
    """
    if (seen := _preview_code(generator, styles.space, codes[0])) is None:
        return 0, codes[0]
    looked = [seen]
    while len(looked) < min(_PREVIEWED_STYLES_MAX, len(codes)) and _preview_penalty(looked[-1], target) > 0:
        looked.append(_preview_code(generator, styles.space, codes[len(looked)]) or seen)
    best = int(np.argmin([_preview_penalty(one, target) for one in looked]))
    return best, _correct_skin(styles, codes[best], looked[best], target)


def _correct_skin(
    styles: StylePool, code: FloatArray, seen: Preview, target: Mapping[str, float]
) -> FloatArray:
    """Return a code (d,) whose skin should be as wished for, where it is not at a glance."""
    off = {name: target[name] - getattr(seen, name) for name in _MAX_SKIN_STEPS}
    if all(abs(by) <= ATTRIBUTE_TOLERANCES[name] for name, by in off.items()):
        return code
    step = {
        name: float(np.clip(by, -_MAX_SKIN_STEPS[name], _MAX_SKIN_STEPS[name])) for name, by in off.items()
    }
    moved = styles.space.shift_attributes(
        code, dict.fromkeys(ATTRIBUTE_TOLERANCES, 0.0) | {"hat": 0.0} | step, same=True
    )
    return np.asarray(styles.reined(moved[None])[0])


def artifact_score(
    generator: ImageGenerator, space: GeneratorSpace, code: FloatArray, target: Mapping[str, float]
) -> float:
    """Return how surely the picture of a code (d,) shows a hat, a hand or a neighbour; up to 0 it does not.

    A hat is none of these where one is wished for. A generator that cannot be glanced at, or of whose
    pictures nothing was learnt, is trusted.
    """
    seen = _preview_code(generator, space, code)
    return 0.0 if seen is None else _largest_background(seen, target)


def _largest_background(seen: Preview, target: Mapping[str, float]) -> float:
    return max([0.0, *(sure for kind, sure in seen.artifact.items() if kind not in target)])


def _preview_code(generator: ImageGenerator, space: GeneratorSpace, code: FloatArray) -> Preview | None:
    small = generator.preview(space.layer_styles(code[None], generator))
    if small is None:
        return None
    known = ArtifactDetector.of(generator)
    return measure_preview(small.images[0])._replace(artifact=known.seen(small.inner)[0] if known else {})


def _preview_penalty(seen: Preview, target: Mapping[str, float]) -> float:
    """Return by how much ground is too busy, skin off, light coloured or a hat there; 0: it can be drawn."""
    most = min(_PLAIN_BACKGROUND_MAX, target.get("background", np.inf) + 1)
    wrong = [
        seen.background - most,
        abs(seen.light - target["light"]) / _SKIN_L_ERROR_MAX - 1,
        (seen.hue - _SKIN_HUE_MAX_DEGREES) / 10,
    ]
    return sum(max(0.0, one) for one in wrong) + _ARTIFACT_WEIGHT * _largest_background(seen, target)
