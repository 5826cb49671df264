"""Records that are taken as they lie, with their numbers; and what is told of those that are not."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.dispatch.handlers import Handler
from echo_core.roster import ending, matching
from echo_core.roster.bookkeeping import books
from echo_core.streams.taking import Cause, TakingTarget, settle
from echo_core.streams.targets import Feed
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, Reading1, Story, plain, reading, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Pair, opened
from tests.native.takers import Taker

EVENTS: list[tuple[type[Any], Any]] = [(Reading1, reading), (Plain, plain), (Story, story)]


class Intake:
    """Of one source."""

    def __init__(self, source: str, taker: Taker) -> None:
        self.source = source
        self.taker = taker
        self.next_number: int | None = None
        self.resumes_after = Cause.ABSENT
        self.gaps: list[tuple[int, int, str]] = []

    def gap(self, first: int, last: int, cause: Cause) -> None:
        self.gaps.append((first, last, str(cause)))


class Taking:
    """A sink of records on a channel."""

    def __init__(self, channel: echo.Channel[Any], *, waits: bool = False, holds: bool = False) -> None:
        self.intakes: dict[bytes, Intake] = {}
        self.room = 1 << 30
        self.wakes = self.ended = 0
        self.membership = channel._membership  # pyright: ignore[reportPrivateUsage]
        handler = Handler(None, channel=lambda: "test", expected="a record", on_failure=None)
        self.target = TakingTarget(
            self.begin,
            lambda _feed: None,
            handler,
            self.membership.home.receptions,
            on_held=self.wake if holds else None,
            await_room=self.await_room if waits else None,
            on_end=self.end,
            on_fork=self.end,
        )
        with books.changing():
            self.membership.add_target(self.target)
        matching.catch_up(self.target)

    def begin(self, feed: Feed) -> Intake:
        return self.intakes.setdefault(feed.source_id, Intake(feed.describe.source, Taker(self.room)))

    def await_room(self, size_bytes: int) -> bool:
        assert size_bytes > 0
        time.sleep(0.001)
        return True

    def wake(self) -> None:
        self.wakes += 1

    def end(self) -> None:
        self.ended += 1

    def of(self, source: echo.Source[Any]) -> Intake:
        return self.intakes[bytes.fromhex(source.id)]

    def records(self, source: echo.Source[Any]) -> list[bytes]:
        return [each.record for each in self.of(source).taker.taken]

    def numbers(self, source: echo.Source[Any]) -> list[int]:
        return self.of(source).taker.numbers

    def close(self) -> None:
        ending.stop(self.membership, self.target)


@pytest.mark.parametrize(("cls", "make"), EVENTS, ids=["event", "slots", "varying"])
def test_what_is_taken_is_what_encoders_make(pair: Pair, cls: type[Any], make: Any) -> None:
    """Byte for byte, whoever else takes the events."""
    here, there = opened(pair)
    taking, sink = Taking(there), there.sink(cls)
    source = here.source(cls)
    source.wait_matched(2)
    encode = echo.encoder(cls)
    for i in range(50):
        source.submit(make(i))
    assert [sink.get(LIMIT_S) for _ in range(50)] == [make(i) for i in range(50)]
    source.flush(LIMIT_S)
    assert taking.records(source) == [encode(make(i)) for i in range(50)]
    assert taking.numbers(source) == list(range(50))
    assert taking.of(source).gaps == []


def test_a_channel_of_several_types_is_taken_whole(pair: Pair) -> None:
    here, there = opened(pair, Reading1, Plain, Story)
    taking = Taking(there)
    sources = [here.source(cls) for cls, _ in EVENTS]
    for source, (_, make) in zip(sources, EVENTS, strict=True):
        source.wait_matched()
        source.submit(make(1))
        source.flush(LIMIT_S)
    assert [taking.records(source) for source in sources] == [
        [echo.encoder(cls)(make(1))] for cls, make in EVENTS
    ]


@pytest.mark.parametrize("count", [1, 10, 50_000])
def test_an_array_is_taken_at_once(pair: Pair, count: int) -> None:
    """Not event by event; and what was lent for it is given back."""
    here, there = opened(pair, Reading1)
    taking = Taking(there)
    source = here.source()
    source.wait_matched()
    for _ in range(3):
        array = source.loan(count)
        array["id"], array["temperature"] = np.arange(count), 0.5
        source.submit_array(array)
    source.submit(Reading1(7, 0.5))
    source.flush(LIMIT_S)
    assert taking.numbers(source) == list(range(3 * count + 1))
    got = np.frombuffer(b"".join(taking.records(source)), source.format.dtype)
    assert got["id"].tolist() == [*range(count)] * 3 + [7]
    assert taking.of(source).taker.calls <= 40


def test_what_a_source_keeps_is_taken_first_and_once(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    source = here.source(keep=3)
    for i in range(5):
        source.submit(plain(i))
    first = Taking(there)
    until(lambda: bool(first.intakes) and first.numbers(source) == [2, 3, 4])
    second = Taking(there)
    until(lambda: second.numbers(source) == [2, 3, 4])
    source.submit(plain(5))
    source.flush(LIMIT_S)
    assert first.numbers(source) == second.numbers(source) == [2, 3, 4, 5]
    assert first.of(source).gaps == second.of(source).gaps == []


def test_what_is_kept_by_key_leaves_out_what_was_superseded(pair: Pair) -> None:
    """Which is told as such, and is no loss."""
    here, there = opened(pair, Plain)
    source = here.source(keep=echo.Keep(per="id"))
    for key in (1, 2, 1, 1, 2, 2, 1):
        source.submit(Plain(key, 0.5))
    both = Taking(there), Taking(there)
    for taking in both:
        until(lambda taking=taking: bool(taking.intakes) and taking.numbers(source) == [5, 6])  # type: ignore[misc]
    source.submit(Plain(3, 0.5))
    source.submit(Plain(1, 0.5))
    source.flush(LIMIT_S)
    third = Taking(there)
    until(lambda: bool(third.intakes) and third.numbers(source) == [5, 7, 8])
    assert [taking.numbers(source) for taking in both] == [[5, 6, 7, 8]] * 2
    assert third.of(source).gaps == [(6, 6, "superseded")]
    assert third.target.statistics().lost == 0


def test_what_finds_no_room_is_counted_and_told_to_the_source(pair: Pair) -> None:
    """It holds nobody up."""
    here, there = opened(pair, Reading1)
    taking = Taking(there)
    taking.room = 10 * echo.format_of(Reading1).size_bytes
    source = here.source()
    source.wait_matched()
    for event in map(reading, range(25)):
        source.submit(event)
    source.flush(LIMIT_S)
    assert taking.numbers(source) == list(range(10))
    assert taking.target.statistics().dropped == 15
    until(lambda: source.statistics().dropped_at_sinks == 15)


def test_a_source_waits_for_one_that_waits_for_room(pair: Pair) -> None:
    """And goes on once there is some; other sinks get all meanwhile."""
    here, there = opened(pair, Reading1)
    size = echo.format_of(Reading1).size_bytes
    taking = Taking(there, waits=True)
    source = here.source()
    source.wait_matched()
    taking.of(source).taker.room = 5 * size
    array = np.zeros(5, source.format.dtype)
    source.submit_array(array)
    if pair[0].statistics().links:
        for event in map(reading, range(20)):
            source.submit(event)
        assert len(taking.numbers(source)) <= 5
    taking.of(source).taker.room = 1 << 30
    source.flush(LIMIT_S)
    until(lambda: len(taking.numbers(source)) == source.statistics().events)
    assert taking.target.statistics().dropped == 0


def test_what_is_held_is_confirmed_when_it_is_settled(pair: Pair) -> None:
    """One call tells that there is something, however much comes."""
    here, there = opened(pair, Reading1)
    taking = Taking(there, holds=True)
    source = here.source()
    source.wait_matched()
    for event in map(reading, range(10)):
        source.submit(event)
    source.flush(LIMIT_S)
    assert taking.wakes == 1
    with books.changing():
        held = taking.target.held()
        assert taking.target.held() == []
    is_remote = bool(pair[0].statistics().links)
    assert [amount[0] for _, amount in held] == [10 if is_remote else 0]
    if is_remote:
        assert source.statistics().confirmed == 0
        settle(held)
        until(lambda: source.statistics().confirmed == 10)
    source.submit(reading(1))
    source.flush(LIMIT_S)
    assert taking.wakes == 2


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_what_is_dropped_on_the_way_is_a_gap(make_node: MakeNode, transport: str) -> None:
    """Told once, before what follows it; and where nothing does, when the source ends."""
    limits = echo.Limits(window_events=64)
    here, there = opened(
        (make_node(transports=[transport]), make_node(transports=[transport], limits=limits)), Reading1
    )
    taking = Taking(there, waits=True)
    source = here.source(backlog=echo.Backlog(events=3, when_full="drop_oldest"))
    source.wait_matched()
    taking.of(source).taker.room = 0
    submitted = 0
    while source.statistics().dropped < 50:
        source.submit(reading(submitted))
        submitted += 1
    taking.of(source).taker.room = 1 << 30
    source.flush(LIMIT_S)
    source.close()
    until(lambda: taking.target.feeds == 0)
    intake = taking.of(source)
    missing = [n for first, last, _ in intake.gaps for n in range(first, last + 1)]
    assert sorted(intake.taker.numbers + missing) == list(range(submitted))
    assert {cause for _, _, cause in intake.gaps} == {"dropped"}
    assert intake.taker.numbers == sorted(intake.taker.numbers)


def test_its_end_is_told(pair: Pair) -> None:
    """Nothing comes behind it."""
    here, there = opened(pair, Reading1)
    taking = Taking(there)
    source = here.source()
    source.wait_matched()
    source.submit(reading(0))
    source.flush(LIMIT_S)
    taking.close()
    assert taking.ended >= 1
    source.submit(reading(1))
    source.flush(LIMIT_S)
    assert taking.numbers(source) == [0]


def test_a_derived_channel_is_taken_with_numbers_of_its_own(pair: Pair) -> None:
    here, there = opened(pair, Plain)
    derived = there.derive(where="id > 2")
    taking = Taking(derived)
    source = here.source()
    source.wait_matched()
    for i in range(6):
        source.submit(plain(i))
    source.flush(LIMIT_S)
    [intake] = taking.intakes.values()
    assert intake.taker.numbers == [0, 1, 2]
    assert [each.record for each in intake.taker.taken] == [echo.encoder(Plain)(plain(i)) for i in (3, 4, 5)]
