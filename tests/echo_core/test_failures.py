"""What fails in a component is reported, and costs nobody else an event."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import echo_core as echo
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.test_conformance import LIMIT_S, Collector


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
    sink.join(LIMIT_S)
    assert sink.is_closed
    assert source.sinks == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # pytest takes it for one
def test_a_handler_that_ends_its_thread_ends_the_sink(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x", Plain)

    def leave(event: Plain) -> None:
        raise SystemExit

    sink = channel.sink(Plain, leave, own_thread=True)
    channel.source().submit(Plain(1, 1.0))
    sink.join(LIMIT_S)
    assert sink.is_closed


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
