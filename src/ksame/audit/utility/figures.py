"""One figure for each face and measure: what a table of means is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.audit.utility.classify import COMMONEST_LABEL, MAX_FACES, classify_faces
from ksame.audit.utility.expression import DISTANCES
from ksame.audit.utility.fidelity import psnr, squared_error, ssim
from ksame.audit.utility.proportions import PROPORTIONS
from ksame.core.arrays import FloatArray, IntArray
from ksame.models.attributes import AGE_BANDS, age_band
from ksame.models.blendshapes import BLENDSHAPES

__all__ = ["Figure", "figures", "has_face"]

Columns = Mapping[str, NDArray[Any]]


class Figure(NamedTuple):
    """A measure, face by face; NaN where a face has none."""

    name: str  # with its unit
    original: FloatArray | None  # (n,); None where only the comparison with the original has a meaning
    published: FloatArray  # (n,)
    better: Literal["more", "less", "neither"] = "neither"
    finish: Callable[[float], float] = float  # from the mean over faces to what is shown


def figures(
    before: Columns, after: Columns, classes: Mapping[str, NDArray[np.str_]], together: IntArray
) -> Iterator[Figure]:
    """Yield every measure that the columns allow.

    Parameters
    ----------
    before, after : mapping of str to (n, ...)
        What ``features`` found of each original face and of the face that was published for it.
    classes : mapping of str to (n,) str
        What classifiers are to tell, "" where it is not known.
    together : (n,) int
        Faces that may not be torn apart in cross-validation.
    """
    old, new = has_face(before), has_face(after)
    yield Figure("faces not found (share)", 1.0 - old, 1.0 - new, "less")
    columns = before.keys() & after.keys()
    both = old & new
    if "appearance" in columns:
        # [A def. 3.2] in units in which 1 is the standard deviation of the model
        loss = np.linalg.norm(before["appearance"] - after["appearance"].astype(np.float64), axis=1)
        yield Figure("information loss (appearance, standard deviations)", None, loss, "less")
    if "picture" in columns:
        yield from _pixels(before["picture"], after["picture"], both)
        yield from _classifier_figures(before["picture"], after["picture"], both, classes, together)
    if "gender_score" in columns:
        yield from _attribute_figures(before, after, both)
    if "proportions" in columns:
        yield from _proportion_figures(before["proportions"], after["proportions"])
    for name, parts in (("blendshapes", BLENDSHAPES), ("distances", DISTANCES)):
        if name in columns:
            yield from _expressions(before[name], after[name], name, parts)


def has_face(columns: Columns) -> NDArray[np.bool_]:
    """Return which rows (n,) are faces: the others are NaN in every column."""
    first = [column.reshape(len(column), -1)[:, 0] for column in columns.values()]
    lost = np.isnan(np.stack([f.astype(np.float64) for f in first]))  # (c, n)
    return np.asarray(~lost.any(axis=0))


def _pixels(before: NDArray[Any], after: NDArray[Any], both: NDArray[np.bool_]) -> Iterator[Figure]:
    a, b = (column[both].astype(np.uint8) for column in (before, after))
    error, similar = np.full((2, len(both)), np.nan)
    error[both], similar[both] = squared_error(a, b), ssim(a, b)
    # Deviation: [A def. 3.2] is the plain Euclidean distance; divided by the root of the number of pixels
    # it does not depend on the size of the picture and is in grey levels
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
    """Yield whether classifiers tell gender and expression [G5 5.3, G6 5.3, S 7.4]."""
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
    """Return so many of the parts, evenly spread, that few enough faces are in them."""
    every = -(-n // MAX_FACES) or 1
    return np.unique(parts)[::every]


def _attribute_figures(before: Columns, after: Columns, both: NDArray[np.bool_]) -> Iterator[Figure]:
    """Yield what a network or a colour says of both faces, where it was sure of the original."""

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
    sure = np.where(before["skin_sure"] == 1, ita, np.nan)  # a grey picture has no skin tone
    yield Figure("skin tone, difference (ITA, degrees)", None, sure, "less")


def _proportion_figures(before: NDArray[Any], after: NDArray[Any]) -> Iterator[Figure]:
    """Yield features of descent other than skin: what they are before and after, and how far they change."""
    for part, old, new in zip(PROPORTIONS, before.T, after.T, strict=True):
        yield Figure(f"{part} (share of the face's width)", old, new)
        yield Figure(f"{part}, difference (share of the face's width)", None, np.abs(old - new), "less")


def _bands(ages: FloatArray) -> IntArray:
    """Return the number (n,) of each age's band, -1 for NaN."""
    return np.array([AGE_BANDS.index(age_band(a)) if a >= 0 else -1 for a in ages.tolist()], np.intp)


def _expressions(
    before: NDArray[Any], after: NDArray[Any], name: str, parts: tuple[str, ...]
) -> Iterator[Figure]:
    """Yield how far expressions changed [S 7.5.1]: the mean over all parts, then smiles by name."""
    change = np.abs(before - after.astype(np.float64))
    unit = f"mean of {len(parts)} blendshapes" if name == "blendshapes" else "mesh, distances of the eyes"
    yield Figure(f"expression, difference ({unit})", None, change.mean(axis=1), "less")
    for at, part in enumerate(parts):
        if "smile" in part.lower():
            yield Figure(f"{part} ({name})", before[:, at], after[:, at])
            yield Figure(f"{part}, difference ({name})", None, change[:, at], "less")
