"""Several types and several processes on one channel: who concerns whom, and who comes and goes meanwhile."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from tests.echo_core.census import joins_in_process, until
from tests.echo_core.channel_events import Other, Plain, Reading1
from tests.echo_core.conftest import MakeNode

Pair = tuple[echo.Node, echo.Node]
LIMIT_S = 30.0


def test_types_of_a_channel_do_not_refuse_each_other(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """A sink of one declared type and a source of another: the right sink may come yet."""
    here = pair[0].create_channel("test", Reading1, Other)
    there = pair[1].open_channel(here.id)
    notices: list[echo.Notice] = []
    here.watch(notices.append)
    there.watch(notices.append)
    numbers = there.sink(Reading1)
    source = here.source(Other)
    here.source(Reading1)
    numbers.wait_matched(1, LIMIT_S)
    texts = there.sink(Other)
    source.wait_matched(1, LIMIT_S)
    source.submit(Other("one"))
    assert texts.get(LIMIT_S) == Other("one")
    assert not numbers.refusals
    books.settle(LIMIT_S)
    assert not [notice for notice in notices if isinstance(notice, echo.Unreachable)]
    assert not caplog.records


def test_a_declared_channel_reports_the_type_that_comes_nearest(make_node: MakeNode) -> None:
    @echo.event(aliases=("Reading1",))
    class Almost:
        id: str
        unit: str

    channel = make_node().create_channel("test", Reading1, Other)
    with pytest.raises(echo.IncompatibleError, match=r"Almost\.unit.*refused"):
        channel.sink(Almost)


def test_the_comparison_stands_last_where_a_declared_channel_refuses_a_type(make_node: MakeNode) -> None:
    """Nothing is written behind its last row, which is of another field than the one that is named."""
    channel = make_node().create_channel("test", Reading1)

    @echo.event(aliases=("Reading1",))
    class Otherwise:
        id: str
        temperature: echo.Float32

    with pytest.raises(echo.IncompatibleError) as caught:
        channel.sink(Otherwise)
    report = echo.compare(echo.format_of(Reading1), echo.format_of(Otherwise))
    assert caught.value.path == "Otherwise.id"
    assert str(caught.value).endswith(f"of `Reading1` - at `Otherwise.id`: {report}")


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_members_that_join_at_once_all_find_each_other(
    make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    created = make_node(transports=[transport]).create_channel("test", Plain)
    nodes = [make_node(transports=[transport]) for _ in range(4)]
    channels: list[echo.Channel[Any]] = []

    def join(node: echo.Node) -> None:
        channels.append(node.open_channel(created.id))

    threads = [threading.Thread(target=join, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sinks = [channel.sink(Plain) for channel in channels]
    sources = [channel.source(Plain) for channel in channels]
    for source in sources:
        source.wait_matched(len(sinks), LIMIT_S)
    assert not caplog.records


def test_a_flush_does_not_wait_for_who_leaves(pair: Pair) -> None:
    here = pair[0].create_channel("test", Plain)
    there = pair[1].open_channel(here.id)
    leaving = threading.Event()

    def leave(event: Plain) -> None:
        leaving.set()
        there.close(0.0)

    there.sink(Plain, leave)
    source = here.source(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 0.0))
    source.flush(LIMIT_S)
    assert leaving.wait(LIMIT_S)
    source.flush(LIMIT_S)


def test_a_farewell_is_no_loss(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Both sides say goodbye; whose link ends first is all the same."""
    here = pair[0].create_channel("test", Plain)
    there = pair[1].open_channel(here.id)
    source = here.source(Plain)
    sink = there.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    gone, linked = threading.Event(), here.statistics().peers > 0
    here.watch(lambda notice: gone.set() if isinstance(notice, echo.PeerLeft) else None)
    sink.close()
    pair[1].close()
    assert not linked or gone.wait(LIMIT_S)
    pair[0].close()
    assert pair[0].statistics().links_lost == pair[1].statistics().links_lost == 0
    assert not caplog.records


def test_a_channel_can_be_opened_right_after_the_last_one_was_closed(pair: Pair) -> None:
    """The link goes with its last channel; who opens the next one does not meet what is left of it."""
    channels = [pair[0].create_channel("test", Plain) for _ in range(20)]
    for created in channels:
        with pair[1].open_channel(created.id) as opened:
            source = opened.source(Plain)
            sink = created.sink(Plain)
            source.wait_matched(1, LIMIT_S)
            source.submit(Plain(1, 0.0))
            assert sink.get(LIMIT_S) == Plain(1, 0.0)


def test_a_sink_that_closes_has_told_what_it_dropped(pair: Pair) -> None:
    here = pair[0].create_channel("test", Plain)
    there = pair[1].open_channel(here.id)
    sink = there.sink(Plain, backlog=echo.Backlog(events=10, when_full="drop_newest"))
    source = here.source(Plain)
    source.wait_matched(1, LIMIT_S)
    for i in range(30):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    sink.close()
    there.sink(Plain).wait_matched(1, LIMIT_S)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(30, 0.0))
    source.flush(LIMIT_S)  # what was told before it has come, too
    assert source.statistics().dropped_at_sinks == 20


def test_what_sinks_have_dropped_is_told_before_a_flush_is_answered_and_a_source_released(
    pair: Pair,
) -> None:
    here = pair[0].create_channel("test", Plain)
    there = pair[1].open_channel(here.id)
    there.sink(Plain, backlog=echo.Backlog(events=10, when_full="drop_newest"))
    source = here.source(Plain)
    source.wait_matched(1, LIMIT_S)
    for i in range(30):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    assert source.statistics().dropped_at_sinks == 20
    for i in range(7):
        source.submit(Plain(i, 0.0))
    source.close()
    books.wait_for(lambda: source.statistics().dropped_at_sinks == 27, LIMIT_S, lambda: "the last drops")


