"""Counts are totals since an object was made: they never fall, and each object counts its own."""

from __future__ import annotations

import gc
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core._c import events
from echo_core.codegen.machine import background
from echo_core.streams.origins import Origin
from tests.echo_core.census import joins_in_process, origin_of, until
from tests.echo_core.channel_events import Plain, Reading1, Reading2, Story, plain, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector, Pair, opened


def tiers(sink: echo.Sink[Any]) -> tuple[int, int]:
    """How many events native code and Python code have made for it."""
    statistics = sink.statistics()
    return statistics.compiled, statistics.interpreted


def submit(source: echo.Source[Any], events: list[Any]) -> None:
    for event in events:
        source.submit(event)
    source.flush(LIMIT_S)


@pytest.mark.parametrize(("cls", "make"), [(Plain, plain), (Story, story)], ids=["slots", "varying"])
def test_each_sink_counts_what_was_decoded_for_it(
    pair: Pair, cls: type[Any], make: Callable[[int], Any]
) -> None:
    """Sinks of one class share a decoder. What comes by reference is not decoded: no lists, no buffers."""
    here, there = opened(pair)
    first = there.sink(cls, Collector())
    source = here.source(cls)
    source.wait_matched()
    submit(source, [make(i) for i in range(5)])
    second = there.sink(cls, Collector())
    source.wait_matched(2)
    submit(source, [make(i) for i in range(5)])
    is_decoded = cls is Story or not joins_in_process(pair[0])
    assert [sum(tiers(sink)) for sink in (first, second)] == [10 * is_decoded, 5 * is_decoded]


def test_large_events_are_counted_like_others(pair: Pair) -> None:
    """Through shared memory they come another way."""
    here, there = opened(pair)
    sink = there.sink(Story, Collector())
    source = here.source(Story)
    source.wait_matched()
    submit(source, [Story(i, "", bytes(200_000), np.zeros(0, "f4"), []) for i in range(5)])
    assert sum(tiers(sink)) == 5


def test_what_was_decoded_is_still_counted_when_its_source_has_left(pair: Pair) -> None:
    here, there = opened(pair)
    sink = there.sink(Reading1, Collector())
    for sent in (5, 10):
        with here.source(Reading2) as source:
            source.wait_matched()
            submit(source, [Reading2("", i / 2, i) for i in range(5)])
        until(lambda: sink.sources == 0, "the source to leave")
        assert sum(tiers(sink)) == sink.statistics().events == sent


@pytest.fixture
def busy_compiler() -> Iterator[threading.Event]:
    """Nothing is compiled until the event is set."""
    may_compile = threading.Event()
    assert background.submit(lambda: assert_set(may_compile))
    yield may_compile
    may_compile.set()


def assert_set(event: threading.Event) -> None:
    assert event.wait(LIMIT_S)


def versions(kind: type, make: Callable[[type[Any]], type[Any]]) -> tuple[type[Any], type[Any]]:
    """Two of a class, with a field of that kind; new ones, as what was compiled before is kept on disk."""
    name = f"field_{uuid.uuid4().hex}"
    older = type("Older", (), {"__annotations__": {"id": int, name: kind}})
    newer = type("Newer", (), {"__annotations__": {name: kind, "id": int, "more": int}, "more": 0})
    return make(older), make(echo.named(aliases=("Older",))(newer))


@pytest.mark.parametrize(
    ("kind", "make"),
    [(float, echo.event), (str, echo.event), (str, dataclass)],
    ids=["fixed", "held", "walked"],
)
def test_the_tier_that_decoded_is_told(
    make_node: MakeNode, busy_compiler: threading.Event, kind: type, make: Callable[[type[Any]], type[Any]]
) -> None:
    """Python code until what is compiled is there; native code from then on."""
    older, newer = versions(kind, make)
    channel = make_node(transports=["process"]).create_channel("test")
    sinks = [channel.sink(newer, Collector()), channel.sink(newer, Collector())]
    source = channel.source(older)
    submit(source, [older(i, kind(i)) for i in range(3)])
    assert [tiers(sink) for sink in sinks] == [(0, 3), (0, 3)]
    busy_compiler.set()
    assert background.drain(LIMIT_S)
    submit(source, [older(i, kind(i)) for i in range(4)])
    assert [tiers(sink) for sink in sinks] == [(4, 3), (4, 3)]


def test_the_tier_that_converted_arrays_is_told(make_node: MakeNode, busy_compiler: threading.Event) -> None:
    """Events are counted, not arrays; those that need no conversion are as good as compiled."""
    older, newer = versions(float, echo.event)
    channel = make_node(transports=["process"]).create_channel("test")
    sinks = [channel.sink(cls, Collector(), batch=True) for cls in (older, newer)]
    source = channel.source(older)
    events = np.zeros(100, source.format.dtype)
    source.submit_array(events)
    assert [tiers(sink) for sink in sinks] == [(100, 0), (0, 100)]
    busy_compiler.set()
    assert background.drain(LIMIT_S)
    source.submit_array(events[:7])
    assert [tiers(sink) for sink in sinks] == [(107, 0), (7, 100)]


