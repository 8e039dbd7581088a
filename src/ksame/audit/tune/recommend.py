"""What the figures recommend: least loss within a budget of risk, and where more privacy is free [A 4.4]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import fcluster

from ksame.audit.report.wording import percent
from ksame.core.arrays import FloatArray

NEGLIGIBLE_LOSS = 0.02
"""A loss that is larger by no more than this share of itself counts as the same: the plateau of [A 4.4]."""


class Recommendation(NamedTuple):
    """The method and k that are recommended, if any are, and why in a sentence or two."""

    recommended: tuple[str, int] | None
    why: str


class DendrogramCut(NamedTuple):
    """A line across the dendrogram, and how many people its usual cluster has."""

    height: float
    size: int


def within_budget(table: pd.DataFrame, risk: float) -> pd.Series[bool]:
    """Return which rows keep a budget: a proof counts where there is one, else the interval's upper end."""
    worst = table["bound"].where(table["proved"], table["high"])
    return worst <= risk + 1e-12


def recommend(table: pd.DataFrame, risk: float, *, people: int) -> Recommendation:
    """Recommend the safe row of least information loss; of equal ones the smaller k.

    Parameters
    ----------
    table : DataFrame
        Columns method, k, proved, bound, high, loss.
    risk : float
        How often an attacker may be right at most.
    people : int
        How many there are.

    Examples
    --------
    >>> table = pd.DataFrame({"method": "ksame-m", "k": [5, 10, 20], "proved": True, "loss": [6, 7, 7.1]})
    >>> recommend(table.assign(bound=1 / table["k"], high=1.0), risk=0.1, people=40).recommended
    ('ksame-m', 10)
    """
    fit = table[within_budget(table, risk)]
    if fit.empty:
        return Recommendation(None, _nothing(table, risk, people))
    best = fit.sort_values(["loss", "k"], kind="stable").iloc[0]
    method, k = str(best["method"]), int(best["k"])
    if best["proved"]:
        most = f"an attacker is right at most {percent(best['bound'])} of the time, which is proved"
        but = ""
    else:
        most = f"the attack tried here was right at most {percent(best['high'])} of the time"
        but = " That is the upper end of what one recogniser did, and nothing is proved."
    why = f"With {method} and k = {k} {most}; of all that stay within {percent(risk)}, this loses least.{but}"
    return Recommendation((method, k), f"{why}{_plateau(fit, best)}")


def _plateau(fit: pd.DataFrame, best: pd.Series) -> str:
    """Say up to which larger k the same method costs hardly more, if there is one."""
    free = fit[(fit["method"] == best["method"]) & (fit["k"] > best["k"])]
    free = free[free["loss"] <= (1 + NEGLIGIBLE_LOSS) * best["loss"]]
    if free.empty:
        return ""
    most = free.loc[free["k"].idxmax()]
    return (
        f" Up to k = {most['k']} the loss is hardly larger ({most['loss']:.2f} instead of"
        f" {best['loss']:.2f}): more privacy for nothing."
    )


def _nothing(table: pd.DataFrame, risk: float, people: int) -> str:
    """Say why nothing is recommended, and what would help."""
    largest = int(table["k"].max())
    least = float(table["bound"].where(table["proved"], table["high"]).min())
    need = int(np.ceil(1 / risk - 1e-9))
    advice = "give every person the same number of photos, or try a larger k"
    if need > people:
        advice = f"photos of at least {need} people are needed"
    elif need > largest:
        advice = f"try k = {need} or more"
    return (
        f"No k up to {largest} keeps the risk within {percent(risk)}: the lowest that was reached is"
        f" {percent(least)}. To come lower, {advice}; or accept a larger risk."
    )


def dendrogram_cuts(tree: FloatArray) -> tuple[DendrogramCut, DendrogramCut]:
    """Return two lines across a linkage tree: half of the people have company, and nine in ten have.

    [A 4.4] draws both by eye, and takes the sizes of the clusters there as bounds of a good k; here
    the size is the median over the people who are not alone.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> low, high = dendrogram_cuts(linkage([[0.0], [0.1], [5.0], [5.3], [5.4]]))
    >>> low.size, high.size
    (2, 3)
    """
    n = len(tree) + 1
    alone_until = np.empty(n)
    for one, other, height, _ in tree:
        alone_until[[int(node) for node in (one, other) if node < n]] = height
    found = []
    for share in (0.5, 0.9):
        height = np.sort(alone_until)[int(np.ceil(share * n)) - 1]
        cluster = fcluster(tree, height, criterion="distance")
        size = np.bincount(cluster)[cluster]  # of each person's cluster
        found.append(DendrogramCut(float(height), int(np.median(size[size > 1]))))
    return found[0], found[1]
