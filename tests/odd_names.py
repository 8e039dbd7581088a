"""File names that are legal but dangerous: markup, terminal escapes, formulas, options, invalid UTF-8."""

from __future__ import annotations

import os

from hypothesis import strategies as st

ODD = (
    "a[/red]",
    "[bold]b",
    "c[",  # with a file "/red]" below it, a closing tag without an opening one
    "\x1b[31md\x1b]0;title\x07",
    "e\nksame: all is well.",
    "f\r\tg",
    "\u202egpj.h\u2066",
    "<img src=x onerror=alert(1)>&amp;",
    "=HYPERLINK(1)",
    "+1",
    "-rf",
    "@SUM(1)",
    "'=1",
    "%s{0}{x!r}$x_1$:smile:",
    "concat:i",
    os.fsdecode(b"\xff\xfej"),
    "\u200bk\ufeff",
    "l" * 240,
)
"""Parts of file names."""

_MARKUP = st.sampled_from([*(name for name in ODD if len(name) < 99), "[/]", "[link=x]", "\x9b2J", "\u2028"])
_BYTES = st.binary(min_size=1, max_size=40).map(os.fsdecode)
_TEXT = st.text(min_size=1, max_size=40)
_PARTS = st.lists(_MARKUP | _BYTES | _TEXT, min_size=1, max_size=4).map("".join)


def _on_disk(name: str) -> bool:
    """Whether a Linux file system accepts the name with a suffix."""
    try:
        return 0 < len(os.fsencode(name)) < 200
    except UnicodeEncodeError:  # a surrogate that encodes no byte
        return False


names = (
    _PARTS.map(lambda name: name.replace("/", "").replace("\0", ""))
    .filter(_on_disk)
    .map(lambda name: os.fsdecode(os.fsencode(name)))  # adjacent bytes may form one character
)
"""File names without their suffix."""
