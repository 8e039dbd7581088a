"""New faces worn over people's own through a video: one per person, drawn frame by frame [S 7.3].

``looks`` finds a few views of each person, from which ``masks`` chooses and makes them; ``code_of`` says
what a frame shows, ``calm`` smooths that in time, and ``Mask.draw`` draws it.
"""

from __future__ import annotations

from ksame.masking.choose import masks
from ksame.masking.hiding import apart
from ksame.masking.look import View, calm, code_of, in_place
from ksame.masking.looks import looks
from ksame.masking.mask import Mask

__all__ = ["Mask", "View", "apart", "calm", "code_of", "in_place", "looks", "masks"]
