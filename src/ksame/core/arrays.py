"""Types of arrays and of callbacks that everything shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.floating[Any]]

IntArray = NDArray[np.intp]

RandomState = int | np.random.Generator | None

"""None is randomness of the operating system; a seed is for tests and repeated runs."""


def frozen_copy(array: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return a read-only copy, so that no caller can change a checked object behind its back."""
    copy = np.array(array, dtype=dtype)
    copy.flags.writeable = False
    return copy


ProgressCallback = Callable[[str, int, int], None]

"""Called with the name of the stage, how much is done, and of how much."""
