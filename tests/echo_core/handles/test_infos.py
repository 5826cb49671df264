"""Which source an event is from, over all transports: what is got, what handlers of two parameters get."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from tests.echo_core.channel_events import Plain, Reading1, Story, plain, reading, readings, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector, Pair, opened

Pairs = list[tuple[Any, echo.EventInfo]]


class PairCollector(Collector):
    """A handler of two parameters."""

    def __call__(self, event: Any, info: echo.EventInfo | None = None) -> None:
        super().__call__((event, info))

    def handle(self, event: Any, info: echo.EventInfo) -> None:
        self(event, info)


@pytest.fixture
def channel(make_node: MakeNode) -> echo.Channel[Plain]:
    return make_node().create_channel("x", Plain)


# ---------------------------------------------------------------------------
# Getting


def test_an_event_comes_with_its_source_process_and_number(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    peers: list[str] = []
    there.watch(lambda notice: peers.append(notice.peer))
    sink = there.sink(Reading1)
    source = here.source(Reading1, name="the left one")
    source.wait_matched()
    for i in range(10):
        source.submit(reading(i))
    got = [sink.get_with_info(LIMIT_S) for _ in range(10)]
    books.settle(LIMIT_S)
    assert [event for event, _ in got] == [reading(i) for i in range(10)]
    assert [info for _, info in got] == [
        echo.EventInfo("the left one", source.id, peers[0], number, is_kept=False) for number in range(10)
    ]
    assert len(bytes.fromhex(source.id)) == 16


def test_an_event_of_this_process_says_so(channel: echo.Channel[Plain]) -> None:
    """Sources without a name have that of their format."""
    sink, source = channel.sink(Plain), channel.source()
    source.submit(plain(1))
    event, info = sink.get_with_info(0)
    assert event == plain(1)
    assert info == echo.EventInfo(source.name, source.id, "this process", 0)


def test_infos_do_not_change(channel: echo.Channel[Plain]) -> None:
    sink, source = channel.sink(Plain), channel.source()
    source.submit(plain(1))
    _, info = sink.get_with_info(0)
    with pytest.raises(FrozenInstanceError):
        info.number = 2  # type: ignore[misc]
    assert len({info, echo.EventInfo(source.name, source.id, "this process", 0)}) == 1


def test_sources_of_one_name_are_told_apart_by_their_ids(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    sink = there.sink(Reading1)
    sources = [here.source(Reading1, name="instrument") for _ in range(2)]
    sources.append(there.source(Reading1, name="instrument"))
    sink.wait_matched(3)
    for source in sources:
        source.wait_matched()
        source.submit(reading(0))
    infos = [sink.get_with_info(LIMIT_S)[1] for _ in range(3)]
    assert {info.source for info in infos} == {"instrument"}
    assert {info.source_id for info in infos} == {source.id for source in sources}
    assert [info.number for info in infos] == [0] * 3


def test_numbers_tell_what_a_sink_has_missed(pair: Pair) -> None:
    """Before it was there, and for want of room."""
    here, there = opened(pair, Story)
    source = here.source(Story)
    for i in range(3):
        source.submit(story(i))
    sink = there.sink(Story, backlog=echo.Backlog(events=2, when_full="drop_oldest"))
    source.wait_matched()
    for i in range(3, 10):
        source.submit(story(i))
    source.flush(LIMIT_S)
    assert [sink.get_with_info(LIMIT_S)[1].number for _ in range(2)] == [8, 9]


def test_a_batch_comes_with_the_number_of_its_first_record(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    sink = there.sink(Reading1, batch=True)
    source = here.source(Reading1)
    source.wait_matched()
    for _ in range(4):
        source.submit_array(readings(100))
    count = 0
    while count < 400:
        array, info = sink.get_with_info(LIMIT_S)
        assert info.number == count
        assert array["id"][0] == count % 100
        count += len(array)


def test_a_task_gets_infos_too(pair: Pair) -> None:
    async def run() -> Pairs:
        first = asyncio.create_task(sink.get_with_info_async(LIMIT_S))
        await asyncio.sleep(0)
        source.submit(reading(0))
        source.submit(reading(1))
        return [await first, await sink.get_with_info_async(LIMIT_S)]

    here, there = opened(pair, Reading1)
    sink, source = there.sink(Reading1), here.source(Reading1)
    source.wait_matched()
    got = asyncio.run(run())
    assert [(event.id, info.number, info.source_id) for event, info in got] == [
        (0, 0, source.id),
        (1, 1, source.id),
    ]


def test_iteration_gives_events_alone(channel: echo.Channel[Plain]) -> None:
    async def first() -> object:
        return await anext(aiter(sink))

    sink, source = channel.sink(Plain), channel.source()
    for i in range(3):
        source.submit(plain(i))
    assert next(iter(sink)) == plain(0)
    assert asyncio.run(first()) == plain(1)
    assert sink.get(0) == plain(2)


def test_getting_with_info_ends_as_get_does(channel: echo.Channel[Plain]) -> None:
    """What is queued when the sink is closed comes with its info."""
    sink, source = channel.sink(Plain), channel.source()
    with pytest.raises(echo.TimedOutError):
        sink.get_with_info(0)
    with pytest.raises(echo.TimedOutError):
        asyncio.run(sink.get_with_info_async(0))
    source.submit(plain(1))
    sink.close()
    assert sink.get_with_info()[1].source_id == source.id
    with pytest.raises(echo.ClosedError, match="nothing is left"):
        sink.get_with_info()
    with pytest.raises(echo.ClosedError, match="nothing is left"):
        asyncio.run(sink.get_with_info_async())
    with pytest.raises(echo.ChannelError, match="without a handler"):
        channel.sink(Plain, print).get_with_info()


# ---------------------------------------------------------------------------
# Handlers


@pytest.mark.parametrize("own_thread", [False, True])
def test_a_handler_of_two_parameters_gets_the_info(pair: Pair, own_thread: bool) -> None:
    here, there = opened(pair, Reading1, Story)
    collector = PairCollector()
    for cls in (Reading1, Story):
        there.sink(cls, collector.handle, own_thread=own_thread)
    fixed, varying = here.source(Reading1), here.source(Story)
    fixed.wait_matched()
    varying.wait_matched()
    for i in range(20):
        fixed.submit(reading(i))
        varying.submit(story(i))
    pairs: Pairs = collector.wait(40)
    for source, cls in ((fixed, Reading1), (varying, Story)):
        mine = [(event.id, info.number, info.source_id) for event, info in pairs if isinstance(event, cls)]
        assert mine == [(i, i, source.id) for i in range(20)]


@pytest.mark.parametrize("own_thread", [False, True])
def test_a_handler_of_two_parameters_gets_it_in_process(
    channel: echo.Channel[Plain], own_thread: bool
) -> None:
    collector = PairCollector()
    channel.sink(Plain, collector.handle, own_thread=own_thread)
    source = channel.source()
    source.submit(plain(0))
    assert collector.wait(1) == [
        (plain(0), echo.EventInfo(source.name, source.id, "this process", 0)),
    ]


def test_a_handler_of_batches_gets_the_info_of_the_first_record(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    collector = PairCollector()
    there.sink(Reading1, collector.handle, batch=True)
    source = here.source(Reading1)
    source.wait_matched()
    source.submit_array(readings(10))
    source.flush(LIMIT_S)
    source.submit_array(readings(10))
    source.flush(LIMIT_S)
    assert [(len(array), info.number) for array, info in collector.wait(2)] == [(10, 0), (10, 10)]


@pytest.mark.parametrize("own_thread", [False, True])
def test_what_a_handler_of_two_parameters_raises_is_counted(
    channel: echo.Channel[Plain], own_thread: bool
) -> None:
    collector = PairCollector()

    def handle(event: Plain, info: echo.EventInfo) -> None:
        collector.handle(event, info)
        if event.id == 0:
            raise LookupError(info)

    sink, source = channel.sink(Plain, handle, own_thread=own_thread), channel.source()
    source.submit(plain(0))
    source.submit(plain(1))
    assert [info.number for _, info in collector.wait(2)] == [0, 1]
    assert sink.statistics().failures == 1


def _two(kept: list[Any]) -> list[Callable[..., object]]:
    """Whatever has to be given two arguments."""

    class Called:
        def __call__(self, event: object, info: object) -> None:
            kept.append((event, info))

        def method(self, event: object, info: object, /) -> None:
            kept.append((event, info))

        @classmethod
        def of_class(cls, event: object, info: object, *, more: int = 0) -> None:
            kept.append((event, info))

    def three(first: object, event: object, info: object, default: int = 0) -> None:
        kept.append((event, info))

    def two(event: object, info: object) -> None:
        kept.append((event, info))

    @functools.wraps(two)
    def wrapper(*arguments: object) -> None:
        kept.append(arguments)

    return [
        two,
        Called(),
        Called().method,
        Called.of_class,
        functools.partial(three, None),
        wrapper,
    ]


def _one(kept: list[Any]) -> list[Callable[..., object]]:
    """Whatever may be given one, built-in functions among them."""

    class Uninspected:
        __signature__ = "none"

        def __call__(self, *arguments: object) -> None:
            kept.extend(arguments)

    def with_default(event: object, kept: list[Any] = kept) -> None:
        kept.append(event)

    def with_all(*arguments: object, **_options: object) -> None:
        kept.extend(arguments)

    return [kept.append, with_default, with_all, Uninspected(), functools.partial(with_default, kept=kept)]


@pytest.mark.parametrize("which", range(6))
def test_whatever_needs_two_arguments_gets_the_info(channel: echo.Channel[Plain], which: int) -> None:
    kept: list[Any] = []
    channel.sink(Plain, _two(kept)[which])
    channel.source().submit(plain(1))
    [(event, info)] = kept
    assert (event, info.number) == (plain(1), 0)


@pytest.mark.parametrize("which", range(5))
def test_whatever_can_do_with_one_gets_the_event_alone(channel: echo.Channel[Plain], which: int) -> None:
    kept: list[Any] = []
    channel.sink(Plain, _one(kept)[which])
    channel.source().submit(plain(1))
    assert kept == [plain(1)]
