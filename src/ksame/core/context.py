"""What one run shares: randomness, workers, checkpoint, progress and the recognisers that judge."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

import joblib
import numpy as np

from ksame.core.arrays import ProgressCallback
from ksame.core.checkpoint import Checkpoint
from ksame.core.errors import UsageError

__all__ = ["ENGINES", "Context", "ignore_progress", "parallel_map"]

T = TypeVar("T")
R = TypeVar("R")

ENGINES = {"threads": "threading", "processes": "loky"}
"""What ``--engine`` may be, and the joblib backend behind it."""


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignore progress reports."""


@dataclass(frozen=True, eq=False)
class Context:
    """What all stages of one run share; it is resolved once, before the long work.

    Parameters
    ----------
    seed : int
        The source of all randomness, by default of the operating system. Keep it as secret as the mapping.
    jobs : int, optional
        Workers; by default one per core.
    engine : str
        What the workers are: a name of ``ENGINES``.
    checkpoint : Checkpoint, optional
        Stores what an interrupted run need not do again.
    progress : callable
        Called with the stage, how much is done, and of how much.
    verifiers : tuple of str
        Recognisers that judge candidates for new faces. All of them must be there: a run whose verifiers
        depended on what is cached would publish other faces on another machine.

    Examples
    --------
    >>> list(Context(seed=1).map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    seed: int = field(default_factory=partial(secrets.randbits, 256), repr=False)
    jobs: int | None = None
    engine: str = "threads"
    checkpoint: Checkpoint | None = None
    progress: ProgressCallback = ignore_progress
    verifiers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a seed or an engine that there is not."""
        if not 0 <= self.seed < 2**256:
            raise UsageError(f"seed must be an integer from 0 to 2**256 - 1. Got {self.seed}.")
        if self.engine not in ENGINES:
            raise UsageError(f"There is no engine {self.engine!r}: choose one of {', '.join(ENGINES)}.")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what stays with the driver when a worker in another process gets a copy."""
        return {**self.__dict__, "checkpoint": None, "progress": ignore_progress}

    def rng(self) -> np.random.Generator:
        """Return a new generator from the seed."""
        return np.random.default_rng(self.seed)

    def map(
        self, work: Callable[[T], R], items: Collection[T], *, stage: str = ""
    ) -> Generator[R, None, None]:
        """Yield the result for each item in order, made by the workers; report progress under a stage."""
        backend = ENGINES[self.engine]
        with closing(parallel_map(work, zip(items, strict=True), jobs=self.jobs, engine=backend)) as results:
            for done, result in enumerate(results, 1):
                yield result  # reported as done when the caller has stored it, and asks for the next one
                if stage:
                    self.progress(stage, done, len(items))


def parallel_map(
    work: Callable[..., T], tasks: Iterable[tuple[Any, ...]], *, jobs: int | None, engine: str = "threading"
) -> Generator[T, None, None]:
    """Yield the result for each task's arguments, in order, computed by several workers.

    When the generator is closed early, no further task is started and running ones are waited for: a thread
    that is still inside a network when the interpreter exits would abort the process.
    """
    try:
        # max_nbytes: or joblib would write large images to temporary files on their way to a process
        parallel = joblib.Parallel(n_jobs=jobs or -1, backend=engine, return_as="generator", max_nbytes=None)
    except ValueError:
        raise UsageError(f"There is no engine {engine!r}: threading and loky are always there.") from None
    stopped: list[bool] = []  # lists: their changes are atomic, and they can be sent to processes
    running: list[bool] = []

    def counted(*task: Any) -> T | None:
        running.append(True)
        try:
            return None if stopped else work(*task)
        finally:
            running.pop()

    results = parallel(joblib.delayed(counted)(*task) for task in takewhile(lambda _: not stopped, tasks))
    try:
        for result in results:  # noqa: UP028  # yield from would close joblib's generator, which complains
            yield result
    finally:
        stopped.append(True)
        deque(results, maxlen=0)
        while running:  # joblib does not wait for its threads when Ctrl-C stops it
            time.sleep(0.01)
