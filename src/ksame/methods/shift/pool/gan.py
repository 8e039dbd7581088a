"""Train the parameter GAN (AMGAN) [S 8], which maps noise to the appearance code of a synthetic face.

Both networks are perceptrons with one hidden layer and a leaky rectifier, whose derivative is piecewise
constant: back-propagation is two products, and the gradient of WGAN-GP's penalty, which usually needs
double back-propagation, two more (``penalty``). So training needs no deep learning library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.spatial.distance import cdist

from ksame.core.arrays import FloatArray, RandomState
from ksame.core.errors import UsageError

Loss = Literal["lsgan", "wgan", "wgan-gp"]
Conditioning = Literal["cgan", "auxiliary"]

NOISE, HIDDEN = 128, 128  # [S 8.4.2], with the leak and the steps below
LEAKY_SLOPE = 0.2
D_STEPS = 2
# Learning rates of G and D. Deviation: [S 8.4.2] uses 1e-3 and 1e-4. With these, LSGAN's generator diverged
# to five times the spread of the faces before its slower discriminator could follow.
LEARNING_RATES: dict[Loss, tuple[float, float]] = {
    "lsgan": (1e-4, 3e-4),
    "wgan": (2e-4, 1e-3),
    "wgan-gp": (2e-4, 1e-3),
}
PENALTY = 1.0  # lambda of (8.6)
AUXILIARY = 1.0  # lambda of (8.8)
WEIGHT_CLIP = 0.05  # not given in the paper; 0.01, usual for images, is too small for a network this shallow
# Deviation: the generator is the running mean of its steps (half-life 700 steps). With a thousand faces
# instead of the paper's 200,000, every single step is biased towards the last batches.
AVERAGE_DECAY = 0.999


class Net(NamedTuple):
    """A perceptron with one hidden layer: y = lrelu(x w + b) v + c."""

    w: FloatArray  # (i, h)
    b: FloatArray  # (h,)
    v: FloatArray  # (h, o)
    c: FloatArray  # (o,)

    @classmethod
    def start(cls, rng: np.random.Generator, inputs: int, outputs: int, hidden: int = HIDDEN) -> Net:
        """Return a randomly initialised network with outputs on the scale of scaled codes (8.7)."""
        gain = np.sqrt(2 / (1 + LEAKY_SLOPE**2))
        w = rng.normal(0, gain / np.sqrt(inputs), (inputs, hidden))
        v = rng.normal(0, 0.2 / np.sqrt(hidden), (hidden, outputs))
        parts = (w, np.zeros(hidden), v, np.zeros(outputs))
        return cls(*(part.astype(np.float32) for part in parts))

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return y (n, o) of x (n, i)."""
        y: FloatArray = self._hidden(x)[0] @ self.v + self.c
        return y

    def _hidden(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the hidden layer (n, h) and its slope."""
        before = x @ self.w + self.b
        slope = np.where(before > 0, before.dtype.type(1), before.dtype.type(LEAKY_SLOPE))
        return slope * before, slope

    def back(self, x: FloatArray, dy: FloatArray) -> tuple[Net, FloatArray]:
        """Return the gradients of the weights and of x (n, i), given the gradient of y (n, o)."""
        hidden, slope = self._hidden(x)
        inner = slope * (dy @ self.v.T)  # (n, h)
        return Net(x.T @ inner, inner.sum(axis=0), hidden.T @ dy, dy.sum(axis=0)), inner @ self.w.T


def penalty(net: Net, x: FloatArray) -> tuple[float, Net]:
    """Return the mean of (||grad_x y_0|| - 1)^2 over rows [S 8.6], and its gradient in the weights.

    grad_x y_0 = w (slope * v_0), where the slope is piecewise constant: only w and v have a gradient.
    """
    _, slope = net._hidden(x)
    inner = slope * net.v[:, 0]  # (n, h)
    gradient = inner @ net.w.T  # (n, i)
    length = np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), 1e-12)
    dg = 2 * (length - 1) / length * gradient / len(x)  # (n, i)
    dv = np.zeros_like(net.v)
    dv[:, 0] = (slope * (dg @ net.w)).sum(axis=0)
    return float(np.mean((length - 1) ** 2)), Net(dg.T @ inner, 0 * net.b, dv, 0 * net.c)


def scores(loss: Loss, real: FloatArray, fake: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the gradients of L_D in D(x) and in D(G(z)), and of L_G in D(G(z)) [S 8.4-8.6].

    LSGAN with a = 0 for fake, b = c = 1 for real.
    """
    n, m = len(real), len(fake)
    if loss == "lsgan":
        return (real - 1) / n, fake / m, (fake - 1) / m
    return np.full_like(real, -1 / n), np.full_like(fake, 1 / m), np.full_like(fake, -1 / m)


class AdamOptimiser:
    """Adam; with beta_1 = 0 it is RMSProp with bias correction."""

    def __init__(self, net: Net, rate: float, beta_1: float, beta_2: float) -> None:
        self.rate, self.beta_1, self.beta_2, self.time = rate, beta_1, beta_2, 0
        self.mean = [np.zeros_like(part) for part in net]
        self.square = [np.zeros_like(part) for part in net]

    def step(self, net: Net, gradient: Net) -> Net:
        """Return the network after one descent step."""
        self.time += 1
        first, second = 1 - self.beta_1**self.time, 1 - self.beta_2**self.time
        parts = []
        for part, g, mean, square in zip(net, gradient, self.mean, self.square, strict=True):
            mean += (1 - self.beta_1) * (g - mean)
            square += (1 - self.beta_2) * (g * g - square)
            parts.append(part - self.rate * (mean / first) / (np.sqrt(square / second) + 1e-8))
        return Net(*parts)


class TrainedGan(NamedTuple):
    """The two networks after training."""

    generator: Net
    discriminator: Net


def train(
    x: FloatArray,
    c: FloatArray,
    *,
    loss: Loss = "lsgan",
    conditioning: Conditioning = "cgan",
    steps: int = 20_000,
    batch: int = 64,
    noise: int = NOISE,
    rng: RandomState = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> TrainedGan:
    """Train a generator of codes and its discriminator.

    Parameters
    ----------
    x : (n, d)
        Scaled codes of real faces [S 8.7].
    c : (n, q)
        Their conditions in [-1, 1]; q may be 0.
    loss : str
        ``lsgan`` (8.4), ``wgan`` with clipped weights (8.5) or ``wgan-gp`` with a gradient penalty (8.6).
    conditioning : str
        ``cgan``: c is an input of both networks (8.2). ``auxiliary``: the discriminator must find c (8.8),
        by least squares since labels are continuous (8.11).
    steps, batch, noise
        Steps of the generator, rows per step, length of the noise.
    rng : int, Generator or None
        Draws initial weights, batches and noise; None draws from the operating system.
    """
    _check_training(x, c, loss, conditioning)
    x, c = x.astype(np.float32), c.astype(np.float32)
    source, q, aux = np.random.default_rng(rng), c.shape[1], conditioning == "auxiliary"
    g = kept = Net.start(source, noise + q, x.shape[1])
    d = Net.start(source, x.shape[1] + (0 if aux else q), 1 + (q if aux else 0))
    betas = (0.5, 0.999) if loss == "wgan-gp" else (0.0, 0.9)  # [S 8.4.2]: Adam, RMSProp
    down_g, down_d = (
        AdamOptimiser(n, rate, *betas) for n, rate in zip((g, d), LEARNING_RATES[loss], strict=True)
    )
    for step in range(steps):
        for _ in range(D_STEPS):
            rows, zc = source.integers(len(x), size=batch), _draw_noise(c, batch, noise, source)
            d = down_d.step(d, _d_gradient(d, loss, aux, x[rows], c[rows], g(zc), zc[:, noise:], source))
            d = _clipped(d) if loss == "wgan" else d
        zc = _draw_noise(c, batch, noise, source)
        g = down_g.step(g, _g_gradient(g, d, loss, aux, zc, zc[:, noise:]))
        keep = min(AVERAGE_DECAY, step / (step + 10))  # the initial weights are forgotten quickly
        kept = Net(*(keep * old + (1 - keep) * new for old, new in zip(kept, g, strict=True)))
        if progress and (step + 1) % 100 == 0:
            progress("training", step + 1, steps)
    return TrainedGan(kept, d)


def _check_training(x: FloatArray, c: FloatArray, loss: str, conditioning: str) -> None:
    """Check the training set and the choices of ``train``."""
    if loss not in get_args(Loss) or conditioning not in get_args(Conditioning):
        raise UsageError(f"Unknown loss {loss!r} or conditioning {conditioning!r}.")
    if x.ndim != 2 or c.ndim != 2 or len(x) != len(c) or not len(x):
        raise UsageError(f"Codes (n, d) need conditions (n, q). Got {x.shape} and {c.shape}.")


def _draw_noise(c: FloatArray, batch: int, noise: int, rng: np.random.Generator) -> FloatArray:
    """Draw a batch of noise with conditions c ~ p_data(c) (8.2), (batch, noise + q)."""
    drawn = c[rng.integers(len(c), size=batch)]
    return np.hstack([rng.random((batch, noise), dtype=np.float32) * 2 - 1, drawn])


def _d_gradient(
    d: Net,
    loss: Loss,
    aux: bool,
    x: FloatArray,
    c: FloatArray,
    fake: FloatArray,
    c_fake: FloatArray,
    rng: np.random.Generator,
) -> Net:
    """Return the gradient of the discriminator's loss in its weights."""
    real, fake = (x, fake) if aux else (np.hstack([x, c]), np.hstack([fake, c_fake]))
    y, y_fake = d(real), d(fake)
    dy, dy_fake = np.zeros_like(y), np.zeros_like(y_fake)
    dy[:, :1], dy_fake[:, :1], _ = scores(loss, y[:, :1], y_fake[:, :1])
    if aux:
        dy[:, 1:] = AUXILIARY * (y[:, 1:] - c) / (c.size or 1)  # (8.11)
    parts = [d.back(real, dy)[0], d.back(fake, dy_fake)[0]]
    if loss == "wgan-gp":
        between = rng.random((len(real), 1), dtype=np.float32)
        _, gradient = penalty(d, between * real + (1 - between) * fake)
        parts.append(Net(*(PENALTY * part for part in gradient)))
    return Net(*(sum(some) for some in zip(*parts, strict=True)))


def _g_gradient(g: Net, d: Net, loss: Loss, aux: bool, zc: FloatArray, c: FloatArray) -> Net:
    """Return the gradient of the generator's loss in its weights."""
    fake = g(zc)
    seen = fake if aux else np.hstack([fake, c])
    y = d(seen)
    dy = np.zeros_like(y)
    dy[:, :1] = scores(loss, y[:, :1], y[:, :1])[2]
    if aux:
        dy[:, 1:] = AUXILIARY * (y[:, 1:] - c) / (c.size or 1)  # (8.11)
    _, dx = d.back(seen, dy)
    return g.back(zc, dx[:, : fake.shape[1]])[0]


def _clipped(d: Net) -> Net:
    """Clip the weights of the critic [S 8.5], not those of the auxiliary task."""
    v = np.hstack([np.clip(d.v[:, :1], -WEIGHT_CLIP, WEIGHT_CLIP), d.v[:, 1:]])
    return d._replace(
        w=np.clip(d.w, -WEIGHT_CLIP, WEIGHT_CLIP), b=np.clip(d.b, -WEIGHT_CLIP, WEIGHT_CLIP), v=v
    )


class TwoSampleTest(NamedTuple):
    """Distance of two samples and its p-value."""

    distance: float
    p: float


def two_sample(a: FloatArray, b: FloatArray, *, rounds: int = 999, rng: RandomState = None) -> TwoSampleTest:
    """Test whether two samples have one distribution: permutation test of the energy distance.

    A generator that has collapsed, or lost a mode, has a small p.

    Parameters
    ----------
    a, b : (n, d), (m, d)
        The samples.
    rounds : int
        Permutations; the least p is 1 / (rounds + 1).

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(3, 60, 2))
    >>> two_sample(x[0], x[1], rng=0).p > 0.05, two_sample(x[0], 0.3 * x[2], rng=0).p < 0.01
    (True, True)
    """
    both = np.vstack([a, b]).astype(np.float64)
    distances = cdist(both, both)
    share = np.concatenate([np.full(len(a), 1 / len(a)), np.full(len(b), -1 / len(b))])
    # 2 E|a - b| - E|a - a'| - E|b - b'| is -share' distances share, for true and for permuted shares
    source = np.random.default_rng(rng)
    shares = np.vstack([share, source.permuted(np.tile(share, (rounds, 1)), axis=1)])
    distance = -np.einsum("ri,ri->r", shares @ distances, shares)
    as_far = distance[1:] >= distance[0] - 1e-12 * distances.max()  # ties despite rounding
    return TwoSampleTest(float(distance[0]), float((1 + as_far.sum()) / (1 + rounds)))
