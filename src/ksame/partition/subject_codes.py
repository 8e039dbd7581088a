"""Validate the input of every partition and reduce it to one code per subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError
from ksame.core.partition_type import Partition, as_k

_MAX_CODE_VALUE = 1e150


@dataclass(frozen=True, eq=False)
class SubjectCodes:
    """A person-specific set [N 3]: one code per subject, so that k counts subjects and not photos.

    The photos of one subject are averaged; each photo then joins its subject's group.
    Single-precision codes stay in single precision, so that a large set is not copied.
    """

    codes: FloatArray  # (m, d): one row per subject
    k: int
    subject_index: IntArray  # (n,): the row of each face's subject
    subjects: NDArray[Any]  # (n,)

    @classmethod
    def of(cls, codes: ArrayLike, k: int, subjects: ArrayLike | None) -> Self:
        """Check the arguments of a partition and average each subject's codes."""
        try:
            x = np.asarray(codes, order="C")  # one layout, so that sums are rounded equally
            if x.dtype not in (np.float32, np.float64):
                x = x.astype(np.float64, casting="unsafe" if x.dtype == object else "same_kind")
        except (TypeError, ValueError):
            raise UsageError("codes must be an (n, d) array of real numbers.") from None
        if x.ndim != 2 or not x.shape[1]:
            raise UsageError(f"codes must be an (n, d) array with d of at least 1. Got shape {x.shape}.")
        if not (float(x.min(initial=0)) > -_MAX_CODE_VALUE and float(x.max(initial=0)) < _MAX_CODE_VALUE):
            raise UsageError(  # a NaN fails too
                f"codes must be finite and smaller than {_MAX_CODE_VALUE:.0e}, so that distances are finite."
            )
        if subjects is None:
            return cls(x, as_k(k, len(x)), np.arange(len(x)), np.arange(len(x)))
        given = np.asarray(subjects)
        if given.shape != (len(x),):
            raise UsageError(f"subjects must have one entry per code: {len(x)}. Got {given.size}.")
        # by first appearance, so that the result depends on the order of rows and not on the names
        _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
        index = np.argsort(np.argsort(first))[inverse]
        number = as_k(k, len(first))
        if len(first) == len(x):
            return cls(x, number, index, given)
        order = np.argsort(index, kind="stable")
        starts = np.searchsorted(index[order], np.arange(len(first)))
        means = np.add.reduceat(x[order], starts, axis=0) / np.bincount(index)[:, None].astype(x.dtype)
        return cls(means, number, index, given)

    def partition(self, labels: ArrayLike) -> Partition:
        """Return the Partition of the faces, given one group label per subject."""
        return Partition(np.asarray(labels)[self.subject_index], self.k, self.subjects)
