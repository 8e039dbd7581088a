from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ksame.core.errors import CannotGuarantee, UsageError
from ksame.methods.microaggregator import Microaggregator
from ksame.partition import METHODS, mdav
from ksame.replace import centroid


@parametrize_with_checks([Microaggregator(), Microaggregator(k=2, partition="ksame", allow_real=True)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def faces(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_what_comes_out_keeps_the_claim():
    x = faces(33)
    groups = Microaggregator(k=5)
    new = groups.fit_transform(x)
    groups.guarantee_.verify(new)
    assert groups.guarantee_.k == 5
    assert groups.n_features_in_ == 4
    assert np.array_equal(groups.labels_, mdav(x, 5).labels)
    assert np.array_equal(new, centroid(x, groups.partition_)[0])
    assert np.array_equal(new, groups.cluster_centers_[groups.labels_])


@pytest.mark.parametrize("partition", METHODS)
def test_every_partition_can_be_named(partition):
    new = Microaggregator(k=3, partition=partition, random_state=0).fit_transform(faces(20))
    assert len(np.unique(new, axis=0)) == 6


def test_an_unknown_partition_is_refused():
    with pytest.raises(UsageError, match=r"partition must be one of mdav, .*Got 'best'"):
        Microaggregator(partition="best").fit(faces(20))


def test_too_few_rows_are_refused():
    with pytest.raises(CannotGuarantee, match="4 distinct subjects"):
        Microaggregator().fit(faces(4))


def test_photos_of_one_person_get_one_face():
    x, subjects = faces(30), np.arange(30) % 10
    groups = Microaggregator(k=4, partition="ksame", random_state=0)
    new = groups.fit_transform(x, subjects=subjects)
    groups.guarantee_.verify(new, subjects=subjects)
    assert np.array_equal(groups.transform(x), new)  # also those nearer to another group's mean


def test_fitted_rows_get_their_groups_mean_and_new_rows_the_nearest():
    x = faces(60)
    groups = Microaggregator(k=5).fit(x)
    assert np.array_equal(groups.transform(x), groups.cluster_centers_[groups.labels_])
    assert np.array_equal(groups.transform(x[::-1][:7]), groups.cluster_centers_[groups.labels_[::-1][:7]])
    other = faces(60, seed=1)
    distance = np.linalg.norm(other[:, None] - groups.cluster_centers_, axis=2)
    assert np.array_equal(groups.transform(other), groups.cluster_centers_[distance.argmin(axis=1)])


def test_minus_zero_and_single_precision_are_known_again():
    x = np.round(faces(40) * 8).astype(np.float32)
    x[0, 0] = 0.0
    groups = Microaggregator(k=5, allow_real=True).fit(x)
    again = x.astype(np.float64)
    again[0, 0] = -0.0
    assert np.array_equal(groups.transform(again), groups.transform(x))


def test_the_fitted_object_holds_no_original():
    x = faces(60)
    groups = Microaggregator(k=5).fit(x)
    blob = pickle.dumps(groups)
    assert not any(row.tobytes() in blob for row in x)
    assert np.array_equal(pickle.loads(blob).transform(x), groups.transform(x))


def test_a_mean_that_is_a_row_is_refused_unless_allowed():
    x = np.repeat(faces(4), 5, axis=0)
    with pytest.raises(CannotGuarantee, match="real person"):
        Microaggregator(k=5).fit(x)
    assert len(Microaggregator(k=5, allow_real=True).fit(x).cluster_centers_) == 4


def test_it_works_in_a_pipeline_with_subjects_and_names():
    table = pd.DataFrame(faces(40), columns=list("abcd"))
    pipe = make_pipeline(StandardScaler(), Microaggregator(k=4)).set_output(transform="pandas")
    new = pipe.fit_transform(table, microaggregator__subjects=np.arange(40) % 20)
    assert new.columns.tolist() == list("abcd")
    assert len(new.drop_duplicates()) == 5
    assert clone(pipe)[-1].get_params() == {
        "k": 4, "partition": "mdav", "random_state": None, "allow_real": False,
    }  # fmt: skip
