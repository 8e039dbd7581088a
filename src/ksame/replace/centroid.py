"""One face for a whole group: its mean [N fig. 10]."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ksame.core.arrays import FloatArray
from ksame.core.guarantee import Guarantee
from ksame.core.partition_type import Partition
from ksame.replace.codes import as_codes, person_index, refuse_real_faces, row_means

_REAL_FACE_NOTE = "some surrogates may be a real person's code, which was allowed on request"


def centroid(
    codes: ArrayLike, partition: Partition, *, allow_real: bool = False
) -> tuple[FloatArray, Guarantee]:
    """Replace every face by the mean mu of its group's people [N fig. 10 line 7].

    A person's photos are averaged first, so that ten photos of one weigh no more than one of another.

    Parameters
    ----------
    codes : (n, d) array
        One code gamma per face.
    partition : Partition
        The groups, from ``ksame.partition``.
    allow_real : bool
        A mean can be one of the originals: when the same photo is there under k names, or by chance
        when codes lie on a grid. Such a face is refused unless this says that the codes are no faces.

    Returns
    -------
    new : (n, d) array
        The new codes, constant to the last bit on each group.
    guarantee : Guarantee
        k-anonymity with the partition's bound [N thm. 1-2].

    Raises
    ------
    CannotGuarantee
        If a group's mean is a real face up to rounding (a millionth of the codes' spread).

    Examples
    --------
    >>> from ksame.core.partition_type import Partition
    >>> new, guarantee = centroid([[0.0], [2.0], [5.0], [9.0]], Partition([0, 0, 1, 1], k=2))
    >>> new.ravel().tolist(), guarantee.bound
    ([1.0, 1.0, 7.0, 7.0], 0.5)
    """
    x = as_codes(codes, len(partition.labels))
    who = person_index(partition.subjects, len(x))
    group = partition.labels[np.unique(who, return_index=True)[1]]  # (people,)
    mu = row_means(row_means(x, who), group).astype(x.dtype)  # (m, d)
    if not allow_real:
        refuse_real_faces(mu, x)
    assumptions = (_REAL_FACE_NOTE,) if allow_real else ()
    return mu[partition.labels], Guarantee(
        "k-anonymity", partition.k, partition.bound, assumptions=assumptions
    )
