"""What the experiments of [A] share: people as a recogniser sees them, and one new face for each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.analysis.strata import predict_attributes
from ksame.attack.recognisers import Recogniser, choose_recognisers
from ksame.attack.score import score
from ksame.audit.utility.measures import clean_labels
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.errors import WeightsError
from ksame.core.faces import FaceSet, Space
from ksame.core.geometry import MESH, with_ring
from ksame.core.partition_type import Partition
from ksame.lab.experiments.base import ExperimentData, recogniser_codes
from ksame.models.recognisers import VERIFIERS
from ksame.render import mean_face, portrait
from ksame.replace.mix import risk_weights
from ksame.spaces import AppearanceSpace, EigenSpace

PAPER_NETWORKS = ("dlib", "facenet")  # [A 3.3.2]
NETWORKS = (*PAPER_NETWORKS, *(name for name in VERIFIERS.portrait if name not in PAPER_NETWORKS))
THRESHOLD = 0.6  # of dlib [A 3.4]


class NeutralFaces(NamedTuple):
    """One neutral photo of each of n people, and what a recogniser makes of it and of the other photo."""

    faces: FaceSet
    points: FloatArray  # (n, 468, 2): in pixels of the images
    eye: Recogniser
    threshold: float
    seen: NDArray[Any]  # (n, e)
    other: NDArray[Any]  # (n, e): of the smiling photos
    space: AppearanceSpace

    def rows(self, index: IntArray) -> NeutralFaces:
        """Return some of the people."""
        return self._replace(
            faces=self.faces[index],
            points=self.points[index],
            seen=self.seen[index],
            other=self.other[index],
        )


def neutral_faces(data: ExperimentData) -> NeutralFaces:
    """Return the neutral photos, seen by the first of the paper's networks that is here."""
    neutral, smiling = data.only("neutral"), data.only("smiling")
    eye = _networks()[0]
    return NeutralFaces(
        faces=neutral.faces,
        points=neutral.points,
        eye=eye,
        threshold=THRESHOLD if eye.name == "dlib" else eye.same_person or np.inf,
        seen=recogniser_codes(eye, neutral.faces.rgb, neutral.points),
        other=recogniser_codes(eye, smiling.faces.rgb, smiling.points),
        space=AppearanceSpace.bundled(),
    )


def _networks() -> list[Recogniser]:
    """Return the recognisers that are here, those of the paper first."""
    found: list[Recogniser] = []
    missing: list[WeightsError] = []
    for name in NETWORKS:
        try:
            found += choose_recognisers(name)[0]
        except WeightsError as error:
            missing.append(error)
    if not found:
        raise missing[0]
    return found


def embeddings(view: NeutralFaces) -> dict[str, FloatArray]:
    """Return codes to group by: those of the networks that are here, and principal components of pixels."""
    more = [who for who in _networks() if who.name != view.eye.name]
    spaces = {view.eye.name: view.seen}
    spaces |= {who.name: recogniser_codes(who, view.faces.rgb, view.points) for who in more}
    return spaces | {"PCA": EigenSpace.fit(view.faces).encode(view.faces)}


def usable_ks(view: NeutralFaces, ks: Sequence[int]) -> list[int]:
    """Return the k that leave at least two groups; with few people, their half in place of larger ones."""
    most = len(view.faces) // 2
    return sorted({min(k, most) for k in ks})


def group_faces(
    view: NeutralFaces, groups: Partition, space: Space | None = None, weights: FloatArray | None = None
) -> tuple[NDArray[np.uint8], FloatArray, IntArray]:
    """Return one image per group, its landmarks, and the group of each person.

    Without a space that decodes a mean code, faces are drawn as ksame publishes them, with weights if given.
    """
    if space is None:
        made = [_portrait(view, rows, weights) for rows in groups.groups]
        return np.stack([rgb for rgb, _ in made]), np.stack([points for _, points in made]), groups.labels
    codes = space.encode(view.faces)
    rgb = space.decode(np.stack([codes[rows].mean(axis=0) for rows in groups.groups]))
    return rgb, np.stack([view.points[rows].mean(axis=0) for rows in groups.groups]), groups.labels


def _portrait(
    view: NeutralFaces, rows: IntArray, weights: FloatArray | None = None
) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return a group's face as ksame publishes it, and its landmarks [A eq. 1]."""
    w = np.ones(len(rows)) if weights is None else weights[rows]
    face = mean_face.draw_mean_face(
        view.faces.rgb[rows], with_ring(view.points[rows]), w / w.sum(), view.space.ring_triangles
    )
    return portrait.draw_portrait(face), face.shape[:MESH]


def risk_adjusted_weights(view: NeutralFaces, groups: Partition) -> FloatArray:
    """Return weights that take from people whom the recogniser finds in their group's face [A 3.4].

    Deviation: at most 2 rounds of a fifth of the weight, where the paper goes on until nobody is found.
    """
    n = len(view.faces)

    def at_risk(weights: FloatArray, rows: IntArray) -> NDArray[np.bool_]:
        rgb, points = _portrait(view, rows, weights)
        new = recogniser_codes(view.eye, rgb[None], points[None])
        return np.asarray(np.linalg.norm(view.seen[rows] - new, axis=1) < view.threshold)

    # the mixed code of unit vectors is the vector of the weights
    return risk_weights(np.eye(n), groups, at_risk, beta=0.2, rounds=2).weights


def compare_faces(view: NeutralFaces, new: NDArray[Any]) -> tuple[float, float, float]:
    """Return information loss, the share of people within the threshold of their new face, and rank-1."""
    distance = np.linalg.norm(view.seen - new, axis=1)  # [A def. 3.2]
    within = 100 * float((distance < view.threshold).mean())
    return float(np.nanmean(distance)), within, 100 * rank1(view, view, new)


def rank1(everyone: NeutralFaces, some: NeutralFaces, new: NDArray[Any]) -> float:
    """Return how often new codes of some people are nearest to the other photo of their person."""
    return identification_rate(
        everyone, everyone.other, new, everyone.faces.subject, some.faces.subject, "naive"
    )


def identification_rate(
    view: NeutralFaces,
    gallery: NDArray[Any],
    probes: NDArray[Any],
    whose: NDArray[np.str_],
    who: NDArray[np.str_],
    attack: str,
) -> float:
    """Return how often the view's recogniser names probes (p, e) of people rightly, by a gallery (g, e)."""
    return score(view.eye.train, gallery, probes, whose, who, attack=attack, recogniser=view.eye.name).rank1


def labels_or_predictions(faces: FaceSet) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """Return gender and age band as given, and as they appear where that is not known."""
    nothing = np.full(len(faces), "")
    labels = clean_labels(faces.labels, len(faces))
    gender, age = (labels.get(name, nothing) for name in ("gender", "age"))
    age = np.where(age == "NA", "", age)  # so the London set writes an age that is not known
    if (gender != "").all() and (age != "").all():
        return gender, age
    seen = predict_attributes(IdentifiedPhotos.from_faces(faces), Context())
    return np.where(gender == "", seen.gender, gender), np.where(age == "", seen.age, age)
