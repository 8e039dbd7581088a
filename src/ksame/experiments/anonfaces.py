"""."""

from __future__ import annotations

from collections.abc import Callable

from ksame.experiments.base import Data, Outcome

EXPERIMENTS: dict[str, Callable[[Data], Outcome]] = {}
