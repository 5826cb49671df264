"""What becomes of events that wait for a slow handler, whatever ends meanwhile."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import echo_core as echo
from echo_core.values.statistics import SourceStatistics
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import Collector
from tests.echo_core.processes import LIMIT_S, Actor

EVENTS = 50


def numbers(count: int = EVENTS) -> list[int]:
    return list(range(count))


@dataclass
class Slow:
    """A handler that waits at its first event until it may go on."""

    handled: list[int] = field(default_factory=list[int])
    is_at_work: threading.Event = field(default_factory=threading.Event)
    may_go: threading.Event = field(default_factory=threading.Event)

    def __call__(self, event: Plain) -> None:
        self.handled.append(event.id)
        self.is_at_work.set()
        assert self.may_go.wait(LIMIT_S)


@dataclass
class Robot:
    """A node with a slow sink, and a source elsewhere all of whose events have come to it."""

    node: echo.Node
    channel: echo.Channel[Plain]
    sink: echo.Sink[Plain]
    source: echo.Source[Plain]
    slow: Slow


def robot(make_node: MakeNode) -> Robot:
    """A second channel of the two nodes says when the events have come."""
    here, there, slow = make_node(transports=["unix"]), make_node(transports=["unix"]), Slow()
    work, stops = here.create_channel("work", Plain), here.create_channel("stops", Plain)
    opened = there.open_channel(work.id)
    sink, stopped = opened.sink(Plain, slow), threading.Event()
    there.open_channel(stops.id).sink(Plain, lambda _: stopped.set())
    source, stopping = work.source(), stops.source()
    source.wait_matched()
    stopping.wait_matched()
    for number in numbers():
        source.submit(Plain(number, 0.0))
    stopping.submit(Plain(0, 0.0))
    assert stopped.wait(LIMIT_S)
    assert slow.handled == [0]
    return Robot(there, opened, sink, source, slow)


def demand_sum(source: echo.Source[Plain], count: int = EVENTS) -> SourceStatistics:
    """submitted = confirmed + dropped + unconfirmed, in the end."""

    def is_settled() -> bool:
        told = source.statistics()
        return told.confirmed + told.dropped + told.unconfirmed == count

    until(is_settled)
    return source.statistics()


CLOSINGS: dict[str, Callable[[Robot], None]] = {
    "sink": lambda robot: robot.sink.close(),
    "channel": lambda robot: robot.channel.close(),
    "node": lambda robot: robot.node.close(0.0),
}


@pytest.mark.parametrize("closed", CLOSINGS)
def test_what_waits_for_a_slow_handler_is_dropped_and_counted_where_its_sink_is_closed(
    make_node: MakeNode, closed: str
) -> None:
    """With its channel or node, too. The call that is under way is the last one."""
    it = robot(make_node)
    CLOSINGS[closed](it)
    it.slow.may_go.set()
    statistics = it.sink.statistics()
    assert (statistics.events, statistics.dropped) == (EVENTS, EVENTS - 1)
    told = demand_sum(it.source)
    assert told.confirmed + told.unconfirmed == EVENTS
    assert it.slow.handled == [0]


def test_a_drain_is_over_when_a_slow_handler_is(make_node: MakeNode) -> None:
    it = robot(make_node)
    with pytest.raises(echo.TimedOutError):
        it.source.drain(0.1)
    it.slow.may_go.set()
    it.source.drain(LIMIT_S)
    assert it.slow.handled == numbers()
    assert demand_sum(it.source).confirmed == EVENTS


SENDER = """
node = echo.Node(transports=["unix"])
work, stops = node.open_channel(sys.argv[1]), node.open_channel(sys.argv[2])
working, stopping = work.source(Plain), stops.source(Plain)
working.wait_matched(timeout_s=LIMIT_S)
stopping.wait_matched(timeout_s=LIMIT_S)
for number in range(50):
    working.submit(Plain(number, 0.0))
stopping.submit(Plain(0, 0.0))
say("sent")
hear()
"""


def test_a_sender_is_killed_while_a_handler_is_slow_and_all_that_came_is_handled(make_node: MakeNode) -> None:
    node, slow, stopped, told = make_node(transports=["unix"]), Slow(), threading.Event(), Collector()
    work, stops = node.create_channel("work", Plain), node.create_channel("stops", Plain)
    work.watch(told)
    sink = work.sink(Plain, slow)
    stops.sink(Plain, lambda _: stopped.set())
    with Actor(SENDER, work.id, stops.id) as sender:
        assert sender.hear() == "sent"
        assert stopped.wait(LIMIT_S)
        sender.signal(signal.SIGKILL)
        told.wait_for(echo.PeerLeft)
        assert slow.handled == [0]
        slow.may_go.set()
        until(lambda: len(slow.handled) == EVENTS)
    assert slow.handled == numbers()
    assert (sink.statistics().events, sink.statistics().dropped) == (EVENTS, 0)


RECEIVER = """
node = echo.Node(transports=["unix"])
def handle(event):
    say(event.id)
    if event.id == 10:
        threading.Event().wait(LIMIT_S)
