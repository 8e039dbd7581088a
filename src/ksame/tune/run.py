"""Every k and every method tried on photos whose faces are found once [A 3.5, 4.4]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import cv2
import pandas as pd

from ksame import media
from ksame.attack.recognise import deep
from ksame.core import CannotGuarantee, UsageError, as_k
from ksame.gather import Picture, Watch, gather, sources_of
from ksame.naming import read_names
from ksame.pipeline import METHODS as ALL
from ksame.pipeline import people_of, release_of
from ksame.portraits.group import NON_COMMERCIAL, looked
from ksame.represent.embedding import default_recogniser
from ksame.represent.generator import GeneratorSpace
from ksame.represent.synthesis import Generator
from ksame.tune.choose import choose
from ksame.tune.measure import Known, known, measured, published_of
from ksame.tune.tuning import COLUMNS, Tuning

METHODS = ("ksame-m", "ksame-furthest")
"""The methods that are tried unless others are named: both are proved, and keep faces sharp."""
PICTURES = (2, 3, 5, 8, 10, 12, 15, 20)
"""The k of which the page shows pictures; the table has them all."""
_SIDE = 320  # px: pictures on the page are not larger


def tune(
    inputs: Picture | Iterable[Picture],
    *,
    ks: Iterable[int] = range(2, 21),
    methods: Sequence[str] = METHODS,
    risk: float = 0.1,
    subjects: str | Path | Sequence[str] = "auto",
    show_originals: bool = False,
    seed: int | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
) -> Tuning:
    """Try every k and method, measure what is lost and what an attacker finds, and recommend a k [A 4.4].

    Parameters
    ----------
    inputs : path, array, or several
        Photos, folders of photos, or (h, w, 3) uint8 arrays.
    ks : iterable of int
        The k to try; those that are larger than the number of people are left out, which is noted.
    methods : sequence of str
        Names of ``ksame.pipeline.METHODS``.
    risk : float
        The budget: how often an attacker may be right at most, in (0, 1).
    subjects : str, path or sequence
        Who is who, as for ``ksame.deidentify``.
    show_originals : bool
        Keep the original of the one person whose new faces the page shows.
    seed : int, optional
        For tests and repeated runs.
    jobs, watch
        See ``ksame.gather.gather``.

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
    recogniser = deep(default_recogniser())  # that there is none is told before the long work
    generated = any(ALL[method].space is GeneratorSpace for method in methods)
    if generated:
        Generator.shipped()
    sources = sources_of(inputs, in_order=not isinstance(subjects, str | Path))
    given = read_names(sources, subjects, wanted[0])
    found = gather(sources, scale=1.0, jobs=jobs, watch=watch)
    people = people_of(found, given, wanted[0], jobs=jobs)
    if generated:
        people = people._replace(seen=looked(people.faces, GeneratorSpace.shipped(), jobs=jobs, watch=watch))
    those = known(people, recogniser, jobs)
    tried = _Tried(those, seed, jobs)
    able = [k for k in wanted if k <= those.number]
    for done, (method, k) in enumerate((method, k) for method in methods for k in able):
        tried.add(method, k, picture=k in PICTURES or len(able) <= len(PICTURES))
        if watch:
            watch("trying k", done + 1, len(methods) * len(able))
    table = tried.table()
    missing = [f"k above {those.number} was not tried: there are only {those.number} people."]
    return Tuning(
        table=table,
        **choose(table, risk, people=those.number)._asdict(),
        risk=risk,
        people=those.number,
        photos=len(people.faces),
        recogniser=recogniser.name,
        compared=those.compared,
        tree=those.tree,
        strip=tried.strip,
        original=media.encode_png(people.faces.rgb[those.shown]) if show_originals else b"",
        notes=(
            *those.notes,
            *tried.notes,
            *missing[: able != wanted],
            *_together(table, those.number),
            *([NON_COMMERCIAL] if generated else []),
        ),
    )


class _Tried:
    """Releases made and measured one after another; none of them is kept."""

    def __init__(self, those: Known, seed: int | None, jobs: int | None) -> None:
        self.known, self.seed, self.jobs = those, seed, jobs
        self.rows: list[dict[str, Any]] = []
        self.strip: dict[tuple[str, int], bytes] = {}
        self.notes: list[str] = []

    def add(self, method: str, k: int, *, picture: bool) -> None:
        """Try one method with one k; that it cannot be done is noted."""
        try:
            row, face = self._make(method, k)
        except CannotGuarantee as error:
            self.notes.append(f"{method} with k = {k} was not possible: {error}")
            return
        self.rows.append({"method": method, "k": k} | row)
        if picture:
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
        release = release_of(self.known.people, k, method=method, seed=self.seed, jobs=self.jobs)
        seconds = round(monotonic() - began, 1)
        published = published_of(release)
        row = measured(release, published, self.known, self.jobs)
        return row | {"seconds": seconds}, _small(published.files[published.of[self.known.shown]])


def _small(picture: bytes) -> bytes:
    """Return a published picture no larger than the page needs."""
    rgb = media.decode(picture)
    scale = _SIDE / max(rgb.shape[:2])
    if scale >= 1:
        return picture
    small = cv2.resize(rgb, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return media.encode_png(small.astype("uint8", copy=False))


def _together(table: pd.DataFrame, count: int) -> list[str]:
    """Say from which k on everybody gets one and the same face."""
    one = table[table["faces"] == 1]
    if one.empty:
        return []
    least = one["k"].min()
    return [f"From k = {least} on, all {count} people get one and the same face: two faces need 2 k people."]
