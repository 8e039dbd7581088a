"""The drawings of the page: risk, loss and likeness over k, and the tree of people [A fig. 9-13]."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy.cluster.hierarchy import dendrogram

from ksame.audit.tune.recommend import dendrogram_cuts
from ksame.core.arrays import FloatArray

RED_COLOUR, INK_COLOUR = "#b3261e", "#222222"
# colour, dashes and marker of each method: nothing is told by colour alone
STYLES = (
    ("#1b4f9c", "-", "o"),
    ("#7a4b00", "--", "s"),
    ("#3d6b2f", "-.", "^"),
    ("#6b2f6b", ":", "D"),
    ("#555555", "-", "v"),
)
_LOOK = {
    "svg.hashsalt": "ksame",  # the same bytes for the same figures
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def risk(table: pd.DataFrame, budget: float) -> str:
    """Draw how often an attacker is right: what was measured, and what is promised."""

    def draw(axes: Axes) -> None:
        for (method, rows), (colour, dashes, marker) in zip(_by_method(table), STYLES, strict=False):
            axes.fill_between(rows["k"], rows["low"], rows["high"], color=colour, alpha=0.15, lw=0)
            axes.plot(
                rows["k"],
                rows["rank1"],
                color=colour,
                ls=dashes,
                marker=marker,
                ms=4,
                label=f"{method}, measured",
            )
        proved = table[table["proved"].astype(bool)].groupby("k")["bound"].max()
        if len(proved):
            axes.plot(proved.index, proved, color=INK_COLOUR, lw=2, label="promised at most")
        axes.axhline(budget, color=RED_COLOUR, ls=(0, (6, 3)), label="your budget")
        axes.set(ylabel="people named", ylim=(0, None))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))

    return _svg_data_url(draw)


def loss(table: pd.DataFrame, recommended: tuple[str, int] | None) -> str:
    """Draw what the faces lose, and where the recommendation lies."""

    def draw(axes: Axes) -> None:
        for (method, rows), (colour, dashes, marker) in zip(_by_method(table), STYLES, strict=False):
            axes.plot(rows["k"], rows["loss"], color=colour, ls=dashes, marker=marker, ms=4, label=method)
        axes.axhline(1, color=INK_COLOUR, ls=":", label="one face for all")
        if recommended:
            at = table[(table["method"] == recommended[0]) & (table["k"] == recommended[1])].iloc[0]
            axes.plot(
                at["k"], at["loss"], "o", ms=14, mfc="none", mec=RED_COLOUR, mew=2, ls="", label="recommended"
            )
        axes.set(ylabel="information loss", ylim=(0, None))

    return _svg_data_url(draw)


def likeness(table: pd.DataFrame) -> str:
    """Draw how much alike the people who share a face are, for one method."""

    def draw(axes: Axes) -> None:
        lines = (
            ("gender", "homogeneity of gender"),
            ("age", "homogeneity of age"),
            ("alike", "groups all alike"),
        )
        for (column, label), (colour, dashes, marker) in zip(lines, STYLES, strict=False):
            axes.plot(table["k"], table[column], color=colour, ls=dashes, marker=marker, ms=4, label=label)
        axes.set(ylabel="share", ylim=(0, 1.03))
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))

    return _svg_data_url(draw)


def tree(links: FloatArray) -> str:
    """Draw who is like whom, without names, and the two lines of ``dendrogram_cuts``."""

    def draw(axes: Axes) -> None:
        lines = dendrogram(links, no_plot=True)
        for x, y in zip(lines["icoord"], lines["dcoord"], strict=True):
            axes.plot(x, y, color=INK_COLOUR, lw=0.8)
        for cut, (colour, dashes, _), share in zip(
            dendrogram_cuts(links), STYLES, ("half", "nine in ten"), strict=False
        ):
            label = f"{share} have company: groups of about {cut.size}"
            axes.axhline(cut.height, color=colour, ls=dashes, lw=1.6, label=label)
        axes.set(ylabel="distance", xlabel="people", xticks=[], yticks=[], ylim=(0, None))

    return _svg_data_url(draw, over_k=False)


def _by_method(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each method, in the order in which they came."""
    return [(str(method), rows) for method, rows in table.groupby("method", sort=False)]


def _svg_data_url(draw: Callable[[Axes], None], *, over_k: bool = True) -> str:
    """Return a chart as a data URL of an SVG image."""
    file = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # no setting of the user's changes the page
        matplotlib.rcParams.update(_LOOK)
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        if over_k:
            axes.set_xlabel("k, people behind each face")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside lower center", ncols=2 if over_k else 1, fontsize=10)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode("ascii")
