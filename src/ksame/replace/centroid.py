"""Replace each group by its mean face [N fig. 10]."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import FloatArray
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition
from ksame.replace.codes import as_codes, refuse_real_faces, row_means, subject_index

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
