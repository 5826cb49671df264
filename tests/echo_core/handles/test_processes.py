"""Real processes that are killed mid-event, or stopped: the others go on, with every event right."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from tests.echo_core.census import left_behind, peers_of, settled_census, until
from tests.echo_core.channel_events import Plain, Reading1, readings
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor

LINKED = ("shm", "unix", "tcp")

SENDER = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
source = channel.source(Plain)
source.wait_matched()
say("sends")
i = 0
while True:
    source.submit(Plain(i, i / 2))
    i += 1
"""

RECEIVER = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
taken = []
def take(event):
    taken.append(event.id)
    if len(taken) == 1000:
        say("takes")
sink = channel.sink(Plain, take)
hear()
"""


@pytest.fixture(params=LINKED)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Survivor:
    """A node that keeps what it receives, and notices who leaves."""

    def __init__(self, make_node: MakeNode, transport: str) -> None:
        self.transport = transport
        self.node = make_node(transports=[transport])
        self.channel = self.node.create_channel("test", Plain)
        self.left: list[echo.PeerLeft] = []
        self.wrong: list[Plain] = []
        self.taken = 0
        self.channel.watch(self._watch)

    def _watch(self, notice: echo.Notice) -> None:
        if isinstance(notice, echo.PeerLeft):
            self.left.append(notice)

    def take(self, event: Plain) -> None:
        if (event.id, event.x) != (self.taken, self.taken / 2):
            self.wrong.append(event)
        self.taken += 1

    def await_more_than(self, events: int) -> None:
        until(lambda: self.taken > events, "events")

    def demand_departures(self, count: int) -> None:
        until(lambda: len(self.left) == count, "the departure to be told")
        assert all(notice.reason for notice in self.left)
        until(lambda: not self.node.statistics().links, "the link to be gone")


@pytest.fixture
def survivor(make_node: MakeNode, transport: str) -> Survivor:
    return Survivor(make_node, transport)


def kill_senders(survivor: Survivor, times: int) -> None:
    """Each is killed while it submits; what had arrived by then is a run from its first event on."""
    sink = survivor.channel.sink(Plain, survivor.take)
    before = None
    for i in range(times):
        survivor.taken = 0
        with Actor(SENDER, survivor.transport, survivor.channel.id) as actor:
            actor.hear()
            survivor.await_more_than(1000 * (i % 7))
            actor.kill()
        survivor.demand_departures(i + 1)
        assert survivor.wrong == []
        assert sink.statistics().sources == 0
        before = before or settled_census()
    assert before is not None
    assert left_behind(before) == ""


def kill_receivers(survivor: Survivor, times: int) -> None:
    """Each is killed while it takes events; the source goes on, and counts what it lost."""
    source = survivor.channel.source(Plain)
    before = None
    for i in range(times):
        with Actor(RECEIVER, survivor.transport, survivor.channel.id) as actor:
            source.wait_matched(1, LIMIT_S)
            until(lambda: _submit(source) and actor.has_said("takes"), "the receiver to take events")
            actor.kill()
        until(lambda: _submit(source) and source.sinks == 0, "the source to notice")
        survivor.demand_departures(i + 1)
        before = before or settled_census()
    assert before is not None
    assert left_behind(before) == ""


def _submit(source: echo.Source[Plain]) -> bool:
    for i in range(100):
        source.submit(Plain(i, 0.5))
    return True


def test_a_sender_that_is_killed_is_noticed_and_leaves_nothing(survivor: Survivor) -> None:
    kill_senders(survivor, 2)


def test_a_receiver_that_is_killed_is_noticed_and_leaves_nothing(survivor: Survivor) -> None:
    kill_receivers(survivor, 2)


@pytest.mark.slow
def test_a_hundred_senders_are_killed(survivor: Survivor) -> None:
    kill_senders(survivor, 34)


@pytest.mark.slow
def test_a_hundred_receivers_are_killed(survivor: Survivor) -> None:
    kill_receivers(survivor, 34)


LEAVER = """
from tests.echo_core.channel_events import readings, Reading1
node = echo.Node(transports=[sys.argv[1]])
channel = node.open_channel(sys.argv[2])
source = channel.source(Reading1 if sys.argv[4] == "array" else Plain)
source.wait_matched()
if sys.argv[4] == "array":
    source.submit_array(readings(50_000))
    source.submit_array(readings(50_000))
else:
    for i in range(1000):
        source.submit(Plain(i, i / 2))
while node.statistics().links[0].queued_bytes:
    os.sched_yield()
say("has sent")
hear()
if sys.argv[3] == "closes":
    node.close(0.0)
elif sys.argv[3] == "exits":
    os._exit(0)
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _until_gone(actor: Actor, node: echo.Node, way: str) -> None:
    """The process, and where a ring does not say so itself, what the node knows of it."""
    assert actor.end()[0] == (-signal.SIGKILL if way == "is killed" else 0)
    (peer,) = peers_of(node)
    if peer.connection.wire.name == "shm":
        until(lambda: not peer.link.is_open, "the end of the process to be noticed")


