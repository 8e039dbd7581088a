"""Learning a generator from what it draws: how to read its styles off a photo, and how to set attributes.

No photo of anybody is used: faces are drawn from random styles and measured as photos are. Styles and
measurements are then regressed on each other, both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ksame.core.arrays import FloatArray
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.methods.anonfaces.measure import measure_portraits
from ksame.models.generator import ImageGenerator
from ksame.spaces.generator_space import ATTRIBUTES, FEATURE_BLOCKS, GeneratorSpace, split_features

__all__ = ["LearntMap", "Samples", "learn_map", "sample_faces", "train_generator_map"]

MIN_FACES = 300  # faces: of fewer the map would be noise
MAP_RANK = 64  # of the map: more is noise of the samples
EVEN_RANGES = {
    "light": (30.0, 74.0),
    "age": (18.0, 68.0),
}  # what is drawn more evenly than the generator would
_YAW_SIGMA_PX = 5.0  # px: standard deviation of yaw
_UNSTEERED_SHARE = 0.3  # the share of faces that are drawn first, as the generator likes them
_STEERED_SHARE = 0.6  # the share of the others whose skin and age are chosen
_BATCH = 8


class Samples(NamedTuple):
    """Faces that a generator drew: their styles, what is read off them, and their attributes."""

    codes: FloatArray  # (n, d)
    read: FloatArray  # (n, f)
    attributes: FloatArray  # (n, a)


@dataclass(frozen=True)
class LearntMap:
    """A map and how well it does on faces that it was not learnt from."""

    space: GeneratorSpace
    faces: int
    styles: float  # R2 of styles from photos
    attributes: dict[str, float]  # R2 of each attribute from styles

    def __str__(self) -> str:
        """Say it in a sentence."""
        parts = ", ".join(f"{name} {value:.2f}" for name, value in self.attributes.items())
        return (
            f"Learnt from {self.faces} synthetic faces. Of the variance of styles {self.styles:.0%} can"
            f" be read off a face that was not among them (R2); of attributes follows from styles: {parts}."
        )


def train_generator_map(
    generator: ImageGenerator,
    output: str | Path,
    *,
    count: int = 4000,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> LearntMap:
    """Draw faces, learn the map from them and write it; see ``sample_faces`` and ``learn_map``."""
    out = Path(output)
    if out.suffix != ".npz" or out.is_dir() or not out.parent.is_dir():
        raise UsageError(f"A map is a file NAME.npz in a folder that is there. Got {str(out)!r}.")
    learnt = learn_map(sample_faces(generator, count, seed=seed, progress=progress), generator)
    part = out.with_suffix(".partial.npz")
    learnt.space.save(part)
    part.replace(out)
    return learnt


def sample_faces(
    generator: ImageGenerator,
    count: int,
    *,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Samples:
    """Draw faces and measure them; those in which no face is found are left out.

    The first are drawn from the generator's own styles, less or more of what makes them special (psi in
    0.5 to 1). With what they tell, the others are turned to the front and drawn more evenly over skin
    tones and ages than the generator, whose training photos were of few dark and few old people. Every
    second one mixes two styles, one of geometry and one of colour.
    """
    if count < MIN_FACES:
        raise UsageError(f"A map is learnt from at least {MIN_FACES} faces. Got {count}.")
    rng = np.random.default_rng(seed)
    known = GeneratorSpace.bundled()  # which knows glasses and hats when it sees them
    plain = round(_UNSTEERED_SHARE * count)
    first = _draw_and_measure(generator, _random_styles(generator, plain, rng), known, progress, 0, count)
    guide = learn_map(first, generator).space
    codes = _spread_attributes(guide, _random_styles(generator, count - plain, rng), rng)
    more = _draw_and_measure(generator, codes, known, progress, plain, count)
    return Samples(*map(np.concatenate, zip(first, more, strict=True)))


def _random_styles(generator: ImageGenerator, n: int, rng: np.random.Generator) -> FloatArray:
    """Return n codes (n, d): half of them one style twice, half two styles."""
    geometry, colour = (generator.styles(rng.standard_normal((n, generator.noise))) for _ in range(2))
    colour[::2] = geometry[::2]
    psi = rng.uniform(0.5, 1, (n, 1))
    mean = generator.mean
    return np.hstack([mean + psi * (geometry - mean), mean + psi * (colour - mean)])


def _spread_attributes(guide: GeneratorSpace, codes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Turn codes to the front; give some of them a skin tone and an age drawn evenly, and no hat."""
    moved = []
    for code in codes:
        to = {"yaw": rng.normal(0, _YAW_SIGMA_PX)}
        if rng.random() < _STEERED_SHARE:
            to |= {name: rng.uniform(*span) for name, span in EVEN_RANGES.items()}
        moved.append(guide.set_attributes(code, to))
    return np.stack(moved)


