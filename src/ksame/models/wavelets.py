"""Inverse Haar transforms inside a network: find them, make them faster, or leave them out for previews.

MobileStyleGAN upsamples by inverse Haar transforms: four bands (means and details) of half the size become
one image of the full size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["inverse_haar", "is_constant_noise", "skip_doublings", "use_fast_wavelets"]


def use_fast_wavelets(network: Any) -> Any:
    """Replace each inverse Haar transform of a network by sums of bands and a pixel shuffle; return it.

    MobileStyleGAN uses six transposed convolutions per transform, a sixth of its time; this takes a third of
    that.
    """
    for node in network.get_ordered_ops():
        bands = _bands(node)
        if bands is not None:
            _replace(node, inverse_haar(bands))
    return network


def inverse_haar(bands: Any) -> Any:
    """Return the image (1, c, 2 h, 2 w) of bands (1, 4 c, h, w), as an output of a network."""
    from openvino import opset13 as op  # here: its import is slow

    c = bands.get_shape()[1] // 4
    # means come first, then three details for each channel: sort them by kind
    kinds = np.concatenate([np.arange(c), *(c + 3 * np.arange(c) + kind for kind in range(3))])
    mean, down, across, both = op.split(_reorder_channels(bands, kinds), op.constant(1), 4).outputs()
    half = op.constant(np.float32(0.5))
    plus, minus = (op.multiply(way(mean, down), half) for way in (op.add, op.subtract))
    left, right = (op.multiply(way(across, both), half) for way in (op.add, op.subtract))
    four = [op.add(plus, left), op.subtract(plus, left), op.add(minus, right), op.subtract(minus, right)]
    return op.depth_to_space(op.concat(four, 1), "blocks_first", 2).output(0)


def skip_doublings(network: Any, times: int) -> Any:
    """Leave out the last ``times`` upsampling steps of a network and continue with the means; return it.

    The image is smaller by a factor of 2 ** times and slightly off, as the network was not trained for that.
    Four steps leave 64 px of MobileStyleGAN's image, in 26 ms of one core instead of 300.
    """
    from openvino import opset13 as op

    nodes = [node for node in network.get_ordered_ops() if _bands(node) is not None][-times:]
    for node in nodes:
        bands = _bands(node)
        means = op.split(bands, op.constant(1), 4).output(0)
        _replace(node, op.multiply(means, op.constant(np.float32(0.5))).output(0))
    side = min((int(node.output(0).get_shape()[2]) for node in nodes), default=0) // 2
    for node in network.get_ops():
        for part in node.inputs() if _is(node, "Multiply") else ():
            if side and is_constant_noise(part.get_source_output()):
                _shrink(part, side)
    network.validate_nodes_and_infer_types()
    return network


def is_constant_noise(output: Any) -> bool:
    """Whether an output is a constant (1, 1, h, w)."""
    shape = output.get_partial_shape()
    constant = output.get_node().get_type_name() == "Constant"
    return constant and len(shape) == 4 and [str(d) for d in shape][:2] == ["1", "1"] and str(shape[2]) != "1"


def _shrink(part: Any, side: int) -> None:
    """Replace a constant input (1, 1, h, h) of a node by its means on a smaller grid."""
    from openvino import opset13 as op

    noise = part.get_source_output().get_node().get_data()
    if (times := noise.shape[2] // side) > 1:
        small = noise.reshape(1, 1, side, times, side, times).mean(axis=(3, 5))
        part.replace_source_output(op.constant(small.astype(np.float32)).output(0))


def _replace(node: Any, output: Any) -> None:
    for user in list(node.output(0).get_target_inputs()):
        user.replace_source_output(output)


def _bands(node: Any) -> Any:
    """Return the bands (1, 4 c, h, w) if a node is their inverse Haar transform, else None."""
    upper = [_spread(part, (1, 2), sign) for part, sign in zip(_summands(node), (1, -1), strict=False)]
    lower = [
        _spread(part, (2, 1), sign)
        for half in upper
        for part, sign in zip(_summands(half and half.get_node()), (1, -1), strict=False)
    ]
    if len(lower) != 4 or not all(lower):
        return None
    return lower[0].get_node().input_value(0)


def _summands(node: Any) -> list[Any]:
    """Return the inputs of a sum."""
    return [part.get_source_output() for part in node.inputs()] if _is(node, "Add") else []


def _spread(output: Any, kernel: tuple[int, int], sign: int) -> Any:
    """Return the input of a Haar step that spreads it over pairs of pixels, the second with the sign."""
    node = output.get_node()
    if not _is(node, "GroupConvolutionBackpropData"):
        return None
    given, constant = node.input_value(0), node.input_value(1).get_node()
    pair = constant.get_data().reshape(-1, 2) if _is(constant, "Constant") else np.zeros((1, 2))
    shape = list(given.get_shape())
    doubled = [shape[0], shape[1], shape[2] * kernel[0], shape[3] * kernel[1]]
    haar = np.allclose(pair, [0.5**0.5, sign * 0.5**0.5], atol=1e-6)
    return given if haar and list(output.get_shape()) == doubled else None


def _reorder_channels(output: Any, order: NDArray[np.intp]) -> Any:
    """Return an output (1, c, h, w) with reordered channels, in the node that computes it if possible."""
    from openvino import opset13 as op

    node = output.get_node()
    users = [user for user in output.get_target_inputs() if not _is(user.get_node(), "ShapeOf")]
    parts = {part: list(part.get_source_output().get_shape()) for part in node.inputs()}
    if len(users) == 1 and _is(node, "Convolution"):
        kernel = node.input(1)
        kernel.replace_source_output(op.gather(kernel.get_source_output(), order, op.constant(0)).output(0))
        return output
    plain = all(len(shape) == 4 or np.prod(shape) == 1 for shape in parts.values())
    if len(users) == 1 and plain and _is(node, "Multiply", "Add", "PRelu"):
        for part, shape in parts.items():
            if shape[1:2] == [len(order)]:
                part.replace_source_output(_reorder_channels(part.get_source_output(), order))
        return output
    return op.gather(output, order, op.constant(1)).output(0)


def _is(node: Any, *types: str) -> bool:
    return node is not None and str(node.get_type_name()) in types
