"""Draining: before a process ends, all that it has submitted has arrived, or it says what has not."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from echo_core.roster.flushing import flushing
from echo_core.streams.outgoing import OutgoingStream
from tests.echo_core.census import origin_of, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor

PUBLISHER = """
ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
node = echo.Node(transports=[sys.argv[1]])
channels = [node.open_channel(id_) for id_ in sys.argv[2:]]
sources = [channel.source(Plain, latency_budget_s=0.05) for channel in channels]
for source in sources:
    source.wait_matched(timeout_s=LIMIT_S)
say("publishes")
sent = 0
while not ending.is_set():
    for source in sources:
        source.submit(Plain(sent, 0.0))
    sent += 1
node.drain(LIMIT_S)
node.close()
say(sent)
"""


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_a_process_that_drains_when_it_is_told_to_end_loses_nothing(
    make_node: MakeNode, transport: str
) -> None:
    """On all channels of its node, whatever was queued when the signal came."""
    node = make_node(transports=[transport])
    channels = [node.create_channel(name, Plain) for name in "ab"]
    taken: list[list[int]] = [[], []]
    for channel, numbers in zip(channels, taken, strict=True):
        channel.sink(Plain, lambda event, numbers=numbers: numbers.append(event.id))
    with Actor(PUBLISHER, transport, *(channel.id for channel in channels)) as publisher:
        assert publisher.hear() == "publishes"
        until(lambda: all(taken), "events")
        publisher.signal(signal.SIGTERM)
        sent = int(publisher.demand_quiet_end())
    assert [numbers == list(range(sent)) for numbers in taken] == [True, True]


class Held:
    """A node whose sink lets nothing through until it is told to."""

    def __init__(self, node: echo.Node, *ids: str) -> None:
        self.may_go_on = threading.Event()
        self.taken = 0
        for id_ in ids:
            node.open_channel(id_, timeout_s=LIMIT_S).sink(Plain, self._take)

    def _take(self, _: Plain) -> None:
        assert self.may_go_on.wait(LIMIT_S)
        self.taken += 1


def test_what_could_not_be_drained_is_said_for_each_process(make_node: MakeNode) -> None:
    """All in one message, after one wait; and it can be waited for again."""
    node = make_node(transports=["unix"])
    channel, other = node.create_channel("a", Plain), node.create_channel("b", Plain)
    slow = [
        Held(make_node(name=name, transports=["unix"]), channel.id, other.id) for name in ("slow", "slower")
    ]
    sources = [channel.source(name="fast"), other.source(name="slow")]
    for source in sources:
        source.wait_matched(2, LIMIT_S)
    for i in range(3):
        sources[0].submit(Plain(i, 0.0))
    sources[1].submit(Plain(3, 0.0))
    with pytest.raises(echo.TimedOutError) as caught:
        node.drain(0.05)
    said = str(caught.value)
    assert said.startswith("Expected an answer from ")
    assert said.endswith(" within 0.05 s")
    for name in ("slow", "slower"):
        assert f"from {name}" in said
    assert said.count("for 3 events of `fast`") == said.count("for 1 event of `slow`") == 2
    with pytest.raises(echo.TimedOutError, match="for 3 events of `fast`"):
        channel.drain(0.01)
    with pytest.raises(echo.TimedOutError, match="for 1 event of `slow`"):
        sources[1].drain(0.01)
    for held in slow:
        held.may_go_on.set()
    node.drain(LIMIT_S)
    assert [held.taken for held in slow] == [4, 4]


def test_draining_asks_nothing_of_sources_that_are_open(make_node: MakeNode) -> None:
    """They go on afterwards; sinks that nobody has are waited for by nobody."""
    node = make_node()
    channel = node.create_channel("x", Plain)
    source, sink = channel.source(), channel.sink(Plain)
    source.submit(Plain(1, 0.0))
    for drain in (source.drain, channel.drain, node.drain):
        drain(LIMIT_S)
    source.submit(Plain(2, 0.0))
    assert [sink.get(LIMIT_S).id for _ in range(2)] == [1, 2]


def test_draining_does_not_block_an_event_loop(make_node: MakeNode) -> None:
    async def run() -> None:
        for drain in (source.drain_async, channel.drain_async, node.drain_async):
            with pytest.raises(echo.TimedOutError, match="for 1 event of `Plain`"):
                await drain(0.01)
        held.may_go_on.set()
        await asyncio.gather(
            source.drain_async(LIMIT_S), channel.drain_async(LIMIT_S), node.drain_async(LIMIT_S)
        )

    node = make_node(transports=["unix"])
    channel = node.create_channel("x", Plain)
    held = Held(make_node(transports=["unix"]), channel.id)
    source = channel.source()
    source.wait_matched(timeout_s=LIMIT_S)
    source.submit(Plain(0, 0.0))
    asyncio.run(run())
    assert held.taken == 1


def test_what_a_lost_link_had_is_said_when_draining(make_node: MakeNode) -> None:
    """Once: whoever drains again has been told."""
    node = make_node(transports=["unix"])
    channel = node.create_channel("x", Plain)
    script = "channel = echo.Node(transports=['unix']).open_channel(sys.argv[1])\n"
    script += "sink = channel.sink(Plain, lambda event: time.sleep(LIMIT_S))\nhear()\n"
    with Actor(script, channel.id) as receiver:
        source = channel.source()
        source.wait_matched(timeout_s=LIMIT_S)
        source.submit(Plain(0, 0.0))
        receiver.kill()
        until(lambda: source.sinks == 0, "the link to be gone")
    where = r"not known to have arrived at \S+ \(process \d+\): "
    with pytest.raises(echo.LinkError, match=where):
        node.drain(LIMIT_S)
    node.drain(LIMIT_S)


def test_who_leaves_as_draining_begins_is_not_waited_for(make_node: MakeNode) -> None:
    """Streams are looked up first, and asked then; in between their processes may have gone."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    there.open_channel(channel.id).sink(Plain)
    source = channel.source()
    source.wait_matched(timeout_s=LIMIT_S)
    origin = origin_of(source)
    streams = [stream for stream in origin.streams if isinstance(stream, OutgoingStream)]
    there.close()
    until(lambda: all(stream.has_ended for stream in streams), "the streams to end")
    books.wait_for_all(flushing([origin], streams), LIMIT_S)
    assert len(streams) == 1


def test_a_channel_that_is_closed_cannot_be_drained(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x", Plain)
    channel.close()
    with pytest.raises(echo.ClosedError):
        channel.drain()
