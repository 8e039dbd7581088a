"""Codes by which people are grouped, and strata that are not mixed [A 3.3.2]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.faces import FaceSet
from ksame.methods.anonfaces.verifiers import embed_registered
from ksame.partition import make_strata
from ksame.spaces import EigenSpace
from ksame.spaces.generator_space import ATTRIBUTES

__all__ = []

SKIN_TONES = (("dark", -30.0), ("brown", 10.0), ("tan", 28.0), ("light", np.inf))
"""Upper ends of classes of the typology angle; the usual three lightest classes are one here."""
_SKIN_WEIGHT, _AGE_WEIGHT = 4.0, 0.7  # weight of a standard deviation relative to a code of length 1


def per_person(values: FloatArray, subjects: NDArray[Any]) -> FloatArray:
    """Return for each face the mean of its subject's values, (n, a)."""
    _, index = np.unique(subjects, return_inverse=True)
    total = np.zeros((int(index.max()) + 1, values.shape[1]))
    np.add.at(total, index, values)
    mean: FloatArray = (total / np.bincount(index)[:, None])[index]
    return mean


def grouping_codes(
    faces: FaceSet, embedding: str, members: Mapping[str, FloatArray], read: FloatArray
) -> FloatArray:
    """Return the codes (n, e) for grouping, of about unit length [A 3.3.2]."""
    if embedding == "mobilefacenet":
        codes = read[:, :192]
    elif embedding == "pca":
        codes = EigenSpace.fit(faces).encode(faces).astype(np.float64)
        codes = codes - codes.mean(axis=0)
    else:
        codes = (
            members[embedding] if embedding in members else embed_registered(faces, [embedding])[embedding]
        )
    unit: FloatArray = codes / np.sqrt((codes**2).sum(axis=1).mean())
    return unit


def stratified_codes(
    near: FloatArray,
    own: FloatArray,
    subjects: NDArray[Any],
    k: int,
    label: NDArray[Any] | None,
    grey: NDArray[np.bool_],
) -> tuple[FloatArray, NDArray[Any], tuple[str, ...]]:
    """Return codes extended by skin and age, the strata, and notes on merged strata.

    Deviation: the paper groups by the recogniser alone; this mixed genders and lightened dark skin by a
    sixth. Finer classes of skin than dark and other leave larger and less even groups. People without a
    colour photo form a stratum too, since a group of them gets a grey portrait.
    """
    columns = [
        (own[:, ATTRIBUTES.index(name)], share)
        for name, share in (("light", _SKIN_WEIGHT), ("age", _AGE_WEIGHT))
    ]
    scaled = [share * (value - value.mean()) / max(float(value.std()), 1e-9) for value, share in columns]
    codes = np.column_stack([near, *scaled])
    if label is not None:
        return codes, label, ()
    gender = _gender_labels(own)
    skin = np.where(_skin_tone_labels(own) == SKIN_TONES[0][0], ", dark skin", ", other skin")
    colour = np.where(np.isin(subjects, subjects[~grey]), ", colour photos", ", grey photos")
    strata = gender, np.char.add(gender, skin), np.char.add(np.char.add(gender, skin), colour)
    part, notes = _nested_strata(codes, k, subjects, strata)
    return codes, part, tuple(notes)


def _nested_strata(
    codes: FloatArray, k: int, subjects: NDArray[Any], strata: Sequence[NDArray[np.str_]]
) -> tuple[IntArray, list[str]]:
    """Return the stratum of each face (n,) by labels from coarse to fine, and notes on merges.

    Fine strata are merged before coarse ones: skin tones of one gender before genders.
    """
    coarse, *fine = strata
    label, notes = coarse.astype(object), list[str]()
    for value in np.unique(coarse):
        rows = np.flatnonzero(coarse == value)
        differ = any(len(np.unique(column[rows])) > 1 for column in fine)
        if differ and len(np.unique(subjects[rows])) >= k:
            part, merges = _nested_strata(codes[rows], k, subjects[rows], [column[rows] for column in fine])
            label[rows] = [f"{value} {number}" for number in part]
            notes += merges
    part, last = make_strata(codes, k, label=label.astype(str), subjects=subjects, small="merge")
    return part, [*notes, *map(str, last)]


def _gender_labels(own: FloatArray) -> NDArray[np.str_]:
    return np.where(own[:, ATTRIBUTES.index("gender")] > 0, "male", "female")


def _skin_tone_labels(own: FloatArray) -> NDArray[np.str_]:
    ends = [end for _, end in SKIN_TONES[:-1]]
    return np.array([name for name, _ in SKIN_TONES])[np.searchsorted(ends, own[:, ATTRIBUTES.index("tone")])]
