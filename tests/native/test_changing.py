"""What `with` enters for a change: tests/echo_core/test_bookkeeping.py interrupts it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from echo_core._c.links import Changing


def nothing() -> None:
    """For those that tell nobody."""


def is_free(lock: Any) -> bool:
    """Whether another thread can have it."""
    found: list[bool] = []

    def look() -> None:
        found.append(lock.acquire(blocking=False))
        if found[0]:
            lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found[0]


def test_who_is_asleep_is_woken_before_what_has_ended_is_told() -> None:
    """Once, when the outermost has ended and the lock is free."""
    lock = threading.RLock()
    heard: list[str] = []
    asleep: set[Callable[[], None]] = {lambda: heard.append("woken"), lambda: heard.append("woken")}
    changing = Changing(lock, asleep, lambda: heard.append(f"ended, {is_free(lock)}"))
    with changing:
        with changing:
            pass
        assert heard == []
    with changing:
        pass
    assert heard == ["woken", "woken", "ended, True", "ended, True"]
    assert not asleep


def test_an_interrupt_of_what_follows_finds_the_lock_free() -> None:
    lock = threading.RLock()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Changing(lock, set(), interrupt):
        pass
    assert is_free(lock)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_who_cannot_be_woken_leaves_nobody_else_asleep() -> None:
    heard: list[int] = []
    asleep: set[Callable[[], Any]] = {lambda: 1 / 0, lambda: heard.append(1), lambda: 1 / 0}
    with Changing(threading.RLock(), asleep, nothing):
        pass
    assert heard == [1]


def test_only_who_has_entered_can_leave() -> None:
    """Another's depth is not touched."""
    lock = threading.RLock()
    heard: list[str] = []
    changing = Changing(lock, set(), lambda: heard.append("ended"))
    with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
        changing.__exit__(None, None, None)
    with changing:
        assert heard == []
    assert heard == ["ended"]


def test_what_it_cannot_use_is_refused() -> None:
    unfit: Any = []
    with pytest.raises(TypeError, match=r"Expected a set of those that sleep, got \[\]"):
        Changing(threading.RLock(), unfit, nothing)
    with pytest.raises(AttributeError, match="acquire"):
        Changing(unfit, set(), nothing)


def test_a_cycle_through_it_is_collected() -> None:
    """As that of the books, which it tells of every change."""

    class Books:
        def __init__(self) -> None:
            self.changing = Changing(threading.RLock(), set(), self.tell)

        def tell(self) -> None: ...

    books = Books()
    gone = weakref.ref(books)
    del books
    gc.collect()
    assert gone() is None
