"""What is left of the data: measures of a release beside the originals it was made from [S 7, G5 5.3]."""

from __future__ import annotations

from ksame.audit.utility.columns import face_columns, missing_notes
from ksame.audit.utility.consistency import identity_consistency
from ksame.audit.utility.detection import detection_rate
from ksame.audit.utility.fairness import find_disadvantaged
from ksame.audit.utility.measures import measures

__all__ = [
    "detection_rate",
    "face_columns",
    "find_disadvantaged",
    "identity_consistency",
    "measures",
    "missing_notes",
]
