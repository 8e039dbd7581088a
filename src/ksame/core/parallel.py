"""Prefetch items in background threads, and map functions over items in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

PREFETCH_BYTES = 32_000_000  # bytes of images that are prefetched at most

_POOL = ThreadPoolExecutor(2)  # kept for the whole process: every new thread would keep memory of its own


def prefetch(items: Iterable[T], max_count: int = 2) -> Iterator[T]:
    """Prefetch up to ``max_count`` items in a background thread; yield them in their order.

    An exception that is raised while an item is made is raised when it is yielded.

    Examples
    --------
    >>> list(prefetch(n**2 for n in range(4)))
    [0, 1, 4, 9]
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        pending = deque(pool.submit(next, source, end) for _ in range(max_count))
        while (item := pending.popleft().result()) is not end:
            pending.append(pool.submit(next, source, end))
            yield item  # type: ignore[misc]


def prefetch_count(size: int, *, least: int, max_count: int) -> int:
    """Return how many images of ``size`` bytes to prefetch: at least ``least``, small ones ``max_count``.

    Examples
    --------
    >>> prefetch_count(3 * 1280 * 720, least=2, max_count=12)
    11
    >>> prefetch_count(3 * 1920 * 1080, least=2, max_count=12)
    5
    """
    return max(least, min(max_count, PREFETCH_BYTES // size))


def map_pairs(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results for all items, computed two at a time: each network keeps two requests open.

    ``work`` must not call this function or ``submit``: it would wait for itself.

    Examples
    --------
    >>> map_pairs(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    return list(_POOL.map(work, items))


def submit(work: Callable[[], R]) -> Future[R]:
    """Start ``work`` in a background thread and return its future.

    Examples
    --------
    >>> submit(lambda: 2 + 2).result()
    4
    """
    return _POOL.submit(work)
