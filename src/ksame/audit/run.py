"""Audit a release: verify it, attack it with every recogniser, and measure the utility that is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import cv2
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ksame import io
from ksame.analysis.identify import read_person_labels
from ksame.attack import AttackResult
from ksame.attack.recognisers import SURROUNDINGS_ATTACKERS, choose_recognisers
from ksame.audit.inputs import (
    AttackInputs,
    AuditOptions,
    AuditRequest,
    EmbeddedPairs,
    Gallery,
    build_gallery,
    embed_pairs,
)
from ksame.audit.pairing import Claim, FacePairs, check_counts, find_private, pair_faces, read_claim
from ksame.audit.report.result import ImagePair, Report, audit_record
from ksame.audit.suite import run_attacks
from ksame.audit.utility import detection_rate, face_columns, measures, missing_notes
from ksame.core.context import parallel_map
from ksame.core.errors import UsageError
from ksame.core.geometry import with_ring
from ksame.io.photos import read_pixels
from ksame.io.sources import Source, find_sources
from ksame.models import runtime, weights
from ksame.models.detectors import residual

SHOWN_IMAGES = 6  # published images in the report
SHOWN_HEIGHT_PX = 220  # height of each in pixels


def audit(
    release: str | Path,
    *,
    originals: str | Path | Sequence[str | Path],
    attackers: str | Sequence[str] = "all",
    private: str | Path | None = None,
    k: int | None = None,
    **options: Unpack[AuditOptions],
) -> Report:
    """Attack a release with several recognisers, and measure the utility of what was published.

    Parameters
    ----------
    release : path
        A release folder, or any folder of de-identified photos or videos that kept their names.
    originals : path or several
        The photos or videos it was made from.
    attackers : str or sequence
        Names of recognisers, .onnx files, or ``all``.
    private : path, optional
        The private folder; by default ``RELEASE.private`` if it is there. Without it attacks can be
        scored only where file names were kept.
    k : int, optional
        The k that a folder without a certificate should have.
    **options
        See ``AuditOptions``.

    Examples
    --------
    ::

        report = ksame.audit("out/", originals="photos/")
        report.attacks.head()
        report.save("out/report.html")
    """
    folders = [Path(p) for p in ([originals] if isinstance(originals, str | Path) else originals)]
    recognisers, missing = choose_recognisers(attackers)
    notes = (*missing, *missing_notes())
    secret = find_private(release, private)
    claim = read_claim(release, secret, k=k)
    if not claim.files:
        raise UsageError(f"There are no images in {release}: nothing can be attacked.")
    has_videos = bool(claim.videos)
    request = AuditRequest(recognisers, folders, secret, notes, **options)
    if not has_videos:
        return _audit_photos(claim, request)
    from ksame.audit.video.video_audit import audit_videos, merge_reports  # here: it brings the tracking

    videos = audit_videos(claim, request)
    return merge_reports(videos, lambda: _audit_photos(claim.photos, request)) if claim.is_mixed else videos


def _audit_photos(claim: Claim, request: AuditRequest) -> Report:
    """Attack and measure the photos of a release."""
    sources = find_sources(request.originals)
    pairs = pair_faces(claim, sources, request.private, subjects=request.subjects)
    claim = check_counts(claim, pairs)
    embedded: EmbeddedPairs | None = None
    results: list[AttackResult] = []
    notes = [*request.notes, *pairs.notes]
    table = pd.DataFrame(columns=["measure", "original", "deidentified", "slice"])
    if pairs.rows:
        if len(set(pairs.subjects)) < 2:
            raise UsageError("This release shows one person only: nobody can be confused with anyone else.")
        past_face = () if claim.is_portrait else SURROUNDINGS_ATTACKERS
        everyone = [*request.recognisers, *past_face]
        embedded = embed_pairs(request, claim, pairs, everyone, face_columns)
        gallery = build_gallery(request, claim, pairs, embedded, everyone)
        results, why = run_attacks(AttackInputs(request, claim, pairs, embedded, gallery), past_face)
        notes += [*gallery.notes, *why, *_faceless_notes(embedded, gallery if request.gallery else None)]
        table = measures(
            embedded.before.features,
            embedded.after.features,
            subjects=np.array(pairs.subjects),
            groups=np.array([row.group for row in pairs.rows]),
            labels=_read_labels(request, pairs.subjects),
            named=_naming_rates(results),
        )
    else:
        notes += _match_notes(claim, sources, request)
    runtime.unload(*weights.CATALOGUE)  # the detectors need 0.6 GB for large images
    return Report(
        **claim.verification,
        results=tuple(results),
        utility=table,
        detected=detection_rate(map(io.read_photo, claim.distinct), jobs=request.jobs),
        residual_faces=_count_residual_faces(claim, pairs, embedded, request.jobs),
        pairs=_shown_images(claim, pairs, request.show_originals),
        missing=pairs.missing,
        notes=tuple(notes),
        record=audit_record(request.recognisers),
    )


def _naming_rates(results: Sequence[AttackResult]) -> dict[str, NDArray[Any]]:
    """Return how often the best naive attacker named each face: some people may be named more often."""
    naive = max((r for r in results if r.attack == "naive"), key=lambda r: r.rank1)
    return {f"named by {naive.recogniser} (share)": naive.named}


def _faceless_notes(embedded: EmbeddedPairs, gallery: Gallery | None) -> Iterator[str]:
    """State in how many images no face was found: they are counted, not dropped."""
    gallery_count = int((gallery.largest < 0).sum()) if gallery is not None else 0
    for count, what in ((len(embedded.unseen), "original photos"), (gallery_count, "photos of the gallery")):
        if count:
            yield f"In {count} {what} no face was found: nobody can be recognised by them."
    for names, then in (
        (embedded.faceless, "there a recogniser can only guess, and it was counted as guessing"),
        (embedded.pointed, "the attacker used the place of the face in the original"),
    ):
        if names:
            yield f"In {len(names)} published images no face was found: {then}."


def _read_labels(request: AuditRequest, subjects: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """Return what is known of each person: from a csv, or from the info.csv of the originals."""
    labels, originals = request.labels, request.originals
    if labels is None and len(originals) == 1 and (originals[0] / "info.csv").is_file():
        labels = originals[0] / "info.csv"
    return read_person_labels(labels, subjects) if labels is not None else {}


def _match_notes(claim: Claim, sources: Sequence[Source], request: AuditRequest) -> Iterator[str]:
    """State how many published faces match one of the originals, where the right answer is unknown."""
    old = request.embed(sources, "embedding the originals")
    published = [Source(name, claim.folder / name) for name in claim.files]
    new = request.embed(published, "embedding the release")
    for one in request.recognisers:
        if one.same_person is None or not len(old) or not len(new):
            continue
        nearest = one.train(old.codes[one.name], old.photo)(new.codes[one.name]).min(axis=1)
        matches = int((nearest <= one.same_person).sum())
        yield (
            f"{one.name} matches {matches} of {len(new)} published faces with someone among the originals;"
            " whether correctly, only the private folder tells."
        )


def _count_residual_faces(
    claim: Claim, pairs: FacePairs, embedded: EmbeddedPairs | None, jobs: int | None
) -> int:
    """Count the faces of published scenes that a second detector finds where nothing was replaced."""
    if claim.is_portrait or embedded is None:
        return int(claim.certificate.get("untouched_faces", 0))
    boxes: dict[str, list[NDArray[Any]]] = {}
    for row, mesh in zip(pairs.rows, embedded.before.points, strict=True):
        if np.isfinite(mesh).all():
            ring = with_ring(mesh)
            boxes.setdefault(row.output, []).append(np.hstack([ring.min(axis=0), ring.max(axis=0)]))
    tasks = ((claim.folder / name, np.array(boxes.get(name, [])).reshape(-1, 4)) for name in claim.files)
    return sum(parallel_map(_count_residual, tasks, jobs=jobs))


def _count_residual(path: Path, covered: NDArray[Any]) -> int:
    return len(residual(io.read_photo(path), covered))


def _shown_images(claim: Claim, pairs: FacePairs, show_originals: bool) -> list[ImagePair]:
    """Return some published images; none of a folder that proves nothing, because they may be originals."""
    if (claim.broken or "format" not in claim.certificate) and not show_originals:
        return []
    files = claim.certificate.get("files", {})
    shown: dict[object, tuple[str, dict[str, str]]] = {}  # for each face a file, and the people behind it
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
    """Return an image at the size of the report, as PNG."""
    scale = min(1.0, SHOWN_HEIGHT_PX / rgb.shape[0])
    size = max(1, round(rgb.shape[1] * scale)), max(1, round(rgb.shape[0] * scale))
    return io.encode_png(np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8))
