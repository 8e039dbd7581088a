"""The recognisers of an attacker: classic ones, networks, the user's own .onnx files, views past the face.

``ATTACKERS`` is the registry of attacks alone: what is added to it changes nothing that is published.

Views past the face: the thesis registers every face on a mean shape of about 200 x 200 pixels, brows to
chin, and crops squares of 200 and of 300 pixels about its centre [S 6.3-6.4]. On the canonical frame that
shape is 190 pixels wide. So ``crop200`` shows hardly more than the face, ``crop300`` hair, ears and neck as
well. ``background`` is a wider square with the face cut out. Deviation: 400 pixels, not 300, where hardly
more than corners would be left; HOG then named 98 % of 50 people by another photo, not 88 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ksame.attack import classic
from ksame.attack.score import Match, Train
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError, WeightsError
from ksame.core.geometry import crop, to_frame
from ksame.models import recognisers, weights

FACE_CENTRE = np.array([128.0, 195.0])  # of the mean shape, brows to chin, on the canonical frame
THESIS_PIXEL = 0.95  # a pixel of the thesis, in pixels of the frame
FACE_ELLIPSE = (128, 180), (106, 124)  # centre and half axes of the region that is cut out
FACE_GREY = 128  # what it is filled with


@dataclass(frozen=True, eq=False)
class Recogniser:
    """A way to compare faces, as an attacker uses it.

    Parameters
    ----------
    name : str
        Its name in options and reports.
    chips : callable
        From a photo (h, w, 3) and meshes (n, 468, 2) to its n small aligned input images.
    codes : callable
        From chips (n, ...) to embeddings (n, d), in batches; this is what an image costs.
    train : callable
        From the gallery's embeddings and subjects to distances.
    same_person : float, optional
        The distance up to which two embeddings usually count as one person.
    title : str
        Its name as its authors write it.
    surroundings : bool
        Whether it sees more than the face: where a face is covered, it still sees what is around it.
    """

    name: str
    chips: Callable[[NDArray[np.uint8], FloatArray], NDArray[np.uint8]]
    codes: Callable[[NDArray[np.uint8]], NDArray[Any]]
    train: Train
    same_person: float | None = None
    title: str = ""
    surroundings: bool = False


def euclidean(gallery: NDArray[Any], subjects: NDArray[Any]) -> Match:
    """Return the Euclidean distance from a gallery's embeddings; nothing is learnt."""
    return lambda probes: np.asarray(cdist(probes, gallery))


def deep_recogniser(name: str) -> Recogniser:
    """Return one of the networks of ``models.recognisers`` as an attacker's recogniser."""
    network = recognisers.RECOGNISERS[name]
    return _as_recogniser(network, network.same_person)


def _as_recogniser(network: recognisers.EmbeddingNetwork, same_person: float | None) -> Recogniser:
    return Recogniser(
        network.name, network.chips, network.encode, euclidean, same_person, title=network.title
    )


ATTACKERS: dict[str, Recogniser] = {
    one.name: one
    for one in (
        Recogniser("eigenfaces", classic.chips, classic.pixels, classic.eigenfaces),
        Recogniser("eigenfaces-mahalanobis", classic.chips, classic.pixels, classic.mahalanobis),
        Recogniser("fisherfaces", classic.chips, classic.pixels, classic.fisherfaces),
        Recogniser("lbp", classic.chips, classic.lbp, classic.chi_square, title="LBP"),
        Recogniser("hog", classic.chips, classic.hog, classic.cosine, title="HOG"),
        Recogniser("lpq", classic.chips, classic.lpq, classic.cosine, title="LPQ"),
        *map(deep_recogniser, recognisers.RECOGNISERS),
    )
}
"""The recognisers that ``all`` stands for. Add a ``Recogniser`` of your own under its name."""


