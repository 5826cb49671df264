"""Three nodes against a small model: whatever is opened, closed, killed, no event is lost or comes twice."""

from __future__ import annotations

import faulthandler
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import echo_core as echo
from tests.echo_core.census import peers_of, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

LIMIT_S = 30.0
WATCHDOG_S = 60.0
SLOW_AND_LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TRANSPORTS: list[list[Any]] = [  # all can reach all
    ["tcp"],
    ["unix", "tcp"],
    ["shm", "tcp"],
    ["process", "tcp"],
    ["process", "shm", "unix", "tcp"],
]


@dataclass(eq=False)
class ModelSink:
    """What a sink must get of each source: all from where it was matched to where either ended."""

    sink: echo.Sink[Plain]
    node: int
    channel: int
    taken: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    matched_at: dict[int, int] = field(default_factory=dict[int, int])

    def take(self, event: Plain) -> None:
        self.taken.append((int(event.x), event.id))

    def of(self, source: int) -> list[int]:
        return [id_ for number, id_ in list(self.taken) if number == source]


@dataclass(eq=False)
class ModelSource:
    source: echo.Source[Plain]
    number: int
    node: int
    channel: int
    sent: int = 0


@contextmanager
def watched() -> Generator[None]:
    """Says where every thread is when something hangs."""
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class Channels(RuleBasedStateMachine):
    """Channels and nodes are numbers; a node that is closed is replaced by one of the same transports."""

    def __init__(self) -> None:
        super().__init__()
        self.transports: list[list[Any]] = []
        self.nodes: list[echo.Node] = []
        self.handles: dict[tuple[int, int], echo.Channel[Any]] = {}  # by channel, node
        self.ids: list[str] = []
        self.sources: list[ModelSource] = []
        self.sinks: list[ModelSink] = []
        self.ended: list[ModelSink] = []
        self.next_source = 0
        self.flushes = 0  # since something big was closed: that is rare, else nothing else happens

    @initialize(transports=st.lists(st.sampled_from(TRANSPORTS), min_size=3, max_size=3))
    def start(self, transports: list[list[Any]]) -> None:
        self.transports = transports
        self._begin()

    def _begin(self) -> None:
        """Three nodes on one channel, so that few steps are enough for something to happen."""
        self.nodes = [self._node(i) for i in range(3)]
        self.flushes = 0
        self.create(0)
        for node in (1, 2):
            self.handles[0, node] = self.nodes[node].open_channel(self.ids[0])

    def _node(self, number: int) -> echo.Node:
        return echo.Node(f"node {number}", transports=self.transports[number])

    # ------------------------------------------------------------------ rules

    @precondition(lambda self: len(self.ids) < 4)
    @rule(node=st.integers(0, 2))
    def create(self, node: int) -> None:
        channel = self.nodes[node].create_channel("machine", Plain)
        self.handles[len(self.ids), node] = channel
        self.ids.append(channel.id)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), node=st.integers(0, 2))
    def open(self, data: st.DataObject, node: int) -> None:
        """Of a channel that somebody is on who can be asked: its creator."""
        known = sorted({channel for channel, _ in self.handles})
        channel = data.draw(st.sampled_from(known))
        if (channel, node) in self.handles or not self._creator_is_there(channel):
            return
        with watched():
            self.handles[channel, node] = self.nodes[node].open_channel(self.ids[channel])

    def _creator_is_there(self, channel: int) -> bool:
        from echo_core.roster.ids import ChannelId

        creator = ChannelId.parse(self.ids[channel]).members[0].node
        return any(on == channel and self.nodes[node].id == creator for on, node in self.handles)

    @precondition(lambda self: self.handles and len(self.sources) < 4)
    @rule(data=st.data())
    def source(self, data: st.DataObject) -> None:
        channel, node = data.draw(st.sampled_from(sorted(self.handles)))
        source = self.handles[channel, node].source(Plain)
        self.sources.append(ModelSource(source, self.next_source, node, channel))
        self.next_source += 1
        self._match(self.sources[-1])

    @precondition(lambda self: self.handles and len(self.sinks) < 6)
    @rule(data=st.data(), own_thread=st.booleans())
    def sink(self, data: st.DataObject, own_thread: bool) -> None:
        channel, node = data.draw(st.sampled_from(sorted(self.handles)))
        taken: list[ModelSink] = []
        sink = self.handles[channel, node].sink(
            Plain, lambda event: taken[0].take(event) if taken else None, own_thread=own_thread
        )
        taken.append(ModelSink(sink, node, channel))
        self.sinks.append(taken[0])

    @precondition(lambda self: self.sources)
    @rule(data=st.data())
    def match(self, data: st.DataObject) -> None:
        """All sinks that are linked are matched; from here on they get everything."""
        self._match(data.draw(st.sampled_from(self.sources)))

    def _match(self, source: ModelSource) -> None:
        expected = [
            sink for sink in self.sinks if sink.channel == source.channel and self._reach(source, sink)
        ]
        with watched():
            source.source.wait_matched(len(expected), LIMIT_S)
        for sink in expected:
            sink.matched_at.setdefault(source.number, source.sent)

    def _reach(self, source: ModelSource, sink: ModelSink) -> bool:
        """Members know each other by the channel's creator; without it those who never met stay strangers."""
        return source.node == sink.node or self._creator_is_there(source.channel)

    @precondition(lambda self: self.sources)
    @rule(data=st.data(), count=st.integers(1, 500))
    def submit(self, data: st.DataObject, count: int) -> None:
        source = data.draw(st.sampled_from(self.sources))
        for _ in range(count):
            source.source.submit(Plain(source.sent, float(source.number)))
            source.sent += 1

    @precondition(lambda self: self.sources)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(self.sources))
        self.flushes += 1
        with watched():
            source.source.flush(LIMIT_S)
        for sink in self.sinks:
            if source.number in sink.matched_at:
                self._demand_all(source, sink)

    @precondition(lambda self: self.sources)
    @rule(data=st.data())
    def close_source(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(self.sources))
        self.sources.remove(source)
        with watched():
            source.source.close(LIMIT_S)
        for sink in self.sinks:
            if source.number in sink.matched_at:
                self._demand_all(source, sink)

    @precondition(lambda self: self.sinks)
    @rule(data=st.data())
    def close_sink(self, data: st.DataObject) -> None:
        sink = data.draw(st.sampled_from(self.sinks))
        self.sinks.remove(sink)
        self.ended.append(sink)
        with watched():
            sink.sink.close()

    @precondition(lambda self: self.handles and self.flushes > 2)
    @rule(data=st.data())
    def close_channel(self, data: st.DataObject) -> None:
        self.flushes = 0
        channel, node = data.draw(st.sampled_from(sorted(self.handles)))
        self._end(node, channel)
        with watched():
            self.handles.pop((channel, node)).close(LIMIT_S)

    @precondition(lambda self: self.flushes > 3)
    @rule(node=st.integers(0, 2))
    def close_node(self, node: int) -> None:
        self.flushes = 0
        for channel in range(len(self.ids)):
            self._end(node, channel)
            self.handles.pop((channel, node), None)
        with watched():
            self.nodes[node].close()
        self.nodes[node] = self._node(node)

    @precondition(lambda self: self.flushes > 3)
    @rule(node=st.integers(0, 2))
    def kill_links(self, node: int) -> None:
        """As if the network had gone: events that were under way are lost, and nobody is linked any more."""
        peers = peers_of(self.nodes[node])
        for peer in peers:
            peer.link.shut()
        until(lambda: not set(peers) & set(peers_of(self.nodes[node])))
        self._forget_everything()

    @precondition(lambda self: not self.handles and len(self.ids) == 4)
    @rule()
    def begin_again(self) -> None:
        """All the channels that there may be have been, and nobody is on one: no other rule applies."""
        self._forget_everything()

    def _forget_everything(self) -> None:
        """What was linked and what not is hard to say now: all starts anew."""
        with watched():
            for node in self.nodes:
                node.close(0.0)
        self.ended += self.sinks
        self.handles.clear()
        self.sources.clear()
        self.sinks.clear()
        self.ids.clear()
        self._begin()

    def _end(self, node: int, channel: int) -> None:
        """Of one node on one channel."""
        self.ended += [sink for sink in self.sinks if (sink.node, sink.channel) == (node, channel)]
        self.sinks = [sink for sink in self.sinks if (sink.node, sink.channel) != (node, channel)]
        self.sources = [source for source in self.sources if (source.node, source.channel) != (node, channel)]

    # ------------------------------------------------------------------ what must hold

    def _demand_all(self, source: ModelSource, sink: ModelSink) -> None:
        """What came before it was matched may have come, too; a sink's own thread takes its time."""
        start = sink.matched_at[source.number]
        if source.sent > start:
            until(lambda: sink.of(source.number)[-1:] == [source.sent - 1], "all that was sent", LIMIT_S)
        taken = [id_ for id_ in sink.of(source.number) if id_ >= start]
        assert taken == list(range(start, source.sent))

    @invariant()
    def nothing_is_wrong(self) -> None:
        for sink in self.sinks + self.ended:
            taken = list(sink.taken)
            for number in {number for number, _ in taken}:
                ids = [id_ for other, id_ in taken if other == number]
                assert ids == list(range(ids[0], ids[0] + len(ids))), (number, ids[:20], len(ids))

    @invariant()
    def counts_agree(self) -> None:
        for source in self.sources:
            assert source.source.statistics().events == source.sent
            assert source.source.statistics().dropped == 0

    def teardown(self) -> None:
        with watched():
            for node in self.nodes:
                node.close(1.0)
        self.nothing_is_wrong()


TestChannels = Channels.TestCase
TestChannels.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=SLOW_AND_LARGE,
)


def test_events_that_need_no_link_come_once(make_node: MakeNode) -> None:
    """Two nodes of a process that a third one tells of each other."""
    far = make_node(transports=["tcp"])
    one, other = (make_node(transports=["process", "tcp"]) for _ in range(2))
    channel = far.create_channel("test", Plain)
    taken: list[int] = []
    other.open_channel(channel.id).sink(Plain, lambda event: taken.append(event.id))
    source = one.open_channel(channel.id).source(Plain)
    channel.sink(Plain, lambda event: None)
    source.wait_matched(2)
    for i in range(3):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    assert taken == [0, 1, 2]
    assert source.sinks == 2


@pytest.mark.slow
def test_long_lives_of_channels() -> None:
    """What fails is not made smaller: with real sockets that takes minutes, and seldom succeeds."""
    thorough = settings(
        max_examples=100,
        stateful_step_count=60,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=SLOW_AND_LARGE,
    )
    run_state_machine_as_test(Channels, settings=thorough)
