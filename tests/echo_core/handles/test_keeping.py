"""What a source keeps for sinks that come later: first, and once; over every transport, and in process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import echo_core as echo
from echo_core.streams import conversations
from tests.echo_core.census import peers_of, until
from tests.echo_core.channel_events import Plain, Reading1, Reading2, Story, readings, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector, Pair, opened
from tests.echo_core.losses import links_lost

LAST = -1


def numbers(sink: echo.Sink[Plain], until_number: int = LAST) -> list[int]:
    """Of what it gets, up to the event that ends it."""
    found: list[int] = []
    while not found or found[-1] != until_number:
        found.append(sink.get(LIMIT_S).id)
    return found


def test_a_sink_that_comes_later_gets_the_latest_value(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    source = here.source(keep=1)
    for i in range(5):
        source.submit(Plain(i, 0.5))
    sink = there.sink(Plain)
    assert sink.get(LIMIT_S) == Plain(4, 0.5)
    source.submit(Plain(LAST, 0.0))
    assert numbers(sink) == [LAST]


def test_a_sink_beside_others_gets_it_too(pair: Pair) -> None:
    """Their streams flow already."""
    here, there = opened(pair, Plain)
    source = here.source(keep=3)
    first = there.sink(Plain)
    source.wait_matched()
    for i in range(5):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    second, called = there.sink(Plain), Collector()
    there.sink(Plain, called)
    assert [event.id for event in called.events] == [2, 3, 4]
    source.submit(Plain(LAST, 0.0))
    assert numbers(first) == [0, 1, 2, 3, 4, LAST]
    assert numbers(second) == [2, 3, 4, LAST]
    assert [event.id for event in called.wait(4)] == [2, 3, 4, LAST]


def test_sinks_that_come_after_all_have_gone_get_it_again(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    source = here.source(keep=2)
    for i in range(3):
        source.submit(Plain(i, 0.0))
        with there.sink(Plain) as sink:
            assert [sink.get(LIMIT_S).id for _ in range(min(i + 1, 2))] == list(range(max(0, i - 1), i + 1))
        until(lambda: source.sinks == 0)


@pytest.mark.parametrize("is_array", [False, True])
def test_arrays_are_kept_as_their_events(pair: Pair, *, is_array: bool) -> None:
    here, there = opened(pair, Reading1)
    source = here.source(keep=3)
    array = source.loan(10)
    array["id"], array["temperature"] = range(10), 0.5
    if is_array:
        source.submit_array(array)
    else:
        source.submit_records(array.tobytes())
    collector = Collector()
    there.sink(Reading1, collector)
    assert collector.wait(3) == [Reading1(i, 0.5) for i in (7, 8, 9)]


def test_what_is_kept_is_converted(pair: Pair) -> None:
    here, there = opened(pair, Reading1, Reading2)
    here.source(Reading2, keep=1).submit(Reading2("abc", 36.5, 9, 2.0))
    assert there.sink(Reading1).get(LIMIT_S) == Reading1(9, 36.5)


def test_infos_say_which_events_were_kept(pair: Pair) -> None:
    """For the first sink, and for one beside it."""
    here, there = opened(pair, Plain)
    source = here.source(keep=1)
    source.submit(Plain(0, 0.0))
    source.submit(Plain(1, 0.0))
    first = there.sink(Plain)
    assert _told(first) == (1, True, source.id)
    second = there.sink(Plain)
    assert _told(second) == (1, True, source.id)
    source.submit(Plain(2, 0.0))
    assert _told(first) == _told(second) == (2, False, source.id)


def _told(sink: echo.Sink[Plain]) -> tuple[int, bool, str]:
    _, info = sink.get_with_info(LIMIT_S)
    return info.number, info.is_kept, info.source_id


def test_events_of_any_size_are_kept(pair: Pair) -> None:
    here, there = opened(pair, Story)
    source = here.source(keep=100)
    for i in range(100):
        source.submit(story(i))
    sink = there.sink(Story)
    assert [sink.get(LIMIT_S) for _ in range(100)] == [story(i) for i in range(100)]


@pytest.mark.parametrize("keep", [1, 50])
def test_late_joiners_know_what_they_miss_and_get_nothing_twice(pair: Pair, keep: int) -> None:
    """Others publish meanwhile: each gets all in order, or it counts as lost."""
    here, there = opened(pair, Plain)
    source = here.source(keep=keep, backlog=echo.Backlog(when_full="block"))
    is_over = threading.Event()

    def publish() -> None:
        number = 0
        while not is_over.is_set():
            source.submit(Plain(number, 0.0))
            number += 1
            if number % 20 == 0:
                is_over.wait(0.001)
        source.submit(Plain(LAST, 0.0))

    publisher = threading.Thread(target=publish)
    publisher.start()
    sinks: list[Any] = []
    called: list[Any] = []
    collectors: list[Collector] = []
    for _ in range(10):
        sinks.append(there.sink(Plain, backlog=echo.Backlog(events=1_000_000, when_full="block")))
        collectors.append(Collector())
        called.append(there.sink(Plain, collectors[-1]))
        until(lambda: sinks[-1].statistics().queued_events > 0)
    is_over.set()
    publisher.join()
    source.flush(LIMIT_S)
    for sink, other, collector in zip(sinks, called, collectors, strict=True):
        collector.wait_for(Plain, lambda events: events[-1:] == [Plain(LAST, 0.0)])
        for to, got in ((sink, numbers(sink)), (other, [event.id for event in collector.events])):
            assert got[:-1] == sorted(set(got[:-1]))
            missing = got[-2] + 1 - got[0] - len(got[:-1])
            assert 0 <= missing <= to.statistics().lost


def test_what_a_handler_submits_while_it_is_handed_what_is_kept_comes_behind(make_node: MakeNode) -> None:
    """Faster than it handles, and by the thread that makes the sink, which does not wait for itself."""
    channel = make_node().create_channel("x", Plain)
    source = channel.source(keep=1)
    source.submit(Plain(0, 0.0))
    got: list[int] = []
    submitted = itertools.count(1)

    def handle(event: Plain) -> None:
        got.append(event.id)
        if event.id < 20:
            source.submit(Plain(next(submitted), 0.0))
            source.submit(Plain(next(submitted), 0.0))

    sink = channel.sink(Plain, handle)
    assert got == list(range(41))
    assert sink.statistics().lost == 0


def test_a_handler_that_falls_far_behind_takes_part_all_the_same(make_node: MakeNode) -> None:
    """What it has missed until then counts as lost."""
    channel = make_node().create_channel("x", Reading1)
    source = channel.source(keep=1)
    source.submit(Reading1(0, 0.0))
    got: list[int] = []

    def handle(event: Reading1) -> None:
        if not got:
            source.submit_array(readings(100_000))
        got.append(event.id)

    sink = channel.sink(Reading1, handle)
    source.submit(Reading1(-1, 0.0))
    assert got[0] == 0
    assert got[1:] == [*range(100_000 - (65_536 + 1), 100_000), -1]
    assert sink.statistics().lost == 100_000 - (65_536 + 1)


def test_what_a_process_has_missed_is_kept_for_it(make_node: MakeNode) -> None:
    """Its link was lost: it gets the rest when it is back, nothing twice; and a sink after that all."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    source = channel.source(keep=1000)
    opened = there.open_channel(channel.id)
    sink = opened.sink(Plain)
    source.wait_matched()
    for i in range(10):
        source.submit(Plain(i, 0.0))
    source.flush(LIMIT_S)
    with links_lost(here, there):
        assert source.sinks == 0
        for i in range(10, 20):
            source.submit(Plain(i, 0.0))
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(LAST, 0.0))
    assert numbers(sink) == [*range(20), LAST]
    assert sink.statistics().lost == 0
    sink.close()
    until(lambda: source.sinks == 0)
    assert numbers(opened.sink(Plain)) == [*range(20), LAST]


