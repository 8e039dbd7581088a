"""The papers' tables and figures, done again on any set of faces laid out like london/."""

from __future__ import annotations

from ksame.experiments import anonfaces, gross, newton, sun
from ksame.experiments.base import Data, Outcome, load

__all__ = ["EXPERIMENTS", "Data", "Outcome", "load"]

EXPERIMENTS = newton.EXPERIMENTS | gross.EXPERIMENTS | sun.EXPERIMENTS | anonfaces.EXPERIMENTS
