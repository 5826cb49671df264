"""What was lost is counted, and told, on both sides; and what may wait does."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import repeat

import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from echo_core.streams.origins import Origin
from echo_core.transports.protocol import messages
from tests.echo_core.census import origin_of, peers_of, until
from tests.echo_core.channel_events import Plain, Reading1
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector
from tests.echo_core.hostile_peer import STREAM, HostilePeer


def test_a_receiver_learns_what_a_source_has_dropped(make_node: MakeNode) -> None:
    """Its handler does not return, so the link fills up, and then the source's backlog."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    opened = there.open_channel(channel.id)
    is_full, notices = threading.Event(), Collector()
    opened.watch(notices)

    def stop(event: Plain) -> None:
        received.append(event.id)
        assert is_full.wait(LIMIT_S)

    received: list[int] = []
    sink = opened.sink(Plain, stop)
    source = channel.source(backlog=echo.Backlog(events=100, when_full="drop_newest"))
    source.wait_matched()
    sent = 0
    while source.statistics().dropped < 1000:
        source.submit(Plain(sent, 0.0))
        sent += 1
    is_full.set()
    source.flush(LIMIT_S)
    dropped = source.statistics().dropped
    assert sink.statistics().lost == dropped
    assert len(received) == sent - dropped
    assert received == sorted(received)
    while sum(notice.events for notice in notices.events if isinstance(notice, echo.EventsLost)) < dropped:
        notices.wait(len(notices.events) + 1)
    told = [notice for notice in notices.events if isinstance(notice, echo.EventsLost)]
    assert (told[0].source, sum(notice.events for notice in told)) == ("Plain", dropped)


def test_a_full_backlog_is_an_error_that_says_whose(make_node: MakeNode) -> None:
    """Of all sources, and of all processes that they send to."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    may_end = threading.Event()
    there.open_channel(channel.id).sink(Plain, lambda _: may_end.wait(LIMIT_S))
    source = channel.source(name="fast", backlog=echo.Backlog(events=10, when_full="error"))
    source.wait_matched()
    with pytest.raises(echo.BacklogError, match=r"source `fast` to .+ is full: expected at most 10 events"):
        deque(map(source.submit, repeat(Plain(0, 0.0))), maxlen=0)
    may_end.set()


def test_a_latency_budget_is_used_to_send_events_together(make_node: MakeNode) -> None:
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("x", Plain)
    collector = Collector()
    there.open_channel(channel.id).sink(Plain, collector)
    source = channel.source(latency_budget_s=0.2)
    source.wait_matched()
    before, begun = here.statistics().links[0].writes, time.monotonic()
    for i in range(100):
        source.submit(Plain(i, 0.0))
    budgets = (time.monotonic() - begun) // 0.2  # 0, unless the machine had other work meanwhile
    assert [event.id for event in collector.wait(100)] == list(range(100))
    assert here.statistics().links[0].writes - before <= 2 + budgets


def test_a_sink_that_comes_when_the_last_one_has_left_gets_events_in_order(make_node: MakeNode) -> None:
    """What was queued for the one before it, and what is sent from now on, go the same way."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    opened = there.open_channel(channel.id)
    may_go_on = threading.Event()
    first = opened.sink(Plain, lambda _: may_go_on.wait(LIMIT_S))
    source = channel.source(backlog=echo.Backlog(events=1_000_000, size_bytes=1 << 28))
    source.wait_matched(1, LIMIT_S)
    sent = 0
    while source.statistics().queued_events < 20_000:
        source.submit(Plain(sent, 0.0))
        sent += 1
    received: list[int] = []
    first.close()
    books.wait_for(lambda: source.sinks == 0, LIMIT_S, lambda: "no sinks")
    second = opened.sink(Plain, lambda event: received.append(event.id))
    source.wait_matched(1, LIMIT_S)
    for i in range(sent, sent + 100_000):
        source.submit(Plain(i, 0.0))
    may_go_on.set()
    source.flush(LIMIT_S)
    assert received == sorted(received)
    assert received[-1] == sent + 99_999
    assert second.statistics().lost == 0


