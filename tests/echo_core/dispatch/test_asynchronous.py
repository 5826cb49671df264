"""Tasks of event loops that wait: for events of a sink, for others on a channel, for a channel."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable
from dataclasses import replace

import pytest

import echo_core as echo
from echo_core.dispatch.asynchronous import in_thread
from echo_core.roster.ids import ChannelId, Member
from echo_core.transports.addresses import TcpAddress
from tests.echo_core.census import until
from tests.echo_core.channel_events import Other, Plain
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


# ---------------------------------------------------------------------------
# What is cancelled loses nothing


def test_a_timeout_around_anext_does_not_end_the_iterator(channel: echo.Channel[Plain]) -> None:
    """What comes afterwards is still had from it, and so is what was queued."""

    async def run() -> list[int]:
        events = aiter(sink)
        for _ in range(3):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.001):
                    await anext(events)
        source.submit(Plain(1, 1.0))
        source.submit(Plain(2, 1.0))
        sink.close()
        return [event.id async for event in events]

    sink, source = channel.sink(Plain), channel.source()
    assert asyncio.run(run()) == [1, 2]


def test_a_task_cancelled_in_the_moment_of_an_event_leaves_it_in_the_queue(
    channel: echo.Channel[Plain],
) -> None:
    """Its wake-up is on the way already when it is cancelled."""

    async def run() -> list[int]:
        for i in range(50):
            (task,) = await _waiting(sink, 1)
            source.submit(Plain(i, 1.0))
            for _ in range(i % 4):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                taken.append(await task)
        sink.close()
        return taken + [event.id async for event in sink]

    taken: list[int] = []
    sink, source = channel.sink(Plain), channel.source()
    assert asyncio.run(run()) == list(range(50))


def test_a_task_with_events_enough_lets_others_run(channel: echo.Channel[Plain]) -> None:
    async def run() -> None:
        async def tick() -> None:
            while True:
                ticks.append(1)
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        taken.extend([event.id async for event in sink])
        ticking.cancel()

    ticks: list[int] = []
    taken: list[int] = []
    sink, source = channel.sink(Plain), channel.source()
    for i in range(2000):
        source.submit(Plain(i, 1.0))
    sink.close()
    asyncio.run(run())
    assert taken == list(range(2000))
    assert len(ticks) >= 5


# ---------------------------------------------------------------------------
# Calls that wait


async def _ticks_during(call: Awaitable[object]) -> int:
    """How often another task had its turn meanwhile, also where the call could not do what it was to."""
    ticks: list[None] = []
    ticking = asyncio.create_task(_tick(ticks))
    with contextlib.suppress(echo.LinkError, echo.TimedOutError):
        await call
    ticking.cancel()
    return len(ticks)


async def _tick(ticks: list[None]) -> None:
    while True:
        ticks.append(None)
        await asyncio.sleep(0.001)


def test_get_async_takes_the_next_event(channel: echo.Channel[Plain]) -> None:
    async def run() -> tuple[int, int]:
        waiting = asyncio.create_task(sink.get_async(LIMIT_S))
        await asyncio.sleep(0)
        source.submit(Plain(1, 1.0))
        source.submit(Plain(2, 1.0))
        return (await waiting).id, (await sink.get_async(None)).id

    sink, source = channel.sink(Plain), channel.source()
    assert asyncio.run(run()) == (1, 2)


def test_get_async_ends_with_its_time(channel: echo.Channel[Plain]) -> None:
    sink = channel.sink(Plain)
    with pytest.raises(echo.TimedOutError, match=r"Expected an event on `x` within 0\.01 s"):
        asyncio.run(sink.get_async(0.01))
    with pytest.raises(echo.ChannelError, match="a time of at least 0"):
        asyncio.run(sink.get_async(-1))


def test_get_async_says_that_a_sink_is_closed_or_has_a_handler(channel: echo.Channel[Plain]) -> None:
    sink = channel.sink(Plain)
    sink.close()
    with pytest.raises(echo.ClosedError, match="that on `x` is closed"):
        asyncio.run(sink.get_async())
    with pytest.raises(echo.ChannelError, match="a sink without a handler"):
        asyncio.run(channel.sink(Plain, print).get_async())


def test_wait_matched_leaves_the_loop_free(pair: tuple[echo.Node, echo.Node]) -> None:
    """At both ends, until there are as many as were asked for."""

    async def run() -> None:
        with here.create_channel("x", Plain) as channel:
            opened = await there.open_channel_async(channel.id, timeout_s=LIMIT_S)
            source, sink = channel.source(), opened.sink(Plain)
            await source.wait_matched_async(1, LIMIT_S)
            await sink.wait_matched_async(1, LIMIT_S)
            second = asyncio.create_task(source.wait_matched_async(2, LIMIT_S))
            await asyncio.sleep(0)
            opened.sink(Plain)
            await second

    here, there = pair
    asyncio.run(run())


def test_a_wait_ends_with_its_time(channel: echo.Channel[Plain]) -> None:
    source, sink = channel.source(), channel.sink(Plain)
    with pytest.raises(echo.TimedOutError, match=r"2 sinks for `Plain` on `x`, there are 1 within 0\.01 s"):
        asyncio.run(source.wait_matched_async(2, timeout_s=0.01))
    with pytest.raises(echo.TimedOutError, match=r"2 sources for a sink on `x`, there are 1 within 0\.01 s"):
        asyncio.run(sink.wait_matched_async(2, timeout_s=0.01))


def test_a_wait_ends_with_what_it_waits_for(channel: echo.Channel[Plain]) -> None:
    async def run() -> None:
        waiting = asyncio.create_task(source.wait_matched_async(timeout_s=None))
        await asyncio.sleep(0)
        source.close()
        await waiting

    source = channel.source()
    with pytest.raises(echo.ClosedError, match="a source that is closed"):
        asyncio.run(asyncio.wait_for(run(), LIMIT_S))


def test_a_wait_that_is_cancelled_leaves_nothing_behind(channel: echo.Channel[Plain]) -> None:
    async def run() -> None:
        for _ in range(3):
            waiting = asyncio.create_task(source.wait_matched_async(timeout_s=None))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    source = channel.source()
    threads = threading.active_count()
    asyncio.run(run())
    assert threading.active_count() == threads
    source.close()


def test_sinks_that_cannot_take_a_type_end_the_wait(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x")
    channel.sink(Other, match="shape")
    with pytest.raises(echo.IncompatibleError, match="Plain"):
        asyncio.run(channel.source(Plain).wait_matched_async())


def test_flush_leaves_the_loop_free_until_handlers_have_all(make_node: MakeNode) -> None:
    def handle(event: Plain) -> None:
        if event.id == 0:
            assert may_go_on.wait(LIMIT_S)
        handled.append(event.id)

    async def release() -> None:
        await asyncio.sleep(0.01)
        may_go_on.set()

    async def run() -> int:
        source.submit(Plain(0, 1.0))
        source.submit(Plain(1, 1.0))
        releasing = asyncio.create_task(release())
        ticks = await _ticks_during(source.flush_async(LIMIT_S))
        await releasing
        return ticks

    handled: list[int] = []
    may_go_on = threading.Event()
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    there.open_channel(channel.id, timeout_s=LIMIT_S).sink(Plain, handle)
    source = channel.source()
    source.wait_matched(timeout_s=LIMIT_S)
    assert asyncio.run(run()) > 1
    assert handled == [0, 1]


def test_flush_says_who_has_not_answered_in_time(make_node: MakeNode) -> None:
    def handle(_: Plain) -> None:
        assert may_go_on.wait(LIMIT_S)

    may_go_on = threading.Event()
    here, there = make_node(transports=["unix"]), make_node(name="slow", transports=["unix"])
    channel = here.create_channel("x", Plain)
    there.open_channel(channel.id, timeout_s=LIMIT_S).sink(Plain, handle)
    source = channel.source()
    source.wait_matched(timeout_s=LIMIT_S)
    source.submit(Plain(0, 1.0))
    with pytest.raises(echo.TimedOutError, match=r"an answer from slow.* within 0\.01 s"):
        asyncio.run(source.flush_async(0.01))
    may_go_on.set()
    asyncio.run(source.flush_async(LIMIT_S))


# ---------------------------------------------------------------------------
# Opening


def test_open_channel_leaves_the_loop_free(make_node: MakeNode) -> None:
    """Here until its time is over, as whoever listens there accepts connections and never says a word."""

    node, creator = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        id_ = ChannelId.parse(creator.create_channel("x").id)
        member = Member(id_.members[0].node, (TcpAddress(*server.getsockname()),))
        silent = str(replace(id_, members=(member,)))
        assert asyncio.run(_ticks_during(node.open_channel_async(silent, timeout_s=0.1))) > 1


def test_a_channel_opened_for_a_task_that_is_gone_is_closed_again(make_node: MakeNode) -> None:
    async def run() -> None:
        opening = asyncio.create_task(there.open_channel_async(channel.id, timeout_s=LIMIT_S))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    with here.create_channel("x", Plain) as channel:
        asyncio.run(run())
        left = threading.Event()
        watch = channel.watch(lambda told: left.set() if isinstance(told, echo.PeerLeft) else None)
        assert left.wait(LIMIT_S) or not there.statistics().channels
        watch.close()


def test_a_task_that_is_cancelled_waits_for_no_channel_any_more(make_node: MakeNode) -> None:
    """Its creator is still to come; no thread goes on trying."""

    async def run() -> None:
        opening = asyncio.create_task(node.open_channel_async(unknown, wait=True))
        while not _threads_that_open():
            await asyncio.sleep(0.001)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    node, creator = make_node(transports=["unix"]), make_node(transports=["unix"])
    with creator.create_channel("x") as channel:
        unknown = channel.id
    asyncio.run(run())
    until(lambda: not _threads_that_open(), "the thread to end", LIMIT_S)


def _threads_that_open() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "echo-await"]


@pytest.mark.parametrize("is_early", [True, False])
def test_what_is_done_for_a_task_that_is_gone_is_undone(is_early: bool) -> None:
    """Also where it was done in the moment in which the task is cancelled."""

    async def run() -> None:
        waiting = asyncio.create_task(in_thread(work, undo=undo))
        await asyncio.sleep(0)
        is_awaited.set()
        assert is_early or is_done.wait(LIMIT_S)  # the loop does not hear of it before the task is cancelled
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        may_end.set()

    def work() -> int:
        assert (may_end if is_early else is_awaited).wait(LIMIT_S)
        is_done.set()
        return 7

    def undo(result: int) -> None:
        undone.append(result)
        is_undone.set()

    undone: list[int] = []
    is_awaited, may_end = threading.Event(), threading.Event()
    is_done, is_undone = threading.Event(), threading.Event()
    asyncio.run(run())
    assert is_undone.wait(LIMIT_S)
    assert undone == [7]


def test_public_calls_of_the_default_node_wait_without_blocking() -> None:
    async def run() -> str:
        with echo.create_channel("x", Plain) as channel, await echo.open_channel_async(channel.id) as same:
            return same.name

    assert asyncio.run(run()) == "x"
