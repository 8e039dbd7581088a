"""Find who is treated worse: the people of a slice compared with all others, beyond noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ksame.core.errors import UsageError

__all__ = ["find_disadvantaged"]


def find_disadvantaged(table: pd.DataFrame, *, level: float = 0.1) -> pd.DataFrame:
    """Return who is treated worse than the others, beyond noise.

    The people of a slice are compared with all others by Welch's test on each person's mean. Because so many
    comparisons find something by chance, false discoveries are controlled by Benjamini and Hochberg (1995):
    one in ten of the lines is expected to be noise. People of one group share a published face, so they are
    not quite independent. A line is a reason to investigate, not a proof.

    Parameters
    ----------
    table : DataFrame
        As ``measures`` returned it.
    level : float
        The accepted share of false discoveries among the lines.

    Returns
    -------
    DataFrame
        Columns slice, measure, here, all and says, a sentence; the smallest p-value first. Where originals
        have the measure, ``here`` and ``all`` are the change.
    """
    if "chance" not in table.attrs:
        raise UsageError("find_disadvantaged needs the table as measures() returned it: its attrs are gone.")
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
    """Return the published value, or the change where originals have the measure, too."""
    old, new = line["original"], line["deidentified"]
    return new if np.isnan(old) else new - old


def _sentence(name: str, measure: str, here: Mapping[Any, float], everyone: Mapping[Any, float]) -> str:
    def describe(line: Mapping[Any, float]) -> str:
        old, new = line["original"], line["deidentified"]
        return f"{new:.3g}" if np.isnan(old) else f"{new:.3g} (originals: {old:.3g})"

    who = name.replace(": ", " ")
    return f"Worse for {who}: {measure} is {describe(here)}; for all people it is {describe(everyone)}."