def test_what_a_peer_that_is_gone_did_not_take_counts_as_dropped(make_node: MakeNode) -> None:
    """Though it had detached its sink before: every event was sent, or dropped."""
    channel = make_node(transports=("unix",)).create_channel("slow", Reading1)
    source = channel.source(Reading1, backlog=echo.Backlog(events=100, when_full="drop_newest"))
    with HostilePeer.linked(channel.id, "unix") as peer:
        peer.say(peer.join(), messages.Declared(0, "", ()), messages.Attach(STREAM, 1, 0, 65536, 1 << 24))
        source.wait_matched()
        while source.statistics().dropped == 0:
            source.submit(Reading1(0, 0.0))
        peer.say(messages.Attach(STREAM, 0, 0, 65536, 1 << 24))
        until(lambda: source.sinks == 0)
        before = source.statistics()
        assert (before.queued_events, before.dropped) == (100, 1)
    until(lambda: source.statistics().queued_events == 0)
    assert source.statistics().dropped == 101


@pytest.mark.parametrize("ends", ["with its link", "with its source"])
def test_what_a_submit_that_waited_has_not_sent_counts_as_dropped(ends: str, make_node: MakeNode) -> None:
    """Also on a link that was lost while it waited for room on another, before it has come to that."""
    channel = make_node(transports=("unix",)).create_channel("slow", Reading1)
    source = channel.source(Reading1, backlog=echo.Backlog(events=10, timeout_s=LIMIT_S))
    origin, may_end = origin_of(source), threading.Event()
    outlet = origin.outlet

    def submit() -> None:
        with suppress(echo.ClosedError):
            while not may_end.is_set():
                source.submit(Reading1(0, 0.0))

    with HostilePeer.linked(channel.id, "unix") as slow, HostilePeer.linked(channel.id, "unix") as lost:
        for sinks, peer in enumerate((slow, lost), 1):
            peer.say(peer.join(), messages.Declared(0, "", ()), messages.Attach(STREAM, 1, 0, 65536, 1 << 24))
            source.wait_matched(sinks)
        with ThreadPoolExecutor(2) as pool:
            reading, submitting = pool.submit(lost.expect_end), pool.submit(submit)
            until(lambda: origin.streams[0].queued_events == 10 and _is_putting(origin), "a submit to wait")
            lost.connection.shutdown(socket.SHUT_RDWR)
            until(lambda: source.sinks == 1, "the link to be lost")
            may_end.set()
            before = outlet.dropped
            slow.close() if ends == "with its link" else source.close(0.0)
            submitting.result(LIMIT_S)
            reading.result(LIMIT_S)
    until(lambda: not source.sinks and not outlet.may_drop, "the links to end")
    assert outlet.dropped >= before + 2
    assert source.statistics().dropped == channel.statistics().dropped == outlet.dropped


def _is_putting(origin: Origin) -> bool:
    """Whether an event is on its way, which the first stream has not yet accepted."""
    first = origin.streams[0]
    return first.events + first.dropped < origin.outlet.sequence


