"""Waiting in an event loop: for a queue, for a change, for the end of what only a thread can do.

The loop is asked only when a queue is empty, so many events cost one wait. A task that is cancelled has taken
nothing: an event leaves its queue in the step that returns it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, Self, TypeVar

from echo_core._c import links
from echo_core.errors import ChannelError, ClosedError
from echo_core.transports.threads import OwnThread

T = TypeVar("T")
_EVENTS_AT_ONCE = 256  # then other tasks get their turn, however many events are there


class Events:
    """Every event until the queue is closed and empty.

    No generator, which would be over with the first exception: a task that is cancelled in `anext` can go on.
    """

    def __init__(self, queue: links.Queue) -> None:
        self._queue = queue
        self._get_nowait = queue.get_nowait
        self._taken = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self._taken += 1
        if self._taken % _EVENTS_AT_ONCE == 0:
            await asyncio.sleep(0)
        try:
            return await next_event(self._queue, self._get_nowait)
        except ClosedError:
            raise StopAsyncIteration from None


async def next_event(queue: links.Queue, get_nowait: Callable[[], Any]) -> Any:
    """What `get_nowait` of the queue gives; ClosedError at the end, BacklogError if it has failed."""
    while (event := get_nowait()) is None:
        await _readable(_descriptor_of(queue))
    return event


def _descriptor_of(queue: links.Queue) -> int:
    try:
        return queue.fileno()
    except OSError as error:
        msg = f"Expected a descriptor to wait for in the event loop: {error.strerror}"
        raise ChannelError(msg) from error


class Bell:
    """What a task sleeps on. Any thread may call `ring`, which lets no other thread run and never fails."""

    def __init__(self) -> None:
        self._queue = links.Queue(max_events=1, max_bytes=1, policy=links.DROP_NEWEST, timeout_ns=0)
        self.ring: Callable[[], None] = partial(self._queue.put, True)

    async def rung(self) -> None:
        """Returns when it has been rung since the last time."""
        await next_event(self._queue, self._queue.get_nowait)


async def in_thread(work: Callable[[], T], *, undo: Callable[[T], object]) -> T:
    """What `work` returns or raises, in a thread of its own: those of the loop's pool are few.

    A task that is cancelled leaves the thread behind; what comes of it is undone.
    """
    done: Future[T] = Future()
    try:
        OwnThread(partial(_finish_work, done, work, undo), "echo-await").start()
    except RuntimeError as error:
        msg = f"Expected a thread for what the event loop must not wait for: {error}"
        raise ChannelError(msg) from error
    try:
        return await asyncio.wrap_future(done)
    except asyncio.CancelledError:
        if not done.cancel() and done.exception() is None:  # it came while the task was being cancelled
            OwnThread(partial(undo, done.result()), "echo-await").start()
        raise


def _finish_work(done: Future[T], work: Callable[[], T], undo: Callable[[T], object]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - all of it is the task's
        _settle(partial(done.set_exception, error))
        return
    if not _settle(partial(done.set_result, result)):
        undo(result)


def _settle(settle: Callable[[], None]) -> bool:
    """False: nobody waits any longer."""
    try:
        settle()
    except InvalidStateError:
        return False
    return True


# ---------------------------------------------------------------------------
# Descriptors

_Waiting = list[asyncio.Future[None]]

# A loop takes one reader of a descriptor: tasks that wait for the same queue share it.
_waiting: dict[tuple[asyncio.AbstractEventLoop, int], _Waiting] = {}


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    waiting = _waiting.setdefault((loop, descriptor), [])
    if not waiting:
        loop.add_reader(descriptor, _finish, waiting)
    waiting.append(ready)
    try:
        await ready
    finally:
        waiting.remove(ready)
        if not waiting:
            del _waiting[loop, descriptor]
            loop.remove_reader(descriptor)


def _finish(waiting: _Waiting) -> None:
    for ready in waiting:
        if not ready.done():
            ready.set_result(None)
