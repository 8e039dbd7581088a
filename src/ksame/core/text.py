"""Untrusted names: display file names and labels safely, write them to csv.

A name may contain anything but a slash: terminal escapes, line breaks, bidirectional marks, bytes that are
not UTF-8, a spreadsheet formula.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

__all__ = [
    "csv_cell",
    "csv_value",
    "make_visible",
    "read_csv",
    "shorten",
    "write_csv",
]

# control characters, formatting marks (bidirectional, zero width), surrogates, line and paragraph separators
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_FORMULA = "[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"  # first characters of a formula, also in full width
_NEEDS_QUOTE = re.compile(f"'*{_FORMULA}")
_HAS_QUOTE = re.compile(f"'+{_FORMULA}")


def make_visible(text: str) -> str:
    r"""Escape everything invisible in a text, so that nothing in it acts on a terminal or a page.

    Control characters, terminal escapes, line breaks, bidirectional and zero-width marks, and bytes that are
    not UTF-8 are escaped as in a Python string.

    Examples
    --------
    >>> print(make_visible("a\x1b[31m\n\u202eb"), make_visible("Zo\u00eb \u05d0.jpg"), make_visible("\udcff"))
    a\x1b[31m\n\u202eb Zoë א.jpg \xff
    """
    if text.isprintable():  # nothing invisible, and no space but the plain one
        return text
    return "".join(map(_escape, text))


def _escape(character: str) -> str:
    if unicodedata.category(character) not in _INVISIBLE_CATEGORIES:
        return character
    if "\udc80" <= character <= "\udcff":  # a byte of a file name that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def shorten(text: str, max_count: int = 48) -> str:
    """Shorten a text for the label of a chart: both ends are kept, invisible characters escaped.

    >>> shorten("abcdefghij", max_count=5)
    'ab…ij'
    """
    visible, half = make_visible(text), max_count // 2
    return visible if len(visible) <= max_count else f"{visible[:half]}…{visible[-half:]}"


def csv_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet evaluates as a formula: such a text is prefixed with ``'``.

    ``csv_value`` is the inverse for every text.

    Examples
    --------
    >>> csv_cell("=1+1.jpg"), csv_cell("'=1"), csv_cell("'a"), csv_cell(-1)
    ("'=1+1.jpg", "''=1", "'a", -1)
    """
    return f"'{value}" if isinstance(value, str) and _NEEDS_QUOTE.match(value) else value


def csv_value(cell: str) -> str:
    """Return the text that ``csv_cell`` was given.

    >>> [csv_value(csv_cell(text)) for text in ("=1", "'=1", "'a", "a")]
    ['=1', "'=1", "'a", 'a']
    """
    return cell[1:] if _HAS_QUOTE.match(cell) else cell


def write_csv(file: TextIO, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows as csv; the first row holds the names of the columns."""
    minimal, quoted = (
        csv.writer(file, lineterminator="\n", quoting=quoting)
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
    for row in rows:
        cells = [csv_cell(value) for value in row]
        # before Python 3.13 a lone carriage return is not quoted, and ends the row for a reader
        (quoted if any("\r" in str(cell) for cell in cells) else minimal).writerow(cells)


def read_csv(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a csv that ``write_csv`` wrote, by column; raise ValueError if it is malformed."""
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        try:
            for row in csv.DictReader(file):
                yield {column: csv_value(cell) for column, cell in row.items()}
        except (csv.Error, TypeError) as error:  # TypeError: more or fewer cells than columns
            raise ValueError(f"{path.name} is not a csv that ksame wrote") from error
