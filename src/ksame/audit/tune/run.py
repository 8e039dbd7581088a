"""Every k and every method tried on photos whose faces are found once [A 3.5, 4.4]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import cv2
import pandas as pd

from ksame import io
from ksame.analysis.identify import read_subject_hints
from ksame.analysis.photos import analyse_photos
from ksame.attack.recognisers import deep_recogniser
from ksame.audit.tune.measure import OriginalFigures, measure_originals, measure_release, published_faces
from ksame.audit.tune.recommend import recommend
from ksame.audit.tune.result import COLUMNS, TuningResult
from ksame.core.arrays import ProgressCallback
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.partition_type import as_k
from ksame.io.sources import ImageInput, find_sources
from ksame.methods.anonfaces.group import NON_COMMERCIAL, analyse_faces
from ksame.methods.ksame import METHODS as ALL
from ksame.models.generator import ImageGenerator
from ksame.models.recognisers import default_recogniser
from ksame.pipeline.photos import identify_photos, make_release
from ksame.spaces.generator_space import GeneratorSpace

METHODS = ("ksame-m", "ksame-furthest")
"""The methods that are tried unless others are named: both are proved, and keep faces sharp."""
SHOWN_KS = (2, 3, 5, 8, 10, 12, 15, 20)
"""The k of which the page shows pictures; the table has them all."""
_MAX_SIDE_PX = 320  # px: pictures on the page are not larger


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
        Names of ``ksame.methods.ksame.METHODS``.
    risk : float
        The budget: how often an attacker may be right at most, in (0, 1).
    subjects : str, path or sequence
        Who is who, as for ``photos.deidentify``.
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
    for method in methods:
        if method not in ALL:
            raise UsageError(f"There is no method {method!r}: choose one of {', '.join(ALL)}.")
    if not wanted or not methods or not 0 < risk < 1:
        raise UsageError(f"tune needs a k, a method, and a risk between 0 and 1. Got a risk of {risk}.")
    recogniser = deep_recogniser(default_recogniser())  # that there is none is told before the long work
    generated = any(ALL[method].space is GeneratorSpace for method in methods)
    if generated:
        ImageGenerator.bundled()
    sources = find_sources(inputs, in_order=not isinstance(subjects, str | Path))
    given = read_subject_hints(sources, subjects, wanted[0])
    found = analyse_photos(sources, scale=1.0, jobs=jobs, progress=progress)
    people = identify_photos(found, given, wanted[0], jobs=jobs)
    if generated:
        people = people._replace(
            seen=analyse_faces(people.faces, GeneratorSpace.bundled(), jobs=jobs, progress=progress)
        )
    those = measure_originals(people, recogniser, jobs)
    tried = _Trials(those, seed, jobs)
    able = [k for k in wanted if k <= those.number]
    for done, (method, k) in enumerate((method, k) for method in methods for k in able):
        tried.add(method, k, image=k in SHOWN_KS or len(able) <= len(SHOWN_KS))
        if progress:
            progress("trying k", done + 1, len(methods) * len(able))
    table = tried.table()
    missing = [f"k above {those.number} was not tried: there are only {those.number} people."]
    return TuningResult(
        table=table,
        **recommend(table, risk, people=those.number)._asdict(),
        risk=risk,
        people=those.number,
        photos=len(people.faces),
        recogniser=recogniser.name,
        compared=those.compared,
        tree=those.tree,
        strip=tried.strip,
        original=io.encode_png(people.faces.rgb[those.shown]) if show_originals else b"",
        notes=(
            *those.notes,
            *tried.notes,
            *missing[: able != wanted],
            *_one_group_note(table, those.number),
            *([NON_COMMERCIAL] if generated else []),
        ),
    )


class _Trials:
    """Releases made and measured one after another; none of them is kept."""

    def __init__(self, those: OriginalFigures, seed: int | None, jobs: int | None) -> None:
        self.known, self.seed, self.jobs = those, seed, jobs
        self.rows: list[dict[str, Any]] = []
        self.strip: dict[tuple[str, int], bytes] = {}
        self.notes: list[str] = []

    def add(self, method: str, k: int, *, image: bool) -> None:
        """Try one method with one k; that it cannot be done is noted."""
        try:
            row, face = self._make(method, k)
        except CannotGuarantee as error:
            self.notes.append(f"{method} with k = {k} was not possible: {error}")
            return
        self.rows.append({"method": method, "k": k} | row)
        if image:
            self.strip[method, k] = face

    def table(self) -> pd.DataFrame:
        """Return all rows, the loss as a share of what one face for everybody would lose.

        Deviation: [A def. 3.2] leaves it in the units of the codes, by which nobody can tell much from
        little.
        """
        if not self.rows:
            raise CannotGuarantee(self.notes[0])
        whole, _ = self._make("ksame-m", self.known.number)
        table = pd.DataFrame(self.rows, columns=list(COLUMNS))
        return table.assign(loss=table["loss"] / whole["loss"])

    def _make(self, method: str, k: int) -> tuple[dict[str, Any], bytes]:
        """Return what was measured, and the published face of the person who is shown."""
        began = monotonic()
        release = make_release(self.known.people, k, method=method, seed=self.seed, jobs=self.jobs)
        seconds = round(monotonic() - began, 1)
        published = published_faces(release)
        row = measure_release(release, published, self.known, self.jobs)
        return row | {"seconds": seconds}, _reduce_image(published.files[published.of[self.known.shown]])


def _reduce_image(image: bytes) -> bytes:
    """Return a published picture no larger than the page needs."""
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
