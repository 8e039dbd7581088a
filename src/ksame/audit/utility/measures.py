"""The table: what is left of the data, for all faces and for the people of each kind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist

from ksame.audit.utility.classify import MAX_FACES, connected_rows
from ksame.audit.utility.fairness import difference_p_value, face_harm
from ksame.audit.utility.figures import Figure, figures, has_face
from ksame.audit.utility.slices import MIN_PEOPLE, clean_labels, predict_person_labels, slices
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError

__all__ = ["diversity", "entropy", "measures"]

COLUMNS = ["measure", "original", "deidentified", "slice"]
_CLASSIFIED_LABELS = ("gender", "expression")  # what classifiers are asked
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
    """Measure what published faces still tell of the originals [A 3.2, 4.4; G5 5.3; G6 5.3; S 5.4, 7.4-7.5].

    Parameters
    ----------
    before, after : mapping of str to (n, ...) arrays
        What ``features`` gives; row i of after is the face that was published for row i of before. A row of
        NaN is a face that was not found. The order of the rows does not matter.
    subjects : (n,) array
        Who each face is.
    groups : (n,) array, optional
        The group of each face: for how alike the people of a group are.
    labels : mapping of str to (n,) arrays, optional
        ``gender``, ``age`` (years or a band), ``ethnicity``, ``expression``, as far as they are known, ""
        where not. Gender, age and expression are predicted on the originals otherwise, and the names say so.
    named : mapping of str to (n,) arrays, optional
        How surely an attack named each published face, NaN where it was not tried: who is found again more
        often than others is treated worse, too.

    Returns
    -------
    DataFrame
        Columns measure, original, deidentified and slice; means over faces unless the name says something
        else. What cannot be measured has no row; what only a comparison can have is NaN for the originals.
        A slice of fewer than 5 people is pooled into "others (few)": a figure about two is about them.

    Examples
    --------
    >>> codes = np.arange(12.0).reshape(6, 2)
    >>> table = measures({"appearance": codes}, {"appearance": codes + [3, 4]}, subjects=np.arange(6))
    >>> table.iloc[:2, :3].to_numpy().tolist()  # doctest: +NORMALIZE_WHITESPACE
    [['faces not found (share)', 0.0, 0.0],
     ['information loss (appearance, standard deviations)', nan, 5.0]]
    """
    faces = _Faces.of(before, after, subjects, groups, labels)
    every = list(figures(faces.before, faces.after, faces.classes, faces.together))
    every += [
        Figure(name, None, np.asarray(hits, np.float64)[faces.order], "less")
        for name, hits in (named or {}).items()
    ]
    parts = slices(faces.subjects, faces.given, faces.guessed)
    rows: list[tuple[str, float, float, str]] = []
    for name, chosen in parts.items():
        for measure, old, new in _means(
            every, faces.subjects, chosen, least=1 if name == "all" else MIN_PEOPLE
        ):
            rows.append((measure, old, new, name))
        rows += [(*line, name) for line in faces.spread(chosen)]
        if name == "all":
            rows += [(*line, name) for line in faces.mixture()]
    table = pd.DataFrame(rows, columns=COLUMNS)
    harms = {one.name: face_harm(one) for one in every if one.better != "neither"}
    table.attrs["better"] = {one.name: one.better for one in every if one.better != "neither"}
    table.attrs["people"] = {name: len(np.unique(faces.subjects[chosen])) for name, chosen in parts.items()}
    table.attrs["chance"] = {
        name: {measure: difference_p_value(lost, faces.subjects, chosen) for measure, lost in harms.items()}
        for name, chosen in parts.items()
        if name != "all"
    }
    return table


@dataclass(frozen=True, eq=False)
class _Faces:
    """The arguments of ``measures``, checked, in an order that depends on what they hold only."""

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
    ) -> _Faces:
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
        alike = [who, _published(new), *([] if group is None else [group])]
        return cls(
            before=old,
            after=new,
            subjects=who,
            groups=group,
            given={name: values[order] for name, values in given.items()},
            guessed=_predict_labels(old, who),
            together=connected_rows(*alike),
            order=order,
        )

    @property
    def classes(self) -> dict[str, NDArray[np.str_]]:
        """What classifiers are to tell."""
        return {self.named(label): self.label(label) for label in _CLASSIFIED_LABELS if self.has(label)}

    def has(self, label: str) -> bool:
        """Whether a label is given or was predicted."""
        return label in self.given or label in self.guessed

    def label(self, name: str) -> NDArray[np.str_]:
        """Return a label (n,), "" where it is not known."""
        values = self.given.get(name, self.guessed.get(name))
        assert values is not None
        return np.where(values == "unsure", "", values)

    def named(self, label: str) -> str:
        """Return how a label is called."""
        return label if label in self.given else f"{label} (predicted)"

    def spread(self, rows: NDArray[np.bool_]) -> Iterator[tuple[str, float, float]]:
        """Yield how different the faces of some rows are from each other, before and after [S table 5.1]."""
        if "appearance" not in self.before or "appearance" not in self.after:
            return
        codes = [side["appearance"][rows].astype(np.float64) for side in (self.before, self.after)]
        both = ~np.isnan(np.hstack(codes)).any(axis=1)
        old, new = (diversity(side[both], self.subjects[rows][both]) for side in codes)
        for name in old:
            yield f"distance between people, {name} (appearance, standard deviations)", old[name], new[name]

    def mixture(self) -> Iterator[tuple[str, float, float]]:
        """Yield how mixed the groups are beside the whole set, by entropy, and how many are not [A 4.4]."""
        if self.groups is None:
            return
        for label in filter(self.has, _GROUP_LABELS):
            values = self.label(label)
            told = values != ""
            mixed = entropy(values[told], self.groups[told])
            if len(mixed):
                whole = entropy(values[told], np.zeros(int(told.sum())))[0]
                name = self.named(label)
                yield f"{name} mixed within groups (entropy, 0 to 1)", float(whole), float(mixed.mean())
                yield f"groups of one {name} (share)", float("nan"), float((mixed == 0).mean())


def _predict_labels(before: Mapping[str, NDArray[Any]], who: NDArray[Any]) -> dict[str, NDArray[np.str_]]:
    """Return what is predicted on the originals: of people gender and age, of photos the expression."""
    found = predict_person_labels(before, who)
    if "smile_score" in before:
        smile = np.where(before["smile_score"] > 0.5, "smiling", "neutral")
        found["expression"] = np.where(before["smile_sure"] == 1, smile, "")
    return found


def _published(after: Mapping[str, NDArray[Any]]) -> NDArray[np.str_]:
    """Return a text (n,) that is equal where the published faces are; what was not found is like nothing."""
    seen = [after["picture"]] if "picture" in after else list(after.values())
    return np.where(has_face(after), _digests(seen), np.arange(len(seen[0])).astype(str))


def _digests(columns: list[NDArray[Any]]) -> NDArray[np.str_]:
    """Return a short text (n,) for each row that is equal where the row is equal in all columns."""
    n = len(columns[0])
    flat = [np.ascontiguousarray(column).reshape(n, -1) for column in columns]
    return np.array([hashlib.sha256(b"".join(c[i].tobytes() for c in flat)).hexdigest() for i in range(n)])


def _means(
    every: list[Figure], subjects: NDArray[Any], rows: NDArray[np.bool_], *, least: int
) -> Iterator[tuple[str, float, float]]:
    """Yield the mean of each figure over some rows, if it is about enough people."""
    for one in every:
        there = rows & np.isfinite(one.published)
        if one.original is not None:
            there &= np.isfinite(one.original)
        if len(np.unique(subjects[there])) >= least:
            old = np.nan if one.original is None else one.finish(float(one.original[there].mean()))
            yield one.name, old, one.finish(float(one.published[there].mean()))


def diversity(codes: ArrayLike, subjects: ArrayLike) -> dict[str, float]:
    """Return min, max, median, mean and std of the distances between faces of different people [S table 5.1].

    As in the thesis, std leaves out distances of 0: they are one face published several times. Of more than
    2,000 faces some are taken, evenly spread.

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


def entropy(values: ArrayLike, groups: ArrayLike) -> FloatArray:
    """Return for each group how mixed a label is in it, 0 (all alike) to 1 (all values alike often) [A 4.4].

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
