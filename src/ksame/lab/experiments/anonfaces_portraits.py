"""AnonFACES with a StyleGAN, as the paper draws it, and what risk assessment does [A 3.4, fig. 14-16].

Deviation: styles are read off photos by a learnt map and not found by optimisation, so a mean of styles
keeps less of each person than the paper's does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.errors import WeightsError
from ksame.core.partition_type import Partition
from ksame.lab.experiments.anonfaces_data import (
    NeutralFaces,
    compare_faces,
    group_faces,
    identification_rate,
    neutral_faces,
    risk_adjusted_weights,
    usable_ks,
)
from ksame.lab.experiments.base import ExperimentData, ExperimentResult, recogniser_codes
from ksame.methods.anonfaces.measure import largest_faces, portrait_attributes
from ksame.methods.anonfaces.method import AnonFaces
from ksame.methods.anonfaces.portraits import draw_portraits
from ksame.methods.anonfaces.verifiers import embed_registered
from ksame.models.generator import ImageGenerator
from ksame.models.recognisers import VERIFIERS
from ksame.partition import hierarchical
from ksame.render.base import ImageRenderer
from ksame.replace import mix
from ksame.spaces.generator_space import GeneratorSpace, extract_features

__all__ = ["StyleReader", "released_embeddings", "risk_assessment", "style_reader"]

KS = (5, 10, 20)  # a group's portrait, judged, takes some seconds
DELTA = 0.3  # of random weights, as a share of their mean [A 5.1]
PLAIN_MEANS, ADJUSTED, RANDOM, PUBLISHED = "plain means", "adjusted", "random weights", "as ksame publishes"


class StyleReader(NamedTuple):
    """A generator, and the styles that are read off n people."""

    space: GeneratorSpace
    generator: ImageGenerator
    read: FloatArray  # (n, f)

    def rows(self, index: IntArray) -> StyleReader:
        """Return some of the people."""
        return self._replace(read=self.read[index])

    @property
    def codes(self) -> FloatArray:
        """The styles (n, d)."""
        return self.space.mean + self.space.whiten(self.read) @ self.space.down @ self.space.up

    def means(
        self, view: NeutralFaces, groups: Partition, *, adjust: bool = False, rng: int | None = None
    ) -> NDArray[Any]:
        """Return what the recogniser makes of each person's new face (n, e): a mean of styles [A eq. 1].

        Parameters
        ----------
        view, groups
            The same people, and who is with whom.
        adjust : bool
            Take weight from people whom the recogniser finds, in at most 2 rounds [A 3.4].
        rng : int, optional
            Draw weights at random [A 5.1].
        """

        def at_risk(code: FloatArray, rows: IntArray) -> NDArray[np.bool_]:
            new = embed_portraits(view, self.space.draw(code[None], self.generator, half=True))
            return np.asarray(np.linalg.norm(view.seen[rows] - new, axis=1) < view.threshold)

        random = None if rng is None else DELTA / float(groups.people.max())
        mixed, _ = mix(
            self.codes,
            groups,
            random_weights=random,
            rng=rng,
            at_risk=at_risk if adjust else None,
            beta=0.2,
            rounds=2,
        )
        each = mixed[[rows[0] for rows in groups.groups]]
        return embed_portraits(view, self.space.draw(each, self.generator, half=True))[groups.labels]


def released_embeddings(view: NeutralFaces, ks: Sequence[int]) -> Iterator[NDArray[Any]]:
    """Yield for each k what the recogniser makes of each person's new face (n, e), as ``ksame run`` does it.

    It keeps genders and dark skin apart before it groups, and each portrait is judged.
    """
    people, context = IdentifiedPhotos.from_faces(view.faces), Context(seed=1, verifiers=VERIFIERS.portrait)
    for k in ks:
        plan = AnonFaces(k=k).plan(people, context)
        assert isinstance(plan.renderer, ImageRenderer)
        yield embed_portraits(view, plan.renderer.images)[plan.identity]


def style_reader(view: NeutralFaces) -> StyleReader | WeightsError:
    """Return the generator that is shipped with the people's styles, or why it is not here."""
    try:
        generator = ImageGenerator.bundled()
    except WeightsError as error:
        return error
    space = GeneratorSpace.bundled()
    space.check_generator(generator)
    return StyleReader(space, generator, extract_features(view.faces))


def embed_portraits(
    view: NeutralFaces, images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8]
) -> NDArray[Any]:
    """Return what the recogniser makes of portraits (g, e), NaN where no face is found."""
    rows, faces = largest_faces(np.asarray(images))
    codes = np.full((len(images), view.seen.shape[1]), np.nan)
    for row, mesh in zip(rows, faces.points, strict=True):
        codes[row] = recogniser_codes(view.eye, np.asarray(images[row])[None], mesh[None])[0]
    return codes


def risk_assessment(data: ExperimentData) -> ExperimentResult:
    """Compare faces with and without risk assessment and random weights, under attack [A fig. 14-16]."""
    view = neutral_faces(data)
    able = style_reader(view)
    rows, last = [], view.seen
    people = None if isinstance(able, WeightsError) else _PortraitInputs.at(view, able)
    for k in usable_ks(view, KS):
        groups = hierarchical(view.seen, k)
        for generator, how, new, again in (
            *_appearance_means(view, groups),
            *_portrait_trials(view, groups, people),
        ):
            rows.append(
                (generator, how, k, *compare_faces(view, new), *_attack_rates(view, new, again), 100 / k)
            )
            last = new
    columns = ["generator", "faces", "k", "ours: information loss", "ours: within the threshold (%)"]
    columns += [f"ours: rank-1, {attack} (%)" for attack in ("naive", "reverse", "parrot")]
    table = pd.DataFrame(rows, columns=[*columns, "1/k (%)"])
    table["paper"] = np.where(table["faces"].isin([ADJUSTED, RANDOM]), "more loss, fewer found", "")
    return ExperimentResult(
        title="Risk assessment and random weights [A fig. 14-16]",
        table=table,
        figure=_figure(table, view, np.linalg.norm(view.seen - last, axis=1), groups),
        says=_describe(table, able),
    )


