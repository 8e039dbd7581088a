"""From registered faces to a generator: labels, scaled codes, training; and how near its faces come."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ksame.core.arrays import FloatArray, RandomState
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME
from ksame.methods.shift.pool.code_generator import CODE_SCALE, CodeGenerator
from ksame.methods.shift.pool.gan import Conditioning, Loss, TwoSampleTest, train, two_sample
from ksame.models.attributes import Attributes, predict_face_attributes
from ksame.spaces.appearance import AppearanceSpace, landmarks_on_frame

MIN_FACES = 200  # faces: of fewer, the discriminator soon knows each one, and the generator is led to them


def predict_labels(faces: FaceSet) -> Attributes:
    """Return apparent gender, age and smile of registered faces."""
    return predict_face_attributes(faces.rgb, landmarks_on_frame(faces) * faces.rgb.shape[2] / FRAME.width)


def as_conditions(seen: Attributes) -> FloatArray:
    """Return male, young, smiling (n, 3) in [-1, 1], spread so that each takes many values [S 8.3.3].

    Deviation: 0 is not where a network changes its mind but the middle of official portraits: 50 years, a
    half smile. At -0.75 a smile ends.
    """
    evidence = (np.log(p / (1 - p)) for p in (_open(seen.gender_score), _open(seen.expression_score)))
    male, smile = evidence
    return np.clip(np.stack([male / 6, (50 - seen.age) / 20, (smile - 3) / 4], axis=1), -1, 1)


def _open(p: FloatArray) -> FloatArray:
    return np.clip(p, 1e-9, 1 - 1e-9)


def train_code_generator(
    codes: FloatArray,
    c: FloatArray,
    space: AppearanceSpace,
    *,
    loss: Loss = "wgan-gp",
    conditioning: Conditioning = "auxiliary",
    steps: int = 8_000,
    batch: int = 128,
    seed: RandomState = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> CodeGenerator:
    """Train a generator on the codes of real people, one each.

    Deviation: the thesis takes LSGAN with a cGAN for its pool, on 200,000 photos. On a thousand, its
    discriminator soon knows them by heart. That of WGAN-GP is kept from it by the penalty, and one that must
    find the conditions out has less to learn them by: of all six its codes are most like real ones.

    Parameters
    ----------
    codes : (n, d)
        With the components of light and pose: a pool's filter needs to see them.
    c : (n, 3)
        As ``as_conditions`` gives them.
    space : AppearanceSpace
        The model whose codes they are.
    loss, conditioning, steps, batch, progress
        As for ``gan.train``.
    seed : int, Generator or None
        None is operating-system randomness.
    """
    if len(codes) < MIN_FACES:
        raise UsageError(f"A generator needs at least {MIN_FACES} faces. Got {len(codes)}.")
    scale = CODE_SCALE * space.deviation
    x = codes / scale  # (8.7)
    options = {"loss": loss, "conditioning": conditioning, "steps": steps, "batch": batch}
    made = train(x, c, rng=seed, progress=progress, **options)  # type: ignore[arg-type]
    return CodeGenerator(made.generator, made.discriminator, scale, space.digest)


class CollapseTest(NamedTuple):
    """Two-sample tests of made codes against real ones: a small p says that something is missing."""

    shape: TwoSampleTest  # the first two components of the shape [S fig. 8.2]
    texture: TwoSampleTest  # the first two of the texture
    all: TwoSampleTest  # every component, scaled (8.7)


def check_collapse(
    generator: CodeGenerator,
    codes: FloatArray,
    c: FloatArray,
    space: AppearanceSpace,
    *,
    seed: RandomState = None,
) -> CollapseTest:
    """Compare as many made faces as there are real ones, made to the real ones' conditions [S 8.4.2]."""
    source = np.random.default_rng(seed)
    male, young, smiling = c[source.permutation(len(c))].T
    made = generator.sample(len(codes), source, male=male, young=young, smiling=smiling)
    x, y = codes / generator.scale, made / generator.scale
    a = len(space.shape_axes)
    parts = (slice(0, 2), slice(a, a + 2), slice(None))
    return CollapseTest(*(two_sample(x[:, part], y[:, part], rng=source) for part in parts))
