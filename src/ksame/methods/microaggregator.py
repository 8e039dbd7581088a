"""Microaggregation as a scikit-learn transformer, so that it drops into a Pipeline."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted, validate_data

from ksame.core.arrays import FloatArray, RandomState
from ksame.core.errors import UsageError
from ksame.partition import METHODS
from ksame.replace import centroid

_FLOAT_TYPES = (np.float64, np.float32)


class Microaggregator(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replace each row by the mean of a group of at least k subjects.

    The claim (``guarantee_``) is for the rows that were fitted, as ``fit_transform`` publishes them.
    ``transform`` gives a fitted row its group's mean again, and any other row the nearest of these
    means: what comes out is always one of the means, but nothing is promised for a new subject.
    (Equal rows in two groups cannot be told apart by ``transform``: all get the last one's mean.)

    The fitted object holds the groups and who is in them, so it is as private as the data.

    Parameters
    ----------
    k : int
        Least number of distinct subjects in a group.
    partition : str
        A name in ``ksame.partition.METHODS``.
    random_state : int, Generator or None
        The randomness of the partition; None is operating-system randomness.
    allow_real : bool
        Let a mean be one of the rows, which is refused otherwise; for tables on a grid, not for faces.

    Attributes
    ----------
    partition_ : Partition
        The groups of the fitted rows.
    labels_ : (n,) int
        The group of each fitted row.
    cluster_centers_ : (m, d) array
        The mean of each group's subjects: all that is ever published.
    guarantee_ : Guarantee
        What holds for the fitted rows.
    n_features_in_ : int
        Columns of the fitted rows.

    Examples
    --------
    >>> groups = Microaggregator(k=2).fit([[0.0], [5.0], [1.0], [6.0]])
    >>> groups.transform([[0.0], [5.0], [-9.0]]).ravel().tolist(), groups.guarantee_.k
    ([0.5, 5.5, 0.5], 2)
    """

    def __init__(
        self,
        k: int = 5,
        partition: str = "mdav",
        random_state: RandomState = None,
        allow_real: bool = False,
    ) -> None:
        self.k = k
        self.partition = partition
        self.random_state = random_state
        self.allow_real = allow_real

    def fit(self, X: ArrayLike, y: object = None, subjects: ArrayLike | None = None) -> Self:
        """Group the rows; k counts the distinct subjects, by default every row is another one."""
        if self.partition not in METHODS:
            raise UsageError(f"partition must be one of {', '.join(METHODS)}. Got {self.partition!r}.")
        x = validate_data(self, X, dtype=_FLOAT_TYPES, ensure_min_samples=2)
        groups = METHODS[self.partition](x, self.k, subjects=subjects, rng=self.random_state)
        new, self.guarantee_ = centroid(x, groups, allow_real=self.allow_real)
        self.partition_, self.labels_ = groups, groups.labels
        self.cluster_centers_: FloatArray = new[[rows[0] for rows in groups.groups]]
        # fitted rows are known again by a keyed hash: the object holds no original
        self._key = secrets.token_bytes(32)
        self._group_of = dict(zip(self._marks(x), self.labels_.tolist(), strict=True))
        return self

    def fit_transform(self, X: ArrayLike, y: object = None, subjects: ArrayLike | None = None) -> FloatArray:
        """Group the rows and return each group's mean in place of its rows."""
        return self.fit(X, y, subjects).cluster_centers_[self.labels_]

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return for each row its group's mean, or the nearest mean if it was not fitted."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=_FLOAT_TYPES)
        nearest = pairwise_distances_argmin(x, self.cluster_centers_)
        labels = [self._group_of.get(mark, near) for mark, near in zip(self._marks(x), nearest, strict=True)]
        return self.cluster_centers_[labels]

    def _marks(self, x: FloatArray) -> list[bytes]:
        known = x.astype(np.float64) + 0.0  # one precision, and no -0.0: equal rows have equal bytes
        return [blake2b(row.tobytes(), digest_size=16, key=self._key).digest() for row in known]
