"""A handler that is slow holds up its own sink alone, and is told of."""

from __future__ import annotations

import threading
import time

import pytest

import echo_core as echo
from tests.echo_core.census import peers_of, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import Collector
from tests.echo_core.processes import LIMIT_S, Actor

LINKED = ("shm", "unix", "tcp")

# Two channels between the same two processes: the handler of one takes a second, that of the other says when.
ROBOT = """
node = echo.Node(transports=[sys.argv[1]])
work, stops = node.open_channel(sys.argv[2]), node.open_channel(sys.argv[3])
done = []
def handle(event):
    done.append(event.id)
    if event.id == 0:
        say("at work")
        threading.Event().wait(1.0)
    if event.id == 99:
        say(done == list(range(100)))
def stop(event):
    say(time.monotonic_ns())
work.sink(Plain, handle)
stops.sink(Plain, stop)
hear()
"""


@pytest.mark.parametrize("transport", LINKED)
def test_an_emergency_stop_passes_a_handler_that_sleeps(make_node: MakeNode, transport: str) -> None:
    """Whose sink misses nothing, in order. `flush` says so when that is true, not before."""
    node = make_node(transports=[transport])
    work, stops = node.create_channel("work", Plain), node.create_channel("stops", Plain)
    with Actor(ROBOT, transport, work.id, stops.id) as robot:
        working, stopping = work.source(), stops.source()
        working.wait_matched(timeout_s=LIMIT_S)
        stopping.wait_matched(timeout_s=LIMIT_S)
        for number in range(50):
            working.submit(Plain(number, 0.0))
        assert robot.hear() == "at work"
        submitted_ns = time.monotonic_ns()
        stopping.submit(Plain(0, 0.0))
        for number in range(50, 100):
            working.submit(Plain(number, 0.0))
        stopped_ns = int(robot.hear())
        working.flush(LIMIT_S)
        assert robot.has_said("True")
        assert stopped_ns - submitted_ns < 250_000_000  # on a quiet machine 10 ms
        robot.tell("end")
        robot.end()


@pytest.mark.parametrize("transport", LINKED)
def test_a_stop_passes_a_slow_handler_within_milliseconds(make_node: MakeNode, transport: str) -> None:
    """20 on a quiet machine; this bound is for a busy one."""
    here, there = make_node(transports=[transport]), make_node(transports=[transport])
    work, stops = here.create_channel("work", Plain), here.create_channel("stops", Plain)
    at_work, may_go, stopped = threading.Event(), threading.Event(), threading.Event()

    def handle(event: Plain) -> None:
        at_work.set()
        may_go.wait(LIMIT_S)

    there.open_channel(work.id).sink(Plain, handle)
    there.open_channel(stops.id).sink(Plain, lambda _: stopped.set())
    working, stopping = work.source(), stops.source()
    working.wait_matched()
    stopping.wait_matched()
    working.submit(Plain(0, 0.0))
    assert at_work.wait(LIMIT_S)
    stopping.submit(Plain(1, 0.0))
    assert stopped.wait(0.5)
    may_go.set()
    working.flush(LIMIT_S)


