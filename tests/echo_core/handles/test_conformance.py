"""What holds whatever carries the events: every test runs over every transport."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from echo_core.values.backlog import WhenFull
from tests.echo_core.census import joins_in_process
from tests.echo_core.channel_events import (
    Misfit,
    Other,
    Plain,
    Reading1,
    Reading2,
    Reading3,
    Story,
    plain,
    reading,
    readings,
    story,
)
from tests.echo_core.conftest import MakeNode

T = TypeVar("T")
Pair = tuple[echo.Node, echo.Node]
LIMIT_S = 30.0


class Collector:
    """A handler that keeps what it is given, for a test that waits for so many."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._arrived = threading.Condition()

    def __call__(self, event: Any) -> None:
        with self._arrived:
            self.events.append(event)
            self._arrived.notify_all()

    def wait(self, count: int) -> list[Any]:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.events) >= count, LIMIT_S), len(self.events)
            return self.events

    def of(self, cls: type[T]) -> list[T]:
        """Of all that has come, what is of a class."""
        return [event for event in list(self.events) if isinstance(event, cls)]

    def wait_for(self, cls: type[T], is_met: Callable[[list[T]], bool] = bool) -> list[T]:
        """What is of a class, once that is what the test waits for."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: is_met(self.of(cls)), LIMIT_S), self.events
            return self.of(cls)


def opened(pair: Pair, *types: type[Any]) -> tuple[echo.Channel[Any], echo.Channel[Any]]:
    """The channel as its creator has it, and as the other node has."""
    created = pair[0].create_channel("test", *types)
    return created, pair[1].open_channel(created.id)


def test_events_arrive_in_order(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    collector = Collector()
    there.sink(Reading1, collector)
    source = here.source(Reading1)
    source.wait_matched()
    for i in range(1000):
        source.submit(Reading1(i, i / 2))
    source.flush(LIMIT_S)
    assert collector.wait(1000) == [Reading1(i, i / 2) for i in range(1000)]


def test_events_go_the_other_way_too(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    collector = Collector()
    here.sink(Reading1, collector)
    source = there.source(Reading1)
    source.wait_matched()
    source.submit(Reading1(7, 1.5))
    assert collector.wait(1) == [Reading1(7, 1.5)]


@pytest.mark.parametrize(
    ("cls", "make"),
    [(Reading1, reading), (Plain, plain), (Story, story)],
    ids=["event", "slots", "varying"],
)
def test_every_kind_of_class_arrives_equal(pair: Pair, cls: type[Any], make: Callable[[int], Any]) -> None:
    here, there = opened(pair)
    sink = there.sink(cls)
    source = here.source(cls)
    source.wait_matched()
    for i in range(50):
        source.submit(make(i))
    for i in range(50):
        event = sink.get(LIMIT_S)
        assert type(event) is cls
        assert event == make(i)


def test_three_versions_share_a_channel(pair: Pair) -> None:
    here, there = opened(pair)
    collectors = {cls: Collector() for cls in (Reading1, Reading2, Reading3)}
    for cls, collector in collectors.items():
        there.sink(cls, collector)
    source = here.source(Reading2)
    source.wait_matched(3)
    source.submit(Reading2("abc", 36.5, 9, 2.0))
    assert collectors[Reading1].wait(1) == [Reading1(9, 36.5)]
    assert collectors[Reading2].wait(1) == [Reading2("abc", 36.5, 9, 2.0)]
    assert collectors[Reading3].wait(1) == [Reading3(36.5, 9)]


@pytest.mark.parametrize("abi", ["s390x", "i386", "m68k"])
@pytest.mark.parametrize("cls", [Reading1, Story])
def test_a_source_of_another_machine_is_understood(pair: Pair, abi: str, cls: type[Any]) -> None:
    here, there = opened(pair)
    sink = there.sink(cls)
    source = here.source(cls, abi=abi)
    source.wait_matched()
    event = story(6) if cls is Story else Reading1(6, 0.5)
    source.submit(event)
    assert sink.get(LIMIT_S) == event


def test_arrays_arrive_as_arrays(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    collector = Collector()
    there.sink(Reading1, collector, batch=True)
    source = here.source(Reading1)
    source.wait_matched()
    sent = readings(50_000)
    source.submit_array(sent)
    source.flush(LIMIT_S)
    assert np.array_equal(np.concatenate(collector.wait(1)), sent)


def test_arrays_arrive_as_events(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    sink = there.sink(Reading1)
    source = here.source(Reading1)
    source.wait_matched()
    source.submit_array(readings(300))
    assert [sink.get(LIMIT_S).id for _ in range(300)] == list(range(300))


def test_events_arrive_as_arrays_of_another_version(pair: Pair) -> None:
    here, there = opened(pair)
    collector = Collector()
    there.sink(Reading1, collector, batch=True)
    source = here.source(Reading2, abi="s390x")
    source.wait_matched()
    for i in range(100):
        source.submit(Reading2("t", i / 2, i))
    source.flush(LIMIT_S)
    assert np.array_equal(np.concatenate(collector.events), readings(100))


def test_a_kept_array_stays_what_it_was(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    collector = Collector()
    there.sink(Reading1, collector, batch=True)
    source = here.source(Reading1)
    source.wait_matched()
    for i in range(30):
        sent = readings(20_000)
        sent["id"] += i
        source.submit_array(sent)
    source.flush(LIMIT_S)
    assert np.array_equal(
        np.concatenate(collector.events)["id"],
        np.concatenate([readings(20_000)["id"] + i for i in range(30)]),
    )


def test_a_loaned_array_needs_no_copy(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    collector = Collector()
    there.sink(Reading1, collector, batch=True)
    source = here.source(Reading1)
    source.wait_matched()
    loaned = source.loan(10_000)
    loaned[:] = readings(10_000)
    source.submit_array(loaned)
    del loaned
    source.flush(LIMIT_S)
    assert np.array_equal(np.concatenate(collector.wait(1)), readings(10_000))


def test_an_array_of_no_records_can_be_loaned_and_brings_nothing(pair: Pair) -> None:
    """As one that was not loaned."""
    here, there = opened(pair, Reading1)
    sink = there.sink(Reading1)
    source = here.source(Reading1)
    source.wait_matched()
    loaned = source.loan(0)
    assert (loaned.shape, loaned.dtype) == ((0,), source.format.dtype)
    source.submit_array(loaned)
    source.submit(Reading1(1, 0.5))
    assert sink.get(LIMIT_S) == Reading1(1, 0.5)
    with pytest.raises(ValueError, match="negative"):
        source.loan(-1)


def test_reflection_takes_whatever_flows(pair: Pair) -> None:
    here, there = opened(pair)
    collector = Collector()
    there.sink(None, collector)
    sources: list[echo.Source[Any]] = [here.source(Reading1), here.source(Other), here.source(Story)]
    for source, event in zip(sources, (Reading1(1, 2.0), Other("x"), story(3)), strict=True):
        source.wait_matched()
        source.submit(event)
        source.flush(LIMIT_S)
    first, second, third = collector.wait(3)
    assert (first.id, first.temperature, second.id, third.title) == (1, 2.0, "x", "title 3")


def test_several_types_share_a_channel(pair: Pair) -> None:
    here, there = opened(pair, Reading1, Other)
    numbers, texts = Collector(), Collector()
    there.sink(Reading1, numbers)
    there.sink(Other, texts)
    here_numbers, here_texts = here.source(Reading1), here.source(Other)
    here_numbers.wait_matched()
    here_texts.wait_matched()
    here_numbers.submit(Reading1(1, 1.0))
    here_texts.submit(Other("one"))
    assert numbers.wait(1) == [Reading1(1, 1.0)]
    assert texts.wait(1) == [Other("one")]


def test_a_sink_that_cannot_be_reached_is_told(pair: Pair) -> None:
    here, there = opened(pair)
    notices = Collector()
    there.watch(notices)
    source = here.source(Reading1)
    sink = there.sink(Misfit)
    with pytest.raises(echo.IncompatibleError, match="id"):
        sink.wait_matched(1, LIMIT_S)
    with pytest.raises(echo.IncompatibleError, match="id"):
        source.wait_matched(1, LIMIT_S)
    assert not sink.refusals[0].is_accepted
    books.settle(LIMIT_S)
    told = [notice for notice in notices.events if isinstance(notice, echo.Unreachable)]
    assert len(told) == 1


def test_a_type_that_the_channel_was_not_declared_with_is_refused_at_once(pair: Pair) -> None:
    _, there = opened(pair, Reading1)
    with pytest.raises(echo.IncompatibleError, match="test"):
        there.sink(Other)
    with pytest.raises(echo.IncompatibleError, match="test"):
        there.source(Other)


def test_a_wrong_key_is_refused(pair: Pair) -> None:
    from echo_core.roster.ids import ChannelId

    created = pair[0].create_channel("secret")
    real = ChannelId.parse(created.id)
    wrong = ChannelId(real.uid, bytes(16), real.members)
    with pytest.raises(echo.RefusedError, match="key") as caught:
        pair[1].open_channel(str(wrong))
    assert caught.value.code == "wrong_key"


def test_a_sink_can_be_iterated(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    sink = there.sink(Plain)
    source = here.source(Plain)
    source.wait_matched()
    for i in range(200):
        source.submit(Plain(i, 0.5))
    source.flush(LIMIT_S)
    sink.close()
    assert [event.id for event in sink] == list(range(200))


def test_a_sink_can_be_iterated_asynchronously(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    sink = there.sink(Plain)
    source = here.source(Plain)
    source.wait_matched()

    async def first(count: int) -> list[int]:
        taken: list[int] = []
        async for event in sink:
            taken.append(event.id)
            if len(taken) == count:
                break
        return taken

    def submit() -> None:
        for i in range(200):
            source.submit(Plain(i, 0.5))

    async def both() -> list[int]:
        sending = asyncio.to_thread(submit)
        taken, _ = await asyncio.gather(asyncio.wait_for(first(200), LIMIT_S), sending)
        return taken

    assert asyncio.run(both()) == list(range(200))


def test_a_handler_on_its_own_thread_may_be_slow(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    quick, slow, go = Collector(), Collector(), threading.Event()

    def wait(event: Plain) -> None:
        assert go.wait(LIMIT_S)
        slow(event)

    there.sink(Plain, wait, own_thread=True)
    there.sink(Plain, quick)
    source = here.source(Plain)
    source.wait_matched(2)
    for i in range(10):
        source.submit(Plain(i, 0.0))
    assert len(quick.wait(10)) == 10
    assert not slow.events
    go.set()
    assert len(slow.wait(10)) == 10


def _story(id_: int, size: int) -> Story:
    return Story(id_, "", bytes(size), np.zeros(0, np.float32), [])


def test_an_event_that_is_too_large_for_its_receiver_is_refused_at_its_source(
    make_node: MakeNode, transport: str
) -> None:
    """At once, and again and again, whatever way it would take; what fits arrives."""
    if transport == "process":
        pytest.skip("events by reference are not received")
    here = make_node(transports=[transport]).create_channel("test", Story)
    limits = echo.Limits(payload_bytes=1 << 20)
    there = make_node(transports=[transport], limits=limits).open_channel(here.id)
    sink, source = there.sink(Story), here.source(Story)
    source.wait_matched()
    for _ in range(70):  # more than the memory that a node shares
        with pytest.raises(echo.EncodeError, match="at most 1048576 bytes"):
            source.submit(_story(1, 1 << 20))
    source.submit(_story(2, (1 << 20) - 1000))
    assert sink.get(LIMIT_S).id == 2
    statistics = source.statistics()
    assert (statistics.dropped, statistics.events) == (70, 71)


def test_a_handler_that_fails_stops_nobody(make_node: MakeNode, transport: str, caplog: Any) -> None:
    failures: list[tuple[Any, BaseException]] = []
    here = make_node(transports=[transport]).create_channel("test", Plain)

    def note(sink: echo.Sink[Any], error: BaseException) -> None:
        failures.append((sink, error))

    there = make_node(transports=[transport], on_failure=note).open_channel(here.id)

    def fail(event: Plain) -> None:
        raise ValueError(event.id)

    collector = Collector()
    sink = there.sink(Plain, fail)
    there.sink(Plain, collector)
    source = here.source(Plain)
    source.wait_matched(2)
    source.submit(Plain(1, 0.0))
    source.submit(Plain(2, 0.0))
    assert len(collector.wait(2)) == 2
    source.flush(LIMIT_S)
    assert [(failed, type(error), error.args) for failed, error in failures] == [
        (sink, ValueError, (1,)),
        (sink, ValueError, (2,)),
    ]
    assert sink.statistics().failures == 2
    assert "failed" in caplog.text


def test_departures_are_noticed(pair: Pair) -> None:
    """Of a source, also where others stay; and of a process, which said goodbye."""
    here, there = opened(pair, Plain)
    notices = Collector()
    here.watch(notices)
    ours = here.source(Plain)
    there.sink(Plain, Collector())
    first, second = there.source(Plain, name="first"), there.source(Plain, name="second")
    here.sink(Plain, Collector()).wait_matched(3, LIMIT_S)
    ours.wait_matched(2, LIMIT_S)
    first.close()
    assert [closed.name for closed in notices.wait_for(echo.SourceClosed)] == ["first"]
    assert (notices.of(echo.PeerLeft), second.is_closed) == ([], False)
    there.close()
    closed = notices.wait_for(echo.SourceClosed, lambda told: len(told) == 2)
    came = {opened.name: opened.peer for opened in notices.of(echo.SourceOpened)}
    assert [(told.name, told.peer) for told in closed] == [(name, came[name]) for name in ("first", "second")]
    _until(lambda: ours.sinks == 1)  # the one that is here
    if joins_in_process(pair[0]):
        assert not notices.of(echo.PeerLeft)
    else:
        [left] = notices.wait_for(echo.PeerLeft)
        assert (left.peer, left.reason) == (came["first"], "")


def test_what_is_closed_says_so(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    source, sink = here.source(Plain), there.sink(Plain)
    source.wait_matched()
    source.close()
    with pytest.raises(echo.ClosedError):
        source.submit(Plain(1, 1.0))
    sink.close()
    with pytest.raises(echo.ClosedError):
        sink.get(LIMIT_S)
    there.close()
    with pytest.raises(echo.ClosedError):
        there.sink(Plain)


def test_sinks_come_and_go(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    source = here.source(Plain)
    for round_ in range(5):
        collector = Collector()
        sink = there.sink(Plain, collector)
        source.wait_matched()
        source.submit(Plain(round_, 0.0))
        assert [event.id for event in collector.wait(1)] == [round_]
        sink.close()
        echo_of_close = there.sink(None, Collector())  # its ATTACH stands behind the other's
        echo_of_close.close()
        _until(lambda: source.sinks == 0)


def test_statistics_count_what_happened(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    collector = Collector()
    sink = there.sink(Plain, collector)
    source = here.source(Plain)
    source.wait_matched()
    for i in range(100):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    collector.wait(100)
    sent, received = source.statistics(), sink.statistics()
    assert (sent.events, sent.dropped, received.events, received.lost) == (100, 0, 100, 0)
    assert received.size_bytes == 100 * echo.format_of(Plain).size_bytes
    assert (received.sources, sent.local_sinks + sent.remote_sinks) == (1, 1)
    assert here.statistics().sources == 1


def test_many_channels_share_a_link(pair: Pair) -> None:
    channels = [opened(pair, Plain) for _ in range(50)]
    collectors = [Collector() for _ in channels]
    for (_, there), collector in zip(channels, collectors, strict=True):
        there.sink(Plain, collector)
    for i, (here, _) in enumerate(channels):
        source = here.source(Plain)
        source.wait_matched()
        source.submit(Plain(i, 0.0))
    for i, collector in enumerate(collectors):
        assert [event.id for event in collector.wait(1)] == [i]
    assert len(pair[0].statistics().links) <= 1


def test_a_drop_is_counted_on_both_sides_and_told_on_the_source_s(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    notices = Collector()
    here.watch(notices)
    sink = there.sink(Plain, backlog=echo.Backlog(events=10, when_full="drop_newest"))
    source = here.source(Plain)
    source.wait_matched()
    for i in range(30):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    assert [sink.get(LIMIT_S).id for _ in range(10)] == list(range(10))
    assert sink.statistics().dropped == 20
    _until(lambda: source.statistics().dropped_at_sinks == 20)
    lost = notices.wait_for(echo.EventsLost, lambda told: sum(each.events for each in told) == 20)
    assert {each.source for each in lost} == {"Plain"}
    for _ in range(15):
        source.submit(Plain(0, 0.0))
    source.close()
    notices.wait_for(echo.EventsLost, lambda told: sum(each.events for each in told) == 25)


def test_the_oldest_are_dropped_where_that_is_the_policy(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    sink = there.sink(Plain, backlog=echo.Backlog(events=10, when_full="drop_oldest"))
    source = here.source(Plain)
    source.wait_matched()
    for i in range(30):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    assert [sink.get(LIMIT_S).id for _ in range(10)] == list(range(20, 30))
    assert sink.statistics().dropped == 20


@pytest.mark.parametrize("when_full", ["pace", "block"])
def test_a_sink_that_reads_paces_its_source_and_loses_nothing(pair: Pair, when_full: WhenFull) -> None:
    """However small its queue is; what is read is in order."""
    here, there = opened(pair, Plain)
    sink = there.sink(Plain, backlog=echo.Backlog(events=10, when_full=when_full, timeout_s=LIMIT_S))
    source = here.source(Plain, backlog=echo.Backlog(events=100, when_full=when_full, timeout_s=LIMIT_S))
    source.wait_matched()

    def submit_all() -> None:
        for i in range(5000):
            source.submit(Plain(i, 0.0))

    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(submit_all)
        assert [sink.get(LIMIT_S).id for _ in range(5000)] == list(range(5000))
        submitting.result(LIMIT_S)
    source.flush(LIMIT_S)
    told = source.statistics()
    assert (told.dropped, told.dropped_at_sinks, told.unconfirmed) == (0, 0, 0)
    assert told.confirmed == (5000 if told.remote_sinks else 0)


def test_a_sink_that_does_not_read_delays_its_source_once(pair: Pair) -> None:
    """By default for a tenth of a second; then the oldest are dropped, and counted."""
    here, there = opened(pair, Plain)
    few = echo.Backlog(events=10)
    sink = there.sink(Plain, backlog=few)
    source = here.source(Plain, backlog=few)
    source.wait_matched()
    waited: list[float] = []
    for i in range(1000):
        begun = time.monotonic()
        source.submit(Plain(i, 0.0))
        waited.append(time.monotonic() - begun)
    assert 0.1 <= max(waited) < 5
    assert sum(waited) - max(waited) < max(waited) + 2  # the others did not wait
    told = source.statistics()
    assert told.dropped + told.dropped_at_sinks == 1000 - sink.statistics().queued_events - told.queued_events
    got = [sink.get(LIMIT_S).id for _ in range(10)]
    while got[-1] != 999:
        got.append(sink.get(LIMIT_S).id)
    assert got == sorted(got)


def test_a_sink_that_does_not_read_holds_up_neither_other_sinks_nor_other_channels(pair: Pair) -> None:
    """Between the same two nodes; and what it does not read waits at its source."""
    here, there = opened(pair, Plain)
    stopped = there.sink(Plain, backlog=echo.Backlog(events=10))
    handled: list[int] = []
    there.sink(Plain, lambda event: handled.append(event.id))
    stopping = pair[0].create_channel("stop", Plain)
    stops = pair[1].open_channel(stopping.id).sink(Plain)
    stop = stopping.source(Plain)
    stop.wait_matched()
    source = here.source(Plain, backlog=echo.Backlog(events=10))
    source.wait_matched(2)
    for i in range(1000):
        source.submit(Plain(i, 0.0))
        if i % 100 == 50:
            stop.submit(Plain(i, 1.0))
            assert stops.get(LIMIT_S).id == i
    assert stopped.statistics().queued_events <= 10
    assert [stopped.get(LIMIT_S).id for _ in range(10)]


@pytest.mark.parametrize("when_full", ["drop_oldest", "drop_newest"])
def test_every_event_of_an_array_is_got_or_counted(pair: Pair, when_full: WhenFull) -> None:
    """A sink of arrays drops arrays; what is bounded and counted are their events."""
    here, there = opened(pair, Reading1)
    notices = Collector()
    here.watch(notices)
    backlog = echo.Backlog(events=3000, when_full=when_full, timeout_s=0.01)
    sink = there.sink(Reading1, batch=True, backlog=backlog)
    source = here.source(Reading1)
    source.wait_matched()
    for _ in range(50):
        source.submit_array(readings(1000))
    source.flush(LIMIT_S)
    sink.close()
    queued = sink.statistics().queued_events
    arrays = list(sink)
    got, dropped = sum(map(len, arrays)), sink.statistics().dropped
    assert 0 < got <= max(3000, len(arrays[0]))
    assert got == queued
    assert got + dropped == source.statistics().events == 50_000
    _until(lambda: source.statistics().dropped_at_sinks == dropped)
    while pair[0].statistics().links and lost_by(notices.events) < dropped:
        notices.wait(len(notices.events) + 1)
    books.settle(LIMIT_S)
    assert lost_by(notices.events) in {0, dropped}


def stories(size_bytes: int) -> list[Any]:
    return [Story(i, "", b"", np.full(size_bytes // 4, i, "f4"), []) for i in range(20)]


def others(size_bytes: int) -> list[Any]:
    return [Other(f"{i}" + "x" * size_bytes) for i in range(20)]


@pytest.mark.parametrize("size_bytes", [800, 200_000])
@pytest.mark.parametrize("make", [stories, others])
def test_what_waits_is_bounded_by_bytes_also_where_events_vary(
    pair: Pair, make: Callable[[int], list[Any]], size_bytes: int
) -> None:
    """One is taken when it is alone; all that have no room are counted."""
    here, there = opened(pair)
    events = make(80_000)
    cls: type[Any] = events[0].__class__
    sink = there.sink(cls, backlog=echo.Backlog(size_bytes=size_bytes, when_full="drop_newest"))
    source = here.source(cls)
    source.wait_matched()
    for event in events:
        source.submit(event)
    source.flush(LIMIT_S)
    room = max(1, size_bytes // 80_000)
    kept = sink.statistics()
    assert kept.queued_events == room
    assert kept.queued_bytes == pytest.approx(room * 80_000, rel=0.01)
    assert [sink.get(LIMIT_S) for _ in range(room)] == events[:room]
    assert (kept.dropped, sink.statistics().queued_bytes) == (20 - room, 0)
    _until(lambda: source.statistics().dropped_at_sinks == 20 - room)


def lost_by(notices: list[Any]) -> int:
    return sum(notice.events for notice in notices if isinstance(notice, echo.EventsLost))


def _until(is_met: Callable[[], bool]) -> None:
    """What another thread will do soon; the condition is looked at whenever the books change."""
    books.wait_for(is_met, LIMIT_S, lambda: "the other side to be told")
