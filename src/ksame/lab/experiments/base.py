"""What all experiments share: a set of faces, and a result that lies beside the paper's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ksame.analysis.identify import read_person_labels
from ksame.analysis.photos import analyse_photos
from ksame.attack.recognisers import Recogniser
from ksame.core.arrays import FloatArray, ProgressCallback
from ksame.core.context import Context, ignore_progress
from ksame.core.errors import UsageError
from ksame.core.faces import FaceSet
from ksame.core.geometry import to_frame, transform
from ksame.io.sources import find_sources

EXPRESSIONS = ("neutral", "smiling")


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """People in two photos each, neutral and smiling, registered on the canonical frame.

    Parameters
    ----------
    faces : FaceSet
        ``rgb`` is (n, 320, 256, 3); ``subject`` is the file's name up to the ``_``. Labels:
        ``expression``, and ``gender``, ``age``, ``ethnicity`` where ``info.csv`` tells.
    points : (n, 468, 2)
        The meshes in pixels of ``faces.rgb`` (``faces.points`` is in pixels of the photos).
    folder : Path
        Where the photos are; ``faces.source`` names them.
    """

    faces: FaceSet
    points: FloatArray
    folder: Path

    def __getitem__(self, index: Any) -> ExperimentData:
        """Return some of the faces."""
        return ExperimentData(self.faces[index], self.points[index], self.folder)

    def __len__(self) -> int:
        """Return the number of faces."""
        return len(self.faces)

    def only(self, expression: str) -> ExperimentData:
        """Return one photo of each person, in the order of the people: the same for every expression."""
        chosen = self[self.faces.labels["expression"] == expression]
        return chosen[np.argsort(chosen.faces.subject, kind="stable")]


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """An experiment's table, with the paper's own numbers beside ours, a figure, and what they say.

    Parameters
    ----------
    title : str
        What was done, with the paper's table or figure.
    table : DataFrame
        Ours and the paper's columns say whose they are.
    figure : Figure
        The same for the eye: a title, units, a legend.
    says : str
        A sentence or two: what agrees, what differs, and why.
    """

    title: str
    table: pd.DataFrame
    figure: Figure = field(repr=False)
    says: str


def load(folder: str | Path, *, progress: ProgressCallback | None = None) -> ExperimentData:
    """Read a set laid out as ``ID_neutral.*``, ``ID_smiling.*`` and ``info.csv``.

    Only people with both photos are kept, so that galleries and probes show the same people.
    """
    folder = Path(folder)
    sources = [s for s in find_sources(folder) if _expression(s.name) in EXPRESSIONS]
    if not sources:
        raise UsageError(f"{folder} must hold ID_neutral and ID_smiling photos: there are none.")
    found = analyse_photos(sources, Context(progress=progress or ignore_progress), scale=1.0)
    main = np.flatnonzero(found.rank == 0)
    faces = found.faces[main]
    who = np.array([Path(name).stem.split("_")[0] for name in faces.source])
    how = np.array([_expression(name) for name in faces.source])
    both = np.isin(who, list(set(who[how == "neutral"]) & set(who[how == "smiling"])))
    if both.sum() < 8:
        raise UsageError(f"{folder} must show at least 4 people both neutral and smiling: {both.sum() // 2}.")
    info = folder / "info.csv"
    labels = (read_person_labels(info, who.tolist()) if info.is_file() else {}) | {"expression": how}
    faces = FaceSet(faces.rgb, faces.points, faces.xyxy, faces.score, faces.source, who, labels)[both]
    return ExperimentData(faces, np.stack([transform(to_frame(p), p) for p in faces.points]), folder)


def recogniser_codes(recogniser: Recogniser, rgb: NDArray[np.uint8], points: FloatArray) -> NDArray[Any]:
    """Return what a recogniser makes of registered faces (n, h, w, 3) whose landmarks it is given."""
    chips = [recogniser.chips(face, mesh[None]) for face, mesh in zip(rgb, points, strict=True)]
    return recogniser.codes(np.concatenate(chips))


def _expression(name: str) -> str:
    return Path(name).stem.split("_")[-1].lower()
