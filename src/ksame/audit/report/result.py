"""The result of an audit as tables; the HTML report and the JSON are two ways to write it."""

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
from ksame.attack.score import AttackResult
from ksame.core.arrays import FloatArray
from ksame.core.errors import UsageError
from ksame.models import weights
from ksame.release import CERTIFICATE, SOFTWARE, method_name

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
VIDEO_SUFFIX = ", videos"  # at the end of an attack's name if there are photos, too
EXTRA_COLUMNS = ("people", "tpr", "faceless")


class ImagePair(NamedTuple):
    """A published image as PNG, the number of people it stands for, and the originals if they may be shown.

    Of a video it is a strip of some frames.
    """

    after: bytes
    people: int
    before: tuple[bytes, ...] = ()
    frames: int = 1


@dataclass(frozen=True, eq=False)
class VideoFigures:
    """The figures of one video.

    Parameters
    ----------
    file : str
        Its published name.
    frames, seconds : (before, after)
        Its number of frames and its duration.
    sound : str
        ``the same bit for bit``, ``dropped``, ``changed``, or ``none`` if there never was any.
    metadata : tuple of str
        Its metadata.
    compared : int
        Number of frames that were compared.
    faces, drawn, kept : int
        Faces of the original in these; those in whose place a detector finds a new face; and those that
        stay visible on request.
    people : int
        Number of people in it.
    visible : tuple of int
        Frames in which an original face is still visible.
    residual : tuple of int
        Frames in which a second detector finds a face that nothing explains.
    blendshapes : mapping of str to (original, published, difference, correlation)
        For each expression its mean strength in both, the mean absolute difference, and the correlation
        over time.
    traces : mapping of str to (t, 3) arrays
        Seconds, original and published strength of some expressions of the person most often in view.
    """

    file: str
    frames: tuple[int, int]
    seconds: tuple[float, float]
    sound: str
    metadata: tuple[str, ...]
    compared: int
    faces: int
    drawn: int
    kept: int
    people: int
    visible: tuple[int, ...]
    residual: tuple[int, ...]
    blendshapes: Mapping[str, tuple[float, float, float, float]] = field(repr=False, default_factory=dict)
    traces: Mapping[str, FloatArray] = field(repr=False, default_factory=dict)

    def figures(self) -> dict[str, Any]:
        """Return what goes into the JSON."""
        pair, four = ("original", "published"), ("original", "published", "difference", "correlation")
        names = (
            "file",
            "sound",
            "metadata",
            "compared",
            "faces",
            "drawn",
            "kept",
            "people",
            "visible",
            "residual",
        )
        return {
            **{name: getattr(self, name) for name in names},
            **{name: dict(zip(pair, getattr(self, name), strict=True)) for name in ("frames", "seconds")},
            "blendshapes": {
                name: dict(zip(four, row, strict=True)) for name, row in self.blendshapes.items()
            },
        }


@dataclass(frozen=True, eq=False)
class Report:
    """An audit: the claim, what of it verified, the attacks, and the utility.

    Parameters
    ----------
    certificate : mapping
        The certificate of the release; empty for a folder that has none.
    checks, unchecked : tuple of str
        What ``verify`` confirmed, and what it could not check.
    broken : str
        Why the certificate does not verify; empty if it does.
    results : tuple of AttackResult
        Every attack with every recogniser.
    utility : DataFrame
        Columns measure, original, deidentified, slice; measures are named with their units.
    detected : mapping of str to float
        For each detector, the share of published images in which it finds a face.
    residual_faces : int
        Published faces that a second detector finds and that were not replaced.
    pairs : tuple of ImagePair
        Images for the report.
    missing : tuple of str
        Photos of the mapping that are not among the originals.
    notes : tuple of str
        Sentences on what could not be done and why: missing recognisers, images without a face.
    record : mapping
        Versions, weights and hashes.
    videos : tuple of VideoFigures
        The figures of each video.
    """

    certificate: Mapping[str, Any]
    checks: tuple[str, ...]
    unchecked: tuple[str, ...]
    broken: str
    results: tuple[AttackResult, ...]
    utility: pd.DataFrame
    detected: Mapping[str, float]
    residual_faces: int
    pairs: Sequence[ImagePair] = field(repr=False, default=())
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(repr=False, default_factory=dict)
    videos: tuple[VideoFigures, ...] = ()

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
    def strongest(self) -> AttackResult | None:
        """The attack whose interval is furthest above, or least below, its bound."""
        return max(self.results, key=_strength, default=None)

    def to_html(self) -> str:
        """Return the report as one self-contained HTML file."""
        from ksame.audit.report.page import page  # here: it imports this module, and the charts

        return page(self)

    def save(self, path: str | Path) -> None:
        """Write the HTML report; one that shows originals must not lie among what is published."""
        page = Path(path)
        folders = page.resolve().parents
        if any(pair.before for pair in self.pairs) and any((f / CERTIFICATE).is_file() for f in folders):
            raise UsageError("A report that shows originals must not lie in a release: choose another path.")
        page.write_text(self.to_html(), encoding="utf-8")

    def to_json(self) -> str:
        """Return the stable keys of the contract, and some more; NaN becomes null."""
        whole: dict[str, Any] = {
            "k": self.certificate.get("k"),
            "bound": self.certificate.get("bound"),
            "method": method_name(self.certificate),
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
        if self.videos:
            whole["videos"] = [video.figures() for video in self.videos]
        return json.dumps(_plain_value(whole), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _strength(result: AttackResult) -> tuple[float, float]:
    """Return how far an attack is above its bound, by its interval and by its rate."""
    return result.low - result.bound, result.rank1 - result.bound


def _plain_value(value: Any) -> Any:
    """Return a value without numpy types and NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def audit_record(recognisers: Sequence[Recogniser]) -> dict[str, Any]:
    """Return what is needed to repeat the audit: versions, and the weights of the attackers."""
    names = [one.name for one in recognisers]
    used = [name for name in (*names, "yunet", "mesh", "blazeface") if name in weights.CATALOGUE]
    return {
        "recognisers": names,
        "software": {"python": platform.python_version()} | {name: version(name) for name in SOFTWARE},
        "weights": {name: weights.CATALOGUE[name].sha256 for name in used},
    }
