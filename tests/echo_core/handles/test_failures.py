"""What fails in a component is reported, and costs nobody else an event."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest

import echo_core as echo
from tests.echo_core.census import target_of
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector
from tests.echo_core.processes import Actor


@pytest.mark.parametrize("own_thread", [False, True])
@pytest.mark.parametrize("transport", ["process", "unix"], indirect=True)
def test_a_hook_that_fails_too_stops_no_handler(
    make_node: MakeNode, transport: str, *, own_thread: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(sink: echo.Sink[Any], error: BaseException) -> None:
        msg = "the hook"
        raise RuntimeError(msg)

    def handle(event: Plain) -> None:
        if event.id == 0:
            msg = "the handler"
            raise ValueError(msg)
        taken(event)

    taken = Collector()
    channel = make_node(transports=[transport]).create_channel("x", Plain)
    opened = make_node(transports=[transport], on_failure=fail).open_channel(channel.id)
    sink = opened.sink(Plain, handle, own_thread=own_thread)
    source = channel.source()
    source.wait_matched()
    for i in range(3):
        source.submit(Plain(i, 1.0))
    assert [event.id for event in taken.wait(2)] == [1, 2]
    assert sink.statistics().failures == 1
    assert "the handler" in caplog.text
    assert "the hook" in caplog.text


def test_a_full_queue_before_a_thread_is_reported_and_ends_the_sink(make_node: MakeNode) -> None:
    """The policy "error" has nobody to raise it to."""
    told = Collector()

    def tell(*failure: object) -> None:
        told(failure)

    node = make_node(on_failure=tell)
    channel = node.create_channel("x", Plain)
    may_end = threading.Event()
    backlog = echo.Backlog(events=3, when_full="error")
    sink = channel.sink(Plain, lambda _: may_end.wait(LIMIT_S), own_thread=True, backlog=backlog)
    source = channel.source()
    for i in range(10):
        source.submit(Plain(i, 1.0))
    may_end.set()
    [(failed, error)] = told.wait(1)
    assert failed is sink
    assert isinstance(error, echo.BacklogError)
    target_of(sink).join(LIMIT_S)
    assert sink.is_closed
    assert source.sinks == 0


EXITS = [SystemExit, KeyboardInterrupt, GeneratorExit]


@pytest.mark.parametrize("exits", EXITS)
@pytest.mark.parametrize(
    ("transport", "own_thread"),
    [("process", True), ("shm", False), ("shm", True), ("tcp", False)],
    indirect=["transport"],
)
def test_a_handler_ends_no_thread_of_the_library(
    make_node: MakeNode, transport: str, *, own_thread: bool, exits: type[BaseException]
) -> None:
    """It has failed, and so has the hook; the next event comes, and so do those of others."""
    told, taken = Collector(), Collector()

    def tell(sink: echo.Sink[Any], error: BaseException) -> None:
        told((sink, type(error)))
        raise exits

    def handle(event: Plain) -> None:
        taken(event)
        if event.id == 0:
            raise exits

    channel = make_node(transports=[transport]).create_channel("x", Plain)
    opened = make_node(transports=[transport], on_failure=tell).open_channel(channel.id)
    sink = opened.sink(Plain, handle, own_thread=own_thread)
    neighbour = opened.sink(Plain)
    source = channel.source()
    source.wait_matched(2)
    for i in range(3):
        source.submit(Plain(i, 1.0))
    assert [event.id for event in taken.wait(3)] == [0, 1, 2]
    assert [neighbour.get(LIMIT_S).id for _ in range(3)] == [0, 1, 2]
    source.flush(LIMIT_S)
    assert told.wait(1) == [(sink, exits)]
    assert (sink.statistics().failures, sink.statistics().queued_events) == (1, 0)
    assert source.sinks == 2
    assert not sink.is_closed


@pytest.mark.parametrize("exits", EXITS)
def test_a_handler_may_exit_the_thread_of_a_component(
    make_node: MakeNode, exits: type[BaseException]
) -> None:
    """That has submitted: others have got the event, and nothing is closed."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("x", Plain)
    opened = there.open_channel(channel.id)

    def leave(event: Plain) -> None:
        raise exits

    source = channel.source()
    leaving = channel.sink(Plain, leave)
    waiting = opened.sink(Plain)
    source.wait_matched(2)
    with pytest.raises(exits):
        source.submit(Plain(1, 1.0))
    assert waiting.get(LIMIT_S) == Plain(1, 1.0)
    assert not leaving.is_closed


