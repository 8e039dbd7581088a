"""Shared types of arrays and callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]

RandomState = int | np.random.Generator | None
"""None draws from the operating system; a seed is for tests and repeated runs."""

ProgressCallback = Callable[[str, int, int], None]

"""Called with the name of the stage, the number of finished items and the total."""
