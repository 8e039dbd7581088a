"""SHA256SUMS: the sha256 of every published file, in the format of coreutils' ``sha256sum``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ksame.core.errors import GuaranteeViolated

MANIFEST = "SHA256SUMS"
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_UNESCAPED = {text[1]: letter for letter, text in _ESCAPES.items()}
_LINE = re.compile(r"(\\?)([0-9a-f]{64})  (.+)")


def manifest_text(hashes: Mapping[str, str]) -> bytes:
    r"""Return the manifest of files by name; a name with a backslash or a line end is escaped.

    Examples
    --------
    >>> manifest_text({"a\nb.png": "0" * 64}).decode()[:1]
    '\\'
    """
    lines = []
    for name, digest in sorted(hashes.items()):
        escaped = "".join(_ESCAPES.get(letter, letter) for letter in name)
        lines.append(f"{chr(92) if escaped != name else ''}{digest}  {escaped}\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def read_manifest(folder: Path) -> dict[str, str]:
    """Return the hashes of a release's files by name."""
    path = folder / MANIFEST
    if not path.is_file() or path.is_symlink():
        raise GuaranteeViolated(f"{folder} has no {MANIFEST}: its files cannot be checked.")
    hashes: dict[str, str] = {}
    for line in path.read_bytes().decode("utf-8", "surrogateescape").split("\n")[:-1]:
        found = _LINE.fullmatch(line)
        if found is None:
            raise GuaranteeViolated(f"{path} was changed: a line is not that of a file.")
        escaped, digest, name = found.groups()
        if escaped:
            name = re.sub(r"\\(.)", lambda match: _UNESCAPED.get(match[1], match[0]), name)
        hashes[name] = digest
    return hashes
