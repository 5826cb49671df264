"""What is confirmed of events that wait in queues: what was taken, also when their source is closed."""

from __future__ import annotations

import pytest

import echo_core as echo
from echo_core.values.statistics import ChannelStatistics
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import Collector
from tests.echo_core.processes import LIMIT_S, Actor

LINKED = ("shm", "unix", "tcp")
EVENTS = 50
TAKEN = 7

# Takes so many events out of its queue, and no more; says when it has heard that the source is closed.
READER = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
def watch(notice):  # on a thread of its own: a line is one call
    if isinstance(notice, echo.SourceClosed):
        os.write(1, b"closed\\n")
channel.watch(watch)
sink = channel.sink(Plain)
for number in range(int(sys.argv[3])):
    assert sink.get(LIMIT_S).id == number
os.write(1, b"taken\\n")
hear()
for event in sink:
    say(event.id)
"""

# Handles so many events, and comes back from no other; says when it has begun with that.
HANDLER = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
def handle(event):
    if event.id == int(sys.argv[3]):
        os.write(1, b"handling\\n")
        threading.Event().wait()
channel.sink(Plain, handle, own_thread=True)
hear()
"""


def filled(channel: echo.Channel[Plain]) -> echo.Source[Plain]:
    """A source that has submitted all."""
    source = channel.source(Plain)
    source.wait_matched(1, LIMIT_S)
    for number in range(EVENTS):
        source.submit(Plain(number, 0.0))
    return source


def settled(channel: echo.Channel[Plain]) -> ChannelStatistics:
    def is_settled() -> bool:
        told = channel.statistics()
        return told.confirmed + told.dropped + told.unconfirmed == EVENTS

    until(is_settled)
    return channel.statistics()


@pytest.mark.parametrize("transport", LINKED)
def test_a_reader_is_killed_behind_the_end_of_the_source_and_what_it_took_lies_within_the_counts(
    make_node: MakeNode, transport: str
) -> None:
    """What was in its queue is not known to have been handled, and told of."""
    channel, told = make_node(transports=[transport]).create_channel("x", Plain), Collector()
    channel.watch(told)
    with Actor(READER, transport, channel.id, str(TAKEN)) as reader:
        source = filled(channel)
        assert reader.hear() == "taken"
        source.close()
        assert reader.hear() == "closed"
        until(lambda: channel.statistics().confirmed == TAKEN)
        reader.kill()
    counted = settled(channel)
    assert (counted.confirmed, counted.unconfirmed) == (TAKEN, EVENTS - TAKEN)
    [lost] = told.wait_for(echo.EventsLost)
    assert (lost.events, lost.is_unconfirmed) == (EVENTS - TAKEN, True)


@pytest.mark.parametrize("transport", LINKED)
def test_an_event_is_confirmed_when_the_handler_with_its_own_thread_has_returned(
    make_node: MakeNode, transport: str
) -> None:
    """One that is at work when its process is killed may have been handled, and is told of."""
    channel = make_node(transports=[transport]).create_channel("x", Plain)
    with Actor(HANDLER, transport, channel.id, str(TAKEN)) as reader:
        source = filled(channel)
        assert reader.hear() == "handling"
        until(lambda: channel.statistics().confirmed == TAKEN)
        reader.kill()
    counted = settled(channel)
    assert (counted.confirmed, counted.unconfirmed) == (TAKEN, EVENTS - TAKEN)
    source.close()


@pytest.mark.parametrize("transport", LINKED)
def test_what_a_reader_takes_behind_the_end_of_the_source_is_confirmed(
    make_node: MakeNode, transport: str
) -> None:
    channel = make_node(transports=[transport]).create_channel("x", Plain)
    with Actor(READER, transport, channel.id, str(TAKEN)) as reader:
        filled(channel).close()
        assert {reader.hear(), reader.hear()} == {"taken", "closed"}
        reader.tell("go on")
        assert [int(reader.hear()) for _ in range(TAKEN, EVENTS)] == list(range(TAKEN, EVENTS))
        assert settled(channel).confirmed == EVENTS


def test_nobody_waits_for_a_reader_where_a_source_drains_flushes_and_closes(make_node: MakeNode) -> None:
    """Nor does its channel, or its node: what is in the queue there can still be taken."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain)
    source = filled(channel)
    source.flush(LIMIT_S)
    source.drain(LIMIT_S)
    source.close(LIMIT_S)
    channel.drain(LIMIT_S)
    assert channel.statistics().confirmed == 0
    channel.close()
    here.close()
    assert [sink.get(LIMIT_S).id for _ in range(EVENTS)] == list(range(EVENTS))


def test_a_stream_is_released_when_the_last_event_is_taken(make_node: MakeNode) -> None:
    """Another source has its number then; until then a number of its own."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain)
    filled(channel).close()
    filled(channel).close()
    assert [sink.get(LIMIT_S).id for _ in range(2 * EVENTS)] == [*range(EVENTS)] * 2
    until(lambda: channel.statistics().confirmed == 2 * EVENTS)
    assert sink.statistics().sources == 0
    filled(channel).close()
    assert [sink.get(LIMIT_S).id for _ in range(EVENTS)] == [*range(EVENTS)]
    until(lambda: channel.statistics().confirmed == 3 * EVENTS)


def test_what_a_full_queue_drops_of_a_closed_source_is_told_to_it(make_node: MakeNode) -> None:
    """To make room for what comes of another."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    backlog = echo.Backlog(events=EVENTS, when_full="drop_oldest")
    sink = there.open_channel(channel.id).sink(Plain, backlog=backlog)
    filled(channel).close()
    assert channel.statistics().dropped_at_sinks == 0
    filled(channel).close()
    until(lambda: channel.statistics().dropped_at_sinks == EVENTS)
    until(lambda: channel.statistics().confirmed == EVENTS)
    assert sink.statistics().dropped == EVENTS
    assert [sink.get(LIMIT_S).id for _ in range(EVENTS)] == [*range(EVENTS)]
    until(lambda: channel.statistics().confirmed == 2 * EVENTS)


def test_a_sink_that_nobody_reads_holds_no_more_however_many_sources_end(make_node: MakeNode) -> None:
    """A source that is closed has its share of the queue as long as its events are there."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain, backlog=echo.Backlog(events=EVENTS))
    for _ in range(40):
        source = channel.source(Plain)
        source.wait_matched(1, LIMIT_S)
        for number in range(EVENTS):
            source.submit(Plain(number, 0.0))
        source.close(0.0)
    until(lambda: sink.statistics().sources == 0)
    assert EVENTS <= sink.statistics().queued_events < 8 * EVENTS  # 1 + 1/2 + 1/3 ...
    sink.close()
    until(lambda: channel.statistics().queued_events == 0)
