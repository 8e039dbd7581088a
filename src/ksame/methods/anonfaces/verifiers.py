"""Recognisers as judges: what each makes of a face, and whom they take a portrait for [A 3.4]."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME
from ksame.models.recognisers import RECOGNISERS, VERIFIERS, embed
from ksame.spaces.appearance import landmarks_on_frame
from ksame.spaces.generator_space import split_features

__all__ = ["THRESHOLDS", "distance_limit", "embed_registered", "group_affinity", "matched_faces"]

THRESHOLDS = {name: RECOGNISERS[name].match_threshold for name in VERIFIERS.portrait}
"""Distances below which a recogniser counts two faces as one person."""

_NEAR_PAIR_SHARE, _MIN_LIMIT_SHARE = 0.05, 0.8  # of pairs of people, and of a threshold: see `limit`
_embed_lock = threading.Lock()  # for a second thread FaceNet would be opened again, which takes 0.24 GB


def embed_registered(
    faces: FaceSet, verifiers: Sequence[str], read: FloatArray | None = None
) -> dict[str, FloatArray]:
    """Return what each recogniser makes of faces: name to (n, d).

    ``read``: their features, if they are known, whose first part is MobileFaceNet's.
    """
    mesh, scale = landmarks_on_frame(faces), faces.rgb.shape[2] / FRAME.width
    codes = {} if read is None else {"mobilefacenet": split_features(read)[0]}
    for name in verifiers:
        if name not in codes:
            with _embed_lock if name == "facenet" else nullcontext():
                each = [embed(name, rgb, scale * p[None]) for rgb, p in zip(faces.rgb, mesh, strict=True)]
            codes[name] = np.concatenate(each).astype(np.float64)
    return {name: codes[name] for name in verifiers}


def matched_faces(
    image: Mapping[str, FloatArray] | None,
    members: Mapping[str, FloatArray],
    rows: IntArray,
    limits: Mapping[str, float] = MappingProxyType(THRESHOLDS),
) -> NDArray[np.bool_]:
    """Return which faces some recogniser takes for a portrait, by what each makes of it.

    None: no face was found to judge by, so that everybody counts as recognised.
    """
    if image is None:
        return np.ones(len(rows), bool)
    risk = np.zeros(len(rows), bool)
    for name, code in image.items():
        risk |= np.linalg.norm(members[name][rows] - code, axis=1) < limits[name]
    return risk


def distance_limit(codes: FloatArray, subjects: NDArray[Any], judge: str) -> float:
    """Return how near a portrait may be to people: what nearly all of them are apart by, or the threshold.

    Deviation: the paper always takes the threshold [A 3.4]. At 0.6 dlib takes half of all pairs of black men
    of london for one person, and one in a hundred of white men: held to that, a portrait of black men would
    have to be of somebody else. But it is not much less than the threshold: two who are alike, or one who
    goes by two names, must not let a portrait be like both. Who is within the threshold is listed anyway.
    """
    threshold = THRESHOLDS[judge]
    apart = np.linalg.norm(codes[:, None] - codes, axis=2)[subjects[:, None] != subjects]
    return float(np.clip(np.quantile(apart, _NEAR_PAIR_SHARE), _MIN_LIMIT_SHARE * threshold, threshold))


def group_affinity(
    face: Mapping[str, FloatArray], members: Mapping[str, FloatArray], own: IntArray, others: IntArray
) -> float:
    """Return how much nearer a face is to its own people than to others, in thresholds, to all recognisers.

    0 where there are no others. Recognisers tell descent better than any width of nose or lips: of 28 tries
    at portraits of black people (london, k = 5), those that were of somebody else in dark skin had -0.04 to
    0.07, doubtful ones 0.15 to 0.2, the others 0.18 to 0.32, as their people have.

    Parameters
    ----------
    face : mapping of str to (1, e) or (e,)
        What recognisers make of it.
    members : mapping of str to (n, e)
        What they make of all faces.
    own, others : index arrays
        Which of these are its people's, and other people's.
    """
    nearer = [0.0]
    for name, code in face.items() if len(others) else ():
        apart = np.linalg.norm(members[name] - code, axis=1) / THRESHOLDS[name]
        nearer.append(apart[others].mean() - apart[own].mean())
    return float(np.mean(nearer[1:] or nearer))
