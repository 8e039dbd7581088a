"""What stays with the owner of a release: who became which file, the seed, and where to look again."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ksame.core.errors import Faceless, Failure, GuaranteeViolated, UsageError
from ksame.core.text import read_csv, write_csv

PRIVATE_FILES = ("settings.json", "failures.csv", "untouched.csv", "faceless.csv", "mapping.csv")


class MappingRow(NamedTuple):
    """One line of mapping.csv: which person's face became which file."""

    input: str
    subject: str
    group: int
    output: str  # empty: the file was withheld


class ResidualRecord(NamedTuple):
    """One line of untouched.csv: where a second detector sees a face that nobody replaced."""

    output: str
    frame: int | None = None  # None and nothing more in a photo
    seconds: float | None = None
    box: str = ""  # left, top, right, bottom: to be added to the tracks


class MakingNotes(NamedTuple):
    """What came to light when a file was made, or when several were."""

    untouched: tuple[ResidualRecord, ...] = ()
    notes: tuple[str, ...] = ()  # sentences on what differs from the source
    failures: tuple[Failure, ...] = ()  # inputs that could not be written: there is no file
    withheld: tuple[str, ...] = ()  # files that are not written: a face could not be covered


@dataclass(frozen=True)
class Private:
    """What must never be published: the mapping, the seed, the names of the inputs."""

    mapping: tuple[MappingRow, ...]
    settings: Mapping[str, Any]
    failures: tuple[Failure, ...] = ()
    attachments: Mapping[str, str] = field(
        default_factory=dict
    )  # further texts by file name: tracks of videos
    faceless: tuple[Faceless, ...] = ()


class PrivateFolder(NamedTuple):
    """What a private folder holds once a release is written."""

    mapping: list[MappingRow]
    settings: dict[str, Any]
    failures: list[Failure]  # inputs for which nothing or not all was published
    residual: list[ResidualRecord]  # faces that a second detector saw untouched
    faceless: list[Faceless]  # photos that were published with nobody replaced


def read_private(folder: str | Path) -> PrivateFolder:
    """Return what a private folder holds; without its other tables, the mapping and the settings."""
    secret = Path(folder)
    try:
        tables = {"mapping": list(read_csv(secret / "mapping.csv"))}
        for name in ("failures", "untouched", "faceless"):
            path = secret / f"{name}.csv"
            tables[name] = list(read_csv(path)) if path.is_file() else []
        settings = dict(json.loads((secret / "settings.json").read_text(encoding="ascii")))
        return PrivateFolder(
            [MappingRow(r["input"], r["subject"], int(r["group"]), r["output"]) for r in tables["mapping"]],
            settings,
            failures=[Failure(r["input"], r["reason"]) for r in tables["failures"]],
            residual=[
                ResidualRecord(r["output"], int(r["frame"]), float(r["seconds"]), r["box"])
                if r["frame"]
                else ResidualRecord(r["output"])
                for r in tables["untouched"]
            ],
            faceless=[Faceless(r["input"], r["output"], int(r["covered"])) for r in tables["faceless"]],
        )
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename} is missing: give the private folder of this release.") from None
    except (KeyError, TypeError, ValueError) as error:
        raise GuaranteeViolated(f"The mapping in {secret} was changed: {error}.") from None


def write_private_parts(folder: Path, private: Private, made: MakingNotes, digest: str) -> Iterator[Path]:
    """Write the private files under names that end in .part, readable by their owner only."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    notes = [*private.settings.get("notes", ()), *made.notes]
    settings = dict(private.settings) | ({"notes": notes} if notes else {}) | {"certificate": digest}
    texts = [json.dumps(settings, indent=2, ensure_ascii=True) + "\n"]
    tables: Any = (
        (Failure, private.failures),
        (ResidualRecord, made.untouched),
        (Faceless, private.faceless),
        (MappingRow, private.mapping),
    )
    for kind, rows in tables:
        table = io.StringIO(newline="")
        write_csv(table, [kind._fields, *rows])
        texts.append(table.getvalue())
    for name, text in zip(PRIVATE_FILES, texts, strict=True):
        part = folder / f"{name}.part"
        with part.open("wb") as file:
            part.chmod(0o600)
            file.write(text.encode("utf-8", "surrogateescape"))  # names that are not UTF-8 keep their bytes
            file.flush()
            os.fsync(file.fileno())
        yield part
