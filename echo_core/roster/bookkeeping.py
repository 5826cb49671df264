"""The one lock of a process's nodes, channels, sources and sinks, and what is said once it is released.

Events pass it by: it guards who is connected to whom. One lock for all nodes, since nodes of one process hand
events to each other directly. What components asked to be told is told by a thread of its own (telling.py).
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from echo_core._c import links, locks
from echo_core.dispatch.asynchronous import Bell
from echo_core.errors import ChannelError, TimedOutError
from echo_core.roster.telling import Telling, Told
from echo_core.values.waits import Wait, Waits


class _Free:
    """What is entered as if it were a lock, but shuts nobody out."""

    __slots__ = ("release",)

    def __init__(self, release: Callable[[], object]) -> None:
        self.release = release

    def acquire(self) -> None:
        """There is nothing to wait for."""


class Bookkeeping:
    """The lock, who sleeps until something changes, and what is still to be told."""

    def __init__(self) -> None:
        self._begin()

    def renew(self) -> None:
        """In a forked child: whoever held the lock is not here, nor who tells."""
        self._telling.abandon()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._asleep: set[Callable[[], None]] = set()  # what wakes them; who leaves takes out his own
        self._telling = Telling(self._lock)
        self._changing = locks.Changing(self._lock, self._asleep, self._telling.begin)

    def changing(self) -> locks.Held:
        """For `with`: holds the lock; when the outermost ends, waiters look again and components are told.

        Ctrl-C keeps no waiter from that; what is not told because of it is told with the next change.
        """
        return self._changing()

    def freeing(self, free: Callable[[], object]) -> locks.Held:
        """For `with`: when it ends, in whatever way, `free` is called, of C, and waiters look again.

        No interrupt comes between. Not with the books open.
        """
        lock: Any = _Free(free)  # pyright takes what `free` is for a method without self
        return locks.Changing(lock, self._asleep, self._telling.begin)()

    def tell_later(self, *told: Told) -> bool:
        """What is said at once is told whole or not at all: whether it is."""
        return self._telling.add(*told)

    @property
    def untold(self) -> int:
        """What was not told, since whoever is told takes too long."""
        return self._telling.untold

    def settle(self, timeout_s: float) -> None:
        """Waits until components are told what is to be told by now. Not with the books open."""
        self._telling.settle(timeout_s)

    def wait_for(
        self,
        is_met: Callable[[], bool],
        timeout_s: float | None,
        what: Callable[[], str],
        *,
        asked_s: float | None = None,
    ) -> None:
        """Blocks until `is_met`, looking again at every change; TimedOutError says `what` was waited for.

        `asked_s`: the time that is told, where `timeout_s` is what others have left of it.
        """
        limit = math.inf if timeout_s is None else time.monotonic() + timeout_s
        sleep = threading.Lock()
        try:
            while not self._is_met(is_met, sleep):
                self.demand_thread_that_waits(what)
                left_s = limit - time.monotonic()
                if left_s <= 0:
                    raise _late(what, timeout_s if asked_s is None else asked_s)
                sleep.acquire(timeout=min(left_s, threading.TIMEOUT_MAX))
        finally:
            self._asleep.discard(sleep.release)

    @staticmethod
    def demand_thread_that_waits(what: Callable[[], str]) -> None:
        """ChannelError: a handler asks, whose thread reads what is waited for. Also for who changes something
        first, and has to know before.
        """
        if links.is_dispatching():
            msg = f"Expected a thread that can wait for {what()}, got the one that reads the link"
            raise ChannelError(msg, hint="handlers run there; give the sink a thread with own_thread=True")

    def _is_met(self, is_met: Callable[[], bool], sleep: threading.Lock) -> bool:
        """If not, the next change ends the sleep; what is in `_asleep` is locked."""
        with locks.Held(self._lock):
            sleep.acquire(blocking=False)  # it is locked already, unless a change came when time was up
            self._asleep.add(sleep.release)  # before the look: what `freeing` frees is free at any moment
            return is_met()

    def wait_for_all(self, waits: Waits, timeout_s: float | None, *, asked_s: float | None = None) -> None:
        """Blocks until each of them is met, in turn; there is one limit of time for all.

        `asked_s`: as above.
        """
        asked_s = timeout_s if asked_s is None else asked_s
        limit = None if timeout_s is None else time.monotonic() + timeout_s
        with closing(waits):
            for wait in waits:
                left_s = None if limit is None else max(0.0, limit - time.monotonic())
                self.wait_for(wait.is_met, left_s, wait.what, asked_s=asked_s)

    async def await_all(self, waits: Waits, timeout_s: float | None) -> None:
        """Likewise in an event loop, which goes on with other tasks meanwhile."""
        limit = asyncio.get_running_loop().time() + (math.inf if timeout_s is None else timeout_s)
        with closing(waits):
            for wait in waits:
                try:
                    async with asyncio.timeout_at(limit if limit < math.inf else None):
                        await self._await(wait)
                except TimeoutError:
                    raise _late(wait.what, timeout_s) from None

    async def _await(self, wait: Wait) -> None:
        bell = Bell()
        try:
            while not self._rings_if_not_met(wait.is_met, bell):
                await bell.rung()
        finally:
            self._asleep.discard(bell.ring)

    def _rings_if_not_met(self, is_met: Callable[[], bool], bell: Bell) -> bool:
        with locks.Held(self._lock):
            self._asleep.add(bell.ring)
            return is_met()


def _late(what: Callable[[], str], timeout_s: float | None) -> TimedOutError:
    return TimedOutError(f"Expected {what()} within {timeout_s} s")


books = Bookkeeping()
os.register_at_fork(after_in_child=books.renew)
