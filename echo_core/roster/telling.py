"""Telling: what components asked to be told of a change, by one thread that does nothing else.

A component may take its time, so no thread tells that others wait for: those that read links, let newcomers
in, or submit. There is one in each process in which anybody has been told anything. It tells in order, and
not before the change is made.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from echo_core._c import locks
from echo_core.transports.threads import OwnThread, failures_logged, is_ending, log

if TYPE_CHECKING:
    from echo_core._c.locks import Lockable

MAX_TO_TELL = 10_000  # peers cause notices too
Told = Callable[[], object]

_NAME = "echo-notices"
_FAILED = "a handler of notices failed"


class Telling:
    """Of the changes that are made while a lock is held."""

    def __init__(self, lock: Lockable) -> None:
        self.untold = 0  # what was dropped, since whoever is told takes too long
        self._lock = lock
        self._to_tell: deque[Told] = deque()
        self._news: SimpleQueue[None] = (
            SimpleQueue()
        )  # wakes the thread; C, so that no interrupt comes within
        self._thread: threading.Thread | None = None
        self._is_over = False

    def add(self, *told: Told) -> bool:
        """Called with the lock held. What is said at once is told whole or not at all: whether it is."""
        if len(self._to_tell) < MAX_TO_TELL or not told:
            self._to_tell.extend(told)
            return True
        if self.untold == 0:
            log.warning("a handler of notices is too slow: %d wait for it, more are dropped", MAX_TO_TELL)
        self.untold += len(told)
        return False

    def begin(self) -> None:
        """Called after each change; what an interrupt or a shortage keeps it from, the next call does."""
        if self._to_tell and self._news.empty() and self._has_thread():
            self._news.put(None)

    def _has_thread(self) -> bool:
        if self._thread is not None:
            return True
        with locks.Held(self._lock):
            if self._thread is None:
                thread = OwnThread(self._work, _NAME)
                try:
                    thread.start()
                except RuntimeError as error:  # it is told with a later change
                    if not is_ending():
                        log.error("no thread to tell of notices: %s", error)
                    return False
                self._thread = thread
        return True

    def _work(self) -> None:
        while not self._is_over:
            self._news.get()
            self._tell_all()

    def _tell_all(self) -> None:
        while not self._is_over and (told := self._next()) is not None:
            tell(told)

    def _next(self) -> Told | None:
        """Waits for the end of the change that it is about."""
        with locks.Held(self._lock):
            return self._to_tell.popleft() if self._to_tell else None

    def settle(self, timeout_s: float) -> None:
        """Waits until all is told that is said by now; not within a handler."""
        if self._thread is None or self._thread is threading.current_thread():
            return
        is_told = threading.Event()
        with locks.Held(self._lock):
            self._to_tell.append(is_told.set)
        self.begin()
        is_told.wait(timeout_s)

    def abandon(self) -> None:
        """In a forked child: what was to be told is the parent's, and a handler that has forked ends it."""
        self._is_over = True
        self._to_tell.clear()


def tell(told: Told) -> None:
    """What it raises is logged if it is a failure, and others are told all the same."""
    with failures_logged(_FAILED):
        told()