def test_a_child_that_a_handler_has_forked_may_exit() -> None:
    """It has no other thread: neither a failure, nor anything to go on with."""
    with Actor(_FORKS, forks=True) as actor:
        assert actor.demand_quiet_end() == "forked\n" * 3


_FORKS = """
import logging
from echo_core.codegen.machine import background
logging.getLogger("echo_core").setLevel(logging.ERROR)  # one event is dropped on purpose
faulthandler.cancel_dump_traceback_later()  # a forked child would wait for its thread
children = []
has_forked = threading.Event()

def fork(*_):
    assert background.drain(LIMIT_S / 4)  # a child that has jobs ends with the thread that it has for them
    child = os.fork()
    if child == 0:
        sys.exit()
    children.append(child)
    has_forked.set()

def forked():
    assert has_forked.wait(LIMIT_S)
    has_forked.clear()
    assert os.waitpid(children.pop(), 0)[1] == 0
    say("forked")

channel = echo.Node(transports=["tcp"]).create_channel("x", Plain)
opened = echo.Node(transports=["tcp"]).open_channel(channel.id)
source = channel.source()
for settings in ({"own_thread": False}, {"own_thread": True}):
    with opened.sink(Plain, fork, **settings):
        source.wait_matched()
        source.submit(Plain(1, 1.0))
        forked()
channel.watch(lambda notice: fork() if isinstance(notice, echo.EventsLost) else None)
full = channel.sink(Plain, backlog=echo.Backlog(events=1, when_full="drop_newest"))
for i in range(2):
    source.submit(Plain(i, 1.0))
forked()
"""


def test_a_watcher_that_exits_shuts_no_door(make_node: MakeNode, caplog: pytest.LogCaptureFixture) -> None:
    """What was lost is told in the thread that lets others in."""
    told = Collector()

    def leave(notice: echo.Notice) -> None:
        if isinstance(notice, echo.EventsLost):
            told(notice)
            sys.exit()

    channel = make_node(transports=["tcp"]).create_channel("x", Plain)
    channel.watch(leave)
    channel.sink(Plain, backlog=echo.Backlog(events=1, when_full="drop_newest"))
    source = channel.source()
    for i in range(2):
        source.submit(Plain(i, 1.0))
    told.wait(1)
    assert make_node(transports=["tcp"]).open_channel(channel.id).name == "x"
    assert "SystemExit" in caplog.text


@echo.event
class _Wide:
    number: int


@echo.event(aliases=("_Wide",))
class _Narrow:
    number: echo.Int32


@pytest.mark.parametrize("handler", [None, print])
def test_a_record_that_no_event_can_be_made_of_is_no_fault_of_a_handler(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture, handler: Any
) -> None:
    """The log says what was sent and what it was to become, and not where in the library that was seen."""
    told = Collector()

    def tell(_: object, error: BaseException) -> None:
        told(error)

    channel = make_node(on_failure=tell).create_channel("x")
    sink = channel.sink(_Narrow, handler, lossy=True)
    channel.source(_Wide).submit(_Wide(2**40))
    [error] = told.wait(1)
    assert isinstance(error, echo.ConversionError)
    assert sink.statistics().failures == 1
    [record] = caplog.records
    assert record.exc_info is None
    assert (
        record.message == f"channel `x`: what a source of `_Wide` has sent cannot become `_Narrow`: {error}"
    )


def test_a_failure_of_a_class_is_traced(make_node: MakeNode, caplog: pytest.LogCaptureFixture) -> None:
    """It is a component's code that has made no event of the record."""

    @echo.named(aliases=("_Wide",))
    @dataclass
    class Odd:
        number: int

        def __post_init__(self) -> None:
            if self.number == 1:
                msg = "an odd one"
                raise ValueError(msg)

    channel = make_node().create_channel("x")
    sink = channel.sink(Odd)
    channel.source(_Wide).submit(_Wide(1))
    assert sink.statistics().failures == 1
    assert "cannot become" in caplog.text
    assert "in __post_init__" in caplog.text


def test_a_closed_sink_says_of_what_channel(make_node: MakeNode) -> None:
    channel = make_node().create_channel("particles")
    sink = channel.sink(Plain)
    sink.close()
    with pytest.raises(echo.ClosedError, match="that on `particles` is closed, and nothing is left in it"):
        sink.get(1)
