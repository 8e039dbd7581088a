"""Recognisers as judges: what each makes of a face, and whom they take a portrait for [A 3.4]."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from ksame.core import FaceSet, FloatArray, IntArray
from ksame.geometry import FRAME
from ksame.represent.appearance import on_frame
from ksame.represent.embedding import embed
from ksame.represent.generator import split

__all__ = ["THRESHOLDS", "known", "recognised"]

THRESHOLDS = {"sface": 1.128, "mobilefacenet": 1.01, "facenet": 0.91, "dlib": 0.6}
"""Distances below which a recogniser would call two faces one person: dlib's of the paper [A 3.4], SFace's of
its authors, and where one in 1,000 pairs of strangers among 341 legislators is nearer."""

_alone = threading.Lock()  # for a second thread FaceNet would be opened again, which takes 0.24 GB


def known(faces: FaceSet, judges: Sequence[str], read: FloatArray | None = None) -> dict[str, FloatArray]:
    """Return what each recogniser makes of faces: name to (n, d).

    ``read``: their features, if they are known, whose first part is MobileFaceNet's.
    """
    mesh, scale = on_frame(faces), faces.rgb.shape[2] / FRAME.width
    codes = {} if read is None else {"mobilefacenet": split(read)[0]}
    for name in judges:
        if name not in codes:
            with _alone if name == "facenet" else nullcontext():
                each = [embed(name, rgb, scale * p[None]) for rgb, p in zip(faces.rgb, mesh, strict=True)]
            codes[name] = np.concatenate(each).astype(np.float64)
    return {name: codes[name] for name in judges}


def recognised(
    picture: Mapping[str, FloatArray] | None, members: Mapping[str, FloatArray], rows: IntArray
) -> NDArray[np.bool_]:
    """Return which faces some recogniser takes for a portrait, by what each makes of it.

    None: no face was found to judge by, so that everybody counts as recognised.
    """
    if picture is None:
        return np.ones(len(rows), bool)
    risk = np.zeros(len(rows), bool)
    for name, code in picture.items():
        risk |= np.linalg.norm(members[name][rows] - code, axis=1) < THRESHOLDS[name]
    return risk
