"""What is left of the data: measures of a release beside the originals it was made from [S 7, G5 5.3]."""

from __future__ import annotations

from ksame.utility.consistency import identity_consistency
from ksame.utility.detection import detection_rate
from ksame.utility.fairness import worse
from ksame.utility.look import features, notes
from ksame.utility.measures import measures

__all__ = ["detection_rate", "features", "identity_consistency", "measures", "notes", "worse"]
