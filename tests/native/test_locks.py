"""What `with` enters for a lock: tests/echo_core/roster/test_bookkeeping.py interrupts it, too."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from echo_core._c.locks import Changing, Held

ROOT = Path(__file__).parents[2]


def changing_of(lock: Any) -> Held:
    """What `with` enters for a change that nobody waits for."""
    return Changing(lock, set(), nothing)()


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
    with changing():
        with changing():
            pass
        assert heard == []
    with changing():
        pass
    assert heard == ["woken", "woken", "ended, True", "ended, True"]
    assert not asleep


def test_an_interrupt_of_what_follows_finds_the_lock_free() -> None:
    lock = threading.RLock()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Changing(lock, set(), interrupt)():
        pass
    assert is_free(lock)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_who_cannot_be_woken_leaves_nobody_else_asleep() -> None:
    heard: list[int] = []
    asleep: set[Callable[[], Any]] = {lambda: 1 / 0, lambda: heard.append(1), lambda: 1 / 0}
    with Changing(threading.RLock(), asleep, nothing)():
        pass
    assert heard == [1]


def test_only_who_has_entered_can_leave() -> None:
    """Another's depth is not touched."""
    lock = threading.RLock()
    heard: list[str] = []
    changing = Changing(lock, set(), lambda: heard.append("ended"))
    with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
        changing().__exit__(None, None, None)
    with changing():
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


def test_a_lock_is_held_within_its_block() -> None:
    lock = threading.Lock()
    held = Held(lock)
    with held:
        assert lock.locked()
        with pytest.raises(RuntimeError, match="Expected to be entered once"):
            held.__enter__()
    assert not lock.locked()
    with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
        held.__exit__(None, None, None)


def test_a_lock_is_free_where_the_block_fails() -> None:
    lock = threading.Lock()
    with pytest.raises(ZeroDivisionError), Held(lock):
        raise ZeroDivisionError
    assert not lock.locked()


def test_a_lock_that_is_held_twice_is_free_after_the_outermost() -> None:
    lock = threading.RLock()
    with Held(lock):
        with Held(lock):
            pass
        assert not is_free(lock)
    assert is_free(lock)


@pytest.mark.parametrize("make", [Held, changing_of])
def test_what_no_exit_has_released_is_released_with_its_end(make: Callable[[Any], Held]) -> None:
    """As where an interrupt comes behind its entry, and skips the exit; the interrupt goes its way."""
    lock = threading.RLock()

    def enter() -> None:
        make(lock).__enter__()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enter()
    assert is_free(lock)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lock_that_cannot_be_released_says_so() -> None:
    """It was released behind the back of who holds it."""
    lock = threading.Lock()
    held = Held(lock)
    with pytest.raises(RuntimeError, match="release unlocked lock"), held:
        lock.release()
    del held


def test_what_is_no_lock_is_refused() -> None:
    unfit: Any = 1
    with pytest.raises(AttributeError, match="acquire"):
        Held(unfit)


# In a process of its own: here an interrupt could come within the locks of pytest.
_INTERRUPTED = """
import signal, threading, time
from echo_core._c.locks import Held

class Interrupted(Exception):
    pass

def interrupt(*_):
    raise Interrupted

def hold_until_interrupted(lock, microseconds):
    signal.setitimer(signal.ITIMER_REAL, microseconds * 1e-6)
    while True:
        with Held(lock):
            pass

signal.signal(signal.SIGALRM, interrupt)
until = time.monotonic() + 8  # a slow machine tries fewer moments
for microseconds in range(100, 1100):
    lock = threading.Lock()
    try:
        hold_until_interrupted(lock, microseconds)
    except Interrupted as error:
        kept = error  # as sys.last_exc does: what its frames hold stays as it is
    assert not lock.locked(), microseconds
    if time.monotonic() > until:
        break
"""


def test_an_interrupt_leaves_no_lock_locked() -> None:
    """At whatever moment it comes."""
    subprocess.run([sys.executable, "-W", "error", "-c", _INTERRUPTED], cwd=ROOT, check=True, timeout=60)
