"""Tabulate the utility of a release, for all faces and for the people of each kind [A 3.2, 4.4; S 5.4, 7]."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import t as student

from ksame.audit.utility.figures import Figure, appearance_spread, figures, label_mixture
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError
from ksame.models.attributes import UNSURE, age_band

__all__ = [
    "MIN_PEOPLE",
    "clean_labels",
    "connected_rows",
    "difference_p_value",
    "face_harm",
    "has_face",
    "measures",
    "predict_person_labels",
    "slices",
]

COLUMNS = ["measure", "original", "deidentified", "slice"]
_CLASSIFIED_LABELS = ("gender", "expression")  # what classifiers predict
_GROUP_LABELS = ("gender", "age", "ethnicity", "expression")  # what groups should have in common [A 4.4]


def measures(
    before: Mapping[str, NDArray[Any]],
    after: Mapping[str, NDArray[Any]],
    *,
    subjects: ArrayLike,
    groups: ArrayLike | None = None,
    labels: Mapping[str, ArrayLike] | None = None,
    named: Mapping[str, ArrayLike] | None = None,
) -> pd.DataFrame:
    """Measure the utility of published faces [A 3.2, 4.4; G5 5.3; G6 5.3; S 5.4, 7.4-7.5].

    Parameters
    ----------
    before, after : mapping of str to (n, ...) arrays
        Features by ``face_columns``, in any order; row i of after is what was published for row i of before.
        A row of NaN is a face that was not found.
    subjects, groups : (n,) arrays
        The person of each face, and the group if there are groups.
    labels : mapping of str to (n,) arrays, optional
        ``gender``, ``age``, ``ethnicity``, ``expression``, "" where not known; what is predicted says so.
    named : mapping of str to (n,) arrays, optional
        The chance that an attack named each published face, NaN where it was not tried.

    Returns
    -------
    DataFrame
        Columns measure, original, deidentified and slice; means over faces unless stated.
        What cannot be measured has no row; measures of a comparison are NaN for the originals. Slices of
        fewer than 5 people are pooled: a figure about two people would reveal them.

    Examples
    --------
    >>> codes = np.arange(12.0).reshape(6, 2)
    >>> table = measures({"appearance": codes}, {"appearance": codes + [3, 4]}, subjects=np.arange(6))
    >>> table.iloc[:2, :3].to_numpy().tolist()  # doctest: +NORMALIZE_WHITESPACE
    [['faces not found (share)', 0.0, 0.0],
     ['information loss (appearance, standard deviations)', nan, 5.0]]
    """
    faces = _MeasuredSet.of(before, after, subjects, groups, labels)
    parts = slices(faces.subjects, faces.given, faces.guessed)
    classes = faces.labels(_CLASSIFIED_LABELS)
    group_labels = faces.labels(_GROUP_LABELS) if faces.groups is not None else {}
    every = list(figures(faces.before, faces.after, faces.is_found, classes, faces.together))
    hits = {name: np.asarray(found, np.float64)[faces.order] for name, found in (named or {}).items()}
    every += [Figure(name, None, found, "less") for name, found in hits.items()]
    rows: list[tuple[str, float, float, str]] = []
    for name, chosen in parts.items():
        is_all = name == "all"
        lines = [
            *_means(every, faces.subjects, chosen, least=1 if is_all else MIN_PEOPLE),
            *appearance_spread(faces.before, faces.after, faces.subjects, chosen),
            *(label_mixture(group_labels, faces.groups) if is_all and faces.groups is not None else ()),
        ]
        rows += [(*line, name) for line in lines]
    table = pd.DataFrame(rows, columns=COLUMNS)
    judged = [one for one in every if one.better != "neither"]
    table.attrs["better"] = {one.name: one.better for one in judged}
    table.attrs["people"] = {name: len(np.unique(faces.subjects[chosen])) for name, chosen in parts.items()}
    table.attrs["chance"] = _p_values(judged, faces.subjects, parts)
    return table


def _p_values(
    judged: list[Figure], subjects: NDArray[Any], parts: Mapping[str, NDArray[np.bool_]]
) -> dict[str, dict[str, float]]:
    """Return for each slice and figure the p-value of the difference from all other people."""
    harms = {one.name: face_harm(one) for one in judged}
    return {
        name: {measure: difference_p_value(lost, subjects, chosen) for measure, lost in harms.items()}
        for name, chosen in parts.items()
        if name != "all"
    }


@dataclass(frozen=True, eq=False)
class _MeasuredSet:
    """The arguments of ``measures``, checked, in an order that depends on their content only."""

    before: Mapping[str, NDArray[Any]]
    after: Mapping[str, NDArray[Any]]
    subjects: NDArray[Any]
    groups: NDArray[Any] | None
    given: Mapping[str, NDArray[np.str_]]
    guessed: Mapping[str, NDArray[np.str_]]
    together: IntArray
    order: IntArray  # of the rows that were given

    @classmethod
    def of(
        cls,
        before: Mapping[str, NDArray[Any]],
        after: Mapping[str, NDArray[Any]],
        subjects: ArrayLike,
        groups: ArrayLike | None,
        labels: Mapping[str, ArrayLike] | None,
    ) -> _MeasuredSet:
        """Check that everything is parallel, and sort."""
        who = np.asarray(subjects).astype(str)
        given = clean_labels(labels, len(who))
        group = None if groups is None else np.asarray(groups).astype(str)
        columns = [*before.values(), *after.values(), *([] if group is None else [group])]
        if who.ndim != 1 or not len(who) or not before or not after:
            raise UsageError("measures needs at least one face, with its subject and its features.")
        if any(len(column) != len(who) for column in columns):
            raise UsageError(f"Every column must have one row per face: {len(who)}.")
        order = np.lexsort([_digests([*columns, *given.values()]), who])
        old, new = ({n: np.asarray(c)[order] for n, c in sorted(side.items())} for side in (before, after))
        who, group = who[order], None if group is None else group[order]
        connected = [who, _image_ids(new), *([] if group is None else [group])]
        return cls(
            before=old,
            after=new,
            subjects=who,
            groups=group,
            given={name: values[order] for name, values in given.items()},
            guessed=_predict_labels(old, who),
            together=connected_rows(*connected),
            order=order,
        )

    @property
    def is_found(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which original and which published faces were found."""
        return has_face(self.before), has_face(self.after)

    def labels(self, names: tuple[str, ...]) -> dict[str, NDArray[np.str_]]:
        """Return some labels (n,), "" where they are unknown; the name says whether one was predicted."""
        found = {}
        for name in names:
            if name in self.given:
                found[name] = self.given[name]
            elif name in self.guessed:
                found[f"{name} (predicted)"] = self.guessed[name]
        return {name: np.where(values == "unsure", "", values) for name, values in found.items()}


