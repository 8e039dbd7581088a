"""Schedule concurrent tries with results that do not depend on timing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["retry_in_order"]

_MAX_PENDING_TRIES = 3  # one for each of two cores, and one that waits for a free core
_MAX_REPEATED_TRIES = 2  # pending tries up to which a group is repeated when no other waits

T = TypeVar("T")


def retry_in_order(
    tries: Mapping[int, int], begin: Callable[[int], Future[T]], is_settled: Callable[[int, T], bool]
) -> None:
    """Try each group until it is settled, at most ``tries`` times.

    Tries are started and evaluated in the same order, so that what a try depends on is determined neither by
    timing nor by the number of cores. When no other group waits, a group with a pending try is tried again
    at once: a core would be idle, and the try is often needed.

    Parameters
    ----------
    tries : mapping of int to int
        Greatest number of tries per group, in the order of their first tries.
    begin : callable
        Start a try of a group.
    is_settled : callable
        Evaluate a result and return whether the group needs no further try; also called with results of
        tries that were pending when their group was settled.

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
    remaining, waiting, pending = dict(tries), deque(tries), deque[tuple[int, Future[T]]]()
    while True:
        while (number := _next_group(waiting, [one for one, _ in pending], remaining)) is not None:
            remaining[number] -= 1
            pending.append((number, begin(number)))
        if not pending:
            return
        number, future = pending.popleft()
        if is_settled(number, future.result()):
            remaining[number] = 0
        waiting.append(number)


def _next_group(waiting: deque[int], pending: Sequence[int], remaining: Mapping[int, int]) -> int | None:
    """Return the group to try next; None if there is none, or enough tries are pending."""
    while waiting and len(pending) < _MAX_PENDING_TRIES:
        number = waiting.popleft()
        if remaining[number]:
            return number
    again = [number for number in pending if remaining[number]]
    return min(again, key=pending.count) if again and len(pending) < _MAX_REPEATED_TRIES else None
