"""Waiting for sources and sinks: who has left is forgotten, and who is closed says so."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from tests.echo_core.census import joins_in_process, origin_of, until
from tests.echo_core.channel_events import Misfit, Plain, Untitled
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector, opened

Pair = tuple[echo.Node, echo.Node]


def _refused(sink: echo.Sink[Any]) -> None:
    with pytest.raises(echo.IncompatibleError):
        sink.wait_matched(1, LIMIT_S)


def _wait_for_closed(notices: Collector, sources: int) -> None:
    while sum(isinstance(notice, echo.SourceClosed) for notice in notices.events) < sources:
        notices.wait(len(notices.events) + 1)


def _hear_all(pair: Pair) -> None:
    """What was said on the link before has been heard when this returns: in both directions, in order."""
    aside, away = opened(pair)
    aside.sink(Plain)
    away.source(Plain).wait_matched(1, LIMIT_S)


def test_a_closed_sink_is_not_waited_for(make_node: MakeNode) -> None:
    sink = make_node().create_channel("x").sink(Plain)
    sink.close()
    with pytest.raises(echo.ClosedError):
        sink.wait_matched()


def test_a_sink_forgets_sources_that_are_gone(pair: Pair) -> None:
    """They kept it from waiting for one that it can be reached from."""
    here, there = opened(pair)
    sink = there.sink(Misfit)
    first, second = here.source(Plain), here.source(Plain)
    _refused(sink)
    notices = Collector()
    there.watch(notices)
    first.close()
    _wait_for_closed(notices, 1)
    assert any(sink.refusals)  # the second one is as bad
    second.close()
    _wait_for_closed(notices, 2)
    assert not sink.refusals
    with pytest.raises(echo.TimedOutError):
        sink.wait_matched(1, 0.0)
    here.source(Misfit)
    sink.wait_matched(1, LIMIT_S)


def test_a_source_forgets_sinks_of_who_has_left(pair: Pair) -> None:
    here, there = opened(pair)
    source = here.source(Plain)
    there.sink(Misfit)
    with pytest.raises(echo.IncompatibleError):
        source.wait_matched(1, LIMIT_S)
    notices = Collector()
    here.watch(notices)
    there.close()
    if not joins_in_process(pair[0]):
        while not any(isinstance(notice, echo.PeerLeft) for notice in notices.events):
            notices.wait(len(notices.events) + 1)
    with pytest.raises(echo.TimedOutError):
        source.wait_matched(1, 0.0)


def test_a_source_forgets_sinks_elsewhere_that_are_gone(pair: Pair) -> None:
    here, there = opened(pair)
    source = here.source(Plain)
    refusing = there.sink(Misfit)
    with pytest.raises(echo.IncompatibleError):
        source.wait_matched(1, LIMIT_S)
    refusing.close()
    _hear_all(pair)
    with pytest.raises(echo.TimedOutError):
        source.wait_matched(1, 0.0)


def test_a_source_remembers_the_refusal_of_a_sink_that_stays(pair: Pair) -> None:
    """Another one that refused it, too, is gone."""
    here, there = opened(pair)
    source = here.source(Plain)
    leaving, staying = there.sink(Misfit), there.sink(Misfit)
    with pytest.raises(echo.IncompatibleError):
        source.wait_matched(1, LIMIT_S)
    leaving.close()
    _hear_all(pair)
    with pytest.raises(echo.IncompatibleError):
        source.wait_matched(1, 0.0)
    staying.close()
    _hear_all(pair)
    with pytest.raises(echo.TimedOutError):
        source.wait_matched(1, 0.0)


def test_a_source_is_told_the_reasons_of_sinks_that_stay(pair: Pair) -> None:
    """Not of one that is gone."""
    here, there = opened(pair)
    source = here.source(Plain)
    leaving, staying = there.sink(Misfit), there.sink(Untitled)
    _refused(leaving)
    _refused(staying)
    leaving.close()
    _hear_all(pair)
    with pytest.raises(echo.IncompatibleError, match=r"Untitled\.title"):
        source.wait_matched(1, 0.0)
    assert not [text for _, text in origin_of(source).unreachable if "Misfit" in text]


def test_a_source_learns_who_refuses_it_when_the_last_one_that_took_it_is_gone(pair: Pair) -> None:
    here, there = opened(pair)
    source = here.source(Plain)
    taking = there.sink(Plain)
    there.sink(Misfit)
    source.wait_matched(1, LIMIT_S)
    taking.close()
    _hear_all(pair)
    with pytest.raises(echo.IncompatibleError):
        source.wait_matched(1, 0.0)


def test_sinks_that_are_closed_together_refuse_nothing_on_the_way(pair: Pair) -> None:
    """Each takes what the other one cannot, and one is the last to go."""
    here, there = opened(pair)
    sources: list[echo.Source[Any]] = [here.source(Plain), here.source(Misfit)]
    there.sink(Plain)
    there.sink(Misfit)
    until(lambda: all(source.sinks for source in sources), "both to be matched")  # one is refused first
    _hear_all(pair)
    notices = Collector()
    here.watch(notices)
    there.close()
    _hear_all(pair)
    books.settle(LIMIT_S)
    assert not [notice for notice in notices.events if isinstance(notice, echo.Unreachable)]


def test_a_source_forgets_what_a_sink_of_this_process_has_answered(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x")
    source, sink = channel.source(Plain), channel.sink(Misfit)
    with pytest.raises(echo.IncompatibleError):
        source.wait_matched()
    sink.close()
    channel.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    with pytest.raises(echo.TimedOutError):
        source.wait_matched(2, 0.0)


@pytest.mark.parametrize("timeout_s", [0.05, 0])
def test_a_flush_that_takes_too_long_says_what_it_was_given(make_node: MakeNode, timeout_s: float) -> None:
    """Not what was left for the one that has not answered."""
    here, there = (make_node(transports=["unix"]) for _ in range(2))
    channel = here.create_channel("x", Plain)
    may_go_on = threading.Event()
    there.open_channel(channel.id).sink(Plain, lambda _: may_go_on.wait(LIMIT_S))
    source = channel.source()
    source.wait_matched()
    source.submit(Plain(1, 0.0))
    with pytest.raises(echo.TimedOutError, match=rf"an answer from .* within {timeout_s} s"):
        source.flush(timeout_s)
    may_go_on.set()