def choose_recognisers(names: str | Sequence[str | Path] = "all") -> tuple[list[Recogniser], tuple[str, ...]]:
    """Return recognisers by name, and a sentence for each one that ``all`` had to leave out.

    Parameters
    ----------
    names : str or sequence
        Names of ``ATTACKERS``, paths of .onnx files, ``all``; several in one string with commas.

    Raises
    ------
    UsageError
        If there is no such recogniser.
    WeightsError
        If one that was named is missing. Of ``all``, those that are available are returned.

    Examples
    --------
    >>> [one.name for one in choose_recognisers("lbp, hog")[0]], choose_recognisers("lbp")[1]
    (['lbp', 'hog'], ())
    """
    given = names.split(",") if isinstance(names, str) else names
    wanted = list(dict.fromkeys(str(name).strip() for name in given))
    found: dict[str, Recogniser] = {}
    notes = []
    for name in wanted:
        if name.lower().endswith(".onnx"):
            one = from_onnx(name)
            if one.name in {**ATTACKERS, **found}:
                raise UsageError(
                    f"{name} must have a name of its own: there is already a recogniser {one.name}."
                )
            found[one.name] = one
        elif name == "all":
            for each in ATTACKERS:
                try:
                    found[each] = _fetch_recogniser(each)
                except WeightsError as error:
                    notes.append(f"Without {each}: {error}")
        elif name in ATTACKERS:
            found[name] = _fetch_recogniser(name)
        else:
            known = ", ".join(ATTACKERS)
            raise UsageError(
                f"There is no recogniser {name!r}: choose all, an .onnx file, or some of {known}."
            )
    return list(found.values()), tuple(notes)


def _fetch_recogniser(name: str) -> Recogniser:
    """Return a recogniser once its weights are on disk, so that a run cannot fail halfway without them."""
    if name in recognisers.RECOGNISERS:
        weights.fetch([name])
    return ATTACKERS[name]


def from_onnx(path: str | Path) -> Recogniser:
    """Return the recogniser in an .onnx file: an aligned face in, an embedding out.

    Parameters
    ----------
    path : str or Path
        A network with one image as input, (1, 3, s, s) or (1, s, s, 3), s = 112 where it is left open,
        and one vector of at least 16 numbers as output. It is fed as ArcFace is: RGB from -1 to 1, the
        face aligned by five points. Its name is the file's.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"There is no file {file}.")
    return _as_recogniser(recognisers.from_onnx(file), None)


def surroundings_chips(
    rgb: NDArray[np.uint8], points: FloatArray, *, side: int, face: bool = True
) -> NDArray[np.uint8]:
    """Return grey squares (n, 102, 102) about the faces with these meshes (n, 468, 2).

    Parameters
    ----------
    side : int
        The side of the square, in pixels of the thesis [S 6.3.2].
    face : bool
        Whether the face is shown. Without it, this is the inverse crop [S 6.4]: the face is one flat grey.
        Deviation: an ellipse, the same for everyone, because the outline of a person's own landmarks
        would show at its edge.

    Examples
    --------
    >>> surroundings_chips(np.zeros((320, 256, 3), np.uint8), np.zeros((0, 468, 2)), side=300).shape
    (0, 102, 102)
    """
    views = np.zeros((len(points), classic.SIDE, classic.SIDE), np.uint8)
    scale = classic.SIDE / (side * THESIS_PIXEL)
    # pixel centres: the centre of the square goes to the centre of the chip
    view = np.column_stack([scale * np.eye(2), (classic.SIDE - 1) / 2 - scale * FACE_CENTRE])
    hole = np.zeros(views.shape[1:], bool) if face else _face_region(view)
    for chip, mesh in zip(views, points, strict=True):
        matrix = view @ np.vstack([to_frame(mesh), [0, 0, 1]])
        chip[:] = cv2.cvtColor(crop(rgb, matrix, classic.SIDE, classic.SIDE), cv2.COLOR_RGB2GRAY)
        chip[hole] = FACE_GREY
    return views


def _face_region(view: FloatArray) -> NDArray[np.bool_]:
    """Return the pixels of a chip that a face covers."""
    (x, y), (a, b) = FACE_ELLIPSE
    row, column = np.indices((classic.SIDE, classic.SIDE))
    u, v = (column - view[0, 2]) / view[0, 0], (row - view[1, 2]) / view[1, 1]
    hole: NDArray[np.bool_] = ((u - x) / a) ** 2 + ((v - y) / b) ** 2 <= 1
    return hole


_VIEWS = {
    "background": (partial(surroundings_chips, side=400, face=False), ("lbp", "hog")),
    "crop200": (partial(surroundings_chips, side=200), ("lbp", "hog", "eigenfaces")),
    "crop300": (partial(surroundings_chips, side=300), ("lbp", "hog", "eigenfaces")),
}
SURROUNDINGS_ATTACKERS: tuple[Recogniser, ...] = tuple(
    Recogniser(f"{view}-{name}", chips, ATTACKERS[name].codes, ATTACKERS[name].train, surroundings=True)
    for view, (chips, names) in _VIEWS.items()
    for name in names
)
"""Recognisers that look past the face, at the background alone or at wider crops."""
