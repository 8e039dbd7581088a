"""A StyleGAN pair: what it draws, row by row, and what is refused because it is none."""

import gc
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import generators
import oracles
from ksame.core.errors import UsageError, WeightsError
from ksame.models import runtime, wavelets, weights
from ksame.models.generator import ImageGenerator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return generators.tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def small(folder):
    return ImageGenerator.load(folder)


def test_the_sides_are_read_off_the_networks(small):
    assert (small.noise, small.width, small.rows, small.size) == (3, 4, 3, 16)
    assert len(small.digest) == 64


def test_styles_are_the_mapping_of_noise_and_their_mean_never_changes(small):
    z = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(small.styles(z), z @ generators.MAPPING, atol=1e-5)
    assert small.styles(np.zeros((0, 3))).shape == (0, 4)
    again = ImageGenerator(small.digest, small._mapping, small._synthesis)
    assert (small.mean == again.mean).all()
    assert np.abs(small.mean).max() < 0.1  # of 4,000


def mapping(make):
    """Return a generator with another mapping: a function from noise (1, 3) to a style (1, 4)."""
    from openvino import Model, opset13

    z = opset13.parameter([1, generators.NOISE], np.float32, name="z")
    return ImageGenerator("", Model([make(opset13, z)], [z], "mapping"), None)


def test_styles_are_made_one_by_one_where_many_would_come_out_otherwise(small, monkeypatch):
    monkeypatch.setattr(ImageGenerator, "width", 3)
    z = np.random.default_rng(0).normal(size=(5, 3))
    largest = mapping(lambda op, z: op.subtract(z, op.reduce_max(z, op.constant([0, 1]), True)))
    np.testing.assert_allclose(largest.styles(z), z - z.max(axis=1, keepdims=True), atol=1e-5)
    fixed = mapping(lambda op, z: op.reshape(z, op.constant(np.array([1, 3])), False))
    np.testing.assert_allclose(fixed.styles(z), z, atol=1e-6)


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_each_layer_gets_its_own_row_in_the_order_of_their_numbers(small, seed):
    rows = np.random.default_rng(seed).normal(size=(2, 3, 4))
    slow = np.stack([oracles.synthesised(some, generators.MATRICES, 16) for some in rows])
    assert np.abs(small.draw(rows).astype(int) - slow).max() <= 1
    half = small.draw(rows, half=True)
    assert half.shape == (2, 8, 8, 3)
    for y, x in [(0, 0), (3, 5), (7, 7)]:
        four = slow[:, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2].mean(axis=(1, 2))
        assert np.abs(half[:, y, x] - four).max() <= 1.5


def test_nothing_is_drawn_of_nothing_and_other_shapes_are_refused(small):
    assert small.draw(np.zeros((0, 3, 4))).shape == (0, 16, 16, 3)
    assert small.draw(np.zeros((0, 3, 4)), half=True).shape == (0, 8, 8, 3)
    for shape in [(1, 2, 4), (1, 3, 5), (3, 4)]:
        with pytest.raises(UsageError, match=r"Styles must be \(n, 3, 4\)"):
            small.draw(np.zeros(shape))


def test_networks_that_were_let_go_are_opened_again(small):
    rows = np.random.default_rng(0).normal(size=(1, 3, 4))
    before = small.draw(rows)
    small.unload()
    assert (small.draw(rows) == before).all()


@pytest.fixture(scope="module")
def noisy():
    """Return a generator with fixed noise, a bias after it and a split of its channels, and its network."""
    from openvino import Model, opset13

    rng = np.random.default_rng(0)
    constant = lambda *shape: opset13.constant(rng.normal(size=shape).astype(np.float32))  # noqa: E731
    w = opset13.parameter([1, 4], np.float32)
    layers = [opset13.matmul(w, constant(4, 12 * 64), False, False) for _ in range(2)]
    for number, layer in enumerate(layers):
        layer.set_friendly_name(f"layer_{number}")
    image = opset13.reshape(opset13.add(*layers), opset13.constant([1, 12, 8, 8]), False)
    image = opset13.add(opset13.add(image, constant(1, 1, 8, 8)), constant(1, 12, 1, 1))
    parts = opset13.variadic_split(image, opset13.constant(1), opset13.constant([3, 9]))
    rest = opset13.reduce_mean(parts.output(1), opset13.constant([1]), True)
    network = Model([opset13.tanh(opset13.multiply(parts.output(0), rest))], [w], "synthesis")
    return ImageGenerator("noisy", None, network), network


