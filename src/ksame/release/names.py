"""Names of published files: those of the inputs, or ones that tell nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from pathlib import PurePosixPath

from ksame.core.folders import fit_name

WRITABLE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".mp4", ".m4v", ".mov", ".mkv", ".webm")


def published_names(sources: Sequence[str], *, names: str, seed: int, suffix: str | None = None) -> list[str]:
    """Return where each of these is published: under its own name, or under one that tells nothing."""
    kept: dict[str, None] = {}
    for source in sources:
        kept[_kept_name(source, suffix, kept)] = None
    if names == "keep":
        return list(kept)
    # A keyed hash and not the generator's output: published numbers must not give away its state. The key
    # is costly to derive, so that a short seed is not found by trying them all.
    key = hashlib.scrypt(seed.to_bytes(32, "big"), salt=b"ksame names", n=2**14, r=8, p=1, dklen=32)
    hashes = (hashlib.blake2b(str(row).encode(), key=key, digest_size=8) for row in range(len(sources)))
    return [
        f"images/{h.hexdigest()}{PurePosixPath(name).suffix}" for h, name in zip(hashes, kept, strict=True)
    ]


def _kept_name(source: str, suffix: str | None, taken: Container[str]) -> str:
    """Return where a photo is published when its name is kept: in the same tree, and no name twice.

    Without a suffix given, the type stays where we write it, and becomes PNG otherwise.
    """
    path = PurePosixPath("images", source)
    if suffix is None:
        suffix = path.suffix.lower() if path.suffix.lower() in WRITABLE_SUFFIXES else ".png"
    stem, number = path.with_suffix("").as_posix(), 1
    while (name := fit_name(stem, (f"_{number}" if number > 1 else "") + suffix)) in taken:
        number += 1
    return name
