"""`async for` by several tasks, and by several loops, on one sink."""

from __future__ import annotations

import asyncio
import threading

import pytest

import echo_core as echo
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S


async def _first(sink: echo.Sink[Plain]) -> int:
    async for event in sink:
        return event.id
    return -1


async def _waiting(sink: echo.Sink[Plain], count: int) -> list[asyncio.Task[int]]:
    """Tasks that have begun to wait."""
    tasks = [asyncio.create_task(_first(sink)) for _ in range(count)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


@pytest.fixture
def channel(make_node: MakeNode) -> echo.Channel[Plain]:
    return make_node().create_channel("x", Plain)


def test_tasks_share_the_events_of_a_sink(channel: echo.Channel[Plain]) -> None:
    async def run() -> list[int]:
        tasks = await _waiting(sink, 3)
        for i in range(3):
            source.submit(Plain(i, 1.0))
        return await asyncio.wait_for(asyncio.gather(*tasks), LIMIT_S)

    sink, source = channel.sink(Plain), channel.source()
    assert sorted(asyncio.run(run())) == [0, 1, 2]


def test_a_task_that_is_cancelled_leaves_the_events_to_others(channel: echo.Channel[Plain]) -> None:
    async def run() -> int:
        cancelled, other = await _waiting(sink, 2)
        cancelled.cancel()
        source.submit(Plain(1, 1.0))
        return await asyncio.wait_for(other, LIMIT_S)

    sink, source = channel.sink(Plain), channel.source()
    assert asyncio.run(run()) == 1


def test_all_tasks_see_the_end(channel: echo.Channel[Plain]) -> None:
    async def run() -> list[int]:
        tasks = await _waiting(sink, 2)
        sink.close()
        return await asyncio.wait_for(asyncio.gather(*tasks), LIMIT_S)

    sink = channel.sink(Plain)
    assert asyncio.run(run()) == [-1, -1]


def test_loops_share_the_events_of_a_sink(channel: echo.Channel[Plain]) -> None:
    def run() -> None:
        taken.append(asyncio.run(asyncio.wait_for(_first(sink), LIMIT_S)))

    taken: list[int] = []
    sink, source = channel.sink(Plain), channel.source()
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(2):
        source.submit(Plain(i, 1.0))
    for thread in threads:
        thread.join(LIMIT_S)
    assert sorted(taken) == [0, 1]
