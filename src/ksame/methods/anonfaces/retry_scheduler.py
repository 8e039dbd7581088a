"""Tries in turn: some are under way at a time, and what comes of it is the same whoever is faster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["retry_in_order"]

_TRIES_UNDER_WAY = (
    3  # tries under way: one for each of two cores, and one that waits for the first that is free
)
_PRIORITY_TRIES = 2  # of which for groups that all others wait for

T = TypeVar("T")


def retry_in_order(
    tries: Mapping[int, int], begin: Callable[[int], Future[T]], settled: Callable[[int, T], bool]
) -> None:
    """Try each group until it is settled, at most so often.

    Tries are begun and noted in the same order, so that what a try can know of others depends neither on who
    was faster nor on how many cores there are. When nothing else is left to do, a group that is being tried
    is tried again at once: a core would be idle, and the try is often needed.

    Parameters
    ----------
    tries : mapping of int to int
        How often each group may be tried, in the order of their first tries.
    begin : callable
        Begins a try for a group.
    settled : callable
        Takes note of what came of it, and says whether the group needs no further try; it is also told of
        tries that were under way when their group was settled.

    Examples
    --------
    >>> def begin(number):
    ...     trying = Future()
    ...     trying.set_result(f"a try for {number}")
    ...     return trying
    >>> retry_in_order({7: 1, 8: 1}, begin, lambda number, result: print(result))
    a try for 7
    a try for 8
    """
    left, waiting, under_way = dict(tries), deque(tries), deque[tuple[int, Future[T]]]()
    while True:
        while (number := _next_group(waiting, [one for one, _ in under_way], left)) is not None:
            left[number] -= 1
            under_way.append((number, begin(number)))
        if not under_way:
            return
        number, trying = under_way.popleft()
        if settled(number, trying.result()):
            left[number] = 0
        waiting.append(number)


def _next_group(waiting: deque[int], under_way: Sequence[int], left: Mapping[int, int]) -> int | None:
    """Return the group that is to be tried next; None if there is none, or enough are under way."""
    while waiting and len(under_way) < _TRIES_UNDER_WAY:
        number = waiting.popleft()
        if left[number]:
            return number
    again = [number for number in under_way if left[number]]
    return min(again, key=under_way.count) if again and len(under_way) < _PRIORITY_TRIES else None