def _draw_and_measure(
    generator: ImageGenerator,
    codes: FloatArray,
    known: GeneratorSpace,
    progress: Callable[[str, int, int], None] | None,
    done: int,
    total: int,
) -> Samples:
    """Draw codes and measure what was drawn, a few at a time."""
    parts = []
    for start in range(0, len(codes), _BATCH):
        some = codes[start : start + _BATCH]
        seen = measure_portraits(generator.draw(known.layer_styles(some, generator), half=True), known)
        if len(seen.rows):
            parts.append(Samples(some[seen.rows], seen.read, seen.attributes))
        if progress:
            progress("drawing faces", done + start + len(some), total)
    if sum(len(part.codes) for part in parts) < 0.5 * len(codes):
        raise CannotGuarantee("No face is found in most images of this generator: use a generator of faces.")
    return Samples(*map(np.concatenate, zip(*parts, strict=True)))


def learn_map(samples: Samples, generator: ImageGenerator, *, worn: FloatArray | None = None) -> LearntMap:
    """Learn the map from samples; a tenth of them measures it first.

    Parameters
    ----------
    samples : Samples
        What a generator drew.
    generator : Generator
        Which drew it.
    worn : (2, x + 1), optional
        How glasses and hats are known by what is read off a photo; by default as the shipped map knows them.
    """
    n = len(samples.codes)
    held = np.arange(n) % 10 == 9
    some = Samples(*(part[~held] for part in samples))
    rest = Samples(*(part[held] for part in samples))
    space = _fit(some, generator, worn)
    styles = _r2(rest.codes, space.mean + space.whiten(rest.read) @ space.down @ space.up)
    predicted = space.predict_attributes(rest.codes)
    follow = {name: _r2(rest.attributes[:, i], predicted[:, i]) for i, name in enumerate(ATTRIBUTES)}
    return LearntMap(_fit(samples, generator, worn), n, styles, follow)


def _r2(true: FloatArray, predicted: FloatArray) -> float:
    return float(1 - ((true - predicted) ** 2).sum() / max(((true - true.mean(axis=0)) ** 2).sum(), 1e-12))


def _fit(samples: Samples, generator: ImageGenerator, worn: FloatArray | None) -> GeneratorSpace:
    codes, read, attributes = samples
    mean = np.tile(generator.mean, 2)
    z = codes - mean
    centre, axes = _whitening(read)
    x = np.clip((read - centre) @ axes.T, -4, 4)
    down, up = _low_rank(x, _ridge(x, z, 0.3 * x.shape[1]), MAP_RANK)
    level, unit = attributes.mean(axis=0), np.maximum(attributes.std(axis=0), 1e-9)
    slope = _ridge(z, (attributes - level) / unit, 0.08 * len(z) * float(z.var()))
    level = level - unit * (z.mean(axis=0) @ slope)  # at the mean style
    spread = z.T @ z / len(z) + 1e-3 * np.eye(z.shape[1])
    if worn is None:
        worn = _transfer_classifier(GeneratorSpace.bundled(), centre, axes)
    return GeneratorSpace(
        generator.digest, mean, centre, axes, down, up, level, unit, slope.T, spread @ slope, worn
    )


def _ridge(x: FloatArray, y: FloatArray, penalty: float) -> FloatArray:
    """Return (x, y): least squares with a penalty on the squared coefficients."""
    found: FloatArray = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ (y - y.mean(axis=0)))
    return found


def _whitening(read: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the centre (f,) and the axes (x, f) that give each block's components unit variance."""
    centre = read.mean(axis=0)
    blocks = split_features(read - centre)
    axes = np.zeros((sum(FEATURE_BLOCKS.values()), read.shape[1]))
    row = column = 0
    for block, count in zip(blocks, FEATURE_BLOCKS.values(), strict=True):
        values, vectors = np.linalg.eigh(block.T @ block / len(block))
        values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
        axes[row : row + count, column : column + block.shape[1]] = (
            vectors / np.sqrt(np.maximum(values, 1e-4 * values[0]))
        ).T
        row, column = row + count, column + block.shape[1]
    return centre, axes


def _low_rank(x: FloatArray, full: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Return (x, r) and (r, d) whose product is nearest to a map in what it predicts."""
    _, _, axes = np.linalg.svd(x @ full, full_matrices=False)
    axes = axes[:rank]
    return full @ axes.T, axes


def _transfer_classifier(known: GeneratorSpace, centre: FloatArray, axes: FloatArray) -> FloatArray:
    """Return a classifier of one space's components as one of another's: the same of the same features."""
    raw = known.worn[:, :-1] @ known.axes  # (2, f)
    constant = known.worn[:, -1] + raw @ (centre - known.centre)
    return np.column_stack([raw @ np.linalg.pinv(axes), constant])
