"""Recognisers side by side: chips coded and pairs compared in a second, and both relative to HOG.

All take turns, and the best of their rounds counts: on a busy machine the ratios are the figures to look
at. The images are blobs and no faces; a recogniser's work does not depend on the content. Run
``python -m benchmarks embed [--full]``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from ksame.attack.recognisers import choose_recognisers
from ksame.core.geometry import FRAME, LEFT_EYE, MESH, MOUTH_LEFT, MOUTH_RIGHT, RIGHT_EYE

BASE = "hog"


def main(quick: bool) -> list[dict[str, Any]]:
    """Return one row per recogniser that is here; the others are named on stderr."""
    chips_a_round, rounds, faces = (8, 3, 200) if quick else (32, 5, 1000)
    recognisers, missing = choose_recognisers("all")
    print(*missing, sep="\n", end="", file=sys.stderr)
    rgb, points = make_image(), np.tile(mesh(), (chips_a_round, 1, 1))
    points += np.arange(chips_a_round)[:, None, None]  # each a little further along, so that no two are alike
    chips = {who.name: who.chips(rgb, points) for who in recognisers}
    codes = {who.name: who.codes(chips[who.name]) for who in recognisers}  # libraries and weights loaded
    shuffle = np.random.default_rng(0).permuted  # more codes of the same kind, no two alike
    gallery = {name: shuffle(np.resize(code, (faces, code.shape[1])), axis=1) for name, code in codes.items()}
    match = {who.name: who.train(gallery[who.name], np.arange(faces)) for who in recognisers}
    coding = {who.name: np.inf for who in recognisers}
    matching = dict(coding)
    for _ in range(rounds):
        for who in recognisers:
            coding[who.name] = min(coding[who.name], seconds(who.codes, chips[who.name]))
            matching[who.name] = min(matching[who.name], seconds(match[who.name], gallery[who.name][:64]))
    return [
        {
            "what": f"embed, {name}",
            "n": chips_a_round,
            "d": codes[name].shape[1],
            "chips_per_second": round(chips_a_round / coding[name], 1),
            f"chips / {BASE}": round(coding[BASE] / coding[name], 3),
            "pairs_per_second": round(64 * faces / matching[name]),
            f"pairs / {BASE}": round(matching[BASE] / matching[name], 3),
        }
        for name in coding
    ]


def seconds(run: Callable[[Any], Any], x: Any) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    run(x)
    return time.perf_counter() - start


def make_image() -> np.ndarray:
    """Return smooth blots of colour, twice as large as the canonical frame."""
    coarse = np.random.default_rng(0).integers(0, 256, (20, 16, 3)).astype(np.uint8)
    return cv2.resize(coarse, (2 * FRAME.width, 2 * FRAME.height), interpolation=cv2.INTER_CUBIC)


def mesh() -> np.ndarray:
    """Return a mesh of which only the points that chips are aligned by are in place."""
    points = np.tile(FRAME.five[2], (MESH, 1))
    points[list(LEFT_EYE)], points[list(RIGHT_EYE)] = FRAME.five[0], FRAME.five[1]
    points[[33, 133, 362, 263]] = FRAME.five[[0, 0, 1, 1]] + [[-15, 0], [15, 0], [-15, 0], [15, 0]]
    points[[MOUTH_LEFT, MOUTH_RIGHT]] = FRAME.five[3:]
    return points


if __name__ == "__main__":
    for row in main(quick="--full" not in sys.argv):
        print(row)
