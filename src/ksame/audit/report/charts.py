"""The charts of the page: SVG with text as text, the same bytes for the same figures.

Each chart is as wide as a phone, so that it can be read on one; wider pages put them side by side.
Nothing is told by colour alone: lines differ in dashes and markers, bars in hatching.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from ksame.attack.score import Result
from ksame.audit.report.wording import most_successful, percent, recogniser_name

INK_COLOUR, SOFT_COLOUR, BLUE, RED, PALE_COLOUR = "#222222", "#595959", "#1b4f9c", "#b3261e", "#c9d6ea"
CHART_WIDTH = 340  # of every chart, in units of its own: pixels on a phone
_STYLES = (  # of the recognisers that stand out: colour, dashes, marker
    (BLUE, "-", "o"),
    ("#7a4b00", "--", "s"),
    ("#3d6b2f", "-.", "^"),
)
_LOOK = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ksame",
    "text.parse_math": False,  # a label with two $ is no formula
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT_COLOUR,
    "text.color": INK_COLOUR,
    "xtick.color": INK_COLOUR,
    "ytick.color": INK_COLOUR,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
}


class Bar(NamedTuple):
    """A share before and after; NaN is not drawn."""

    label: str
    original: float
    deidentified: float


def overview(results: Sequence[Result], *, name: str) -> Markup:
    """Draw one row for each attack: every recogniser, and the interval of the one that did best.

    Parameters
    ----------
    results : sequence of Result
        All attacks.
    name : str
        Makes the ids of this chart its own.
    """
    attacks = by_attack(results)
    with _figure(34 * len(attacks) + 150) as figure:
        axes = figure.subplots()
        for row, (attack, found) in enumerate(attacks.items()):
            top = most_successful(tuple(found))
            assert top is not None
            _row(axes, row, attack, top, [r.rank1 for r in found if r is not top])
        reach = max(max(r.high, r.bound if r.bound < 1 else 0) for r in results)
        axes.set(
            ylim=(len(attacks) - 0.4, -0.85), xlim=(0, min(1.0, 1.08 * reach) + 0.005), xlabel="people named"
        )
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        _per_cent(axes.xaxis)
        handles = [
            Line2D([], [], color=BLUE, marker="o", lw=2.5, label="best recogniser, 95 % interval"),
            Line2D([], [], color=SOFT_COLOUR, marker="o", mfc="white", ls="", label="the other recognisers"),
            Line2D([], [], color=SOFT_COLOUR, ls=":", label="guessing"),
        ]
        if any(r.bound < 1 for r in results):
            handles.append(Line2D([], [], color=RED, ls="--", lw=1.6, label="the bound"))
        _legend(figure, columns=1, handles=handles)
        says = "; ".join(
            f"{attack}: {recogniser_name(top.recogniser)} {percent(top.rank1)}"
            f" ({percent(top.low)} to {percent(top.high)})"
            for attack, found in attacks.items()
            if (top := most_successful(tuple(found)))
        )
        return _svg(figure, name, "People named by each attack, in per cent", says)


def _row(axes: Any, row: int, attack: str, top: Result, others: Sequence[float]) -> None:
    """Draw one attack: its name above, its dots and its lines."""
    axes.vlines(top.chance, row - 0.5, row + 0.5, color=SOFT_COLOUR, ls=":")
    if top.bound < 1:
        axes.vlines(top.bound, row - 0.5, row + 0.5, color=RED, ls="--", lw=1.6)
    axes.plot(others, [row] * len(others), "o", mfc="white", mec=SOFT_COLOUR, ms=5)
    axes.plot([top.low, top.high], [row, row], color=BLUE, lw=2.5, solid_capstyle="butt")
    axes.plot([top.rank1], [row], "o", color=BLUE, ms=7)
    axes.annotate(
        f"{attack}: {recogniser_name(top.recogniser)} {percent(top.rank1)}",
        (0, row - 0.36),
        xycoords=("axes fraction", "data"),
        fontsize=10,
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
    )


def cmc(attack: str, results: Sequence[Result], *, highlight: Sequence[str], name: str) -> Markup:
    """Draw how often the right person is among the first r names of one attack.

    Parameters
    ----------
    attack : str
        Its name.
    results : sequence of Result
        That attack with every recogniser.
    highlight : sequence of str
        Recognisers that get a line of their own look; the others are thin and grey.
    name : str
        Makes the ids of this chart its own.
    """
    bound, chance = results[0].bound, results[0].chance
    last = min(max(len(r.cmc) for r in results), max(10, int(np.ceil(1 / bound))) if bound < 1 else 20)
    ranks = np.arange(1, last + 1)
    with _figure(235) as figure:
        axes = figure.subplots()
        _curves(axes, results, highlight, last)
        if bound < 1:
            allowed = np.minimum(1, ranks * bound)  # r names are right r times as often at most
            axes.plot(ranks, allowed, color=RED, ls=(0, (5, 2)), lw=2, label="bound")
        axes.plot(ranks, np.minimum(1, ranks * chance), color=SOFT_COLOUR, ls=":", label="guessing")
        axes.set(ylim=(0, 1.03))
        axes.set_xlabel("guesses allowed", fontsize=12)
        axes.set_ylabel("person among them", fontsize=12)
        axes.set_title(attack, fontsize=13, fontweight="bold")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_yticks([0, 0.5, 1])
        _per_cent(axes.yaxis)
        _legend(figure, columns=3)
        says = "; ".join(
            f"{recogniser_name(r.recogniser)}: {percent(r.cmc[0])} with one guess,"
            f" {percent(r.cmc[:last][-1])} with {min(last, len(r.cmc))}"
            for r in results
        )
        return _svg(figure, name, f"{attack}: person among the first guesses, in per cent", says)


def _curves(axes: Any, results: Sequence[Result], highlight: Sequence[str], last: int) -> None:
    """Draw the curves, those that stand out on top."""
    grey = {"color": "#8a8a8a", "lw": 0.8}
    for result in sorted(results, key=lambda r: r.recogniser in highlight):
        look: dict[str, Any] = grey
        if result.recogniser in highlight:
            colour, dashes, marker = _STYLES[highlight.index(result.recogniser)]
            label = recogniser_name(result.recogniser)
            look = {"color": colour, "ls": dashes, "marker": marker, "ms": 4, "label": label}
        curve = result.cmc[:last]
        axes.plot(np.arange(1, len(curve) + 1), curve, **look)
    if any(r.recogniser not in highlight for r in results):
        axes.plot([], [], label="the others", **grey)


def bars(rows: Sequence[Bar], *, name: str, title: str) -> Markup:
    """Draw shares of the originals and of the published faces, side by side; or of the latter alone."""
    looks = [("originals", PALE_COLOUR, "////"), ("published faces", BLUE, "")]
    pairs = any(np.isfinite(bar.original) for bar in rows)
    with _figure((42 if pairs else 29) * len(rows) + (70 if pairs else 48)) as figure:
        axes = figure.subplots()
        for row, (label, *pair) in enumerate(rows):
            axes.text(0, row - (0.42 if pairs else 0.36), label, fontsize=10, va="center")
            for at, share, (who, colour, hatch) in zip((row - 0.13, row + 0.19), pair, looks, strict=True):
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
        _per_cent(axes.xaxis)
        if pairs:
            known = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))  # each look once
            _legend(figure, columns=2, handles=list(known.values()))
        return _svg(figure, name, title, _before_and_after(rows, share=True))


def dots(rows: Sequence[Bar], *, whole: float, share: bool, name: str, title: str) -> Markup:
    """Draw one measure for each kind of people, against all of them."""
    with _figure(24 * len(rows) + 110) as figure:
        axes = figure.subplots()
        at = np.arange(len(rows))
        ends = np.array([(row.original, row.deidentified) for row in rows])
        axes.hlines(at, *np.sort(ends, axis=1).T, color=SOFT_COLOUR, lw=1)
        if np.isfinite(ends[:, 0]).any():
            axes.plot(ends[:, 0], at, "o", mfc="white", mec=INK_COLOUR, ms=6, label="originals")
        axes.plot(ends[:, 1], at, "o", color=BLUE, ms=7, label="published faces")
        axes.axvline(whole, color=SOFT_COLOUR, ls=":", label="published, everybody")
        axes.set(ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(at, [row.label for row in rows], fontsize=10)
        figure.suptitle(title, fontsize=11, fontweight="bold")
        low, high = np.nanmin([*ends.ravel(), whole]), np.nanmax([*ends.ravel(), whole])
        margin = 0.08 * (high - low) or 0.02
        axes.set_xlim(low - margin, high + margin)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        if share:
            _per_cent(axes.xaxis)
        _legend(figure, columns=2)
        return _svg(figure, name, title, _before_and_after(rows, share))


def traces(lines: Mapping[str, NDArray[Any]], *, name: str, title: str) -> Markup:
    """Draw how strong some expressions are over time, in the original and in what was published.

    Parameters
    ----------
    lines : mapping of str to (t, 3) arrays
        Seconds, original, published; NaN is a gap.
    name : str
        Makes the ids of this chart its own.
    title : str
        Of the chart.
    """
    with _figure(80 * len(lines) + 70) as figure:
        rows = np.atleast_1d(figure.subplots(len(lines), sharex=True))
        for axes, (what, line) in zip(rows, lines.items(), strict=True):
            axes.plot(line[:, 0], line[:, 1], color=SOFT_COLOUR, ls="--", lw=1, label="original")
            axes.plot(line[:, 0], line[:, 2], color=BLUE, lw=1.2, label="new face")
            axes.set_ylabel(what, fontsize=11)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=2))
        rows[-1].set_xlabel("seconds", fontsize=11)
        _legend(figure, columns=2, handles=rows[0].get_legend_handles_labels()[0])
        says = "; ".join(
            f"{what}: {np.nanmean(line[:, 1]):.2f} on average before, {np.nanmean(line[:, 2]):.2f} now"
            for what, line in lines.items()
        )
        return _svg(figure, name, title, says)


def by_attack(results: Sequence[Result]) -> Mapping[str, list[Result]]:
    """Return the results of each attack, in the order in which they came."""
    attacks: dict[str, list[Result]] = {}
    for result in results:
        attacks.setdefault(result.attack, []).append(result)
    return attacks


def highlighted_recognisers(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the recognisers that get a line of their own look: those that named most people."""
    most: dict[str, float] = {}
    for result in results:
        most[result.recogniser] = max(result.low, most.get(result.recogniser, 0.0))
    return tuple(sorted(most, key=lambda who: (-most[who], who))[: len(_STYLES)])


