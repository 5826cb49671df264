"""Closing takes the time that it was given, once, and leaves nothing half closed when it is interrupted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import echo_core as echo
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.test_conformance import LIMIT_S

_MARGIN_S = 2.0  # far less than what links and threads would take one after the other


class _Stuck:
    """A handler that does not return before it is allowed to."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, event: Any) -> None:
        self.has_begun.set()
        self.may_end.wait(LIMIT_S)


@pytest.fixture
def stuck() -> Iterator[_Stuck]:
    handler = _Stuck()
    yield handler
    handler.may_end.set()


class _Interrupted(BaseException):
    pass


def _interrupt(*_: object) -> None:
    raise _Interrupted


def _fill(source: echo.Source[Plain]) -> None:
    while not source.statistics().dropped:
        source.submit(Plain(1, 1.0))


def test_threads_of_sinks_share_the_time_to_end(make_node: MakeNode, stuck: _Stuck) -> None:
    node = make_node()
    channel = node.create_channel("x", Plain)
    sinks = [channel.sink(Plain, stuck, own_thread=True) for _ in range(5)]
    channel.source().submit(Plain(1, 1.0))
    assert stuck.has_begun.wait(LIMIT_S)
    begun = time.monotonic()
    node.close(0.1)
    assert time.monotonic() - begun < _MARGIN_S
    assert all(sink.is_closed for sink in sinks)


def test_a_thread_that_is_stuck_does_not_keep_other_sinks_open(make_node: MakeNode, stuck: _Stuck) -> None:
    """They are told to end before any is waited for."""
    channel = make_node().create_channel("x", Plain)
    channel.sink(Plain, stuck, own_thread=True)
    waiting = channel.sink(Plain)
    channel.source().submit(Plain(1, 1.0))
    assert stuck.has_begun.wait(LIMIT_S)
    closing = threading.Thread(target=channel.close, args=(LIMIT_S,))
    closing.start()
    assert list(waiting) == [Plain(1, 1.0)]
    assert closing.is_alive()
    stuck.may_end.set()
    closing.join(LIMIT_S)
    assert not closing.is_alive()


def test_links_whose_handlers_are_stuck_share_the_time_to_end(make_node: MakeNode, stuck: _Stuck) -> None:
    receiver = make_node(transports=["unix"])
    channel = receiver.create_channel("x", Plain)
    channel.sink(Plain, stuck)
    for _ in range(4):
        source = make_node(transports=["unix"]).open_channel(channel.id).source(Plain)
        source.wait_matched()
        source.submit(Plain(1, 1.0))
        assert stuck.has_begun.wait(LIMIT_S)
        stuck.has_begun.clear()
    begun = time.monotonic()
    receiver.close(0.1)
    assert time.monotonic() - begun < _MARGIN_S


@pytest.mark.parametrize("what", ["source", "channel", "node"])
def test_an_interrupted_close_closes(make_node: MakeNode, stuck: _Stuck, what: str) -> None:
    """Nobody waits for the end of a channel that is for ever about to be closed."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain, stuck)
    source = channel.source(backlog=echo.Backlog(when_full="drop_newest"))
    source.wait_matched()
    _fill(source)
    closing = {"source": source.close, "channel": channel.close, "node": here.close}
    before = signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(_Interrupted):
            closing[what](LIMIT_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(echo.ClosedError):
        source.submit(Plain(1, 1.0))
    stuck.may_end.set()
    if what == "channel":
        assert here.statistics().channels == 0
    if what == "node":
        assert here.statistics().links == ()
    sink.close()
