"""Closing takes the time that it was given, once, and leaves nothing half closed when it is interrupted."""

from __future__ import annotations

import contextlib
import secrets
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.roster.ids import ChannelId
from tests.echo_core.census import left_behind, settled_census, target_of, until
from tests.echo_core.channel_events import Misfit, Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S
from tests.echo_core.processes import Actor

_MANY, _MARGIN_S = 16, 10.0  # less than what links and threads would take one after the other


class _Stuck:
    """A handler that does not return before it is allowed to."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, event: Any) -> None:
        self.has_begun.set()
        self.may_end.wait(LIMIT_S)


@pytest.fixture
def stuck() -> Iterator[_Stuck]:
    handler = _Stuck()
    yield handler
    handler.may_end.set()


class _Interrupted(BaseException):
    pass


def _fill(source: echo.Source[Plain]) -> None:
    while not source.statistics().dropped:
        source.submit(Plain(1, 1.0))


def test_threads_of_sinks_share_the_time_to_end(make_node: MakeNode, stuck: _Stuck) -> None:
    node = make_node()
    channel = node.create_channel("x", Plain)
    sinks = [channel.sink(Plain, stuck, own_thread=True) for _ in range(_MANY)]
    channel.source().submit(Plain(1, 1.0))
    assert stuck.has_begun.wait(LIMIT_S)
    begun = time.monotonic()
    node.close(1.0)
    assert time.monotonic() - begun < _MARGIN_S
    assert all(sink.is_closed for sink in sinks)


def test_a_thread_that_is_stuck_does_not_keep_other_sinks_open(make_node: MakeNode, stuck: _Stuck) -> None:
    """They are told to end before any is waited for."""
    channel = make_node().create_channel("x", Plain)
    channel.sink(Plain, stuck, own_thread=True)
    waiting = channel.sink(Plain)
    channel.source().submit(Plain(1, 1.0))
    assert stuck.has_begun.wait(LIMIT_S)
    closing = threading.Thread(target=channel.close, args=(LIMIT_S,))
    closing.start()
    assert list(waiting) == [Plain(1, 1.0)]
    assert closing.is_alive()
    stuck.may_end.set()
    closing.join(LIMIT_S)
    assert not closing.is_alive()


def test_links_whose_handlers_are_stuck_share_the_time_to_end(make_node: MakeNode, stuck: _Stuck) -> None:
    receiver = make_node(transports=["unix"])
    channel = receiver.create_channel("x", Plain)
    channel.sink(Plain, stuck)
    for _ in range(_MANY):
        source = make_node(transports=["unix"]).open_channel(channel.id).source(Plain)
        source.wait_matched()
        source.submit(Plain(1, 1.0))
        assert stuck.has_begun.wait(LIMIT_S)
        stuck.has_begun.clear()
    begun = time.monotonic()
    receiver.close(1.0)
    assert time.monotonic() - begun < _MARGIN_S


@pytest.mark.parametrize("what", ["source", "channel", "node"])
def test_an_interrupted_close_closes(make_node: MakeNode, stuck: _Stuck, what: str) -> None:
    """Nobody waits for the end of a channel that is for ever about to be closed."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain, stuck)
    source = channel.source(backlog=echo.Backlog(when_full="drop_newest"))
    source.wait_matched()
    _fill(source)
    closing = {"source": source.close, "channel": channel.close, "node": here.close}
    signals: list[int] = []

    def interrupt(number: int, _: object) -> None:
        """Not at the first signal that finds the source closed: what closes it may not wait yet."""
        signals.extend([number] * source.is_closed)
        if len(signals) == 3:
            raise _Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(_Interrupted):
            closing[what](LIMIT_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(echo.ClosedError):
        source.submit(Plain(1, 1.0))
    stuck.may_end.set()
    if what == "channel":
        assert here.statistics().channels == 0
    if what == "node":
        assert here.statistics().links == ()
    sink.close()


def _pair_in_memory() -> tuple[echo.Node, echo.Node]:
    return echo.Node(transports=["shm"]), echo.Node(transports=["shm"])


# Python looks for signals where a function begins, and behind a call of C: there a profiler is asked, too.
_INTERRUPTED = """
import itertools

def interrupting(moment, came):
    moments = itertools.count(1)
    def look(frame, event, _):
        is_moment = event in ("call", "c_return") and "/echo_core/" in frame.f_code.co_filename
        if is_moment and next(moments) == moment:
            came.append(moment)
            raise KeyboardInterrupt
    return look

def is_interrupted(call, moment):  # also where that comes in vain, as in a generator that is being dropped
    came = []
    sys.setprofile(interrupting(moment, came))
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return bool(came)
"""

_CLOSED_TWICE = """
def is_refused(event):
    try:
        source.submit(event)
    except echo.ClosedError:
        return True
    return False

kept = echo.Node(transports=["process"])
moment, has_more = 0, True
while has_more:
    moment += 1
    node = echo.Node(transports=["process"])
    stays = kept.create_channel("test", Plain)
    channel = node.open_channel(stays.id)
    channel.watch(id)
    source, sink = channel.source(Plain), channel.sink(Plain)
    reader = threading.Thread(target=list, args=(sink,))
    reader.start()
    closing = {"sink": sink, "source": source, "channel": channel, "node": node}[sys.argv[1]]
    has_more = is_interrupted(closing.close, moment)
    closing.close()
    ends = channel.statistics()
    if closing is not source:
        reader.join(LIMIT_S / 2)
        assert not reader.is_alive(), moment
        assert sink.is_closed and not ends.sinks, moment
    if closing is not sink:
        assert is_refused(Plain(1, 1.0)) and not ends.sources, moment
    if closing is channel:
        assert not node.statistics().channels, moment
        node.open_channel(stays.id, timeout_s=1).close()
    stays.close()
    node.close()
    reader.join(LIMIT_S / 2)
kept.close()
say(moment > 10)
"""


@pytest.mark.parametrize("what", ["sink", "source", "channel", "node"])
def test_what_an_interrupt_leaves_open_the_next_close_closes(what: str) -> None:
    """Wherever it comes."""
    with Actor(_INTERRUPTED + _CLOSED_TWICE, what) as actor:
        assert actor.demand_quiet_end() == "True\n"


_OPENED_AGAIN = """
opened = []
def attempt():
    try:
        opened.append(there.open_channel(channel.id, timeout_s=LIMIT_S / 4))
    except echo.RefusedError as error:
        assert error.code == "unknown_channel", (moment, error.code)

def demand_attempt():  # at once: nobody is to be waited for
    began = time.monotonic()
    attempt()
    assert time.monotonic() - began < LIMIT_S / 8, moment

here = echo.Node(transports=[sys.argv[1]])
moment, has_more = 0, True
while has_more:
    moment += 1
    there = echo.Node(transports=[sys.argv[1]])
    channel = here.create_channel("test", Plain)
    if sys.argv[1] == "tcp":
        there.open_channel(here.create_channel("kept").id)
        channel.close()
    has_more = is_interrupted(attempt, moment)
    demand_attempt()
    while opened:
        opened.pop().close()
    channel.close()
    there.close()
here.close()
say(moment > 100)
"""


@pytest.mark.parametrize("transport", ["process", "tcp"], ids=["taken", "refused"])
def test_what_an_interrupt_keeps_from_opening_can_be_opened_again(transport: str) -> None:
    """Wherever it comes: no other call waits for the one that has ended."""
    with Actor(_INTERRUPTED + _OPENED_AGAIN, transport) as actor:
        code, out, err = actor.end()  # an interrupt between two frames may cost the link, which is logged
        assert (code, out) == (0, "True\n"), err


@pytest.mark.usefixtures("without_collector")
def test_a_refused_channel_leaves_no_link_to_the_collector() -> None:
    before = settled_census()
    here, there = _pair_in_memory()
    there.open_channel(here.create_channel("x", Plain).id)
    unknown = replace(ChannelId.parse(here.create_channel("y", Plain).id), uid=secrets.token_bytes(16))
    with pytest.raises(echo.RefusedError) as caught:
        there.open_channel(str(unknown))
    assert caught.value.code == "unknown_channel"
    del caught
    here.close()
    there.close()
    del here, there
    assert left_behind(before) == ""


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("type_", [Plain, Misfit], ids=["taken", "refused"])
def test_a_closed_source_that_is_kept_keeps_no_link(type_: type[Any]) -> None:
    before = settled_census()
    here, there = _pair_in_memory()
    channel = here.create_channel("x")
    there.open_channel(channel.id).sink(type_)
    source = channel.source(Plain)
    with contextlib.suppress(echo.IncompatibleError):
        source.wait_matched()
    source.close()
    here.close()
    there.close()
    del here, there, channel
    assert left_behind(before) == ""
    assert source.is_closed


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("type_", [Plain, Misfit], ids=["taken", "refused"])
def test_a_closed_sink_that_is_dropped_keeps_no_link(type_: type[Any]) -> None:
    """Nor what is queued there."""
    before = settled_census()
    here, there = _pair_in_memory()
    channel = here.create_channel("x")
    sink = there.open_channel(channel.id).sink(type_)
    source = channel.source(Plain)
    with contextlib.suppress(echo.IncompatibleError):
        source.wait_matched()
    source.submit(Plain(1, 1.0))
    kept = weakref.ref(target_of(sink))
    sink.close()
    here.close()
    there.close()
    del here, there, channel, source, sink
    until(lambda: kept() is None)
    assert left_behind(before) == ""


@pytest.mark.usefixtures("without_collector")
def test_a_source_that_was_closed_with_events_queued_keeps_no_link(stuck: _Stuck) -> None:
    """They are dropped, as its link is over before they could be sent."""
    before = settled_census()
    here, there = _pair_in_memory()
    channel = here.create_channel("x", Plain)
    there.open_channel(channel.id).sink(Plain, stuck)
    source = channel.source(backlog=echo.Backlog(when_full="drop_newest"))
    source.wait_matched()
    _fill(source)
    assert source.statistics().queued_events
    channel.close(0.0)
    here.close(0.0)
    stuck.may_end.set()
    there.close()
    del here, there, channel, source
    assert left_behind(before) == ""


def _submit(source: echo.Source[Plain], count: int) -> threading.Thread:
    """An array, by a thread of its own: a sink of this process has it wait."""
    array = np.zeros(count, echo.format_of(Plain).dtype)
    thread = threading.Thread(target=source.submit_array, args=(array,), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("what", ["sink", "channel", "node"])
def test_no_handler_is_called_once_its_sink_is_closed(
    pair: tuple[echo.Node, echo.Node], stuck: _Stuck, what: str
) -> None:
    """What was left of an array is dropped, and counted as whatever is."""
    channel = pair[0].create_channel("x", Plain)
    there = pair[1].open_channel(channel.id)
    calls: list[Plain] = []

    def handle(event: Plain) -> None:
        calls.append(event)
        stuck(event)

    sink = there.sink(Plain, handle)
    source = channel.source()
    source.wait_matched()
    submitting = _submit(source, 10_000)
    assert stuck.has_begun.wait(LIMIT_S)
    {"sink": sink.close, "channel": there.close, "node": pair[1].close}[what](0.0)
    counted = sink.statistics()
    assert (counted.events, counted.dropped) == (10_000, 9_999)
    assert counted.size_bytes == 10_000 * echo.format_of(Plain).size_bytes
    if what == "sink":
        assert there.statistics().dropped_here == 9_999
        until(lambda: source.statistics().dropped_at_sinks == 9_999, "the source to be told")
    stuck.may_end.set()
    submitting.join(LIMIT_S)
    source.flush(LIMIT_S)
    assert len(calls) == 1
    assert sink.statistics() == counted


def test_what_is_left_of_an_array_that_waits_for_room_is_dropped_with_its_sink(make_node: MakeNode) -> None:
    """But for the one event that waits, each is counted on both sides."""
    channel = there = make_node().create_channel("x", Plain)
    sink = there.sink(Plain, backlog=echo.Backlog(events=10, timeout_s=LIMIT_S))
    source = channel.source()
    source.wait_matched()
    submitting = _submit(source, 1000)
    until(lambda: sink.statistics().events == 11, "the queue to be full")
    sink.close()
    assert there.statistics().dropped_here == 989
    until(lambda: source.statistics().dropped_at_sinks == 989, "the source to be told")
    submitting.join(LIMIT_S)
    until(lambda: sink.statistics().dropped == 990, "the last one to be dropped")
    assert (sink.statistics().events, sink.statistics().queued_events) == (1000, 10)


def test_an_array_arrives_whole_where_a_handler_closes_its_source(make_node: MakeNode) -> None:
    """It was submitted before."""
    channel = make_node().create_channel("x", Plain)
    source = channel.source()
    calls: list[Plain] = []

    def handle(event: Plain) -> None:
        calls.append(event)
        source.close()

    channel.sink(Plain, handle)
    _submit(source, 100).join(LIMIT_S)
    assert len(calls) == 100


def test_a_sink_that_is_closed_after_its_source_is_handed_no_more(make_node: MakeNode) -> None:
    """Where a handler closes both, amid an array of the source; what is left of it is counted."""
    channel = make_node().create_channel("test", Plain)
    source = channel.source()
    handled: list[int] = []

    def handle(event: Plain) -> None:
        handled.append(event.id)
        if event.id == 0:
            source.close()
        if event.id == 2:
            sink.close()

    sink = channel.sink(Plain, handle)
    source.submit_array(np.array([(i, 0.0) for i in range(10)], echo.format_of(Plain).dtype))
    assert handled == [0, 1, 2]
    assert (sink.statistics().events, sink.statistics().dropped) == (10, 7)
    assert (channel.statistics().received_events, channel.statistics().dropped_here) == (10, 7)