def has_face(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Return which rows (n,) are faces: the others are NaN in every column."""
    first = [column.reshape(len(column), -1)[:, 0] for column in columns.values()]
    lost = np.isnan(np.stack([f.astype(np.float64) for f in first]))  # (c, n)
    return np.asarray(~lost.any(axis=0))


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


def _predict_labels(before: Mapping[str, NDArray[Any]], who: NDArray[Any]) -> dict[str, NDArray[np.str_]]:
    """Return labels predicted on the originals: gender and age of people, expression of photos."""
    found = predict_person_labels(before, who)
    if "smile_score" in before:
        smile = np.where(before["smile_score"] > 0.5, "smiling", "neutral")
        found["expression"] = np.where(before["smile_sure"] == 1, smile, "")
    return found


def _image_ids(after: Mapping[str, NDArray[Any]]) -> NDArray[np.str_]:
    """Return a text (n,) that is equal where the published faces are equal; a face not found equals none."""
    columns = [after["image"]] if "image" in after else list(after.values())
    return np.where(has_face(after), _digests(columns), np.arange(len(columns[0])).astype(str))


def _digests(columns: list[NDArray[Any]]) -> NDArray[np.str_]:
    """Return a short text (n,) for each row that is equal where the row is equal in all columns."""
    n = len(columns[0])
    flat = [np.ascontiguousarray(column).reshape(n, -1) for column in columns]
    return np.array([hashlib.sha256(b"".join(c[i].tobytes() for c in flat)).hexdigest() for i in range(n)])


def _means(
    every: list[Figure], subjects: NDArray[Any], rows: NDArray[np.bool_], *, least: int
) -> Iterator[tuple[str, float, float]]:
    """Yield the mean of each figure over some rows, if these are of enough people."""
    for one in every:
        chosen = rows & one.measured()
        if len(np.unique(subjects[chosen])) >= least:
            yield one.name, *one.means(chosen)


MIN_PEOPLE = 5  # people of a slice: a figure about fewer would reveal them
_SLICE_COLUMNS = ("gender", "age", "ethnicity")
_UNKNOWN = ("", UNSURE, "nan", "NA")


def slices(
    subjects: ArrayLike, given: Mapping[str, NDArray[Any]], guessed: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[np.bool_]]:
    """Return rows by name: ``all``, then every value of gender, age band and ethnicity.

    For each label the slices are complementary: every face is in one. Values of fewer than 5 people are
    not shown on their own but pooled as ``others (few)``, and if these are still fewer than 5, the smallest
    of the other slices joins them: otherwise what is not shown could be found by subtraction.

    Parameters
    ----------
    subjects : (n,) array
        The person of each face.
    given, guessed : mapping of str to (n,) str
        Labels that are known, and labels that were predicted: the slice says which.

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
        values = np.where(np.isin(labels, _UNKNOWN), "unknown", labels)
        parts = {str(value): values == value for value in np.unique(values)}
        pooled = _pooled(parts, who)
        if len(pooled) > 1:
            found |= {f"{name}: {value}": rows for value, rows in pooled.items()}
    return found


def _pooled(parts: Mapping[str, NDArray[np.bool_]], who: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
    """Return the parts with at least ``MIN_PEOPLE`` people each, with the others pooled."""
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
    """Return given labels as text, ages in years as bands; unknown ones are empty."""
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
    except ValueError:  # UsageError is one, too: a negative age is unknown
        return "" if value[:1] == "-" else value


def predict_person_labels(
    columns: Mapping[str, NDArray[Any]], subjects: ArrayLike
) -> dict[str, NDArray[np.str_]]:
    """Return apparent gender and age band of every person, by the mean of certain predictions."""
    found = {}
    if "gender_score" in columns:
        male = _mean_of_person(columns["gender_score"], columns["gender_sure"], subjects)
        found["gender"] = np.where(np.isnan(male), UNSURE, np.where(male > 0.5, "male", "female"))
        age = _mean_of_person(columns["age"], columns["age_sure"], subjects)
        found["age"] = np.array([UNSURE if np.isnan(a) else age_band(a) for a in age], str)
    return found


def _mean_of_person(values: NDArray[Any], sure: NDArray[Any], subjects: ArrayLike) -> FloatArray:
    """Return for each row the mean (n,) of its person's certain values, NaN where there is none."""
    _, who = np.unique(np.asarray(subjects), return_inverse=True)
    use = (sure == 1) & np.isfinite(values)  # a face that was not found has NaN for "sure"
    count = np.bincount(who, weights=use)
    total = np.bincount(who, weights=np.where(use, values, 0.0))
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    person: FloatArray = mean[who]
    return person


def face_harm(one: Figure) -> FloatArray:
    """Return by how much each face (n,) became worse."""
    change = one.published if one.original is None else one.published - one.original
    return change if one.better == "less" else -change


def difference_p_value(lost: FloatArray, subjects: NDArray[Any], rows: NDArray[np.bool_]) -> float:
    """Return the p-value of the difference between some people and all others: Welch's test over people."""
    parts = []
    for chosen in (rows, ~rows):
        there = chosen & np.isfinite(lost)
        _, who = np.unique(subjects[there], return_inverse=True)
        people = np.bincount(who, weights=lost[there]) / np.maximum(np.bincount(who), 1)
        if len(people) < 2:
            return float("nan")
        parts.append((people.mean(), people.var(ddof=1) / len(people), len(people)))
    (a, v, n), (b, w, m) = parts
    if v + w < 1e-24:  # all values within each part are equal
        return 1.0 if abs(a - b) < 1e-12 else 0.0
    freedom = (v + w) ** 2 / (v**2 / (n - 1) + w**2 / (m - 1))
    return float(2 * student.sf(abs(a - b) / np.sqrt(v + w), freedom))
