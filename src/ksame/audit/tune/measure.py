"""What a release of known people loses, and what an attacker finds in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist

from ksame import io
from ksame.analysis.identify import IdentifiedPhotos
from ksame.analysis.strata import PredictedAttributes, predict_attributes
from ksame.attack.embed import embed_faces
from ksame.attack.recognisers import Recogniser
from ksame.attack.score import score
from ksame.audit.utility.figures import entropy
from ksame.audit.utility.measures import clean_labels as given
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, register
from ksame.io.sources import Source
from ksame.release import Release
from ksame.spaces import AppearanceSpace
from ksame.spaces.appearance import landmarks_on_frame


class OriginalFigures(NamedTuple):
    """What is the same for every k."""

    people: IdentifiedPhotos
    number: int  # of people
    recogniser: Recogniser
    space: AppearanceSpace
    codes: FloatArray  # (n, d): of the originals, in the appearance space
    seen: NDArray[Any]  # (n, e): of the originals, as the recogniser sees them
    compared: str
    photos: NDArray[np.str_] | None  # to leave out the own photo, if everybody has another
    labels: Mapping[str, NDArray[np.str_]]  # gender and age band, given or apparent
    tree: FloatArray
    shown: int  # the face whose new faces the page shows


def measure_originals(people: IdentifiedPhotos, recogniser: Recogniser, context: Context) -> OriginalFigures:
    """Look at the originals once."""
    faces = people.faces
    space = AppearanceSpace.bundled()
    codes = space.encode(faces)
    names, who = np.unique(faces.subject, return_inverse=True)
    means = np.stack([codes[who == i].mean(axis=0) for i in range(len(names))])
    middle = means.mean(axis=0)
    photos = np.bincount(who)
    other = bool((photos > 1).all())
    usual = np.argsort(np.linalg.norm(means - middle, axis=1), kind="stable")[len(names) // 2]
    return OriginalFigures(
        people=people,
        number=len(names),
        recogniser=recogniser,
        space=space,
        codes=codes,
        seen=_codes(recogniser, faces, context),
        compared="other photos of the same people" if other else "the very photos the faces were made from",
        photos=faces.source if other else None,
        labels=_labels(people, predict_attributes(people, context)),
        tree=linkage(pdist(means), "ward"),
        shown=int(np.flatnonzero(who == usual)[0]),
    )


def _codes(recogniser: Recogniser, faces: FaceSet, context: Context) -> NDArray[Any]:
    """Return what the recogniser makes of the registered originals."""
    points = landmarks_on_frame(faces) * faces.rgb.shape[2] / FRAME.width

    def look(row: int) -> NDArray[Any]:
        return recogniser.codes(recogniser.chips(faces.rgb[row], points[row][None]))

    return np.concatenate(list(context.map(look, range(len(faces)))))


def _labels(people: IdentifiedPhotos, attributes: PredictedAttributes) -> dict[str, NDArray[np.str_]]:
    """Return gender and age band of each face, as the csv gives them, else as they appear."""
    told = given(people.faces.labels, len(people.faces))
    found = {}
    for name in ("gender", "age"):
        label = told.get(name, np.full(len(people.faces), ""))
        label = np.where(label == "NA", "", label)  # as many tables write what is not known
        found[name] = np.where(label == "", getattr(attributes, name), label)
    return found


class PublishedFaces(NamedTuple):
    """The different files of a release, and which of them each face became."""

    files: list[bytes]
    of: IntArray  # (n,)


def published_faces(release: Release) -> PublishedFaces:
    """Return every published face once."""
    place: dict[bytes, int] = {}
    of = [place.setdefault(release.files[row.output], len(place)) for row in release.private.mapping]
    return PublishedFaces(list(place), np.array(of, np.intp))


def measure_release(
    release: Release, published: PublishedFaces, known: OriginalFigures, context: Context
) -> dict[str, Any]:
    """Attack a release, and measure what its faces lost."""
    sources = [Source(str(i), io.decode(data)) for i, data in enumerate(published.files)]

    def code(rgb: NDArray[np.uint8], points: FloatArray) -> dict[str, NDArray[Any]]:
        return {"code": _appearance(known.space, rgb, points)}

    seen = embed_faces(sources, [known.recogniser], features=code, jobs=context.jobs)
    first = seen.largest(len(sources))
    mine = seen.rows(first[published.of])
    subject, guarantee = known.people.faces.subject, release.guarantee
    result = score(
        known.recogniser.train,
        known.seen,
        mine.codes[known.recogniser.name],
        subject,
        subject,
        attack="naive",
        recogniser=known.recogniser.name,
        gallery_photos=known.photos,
        probe_photos=known.photos,
    )
    lost = np.linalg.norm(mine.features["code"] - known.codes, axis=1)  # [A def. 3.2]
    found = ~np.isnan(lost)
    return {
        "bound": guarantee.bound if guarantee.k_anonymous else 1.0,
        "proved": guarantee.k_anonymous,
        "rank1": result.rank1,
        "low": result.low,
        "high": result.high,
        "loss": float(lost[found].mean()) if found.any() else np.nan,
        **_homogeneity(published.of, subject, known.labels),
        "faces": len(sources),
        "faceless": int((first < 0).sum()),
    }


def _appearance(space: AppearanceSpace, rgb: NDArray[np.uint8], points: FloatArray) -> FloatArray:
    """Return the appearance codes (n, d) of the faces in an image."""
    n = len(points)
    if not n:
        return np.zeros((0, len(space.deviation)))
    faces = FaceSet(
        rgb=np.stack([register(rgb, p) for p in points]),
        points=points,
        xyxy=np.zeros((n, 4)),
        score=np.ones(n),
        source=np.full(n, ""),
        subject=np.full(n, ""),
    )
    return space.encode(faces)


def _homogeneity(
    group: IntArray, subject: NDArray[np.str_], labels: Mapping[str, NDArray[np.str_]]
) -> dict[str, float]:
    """Return how much alike the people behind each face are, in mean over the faces [A 4.4].

    One minus the entropy of a label, divided by its largest possible value; nan where every photo has a
    face of its own, so that nobody is mixed with anybody.
    """
    _, one = np.unique(subject, return_index=True)  # people count, not their photos
    group = group[one]
    mixed = {name: entropy(label[one], group) for name, label in labels.items()}
    nan = {"gender": np.nan, "age": np.nan, "alike": np.nan}
    if not mixed or len(np.unique(group)) == len(group):
        return nan
    alike = np.all([e == 0 for e in mixed.values()], axis=0)
    return nan | {name: float(1 - e.mean()) for name, e in mixed.items()} | {"alike": float(alike.mean())}
