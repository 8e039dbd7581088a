"""Who an attacker uses: classic and deep recognisers behind one type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ksame.attack.score import Match, Train
from ksame.core import FloatArray
from ksame.represent import embedding


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


def deep(name: str) -> Recogniser:
    """Return one of the networks of ``represent.embedding`` as an attacker's recogniser."""
    net = embedding.RECOGNISERS[name]
    return Recogniser(name, net.chips, net.codes, euclidean, net.same_person)