def compiled_networks():
    """Return all compiled networks in memory."""
    from openvino import CompiledModel

    gc.collect()
    return [thing for thing in gc.get_objects() if isinstance(thing, CompiledModel)]


def test_noise_and_splits_are_drawn_as_the_network_has_them(noisy):
    generator, network = noisy
    w = np.random.default_rng(1).normal(size=(3, 4)) / 4
    whole = runtime.core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    slow = [np.array(whole(one[None].astype(np.float32))[0])[0].transpose(1, 2, 0) for one in w]
    drawn = generator.draw(np.repeat(w[:, None], 2, axis=1))
    assert np.abs(drawn - np.clip((np.stack(slow) + 1) * 127.5, 0, 255)).max() <= 0.51
    assert generator.preview(np.repeat(w[:, None], 2, axis=1)) is None  # it has no wavelets to leave out
    # the strength of the noise is an input, or OpenVINO would unfold the noise into large constants
    assert 2 in {len(network.inputs) for network in compiled_networks()}


def test_threads_may_draw_together(noisy):
    generator, _ = noisy
    rows = np.random.default_rng(2).normal(size=(24, 1, 2, 4)) / 4
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(generator.draw, rows))
    assert (np.concatenate(together) == np.concatenate([generator.draw(one) for one in rows])).all()


def doubling(channels, *, twice=False, slope=1, haar=0.5**0.5):
    """Return a network that makes bands by a convolution and doubles them by transposed convolutions."""
    from openvino import Model
    from openvino import opset13 as op

    rng = np.random.default_rng(channels)
    constant = lambda *shape: op.constant(rng.normal(size=shape).astype(np.float32))  # noqa: E731
    x = op.parameter([1, 3, 4, 5], np.float32)
    made = op.convolution(x, constant(4 * channels, 3, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1])
    made = op.add(op.add(made, constant(1, 1, 4, 5)), constant(1, 4 * channels, 1, 1))
    bands = op.multiply(constant(1, 4 * channels, 1, 1), op.prelu(made, constant(slope)))

    def spread(part, kernel, sign):
        pair = np.tile(np.float32([haar, sign * haar]), channels).reshape(channels, 1, 1, *kernel)
        return op.group_convolution_backprop_data(
            part, op.constant(pair), strides=kernel, pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1]
        )

    mean, rest = op.variadic_split(bands, op.constant(1), op.constant([channels, 3 * channels])).outputs()
    rest = op.split(op.reshape(rest, op.constant([1, channels, 3, 4, 5]), False), op.constant(2), 3)
    parts = [mean, *(op.squeeze(one, op.constant([2])) for one in rest.outputs())]
    halves = [
        op.add(spread(upper, [2, 1], 1), spread(lower, [2, 1], -1)) for upper, lower in (parts[:2], parts[2:])
    ]
    ends = [op.add(spread(halves[0], [1, 2], 1), spread(halves[1], [1, 2], -1))]
    return Model([*ends, *([op.tanh(made), bands] if twice else [])], [x], "doubling")


