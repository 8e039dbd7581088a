"""What the stages of a run share: the order of results, the progress, and what a worker does not get."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksame.core.checkpoint import Checkpoint
from ksame.core.context import ENGINES, Context
from ksame.core.errors import UsageError


@pytest.mark.parametrize("seed", [-1, 2**256, -(2**300)])
def test_a_seed_that_is_too_small_or_large_is_refused(seed):
    with pytest.raises(UsageError, match="seed must be an integer from 0"):
        Context(seed=seed)


@pytest.mark.parametrize("engine", ["dask", "ray", "threading", ""])
def test_an_engine_that_there_is_not_is_refused(engine):
    with pytest.raises(UsageError, match=f"no engine {engine!r}: choose one of threads, processes"):
        Context(engine=engine)


def test_without_a_seed_every_run_has_one_of_its_own():
    assert Context().seed != Context().seed
    assert Context(seed=2**256 - 1).seed == 2**256 - 1
    assert str(Context(seed=987654321)).count("987654321") == 0, "it is as secret as the mapping"


def test_its_randomness_comes_from_the_seed_alone():
    one, same, other = (
        Context(seed=seed, jobs=jobs).rng().random(4) for seed, jobs in ((3, 1), (3, 2), (4, 1))
    )
    assert (one == same).all()
    assert (one != other).any()


@given(st.lists(st.integers(), max_size=9), st.integers(1, 3))
def test_results_come_in_the_order_of_the_items_and_each_is_reported(items, jobs):
    seen = []
    context = Context(jobs=jobs, progress=lambda *stage: seen.append(stage))
    assert list(context.map(abs, items, stage="looking")) == [abs(item) for item in items]
    assert seen == [("looking", done, len(items)) for done in range(1, len(items) + 1)]
    seen.clear()
    assert list(context.map(abs, items)) == [abs(item) for item in items]
    assert seen == [], "a stage without a name is not reported"


def test_what_is_reported_as_done_has_been_stored():
    stored = []
    context = Context(jobs=1, progress=lambda stage, done, total: stored[done - 1])
    for result in context.map(abs, [1, -2, 3], stage="looking"):
        stored.append(result)
    assert stored == [1, 2, 3]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same(engine):
    assert list(Context(jobs=2, engine=engine).map(abs, [-3, 1, -2])) == [3, 1, 2]


@pytest.mark.parametrize(("engine", "here"), [("threads", True), ("processes", False)])
def test_an_engine_is_what_its_name_says(engine, here):
    (process,) = Context(jobs=2, engine=engine).map(lambda _: os.getpid(), [0])
    assert (process == os.getpid()) == here


def test_a_worker_gets_neither_the_checkpoint_nor_the_progress(tmp_path):
    whole = Context(
        seed=5,
        jobs=2,
        engine="processes",
        verifiers=("sface",),
        checkpoint=Checkpoint.open(tmp_path / "journal.jsonl", seed=5, resume=False),
        progress=lambda *stage: pytest.fail("it was reported to"),
    )
    copy = pickle.loads(pickle.dumps(whole))
    assert copy.checkpoint is None
    copy.progress("looking", 1, 2)
    kept = ("seed", "jobs", "engine", "verifiers")
    assert [getattr(copy, name) for name in kept] == [getattr(whole, name) for name in kept]
    assert whole.checkpoint is not None, "the driver keeps its own"
    assert replace(whole, jobs=1).checkpoint is whole.checkpoint


def test_an_error_of_a_worker_comes_through_and_stops_the_others():
    done = []

    def work(item):
        done.append(item)
        if item == 1:
            raise RuntimeError("no")
        return item

    with pytest.raises(RuntimeError, match="no"):
        list(Context(jobs=1).map(work, range(100)))
    assert len(done) < 100
