"""Draw the charts of the report: SVG with text as text, the same bytes for the same figures.

Each chart is as wide as a phone, so that it can be read on one; wider pages place them side by side.
No information is in colour alone: lines differ in dashes and markers, bars in hatching.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from ksame.attack.score import AttackResult
from ksame.audit.report.wording import is_group, most_successful, percent, recogniser_name

INK_COLOUR, SOFT_COLOUR, BLUE, RED, PALE_COLOUR = "#222222", "#595959", "#1b4f9c", "#b3261e", "#c9d6ea"
CHART_WIDTH = 340  # width of every chart in user units: pixels on a phone
_STYLES = (  # of the highlighted recognisers: colour, dashes, marker
    (BLUE, "-", "o"),
    ("#7a4b00", "--", "s"),
    ("#3d6b2f", "-.", "^"),
)
_RC_PARAMS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ksame",
    "text.parse_math": False,  # a label with two $ is not a formula
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


def attack_charts(results: Sequence[AttackResult]) -> tuple[Markup, list[Markup]]:
    """Draw the overview of all attacks, and the CMC curves of each."""
    # an attack that names several people is a point of another's curve: it is in the table only
    single = [r for r in results if not is_group(r)]
    highlight = highlighted_recognisers(single)
    with_curve = by_attack([r for r in single if len(r.cmc) > 1])
    curves = [
        cmc(attack, found, highlight=highlight, name=f"cmc{i}")
        for i, (attack, found) in enumerate(with_curve.items())
    ]
    return overview(single, name="overview") if single else Markup(""), curves


def overview(results: Sequence[AttackResult], *, name: str) -> Markup:
    """Draw one row for each attack: every recogniser, and the interval of the most successful one.

    Parameters
    ----------
    results : sequence of AttackResult
        All attacks.
    name : str
        Prefix of the ids in this chart.
    """
    attacks = by_attack(results)
    with new_figure(34 * len(attacks) + 150) as figure:
        axes = figure.subplots()
        for row, (attack, found) in enumerate(attacks.items()):
            top = most_successful(tuple(found))
            assert top is not None
            _row(axes, row, attack, top, [r.rank1 for r in found if r is not top])
        reach = max(max(r.high, r.bound if r.bound < 1 else 0) for r in results)
        axes.set(
            ylim=(len(attacks) - 0.4, -0.85),
            xlim=(0, min(1.0, 1.08 * reach) + 0.005),
            xlabel="people re-identified",
        )
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        write_per_cent(axes.xaxis)
        handles = [
            Line2D([], [], color=BLUE, marker="o", lw=2.5, label="most successful recogniser, 95 % interval"),
            Line2D([], [], color=SOFT_COLOUR, marker="o", mfc="white", ls="", label="other recognisers"),
            Line2D([], [], color=SOFT_COLOUR, ls=":", label="guessing"),
        ]
        if any(r.bound < 1 for r in results):
            handles.append(Line2D([], [], color=RED, ls="--", lw=1.6, label="the bound"))
        add_legend(figure, columns=1, handles=handles)
        says = "; ".join(
            f"{attack}: {recogniser_name(top.recogniser)} {percent(top.rank1)}"
            f" ({percent(top.low)} to {percent(top.high)})"
            for attack, found in attacks.items()
            if (top := most_successful(tuple(found)))
        )
        return as_svg(figure, name, "People re-identified by each attack, in per cent", says)


def _row(axes: Any, row: int, attack: str, top: AttackResult, others: Sequence[float]) -> None:
    """Draw one attack: its name above its dots and lines."""
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


def cmc(attack: str, results: Sequence[AttackResult], *, highlight: Sequence[str], name: str) -> Markup:
    """Draw the CMC curves of one attack: how often the right person is among the first r names.

    Parameters
    ----------
    attack : str
        Its name.
    results : sequence of AttackResult
        That attack with every recogniser.
    highlight : sequence of str
        Recognisers with a line style of their own; the others are thin and grey.
    name : str
        Prefix of the ids in this chart.
    """
    bound, chance = results[0].bound, results[0].chance
    last = min(max(len(r.cmc) for r in results), max(10, int(np.ceil(1 / bound))) if bound < 1 else 20)
    ranks = np.arange(1, last + 1)
    with new_figure(235) as figure:
        axes = figure.subplots()
        _curves(axes, results, highlight, last)
        if bound < 1:
            allowed = np.minimum(1, ranks * bound)  # r guesses are right at most r times as often
            axes.plot(ranks, allowed, color=RED, ls=(0, (5, 2)), lw=2, label="bound")
        axes.plot(ranks, np.minimum(1, ranks * chance), color=SOFT_COLOUR, ls=":", label="guessing")
        axes.set(ylim=(0, 1.03))
        axes.set_xlabel("guesses allowed", fontsize=12)
        axes.set_ylabel("person among them", fontsize=12)
        axes.set_title(attack, fontsize=13, fontweight="bold")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_yticks([0, 0.5, 1])
        write_per_cent(axes.yaxis)
        add_legend(figure, columns=3)
        says = "; ".join(
            f"{recogniser_name(r.recogniser)}: {percent(r.cmc[0])} with one guess,"
            f" {percent(r.cmc[:last][-1])} with {min(last, len(r.cmc))}"
            for r in results
        )
        return as_svg(figure, name, f"{attack}: person among the first guesses, in per cent", says)


def _curves(axes: Any, results: Sequence[AttackResult], highlight: Sequence[str], last: int) -> None:
    """Draw the curves, the highlighted ones on top."""
    grey = {"color": "#8a8a8a", "lw": 0.8}
    for result in sorted(results, key=lambda r: r.recogniser in highlight):
        style: dict[str, Any] = grey
        if result.recogniser in highlight:
            colour, dashes, marker = _STYLES[highlight.index(result.recogniser)]
            label = recogniser_name(result.recogniser)
            style = {"color": colour, "ls": dashes, "marker": marker, "ms": 4, "label": label}
        curve = result.cmc[:last]
        axes.plot(np.arange(1, len(curve) + 1), curve, **style)
    if any(r.recogniser not in highlight for r in results):
        axes.plot([], [], label="others", **grey)


def traces(lines: Mapping[str, NDArray[Any]], *, name: str, title: str) -> Markup:
    """Draw the strength of some expressions over time, in the original and in the published video.

    Parameters
    ----------
    lines : mapping of str to (t, 3) arrays
        Seconds, original, published; NaN is a gap.
    name : str
        Prefix of the ids in this chart.
    title : str
        The title of the chart.
    """
    with new_figure(80 * len(lines) + 70) as figure:
        rows = np.atleast_1d(figure.subplots(len(lines), sharex=True))
        for axes, (what, line) in zip(rows, lines.items(), strict=True):
            axes.plot(line[:, 0], line[:, 1], color=SOFT_COLOUR, ls="--", lw=1, label="original")
            axes.plot(line[:, 0], line[:, 2], color=BLUE, lw=1.2, label="new face")
            axes.set_ylabel(what, fontsize=11)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=2))
        rows[-1].set_xlabel("seconds", fontsize=11)
        add_legend(figure, columns=2, handles=rows[0].get_legend_handles_labels()[0])
        says = "; ".join(
            f"{what}: on average {np.nanmean(line[:, 1]):.2f} before, {np.nanmean(line[:, 2]):.2f} after"
            for what, line in lines.items()
        )
        return as_svg(figure, name, title, says)


def by_attack(results: Sequence[AttackResult]) -> Mapping[str, list[AttackResult]]:
    """Return the results of each attack, in their order."""
    attacks: dict[str, list[AttackResult]] = {}
    for result in results:
        attacks.setdefault(result.attack, []).append(result)
    return attacks


def highlighted_recognisers(results: Sequence[AttackResult]) -> tuple[str, ...]:
    """Return the recognisers with a line style of their own: those that named most people."""
    highest: dict[str, float] = {}
    for result in results:
        highest[result.recogniser] = max(result.low, highest.get(result.recogniser, 0.0))
    return tuple(sorted(highest, key=lambda name: (-highest[name], name))[: len(_STYLES)])


def write_per_cent(axis: Any) -> None:
    """Label an axis of shares in per cent."""
    axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))


def add_legend(figure: Figure, *, columns: int, **more: Any) -> None:
    """Place the legend below the chart."""
    figure.legend(
        loc="outside lower left", ncols=columns, fontsize=9.5, columnspacing=1.2, handletextpad=0.5, **more
    )


@contextmanager
def new_figure(height: float) -> Iterator[Figure]:
    """Yield a figure of the common width, whatever the user's settings of matplotlib are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC_PARAMS)
        yield Figure(figsize=(CHART_WIDTH / 72, height / 72), layout="constrained")


def as_svg(figure: Figure, name: str, title: str, says: str) -> Markup:
    """Return a figure as an SVG element with a title, a description and unique ids."""
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