@pytest.mark.parametrize("how", [{}, {"twice": True}, {"slope": 12}])
def test_pictures_are_doubled_as_by_transposed_convolutions(how):
    """Also where something else takes what bands are made of, or each channel has a slope of its own."""
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 5)).astype(np.float32)
    drawn = []
    for network in (doubling(3, **how), wavelets.use_fast_wavelets(doubling(3, **how))):
        kinds = [node.get_type_name() for node in network.get_ordered_ops()]
        compiled = runtime.core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        drawn.append((kinds, [np.array(out) for out in compiled(x).values()]))
    (slow_kinds, slow), (kinds, quick) = drawn
    assert "GroupConvolutionBackpropData" in slow_kinds and "GroupConvolutionBackpropData" not in kinds
    for one, two in zip(slow, quick, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_what_is_no_wavelet_is_left_alone():
    network = doubling(2, haar=0.6)
    kinds = [node.get_type_name() for node in wavelets.use_fast_wavelets(network).get_ordered_ops()]
    assert kinds.count("GroupConvolutionBackpropData") == 6 and "DepthToSpace" not in kinds


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
def test_bands_are_put_together_as_by_a_wavelet(h, w, seed):
    from openvino import Model
    from openvino import opset13 as op

    bands = np.random.default_rng(seed).normal(size=(12, h, w)).astype(np.float32)
    given = op.parameter([1, 12, h, w], np.float32)
    network = Model([op.result(wavelets.inverse_haar(given.output(0)))], [given], "haar")
    whole = runtime.core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    np.testing.assert_allclose(whole(bands[None])[0][0], oracles.haar(bands), atol=1e-5)


def test_a_coarse_network_goes_on_with_means():
    rng = np.random.default_rng(3)
    means = wavelets.skip_doublings(doubling(2), 1)
    assert list(means.outputs[0].get_shape()) == [1, 2, 4, 5]
    x = rng.normal(size=(1, 3, 4, 5)).astype(np.float32)
    whole, small = (
        runtime.core().compile_model(one, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
        for one in (doubling(2), means)
    )
    np.testing.assert_allclose(small, whole.reshape(1, 2, 4, 2, 5, 2).mean(axis=(3, 5)), atol=1e-5)


def test_half_of_an_odd_image_leaves_out_its_last_row_and_column():
    from openvino import Model, opset13

    w = opset13.parameter([1, 4], np.float32, name="w")
    matrix = np.random.default_rng(0).normal(size=(4, 75)).astype(np.float32)
    pixels = opset13.matmul(w, opset13.constant(matrix), False, False)
    image = opset13.tanh(opset13.reshape(pixels, opset13.constant(np.array([1, 3, 5, 5])), False))
    generator = ImageGenerator("odd", None, Model([image], [w], "synthesis"))
    rows = np.random.default_rng(1).normal(size=(2, 1, 4))
    full, half = generator.draw(rows).astype(float), generator.draw(rows, half=True)
    means = full[:, :4, :4].reshape(2, 2, 2, 2, 2, 3).mean(axis=(2, 4))
    assert half.shape == (2, 2, 2, 3)
    assert np.abs(half - means).max() <= 0.5


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"width": 5}, "gives 5 numbers where its synthesis takes 4"),
        ({"image": False}, "must give one image"),
        ({"layers": 1}, "no layer of its synthesis takes a style"),
        ({"inputs": 2}, "its synthesis must take one vector"),
    ],
)
def test_two_networks_that_are_no_generator_are_refused(tmp_path, wrong, says):
    with pytest.raises(UsageError, match=says):
        ImageGenerator.load(generators.tiny(tmp_path, **wrong))


def test_what_is_no_folder_with_two_networks_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        ImageGenerator.load(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"one mapping.*has 0"):
        ImageGenerator.load(tmp_path)
    generators.tiny(tmp_path)
    (tmp_path / "mapping.onnx").write_bytes(b"no network")
    with pytest.raises(UsageError, match=r"one mapping.*has 2"):
        ImageGenerator.load(tmp_path)
    (tmp_path / "mapping.xml").unlink()
    with pytest.raises(UsageError, match=r"mapping.onnx cannot be read as a network\."):
        ImageGenerator.load(tmp_path)


