"""The sections on utility: charts and tables of what published faces still show, and who is treated worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from ksame.audit.report.charts import (
    BLUE,
    INK_COLOUR,
    PALE_COLOUR,
    SOFT_COLOUR,
    add_legend,
    as_svg,
    new_figure,
    write_per_cent,
)
from ksame.audit.report.result import Report
from ksame.audit.report.wording import percent
from ksame.audit.utility import find_disadvantaged
from ksame.core.text import shorten

CHARTS_MAX, SENTENCES_MAX = 3, 6  # of the section on who is treated worse
_SHARE_UNITS = ("accuracy", "share")  # units of measures that are drawn in per cent


class Bar(NamedTuple):
    """A share before and after; NaN is not drawn."""

    label: str
    original: float
    deidentified: float


def utility_section(report: Report) -> dict[str, Any]:
    """Return the utility for all people: charts of shares and of detection, and a table of the rest."""
    rows = _as_bars(report.utility[report.utility["slice"] == "all"])
    found = [Bar(f"face found by {name}", math.nan, rate) for name, rate in report.detected.items()]
    shares = [bar._replace(label=_unit(bar.label)[0]) for bar in rows if _is_share(bar.label)] + found
    rest = [
        (*_unit(bar.label), _number(bar.original), _number(bar.deidentified))
        for bar in rows
        if not _is_share(bar.label)
    ]
    return {
        "charts": [
            bars(part, name=f"utility{i}", title=title)
            for i, (title, part) in enumerate(_with_originals(shares).items())
        ],
        "rest": rest,
    }


def _with_originals(shares: Sequence[Bar]) -> dict[str, list[Bar]]:
    """Return the shares that originals have, too, and those of published faces only."""
    parts: dict[str, list[Bar]] = {}
    for bar in sorted(shares, key=lambda bar: math.isnan(bar.original)):
        title = "Published faces" if math.isnan(bar.original) else "Originals and published faces"
        parts.setdefault(f"{title}, in per cent", []).append(bar)
    return parts


def fairness_section(table: pd.DataFrame) -> dict[str, Any]:
    """Return who is treated worse, in sentences and charts; if nobody is, the shares that differ most."""
    # the p-values travel with the table; a table made by hand has none
    found = (
        find_disadvantaged(table) if "chance" in table.attrs else pd.DataFrame(columns=["measure", "says"])
    )
    sliced = {
        str(measure): [bar for bar in _as_bars(rows, label="slice") if math.isfinite(bar.deidentified)]
        for measure, rows in table[table["slice"] != "all"].groupby("measure", sort=False)
    }
    whole = {bar.label: bar.deidentified for bar in _as_bars(table[table["slice"] == "all"])}
    differing = sorted((m for m in sliced if _is_share(m)), key=lambda m: -_spread(sliced[m]))
    chosen = [*dict.fromkeys(found["measure"])] or differing
    drawn = [m for m in chosen if len(sliced.get(m, ())) > 1 and m in whole][:CHARTS_MAX]
    return {
        "charts": [
            dots(sliced[m], whole=whole[m], share=_is_share(m), name=f"slices{i}", title=m)
            for i, m in enumerate(drawn)
        ],
        "sentences": found["says"].tolist()[:SENTENCES_MAX],
        "more": max(0, len(found) - SENTENCES_MAX),
        "measured": bool(sliced),
    }


def _spread(rows: Sequence[Bar]) -> float:
    values = [bar.deidentified for bar in rows]
    return max(values, default=0.0) - min(values, default=0.0)


def _as_bars(table: pd.DataFrame, *, label: str = "measure") -> list[Bar]:
    shown = table["slice"].map(shorten) if label == "slice" else table[label]  # a label of the user's csv
    columns = shown, table["original"], table["deidentified"]
    return [Bar(str(m), _float(o), _float(d)) for m, o, d in zip(*columns, strict=True)]


def _float(value: Any) -> float:
    """Return a number; NaN if it was not measured."""
    return math.nan if value is None or pd.isna(value) else float(value)


def _is_share(measure: str) -> bool:
    """Whether a measure is a share of something."""
    return _unit(measure)[1] in _SHARE_UNITS


def _unit(measure: str) -> tuple[str, str]:
    """Split a measure's name from its unit.

    >>> _unit("age difference (years)"), _unit("SSIM")
    (('age difference', 'years'), ('SSIM', ''))
    """
    name, bracket, unit = measure.rpartition(" (")
    return (name, unit.removesuffix(")")) if bracket and unit.endswith(")") else (measure, "")


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "\u2013"


def bars(rows: Sequence[Bar], *, name: str, title: str) -> Markup:
    """Draw shares of the originals and of the published faces, side by side; or of the latter alone."""
    styles = [("originals", PALE_COLOUR, "////"), ("published faces", BLUE, "")]
    pairs = any(np.isfinite(bar.original) for bar in rows)
    with new_figure((42 if pairs else 29) * len(rows) + (70 if pairs else 48)) as figure:
        axes = figure.subplots()
        for row, (label, *pair) in enumerate(rows):
            axes.text(0, row - (0.42 if pairs else 0.36), label, fontsize=10, va="center")
            for at, share, (who, colour, hatch) in zip((row - 0.13, row + 0.19), pair, styles, strict=True):
                if np.isfinite(share):
                    at, tall = (at, 0.28) if pairs else (row + 0.08, 0.42)
                    axes.barh(
                        at, share, tall, color=colour, hatch=hatch, edgecolor=INK_COLOUR, lw=0.5, label=who
                    )
                    axes.text(share + 0.01, at, percent(share), fontsize=9, va="center")
        axes.set(ylim=(len(rows) - 0.6, -0.7), xlim=(0, 1.17))
        axes.set_xticks([0, 0.5, 1])
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        write_per_cent(axes.xaxis)
        if pairs:
            known = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))  # each style once
            add_legend(figure, columns=2, handles=list(known.values()))
        return as_svg(figure, name, title, _before_and_after(rows, share=True))


def dots(rows: Sequence[Bar], *, whole: float, share: bool, name: str, title: str) -> Markup:
    """Draw one measure for the people of each slice, and for all."""
    with new_figure(24 * len(rows) + 110) as figure:
        axes = figure.subplots()
        at = np.arange(len(rows))
        ends = np.array([(row.original, row.deidentified) for row in rows])
        axes.hlines(at, *np.sort(ends, axis=1).T, color=SOFT_COLOUR, lw=1)
        if np.isfinite(ends[:, 0]).any():
            axes.plot(ends[:, 0], at, "o", mfc="white", mec=INK_COLOUR, ms=6, label="originals")
        axes.plot(ends[:, 1], at, "o", color=BLUE, ms=7, label="published faces")
        axes.axvline(whole, color=SOFT_COLOUR, ls=":", label="published, all people")
        axes.set(ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(at, [row.label for row in rows], fontsize=10)
        figure.suptitle(title, fontsize=11, fontweight="bold")
        low, high = np.nanmin([*ends.ravel(), whole]), np.nanmax([*ends.ravel(), whole])
        margin = 0.08 * (high - low) or 0.02
        axes.set_xlim(low - margin, high + margin)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        if share:
            write_per_cent(axes.xaxis)
        add_legend(figure, columns=2)
        return as_svg(figure, name, title, _before_and_after(rows, share))


def _before_and_after(rows: Sequence[Bar], share: bool) -> str:
    """Describe a chart in words."""

    def describe(value: float) -> str:
        if not np.isfinite(value):
            return "not measured"
        return percent(value) if share else f"{value:.3g}"

    return "; ".join(
        f"{row.label}: {describe(row.original)} before, {describe(row.deidentified)} after" for row in rows
    )
