"""Real processes that are killed mid-event, or stopped: the others go on, with every event right."""

from __future__ import annotations

import signal

import pytest

import echo_core as echo
from tests.echo_core.census import left_behind, settled_census, until
from tests.echo_core.channel_events import Plain
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