WAYS = pytest.mark.parametrize("way", ["closes", "exits", "is killed"])


@WAYS
def test_a_slow_handler_gets_what_a_sender_sent_before_it_left(survivor: Survivor, way: str) -> None:
    """All of it, and of the departure it is told behind that."""
    go = threading.Event()

    def take(event: Plain) -> None:
        assert go.wait(LIMIT_S)
        survivor.take(event)
        assert not survivor.left

    sink = survivor.channel.sink(Plain, take)
    with Actor(LEAVER, survivor.transport, survivor.channel.id, way, "events") as actor:
        assert actor.hear() == "has sent"
        actor.tell("leave")
        _until_gone(actor, survivor.node, way)
    go.set()
    until(lambda: bool(survivor.left), "the departure to be told")
    assert (survivor.taken, survivor.wrong) == (1000, [])
    assert (sink.statistics().lost, sink.statistics().failures) == (0, 0)
    assert [bool(notice.reason) for notice in survivor.left] == [way != "closes"]
    assert survivor.node.statistics().links_lost == 0


@WAYS
def test_a_short_queue_gets_what_a_sender_sent_before_it_left(survivor: Survivor, way: str) -> None:
    """From whoever reads the link, which waits for room."""
    sink = survivor.channel.sink(Plain, backlog=echo.Backlog(events=4, when_full="block"))
    with Actor(LEAVER, survivor.transport, survivor.channel.id, way, "events") as actor:
        assert actor.hear() == "has sent"
        actor.tell("leave")
        _until_gone(actor, survivor.node, way)
    assert [sink.get(LIMIT_S).id for _ in range(1000)] == list(range(1000))
    assert (sink.statistics().lost, sink.statistics().dropped) == (0, 0)
    until(lambda: bool(survivor.left), "the departure to be told")


@WAYS
def test_what_a_sender_has_lent_outlives_it(make_node: MakeNode, way: str) -> None:
    """Of two arrays the second is in the ring still, and its records in the sender's memory."""
    node = make_node(transports=["shm"])
    channel = node.create_channel("test", Reading1)
    go = threading.Event()
    received: list[Any] = []

    def take(array: Any) -> None:
        assert go.wait(LIMIT_S)
        received.append(array)

    channel.sink(Reading1, take, batch=True)
    with Actor(LEAVER, "shm", channel.id, way, "array") as actor:
        assert actor.hear() == "has sent"
        actor.tell("leave")
        _until_gone(actor, node, way)
    go.set()
    until(lambda: not node.statistics().links, "the link to be gone")
    assert np.array_equal(np.concatenate(received), np.concatenate([readings(50_000)] * 2))


STOPPED = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
sink = channel.sink(Plain, backlog=echo.Backlog(events=10_000_000, size_bytes=1 << 30))
sink.wait_matched()
say("waits")
hear()
ids = []
while not ids or ids[-1] >= 0:
    ids.append(sink.get(LIMIT_S).id)
ids.pop()
assert ids == sorted(set(ids)), "out of order"
statistics = sink.statistics()
say(len(ids), statistics.lost)
"""


def test_a_process_that_is_stopped_holds_up_no_other(survivor: Survivor) -> None:
    """Its source drops for it alone; when it goes on it sees the gap, and the order is kept."""
    backlog = echo.Backlog(events=1000, when_full="drop_newest")
    source = survivor.channel.source(Plain, backlog=backlog)
    arguments = survivor.transport, survivor.channel.id
    with Actor(STOPPED, *arguments) as stopped, Actor(STOPPED, *arguments) as other:
        assert (stopped.hear(), other.hear()) == ("waits", "waits")
        source.wait_matched(2)
        stopped.signal(signal.SIGSTOP)
        sent = 0
        while source.statistics().dropped == 0 or sent < 50_000:
            source.submit(Plain(sent, 0.5))
            sent += 1
            if sent % 500 == 0:
                _await_frames(survivor.node, other.pid, sent)
        dropped = source.statistics().dropped
        stopped.signal(signal.SIGCONT)
        source.flush(LIMIT_S)
        source.submit(Plain(-1, 0.5))
        for actor in (stopped, other):
            actor.tell("go on")
        counts = [tuple(map(int, actor.hear().split())) for actor in (stopped, other)]
        assert [taken + lost for taken, lost in counts] == [sent, sent]
        assert sum(lost for _, lost in counts) == dropped
        assert counts[0][1] > 0
        assert stopped.end()[0] == other.end()[0] == 0


def _await_frames(node: echo.Node, pid: int, frames: int) -> None:
    """Until so many were sent to the process with that number, which its node is named after."""

    def sent() -> int:
        (link,) = [link for link in node.statistics().links if f"{pid}-" in link.peer]
        return link.sent_frames

    until(lambda: sent() >= frames, "frames to be sent")
