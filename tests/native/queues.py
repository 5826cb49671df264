"""Queues for tests, and what happens to who waits at one."""

from __future__ import annotations

import select
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from echo_core._c.links import DROP_NEWEST, Queue


def queue(
    max_events: int = 8, max_bytes: int = 1 << 20, policy: int = DROP_NEWEST, timeout_ns: int = 0
) -> Queue:
    return Queue(max_events=max_events, max_bytes=max_bytes, policy=policy, timeout_ns=timeout_ns)


def is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def in_thread(function: Any, *args: Any) -> Any:
    """A future; the thread ends with the test."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function, *args)
    pool.shutdown(wait=False)
    return future


class Token:
    """Something that a weak reference can follow."""


class Interrupted(BaseException):
    """What the handler of a signal raises."""


def demand_interrupt(call: Callable[..., object], *arguments: object) -> None:
    """A signal ends the wait in the call; not the first one, for the call may not wait yet."""
    signals: list[int] = []

    def interrupt(number: int, _: object) -> None:
        signals.append(number)
        if len(signals) == 3:
            raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):  # noqa: PT012 - the signals come however slow the machine is
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            call(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