def _before_and_after(rows: Sequence[Bar], share: bool) -> str:
    """Say what a chart shows."""

    def told(value: float) -> str:
        if not np.isfinite(value):
            return "not measured"
        return percent(value) if share else f"{value:.3g}"

    return "; ".join(
        f"{row.label}: {told(row.original)} before, {told(row.deidentified)} after" for row in rows
    )


def _per_cent(axis: Any) -> None:
    """Write an axis of shares in per cent."""
    axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))


def _legend(figure: Figure, *, columns: int, **more: Any) -> None:
    """Put the legend below, where it hides nothing."""
    figure.legend(
        loc="outside lower left", ncols=columns, fontsize=9.5, columnspacing=1.2, handletextpad=0.5, **more
    )


@contextmanager
def _figure(height: float) -> Iterator[Figure]:
    """Yield a figure of the common width, whose look no setting of the user's changes."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        yield Figure(figsize=(CHART_WIDTH / 72, height / 72), layout="constrained")


def _svg(figure: Figure, name: str, title: str, says: str) -> Markup:
    """Return a figure as an element for a page: titled, described, its ids its own."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'\bid="', f'id="{name}-', drawn)
    drawn = re.sub(r'xlink:href="#', f'href="#{name}-', drawn)
    drawn = re.sub(r"url\(#", f"url(#{name}-", drawn)
    box = re.search(r'viewBox="[^"]*"', drawn)
    assert box is not None
    head = Markup(
        '<svg {} role="img" aria-labelledby="{}-title {}-desc"><title id="{}-title">{}</title>'
        '<desc id="{}-desc">{}</desc>'
    ).format(Markup(box[0]), name, name, name, title, name, says)
    return head + Markup(drawn[drawn.index(">") + 1 :])
