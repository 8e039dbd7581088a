"""Compute one figure per face and measure, from which tables of means are made [S 7, G5 5.3, G6 5.3]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from ksame.audit.utility.features import DISTANCES, PROPORTIONS
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError
from ksame.models.attributes import AGE_BANDS, age_band
from ksame.models.blendshapes import BLENDSHAPES

__all__ = [
    "COMMONEST_LABEL",
    "MAX_FACES",
    "Figure",
    "appearance_spread",
    "classify_faces",
    "diversity",
    "entropy",
    "figures",
    "label_mixture",
    "psnr",
    "squared_error",
    "ssim",
]

Columns = Mapping[str, NDArray[Any]]


class Figure(NamedTuple):
    """A measure, face by face; NaN where a face has none."""

    name: str  # with its unit
    original: FloatArray | None  # (n,); None where only the comparison with the original has a meaning
    published: FloatArray  # (n,)
    better: Literal["more", "less", "neither"] = "neither"
    finish: Callable[[float], float] = float  # from the mean over faces to the value that is reported

    def measured(self) -> NDArray[np.bool_]:
        """Return the faces (n,) that have a value, before and after."""
        both = np.isfinite(self.published)
        return both if self.original is None else both & np.isfinite(self.original)

    def means(self, rows: NDArray[np.bool_]) -> tuple[float, float]:
        """Return the values that are reported for some faces, original and published."""
        old = np.nan if self.original is None else self.finish(float(self.original[rows].mean()))
        return old, self.finish(float(self.published[rows].mean()))


def figures(
    before: Columns,
    after: Columns,
    is_found: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    classes: Mapping[str, NDArray[np.str_]],
    together: IntArray,
) -> Iterator[Figure]:
    """Yield every measure that the columns permit.

    Parameters
    ----------
    before, after : mapping of str to (n, ...)
        What ``face_columns`` measured on each original face and on the face published for it.
    is_found : (n,) bool, twice
        Which original and which published faces were found; the columns of others are NaN.
    classes : mapping of str to (n,) str
        What classifiers must predict, "" where it is unknown.
    together : (n,) int
        Faces that must be in one fold of cross-validation.
    """
    old, new = is_found
    yield Figure("faces not found (share)", 1.0 - old, 1.0 - new, "less")
    columns = before.keys() & after.keys()
    both = old & new
    if "appearance" in columns:
        # [A def. 3.2] in units in which 1 is the standard deviation of the model
        loss = np.linalg.norm(before["appearance"] - after["appearance"].astype(np.float64), axis=1)
        yield Figure("information loss (appearance, standard deviations)", None, loss, "less")
    if "image" in columns:
        yield from _pixel_figures(before["image"], after["image"], both)
        yield from _classifier_figures(before["image"], after["image"], both, classes, together)
    if "gender_score" in columns:
        yield from _attribute_figures(before, after, both)
    if "proportions" in columns:
        yield from _proportion_figures(before["proportions"], after["proportions"])
    for name, parts in (("blendshapes", BLENDSHAPES), ("distances", DISTANCES)):
        if name in columns:
            yield from _expression_figures(before[name], after[name], name, parts)


def _pixel_figures(before: NDArray[Any], after: NDArray[Any], both: NDArray[np.bool_]) -> Iterator[Figure]:
    a, b = (column[both].astype(np.uint8) for column in (before, after))
    error, similar = np.full((2, len(both)), np.nan)
    error[both], similar[both] = squared_error(a, b), ssim(a, b)
    # Deviation: [A def. 3.2] is the plain Euclidean distance; divided by the root of the number of pixels
    # it does not depend on the size of the image and is in grey levels
    yield Figure("information loss (pixels, grey levels)", None, np.sqrt(error), "less")
    yield Figure("SSIM (1 is equal)", None, similar, "more")
    yield Figure("PSNR (dB)", None, error, finish=psnr)


def _classifier_figures(
    before: NDArray[Any],
    after: NDArray[Any],
    both: NDArray[np.bool_],
    classes: Mapping[str, NDArray[np.str_]],
    together: IntArray,
) -> Iterator[Figure]:
    """Yield how well classifiers predict gender and expression [G5 5.3, G6 5.3, S 7.4]."""
    rows = np.flatnonzero(both)
    rows = rows[np.isin(together[rows], _limit_faces(together[rows], len(rows)))]
    a, b = (column[rows].astype(np.uint8) for column in (before, after))
    for label, values in classes.items():
        for name, right in classify_faces(a, b, values[rows], together[rows]).items():
            old, new = np.full((2, len(both)), np.nan)
            old[rows], new[rows] = right
            better: Literal["neither", "more"] = "neither" if name == COMMONEST_LABEL else "more"
            yield Figure(f"{label}, {name} (accuracy)", old, new, better)


def _limit_faces(parts: IntArray, n: int) -> IntArray:
    """Return some of the parts, evenly spread, with few enough faces in total."""
    every = -(-n // MAX_FACES) or 1
    return np.unique(parts)[::every]


def _attribute_figures(before: Columns, after: Columns, both: NDArray[np.bool_]) -> Iterator[Figure]:
    """Yield predicted attributes of both faces, where the prediction for the original is certain."""

    def kept(same: NDArray[np.bool_], sure: str) -> FloatArray:
        return np.where(both & (before[sure] == 1), same, np.nan)

    old, new = (_bands(columns["age"]) for columns in (before, after))
    male, smile = ((before[c] > 0.5) == (after[c] > 0.5) for c in ("gender_score", "smile_score"))
    yield Figure("apparent gender kept (share)", None, kept(male, "gender_sure"), "more")
    yield Figure("apparent expression kept (share)", None, kept(smile, "smile_sure"), "more")
    yield Figure("apparent age band kept (share)", None, kept(old == new, "age_sure"), "more")
    years, light, ita = (np.abs(before[c] - after[c]) for c in ("age", "lightness", "ita"))
    yield Figure("apparent age (years)", before["age"], after["age"])
    yield Figure("apparent age, difference (years)", None, years, "less")
    yield Figure("skin lightness (L*)", before["lightness"], after["lightness"])
    yield Figure("skin lightness, difference (L*)", None, light, "less")
    sure = np.where(before["skin_sure"] == 1, ita, np.nan)  # a grey image has no skin tone
    yield Figure("skin tone, difference (ITA, degrees)", None, sure, "less")


def _proportion_figures(before: NDArray[Any], after: NDArray[Any]) -> Iterator[Figure]:
    """Yield proportions that vary with descent, before and after, and how much they change."""
    for part, old, new in zip(PROPORTIONS, before.T, after.T, strict=True):
        yield Figure(f"{part} (share of the face's width)", old, new)
        yield Figure(f"{part}, difference (share of the face's width)", None, np.abs(old - new), "less")


def _bands(ages: FloatArray) -> IntArray:
    """Return the number (n,) of each age's band, -1 for NaN."""
    return np.array([AGE_BANDS.index(age_band(a)) if a >= 0 else -1 for a in ages.tolist()], np.intp)


