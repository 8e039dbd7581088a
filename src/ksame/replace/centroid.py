"""Replace each group by its mean face [N fig. 10]; what all replacements check of codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition

SAME_CODE_TOLERANCE = 1e-6
"""A new code within this share of the codes' spread of an original counts as that real face."""

_REAL_FACE_NOTE = "a surrogate may equal a real person's code, as allow_real permits"


def centroid(
    codes: ArrayLike, partition: Partition, *, allow_real: bool = False
) -> tuple[FloatArray, Guarantee]:
    """Replace every face by the mean mu of its group's subjects [N fig. 10 line 7].

    The photos of each subject are averaged first, so that every subject has the same weight.

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    partition : Partition
        The groups, from ``ksame.partition``.
    allow_real : bool
        A mean can equal an original: when the same photo appears under k names, or by chance when
        codes lie on a grid. This raises an error unless ``allow_real`` is set (for codes of other
        data than faces).

    Returns
    -------
    new : (n, d) array
        The new codes, constant to the last bit on each group.
    guarantee : Guarantee
        k-anonymity with the partition's bound [N thm. 1-2].

    Raises
    ------
    CannotGuarantee
        If a group's mean equals a real face up to rounding (a millionth of the codes' spread).

    Examples
    --------
    >>> from ksame.core.partition_type import Partition
    >>> new, guarantee = centroid([[0.0], [2.0], [5.0], [9.0]], Partition([0, 0, 1, 1], k=2))
    >>> new.ravel().tolist(), guarantee.bound
    ([1.0, 1.0, 7.0, 7.0], 0.5)
    """
    x = as_codes(codes, len(partition.labels))
    subject = subject_index(partition.subjects, len(x))
    group = partition.labels[np.unique(subject, return_index=True)[1]]  # (subjects,)
    mu = row_means(row_means(x, subject), group).astype(x.dtype)  # (m, d)
    if not allow_real:
        refuse_real_faces(mu, x)
    assumptions = (_REAL_FACE_NOTE,) if allow_real else ()
    return mu[partition.labels], Guarantee(
        "k-anonymity", partition.k, partition.bound, assumptions=assumptions
    )


def as_codes(codes: ArrayLike, faces: int | None = None) -> FloatArray:
    """Return codes as a finite (n, d) array; single precision is kept."""
    x = np.asarray(codes)
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float64)
    if x.ndim != 2 or not x.shape[1]:
        raise UsageError(f"codes must be an (n, d) array with d of at least 1. Got shape {x.shape}.")
    if faces is not None and len(x) != faces:
        raise UsageError(f"codes must have one row for each of the {faces} faces. Got {len(x)}.")
    if not np.isfinite(x).all():
        raise UsageError("codes must be finite. Got NaN or infinity.")
    return x


def subject_index(subjects: ArrayLike | None, faces: int) -> IntArray:
    """Return the subject of each face as a number 0 .. m-1, in order of first appearance."""
    if subjects is None:
        return np.arange(faces)
    given = np.asarray(subjects)
    if given.shape != (faces,):
        raise UsageError(f"subjects must have one entry per code: {faces}. Got {given.size}.")
    _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def row_means(x: FloatArray, index: IntArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the (weighted) mean of the rows that share an index 0 .. m-1, in double precision."""
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(index.max() + 1))
    w = np.ones(len(x)) if weights is None else weights
    sums = np.add.reduceat(x[order] * w[order, None], starts, axis=0)  # (m, d)
    return sums / np.bincount(index, w)[:, None]


def find_real_faces(new: FloatArray, codes: FloatArray) -> IntArray:
    """Return the rows of new codes that equal an original up to rounding (``SAME_CODE_TOLERANCE``)."""
    old = codes.astype(np.float64)
    spread = np.sqrt(((old - old.mean(axis=0)) ** 2).sum(axis=1).mean())  # RMS distance to the mean face
    rounding = 4 * np.finfo(codes.dtype).eps * np.abs(old).max() * np.sqrt(old.shape[1])
    radius = SAME_CODE_TOLERANCE * spread + rounding + 1e-150  # positive, and so is its square
    # a tree prunes nearly everything at so small a radius: no n x m distances
    distance, _ = KDTree(old).query(new.astype(np.float64), distance_upper_bound=radius)
    return np.flatnonzero(np.isfinite(distance))


def refuse_real_faces(new: FloatArray, codes: FloatArray) -> None:
    """Raise if a surrogate equals one real person's face, which would be published whatever k is."""
    if len(found := find_real_faces(new, codes)):
        raise CannotGuarantee(
            f"The surrogate of {len(found)} group(s) would be a real person's face: remove photos that appear"
            " under several names, or choose another k or partition."
        )
