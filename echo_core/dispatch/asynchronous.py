"""`async for` over a queue: the loop is asked only when the queue is empty, so many events cost one wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from echo_core._c import links
from echo_core.errors import ClosedError


async def events_of(queue: links.Queue) -> AsyncIterator[Any]:
    """Every event until the queue is closed and empty."""
    while True:
        try:
            event = queue.get_nowait()
        except ClosedError:
            return
        if event is None:
            await _readable(queue.fileno())
        else:
            yield event


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
