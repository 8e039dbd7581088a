"""What was found for every k and method, with the recommendation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ksame.core.arrays import FloatArray

COLUMNS = (
    "method", "k", "bound", "proved", "rank1", "low", "high", "loss", "gender", "age", "alike",
    "faces", "faceless", "seconds",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TuningResult:
    """Privacy against utility over k and methods.

    Parameters
    ----------
    table : DataFrame
        One row per method and k. ``bound``: what is promised (1 where nothing is; ``proved`` says
        which). ``rank1``, ``low``, ``high``: how often the naive attack was right, with a 95 %
        interval. ``loss``: mean distance between the codes of original and published faces [A def.
        3.2], as a share of what is lost when everybody gets one face. ``gender``, ``age``: how
        much alike the people of a group are, 1 if all are (one minus the normalised entropy);
        ``alike``: the share of groups in which both are the same for all [A 4.4]. ``faces``:
        different published faces, ``faceless`` of which no face was found in, so that they count as
        guesses in ``rank1`` and not in ``loss``. ``seconds``: what making the release took once faces
        were found.
    recommended : (str, int) or None
        Method and k.
    why : str
        The reason in a sentence or two, also where nothing is recommended.
    risk : float
        The budget.
    people, photos : int
        How many there were.
    recogniser, compared : str
        Who attacked, and with which photos.
    tree : (people - 1, 4)
        The linkage of people's mean codes; rows are numbers, not names.
    strip : mapping of (str, int) to bytes
        The published face of one person for some methods and k, as PNG.
    original : bytes
        That person's own face as PNG; empty unless it was asked for.
    notes : tuple of str
        What could not be tried, and what to bear in mind.
    """

    table: pd.DataFrame
    recommended: tuple[str, int] | None
    why: str
    risk: float
    people: int
    photos: int
    recogniser: str
    compared: str
    tree: FloatArray = field(repr=False)
    strip: Mapping[tuple[str, int], bytes] = field(repr=False, default_factory=dict)
    original: bytes = field(repr=False, default=b"")
    notes: tuple[str, ...] = ()

    def page(self) -> str:
        """Return the figures as one HTML page, which needs nothing else.

        It is for the publisher alone: faces of one person for several k, seen together, tell more
        than one release does.
        """
        from ksame.audit.tune.page import page  # here: drawing needs more than the figures do

        return page(self)

    def to_json(self) -> str:
        """Return the figures and the recommendation; what is not a number is null."""
        method, k = self.recommended or (None, None)
        whole = {
            "recommended": {"method": method, "k": k} if self.recommended else None,
            "why": self.why,
            "risk": self.risk,
            "people": self.people,
            "photos": self.photos,
            "recogniser": self.recogniser,
            "compared": self.compared,
            "table": [{name: _plain_value(value) for name, value in row.items()} for row in self._records()],
            "notes": list(self.notes),
        }
        return json.dumps(whole, indent=2, allow_nan=False) + "\n"

    def _records(self) -> list[dict[str, Any]]:
        return [{str(name): value for name, value in row.items()} for row in self.table.to_dict("records")]


def _plain_value(value: Any) -> Any:
    """Return a value without numpy and NaN."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
