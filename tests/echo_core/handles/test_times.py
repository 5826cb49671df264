"""When an event was submitted, over all transports and in process, for every way to get it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from tests.echo_core.census import peers_of
from tests.echo_core.channel_events import Plain, Reading1, Story, reading, readings, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector, Pair, opened

LARGE = 20_000  # records, which are lent where memory is shared


class Infos(Collector):
    """A handler of two parameters."""

    def handle(self, event: Any, info: echo.EventInfo) -> None:
        self((event, info))


def submitted(info: echo.EventInfo) -> int:
    assert info.submitted_ns is not None
    return info.submitted_ns


@pytest.mark.parametrize(("cls", "event"), [(Reading1, reading), (Story, story)])
def test_an_event_says_when_it_was_submitted(pair: Pair, cls: type[Any], event: Any) -> None:
    here, there = opened(pair, cls)
    sink, source = there.sink(cls), here.source(cls, timestamps=True)
    source.wait_matched()
    times: list[tuple[int, int]] = []
    for i in range(20):
        before = time.time_ns()
        source.submit(event(i))
        times.append((before, time.time_ns()))
    for i, (before, after) in enumerate(times):
        got, info = sink.get_with_info(LIMIT_S)
        assert (got, info.number) == (event(i), i)
        assert before <= submitted(info) <= after


def test_a_source_that_is_not_asked_says_no_time(pair: Pair) -> None:
    """Beside one that is."""
    here, there = opened(pair, Plain)
    sink = there.sink(Plain)
    for timestamps in (False, True):
        with here.source(timestamps=timestamps) as source:
            source.wait_matched()
            source.submit(Plain(1, 0.5))
            _, info = sink.get_with_info(LIMIT_S)
            assert (info.submitted_ns is not None) is timestamps


@pytest.mark.parametrize("count", [1, 1000, LARGE])
@pytest.mark.parametrize("batch", [False, True])
def test_all_records_of_an_array_have_one_time(pair: Pair, count: int, *, batch: bool) -> None:
    """However many frames it takes, or memory that is lent."""
    here, there = opened(pair, Reading1)
    collector = Infos()
    there.sink(Reading1, collector.handle, batch=batch)
    source = here.source(Reading1, timestamps=True)
    source.wait_matched()
    before = time.time_ns()
    source.submit_array(readings(count))
    after = time.time_ns()
    source.flush(LIMIT_S)
    source.submit_records(readings(count).tobytes())
    source.flush(LIMIT_S)
    pairs = collector.events
    infos = [info for _, info in pairs]
    ids = np.concatenate([np.atleast_1d(event["id"] if batch else event.id) for event, _ in pairs])
    assert ids.tolist() == list(range(count)) * 2
    assert {before <= submitted(info) <= after for info in infos if info.number < count} == {True}
    first = {submitted(info) for info in infos if info.number < count}
    second = {submitted(info) for info in infos if info.number >= count}
    assert (len(first), len(second)) == (1, 1)
    assert after <= second.pop()


def test_a_loan_says_it_too(pair: Pair) -> None:
    here, there = opened(pair, Reading1)
    sink, source = there.sink(Reading1, batch=True), here.source(Reading1, timestamps=True)
    source.wait_matched()
    loan = source.loan(LARGE)
    loan["id"], loan["temperature"] = np.arange(LARGE), 0.5
    before = time.time_ns()
    source.submit_array(loan)
    got = 0
    while got < LARGE:
        array, info = sink.get_with_info(LIMIT_S)
        assert (array["id"][0], info.number) == (got, got)
        assert before <= submitted(info) <= time.time_ns()
        got += len(array)


@pytest.mark.parametrize("own_thread", [False, True])
def test_handlers_and_tasks_get_it(pair: Pair, *, own_thread: bool) -> None:
    here, there = opened(pair, Plain)
    collector, sink = Infos(), there.sink(Plain)
    there.sink(Plain, collector.handle, own_thread=own_thread)
    source = here.source(timestamps=True)
    source.wait_matched(2)
    before = time.time_ns()
    source.submit(Plain(1, 0.5))
    source.submit(Plain(2, 0.5))
    handled = [submitted(info) for _, info in collector.wait(2)]
    taken = [submitted(asyncio.run(sink.get_with_info_async(LIMIT_S))[1]) for _ in range(2)]
    assert handled == taken
    assert before <= handled[0] <= handled[1] <= time.time_ns()


def test_kept_events_have_the_time_at_which_they_were_submitted(pair: Pair) -> None:
    """For the first sink, for one beside it, and for one after all have gone."""
    here, there = opened(pair, Plain)
    source = here.source(keep=2, timestamps=True)
    before = time.time_ns()
    source.submit(Plain(1, 0.5))
    source.submit(Plain(2, 0.5))
    after = time.time_ns()
    first, second = there.sink(Plain), None
    told = [[submitted(first.get_with_info(LIMIT_S)[1]) for _ in range(2)]]
    second = there.sink(Plain)
    told.append([submitted(second.get_with_info(LIMIT_S)[1]) for _ in range(2)])
    assert told[0] == told[1]
    assert before <= told[0][0] <= told[0][1] <= after


def test_a_process_whose_link_was_lost_hears_the_first_time(make_node: MakeNode) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    source, sink = channel.source(keep=9, timestamps=True), there.open_channel(channel.id).sink(Plain)
    source.wait_matched()
    for peer in peers_of(here):
        peer.link.shut()
    before = time.time_ns()
    source.submit(Plain(1, 0.5))
    after = time.time_ns()
    _, info = sink.get_with_info(LIMIT_S)
    assert before <= submitted(info) <= after


def test_a_time_costs_its_source_credit(make_node: MakeNode) -> None:
    """Both sides count it alike, else one would wait for ever; also where what waits is dropped."""
    limits = echo.Limits(window_events=100, window_bytes=400)
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"], limits=limits)
    channel = here.create_channel("x", Plain)
    source = channel.source(timestamps=True, backlog=echo.Backlog(when_full="block"))
    sink = there.open_channel(channel.id).sink(Plain)
    source.wait_matched()
    for i in range(500):
        source.submit(Plain(i, 0.5))
    assert [sink.get(LIMIT_S).id for _ in range(500)] == list(range(500))
    source.drain(LIMIT_S)


def test_an_event_with_its_time_fits_into_what_a_peer_takes(make_node: MakeNode) -> None:
    limits = echo.Limits(payload_bytes=1 << 17)
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"], limits=limits)
    channel = here.create_channel("x", Reading1)
    source = channel.source(timestamps=True)
    collector = Collector()
    there.open_channel(channel.id).sink(Reading1, collector)
    source.wait_matched()
    source.submit_array(readings(3 << 13))
    source.flush(LIMIT_S)
    assert [event.id for event in collector.events] == list(range(3 << 13))


def test_timestamps_are_asked_for_by_true_or_false(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x", Plain)
    with pytest.raises(echo.ChannelError, match="Expected True or False as timestamps, got 1"):
        channel.source(timestamps=1)  # type: ignore[call-overload]
