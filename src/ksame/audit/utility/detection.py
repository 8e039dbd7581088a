"""Whether what is published still looks like faces: to several detectors [S fig. 2.2]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from ksame.core.context import parallel_map
from ksame.core.errors import UsageError
from ksame.models import weights
from ksame.models.detectors import DETECTORS, detect

__all__ = ["detection_rate"]


def detection_rate(
    images: Iterable[NDArray[np.uint8]],
    *,
    detectors: Sequence[str] | None = None,
    jobs: int | None = None,
) -> dict[str, float]:
    """Return, for each detector, the share of pictures in which it finds a face.

    Parameters
    ----------
    images : iterable of (h, w, 3) uint8
        What was published; a generator is read as it is needed, so that few pictures are held.
    detectors : sequence of str, optional
        Some of ``models.detectors.DETECTORS``; by default those whose weights are there or can be fetched.
    jobs : int, optional
        Pictures looked at at a time; by default one per core.
    """
    if detectors is None:
        detectors = [name for name in DETECTORS if weights.cached(name) or weights.fetchable(name)]
    total, hits = 0, np.zeros(len(detectors))
    tasks = ((image, tuple(detectors)) for image in images)
    with closing(parallel_map(_detects_face, tasks, jobs=jobs)) as results:
        for seen in results:
            total += 1
            hits += seen
    if not total:
        raise UsageError("A detection rate needs at least one picture.")
    return {name: float(count / total) for name, count in zip(detectors, hits, strict=True)}


def _detects_face(rgb: NDArray[np.uint8], detectors: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([len(detect(rgb, detector=name)) > 0 for name in detectors], bool)