@pytest.mark.parametrize("transport", ["process", "unix"])
def test_a_handler_that_keeps_the_lock_in_one_call_is_told_of(
    make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No other thread runs meanwhile, so it is told of when it has returned."""
    here, there = make_node(transports=[transport]), make_node(transports=[transport])
    channel, told = here.create_channel("x", Plain), Collector()

    # Computed, not slept: a core whose other half is at work may need twice as long for the same.
    begin = time.thread_time()
    sum(range(2_000_000))
    numbers = range(int(2_000_000 * 3.5 / (time.thread_time() - begin)))

    def greedy(event: Plain) -> None:
        sum(numbers)

    opened = there.open_channel(channel.id)
    opened.watch(told)
    sink = opened.sink(Plain, greedy)
    source = channel.source()
    source.wait_matched()
    source.submit(Plain(0, 0.0))
    [slow] = told.wait_for(echo.HandlerSlow)
    assert "greedy" in slow.handler
    assert slow.seconds > 0.9
    assert sink.statistics().slow == 1
    assert "kept the interpreter's lock" in caplog.text


def test_a_get_is_not_held_up_by_a_slow_handler_of_the_same_link(make_node: MakeNode) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    may_go = threading.Event()
    opened = there.open_channel(channel.id)
    opened.sink(Plain, lambda _: may_go.wait(LIMIT_S))
    waiting = opened.sink(Plain)
    source = channel.source()
    source.wait_matched(2)
    for number in range(10):
        source.submit(Plain(number, 0.0))
    assert [waiting.get(LIMIT_S).id for _ in range(10)] == list(range(10))
    assert not may_go.is_set()
    may_go.set()


@pytest.mark.parametrize("own_thread", [False, True])
@pytest.mark.parametrize("transport", ["process", "unix"])
def test_a_handler_that_has_run_for_a_second_is_told_of(
    make_node: MakeNode, transport: str, *, own_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and once when it has returned."""
    here, there = make_node(transports=[transport]), make_node(transports=[transport])
    channel, told, may_go = here.create_channel("x", Plain), Collector(), threading.Event()

    def sleepy(event: Plain) -> None:
        may_go.wait(LIMIT_S)

    opened = there.open_channel(channel.id)
    opened.watch(told)
    sink = opened.sink(Plain, sleepy, own_thread=own_thread)
    source = channel.source()
    source.wait_matched()
    submitting = threading.Thread(target=source.submit, args=(Plain(0, 0.0),))
    submitting.start()
    [slow] = told.wait_for(echo.HandlerSlow)
    assert slow.handler.endswith("sleepy")
    assert 0.9 < slow.seconds < LIMIT_S
    assert sink.statistics().slow == 1
    assert "has been at work for" in caplog.text
    assert "has returned" not in caplog.text
    may_go.set()
    submitting.join(LIMIT_S)
    until(lambda: "has returned after" in caplog.text)
    assert len(told.of(echo.HandlerSlow)) == sink.statistics().slow == 1


def test_a_handler_that_is_always_slow_is_logged_once_a_minute(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """And told of each time."""
    channel, told, taken = make_node().create_channel("x", Plain), Collector(), threading.Event()
    channel.watch(told)
    calls: list[float] = []

    def slow(event: Plain) -> None:
        taken.wait(1.5)
        calls.append(event.x)

    sink = channel.sink(Plain, slow, own_thread=True)
    source = channel.source()
    for number in range(3):
        source.submit(Plain(number, 0.0))
    until(lambda: len(calls) == 3)
    until(lambda: sink.statistics().slow == 3)
    assert len(told.of(echo.HandlerSlow)) == 3
    assert caplog.text.count("has been at work for") == caplog.text.count("has returned after about") == 1
    sink.close()
    assert "2 more within" in caplog.text


def test_a_handler_that_computes_is_told_of_once_and_a_stop_passes_it(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It gives the interpreter's lock away every few milliseconds: the stop needs that twice."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    work, stops = here.create_channel("work", Plain), here.create_channel("stops", Plain)
    told, stopped = Collector(), threading.Event()
    passed: list[bool] = []

    def compute(event: Plain) -> None:
        begin, number = time.monotonic(), 0
        while time.monotonic() - begin < 1.5 or not told.of(echo.HandlerSlow):
            number = (number * 31 + 7) % 1_000_003
            if time.monotonic() - begin > LIMIT_S:
                break
        passed.append(stopped.is_set())

    opened = there.open_channel(work.id)
    opened.watch(told)
    sink = opened.sink(Plain, compute)
    there.open_channel(stops.id).sink(Plain, lambda _: stopped.set())
    working, stopping = work.source(), stops.source()
    working.wait_matched()
    stopping.wait_matched()
    working.submit(Plain(0, 0.0))
    stopping.submit(Plain(0, 0.0))
    working.flush(LIMIT_S)
    assert passed == [True]
    until(lambda: "has returned after" in caplog.text)
    [slow] = told.of(echo.HandlerSlow)
    assert slow.handler.endswith("compute")
    assert sink.statistics().slow == 1
    said = [record for record in caplog.records if "has been at work for" in record.getMessage()]
    assert [(record.levelname, "compute" in record.getMessage()) for record in said] == [("WARNING", True)]


def test_a_handler_that_fails_for_every_event_logs_one_traceback_and_a_sum(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: Plain) -> None:
        raise ValueError(event.id)

    channel = make_node().create_channel("x", Plain)
    sink, source = channel.sink(Plain, fail), channel.source()
    for number in range(1000):
        source.submit(Plain(number, 0.0))
    assert caplog.text.count("Traceback") == 1
    sink.close()
    assert "999 more" in caplog.text
    assert len(caplog.records) == 2
    assert sink.statistics().failures == 1000


@pytest.mark.parametrize("ends", ["with its source", "with its link"])
def test_a_slow_handler_has_nothing_confirmed_that_it_has_not_finished_with(
    make_node: MakeNode, ends: str
) -> None:
    """Also when its source is closed: its process may yet be killed."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    work, other = here.create_channel("work", Plain), here.create_channel("other", Plain)
    may_go, at_work, elsewhere = threading.Event(), Collector(), Collector()

    def handle(event: Plain) -> None:
        at_work(event)
        assert may_go.wait(LIMIT_S)

    there.open_channel(work.id).sink(Plain, handle)
    there.open_channel(other.id).sink(Plain, elsewhere)
    source, beside = work.source(), other.source()
    source.wait_matched()
    beside.wait_matched()
    for i in range(10):
        source.submit(Plain(i, 0.0))
    at_work.wait(1)
    source.close()
    beside.submit(Plain(0, 0.0))
    elsewhere.wait(1)
    assert (work.statistics().confirmed, len(at_work.events)) == (0, 1)
    if ends == "with its source":
        may_go.set()
        until(lambda: work.statistics().confirmed == 10)
        assert [event.id for event in at_work.events] == list(range(10))
    else:
        for peer in peers_of(here):
            peer.link.shut()
        until(lambda: work.statistics().unconfirmed == 10)
        may_go.set()
    counted = work.statistics()
    assert counted.confirmed + counted.unconfirmed == 10