def test_networks_in_the_wrong_places_are_refused(tmp_path):
    generators.tiny(tmp_path)
    for end in (".xml", ".bin"):
        first, second = tmp_path / f"mapping{end}", tmp_path / f"synthesis{end}"
        first.rename(tmp_path / f"third{end}")
        second.rename(first)
        (tmp_path / f"third{end}").rename(second)
    with pytest.raises(UsageError, match="contains no generator"):
        ImageGenerator.load(tmp_path)


def test_one_altered_byte_makes_it_another_generator(tmp_path, small, folder):
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert ImageGenerator.load(copy).digest == small.digest
    data = bytearray((copy / "synthesis.bin").read_bytes())
    data[40] ^= 1
    (copy / "synthesis.bin").write_bytes(data)
    assert ImageGenerator.load(copy).digest != small.digest


# the one that is fetched


@pytest.fixture(scope="module")
def shipped():
    return ImageGenerator.bundled()


@pytest.mark.weights
def test_the_pair_in_a_folder_is_the_one_that_is_shipped(tmp_path, shipped):
    own = ImageGenerator.load(generators.unpacked(tmp_path))
    assert own.digest == shipped.digest
    assert (own.noise, own.width, own.rows, own.size) == (512, 512, 23, 1024)


@pytest.mark.weights
def test_one_style_in_all_rows_draws_what_the_network_draws_and_half_of_it_is_its_mean(shipped):
    w = shipped.styles(np.random.default_rng(1).normal(size=(1, 512)))
    rows = np.repeat(w[:, None], 23, axis=1)
    whole = shipped.draw(rows)[0].astype(int)
    network = runtime.core().compile_model(shipped._synthesis, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    raw = network(w.astype(np.float32))[0][0].transpose(1, 2, 0)
    assert np.abs(whole - np.clip((raw + 1) * 127.5, 0, 255)).max() <= 1
    half = shipped.draw(rows, half=True)[0]
    parts = whole.reshape(512, 2, 512, 2, 3)
    four = parts.mean(axis=(1, 3))
    inside = (parts.min(axis=(1, 3)) > 0) & (parts.max(axis=(1, 3)) < 255)  # none of them was clipped
    assert np.abs(half - four)[inside].max() <= 1


@pytest.mark.weights
def test_a_glance_shows_the_colours_of_a_picture(shipped):
    w = shipped.styles(np.random.default_rng(2).normal(size=(3, 512)))
    rows = np.repeat((w + 0.5 * (shipped.mean - w))[:, None], 23, axis=1)
    whole, (small, inner) = shipped.draw(rows), shipped.preview(rows)
    assert inner.shape == (len(rows), 512, 8, 8)
    assert small.shape == (3, 64, 64, 3)
    means = whole.reshape(3, 64, 16, 64, 16, 3).mean(axis=(2, 4))
    for one, two in zip(small, means, strict=True):
        assert np.corrcoef(one.ravel(), two.ravel())[0, 1] > 0.8


@pytest.mark.weights
def test_unload_frees_all_that_was_compiled_for_drawing():
    generator = ImageGenerator.bundled()
    rows = np.repeat(generator.mean[None, None], 23, axis=1)
    before = len(compiled_networks())
    generator.draw(rows, half=True)
    generator.preview(rows)
    assert len(compiled_networks()) == before + 2
    generator.unload()
    assert len(compiled_networks()) == before


@pytest.mark.weights
def test_a_fetched_generator_with_one_altered_byte_is_not_used(tmp_path, monkeypatch):
    data = bytearray(weights.path("stylegan").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "stylegan.whl").write_bytes(data)
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path))
    monkeypatch.setenv("KSAME_OFFLINE", "1")
    with pytest.raises(WeightsError, match="models add stylegan"):
        ImageGenerator.bundled()
    with pytest.raises(WeightsError, match="not the one that was reviewed"):
        weights.add("stylegan", shutil.copy(tmp_path / "stylegan.whl", tmp_path / "mine.whl"))
