"""The commands of the laboratory: attack a release, choose k, do the papers again."""

from __future__ import annotations
