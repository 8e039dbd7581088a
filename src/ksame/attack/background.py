"""What is beside the face names people too: hair, ears, neck, clothes and the place [S 6.3-6.4].

The thesis brings every face to a mean shape of about 200 x 200 pixels, brows to chin, and looks at
squares of 200 and of 300 pixels about its middle. On the canonical frame that shape is 190 pixels
wide. So ``crop200`` sees hardly more than the face, ``crop300`` hair, ears and neck as well.
``background`` sees a wider square with the face taken out of it. Deviation: 400 pixels, not 300, where
hardly more than corners would be left; HOG then named 98 % of 50 people by another photo, not 88 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.attack import classic
from ksame.attack.recognisers import Recogniser
from ksame.core.arrays import FloatArray
from ksame.core.geometry import crop, to_frame

_FACE_CENTRE = np.array([128.0, 195.0])  # of the mean shape, brows to chin, on the canonical frame
_THESIS_PIXEL = 0.95  # a pixel of the thesis, in pixels of the frame
_FACE_ELLIPSE = (
    (128, 180),
    (106, 124),
)  # middle and half axes of the region that is taken out: nearly every face


@dataclass(frozen=True, eq=False)
class BackgroundRecogniser(Recogniser):
    """A recogniser that looks beyond the face: where a face is covered, it still sees what is around it."""


def chips(rgb: NDArray[np.uint8], points: FloatArray, *, side: int, face: bool = True) -> NDArray[np.uint8]:
    """Return grey squares (n, 102, 102) about the faces with these meshes (n, 468, 2).

    Parameters
    ----------
    side : int
        Of the square, in pixels of the thesis [S 6.3.2].
    face : bool
        Without it the inverse crop [S 6.4]: the face is one flat grey. Deviation: an ellipse, the same for
        everyone, not the outline of the face's own landmarks, which would be told by its edge.

    Examples
    --------
    >>> chips(np.zeros((320, 256, 3), np.uint8), np.zeros((0, 468, 2)), side=300).shape
    (0, 102, 102)
    """
    views = np.zeros((len(points), classic.SIDE, classic.SIDE), np.uint8)
    scale = classic.SIDE / (side * _THESIS_PIXEL)
    # pixel centres: the middle of the square goes to the middle of the chip
    view = np.column_stack([scale * np.eye(2), (classic.SIDE - 1) / 2 - scale * _FACE_CENTRE])
    hole = np.zeros(views.shape[1:], bool) if face else _face_region(view)
    for chip, mesh in zip(views, points, strict=True):
        matrix = view @ np.vstack([to_frame(mesh), [0, 0, 1]])
        chip[:] = cv2.cvtColor(crop(rgb, matrix, classic.SIDE, classic.SIDE), cv2.COLOR_RGB2GRAY)
        chip[hole] = 128
    return views


def _face_region(view: FloatArray) -> NDArray[np.bool_]:
    """Return the pixels of a chip in which a face is."""
    (x, y), (a, b) = _FACE_ELLIPSE
    row, column = np.indices((classic.SIDE, classic.SIDE))
    u, v = (column - view[0, 2]) / view[0, 0], (row - view[1, 2]) / view[1, 1]
    hole: NDArray[np.bool_] = ((u - x) / a) ** 2 + ((v - y) / b) ** 2 <= 1
    return hole


_MATCHERS = {
    "lbp": (classic.lbp, classic.chi_square),
    "hog": (classic.hog, classic.cosine),
    "eigenfaces": (classic.pixels, classic.eigenfaces),
}
_VIEWS = {
    "background": (partial(chips, side=400, face=False), ("lbp", "hog")),
    "crop200": (partial(chips, side=200), ("lbp", "hog", "eigenfaces")),
    "crop300": (partial(chips, side=300), ("lbp", "hog", "eigenfaces")),
}
RECOGNISERS: tuple[BackgroundRecogniser, ...] = tuple(
    BackgroundRecogniser(f"{view}-{like}", see, *_MATCHERS[like])
    for view, (see, likes) in _VIEWS.items()
    for like in likes
)
