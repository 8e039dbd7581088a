"""Whether gender and expression can still be told, in 5-fold cross-validation [G5 5.3, G6 5.3, S 7.4].

Two questions are asked. Does a published set teach the same (both support vector machines are trained
and tested on the originals, then trained and tested on the published faces)? And does a published face
still show to others what it showed (LDA is trained on originals and tested on published faces [S 7.4])?
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from ksame.core.arrays import FloatArray, IntArray

__all__ = ["COMMONEST_LABEL", "MAX_FACES", "classify_faces", "connected_rows"]

FOLDS = 5
MAX_FACES = 2000  # faces: support vector machines take a time that grows with the square
_SIZE = 16, 20  # px: on london/ gender and smiles are told from it as well as from four times as much
COMMONEST_LABEL = "always the commonest"  # what whoever never looks gets right


def classify_faces(
    before: NDArray[np.uint8], after: NDArray[np.uint8], classes: NDArray[Any], together: IntArray
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return for each classifier which faces (n,) it gets right (1.0 or 0.0), original and published.

    Deviation: the papers cut the set in five at random. Here all photos of a person, and all faces with
    the same published picture, are in one fold: else a classifier would be tested on pictures that it was
    trained on, and k-Same would look better than it is.

    Parameters
    ----------
    before, after : (n, h, w) uint8
        Grey pictures of the faces.
    classes : (n,) array
        What is to be told; faces without a value ("") and classes too rare for five folds are left out.
    together : (n,) int
        Faces that must be in one fold, as ``connected_rows`` gives them.

    Returns
    -------
    mapping of str to (original, published)
        NaN for faces that were left out; empty if fewer than two classes remain.
    """
    spread = {c: len(np.unique(together[classes == c])) for c in np.unique(classes) if c != ""}
    rows = np.flatnonzero(np.isin(classes, [c for c, parts in spread.items() if parts >= FOLDS]))
    values, y = np.unique(classes[rows], return_inverse=True)
    if len(values) < 2:
        return {}
    right = np.full((len(_CLASSIFIERS) + 1, 2, len(classes)), np.nan)
    right[-1][:, rows] = y == np.bincount(y).argmax()
    sides = _thumbnails(before[rows]), _thumbnails(after[rows])
    with threadpool_limits(1):  # the matrices are small: threads would wait for each other
        for train, test in StratifiedGroupKFold(FOLDS).split(sides[0], y, together[rows]):
            for machine, (make, on_originals) in enumerate(_CLASSIFIERS.values()):
                for side, x in enumerate(sides):
                    teacher = sides[0] if on_originals else x
                    guess = make().fit(teacher[train], y[train]).predict(x[test])
                    right[machine, side, rows[test]] = guess == y[test]
    return {
        name: (old, new) for name, (old, new) in zip([*_CLASSIFIERS, COMMONEST_LABEL], right, strict=True)
    }


_CLASSIFIERS: dict[str, tuple[Any, bool]] = {
    "linear SVM": (lambda: make_pipeline(StandardScaler(), SVC(kernel="linear", C=0.1)), False),
    "RBF SVM": (lambda: make_pipeline(StandardScaler(), SVC(kernel="rbf")), False),
    "LDA trained on originals": (lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"), True),
}


def connected_rows(*columns: ArrayLike) -> IntArray:
    """Return a number (n,) for each set of rows that share a value in any of the columns, directly or not.

    Examples
    --------
    >>> connected_rows(["A", "A", "B", "C"], ["x", "y", "y", "z"]).tolist()
    [0, 0, 0, 1]
    """
    row = np.arange(len(np.asarray(columns[0])))
    links, nodes = [], len(row)
    for column in columns:
        _, value = np.unique(np.asarray(column), return_inverse=True)
        links.append(np.stack([row, nodes + value]))
        nodes += int(value.max(initial=-1)) + 1
    ends = np.hstack(links)
    graph = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(nodes, nodes))
    _, part = connected_components(graph, directed=False)
    return np.unique(part[: len(row)], return_inverse=True)[1].astype(np.intp)


def _thumbnails(images: NDArray[np.uint8]) -> FloatArray:
    """Return pictures (n, h, w) as rows (n, 320), each with its own brightness and contrast taken out."""
    rows = np.stack([cv2.resize(p, _SIZE, interpolation=cv2.INTER_AREA).ravel() for p in images])
    x = rows.astype(np.float64)
    x -= x.mean(axis=1, keepdims=True)
    flat: FloatArray = x / np.maximum(x.std(axis=1, keepdims=True), 1.0)
    return flat
