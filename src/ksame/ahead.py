"""Work on what comes next while somebody is busy with what is there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
WAITING = 32_000_000  # bytes of pictures that wait for somebody
_HANDS = ThreadPoolExecutor(2)  # the same two throughout: each new thread would keep memory of its own


def ahead(items: Iterable[T], most: int = 2) -> Iterator[T]:
    """Yield items in their order; a thread of its own makes up to ``most`` of them before they are asked for.

    What goes wrong while one is made goes wrong where it is asked for.

    Examples
    --------
    >>> list(ahead(n**2 for n in range(4)))
    [0, 1, 4, 9]
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, source, end) for _ in range(most))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, source, end))
            yield item  # type: ignore[misc]


def room(size: int, *, least: int, most: int) -> int:
    """Return how many pictures of so many bytes may wait: up to ``most`` small ones, ``least`` of any size.

    Examples
    --------
    >>> room(3 * 1280 * 720, least=2, most=12), room(3 * 1920 * 1080, least=2, most=12)
    (11, 5)
    """
    return max(least, min(most, WAITING // size))


def by_two(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of some work, two at a time: as often as a network is open at no cost.

    Work that asks for this itself would wait for its own end.

    Examples
    --------
    >>> by_two(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    return list(_HANDS.map(work, items))


def later(work: Callable[[], R]) -> Future[R]:
    """Begin some work beside what goes on; its result is asked for later.

    Examples
    --------
    >>> later(lambda: 2 + 2).result()
    4
    """
    return _HANDS.submit(work)
