"""Who is treated worse: the people of a slice beside all others, where it is more than noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from ksame.audit.utility.figures import Figure
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError

__all__ = ["difference_p_value", "face_harm", "find_disadvantaged"]


def find_disadvantaged(table: pd.DataFrame, *, level: float = 0.1) -> pd.DataFrame:
    """Return who is treated worse than the others, where that is more than noise.

    The people of a slice are compared with all others by Welch's test on each person's mean. So many
    comparisons find something by chance: the lines shown are those of Benjamini and Hochberg (1995), among
    which one in ten is expected to be noise. And people of one group share a published face, so they are
    not quite independent. A line is a reason to look, not a proof.

    Parameters
    ----------
    table : DataFrame
        As ``measures`` returned it.
    level : float
        The share of noise among the lines that is put up with.

    Returns
    -------
    DataFrame
        Columns slice, measure, here, all and says, a sentence; the largest surprise first. Where originals
        have the measure, ``here`` and ``all`` are what is lost of it.
    """
    if "chance" not in table.attrs:
        raise UsageError("worse needs the table as measures() returned it: its attrs are gone.")
    value = table.set_index(["slice", "measure"])[["original", "deidentified"]].to_dict("index")
    tests = sorted(
        (chance, name, measure)
        for name, by_measure in table.attrs["chance"].items()
        for measure, chance in by_measure.items()
        if not np.isnan(chance) and (name, measure) in value
    )
    small = [rank for rank, (chance, *_) in enumerate(tests, 1) if chance <= level * rank / len(tests)]
    lines = []
    for _, name, measure in tests[: max(small, default=0)]:
        here, everyone = value[name, measure], value["all", measure]
        sign = 1 if table.attrs["better"][measure] == "less" else -1
        lost = [_lost_value(line) for line in (here, everyone)]
        if sign * (lost[0] - lost[1]) > 0:
            lines.append((name, measure, *lost, _sentence(name, measure, here, everyone)))
    return pd.DataFrame(lines, columns=["slice", "measure", "here", "all", "says"])


def _lost_value(line: Mapping[Any, float]) -> float:
    """Return what was published, or where originals have it too, how much of it came or went."""
    old, new = line["original"], line["deidentified"]
    return new if np.isnan(old) else new - old


def _sentence(name: str, measure: str, here: Mapping[Any, float], everyone: Mapping[Any, float]) -> str:
    def told(line: Mapping[Any, float]) -> str:
        old, new = line["original"], line["deidentified"]
        return f"{new:.3g}" if np.isnan(old) else f"{new:.3g} after {old:.3g}"

    who = name.replace(": ", " ")
    return f"Worse for {who}: {measure} is {told(here)}; for all people it is {told(everyone)}."


def face_harm(one: Figure) -> FloatArray:
    """Return by how much each face (n,) is worse off."""
    change = one.published if one.original is None else one.published - one.original
    return change if one.better == "less" else -change


def difference_p_value(lost: FloatArray, subjects: NDArray[Any], rows: NDArray[np.bool_]) -> float:
    """Return how likely some people and all others differ so much by chance: Welch's test over people."""
    parts = []
    for chosen in (rows, ~rows):
        there = chosen & np.isfinite(lost)
        _, who = np.unique(subjects[there], return_inverse=True)
        people = np.bincount(who, weights=lost[there]) / np.maximum(np.bincount(who), 1)
        if len(people) < 2:
            return float("nan")
        parts.append((people.mean(), people.var(ddof=1) / len(people), len(people)))
    (a, v, n), (b, w, m) = parts
    if v + w < 1e-24:  # nobody differs from their own
        return 1.0 if abs(a - b) < 1e-12 else 0.0
    freedom = (v + w) ** 2 / (v**2 / (n - 1) + w**2 / (m - 1))
    return float(2 * student.sf(abs(a - b) / np.sqrt(v + w), freedom))
