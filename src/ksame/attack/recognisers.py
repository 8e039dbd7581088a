"""Who an attacker uses: classic and deep recognisers behind one type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ksame.attack import classic
from ksame.attack.score import Match, Train
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError, WeightsError
from ksame.models import recognisers, weights


@dataclass(frozen=True, eq=False)
class Recogniser:
    """A way to tell people apart by their faces.

    Parameters
    ----------
    name : str
        As in reports.
    chips : callable
        From a photo (h, w, 3) and meshes (n, 468, 2) to the n small aligned pictures it looks at.
    codes : callable
        From chips (n, ...) to codes (n, d); in batches, and what a picture costs.
    train : callable
        From the gallery's codes and subjects to distances.
    same_person : float, optional
        The distance up to which two codes are usually taken for one person.
    """

    name: str
    chips: Callable[[NDArray[np.uint8], FloatArray], NDArray[np.uint8]]
    codes: Callable[[NDArray[np.uint8]], NDArray[Any]]
    train: Train
    same_person: float | None = None


def euclidean(gallery: NDArray[Any], subjects: NDArray[Any]) -> Match:
    """Return the Euclidean distance from a gallery's codes; nothing is learnt."""
    return lambda probes: np.asarray(cdist(probes, gallery))


def deep_recogniser(name: str) -> Recogniser:
    """Return one of the networks of ``models.recognisers`` as an attacker's recogniser."""
    net = recognisers.RECOGNISERS[name]
    return _as_recogniser(net, net.same_person)


def _as_recogniser(net: recognisers.EmbeddingNetwork, same_person: float | None) -> Recogniser:
    # a nonsense code must not pass for a face that was not found
    codes = partial(_finite_codes, net)
    return Recogniser(net.name, net.chips, codes, euclidean, same_person)


def _finite_codes(net: recognisers.EmbeddingNetwork, chips: NDArray[np.uint8]) -> FloatArray:
    return recognisers.check_finite(net.name, net.codes(chips))


RECOGNISERS: dict[str, Recogniser] = {
    who.name: who
    for who in (
        Recogniser("eigenfaces", classic.chips, classic.pixels, classic.eigenfaces),
        Recogniser("eigenfaces-mahalanobis", classic.chips, classic.pixels, classic.mahalanobis),
        Recogniser("fisherfaces", classic.chips, classic.pixels, classic.fisherfaces),
        Recogniser("lbp", classic.chips, classic.lbp, classic.chi_square),
        Recogniser("hog", classic.chips, classic.hog, classic.cosine),
        Recogniser("lpq", classic.chips, classic.lpq, classic.cosine),
        *map(deep_recogniser, ("dlib", "sface", "facenet", "mobilefacenet")),
    )
}


def choose_recognisers(names: str | Sequence[str | Path] = "all") -> tuple[list[Recogniser], tuple[str, ...]]:
    """Return recognisers, and in sentences which of them are missing and what would bring them.

    Parameters
    ----------
    names : str or sequence
        Names of ``RECOGNISERS``, paths of .onnx files, ``all``; several in one string with commas.

    Raises
    ------
    UsageError
        If there is no such recogniser.
    WeightsError
        If one that was named is missing. Of ``all`` those that are here are returned.

    Examples
    --------
    >>> [who.name for who in choose_recognisers("lbp, hog")[0]], choose_recognisers("lbp")[1]
    (['lbp', 'hog'], ())
    """
    given = names.split(",") if isinstance(names, str) else names
    wanted = list(dict.fromkeys(str(name).strip() for name in given))
    found: dict[str, Recogniser] = {}
    notes = []
    for name in wanted:
        if name.lower().endswith(".onnx"):
            who = from_onnx(name)
            if who.name in {**RECOGNISERS, **found}:
                raise UsageError(f"{name} must have a name of its own: there is a recogniser {who.name}.")
            found[who.name] = who
        elif name == "all":
            for each in RECOGNISERS:
                try:
                    found[each] = _fetch_recogniser(each)
                except WeightsError as error:
                    notes.append(f"Without {each}: {error}")
        elif name in RECOGNISERS:
            found[name] = _fetch_recogniser(name)
        else:
            known = ", ".join(RECOGNISERS)
            raise UsageError(
                f"There is no recogniser {name!r}: choose all, an .onnx file, or some of {known}."
            )
    return list(found.values()), tuple(notes)


def _fetch_recogniser(name: str) -> Recogniser:
    """Return a recogniser once its weights are on disk, so that it cannot fail halfway for want of them."""
    if name in recognisers.RECOGNISERS:
        weights.path(name)
    return RECOGNISERS[name]


def from_onnx(path: str | Path) -> Recogniser:
    """Return the recogniser in an .onnx file: an aligned face in, a code out.

    Parameters
    ----------
    path : str or Path
        A network with one picture as input, (1, 3, s, s) or (1, s, s, 3), s = 112 where it is left open,
        and one vector of at least 16 numbers as output. It is fed as ArcFace is: RGB from -1 to 1, the
        face aligned by five points. Its name is the file's.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"There is no file {file}.")
    return _as_recogniser(recognisers.from_onnx(file), None)