def _relink(here: echo.Node, there: echo.Node, meanwhile: Callable[[], None] = lambda: None) -> None:
    """The link between two nodes is lost, and comes back."""
    with links_lost(here, there):
        meanwhile()
    until(lambda: peers_of(here) != [])
    until(lambda: peers_of(there) != [])


@pytest.mark.parametrize("keep", [1, echo.Keep(last=1, per="id")])
@pytest.mark.parametrize("first", ["stays", "is closed", "is closed meanwhile"])
def test_a_sink_gets_what_is_kept_also_after_a_link_was_lost(
    make_node: MakeNode, first: str, keep: int | echo.Keep
) -> None:
    """Whoever was there before gets nothing twice, and nobody has lost anything."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    source = channel.source(keep=keep)
    opened = there.open_channel(channel.id)
    before = opened.sink(Plain)
    source.wait_matched()
    for i in range(5):
        source.submit(Plain(7, float(i)))
    source.flush(LIMIT_S)
    if first == "is closed":
        before.close()
        until(lambda: source.sinks == 0)
    late: list[echo.Sink[Plain]] = []

    def meanwhile() -> None:
        late.append(opened.sink(Plain))
        if first == "is closed meanwhile":
            before.close()

    _relink(here, there, meanwhile)
    source.wait_matched(1 + (first == "stays"), LIMIT_S)
    late.append(opened.sink(Plain))
    source.wait_matched(2 + (first == "stays"), LIMIT_S)
    source.submit(Plain(8, 5.0))
    for sink in late:
        assert [sink.get(LIMIT_S).x for _ in range(2)] == [4.0, 5.0]
        assert sink.statistics().lost == 0
    if first == "stays":
        assert [before.get(LIMIT_S).x for _ in range(6)] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert before.statistics().lost == 0


def test_a_sink_that_is_slow_to_take_what_is_kept_falls_behind_alone(make_node: MakeNode) -> None:
    """Another one of its process gets many times what may be under way; and it all of it, once it goes on."""
    here = make_node(transports=["unix"])
    there = make_node(transports=["unix"], limits=echo.Limits(window_events=64))
    channel = here.create_channel("x", Plain)
    source = channel.source(keep=1, backlog=echo.Backlog(when_full="block", timeout_s=LIMIT_S))
    opened = there.open_channel(channel.id)
    fast, slow, may_go = Collector(), Collector(), threading.Event()
    opened.sink(Plain, fast)
    source.wait_matched()
    source.submit(Plain(0, 0.0))
    source.flush(LIMIT_S)

    def stop(event: Plain) -> None:
        slow(event)
        assert may_go.wait(LIMIT_S)

    sinks: list[echo.Sink[Plain]] = []
    making = threading.Thread(target=lambda: sinks.append(opened.sink(Plain, stop)))
    making.start()
    slow.wait(1)
    for i in range(1, 2000):
        source.submit(Plain(i, 0.0))
    assert [event.id for event in fast.wait(2000)] == list(range(2000))
    may_go.set()
    making.join(LIMIT_S)
    source.submit(Plain(LAST, 0.0))
    assert [event.id for event in slow.wait(2001)] == [*range(2000), LAST]
    assert sinks[0].statistics().lost == 0


def test_what_nobody_had_asked_for_is_no_loss(make_node: MakeNode) -> None:
    """Its last sink was closed, and another one comes after the link was lost and back."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    opened = there.open_channel(channel.id)
    notices = Collector()
    opened.watch(notices)
    source = channel.source()
    with opened.sink(Plain) as sink:
        source.wait_matched()
        source.submit(Plain(0, 0.0))
        assert sink.get(LIMIT_S).id == 0
    until(lambda: source.sinks == 0)
    for i in range(500):
        source.submit(Plain(i, 0.0))
    _relink(here, there)
    sink = opened.sink(Plain)
    source.wait_matched()
    source.submit(Plain(LAST, 0.0))
    assert numbers(sink) == [LAST]
    assert sink.statistics().lost == 0
    there.close()
    assert not [notice for notice in notices.events if isinstance(notice, echo.EventsLost)]


