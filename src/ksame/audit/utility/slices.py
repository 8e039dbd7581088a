"""Who is who among the faces: slices by gender, age and ethnicity, none about a handful of people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.models.attributes import UNSURE, age_band

__all__ = ["MIN_PEOPLE", "clean_labels", "predict_person_labels", "slices"]

MIN_PEOPLE = 5  # people: a figure about fewer is about them
_SLICE_COLUMNS = ("gender", "age", "ethnicity")
_UNKNOWN = ("", UNSURE, "nan", "NA")


def slices(
    subjects: ArrayLike, given: Mapping[str, NDArray[Any]], guessed: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[np.bool_]]:
    """Return rows by name: ``all``, then every value of gender, age band and ethnicity.

    For each label the slices are complementary: every face is in one. Values of fewer than 5 people are
    not shown on their own but pooled as ``others (few)``, and if these are still fewer than 5, the smallest
    of the other slices goes to them: or what is not shown could be found by subtraction.

    Parameters
    ----------
    subjects : (n,) array
        Who each face is.
    given, guessed : mapping of str to (n,) str
        Labels that are known, and those that are not and were predicted: the slice says which.

    Examples
    --------
    >>> who = np.arange(13)
    >>> label = np.array(["female"] * 7 + ["male"] * 5 + ["neither"])
    >>> {name: int(rows.sum()) for name, rows in slices(who, {"gender": label}, {}).items()}
    {'all': 13, 'gender: female': 7, 'gender: others (few)': 6}
    """
    who = np.asarray(subjects)
    found = {"all": np.ones(len(who), bool)}
    for by in _SLICE_COLUMNS:
        labels = given.get(by, guessed.get(by))
        if labels is None:
            continue
        name = by if by in given else f"{by} (predicted)"
        values = np.where(np.isin(labels, _UNKNOWN), "not known", labels)
        parts = {str(value): values == value for value in np.unique(values)}
        pooled = _pooled(parts, who)
        if len(pooled) > 1:
            found |= {f"{name}: {value}": rows for value, rows in pooled.items()}
    return found


def _pooled(parts: Mapping[str, NDArray[np.bool_]], who: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
    """Return the parts with at least ``MIN_PEOPLE`` people each, the others pooled."""
    people = {value: len(np.unique(who[rows])) for value, rows in parts.items()}
    order = sorted(parts, key=lambda value: (people[value], value))
    few = [value for value in order if people[value] < MIN_PEOPLE]
    rest = order[len(few) :]
    while few and rest and _count(parts, few, who) < MIN_PEOPLE:
        few.append(rest.pop(0))
    shown = {value: parts[value] for value in sorted(rest)}
    if few:
        shown["others (few)"] = np.logical_or.reduce([parts[value] for value in few])
    return shown


def _count(parts: Mapping[str, NDArray[np.bool_]], values: list[str], who: NDArray[Any]) -> int:
    return len(np.unique(who[np.logical_or.reduce([parts[value] for value in values])]))


def clean_labels(labels: Mapping[str, ArrayLike] | None, n: int) -> dict[str, NDArray[np.str_]]:
    """Return labels that were given as text, an age in years as its band; unknown ones are empty."""
    found = {}
    for name, values in (labels or {}).items():
        text = np.asarray(values).astype(str)
        if text.shape != (n,):
            raise UsageError(f"The label {name!r} must have one value per face: {n}. Got {text.shape}.")
        text = np.where(np.isin(text, _UNKNOWN), "", np.char.strip(text))
        found[name] = np.array([_band(value) for value in text], str) if name == "age" else text
    return found


def _band(value: str) -> str:
    """Return the band of an age in years; whatever is not a number is a band already."""
    try:
        return age_band(float(value))
    except ValueError:  # UsageError is one, too: a negative age is not known
        return "" if value[:1] == "-" else value


def predict_person_labels(
    columns: Mapping[str, NDArray[Any]], subjects: ArrayLike
) -> dict[str, NDArray[np.str_]]:
    """Return apparent gender and age band of every person, by the mean over the photos where it is sure."""
    found = {}
    if "gender_score" in columns:
        male = _mean_of_person(columns["gender_score"], columns["gender_sure"], subjects)
        found["gender"] = np.where(np.isnan(male), UNSURE, np.where(male > 0.5, "male", "female"))
        age = _mean_of_person(columns["age"], columns["age_sure"], subjects)
        found["age"] = np.array([UNSURE if np.isnan(a) else age_band(a) for a in age], str)
    return found


def _mean_of_person(values: NDArray[Any], sure: NDArray[Any], subjects: ArrayLike) -> FloatArray:
    """Return for each row the mean (n,) of its person's sure values, NaN where there is none."""
    _, who = np.unique(np.asarray(subjects), return_inverse=True)
    use = (sure == 1) & np.isfinite(values)  # a face that was not found has NaN for "sure"
    count = np.bincount(who, weights=use)
    total = np.bincount(who, weights=np.where(use, values, 0.0))
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    person: FloatArray = mean[who]
    return person
