"""Wrap lines that longer names have made too long: wrap.py CHECKOUT. What it cannot wrap it prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT, LIMIT = Path(sys.argv[1]), 110
RUFF = "/work/main/.venv/bin/ruff"


def too_long() -> dict[Path, list[int]]:
    out = subprocess.run([RUFF, "check", "--select", "E501", "--output-format", "json", "."], cwd=ROOT,
                         capture_output=True, text=True).stdout
    found: dict[Path, list[int]] = {}
    for one in json.loads(out):
        found.setdefault(Path(one["filename"]), []).append(one["location"]["row"])
    return found


def strings(path: Path) -> list[tuple[int, int]]:
    """Rows of triple-quoted strings."""
    with path.open("rb") as file:
        return [(t.start[0], t.end[0]) for t in tokenize.tokenize(file.readline)
                if t.type == tokenize.STRING and t.string.lstrip("rRbBfF").startswith(('"""', "'''"))]


def split_literal(indent: str, prefix: str, body: str, tail: str) -> list[str] | None:
    depth, at = 0, None
    for i, c in enumerate(body):
        if "f" in prefix and c in "{}":
            depth += 1 if c == "{" else -1
        if c == " " and depth == 0 and len(indent) + len(prefix) + i + 2 <= LIMIT - 2:
            at = i
    if at is None:
        return None
    first, second = body[:at], body[at:]
    p2 = prefix if "{" in second else ""
    p1 = prefix if "{" in first else ""
    return [f'{indent}{p1}"{first}"', f'{indent}{p2}"{second}"{tail}']


def wrap(path: Path, row: int, lines: list[str], blocks: list[tuple[int, int]]) -> list[str] | None:
    line = lines[row - 1]
    indent = re.match(r"\s*", line).group()
    inside = next(((a, b) for a, b in blocks if a <= row <= b), None)
    if inside:
        text = line.strip()
        if re.match(r">>>|\.\.\.", text):
            return None
        if row == inside[0]:  # the summary
            closes = text.endswith('"""') and inside[0] == inside[1]
            body = text.removeprefix('"""').removesuffix('"""')
            cut = max((m.start() for m in re.finditer(r"[;:] ", body) if len(indent) + 4 + m.start() < LIMIT), default=None)
            if cut is None:
                cut = max((m.start() for m in re.finditer(r", ", body) if len(indent) + 4 + m.start() < LIMIT), default=None)
            if cut is None:
                return None
            rest = body[cut + 2 :]
            rest = rest[0].upper() + rest[1:] if rest[0] != "`" else rest
            more = [f'{indent}"""{body[:cut]}.', "", f"{indent}{rest}"]
            return [*more, f'{indent}"""'] if closes else more
        cut = line.rfind(" ", 0, LIMIT)
        if cut <= len(indent):
            return None
        return [line[:cut], indent + line[cut + 1 :]]
    got = re.match(r'^(\s*)(f?)"((?:[^"\\]|\\.)*)"(,?)$', line)
    if got:
        return split_literal(*got.groups())
    got = re.match(r'^(\s*)(\w+ = )(f?)"((?:[^"\\]|\\.)*)"$', line)
    if got:
        lead, name, prefix, body = got.groups()
        parts = split_literal(lead + "    ", prefix, body, "")
        return [f"{lead}{name}(", *parts, f"{lead})"] if parts else None
    got = re.match(r"^(\s*)(\S.*?)  (# .*)$", line)
    if got and "noqa" not in got.group(3) and "type: ignore" not in got.group(3) and "fmt:" not in got.group(3):
        return [got.group(1) + got.group(3), got.group(1) + got.group(2)]
    cut = line.rfind(", ", 0, LIMIT)
    if cut > len(indent) and not line.lstrip().startswith(("from", "import", "def", "#")):
        return [line[: cut + 1], indent + line[cut + 2 :]]
    return None


for _ in range(3):
    for path, rows in too_long().items():
        lines = path.read_text(encoding="utf-8").split("\n")
        blocks = strings(path)
        for row in sorted(rows, reverse=True):
            new = wrap(path, row, lines, blocks)
            if new is not None:
                lines[row - 1 : row] = new
        path.write_text("\n".join(lines), encoding="utf-8")
    subprocess.run([RUFF, "format", "-q", "."], cwd=ROOT, check=False)
for path, rows in too_long().items():
    print("TOO LONG", path, rows)