def test_what_is_kept_counts_besides_what_is_submitted(make_node: MakeNode) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    source = channel.source(keep=5)
    for i in range(10):
        source.submit(Plain(i, 0.0))
    sink = there.open_channel(channel.id).sink(Plain)
    assert sink.get(LIMIT_S).id == 5
    source.submit(Plain(LAST, 0.0))
    assert numbers(sink) == [6, 7, 8, 9, LAST]
    source.drain(LIMIT_S)
    counted = source.statistics()
    assert (counted.events, counted.kept, counted.dropped) == (11, 5, 0)
    until(lambda: source.statistics().confirmed == 6)


def test_an_event_that_is_too_large_to_keep_pushes_out_all(make_node: MakeNode) -> None:
    """Else a sink would take an older one for the latest."""
    channel = make_node().create_channel("x", Story)
    source = channel.source(keep=10, backlog=echo.Backlog(size_bytes=1))
    source.submit(story(1))
    sink = channel.sink(Story)
    source.submit(story(2))
    assert sink.get(LIMIT_S) == story(2)


@pytest.mark.parametrize("keep", [-1, 10_001])
def test_how_many_may_be_kept_is_limited(make_node: MakeNode, keep: int) -> None:
    channel = make_node().create_channel("x", Plain)
    with pytest.raises(echo.ChannelError, match="to keep 0 to 10000 events"):
        channel.source(keep=keep)


