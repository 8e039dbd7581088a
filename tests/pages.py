"""The fenced blocks of the documentation, for the tests that run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
)
GENERATED = ROOT / "docs" / "reference" / "cli.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block of a page."""

    page: Path
    language: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(page, match[1], match[2])


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command that a page shows after a dollar sign."""
    for block in blocks(page):
        if block.language == "console":
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    yield shlex.split(line[2:])
