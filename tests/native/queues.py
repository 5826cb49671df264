"""Queues for tests, and what happens to who waits at one."""

from __future__ import annotations

import select
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from echo_core._links import DROP_NEWEST, Queue


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


def raise_interrupted(*_: object) -> None:
    raise Interrupted
