"""Counts are totals since an object was made: they never fall, and each object counts its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen.machine import background
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, Reading1, Reading2, Story, plain, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.test_conformance import LIMIT_S, Collector, Pair, opened


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
    """Sinks of one class share a decoder; an event that comes by reference is not decoded."""
    here, there = opened(pair)
    first = there.sink(cls, Collector())
    source = here.source(cls)
    source.wait_matched()
    submit(source, [make(i) for i in range(5)])
    second = there.sink(cls, Collector())
    source.wait_matched(2)
    submit(source, [make(i) for i in range(5)])
    is_linked = not pair[0].joins_in_process
    assert [sum(tiers(sink)) for sink in (first, second)] == [10 * is_linked, 5 * is_linked]


def test_large_events_are_counted_like_others(pair: Pair) -> None:
    """Through shared memory they come another way."""
    here, there = opened(pair)
    sink = there.sink(Story, Collector())
    source = here.source(Story)
    source.wait_matched()
    submit(source, [Story(i, "", bytes(200_000), np.zeros(0, "f4"), []) for i in range(5)])
    assert sum(tiers(sink)) == (0 if pair[0].joins_in_process else 5)


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
    return make(older), make(newer)


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
    @dataclass
    class Table:
        rows: echo.Array[str, 2, 2]

    here, there = (make_node(transports=["unix"]) for _ in range(2))
    channel = here.create_channel("test", Table)
    sink = there.open_channel(channel.id).sink(Table, Collector())
    source = channel.source()
    source.wait_matched()
    submit(source, [Table([["a", "b"], ["c", "d"]])] * 3)
    assert tiers(sink) == (0, 3)