def test_a_class_that_only_python_code_decodes_is_told(make_node: MakeNode) -> None:
    """Here one with more arrays whose lengths are in fields than C code counts."""
    counted = range(events.MAX_TIES + 1)
    numbers, arrays = [f"n{i}" for i in counted], [f"all{i}" for i in counted]
    lengths: list[tuple[str, Any]] = [(name, int) for name in numbers]
    counting: Any = make_dataclass(
        "Counting", lengths + [(name, echo.Array[int, of]) for name, of in zip(arrays, numbers, strict=True)]
    )

    here, there = (make_node(transports=["unix"]) for _ in range(2))
    channel = here.create_channel("test", counting)
    sink = there.open_channel(channel.id).sink(counting, Collector())
    source = channel.source()
    source.wait_matched()
    submit(source, [counting(*(1 for _ in counted), *([i] for i in counted))] * 3)
    assert tiers(sink) == (0, 3)


def test_what_was_lost_before_a_sink_came_is_not_its_loss(make_node: MakeNode) -> None:
    here, there = (make_node(transports=["unix"]) for _ in range(2))
    channel = here.create_channel("test", Plain)
    there_channel = there.open_channel(channel.id)
    may_go_on = threading.Event()
    first = there_channel.sink(Plain, lambda _: assert_set(may_go_on))
    source = channel.source(backlog=echo.Backlog(events=100, when_full="drop_newest"))
    source.wait_matched()
    while source.statistics().dropped < 100:
        source.submit(Plain(1, 0.0))
    [link] = here.statistics().links
    assert link.queued_events == source.statistics().queued_events == channel.statistics().queued_events > 0
    assert link.dropped == source.statistics().dropped == channel.statistics().dropped
    may_go_on.set()
    source.flush(LIMIT_S)
    second = there_channel.sink(Plain, Collector())
    source.wait_matched(2)
    submit(source, [Plain(1, 0.0)])
    dropped = source.statistics().dropped
    assert (first.statistics().lost, second.statistics().lost) == (dropped, 0)
    assert there_channel.statistics().lost == dropped
    assert here.statistics().links[0].queued_events == 0


def test_a_channel_counts_what_its_sources_and_sinks_have_also_when_they_are_closed(pair: Pair) -> None:
    """In each node what is there: the sum over both sides tells where events are."""
    here, there = opened(pair, Plain)
    size_bytes = echo.format_of(Plain).size_bytes
    taking = there.sink(Plain, Collector())
    full = there.sink(Plain, backlog=echo.Backlog(events=10, when_full="drop_newest"))
    for _ in range(2):
        with here.source(Plain) as source:
            source.wait_matched(2)
            submit(source, [plain(i) for i in range(30)])
            until(lambda: taking.statistics().events % 30 == 0, "all events")
    until(lambda: full.sources == 0, "the sources to leave")
    received = there.statistics()
    assert received.queued_events == full.statistics().queued_events == 10
    assert received.queued_bytes == full.statistics().queued_bytes
    taking.close()
    full.close()
    sent, received = here.statistics(), there.statistics()
    assert (sent.sources, received.sinks) == (0, 0)
    encoded = 0 if joins_in_process(pair[0]) else 60
    assert (sent.submitted_events, sent.submitted_bytes) == (60, encoded * size_bytes)
    assert (sent.received_events, sent.queued_events, sent.queued_bytes) == (0, 0, 0)
    assert (sent.dropped, sent.dropped_at_sinks) == (0, 50)
    assert (received.received_events, received.received_bytes) == (120, 120 * size_bytes)
    assert (received.dropped_here, received.lost, received.submitted_events) == (50, 0, 0)


def test_a_sink_at_the_end_of_a_link_counts_once_for_each_source(pair: Pair) -> None:
    """The link does not tell which it is; nodes of one process that need no link are not counted."""
    here, there = opened(pair)
    there.sink(Plain, Collector())
    for _ in range(3):
        here.source(Plain).wait_matched()
    told = here.statistics()
    assert (told.peers, told.remote_sinks) == ((0, 0) if joins_in_process(pair[0]) else (1, 3))


def test_a_channel_counts_what_is_dropped_after_its_source_was_closed(make_node: MakeNode) -> None:
    """What it had queued is dropped when the link ends; the total neither falls nor forgets."""
    here, there = (make_node(transports=["unix"]) for _ in range(2))
    channel = here.create_channel("test", Plain)
    may_go_on = threading.Event()
    there.open_channel(channel.id).sink(Plain, lambda _: assert_set(may_go_on))
    source = channel.source(backlog=echo.Backlog(events=1000, when_full="drop_newest"))
    source.wait_matched()
    while source.statistics().dropped < 100:
        source.submit(Plain(1, 0.0))
    before = source.statistics()
    source.close(0.0)
    assert channel.statistics().dropped >= before.dropped
    may_go_on.set()
    there.close(0.0)
    until(lambda: not here.statistics().links, "the link to end")
    after = channel.statistics()
    assert (after.submitted_events, after.queued_events) == (before.events, 0)
    assert after.dropped >= before.dropped


def test_sources_that_are_closed_are_let_go_of(make_node: MakeNode) -> None:
    """But for the last one, which its handle and its peer keep until the next one is closed."""
    here, there = (make_node(transports=["unix"]) for _ in range(2))
    channel = here.create_channel("test", Plain)
    there.open_channel(channel.id).sink(Plain, Collector())
    held: list[weakref.ref[Origin]] = []

    def send() -> None:
        with channel.source() as source:
            source.wait_matched()
            submit(source, [Plain(1, 0.0)])
            held.append(weakref.ref(origin_of(source)))

    for _ in range(4):
        send()
    until(lambda: gc.collect() >= 0 and not any(source() for source in held[:-1]), "the sources to go")
    assert channel.statistics().submitted_events == 4
