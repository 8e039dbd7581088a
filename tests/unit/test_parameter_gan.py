"""The parameter GAN against its formulas: gradients by differences, training by what comes out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from ksame.core.errors import UsageError
from ksame.methods.shift.pool import gan
from ksame.methods.shift.pool.gan import Net, penalty, train, two_sample

LOSSES = ("lsgan", "wgan", "wgan-gp")
seeds = st.integers(0, 10**6)


def net(rng, inputs, outputs, hidden=5):
    """A net in double precision, with biases, so that differences are exact enough."""
    shapes = ((inputs, hidden), (hidden,), (hidden, outputs), (outputs,))
    return Net(*(rng.normal(size=shape) for shape in shapes))


def by_differences(function, nets, step=1e-6):
    """The gradient of a function of a net in all of its weights."""
    parts = []
    for place, part in enumerate(nets):
        gradient = np.zeros_like(part)
        for index in np.ndindex(part.shape):
            moved = []
            for sign in (1, -1):
                other = part.copy()
                other[index] += sign * step
                moved.append(function(Net(*nets[:place], other, *nets[place + 1 :])))
            gradient[index] = (moved[0] - moved[1]) / (2 * step)
        parts.append(gradient)
    return Net(*parts)


def alike(a, b):
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@settings(max_examples=20)
@given(seeds)
def test_a_net_is_its_formula(seed):
    rng = np.random.default_rng(seed)
    some, x = net(rng, 3, 2), rng.normal(size=(4, 3))
    np.testing.assert_allclose(some(x), [oracles.perceptron(some, row) for row in x])


@settings(max_examples=10)
@given(seeds)
def test_back_gives_the_gradients_of_weights_and_inputs(seed):
    rng = np.random.default_rng(seed)
    some, x, dy = net(rng, 3, 2), rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    weights, inputs = some.back(x, dy)
    alike(weights, by_differences(lambda moved: (moved(x) * dy).sum(), some))
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-6
        slope = ((some(x + step) - some(x - step)) * dy).sum() / 2e-6
        assert slope == pytest.approx(inputs[index], rel=1e-4, abs=1e-6)


@settings(max_examples=10)
@given(seeds)
def test_the_penalty_and_its_gradient(seed):
    rng = np.random.default_rng(seed)
    some, x = net(rng, 3, 2), rng.normal(size=(4, 3))
    value, gradient = penalty(some, x)
    assert value == pytest.approx(oracles.gradient_penalty(some, x), rel=1e-4)
    alike(gradient, by_differences(lambda moved: penalty(moved, x)[0], some))


@pytest.mark.parametrize("aux", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_both_networks_descend_their_losses(loss, aux):
    rng = np.random.default_rng(3)
    d, q, noise, n = 3, 2, 4, 5
    judge = net(rng, d if aux else d + q, 1 + q if aux else 1)
    maker = net(rng, noise + q, d)
    x, c, c_fake = rng.normal(size=(n, d)), rng.uniform(-1, 1, (n, q)), rng.uniform(-1, 1, (n, q))
    zc = np.hstack([rng.uniform(-1, 1, (n, noise)), c_fake])

    def losses(judge, maker):
        fake = maker(zc)
        if aux:
            return oracles.gan_losses(loss, judge, x, fake, c, c_fake)
        return oracles.gan_losses(loss, judge, np.hstack([x, c]), np.hstack([fake, c_fake]))

    got = gan._d_gradient(judge, loss, aux, x, c, maker(zc), c_fake, np.random.default_rng(7))
    want = by_differences(lambda moved: losses(moved, maker)[0], judge)
    if loss == "wgan-gp":
        between = np.random.default_rng(7).random((n, 1), dtype=np.float32)
        real, fake = (x, maker(zc)) if aux else (np.hstack([x, c]), np.hstack([maker(zc), c_fake]))
        more = penalty(judge, between * real + (1 - between) * fake)[1]
        want = Net(*(a + gan.PENALTY * b for a, b in zip(want, more, strict=True)))
    alike(got, want)
    got = gan._g_gradient(maker, judge, loss, aux, zc, c_fake)
    alike(got, by_differences(lambda moved: losses(judge, moved)[1], maker))


def gaussian(n=400, seed=0):
    """Codes of two kinds of people, and which kind."""
    rng = np.random.default_rng(seed)
    kind = rng.choice([-1.0, 1.0], (n, 1))
    x = rng.normal(0, 0.15, (n, 4)) * [1, 1, 0.5, 0.5] + 0.3 * kind * [1, 0, 1, 0]
    return x, kind


def made(net, kind, noise, seed=1):
    return net(np.hstack([np.random.default_rng(seed).uniform(-1, 1, (len(kind), noise)), kind]))


@pytest.mark.parametrize("conditioning", ["cgan", "auxiliary"])
@pytest.mark.parametrize("loss", LOSSES)
def test_training_comes_nearer_to_the_data_and_heeds_conditions(loss, conditioning):
    x, kind = gaussian()
    options = {"loss": loss, "conditioning": conditioning, "noise": 8, "rng": 0}
    before = made(train(x, kind, steps=1, **options).generator, kind, 8)
    after = made(train(x, kind, steps=600, **options).generator, kind, 8)
    far, near = (two_sample(x, y, rounds=9, rng=0).distance for y in (before, after))
    assert near < 0.4 * far
    means = [after[kind[:, 0] == sign].mean(axis=0) for sign in (-1, 1)]
    assert (means[1] - means[0])[0] > 0.2
    assert after.std(axis=0).min() > 0.02, "collapsed"


def test_training_is_the_same_for_a_seed_and_told_of():
    x, kind = gaussian()
    told = []
    one, other = (
        train(x, kind, steps=100, noise=4, rng=seed, progress=lambda *a: told.append(a)) for seed in (5, 5)
    )
    assert all((a == b).all() for a, b in zip(one.generator, other.generator, strict=True))
    assert told == [("training", 100, 100)] * 2


def test_a_critic_stays_clipped():
    x, kind = gaussian()
    d = train(x, kind, loss="wgan", steps=60, noise=4, rng=0).discriminator
    assert max(np.abs(part).max() for part in (d.w, d.b, d.v)) <= np.float32(gan.WEIGHT_CLIP)


def test_what_makes_no_sense_is_refused():
    x, kind = gaussian(10)
    with pytest.raises(UsageError, match="Unknown loss"):
        train(x, kind, loss="vae")
    with pytest.raises(UsageError, match="condition"):
        train(x, kind[:5])


@settings(max_examples=20)
@given(seeds, st.integers(1, 8), st.integers(1, 8))
def test_the_energy_distance_is_its_formula(seed, n, m):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, 2)), rng.normal(1, 1, size=(m, 2))
    found = two_sample(a, b, rounds=19, rng=0)
    assert found.distance == pytest.approx(oracles.energy_distance(a, b), abs=1e-7)
    assert 1 / 20 <= found.p <= 1
    assert two_sample(a, a, rounds=9, rng=0).p == 1


def test_p_is_small_for_a_collapsed_sample_only():
    rng = np.random.default_rng(0)
    real, like, collapsed = rng.normal(size=(200, 2)), rng.normal(size=(200, 2)), np.zeros((200, 2))
    assert two_sample(real, like, rounds=199, rng=0).p > 0.05
    assert two_sample(real, collapsed, rounds=199, rng=0).p < 0.01
