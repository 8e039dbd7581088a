"""AnonFACES done again [A]: which clustering, which embedding, what is lost, who is recognised.

The paper draws its faces with StyleGAN. Here a group's face is the mean of its people in an appearance
model, as ksame-m publishes it, and beside it means of pixels, of eigenfaces and of a StyleGAN's styles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ksame.audit.utility.figures import entropy
from ksame.core.arrays import FloatArray
from ksame.core.errors import WeightsError
from ksame.core.faces import Space
from ksame.core.partition_type import Partition
from ksame.lab.experiments.anonfaces_data import (
    NeutralFaces,
    compare_faces,
    embeddings,
    group_faces,
    labels_or_predictions,
    neutral_faces,
    rank1,
    risk_adjusted_weights,
    usable_ks,
)
from ksame.lab.experiments.anonfaces_portraits import (
    StyleReader,
    released_embeddings,
    risk_assessment,
    style_reader,
)
from ksame.lab.experiments.base import ExperimentData, ExperimentResult, recogniser_codes
from ksame.partition import hierarchical, kmeans, kmember, ksame, maxdist, mdav, partition_quality, random
from ksame.spaces import EigenSpace, PixelSpace

KS = (3, 5, 9, 14, 20)  # the paper has all from 2 to 20; half of the faces would be those of 2
PORTRAIT_KS = (5, 9, 20)  # those of the StyleGAN
STYLEGAN = "StyleGAN (ours)"
RELEASED = "AnonFACES (ksame run)"
SEEDS = 10  # of the clusterings that draw
RUNS, PROBES = 3, 50  # [A 5.1]
CLUSTERINGS: Mapping[str, Callable[..., Partition]] = {
    "hierarchical, average": partial(hierarchical, linkage="average"),
    "hierarchical, complete": partial(hierarchical, linkage="complete"),
    "hierarchical, ward": partial(hierarchical, linkage="ward"),
    "k-means": kmeans,
    "random": random,
    "k-Same": ksame,
    "k-member": kmember,
    "max distance": maxdist,
    "MDAV (not in the paper)": mdav,
}
POSITIVE = ("hierarchical, average", "hierarchical, ward")  # silhouettes [A 4.2]
PAPER_13 = {  # homogeneous clusters, in per cent [A 4.4]
    2: ("over 80", "over 80", "over 70"),
    5: ("about 60", "about 70", ""),
    6: ("", "", "under 50"),
    8: ("", "", "about 60"),
}
PAPER_1 = {2: (1.333, 1.155), 4: (0.667, 1.155), 8: (0.0, 0.0)}  # rank-1 after, mean and sd [A table 1]
RANK1_BEFORE = (78.667, 1.155)


def clusterings(data: ExperimentData) -> ExperimentResult:
    """Judge all clusterings of an embedding by distances within groups and silhouette [A fig. 2-3]."""
    view = neutral_faces(data)
    rows = []
    for k in usable_ks(view, (5, 20)):
        for name, method in CLUSTERINGS.items():
            found = [partition_quality(view.seen, method(view.seen, k, rng=seed)) for seed in range(SEEDS)]
            least, mean, greatest, silhouette = np.mean(
                [(one.least, one.mean, one.greatest, one.silhouette) for one in found], axis=0
            )
            paper = "" if k != 20 or "MDAV" in name else "positive" if name in POSITIVE else "not positive"
            rows.append((k, name, least, mean, greatest, silhouette, paper))
    columns = ["k", "clustering", *(f"ours: {part} distance" for part in ("least", "mean", "greatest"))]
    table = pd.DataFrame(rows, columns=[*columns, "ours: silhouette", "paper: silhouette"])
    last = table[table["k"] == table["k"].max()]
    mean_distance = last.set_index("clustering")["ours: mean distance"]
    best, worst = mean_distance.idxmin(), mean_distance.idxmax()
    above = last.loc[last["ours: silhouette"] > 0, "clustering"].tolist()
    figure, axes = _figure(f"Clusterings of {view.eye.name} codes, k = {last['k'].max()} [A fig. 2-3]", 2)
    _plot_spans(axes[0], last)
    axes[1].barh(last["clustering"], last["ours: silhouette"], color="C0")
    axes[1].axvline(0, color="black", lw=0.8)
    axes[1].set(xlabel="mean silhouette", yticklabels=[])
    axes[1].invert_yaxis()
    return ExperimentResult(
        title="Distances within groups and silhouettes of clusterings [A fig. 2-3]",
        table=table,
        figure=figure,
        says=(
            f"At k = {last['k'].max()} the people of a group are nearest to each other with {best!r}."
            f" Positive silhouettes: {', '.join(above) or 'none'}; in the paper, on CelebA, average"
            f" and ward linkage alone. Farthest from each other they are with {worst!r}."
        ),
    )


def losses(data: ExperimentData) -> ExperimentResult:
    """Compare embeddings, clusterings and generators by what is lost and who is recognised [A fig. 9-10]."""
    view = neutral_faces(data)
    spaces = embeddings(view)
    first = next(iter(spaces))
    ward = CLUSTERINGS["hierarchical, ward"]
    runs: list[tuple[str, str, FloatArray, Callable[..., Partition], Space | None]]
    runs = [("a: embedding", name, codes, ward, None) for name, codes in spaces.items()]
    for name in ("k-means", "max distance", "random"):
        runs.append(("b: clustering", name, spaces[first], CLUSTERINGS[name], None))
    runs.append(("c: generator", "pixel means", spaces[first], ward, PixelSpace.fit(view.faces)))
    runs.append(("c: generator", "eigenfaces", spaces[first], ward, EigenSpace.fit(view.faces)))
    runs.append(("related", "k-Same-M", view.space.encode(view.faces), ksame, None))
    runs.append(("related", "k-Same-Eigen", spaces["PCA"], ksame, EigenSpace.fit(view.faces)))
    rows = []
    for stage, name, codes, method, generator in runs:
        for k in usable_ks(view, KS):
            rgb, points, of = group_faces(view, method(codes, k, rng=0), generator)
            rows.append((stage, name, k, *compare_faces(view, recogniser_codes(view.eye, rgb, points)[of])))
    able = style_reader(view)
    if isinstance(able, StyleReader):
        rows += _style_rows(view, able, spaces)
    columns = ["stage", "what", "k", "ours: information loss", "ours: within the threshold (%)"]
    table = pd.DataFrame(rows, columns=[*columns, "ours: rank-1 (%)"])
    table["1/k (%)"] = 100 / table["k"]
    says_so = {("PCA", 3): "the loss of dlib at k = 9", ("pixel means", 3): "near or below 0.6 for k up to 4"}
    table["paper"] = [says_so.get((what, k), "") for what, k in zip(table["what"], table["k"], strict=True)]
    return ExperimentResult(
        title="Information loss by embedding, clustering and generator, and re-identification [A fig. 9-10]",
        table=table,
        figure=_plot_losses(table, view, first),
        says=_describe_losses(table, view, first) + _missing_note(able),
    )


def _style_rows(
    view: NeutralFaces, able: StyleReader, spaces: Mapping[str, FloatArray]
) -> list[tuple[Any, ...]]:
    """Return the rows of means of styles, over embeddings and clusterings, and of releases [A fig. 9, 10]."""
    first = next(iter(spaces))
    runs = [("a: embedding", name, name, "hierarchical, ward") for name in spaces if name != first]
    runs.insert(0, ("c: generator", STYLEGAN, first, "hierarchical, ward"))
    runs += [("b: clustering", name, first, name) for name in ("k-means", "max distance", "random")]
    rows = []
    for stage, name, embedding, clustering in runs:
        what = STYLEGAN if name == STYLEGAN else f"{name}, {STYLEGAN}"
        for k in usable_ks(view, PORTRAIT_KS):
            groups = CLUSTERINGS[clustering](spaces[embedding], k, rng=0)
            rows.append((stage, what, k, *compare_faces(view, able.means(view, groups))))
    ks = usable_ks(view, PORTRAIT_KS)
    rows += [
        ("related", RELEASED, k, *compare_faces(view, new))
        for k, new in zip(ks, released_embeddings(view, ks), strict=True)
    ]
    return rows


def _missing_note(able: StyleReader | WeightsError) -> str:
    return f" The StyleGAN was left out: {able}" if isinstance(able, WeightsError) else ""


def homogeneity(data: ExperimentData) -> ExperimentResult:
    """Count the groups that are of one gender, of one age band, and of both, over k [A fig. 13]."""
    view = neutral_faces(data)
    gender, age = labels_or_predictions(view.faces)
    spaces = embeddings(view) | {"appearance": view.space.encode(view.faces)}
    first = next(iter(spaces))
    rows = []
    for name, codes in spaces.items():
        for k in usable_ks(view, range(2, 21)):
            labels = CLUSTERINGS["hierarchical, ward"](codes, k).labels
            pure = [entropy(label, labels) == 0 for label in (gender, age)]
            shares = [100 * float(one.mean()) for one in (*pure, pure[0] & pure[1])]
            rows.append((name, k, *shares, *(PAPER_13.get(k, ("",) * 3) if name == first else ("",) * 3)))
    what = ("one gender", "one age band", "both")
    columns = ["embedding", "k", *(f"ours: {w} (%)" for w in what), *(f"paper: {w} (%)" for w in what)]
    table = pd.DataFrame(rows, columns=columns)
    figure, axes = _figure("Groups that are alike in gender and age, hierarchical, ward [A fig. 13]", 3)
    for ax, one in zip(axes, what, strict=True):
        _plot_lines(ax, table, "embedding", f"ours: {one} (%)", f"groups of {one} (%)")
    both = table.set_index(["embedding", "k"])["ours: both (%)"]
    low, high = int(table["k"].min()), int(table["k"].max())
    figures = "; ".join(
        f"by {name} {both[name, low]:.0f} % at k = {low} and {both[name, high]:.0f} % at k = {high}"
        for name in spaces
    )
    return ExperimentResult(
        title="Homogeneous groups over k [A fig. 13]",
        table=table,
        figure=figure,
        says=(
            f"Groups alike in both gender and age: {figures}. The paper, with dlib and 67 people, goes from"
            " over 70 % at k = 2 to under 50 % at k = 6. It does not say what its ages are; these are bands:"
            " under 35, to 54, and over."
        ),
    )


def recognition(data: ExperimentData) -> ExperimentResult:
    """Recognise 50 people before and after, three times, against a photo of everybody [A table 1]."""
    view = neutral_faces(data)
    rng = np.random.default_rng(0)
    count = min(PROBES, len(view.faces))
    rates: dict[tuple[str, int], list[float]] = {}
    able = style_reader(view)
    for _ in range(RUNS):
        chosen = np.sort(rng.choice(len(view.faces), count, replace=False))
        some = view.rows(chosen)
        rates.setdefault(("before", 0), []).append(rank1(view, some, some.seen))
        for k in usable_ks(some, tuple(PAPER_1)):
            groups = hierarchical(some.seen, k)
            for name, weights in (("after", None), ("after, adjusted", risk_adjusted_weights(some, groups))):
                rgb, points, of = group_faces(some, groups, weights=weights)
                new = recogniser_codes(view.eye, rgb, points)[of]
                rates.setdefault((name, k), []).append(rank1(view, some, new))
            if isinstance(able, StyleReader):
                new = able.rows(chosen).means(some, groups)
                rates.setdefault((f"after, {STYLEGAN}", k), []).append(rank1(view, some, new))
    rows = []
    for (name, k), found in rates.items():
        paper = RANK1_BEFORE if name == "before" else (np.nan, np.nan)
        if "adjusted" in name or STYLEGAN in name:
            paper = PAPER_1.get(k, paper)
        rows.append(
            (name, k or "", 100 * np.mean(found), 100 * np.std(found, ddof=1), *paper, 100 / (k or 1))
        )
    parts = [f"{whose}: rank-1 {what} (%)" for whose in ("ours", "paper") for what in ("mean", "sd")]
    table = pd.DataFrame(rows, columns=["people", "k", *parts, "bound (%)"])
    figure, axes = _figure(f"Rank-1 of {view.eye.name}, {count} people, {RUNS} runs [A table 1]", 1)
    _plot_bars(axes[0], table)
    after = table[table["people"] != "before"]
    kept = bool((after[parts[0]] <= after["bound (%)"] + 1e-9).all())
    return ExperimentResult(
        title="Recognition before and after de-identification [A table 1]",
        table=table,
        figure=figure,
        says=(
            f"Before, {table[parts[0]][0]:.0f} % are recognised; after, at most {after[parts[0]].max():.0f}"
            f" %, {'always' if kept else 'not always'} within 1/k. The paper finds 1.3 % and less: faces"
            " of StyleGAN keep less of each person than means of photos do, and its gallery has 10,177"
            f" people, this one {len(view.faces)}.{_missing_note(able)}"
        ),
    )


def _describe_losses(table: pd.DataFrame, view: NeutralFaces, first: str) -> str:
    """Say what the stages of [A fig. 9-10] come to here."""
    mean = table.groupby("what", sort=False)["ours: information loss"].mean()
    plain = ~table["what"].str.contains(STYLEGAN, regex=False)
    embedding = mean[table.loc[(table["stage"] == "a: embedding") & plain, "what"].unique()]
    clustering = mean[[first, "k-means", "max distance", "random"]].rename({first: "hierarchical, ward"})
    loss = table.set_index(["what", "k"])["ours: information loss"]
    least = int(table["k"].min())
    as_much = max((k for k in table["k"] if loss[first, k] <= loss["PCA", least]), default=least)
    over = table[table["ours: rank-1 (%)"] > table["1/k (%)"] + 1e-9]
    return (
        f"Mean loss over k, as {view.eye.name} sees it: by embedding "
        + ", ".join(f"{name} {value:.3f}" for name, value in embedding.items())
        + "; by clustering "
        + ", ".join(f"{name} {value:.3f}" for name, value in clustering.items())
        + f". Up to k = {as_much}, {first} loses no more than PCA at k = {least} (in the paper up to 9, as"
        + " PCA at 3). The paper has the networks below PCA, and hierarchical below the others. Rank-1 "
        + ("is above 1/k nowhere" if over.empty else f"is above 1/k in {len(over)} of {len(table)} cases")
        + "; who is within the threshold can still be recognised as one of the group."
    )


def _plot_losses(table: pd.DataFrame, view: NeutralFaces, first: str) -> Figure:
    figure, axes = _figure(
        f"Information loss and re-identification, as {view.eye.name} sees it [A fig. 9-10]", 4
    )
    base = table[(table["stage"] == "a: embedding") & (table["what"] == first)]
    loss = "ours: information loss"
    for ax, stage, name in zip(
        axes, ("a: embedding", "b: clustering", "c: generator"), (first, "ward", "appearance"), strict=False
    ):
        rows = table[table["stage"] == stage]
        rows = rows if stage == "a: embedding" else pd.concat([base.assign(what=name), rows])
        ax.axhline(view.threshold, color="black", ls=":", lw=1, label="threshold")
        _plot_lines(ax, rows, "what", loss, "mean distance to the originals")
        ax.set(title=stage, ylim=(0.9 * min(view.threshold, table[loss].min()), 1.05 * table[loss].max()))
    shown = table[table["what"].isin([first, "random", "k-Same-M", "k-Same-Eigen", STYLEGAN, RELEASED])]
    _plot_lines(axes[3], shown, "what", "ours: within the threshold (%)", "people within the threshold (%)")
    ks = np.unique(table["k"])
    axes[3].plot(ks, 100 / ks, "k--", lw=1, label="1/k")
    axes[3].legend(fontsize=8)
    axes[3].set(title="related works")
    return figure


def _figure(title: str, panels: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(3 + 4.0 * panels, 4.4), layout="constrained")
    figure.suptitle(title)
    return figure, list(np.atleast_1d(figure.subplots(1, panels)))


def _plot_lines(ax: Axes, table: pd.DataFrame, by: str, value: str, unit: str) -> None:
    for marker, (name, rows) in zip("os^Dvx", table.groupby(by, sort=False), strict=False):
        ax.plot(rows["k"], rows[value], marker=marker, ms=4, label=str(name))
    ax.set(xlabel="k (people behind each face)", ylabel=unit)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if "%" in unit:
        ax.set_ylim(0, 105)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)


def _plot_spans(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw least, mean and greatest distance of each clustering."""
    low, middle, high = (rows[f"ours: {part} distance"] for part in ("least", "mean", "greatest"))
    ax.hlines(rows["clustering"], low, high, color="C0")
    ax.plot(middle, rows["clustering"], "o", color="C0", label="mean")
    ax.plot(low, rows["clustering"], "|", color="C0", label="least and greatest")
    ax.plot(high, rows["clustering"], "|", color="C0")
    ax.set(xlabel="distance between two people of a group")
    ax.invert_yaxis()
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2)


def _plot_bars(ax: Axes, table: pd.DataFrame) -> None:
    """Draw ours and the paper's rank-1 beside each other."""
    names = [f"{p}, k = {k}" if k else p for p, k in zip(table["people"], table["k"], strict=True)]
    place = np.arange(len(table))
    for i, whose in enumerate(("ours", "paper")):
        mean, sd = (table[f"{whose}: rank-1 {what} (%)"] for what in ("mean", "sd"))
        ax.bar(place + 0.4 * i - 0.2, mean, 0.4, yerr=sd, capsize=3, label=whose)
    ax.hlines(table["bound (%)"][1:], place[1:] - 0.45, place[1:] + 0.45, "black", label="proved bound, 1/k")
    ax.set_xticks(place, names, rotation=25, ha="right")
    ax.set(ylabel="rank-1 (%)", ylim=(0, 105))
    ax.legend(fontsize=8)


EXPERIMENTS: dict[str, Callable[[ExperimentData], ExperimentResult]] = {
    "anonfaces-fig2-3": clusterings,
    "anonfaces-fig9-10": losses,
    "anonfaces-fig13": homogeneity,
    "anonfaces-fig14-16": risk_assessment,
    "anonfaces-table1": recognition,
}
