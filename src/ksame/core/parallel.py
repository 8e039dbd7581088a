"""Work on what comes next while somebody is busy with what is there."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile
from typing import Any, TypeVar

import joblib

from ksame.core.errors import UsageError

T = TypeVar("T")

R = TypeVar("R")

PREFETCH_BYTES = 32_000_000  # bytes of pictures that wait for somebody

_POOL = ThreadPoolExecutor(2)  # the same two throughout: each new thread would keep memory of its own


def prefetch(items: Iterable[T], max_count: int = 2) -> Iterator[T]:
    """Yield items in their order.

    A thread of its own makes up to ``max_count`` of them before they are asked for.

    What goes wrong while one is made goes wrong where it is asked for.

    Examples
    --------
    >>> list(prefetch(n**2 for n in range(4)))
    [0, 1, 4, 9]
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, source, end) for _ in range(max_count))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, source, end))
            yield item  # type: ignore[misc]


def prefetch_count(size: int, *, least: int, max_count: int) -> int:
    """Return how many pictures of so many bytes may wait.

    Up to ``max_count`` small ones, ``least`` of any size.

    Examples
    --------
    >>> prefetch_count(3 * 1280 * 720, least=2, max_count=12)
    11
    >>> prefetch_count(3 * 1920 * 1080, least=2, max_count=12)
    5
    """
    return max(least, min(max_count, PREFETCH_BYTES // size))


def map_pairs(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of some work, two at a time: as often as a network is open at no cost.

    Work that asks for this itself would wait for its own end.

    Examples
    --------
    >>> map_pairs(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    return list(_POOL.map(work, items))


def submit(work: Callable[[], R]) -> Future[R]:
    """Begin some work beside what goes on; its result is asked for later.

    Examples
    --------
    >>> submit(lambda: 2 + 2).result()
    4
    """
    return _POOL.submit(work)


def parallel_map(
    work: Callable[..., T], tasks: Iterable[tuple[Any, ...]], *, jobs: int | None, engine: str = "threading"
) -> Generator[T, None, None]:
    """Yield the result for each task's arguments, in order, made by several workers.

    Whoever leaves the loop early closes it: no new task is begun then, and those under way are let
    finish. A thread that is still inside a network when the interpreter ends would abort the process.
    """
    try:
        # max_nbytes: or joblib would write large pictures to a temporary file on their way to a process
        parallel = joblib.Parallel(n_jobs=jobs or -1, backend=engine, return_as="generator", max_nbytes=None)
    except ValueError:
        raise UsageError(f"There is no engine {engine!r}: threading and loky are always there.") from None
    over: list[bool] = []  # lists, because they are changed at one stroke and can be sent to processes
    busy: list[bool] = []

    def counted(*task: Any) -> T | None:
        busy.append(True)
        try:
            return None if over else work(*task)
        finally:
            busy.pop()

    results = parallel(joblib.delayed(counted)(*task) for task in takewhile(lambda _: not over, tasks))
    try:
        for result in results:  # noqa: UP028  # yield from would close joblib's generator, which complains
            yield result
    finally:
        over.append(True)
        deque(results, maxlen=0)
        while busy:  # joblib does not wait for its threads when Ctrl-C stops it
            time.sleep(0.01)
