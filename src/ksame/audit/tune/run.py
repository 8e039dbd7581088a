"""Every k and every method tried on photos whose faces are found once [A 3.5, 4.4]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

import cv2
import pandas as pd

from ksame import io, pipeline
from ksame.attack.recognisers import deep_recogniser
from ksame.audit.tune.measure import OriginalFigures, measure_originals, measure_release, published_faces
from ksame.audit.tune.recommend import recommend
from ksame.audit.tune.result import COLUMNS, TuningResult
from ksame.core.arrays import ProgressCallback
from ksame.core.context import Context, ignore_progress
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.partition_type import as_k
from ksame.io.sources import ImageInput, find_sources
from ksame.methods import KSame, Method
from ksame.methods.anonfaces.method import NON_COMMERCIAL
from ksame.methods.base import GroupMethod
from ksame.models.recognisers import VERIFIERS

METHODS = ("ksame-m", "ksame-furthest")
"""The methods that are tried unless others are named: both are proved, and keep faces sharp."""
SHOWN_KS = (2, 3, 5, 8, 10, 12, 15, 20)
"""The k whose images the page shows; the table has all."""
_OUTPUT = pipeline.Portraits()
_MAX_SIDE_PX = 320  # of images on the page


@dataclass(frozen=True, kw_only=True)
class _Reference(KSame):
    """What a loss is compared with; every method is tried on faces of the size of the canonical frame."""

    registered_scale: ClassVar[float | None] = 1.0  # pixel vectors of large photos would not fit in memory


_REFERENCE = _Reference(k=2)


def tune(
    inputs: ImageInput | Iterable[ImageInput],
    *,
    ks: Iterable[int] = range(2, 21),
    methods: Sequence[str] = METHODS,
    risk: float = 0.1,
    subjects: str | Path | Sequence[str] = "auto",
    show_originals: bool = False,
    seed: int | None = None,
    jobs: int | None = None,
    progress: ProgressCallback | None = None,
) -> TuningResult:
    """Try every k and method, measure what is lost and what an attacker finds, and recommend a k [A 4.4].

    Parameters
    ----------
    inputs : path, array, or several
        Photos, folders of photos, or (h, w, 3) uint8 arrays.
    ks : iterable of int
        The k to try; those that are larger than the number of people are left out, which is noted.
    methods : sequence of str
        Names of ``ksame.methods.METHODS`` that group people.
    risk : float
        The budget: how often an attacker may be right at most, in (0, 1).
    subjects : str, path or sequence
        Who is who, as for ``ksame.deidentify``.
    show_originals : bool
        Keep the original of the one person whose new faces the page shows.
    seed : int, optional
        For tests and repeated runs.
    jobs, progress
        See ``ksame.analysis.photos.analyse_photos``.

    Examples
    --------
    ::

        found = tune("photos/", risk=0.1)
        print(found.why)
    """
    wanted = sorted({as_k(k) for k in ks})
    tried = [_find_group_method(name) for name in methods]
    if not wanted or not methods or not 0 < risk < 1:
        raise UsageError(f"tune needs a k, a method, and a risk between 0 and 1. Got a risk of {risk}.")
    context = Context(jobs=jobs, progress=progress or ignore_progress)
    context = replace(context, seed=context.seed if seed is None else seed)
    recogniser = deep_recogniser(VERIFIERS.linking[0])  # that there is none is told before the long work
    for method in (_REFERENCE, *tried):
        context = pipeline.prepare(method, _OUTPUT, context)
    sources = find_sources(inputs, in_order=not isinstance(subjects, str | Path))
    photos = pipeline.Photos(sources=tuple(sources), subjects=subjects)
    people = photos.identify(_REFERENCE.with_options({"k": wanted[0]}), _OUTPUT, context)
    trials = _Trials(photos, measure_originals(people, recogniser, context), context)
    trials.run(tried, wanted)
    return trials.result(risk, show_originals=show_originals)


def _find_group_method(name: str) -> Method[Any]:
    """Return a method that has a k to try."""
    method = pipeline.find_method(name)
    if not isinstance(method, GroupMethod):
        raise UsageError(f"{name} has no k to try: choose methods that group people.")
    return method


class _Trials:
    """Releases made and measured one after another; none of them is kept."""

    def __init__(self, photos: pipeline.Photos, those: OriginalFigures, context: Context) -> None:
        self.photos, self.known = photos, those
        self.context = context
        self.rows: list[dict[str, Any]] = []
        self.strip: dict[tuple[str, int], bytes] = {}
        self.notes: list[str] = []

    def run(self, methods: Sequence[Method[Any]], ks: Sequence[int]) -> None:
        """Try every method with every k for which there are enough people."""
        count = self.known.number
        able = [k for k in ks if k <= count]
        report = self.context.progress
        for done, (method, k) in enumerate((method, k) for method in methods for k in able):
            self._add(method, k, image=k in SHOWN_KS or len(able) <= len(SHOWN_KS))
            report("trying k", done + 1, len(methods) * len(able))
        if len(able) < len(ks):
            self.notes.append(f"k above {count} was not tried: there are only {count} people.")
        if any(method.name == "anonfaces" for method in methods):
            self.notes.append(NON_COMMERCIAL)

    def result(self, risk: float, *, show_originals: bool) -> TuningResult:
        """Recommend a k for a risk."""
        known, table = self.known, self._table()
        faces = known.people.faces
        return TuningResult(
            table=table,
            **recommend(table, risk, people=known.number)._asdict(),
            risk=risk,
            people=known.number,
            photos=len(faces),
            recogniser=known.recogniser.name,
            compared=known.compared,
            tree=known.tree,
            strip=self.strip,
            original=io.encode_png(faces.rgb[known.shown]) if show_originals else b"",
            notes=(*self.notes, *_one_group_note(table, known.number)),
        )

    def _add(self, method: Method[Any], k: int, *, image: bool) -> None:
        """Try one method with one k; that it cannot be done is noted."""
        try:
            row, face = self._make(method, k)
        except CannotGuarantee as error:
            self.notes.append(f"{method.name} with k = {k} was not possible: {error}")
            return
        self.rows.append({"method": method.name, "k": k} | row)
        if image:
            self.strip[method.name, k] = face

    def _table(self) -> pd.DataFrame:
        """Return all rows, the loss as a share of what one face for everybody would lose.

        Deviation: [A def. 3.2] leaves it in the units of the codes, by which nobody can tell much from
        little.
        """
        if not self.rows:
            raise CannotGuarantee(self.notes[0])
        whole, _ = self._make(_REFERENCE, self.known.number)
        table = pd.DataFrame(self.rows, columns=list(COLUMNS))
        return table.assign(loss=table["loss"] / whole["loss"])

    def _make(self, method: Method[Any], k: int) -> tuple[dict[str, Any], bytes]:
        """Return what was measured, and the published face of the person who is shown."""
        began = monotonic()
        people, method = self.known.people, method.with_options({"k": k})
        context = replace(self.context, progress=ignore_progress)  # a bar per trial would hide the one of all
        plan = method.plan(people, context)
        release = pipeline.release_of(self.photos, people, plan, method, _OUTPUT, context)
        seconds = round(monotonic() - began, 1)
        published = published_faces(release)
        row = measure_release(release, published, self.known, context)
        return row | {"seconds": seconds}, _reduce_image(published.files[published.of[self.known.shown]])


def _reduce_image(image: bytes) -> bytes:
    """Return a published image, no larger than the page needs."""
    rgb = io.decode(image)
    scale = _MAX_SIDE_PX / max(rgb.shape[:2])
    if scale >= 1:
        return image
    small = cv2.resize(rgb, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return io.encode_png(small.astype("uint8", copy=False))


def _one_group_note(table: pd.DataFrame, count: int) -> list[str]:
    """Say from which k on everybody gets one and the same face."""
    one = table[table["faces"] == 1]
    if one.empty:
        return []
    least = one["k"].min()
    return [f"From k = {least} on, all {count} people get one and the same face: two faces need 2 k people."]
