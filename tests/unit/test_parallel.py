"""Work that is done ahead comes in order, no further ahead than asked for, and with its errors."""

from __future__ import annotations

import threading
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksame.core.parallel import prefetch


@given(st.lists(st.integers()), st.integers(1, 5))
def test_items_come_in_their_order(items, most):
    assert list(prefetch(items, most)) == items


@given(st.integers(1, 4), st.integers(0, 6))
def test_no_more_is_made_than_asked_for(most, taken):
    made = []
    items = prefetch((made.append(n) or n for n in count()), most)
    assert [next(items) for _ in range(taken)] == list(range(taken))
    items.close()
    assert len(made) <= (taken + most if taken else 0)


def test_another_thread_makes_them():
    makers = list(prefetch((threading.get_ident() for _ in range(3)), 2))
    assert len(set(makers)) == 1 and threading.get_ident() not in makers


def test_what_goes_wrong_is_told_where_it_is_asked_for():
    def items():
        yield 1
        raise ValueError("broken")

    some = prefetch(items())
    assert next(some) == 1
    with pytest.raises(ValueError, match="broken"):
        next(some)
