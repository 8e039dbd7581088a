"""What an audit found, as tables; the page and the JSON are two ways of writing it down."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ksame.attack.recognisers import Recogniser
from ksame.attack.score import Result
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.models import weights
from ksame.release import CERTIFICATE, SOFTWARE

STABLE_COLUMNS = (
    "attack",
    "recogniser",
    "rank1",
    "low",
    "high",
    "chance",
    "bound",
    "verdict",
    "probes",
    "gallery",
)
VIDEO_SUFFIX = ", videos"  # at the end of an attack's name where there are photos, too
EXTRA_COLUMNS = ("people", "tpr", "faceless")


class ImagePair(NamedTuple):
    """A published picture as PNG, how many people it stands for, and the originals if they may be shown.

    Of a video it is a strip of some moments.
    """

    after: bytes
    people: int
    before: tuple[bytes, ...] = ()
    moments: int = 1


@dataclass(frozen=True, eq=False)
class VideoFigures:
    """What was found of one video.

    Parameters
    ----------
    file : str
        Its published name.
    frames, seconds : (before, after)
        How many pictures it has and how long it is.
    sound : str
        ``the same bit for bit``, ``dropped``, ``changed``, or ``none`` if there never was any.
    metadata : tuple of str
        What it carries besides pictures and sound.
    looked : int
        How many frames were looked at.
    faces, drawn, kept : int
        Faces of the original in these; those with a new face in their place that a detector finds; and
        those that stay visible on request.
    people : int
        How many people are in it.
    visible : tuple of int
        Frames in which an original face can still be seen.
    left : tuple of int
        Frames in which a second detector sees a face that nothing explains.
    blendshapes : mapping of str to (original, published, difference, correlation)
        For each expression its mean strength in both, the mean absolute difference, and how the new face
        follows over time.
    traces : mapping of str to (t, 3) arrays
        Seconds, original and published strength of some expressions of whoever is seen most.
    """

    file: str
    frames: tuple[int, int]
    seconds: tuple[float, float]
    sound: str
    metadata: tuple[str, ...]
    looked: int
    faces: int
    drawn: int
    kept: int
    people: int
    visible: tuple[int, ...]
    left: tuple[int, ...]
    blendshapes: Mapping[str, tuple[float, float, float, float]] = field(repr=False, default_factory=dict)
    traces: Mapping[str, FloatArray] = field(repr=False, default_factory=dict)

    def figures(self) -> dict[str, Any]:
        """Return what goes into the JSON."""
        pair, four = ("original", "published"), ("original", "published", "difference", "correlation")
        plain = ("file", "sound", "metadata", "looked", "faces", "drawn", "kept", "people", "visible", "left")
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: dict(zip(pair, getattr(self, name), strict=True)) for name in ("frames", "seconds")},
            "blendshapes": {
                name: dict(zip(four, row, strict=True)) for name, row in self.blendshapes.items()
            },
        }


@dataclass(frozen=True, eq=False)
class Report:
    """An audit: what was claimed, what verified, what attacks achieved, and what is left of the data.

    Parameters
    ----------
    certificate : mapping
        The release's certificate; empty for a folder that has none.
    checks, unchecked : tuple of str
        What ``verify`` found true, and what it could not check.
    broken : str
        Why the certificate does not verify; empty if it does.
    results : tuple of Result
        Every attack with every recogniser.
    utility : DataFrame
        Columns measure, original, deidentified, slice; measures are named with their units.
    detected : mapping of str to float
        For each detector, the share of published pictures in which it finds a face.
    residual_faces : int
        Published faces that a second detector still sees untouched.
    pairs : tuple of Pair
        Pictures for the page.
    missing : tuple of str
        Photos of the mapping that are not among the originals.
    notes : tuple of str
        What could not be done and why, in sentences: recognisers that are missing, faceless pictures.
    record : mapping
        Versions, weights and hashes.
    films : tuple of Film
        What was found of each video.
    """

    certificate: Mapping[str, Any]
    checks: tuple[str, ...]
    unchecked: tuple[str, ...]
    broken: str
    results: tuple[Result, ...]
    utility: pd.DataFrame
    detected: Mapping[str, float]
    residual_faces: int
    pairs: Sequence[ImagePair] = field(repr=False, default=())
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(repr=False, default_factory=dict)
    films: tuple[VideoFigures, ...] = ()

    @property
    def attacks(self) -> pd.DataFrame:
        """One row for each attack with each recogniser, the strongest first."""
        ranked = sorted(self.results, key=_strength, reverse=True)
        rows = [{name: getattr(result, name) for name in STABLE_COLUMNS + EXTRA_COLUMNS} for result in ranked]
        return pd.DataFrame(rows, columns=[*STABLE_COLUMNS, *EXTRA_COLUMNS])

    @property
    def curves(self) -> Mapping[tuple[str, str], FloatArray]:
        """The CMC curve of each attack and recogniser."""
        return {(result.attack, result.recogniser): result.cmc for result in self.results}

    @property
    def strongest(self) -> Result | None:
        """The attack that surely names most people."""
        return max(self.results, key=_strength, default=None)

    def to_html(self) -> str:
        """Return the page: one file that needs nothing else."""
        from ksame.audit.report.page import page  # late: it reads reports, and brings the charts

        return page(self)

    def save(self, path: str | Path) -> None:
        """Write the page; one that shows originals is refused a place among what is published."""
        page = Path(path)
        folders = page.resolve().parents
        if any(pair.before for pair in self.pairs) and any((f / CERTIFICATE).is_file() for f in folders):
            raise UsageError("A page that shows originals must not lie in a release: name another place.")
        page.write_text(self.to_html(), encoding="utf-8")

    def to_json(self) -> str:
        """Return the stable keys of the contract, and some more; what is not a number is null."""
        whole: dict[str, Any] = {
            "k": self.certificate.get("k"),
            "bound": self.certificate.get("bound"),
            "method": self.certificate.get("method"),
            "publish": self.certificate.get("publish"),
            "claim": self.certificate.get("claim"),
            "verified": not self.broken,
            "attacks": self.attacks.to_dict("records"),
            "utility": self.utility.to_dict("records"),
            "detected": dict(self.detected),
            "residual_faces": self.residual_faces,
            "missing": len(self.missing),
            "notes": list(self.notes),
            "record": dict(self.record),
        }
        if self.films:
            whole["videos"] = [film.figures() for film in self.films]
        return json.dumps(_plain_value(whole), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _strength(result: Result) -> tuple[float, float]:
    """Return how far an attack surely gets beyond what it is allowed: to name k people is allowed more."""
    return result.low - result.bound, result.rank1 - result.bound


def _plain_value(value: Any) -> Any:
    """Return a value without numpy and NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def audit_record(recognisers: Sequence[Recogniser]) -> dict[str, Any]:
    """Return what somebody needs to do the audit again: versions, and the weights of who attacked."""
    names = [one.name for one in recognisers]
    used = [name for name in (*names, "yunet", "mesh", "blazeface") if name in weights.CATALOGUE]
    return {
        "recognisers": names,
        "software": {"python": platform.python_version()} | {name: version(name) for name in SOFTWARE},
        "weights": {name: weights.CATALOGUE[name].sha256 for name in used},
    }
