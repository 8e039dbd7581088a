"""Predict the strength of an expression as 52 blendshapes from landmarks [S 7.5.1].

Deviation: the thesis measures action units with OpenFace; blendshapes are the closest measure that a registry
package provides. Their names are those of the model's authors: "left" is the person's left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import BROWS, INNER_LIPS, LEFT_EYE, OUTER_LIPS, OVAL, RIGHT_EYE
from ksame.models.landmarks import LANDMARKER_VIEWS, refine_upright
from ksame.models.runtime import infer

__all__ = ["BLENDSHAPES", "predict_blendshapes"]

# fmt: off
BLENDSHAPES: tuple[str, ...] = (
    "_neutral", "browDownLeft", "browDownRight", "browInnerUp", "browOuterUpLeft", "browOuterUpRight",
    "cheekPuff", "cheekSquintLeft", "cheekSquintRight", "eyeBlinkLeft", "eyeBlinkRight", "eyeLookDownLeft",
    "eyeLookDownRight", "eyeLookInLeft", "eyeLookInRight", "eyeLookOutLeft", "eyeLookOutRight",
    "eyeLookUpLeft", "eyeLookUpRight", "eyeSquintLeft", "eyeSquintRight", "eyeWideLeft", "eyeWideRight",
    "jawForward", "jawLeft", "jawOpen", "jawRight", "mouthClose", "mouthDimpleLeft", "mouthDimpleRight",
    "mouthFrownLeft", "mouthFrownRight", "mouthFunnel", "mouthLeft", "mouthLowerDownLeft",
    "mouthLowerDownRight", "mouthPressLeft", "mouthPressRight", "mouthPucker", "mouthRight",
    "mouthRollLower", "mouthRollUpper", "mouthShrugLower", "mouthShrugUpper", "mouthSmileLeft",
    "mouthSmileRight", "mouthStretchLeft", "mouthStretchRight", "mouthUpperUpLeft", "mouthUpperUpRight",
    "noseSneerLeft", "noseSneerRight",
)
_NOSE = (1, 4, 5, 6, 8, 168, 195, 197)
# fmt: on
_IRISES = tuple(range(468, 478))
# the points of 478 that the blendshape network takes, in ascending order: (146,)
_LANDMARK_GROUPS = (LEFT_EYE, RIGHT_EYE, OVAL, INNER_LIPS, OUTER_LIPS, *BROWS, _NOSE, _IRISES)
_LANDMARK_ROWS = sorted({point for feature in _LANDMARK_GROUPS for point in feature})


def predict_blendshapes(rgb: NDArray[np.uint8], points: FloatArray, *, views: int = 3) -> NDArray[np.float32]:
    """Return the 52 blendshapes (n, 52), each in [0, 1], of the faces with meshes (n, 468, 2) in an image.

    The mean of several views: brows predicted from two of them correlate by 0.89 only.

    Raises
    ------
    WeightsError
        If the weight ``landmarker`` is missing and cannot be fetched.
    """
    strengths = np.zeros((len(points), len(BLENDSHAPES)), np.float32)
    for row, mesh in enumerate(points):
        inputs = (
            refine_upright(rgb, mesh, view)[0][_LANDMARK_ROWS] for view in LANDMARKER_VIEWS[:views]
        )  # each (146, 2)
        predicted = [
            infer("landmarker", landmarks[None], inner="face_blendshapes.tflite")[0].ravel()
            for landmarks in inputs
        ]
        strengths[row] = np.mean(predicted, axis=0)
    return strengths
