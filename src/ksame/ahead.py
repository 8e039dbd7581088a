"""Work on what comes next while somebody is busy with what is there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


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
