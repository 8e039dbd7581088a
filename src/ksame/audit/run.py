"""The audit: a release is verified, attacked with every recogniser there is, and measured.

``audit`` reads what is asked; ``_audit_photos`` is the whole way on one screen, and for videos
``audit_videos`` is; the
steps they name are short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.subjects import read_person_labels
from ksame.attack import background
from ksame.attack.embed import embed_faces
from ksame.attack.recognisers import Recogniser, choose_recognisers
from ksame.attack.score import Result
from ksame.audit import utility
from ksame.audit.pairing import (
    Claim,
    EmbeddedPairs,
    FacePairs,
    check_counts,
    embed_pairs,
    find_private,
    pair_faces,
    read_claim,
)
from ksame.audit.report.result import ImagePair, Report, audit_record
from ksame.audit.suite import (
    AttackInputs,
    EmbedFacesCallback,
    Gallery,
    background_attacks,
    build_gallery,
    degradation_attacks,
    direct_attacks,
    intersection_attacks,
    parrot_attacks,
    reconstruction_attacks,
)
from ksame.audit.video.video_audit import AuditRequest, audit_videos, merge_reports
from ksame.core.arrays import ProgressCallback
from ksame.core.context import parallel_map
from ksame.core.errors import UsageError
from ksame.core.geometry import with_ring
from ksame.io.photos import read_pixels
from ksame.io.sources import Source, find_sources
from ksame.models import runtime, weights
from ksame.models.detectors import residual

SHOWN_IMAGES = 6  # published pictures on the page
SHOWN_HEIGHT_PX = 220  # of each, in pixels


def audit(
    release: str | Path,
    *,
    originals: str | Path | Sequence[str | Path],
    gallery: str | Path | None = None,
    attackers: str | Sequence[str] = "all",
    private: str | Path | None = None,
    subjects: str | None = None,
    labels: str | Path | None = None,
    other: str | Path | None = None,
    k: int | None = None,
    show_originals: bool = False,
    frames: int | None = 300,
    jobs: int | None = None,
    progress: ProgressCallback | None = None,
) -> Report:
    """Attack a release with several recognisers, and measure what is left of the data.

    Parameters
    ----------
    release : path
        A release folder, or any folder of de-identified photos or videos that kept their names.
    originals : path or several
        The photos or videos it was made from.
    gallery : path, optional
        What the attacker has instead: other photos of these people, and strangers.
    attackers : str or sequence
        Names of recognisers, .onnx files, or ``all``.
    private : path, optional
        The private folder; by default ``RELEASE.private`` if it is there. Without it attacks can be
        scored only where file names were kept.
    subjects : str, optional
        Who is on the gallery's photos, and on all photos where there is no private folder: ``prefix``,
        ``folder`` or a csv.
    labels : path, optional
        A csv with a row for each person: gender, age, ethnicity; by default ``info.csv`` of the originals.
    other : path, optional
        A second release of the same people, its private folder beside it: both are compared.
    k : int, optional
        The k that a folder without a certificate is said to have.
    show_originals : bool
        Put faces of originals on the page, which must then stay as private as they are.
    frames : int, optional
        Of each video as many are looked at, evenly spread; None: all.
    jobs, progress
        See ``ksame.analysis.photos.analyse_photos``.

    Examples
    --------
    ::

        report = ksame.audit("out/", originals="photos/")
        report.attacks.head()
        report.save("out/report.html")
    """
    recognisers, missing = choose_recognisers(attackers)
    secret = find_private(release, private)
    claim = read_claim(release, secret, k=k)
    if not claim.files:
        raise UsageError(f"There are no pictures in {release}: nothing can be attacked.")
    asked = AuditRequest(
        recognisers=recognisers,
        originals=[Path(p) for p in ([originals] if isinstance(originals, str | Path) else originals)],
        private=secret,
        gallery=gallery,
        subjects=subjects,
        show_originals=show_originals,
        frames=frames,
        notes=(*missing, *utility.missing_notes()),
        jobs=jobs,
        progress=progress,
    )
    if not claim.videos:
        return _audit_photos(claim, asked, labels, other)
    videos = audit_videos(claim, asked)
    return (
        merge_reports(videos, lambda: _audit_photos(claim.photos, asked, labels, other))
        if claim.mixed
        else videos
    )


def _audit_photos(
    claim: Claim, asked: AuditRequest, labels: str | Path | None, other: str | Path | None
) -> Report:
    """Attack and measure the photos of a release."""
    recognisers, jobs, watch = asked.recognisers, asked.jobs, asked.progress
    sources = find_sources(asked.originals)
    pairs = pair_faces(claim, sources, asked.private, subjects=asked.subjects)
    claim = check_counts(claim, pairs)
    everyone = [*recognisers, *(() if claim.portraits else background.RECOGNISERS)]
    look = partial(embed_faces, recognisers=recognisers, jobs=jobs, progress=watch)
    views: EmbeddedPairs | None = None
    results: list[Result] = []
    notes = [*asked.notes, *pairs.notes]
    table = pd.DataFrame(columns=["measure", "original", "deidentified", "slice"])
    if pairs.rows:
        if len(set(pairs.subjects)) < 2:
            raise UsageError("This release shows one person only: nobody can be told apart from others.")
        views = embed_pairs(claim, pairs, everyone, features=utility.face_columns, jobs=jobs, progress=watch)
        crowd = build_gallery(
            asked.gallery, asked.subjects, claim, pairs, views, partial(look, recognisers=everyone)
        )
        results, why = _run_attacks(AttackInputs(claim, pairs, views, crowd), everyone, asked, look, other)
        notes += [*why, *_faceless_notes(views, crowd if asked.gallery is not None else None)]
        table = utility.measures(
            views.before.features,
            views.after.features,
            subjects=np.array(pairs.subjects),
            groups=np.array([row.group for row in pairs.rows]),
            labels=_labels(labels, asked.originals, pairs.subjects),
            named=_named(results),
        )
    else:
        notes += _look_alikes(claim, sources, recognisers, look)
    runtime.unload(*weights.CATALOGUE)  # large pictures take the detectors 0.6 GB
    return Report(
        certificate=claim.certificate,
        checks=claim.checks,
        unchecked=claim.unchecked,
        broken=claim.broken,
        results=tuple(results),
        utility=table,
        detected=utility.detection_rate(map(io.read_photo, claim.distinct), jobs=jobs),
        residual_faces=_residual(claim, pairs, views, jobs),
        pairs=_shown_images(claim, pairs, asked.show_originals),
        missing=pairs.missing,
        notes=tuple(notes),
        record=audit_record(recognisers),
    )


def _run_attacks(
    trial: AttackInputs,
    everyone: Sequence[Recogniser],
    asked: AuditRequest,
    look: EmbedFacesCallback,
    other: str | Path | None,
) -> tuple[list[Result], list[str]]:
    """Put a release through every attack; say which could not be tried."""
    recognisers = asked.recognisers
    parroted, why = parrot_attacks(trial, recognisers, look, asked.jobs)
    return [
        *direct_attacks(trial, recognisers),
        *parroted,
        *background_attacks(trial, everyone[len(recognisers) :]),
        *degradation_attacks(trial, recognisers, look, asked.jobs),
        *reconstruction_attacks(trial),
        *intersection_attacks(trial, other),
    ], why


def _named(results: Sequence[Result]) -> dict[str, NDArray[Any]]:
    """Return how the best of the naive attackers fared face by face: for whom it is worse."""
    naive = max((r for r in results if r.attack == "naive"), key=lambda r: r.rank1)
    return {f"named by {naive.recogniser} (share)": naive.named}


def _faceless_notes(views: EmbeddedPairs, gallery: Gallery | None) -> Iterator[str]:
    """Say in how many pictures no face was found: they are counted, and not dropped."""
    gallery_count = int((gallery.largest < 0).sum()) if gallery is not None else 0
    for count, what in ((len(views.unseen), "original photos"), (gallery_count, "photos of the gallery")):
        if count:
            yield f"In {count} {what} no face was found: nobody can be recognised by them."
    for names, then in (
        (views.faceless, "there a recogniser can only guess, and it was counted as guessing"),
        (views.pointed, "the attacker looked where it was in the original"),
    ):
        if names:
            yield f"In {len(names)} published pictures no face was found: {then}."


def _labels(
    labels: str | Path | None, originals: Sequence[Path], subjects: Sequence[str]
) -> Mapping[str, NDArray[Any]]:
    """Return what is known of each person: from a csv, or from the info.csv that lies with the originals."""
    if labels is None and len(originals) == 1 and (originals[0] / "info.csv").is_file():
        labels = originals[0] / "info.csv"
    return read_person_labels(labels, subjects) if labels is not None else {}


def _look_alikes(
    claim: Claim, sources: Sequence[Source], recognisers: Sequence[Recogniser], look: EmbedFacesCallback
) -> Iterator[str]:
    """Say how many published faces are taken for one of the originals, when nobody can say for whose."""
    old = look(sources, stage="looking at the originals")
    new = look([Source(name, claim.folder / name) for name in claim.files], stage="looking at the release")
    for one in recognisers:
        if one.same_person is None or not len(old) or not len(new):
            continue
        nearest = one.train(old.codes[one.name], old.photo)(new.codes[one.name]).min(axis=1)
        near = int((nearest <= one.same_person).sum())
        yield (
            f"{one.name} takes {near} of {len(new)} published faces for somebody among the originals; whether"
            " rightly, only the private folder tells."
        )


def _residual(claim: Claim, pairs: FacePairs, views: EmbeddedPairs | None, jobs: int | None) -> int:
    """Count the faces of published scenes that a second detector sees where nothing was replaced."""
    if claim.portraits or views is None:
        return int(claim.certificate.get("untouched_faces", 0))
    boxes: dict[str, list[NDArray[Any]]] = {}
    for row, mesh in zip(pairs.rows, views.before.points, strict=True):
        if np.isfinite(mesh).all():
            around = with_ring(mesh)
            boxes.setdefault(row.output, []).append(np.hstack([around.min(axis=0), around.max(axis=0)]))
    tasks = ((claim.folder / name, np.array(boxes.get(name, [])).reshape(-1, 4)) for name in claim.files)
    return sum(parallel_map(_untouched, tasks, jobs=jobs))


def _untouched(path: Path, covered: NDArray[Any]) -> int:
    return len(residual(io.read_photo(path), covered))


def _shown_images(claim: Claim, pairs: FacePairs, show_originals: bool) -> list[ImagePair]:
    """Return some published pictures; of a folder that proves nothing none, for they may be originals."""
    if (claim.broken or "format" not in claim.certificate) and not show_originals:
        return []
    files = claim.certificate.get("files", {})
    shown: dict[object, tuple[str, dict[str, str]]] = {}  # each face: a file, and the people behind it
    for name in claim.files:
        shown.setdefault(files.get(name, name), (name, {}))
    for row in pairs.rows:
        if (key := files.get(row.output, row.output)) in shown:
            shown[key][1].setdefault(row.subject, row.input)
    chosen = [*shown.values()][:: max(1, -(-len(shown) // SHOWN_IMAGES))]
    times = Counter(files.values())
    images = []
    for name, people in chosen:
        before = (
            [_thumbnail_png(read_pixels(pairs.sources[photo])) for photo in people.values()]
            if show_originals
            else []
        )
        count = len(people) or times.get(files.get(name), 1)
        images.append(ImagePair(_thumbnail_png(io.read_photo(claim.folder / name)), count, tuple(before)))
    return images


def _thumbnail_png(rgb: NDArray[np.uint8]) -> bytes:
    """Return a picture at the size of the page, as PNG."""
    scale = min(1.0, SHOWN_HEIGHT_PX / rgb.shape[0])
    size = max(1, round(rgb.shape[1] * scale)), max(1, round(rgb.shape[0] * scale))
    return io.encode_png(np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8))
