"""What is beside the face names people too: hair, ears, neck, clothes and the place [S 6.3-6.4]."""

from __future__ import annotations

from dataclasses import dataclass

from ksame.attack.recognise import Recogniser


@dataclass(frozen=True, eq=False)
class Beyond(Recogniser):
    """A recogniser that looks beyond the face: where a face is covered, it still sees what is around it."""
