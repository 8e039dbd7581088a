"""The papers' tables and figures, done again on any set of faces laid out like london/."""

from __future__ import annotations

from ksame.lab.experiments import anonfaces, gross, newton, sun
from ksame.lab.experiments.base import ExperimentData, ExperimentResult, load

__all__ = ["EXPERIMENTS", "ExperimentData", "ExperimentResult", "load"]

EXPERIMENTS = newton.EXPERIMENTS | gross.EXPERIMENTS | sun.EXPERIMENTS | anonfaces.EXPERIMENTS