def test_a_flush_says_that_a_link_was_lost_with_events(make_node: MakeNode) -> None:
    """Once: what is submitted since then is another matter."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    opened = there.open_channel(channel.id)
    may_end = threading.Event()
    opened.sink(Plain, lambda _: may_end.wait(LIMIT_S))
    notices, source = Collector(), channel.source()
    channel.watch(notices)
    source.wait_matched()
    source.submit(Plain(1, 1.0))
    _lose_links(here, notices)
    may_end.set()
    with pytest.raises(echo.LinkError, match="not known to have arrived"):
        source.flush(LIMIT_S)
    source.flush(LIMIT_S)


def test_a_flush_that_is_under_way_says_so_once(make_node: MakeNode) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    has_begun, may_end = threading.Event(), threading.Event()

    def stop(event: Plain) -> None:
        has_begun.set()
        may_end.wait(LIMIT_S)

    there.open_channel(channel.id).sink(Plain, stop)
    notices, source = Collector(), channel.source()
    channel.watch(notices)
    source.wait_matched()
    source.submit(Plain(1, 1.0))
    assert has_begun.wait(LIMIT_S)
    losing = threading.Thread(target=_lose_links, args=(here, notices))
    losing.start()
    with pytest.raises(echo.LinkError):
        source.flush(LIMIT_S)
    losing.join(LIMIT_S)
    may_end.set()
    source.flush(LIMIT_S)


def test_a_flush_has_nothing_to_say_of_a_link_that_had_nothing_to_lose(make_node: MakeNode) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain)
    notices, source = Collector(), channel.source()
    channel.watch(notices)
    source.wait_matched()
    source.submit(Plain(1, 1.0))
    source.flush(LIMIT_S)
    _lose_links(here, notices)
    source.flush(LIMIT_S)
    assert sink.get(LIMIT_S) == Plain(1, 1.0)


def test_who_says_goodbye_has_lost_nothing(make_node: MakeNode) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    there.open_channel(channel.id).sink(Plain)
    notices, source = Collector(), channel.source()
    channel.watch(notices)
    source.wait_matched()
    source.submit(Plain(1, 1.0))
    there.close()
    _wait_for_end(notices)
    source.flush(LIMIT_S)


def _lose_links(node: echo.Node, notices: Collector) -> None:
    for peer in peers_of(node):
        peer.link.shut()
    _wait_for_end(notices)


def _wait_for_end(notices: Collector) -> None:
    while not any(isinstance(notice, echo.PeerLeft) for notice in notices.events):
        notices.wait(len(notices.events) + 1)


def test_what_a_sink_drops_is_told_of_the_source_whose_it_was(pair: tuple[echo.Node, echo.Node]) -> None:
    """Not of the one whose events have taken its place."""
    channel = pair[0].create_channel("x", Plain)
    few = echo.Backlog(events=10, when_full="drop_oldest")
    sink = pair[1].open_channel(channel.id).sink(Plain, backlog=few)
    old, new = channel.source(name="old"), channel.source(name="new")
    for source in (old, new):
        source.wait_matched()
        for i in range(10):
            source.submit(Plain(i, 0.0))
        source.flush(LIMIT_S)
    until(lambda: old.statistics().dropped_at_sinks == 10, "the source to be told")
    assert (sink.statistics().dropped, new.statistics().dropped_at_sinks) == (10, 0)


def test_what_is_lost_across_a_reconnection_is_counted_at_the_sink(make_node: MakeNode) -> None:
    """A source is known again on another link, and its numbers go on."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    received: list[int] = []
    opened = there.open_channel(channel.id)
    notices, at_source = Collector(), Collector()
    opened.watch(notices)
    channel.watch(at_source)
    sink = opened.sink(Plain, lambda event: received.append(event.id))
    source = channel.source()
    source.wait_matched(1, LIMIT_S)
    for i in range(5):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    for peer in peers_of(there):
        peer.link.shut()
    until(lambda: any(isinstance(it, echo.PeerLeft) for it in notices.events), "the loss to be noticed")
    for i in range(5, 12):
        source.submit(Plain(i, 0.0))
    there.open_channel(channel.id)
    until(
        lambda: any(isinstance(it, echo.PeerLeft) for it in at_source.events), "the source to notice it too"
    )
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(12, 0.0))
    until(lambda: received[-1] == 12, "the last to arrive")
    assert received[:5] == list(range(5))
    lost = sink.statistics().lost
    assert lost == 13 - len(received)
    until(lambda: sum(it.events for it in notices.events if isinstance(it, echo.EventsLost)) == lost)
