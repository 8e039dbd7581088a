"""The utility of a release: measures of published faces compared with the originals [S 7, G5 5.3]."""

from __future__ import annotations

from ksame.audit.utility.detection import detection_rate
from ksame.audit.utility.fairness import find_disadvantaged
from ksame.audit.utility.features import DISTANCES, face_columns, missing_notes
from ksame.audit.utility.measures import measures

__all__ = [
    "DISTANCES",
    "detection_rate",
    "face_columns",
    "find_disadvantaged",
    "measures",
    "missing_notes",
]
