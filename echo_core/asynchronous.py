"""`async for` over a queue: the loop is asked only when the queue is empty, so many events cost one wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from echo_core import _links
from echo_core.errors import ClosedError


async def events_of(queue: _links.Queue) -> AsyncIterator[Any]:
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


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, _finish, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _finish(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
