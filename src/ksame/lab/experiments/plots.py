"""Figures for Sun's experiments: no global state, so that experiments may run side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def means(table: pd.DataFrame, column: str, *, by: str = "method") -> dict[str, float]:
    """Return a column's mean for each value of another."""
    return {str(name): float(rows[column].mean()) for name, rows in table.groupby(by)}


def figure(title: str, panels: int) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure with panels side by side, three in a row."""
    rows, columns = -(-panels // 3), min(panels, 3)
    made = Figure(figsize=(1 + 5.5 * columns, 0.4 + 4 * rows), layout="constrained")
    made.suptitle(title)
    return made, [made.add_subplot(rows, columns, i + 1) for i in range(panels)]


def lines(
    ax: Axes,
    table: pd.DataFrame,
    value: str,
    unit: str,
    *,
    by: tuple[str, ...] = ("method",),
    x: str = "k",
    x_unit: str = "k (people behind each face)",
    bound: bool = True,
) -> None:
    """Draw a column over another, one line for each value of some columns; ``bound``: and 1/k."""
    for mark, (name, rows) in zip("osD^vx*P", table.groupby(list(by), sort=False), strict=False):
        ax.plot(rows[x], rows[value], marker=mark, label=", ".join(map(str, name)))
    places = np.unique(table[x])
    if bound:
        ax.plot(places, 100 / places, "k--", linewidth=1, label="1/k")
    most = ax.get_ylim()[1]
    ax.set(xlabel=x_unit, ylabel=unit, xticks=places, ylim=(-0.03 * most, most))  # lines at 0 are to be seen
    ax.legend()
    ax.grid(alpha=0.3)


def bars(ax: Axes, table: pd.DataFrame, names: str, columns: Sequence[str], unit: str) -> None:
    """Draw some columns side by side for each row."""
    width = 0.8 / len(columns)
    place = np.arange(len(table))
    for i, column in enumerate(columns):
        ax.bar(place + width * (i - (len(columns) - 1) / 2), table[column], width, label=column)
    ax.set_xticks(place, table[names].tolist(), rotation=30, ha="right")
    ax.set(xlabel=names, ylabel=unit, ylim=(0, 1.4 * ax.get_ylim()[1]))  # room for the legend
    ax.legend(loc="upper right", fontsize="small")
    ax.grid(axis="y", alpha=0.3)
