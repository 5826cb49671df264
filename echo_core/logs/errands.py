"""Errands: what is done as a whole, or not begun, whatever interrupts the thread that asks for it.

Handlers of signals run in the main thread, where they may raise between any two lines: with a lock held, or
when something is written and not yet counted. So that thread has another one do such work, and waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

# What came of an errand, or what it raised. No interrupt leaves such a queue, or a wait for it, half done.
_Answer = SimpleQueue[tuple[Any, BaseException | None]]


class Errands:
    """What the main thread has another one do."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], Any], _Answer] | None] = SimpleQueue()
        self._is_ended = False

    def run(self, work: Callable[[], T]) -> T:
        """Does it, or has it done; what it raises is raised here. An interrupt ends the wait alone."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        answer: _Answer = SimpleQueue()
        self._queue.put((work, answer))
        if self._is_ended:
            self._do_rest()
        made: T
        made, error = answer.get()
        if error is not None:
            raise error
        return made

    def do_one(self, timeout_s: float) -> bool:
        """Called by the thread that does them: whether there was one, or `wake`, within that time."""
        with suppress(Empty):
            errand = self._queue.get(timeout=timeout_s)
            if errand is not None:
                _do(*errand)
            return True
        return False

    def end(self) -> None:
        """Called by the thread that does them, at last: what comes later is done by who asks for it."""
        self._is_ended = True
        self._do_rest()

    def _do_rest(self) -> None:
        while self.do_one(0.0):
            pass

    def wake(self) -> None:
        """`do_one` returns."""
        self._queue.put(None)


def _do(work: Callable[[], Any], answer: _Answer) -> None:
    try:
        answer.put((work(), None))
    except BaseException as error:  # noqa: BLE001 # it is raised where it was asked for
        answer.put((None, error))
