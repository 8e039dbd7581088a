"""Measure whether detectors still find a face in published images [S fig. 2.2]."""

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
    """Return, for each detector, the share of images in which it finds a face.

    Parameters
    ----------
    images : iterable of (h, w, 3) uint8
        The published images; a generator is read as needed, so that few images are held.
    detectors : sequence of str, optional
        Some of ``models.detectors.DETECTORS``; by default those whose weights are cached or can be fetched.
    jobs : int, optional
        Number of parallel workers; by default one per core.
    """
    if detectors is None:
        detectors = [name for name in DETECTORS if weights.cached(name) or weights.fetchable(name)]
    total, hits = 0, np.zeros(len(detectors))
    tasks = ((image, tuple(detectors)) for image in images)
    with closing(parallel_map(_detects_face, tasks, jobs=jobs)) as results:
        for found in results:
            total += 1
            hits += found
    if not total:
        raise UsageError("A detection rate needs at least one image.")
    return dict(zip(detectors, (hits / total).tolist(), strict=True))


def _detects_face(rgb: NDArray[np.uint8], detectors: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([len(detect(rgb, detector=name)) > 0 for name in detectors], bool)
