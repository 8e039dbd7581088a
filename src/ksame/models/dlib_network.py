"""dlib's face network, built for OpenVINO from dlib's own weight file.

dlib takes 0.09 s per face and holds the GIL; OpenVINO takes 0.01 s of one core and releases it, with the same
descriptors to seven digits. The library dlib is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import WeightsError
from ksame.models import runtime

__all__ = ["CHIP_SIDE_PX", "build_network", "descriptors"]

CHIP_SIDE_PX = 150  # side of a face chip
_FIRST_FILTERS = 32  # of the first layer
_LEVELS = ((32, 3, False), (64, 4, True), (128, 3, True), (256, 3, True), (256, 1, True))
"""Filters, residual blocks, and whether the first of them halves the size."""
_MEAN = np.array([122.782, 117.001, 104.298], np.float32)


def descriptors(chips: NDArray[np.uint8]) -> FloatArray:
    """Return dlib's raw descriptors (n, 128) of chips (n, 150, 150, 3); thread-safe."""
    x = ((chips - _MEAN) / np.float32(256)).transpose(0, 3, 1, 2)
    return np.concatenate([runtime.infer("dlib", chip[None])[0] for chip in x]).astype(np.float64)


class _Tensors:
    """Reads the tensors of a network file of dlib in order, from the input on."""

    def __init__(self, file: Path) -> None:
        """Open a file; training parameters between the tensors are skipped."""
        self._file, self._data, self._at = file, file.read_bytes(), 0

    def next(self, *shape: int) -> NDArray[np.float32]:
        """Return the next tensor of this shape, found by its header."""
        head = b"\1\2" + b"".join(map(_number, (*shape, 1, 1, 1)[:4]))  # format 2
        begin = self._data.find(head, self._at) + len(head)
        count = int(np.prod(shape))
        if begin < len(head) or begin + 4 * count > len(self._data):
            raise WeightsError(f"{self._file} is not dlib's face descriptor network.")
        self._at = begin + 4 * count
        return np.frombuffer(self._data, "<f4", count, begin).reshape(shape)


def _number(value: int) -> bytes:
    """Encode a number as dlib does: the count of its bytes, then the bytes, little-endian."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "little")


def build_network(file: Path) -> Any:
    """Build the residual network of 29 layers from dlib's weight file."""
    from openvino import Model, opset13  # here: its import is slow

    read = _Tensors(file)
    chip = opset13.parameter([1, 3, CHIP_SIDE_PX, CHIP_SIDE_PX], np.float32)
    x = opset13.relu(_convolved(read, chip, 3, _FIRST_FILTERS, size=7, stride=2))
    x = opset13.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [3, 3]).output(0)
    before = _FIRST_FILTERS
    for filters, blocks, halves in _LEVELS:
        for block in range(blocks):
            stride = 2 if halves and not block else 1
            x = opset13.relu(_residual(read, x, before, filters, stride))
            before = filters
    mean = opset13.reduce_mean(x, [2, 3])
    return Model([opset13.matmul(mean, opset13.constant(read.next(before, 128)), False, False)], [chip])


def _residual(read: _Tensors, x: Any, before: int, filters: int, stride: int) -> Any:
    """Return a residual block of two convolutions."""
    from openvino import opset13

    y = opset13.relu(_convolved(read, x, before, filters, size=3, stride=stride))
    y = _convolved(read, y, filters, filters, size=3, stride=1)
    if stride == 1:
        return opset13.add(x, y)
    x = opset13.avg_pool(x, [2, 2], [0, 0], [0, 0], [2, 2], False)
    # dlib adds tensors of different sizes as if the smaller one were padded with zeros
    more = int(x.get_output_shape(0)[2] - y.get_output_shape(0)[2])
    y = opset13.pad(y, [0, 0, 0, 0], [0, 0, more, more], "constant")
    return opset13.add(opset13.pad(x, [0, 0, 0, 0], [0, filters - before, 0, 0], "constant"), y)


def _convolved(read: _Tensors, x: Any, before: int, filters: int, *, size: int, stride: int) -> Any:
    """Return a convolution, fused with the affine layer after it."""
    from openvino import opset13

    both = read.next(filters * (before * size**2 + 1))
    kernel, bias = both[:-filters].reshape(filters, before, size, size), both[-filters:]
    gamma, beta = np.split(read.next(2 * filters), 2)
    edge = [0, 0] if stride > 1 else [size // 2] * 2
    y = opset13.convolution(
        x, opset13.constant(kernel * gamma[:, None, None, None]), [stride] * 2, edge, edge, [1, 1]
    )
    return opset13.add(y, opset13.constant((bias * gamma + beta).reshape(1, -1, 1, 1)))


runtime.NETWORK_READERS["dlib"] = build_network