node.open_channel(sys.argv[1]).sink(Plain, handle)
node.open_channel(sys.argv[2]).sink(Plain, lambda _: say("stopped"))
hear()
"""


def test_a_receiver_is_killed_in_a_slow_handler_and_what_it_handled_lies_within_the_counts(
    make_node: MakeNode,
) -> None:
    node = make_node(transports=["unix"])
    work, stops = node.create_channel("work", Plain), node.create_channel("stops", Plain)
    source, stopping = work.source(), stops.source()
    with Actor(RECEIVER, work.id, stops.id) as receiver:
        source.wait_matched(timeout_s=LIMIT_S)
        stopping.wait_matched(timeout_s=LIMIT_S)
        for number in numbers():
            source.submit(Plain(number, 0.0))
        handled = [int(receiver.hear()) for _ in range(11)]
        stopping.submit(Plain(0, 0.0))
        assert receiver.hear() == "stopped"
        receiver.kill()
    told = demand_sum(source)
    assert handled == numbers(11)
    assert told.confirmed <= len(handled) <= told.confirmed + told.unconfirmed


def test_a_handler_that_is_always_a_little_slow_costs_no_thread_for_each_event(make_node: MakeNode) -> None:
    """Whoever was overtaken stands by next."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel, threads, pause = here.create_channel("x", Plain), list[threading.Thread](), threading.Event()
    is_handled = threading.Semaphore(0)

    def handle(event: Plain) -> None:
        threads.append(threading.current_thread())
        pause.wait(0.012)
        is_handled.release()

    there.open_channel(channel.id).sink(Plain, handle)
    source = channel.source()
    source.wait_matched()
    for number in numbers():
        source.submit(Plain(number, 0.0))
        assert is_handled.acquire(timeout=LIMIT_S)
        source.flush(LIMIT_S)
    assert len(set(threads)) < 10  # 3, where the machine is quiet


@dataclass
class Model:
    """One sink, what it has handled, and when it is closed: by its handler or from outside, or not at all."""

    slow_at: frozenset[int]
    closed_at: int | None
    seconds: float
    handled: list[int] = field(default_factory=list[int])
    pause: threading.Event = field(default_factory=threading.Event)
    sink: echo.Sink[Plain] | None = None

    def __call__(self, event: Plain) -> None:
        self.handled.append(event.id)
        if event.id in self.slow_at:
            self.pause.wait(self.seconds)
        if event.id == self.closed_at and self.sink is not None:
            self.sink.close()


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
@pytest.mark.parametrize("seed", range(3))
def test_whichever_handlers_are_slow_and_sinks_are_closed_each_gets_its_events_once_and_in_order(
    make_node: MakeNode, transport: str, seed: int
) -> None:
    """Against the plain rule: all events, or those up to the one at which it is closed."""
    chance = random.Random(seed)
    here, there = make_node(transports=[transport]), make_node(transports=[transport])
    models, sources = list[Model](), list[echo.Source[Plain]]()
    for number in range(6):
        channel = here.create_channel(f"c{number}", Plain)
        model = Model(
            frozenset(chance.sample(range(200), chance.randrange(5))),
            chance.randrange(200) if chance.random() < 0.4 else None,
            chance.uniform(0.006, 0.05),
        )
        model.sink = there.open_channel(channel.id).sink(Plain, model)
        models.append(model)
        sources.append(channel.source())
    for source in sources:
        source.wait_matched(timeout_s=LIMIT_S)
    for event in range(200):
        for source in chance.sample(sources, len(sources)):
            source.submit(Plain(event, 0.0))
    for source, model in zip(sources, models, strict=True):
        source.drain(LIMIT_S)
        last = 199 if model.closed_at is None else model.closed_at
        until(lambda: len(model.handled) >= last + 1)  # noqa: B023
        assert model.handled == numbers(last + 1)
        told = demand_sum(source, 200) if model.closed_at is None else source.statistics()
        assert told.unconfirmed == 0
        if model.closed_at is None:
            assert told.confirmed == 200