def test_losses_are_told_before_the_end_of_their_source(make_node: MakeNode) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("test", Plain)
    opened = there.open_channel(channel.id)
    may_go_on, is_over = threading.Event(), threading.Event()
    told: list[echo.Notice] = []

    def watch(notice: echo.Notice) -> None:
        told.append(notice)
        if isinstance(notice, echo.SourceClosed):
            is_over.set()

    opened.watch(watch)
    opened.sink(Plain, lambda _: may_go_on.wait(LIMIT_S))
    source = channel.source(Plain, backlog=echo.Backlog(events=100, when_full="drop_newest"))
    source.wait_matched(1, LIMIT_S)
    while source.statistics().dropped < 1000:
        source.submit(Plain(1, 0.0))
    source.close(0.0)
    may_go_on.set()
    assert is_over.wait(LIMIT_S)
    assert isinstance(told[-1], echo.SourceClosed)
    lost = sum(notice.events for notice in told if isinstance(notice, echo.EventsLost))
    assert lost == source.statistics().dropped


def _opened(told: list[echo.Notice]) -> list[str]:
    return [notice.name for notice in told if isinstance(notice, echo.SourceOpened)]


def test_who_starts_to_watch_is_told_who_is_there(pair: Pair) -> None:
    """Processes before their sources, as if they had come just now; and only that one is told."""
    here = pair[0].create_channel("test")
    there = pair[1].open_channel(here.id)
    there.source(Plain, name="theirs")
    here.source(Plain, name="ours")
    here.sink(Plain).wait_matched(2, LIMIT_S)
    before: list[echo.Notice] = []
    here.watch(before.append)
    until(lambda: _opened(before) == ["ours", "theirs"], "all to be told")
    told = list(before)
    after: list[echo.Notice] = []
    here.watch(after.append)
    until(lambda: before == told == after, "all to be told")  # by whatever thread is telling already
    is_linked = not joins_in_process(pair[0])
    assert [isinstance(notice, echo.PeerJoined) for notice in told] == [False, *[True] * is_linked, False]
    assert _opened(told) == ["ours", "theirs"]
    here.source(Plain, name="third")
    until(lambda: _opened(after)[-1] == "third", "the third to be told of")


def test_who_is_gone_is_not_told_to_who_starts_to_watch(pair: Pair) -> None:
    here = pair[0].create_channel("test")
    there = pair[1].open_channel(here.id)
    sink = here.sink(Plain)
    source = there.source(Plain)
    sink.wait_matched(1, LIMIT_S)
    there.close()
    books.wait_for(lambda: here.statistics().peers == 0 and sink.sources == 0, LIMIT_S, lambda: "an end")
    told: list[echo.Notice] = []
    here.watch(told.append)
    assert source.is_closed
    assert told == []


def test_who_starts_to_watch_misses_nobody_who_comes_meanwhile(pair: Pair) -> None:
    """Each source is told of once, to whomever begins when, and in order."""
    here = pair[0].create_channel("test")
    there = pair[1].open_channel(here.id)
    names = [f"source {i}" for i in range(200)]

    def offer() -> None:
        for name in names:
            there.source(Plain, name=name)

    offering = threading.Thread(target=offer)
    offering.start()
    heard: list[list[echo.Notice]] = []
    for _ in range(20):
        heard.append([])
        here.watch(heard[-1].append)
    offering.join()
    here.sink(Plain).wait_matched(len(names), LIMIT_S)
    books.wait_for(lambda: all(len(_opened(told)) == len(names) for told in heard), LIMIT_S, lambda: "all")
    assert all(_opened(told) == names for told in heard)


def test_who_has_ceased_to_watch_is_told_no_more(pair: Pair) -> None:
    """Others are, also the same handler where it watches twice."""
    here = pair[0].create_channel("test")
    told: list[echo.Notice] = []
    with here.watch(told.append):
        here.source(Plain, name="first")
        kept, ended = here.watch(told.append), here.watch(told.append)
        ended.close()
        ended.close()
        here.source(Plain, name="second")
        books.settle(LIMIT_S)
    here.source(Plain, name="third")
    books.settle(LIMIT_S)
    assert _opened(told) == ["first"] * 3 + ["second"] * 2 + ["third"]
    assert (kept.is_closed, ended.is_closed) == (False, True)
    here.close()


def test_a_handler_may_end_its_own_watch(pair: Pair) -> None:
    here = pair[0].create_channel("test")
    told: list[echo.Notice] = []

    def once(notice: echo.Notice) -> None:
        told.append(notice)
        watch.close()

    watch = here.watch(once)
    here.source(Plain, name="first")
    here.source(Plain, name="second")
    books.settle(LIMIT_S)
    assert _opened(told) == ["first"]


def test_what_waits_to_be_told_is_not_told_to_who_has_ceased_to_watch(make_node: MakeNode) -> None:
    """Another thread tells, and is at the handler before it."""
    here = make_node().create_channel("test")
    is_telling, may_go_on = threading.Event(), threading.Event()
    told: list[echo.Notice] = []

    def hold_up(_: echo.Notice) -> None:
        is_telling.set()
        may_go_on.wait(LIMIT_S)

    here.watch(hold_up)
    watch = here.watch(told.append)
    offering = threading.Thread(target=here.source, args=(Plain,))
    offering.start()
    assert is_telling.wait(LIMIT_S)
    watch.close()
    may_go_on.set()
    offering.join()
    books.settle(LIMIT_S)
    assert told == []