TrialResult = tuple[str, str, NDArray[Any], NDArray[Any]]
"""Generator, kind, and the new faces (n, e) twice: as published, and as a parrot makes them, who has the very
photos and knows the method, but not what was drawn at random."""


def _appearance_means(view: NeutralFaces, groups: Partition) -> Iterator[TrialResult]:
    """Yield means of photos in the appearance model."""
    for how, weights in ((PLAIN_MEANS, None), (ADJUSTED, risk_adjusted_weights(view, groups))):
        rgb, points, of = group_faces(view, groups, weights=weights)
        new = recogniser_codes(view.eye, rgb, points)[of]
        yield "appearance", how, new, new


class _PortraitInputs(NamedTuple):
    """What is asked for in portraits, and what the judges make of the people."""

    able: StyleReader
    attributes: FloatArray  # (n, a)
    members: dict[str, FloatArray]

    @classmethod
    def at(cls, view: NeutralFaces, able: StyleReader) -> _PortraitInputs:
        faces = view.faces
        return cls(
            able,
            portrait_attributes(faces, able.read, able.space),
            embed_registered(faces, VERIFIERS.portrait),
        )

    def published(self, view: NeutralFaces, groups: Partition, seed: int) -> NDArray[Any]:
        """Return each person's new face (n, e) as ksame publishes it."""
        able, rng = self.able, np.random.default_rng(seed)
        random = DELTA / float(groups.people.max())
        found = draw_portraits(
            able.space, able.generator, able.codes, self.attributes, self.members, groups,
            random_weights=random, rng=rng,
        )  # fmt: skip
        return embed_portraits(view, found.drawn)[groups.labels]


def _portrait_trials(
    view: NeutralFaces, groups: Partition, people: _PortraitInputs | None
) -> Iterator[TrialResult]:
    """Yield means of styles, and portraits as they are published; nothing where there is no generator."""
    if people is None:
        return
    able, name = people.able, "StyleGAN (ours)"
    for how, adjust in ((PLAIN_MEANS, False), (ADJUSTED, True)):
        new = able.means(view, groups, adjust=adjust)
        yield name, how, new, new
    yield name, RANDOM, able.means(view, groups, rng=1), able.means(view, groups, rng=2)
    yield name, PUBLISHED, people.published(view, groups, 1), people.published(view, groups, 2)


def _attack_rates(view: NeutralFaces, new: NDArray[Any], again: NDArray[Any]) -> tuple[float, float]:
    """Return rank-1 of the reverse and of the parrot attack, in per cent [A 5]."""
    who = view.faces.subject
    reverse = identification_rate(view, new, view.other, who, who, "reverse")
    return 100 * reverse, 100 * identification_rate(view, again, new, who, who, "parrot")


def _describe(table: pd.DataFrame, able: StyleReader | WeightsError) -> str:
    """Say what risk assessment and random weights come to."""
    least = table[table["k"] == table["k"].min()]
    columns = [f"ours: {what}" for what in ("information loss", "within the threshold (%)")]
    figures = "; ".join(
        f"{generator}, {how} {loss:.2f} and {within:.0f} %"
        for generator, how, loss, within in least[["generator", "faces", *columns]].itertuples(index=False)
    )
    named = table[[name for name in table.columns if "rank-1" in name]].max(axis=1)
    over = int((named > table["1/k (%)"] + 1e-9).sum())
    missing = f" The StyleGAN was left out: {able}" if isinstance(able, WeightsError) else ""
    return (
        f"Loss and people within the threshold at k = {table['k'].min()}: {figures}. The paper has fewer"
        " people within it, and more loss, with adjusted and with random weights. Under naive, reverse and"
        f" parrot attack rank-1 is above 1/k in {over} of {len(table)} cases.{missing}"
    )


def _figure(table: pd.DataFrame, view: NeutralFaces, distance: FloatArray, groups: Partition) -> Figure:
    """Draw the loss and who is found over k, and for the last faces the distances in each group."""
    figure = Figure(figsize=(15, 4.4), layout="constrained")
    figure.suptitle(f"Risk assessment and random weights, as {view.eye.name} sees it [A fig. 14-16]")
    axes: list[Axes] = list(figure.subplots(1, 3))
    lines = (
        ("ours: information loss", "mean distance to the originals"),
        (
            "ours: within the threshold (%)",
            "people within the threshold (%)",
        ),
    )
    for ax, (column, unit) in zip(axes, lines, strict=False):
        for marker, (name, rows) in zip(
            "os^Dvx", table.groupby(["generator", "faces"], sort=False), strict=False
        ):
            ax.plot(rows["k"], rows[column], marker=marker, ms=4, label=", ".join(map(str, name)))
        ax.set(xlabel="k (people behind each face)", ylabel=unit)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(alpha=0.3)
        ax.legend(fontsize=7)
    own = [distance[rows][np.isfinite(distance[rows])] for rows in groups.groups]
    axes[2].boxplot(own)
    axes[2].axhline(view.threshold, color="C3", lw=1, label="threshold")
    axes[2].legend(fontsize=7)
    last = table.iloc[-1]
    axes[2].set(
        xlabel=f"group (k = {last['k']}; {last['generator']}, {last['faces']})",
        ylabel="distance to the originals",
    )
    return figure
