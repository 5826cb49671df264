"""Real processes that are killed mid-event, or stopped: the others go on, with every event right."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from echo_core.values.backlog import WhenFull
from echo_core.values.statistics import SourceStatistics
from tests.echo_core.census import left_behind, settled_census, until
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


class Taken:
    """What one handler was given: a run from the first event on, or it is wrong."""

    def __init__(self) -> None:
        self.wrong: list[Plain] = []
        self.events = 0

    def take(self, event: Plain) -> None:
        if (event.id, event.x) != (self.events, self.events / 2):
            self.wrong.append(event)
        self.events += 1


class Survivor:
    """A node that notices who leaves."""

    def __init__(self, make_node: MakeNode, transport: str) -> None:
        self.transport = transport
        self.node = make_node(transports=[transport])
        self.channel = self.node.create_channel("test", Plain)
        self.left: list[echo.PeerLeft] = []
        self.channel.watch(self._watch)

    def _watch(self, notice: echo.Notice) -> None:
        if isinstance(notice, echo.PeerLeft):
            self.left.append(notice)

    def demand_departures(self, count: int) -> None:
        until(lambda: len(self.left) == count, "the departure to be told")
        assert all(notice.reason for notice in self.left)
        until(lambda: not self.node.statistics().links, "the link to be gone")


@pytest.fixture
def survivor(make_node: MakeNode, transport: str) -> Survivor:
    return Survivor(make_node, transport)


def kill_senders(survivor: Survivor, times: int) -> None:
    """Each is killed while it submits."""
    before = None
    for i in range(times):
        kill_sender(survivor, 1000 * (i % 7))
        survivor.demand_departures(i + 1)
        before = before or settled_census()
    assert before is not None
    assert left_behind(before) == ""


def kill_sender(survivor: Survivor, events: int) -> None:
    """Not before that many have arrived; what has arrived is a run from its first event on."""
    taken = Taken()  # of its own: the handler of the sink before may be under way yet
    with survivor.channel.sink(Plain, taken.take) as sink:
        with Actor(SENDER, survivor.transport, survivor.channel.id) as actor:
            actor.hear()
            until(lambda: taken.events > events, "events")
            actor.kill()
        until(lambda: not survivor.node.statistics().links, "the link to be gone")
        assert taken.wrong == []
        assert sink.statistics().sources == 0


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
        demand_account(source)
        before = before or settled_census()
    assert before is not None
    assert left_behind(before) == ""


def demand_account(source: echo.Source[Any]) -> SourceStatistics:
    """What became of each event of a source, of which each went to one receiver."""
    told = source.statistics()
    assert told.events == told.confirmed + told.dropped + told.unconfirmed
    return told


def _submit(source: echo.Source[Plain]) -> bool:
    """Where somebody takes it: with the books open nobody leaves between the look and the event."""
    for i in range(100):
        with books.changing():
            if source.sinks:
                source.submit(Plain(i, 0.5))
    return True


def test_a_sender_that_is_killed_is_noticed_and_leaves_nothing(survivor: Survivor) -> None:
    kill_senders(survivor, 2)


def test_a_receiver_that_is_killed_is_noticed_and_leaves_nothing(survivor: Survivor) -> None:
    kill_receivers(survivor, 2)


COUNTING = """
channel = echo.Node(transports=[sys.argv[1]]).open_channel(sys.argv[2])
file = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND)
count = 0
def take(event):
    global count
    os.write(file, b".")
    count += 1
    if count == 50_000:
        say("takes")
sink = channel.sink(Plain, take)
hear()
"""


@pytest.mark.parametrize("when_full", ["pace", "block", "drop_oldest", "drop_newest"])
def test_every_event_to_a_receiver_that_is_killed_is_confirmed_dropped_or_unconfirmed(
    survivor: Survivor, when_full: WhenFull, tmp_path: Path
) -> None:
    """And what it has handled lies between what is confirmed, and that with what is not."""
    handled, notices = tmp_path / "handled", list[echo.EventsLost]()
    handled.touch()

    def note(notice: echo.Notice) -> None:
        if isinstance(notice, echo.EventsLost):
            notices.append(notice)

    survivor.channel.watch(note)
    source = survivor.channel.source(Plain, backlog=echo.Backlog(events=1000, when_full=when_full))
    with Actor(COUNTING, survivor.transport, survivor.channel.id, str(handled)) as actor:
        source.wait_matched(1, LIMIT_S)
        until(lambda: _submit(source) and actor.has_said("takes"), "the receiver to take events")
        actor.kill()
    survivor.demand_departures(1)
    told = demand_account(source)
    assert 0 < told.confirmed <= handled.stat().st_size <= told.confirmed + told.unconfirmed
    assert sum(notice.events for notice in notices if notice.is_unconfirmed) == told.unconfirmed


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


WAYS = pytest.mark.parametrize("way", ["closes", "exits", "is killed"])


@WAYS
def test_a_slow_handler_gets_what_a_sender_sent_before_it_left(survivor: Survivor, way: str) -> None:
    """All of it, though others have been told of the departure by then."""
    go, taken = threading.Event(), Taken()

    def take(event: Plain) -> None:
        assert go.wait(LIMIT_S)
        taken.take(event)

    sink = survivor.channel.sink(Plain, take)
    with Actor(LEAVER, survivor.transport, survivor.channel.id, way, "events") as actor:
        assert actor.hear() == "has sent"
        actor.tell("leave")
        assert actor.end()[0] == (-signal.SIGKILL if way == "is killed" else 0)
    until(lambda: bool(survivor.left), "the departure to be told")
    assert taken.events == 0
    go.set()
    until(lambda: taken.events == 1000, "all events to be handled")
    assert (taken.events, taken.wrong) == (1000, [])
    assert (sink.statistics().lost, sink.statistics().failures) == (0, 0)
    assert [bool(notice.reason) for notice in survivor.left] == [way != "closes"]
    assert survivor.node.statistics().links_lost == 0


@WAYS
def test_a_queue_gets_what_a_sender_sent_before_it_left(survivor: Survivor, way: str) -> None:
    """From whoever reads the link, which holds as much as was granted."""
    sink = survivor.channel.sink(Plain, backlog=echo.Backlog(events=1000))
    with Actor(LEAVER, survivor.transport, survivor.channel.id, way, "events") as actor:
        assert actor.hear() == "has sent"
        actor.tell("leave")
        actor.end()
    until(lambda: bool(survivor.left), "the departure to be told")
    assert [sink.get(LIMIT_S).id for _ in range(1000)] == list(range(1000))
    assert (sink.statistics().lost, sink.statistics().dropped) == (0, 0)


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
        assert actor.end()[0] == (-signal.SIGKILL if way == "is killed" else 0)
    until(lambda: not node.statistics().links, "the link to be gone")
    go.set()
    until(lambda: sum(map(len, received)) == 100_000, "both arrays")
    assert np.array_equal(np.concatenate(received), np.concatenate([readings(50_000)] * 2))


STOPPED = """
limits = echo.Limits(window_events=1 << 24, window_bytes=1 << 30)
channel = echo.Node(transports=[sys.argv[1]], limits=limits).open_channel(sys.argv[2])
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
