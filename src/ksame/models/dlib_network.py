"""dlib's face network, drawn up again for OpenVINO from the file that dlib reads.

dlib computes it in 0.09 s a face and keeps Python's lock meanwhile; OpenVINO takes 0.01 s of one core and
leaves the lock, with the same descriptors to seven digits. dlib itself is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import WeightsError
from ksame.models import runtime

__all__ = ["CHIP_SIDE_PX", "descriptors"]

CHIP_SIDE_PX = 150  # px of a chip
_FIRST = 32  # filters of the first layer
_LEVELS = ((32, 3, False), (64, 4, True), (128, 3, True), (256, 3, True), (256, 1, True))
"""Filters, residual blocks, and whether the first of them halves the picture."""
_MEAN = np.array([122.782, 117.001, 104.298], np.float32)


def descriptors(chips: NDArray[np.uint8]) -> FloatArray:
    """Return dlib's raw descriptors (n, 128) of chips (n, 150, 150, 3); safe to call from any thread."""
    x = ((chips - _MEAN) / np.float32(256)).transpose(0, 3, 1, 2)
    return np.concatenate([runtime.infer("dlib", chip[None])[0] for chip in x]).astype(np.float64)


class _Tensors:
    """The tensors of a network that dlib wrote, from its input on."""

    def __init__(self, file: Path) -> None:
        """Open a file; what is between its tensors says how they were learnt, and is passed over."""
        self._file, self._data, self._at = file, file.read_bytes(), 0

    def next(self, *shape: int) -> NDArray[np.float32]:
        """Return the next one (samples, channels; all else is 1), by the five numbers before it."""
        head = b"\1\2" + b"".join(map(_number, (*shape, 1, 1, 1)[:4]))  # format 2
        begin = self._data.find(head, self._at) + len(head)
        count = int(np.prod(shape))
        if begin < len(head) or begin + 4 * count > len(self._data):
            raise WeightsError(f"{self._file} is not the network of dlib's descriptors.")
        self._at = begin + 4 * count
        return np.frombuffer(self._data, "<f4", count, begin).reshape(shape)


def _number(value: int) -> bytes:
    """Return a number as dlib writes it: how many bytes, then these, the lowest first."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "little")


def _network(file: Path) -> Any:
    """Return the residual network of 29 layers in a file, as OpenVINO has it."""
    from openvino import Model, opset13  # here: it is slow to import

    read = _Tensors(file)
    given = opset13.parameter([1, 3, CHIP_SIDE_PX, CHIP_SIDE_PX], np.float32)
    x = opset13.relu(_convolved(read, given, 3, _FIRST, size=7, stride=2))
    x = opset13.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [3, 3]).output(0)
    before = _FIRST
    for filters, blocks, halves in _LEVELS:
        for block in range(blocks):
            stride = 2 if halves and not block else 1
            x = opset13.relu(_residual(read, x, before, filters, stride))
            before = filters
    mean = opset13.reduce_mean(x, [2, 3])
    return Model([opset13.matmul(mean, opset13.constant(read.next(before, 128)), False, False)], [given])


def _residual(read: _Tensors, x: Any, before: int, filters: int, stride: int) -> Any:
    """Return a block: two convolutions, and what went in added to what comes out."""
    from openvino import opset13

    y = opset13.relu(_convolved(read, x, before, filters, size=3, stride=stride))
    y = _convolved(read, y, filters, filters, size=3, stride=1)
    if stride == 1:
        return opset13.add(x, y)
    x = opset13.avg_pool(x, [2, 2], [0, 0], [0, 0], [2, 2], False)
    # dlib adds pictures of different sizes as if there were zeros beyond the smaller one
    more = int(x.get_output_shape(0)[2] - y.get_output_shape(0)[2])
    y = opset13.pad(y, [0, 0, 0, 0], [0, 0, more, more], "constant")
    return opset13.add(opset13.pad(x, [0, 0, 0, 0], [0, filters - before, 0, 0], "constant"), y)


def _convolved(read: _Tensors, x: Any, before: int, filters: int, *, size: int, stride: int) -> Any:
    """Return a convolution and the affine layer after it, as one."""
    from openvino import opset13

    both = read.next(filters * (before * size**2 + 1))
    kernel, bias = both[:-filters].reshape(filters, before, size, size), both[-filters:]
    gamma, beta = np.split(read.next(2 * filters), 2)
    edge = [0, 0] if stride > 1 else [size // 2] * 2
    y = opset13.convolution(
        x, opset13.constant(kernel * gamma[:, None, None, None]), [stride] * 2, edge, edge, [1, 1]
    )
    return opset13.add(y, opset13.constant((bias * gamma + beta).reshape(1, -1, 1, 1)))


runtime.NETWORK_READERS["dlib"] = _network