class Numbers:
    """A handler that notes which numbers it gets."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def handle(self, _event: Plain, info: echo.EventInfo) -> None:
        self.numbers.append(info.number)

    def has(self, count: int) -> bool:
        return len(self.numbers) >= count


@pytest.mark.parametrize("keep", [1, 50])
def test_a_sink_that_comes_beside_others_misses_nothing(pair: Pair, keep: int) -> None:
    """However fast the source is, what it gets is one run of numbers: kept ones, then new ones."""
    here, there = opened(pair, Plain)
    source = here.source(keep=keep, backlog=echo.Backlog(when_full="block"))
    first = Numbers()
    there.sink(Plain, first.handle)
    source.wait_matched()
    is_over = threading.Event()

    def publish() -> None:
        while not is_over.is_set():
            source.submit(Plain(1, 0.0))

    publisher = threading.Thread(target=publish)
    publisher.start()
    late: list[tuple[echo.Sink[Plain], Numbers]] = []
    try:
        for _ in range(15):
            numbers = Numbers()
            late.append((there.sink(Plain, numbers.handle), numbers))
            until(partial(numbers.has, keep + 100))
            if len(late) > 3:
                late[-3][0].close()
    finally:
        is_over.set()
        publisher.join()
    for sink, it in late:
        had = list(it.numbers)  # the last ones may still be coming
        assert had == list(range(had[0], had[0] + len(had)))
        assert sink.statistics().lost == 0


@pytest.mark.parametrize("keep", [1, 50, echo.Keep(last=1, per="id", max_keys=3)])
def test_what_is_kept_and_what_is_new_have_no_seam(make_node: MakeNode, keep: int | echo.Keep) -> None:
    """Between processes, under a fast source: what a first sink gets is one run of numbers."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    source = channel.source(keep=keep, backlog=echo.Backlog(when_full="block"))
    opened = there.open_channel(channel.id)
    is_over = threading.Event()

    def publish() -> None:
        number = 0
        while not is_over.is_set():
            source.submit(Plain(number % 3, 0.0))
            number += 1

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for _ in range(20):
            with opened.sink(Plain) as sink:
                infos = [sink.get_with_info(LIMIT_S)[1] for _ in range(200)]
            until(lambda: source.sinks == 0)
            numbers = [info.number for info in infos]
            assert infos[0].is_kept or numbers[0] == 0
            assert numbers == list(range(numbers[0], numbers[0] + 200))
    finally:
        is_over.set()
        publisher.join()


@pytest.mark.parametrize("keep", [100, echo.Keep(1, per="id", max_keys=100)])
def test_what_all_sources_of_a_peer_keep_here_is_bounded(
    make_node: MakeNode,
    keep: int | echo.Keep,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those that keep most forget it; the others keep what they have."""
    monkeypatch.setattr(conversations, "MAX_LINK_KEPT_BYTES", 1000)
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    opened_there = there.open_channel(channel.id)
    first = opened_there.sink(Plain)
    hog, modest = channel.source(keep=keep), channel.source(keep=keep)
    for source in (hog, modest):
        source.wait_matched()
    modest.submit(Plain(-1, 0.5))
    for number in range(90):
        hog.submit(Plain(number, 0.5))
    assert {first.get(LIMIT_S).id for _ in range(91)} == set(range(-1, 90))
    until(lambda: "keep more than" in caplog.text, "it to be told")
    late = opened_there.sink(Plain)
    assert late.get(LIMIT_S).id == -1
    assert late.statistics().events == 1