def _expression_figures(
    before: NDArray[Any], after: NDArray[Any], name: str, parts: tuple[str, ...]
) -> Iterator[Figure]:
    """Yield how much expressions changed [S 7.5.1]: the mean over all parts, then smiles by name."""
    change = np.abs(before - after.astype(np.float64))
    unit = f"mean of {len(parts)} blendshapes" if name == "blendshapes" else "mesh, distances of the eyes"
    yield Figure(f"expression, difference ({unit})", None, change.mean(axis=1), "less")
    for at, part in enumerate(parts):
        if "smile" in part.lower():
            yield Figure(f"{part} ({name})", before[:, at], after[:, at])
            yield Figure(f"{part}, difference ({name})", None, change[:, at], "less")


FOLDS = 5
MAX_FACES = 2000  # faces: support vector machines take a time that grows with the square
_SIZE = 16, 20  # px; on london/ four times as many pixels classified gender and smiles no better
COMMONEST_LABEL = "most frequent label"  # the accuracy of a classifier that ignores the image


def classify_faces(
    before: NDArray[np.uint8], after: NDArray[np.uint8], classes: NDArray[Any], together: IntArray
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return for each classifier which faces (n,) it gets right (1.0 or 0.0), original and published.

    Two questions are asked [G5 5.3, G6 5.3, S 7.4]. Can a classifier be trained on the published set (both
    support vector machines are trained and tested on the originals, then on the published faces)? And does
    a published face still show what it showed (LDA is trained on originals and tested on published faces)?
    Deviation: the papers split the set in five at random. Here all photos of a person, and all faces with
    the same published image, are in one fold: otherwise a classifier would be tested on images that it was
    trained on, and k-Same would look better than it is.

    Parameters
    ----------
    before, after : (n, h, w) uint8
        Grey images of the faces.
    classes : (n,) array
        What is to be predicted; faces without a value ("") and classes too rare for five folds are left out.
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


def _thumbnails(images: NDArray[np.uint8]) -> FloatArray:
    """Return images (n, h, w) as rows (n, 320), each normalised to zero mean and unit contrast."""
    rows = np.stack([cv2.resize(p, _SIZE, interpolation=cv2.INTER_AREA).ravel() for p in images])
    x = rows.astype(np.float64)
    x -= x.mean(axis=1, keepdims=True)
    flat: FloatArray = x / np.maximum(x.std(axis=1, keepdims=True), 1.0)
    return flat


_SIGMA, _REACH = 1.5, 5  # the window of Wang et al. 2004: 11 x 11
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2


def ssim(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> FloatArray:
    """Return the structural similarity of each pair of grey images (n, h, w): 1 if they are equal.

    As Wang et al. define it (IEEE TIP 13(4), 2004): a Gaussian window of 1.5 pixels, mean over the positions
    where the whole window is inside the image.

    Examples
    --------
    >>> ramp = np.tile(np.arange(0, 240, 10, dtype=np.uint8), (1, 16, 1))
    >>> ssim(ramp, ramp).round(6).tolist(), ssim(ramp, 255 - ramp).round(1).tolist()
    ([1.0], [-0.6])
    """
    _check_pairs(a, b)
    if min(a.shape[1:]) <= 2 * _REACH:
        raise UsageError(f"SSIM needs images of at least 11 x 11 pixels. Got {a.shape[1:]}.")
    similar = np.zeros(len(a))
    inside = np.s_[_REACH:-_REACH, _REACH:-_REACH]
    for row, (x, y) in enumerate(zip(a.astype(np.float64), b.astype(np.float64), strict=True)):
        five = np.stack([x, y, x * x, y * y, x * y], axis=2)
        m_x, m_y, m_xx, m_yy, m_xy = cv2.GaussianBlur(five, (11, 11), _SIGMA)[inside].transpose(2, 0, 1)
        v_x, v_y, v_xy = m_xx - m_x**2, m_yy - m_y**2, m_xy - m_x * m_y
        light = (2 * m_x * m_y + _C1) / (m_x**2 + m_y**2 + _C1)
        similar[row] = (light * (2 * v_xy + _C2) / (v_x + v_y + _C2)).mean()
    return similar


def squared_error(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> FloatArray:
    """Return the mean squared difference (n,) of pairs of grey images (n, h, w), in squared grey levels."""
    _check_pairs(a, b)
    error = np.zeros(len(a))
    for row, (x, y) in enumerate(zip(a, b, strict=True)):  # one by one: no large copies
        error[row] = np.mean((x.astype(np.float64) - y) ** 2)
    return error


def psnr(error: float) -> float:
    """Return the peak signal-to-noise ratio, in dB, of a mean squared error; NaN for equal images.

    Examples
    --------
    >>> round(psnr(100.0), 2), psnr(0.0)
    (28.13, nan)
    """
    return float(10 * np.log10(255**2 / error)) if error > 0 else float("nan")


def _check_pairs(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> None:
    if a.ndim != 3 or a.shape != b.shape:
        raise UsageError(f"Images must be grey and parallel, (n, h, w) both. Got {a.shape} and {b.shape}.")


def appearance_spread(
    before: Columns, after: Columns, subjects: NDArray[Any], rows: NDArray[np.bool_]
) -> Iterator[tuple[str, float, float]]:
    """Yield the distances between the faces of some rows, before and after [S table 5.1]."""
    if "appearance" not in before or "appearance" not in after:
        return
    codes = [side["appearance"][rows].astype(np.float64) for side in (before, after)]
    both = ~np.isnan(np.hstack(codes)).any(axis=1)
    old, new = (diversity(side[both], subjects[rows][both]) for side in codes)
    for name in old:
        yield f"distance between people, {name} (appearance, standard deviations)", old[name], new[name]


def diversity(codes: ArrayLike, subjects: ArrayLike) -> dict[str, float]:
    """Return min, max, median, mean and std of the distances between faces of different people [S table 5.1].

    As in the thesis, std leaves out distances of 0, which are one face published several times. More than
    2,000 faces are sampled evenly.

    Examples
    --------
    >>> diversity([[0.0], [0.0], [3.0], [9.0]], ["A", "B", "C", "C"])
    {'min': 0.0, 'max': 9.0, 'median': 3.0, 'mean': 4.8, 'std': 3.0}
    """
    x, who = np.asarray(codes, dtype=np.float64), np.asarray(subjects)
    every = -(-len(x) // MAX_FACES) or 1
    x, who = x[::every], who[::every]
    i, j = np.triu_indices(len(x), 1)
    far = pdist(x)[who[i] != who[j]] if len(x) > 1 else np.zeros(0)
    if not len(far):
        return {}
    apart = far[far > 0]
    return {
        "min": float(far.min()),
        "max": float(far.max()),
        "median": float(np.median(far)),
        "mean": float(far.mean()),
        "std": float(apart.std()) if len(apart) else 0.0,
    }


def label_mixture(
    labels: Mapping[str, NDArray[np.str_]], groups: NDArray[Any]
) -> Iterator[tuple[str, float, float]]:
    """Yield the entropy of labels in the whole set and within groups, and the pure groups [A 4.4]."""
    for name, values in labels.items():
        is_known = values != ""
        mixed = entropy(values[is_known], groups[is_known])
        if len(mixed):
            whole = entropy(values[is_known], np.zeros(int(is_known.sum())))[0]
            yield f"{name} mixed within groups (entropy, 0 to 1)", float(whole), float(mixed.mean())
            yield f"groups of one {name} (share)", float("nan"), float((mixed == 0).mean())


def entropy(values: ArrayLike, groups: ArrayLike) -> FloatArray:
    """Return the entropy of a label in each group, 0 (all equal) to 1 (all values equally frequent) [A 4.4].

    Normalised by the logarithm of the number of values in the whole set.

    Examples
    --------
    >>> entropy(["f", "f", "m", "f"], [0, 0, 1, 1]).tolist()
    [0.0, 1.0]
    """
    kinds, value = np.unique(np.asarray(values), return_inverse=True)
    names, group = np.unique(np.asarray(groups), return_inverse=True)
    count = np.zeros((len(names), len(kinds)))
    np.add.at(count, (group, value), 1)
    p = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    bits = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=1)
    mixed: FloatArray = np.abs(bits / np.log(len(kinds))) if len(kinds) > 1 else np.zeros(len(names))
    return np.minimum(mixed, 1.0)
