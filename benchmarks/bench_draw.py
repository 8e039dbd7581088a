"""What a new face costs in a frame of 1280 x 720: its code, and its drawing, by the size of the face.

CPU time of one thread, not wall time: on a busy machine it is the figure to look at. ``reference`` is
``render.blend.blend_scene``, which draws a still at its leisure. The target: code and drawing of a face of
250 px
in 40 ms. Faces are synthetic, drawn by the bundled model. Run ``python -m benchmarks draw [--full]``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from ksame.core.geometry import FRAME, with_ring
from ksame.models import weights
from ksame.render.blend import blend_scene
from ksame.render.overlay.face_overlay import FaceOverlay
from ksame.render.overlay.frame_code import FaceView, encode_frame
from ksame.render.portrait import Surrogate
from ksame.spaces import AppearanceSpace


def main(quick: bool) -> list[dict[str, Any]]:
    """Return one row per size of the face."""
    rounds = 5 if quick else 30
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        return [row(side, rounds) for side in ((250,) if quick else (60, 120, 250, 500))]
    finally:
        cv2.setNumThreads(threads)


def row(side: int, rounds: int) -> dict[str, Any]:
    """Time a face of so many pixels from chin to forehead."""
    model = AppearanceSpace.bundled()
    view = frame(model, side)
    rng = np.random.default_rng(0)
    hat, hat_d = np.where(model.nuisance, 0, rng.normal(size=(2, len(model.deviation))) * model.deviation / 2)
    mask = FaceOverlay.of(model, [view], hat, hat_d)
    code = encode_frame(model, view)
    face = Surrogate(model.detail, with_ring(model.shape) * model.detail.shape[1] / FRAME.width)
    return {
        "what": "a new face in a frame of 720p",
        "face_px": side,
        "closer_look": bool(weights.cached("landmarker")),
        "code_ms": cpu(lambda: encode_frame(model, view), rounds),
        "draw_ms": cpu(lambda: mask.draw(view.rgb, view.points, code), rounds),
        "draw_pixel_ms": cpu(lambda: mask.draw(view.rgb, view.points, code, texture="pixel"), rounds),
        "reference_ms": cpu(
            lambda: blend_scene(
                view.rgb, view.points, face, model.shape, model.ring_triangles, composite="colour"
            ),
            rounds,
        ),
    }


def frame(model: AppearanceSpace, side: int) -> FaceView:
    """Return a frame with the model's mean face in its middle."""
    scale = side / float(np.ptp(model.shape[:, 1]))
    points = (model.shape - model.shape.mean(axis=0)) * scale + (640, 360)
    rgb = np.random.default_rng(0).integers(90, 160, (720, 1280, 3)).astype(np.uint8)
    image = model.decode(np.zeros((1, len(model.deviation))))[0]
    large = scale * FRAME.width / image.shape[1]
    corner = points[0] - model.shape[0] * scale
    matrix = np.array([[large, 0, corner[0]], [0, large, corner[1]]])
    there = cv2.warpAffine(image, matrix, (1280, 720))
    return FaceView(np.where(there.any(axis=2, keepdims=True), there, rgb), points)


def cpu(run: Callable[[], Any], rounds: int) -> float:
    """Return the least CPU milliseconds of some rounds, after one to warm up."""
    run()
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return round(1e3 * best, 2)


if __name__ == "__main__":
    for one in main(quick="--full" not in sys.argv):
        print(one)
