"""Log lines that come again and again: the first one, then sums."""

from __future__ import annotations

import logging

import pytest

from echo_core.transports.repeats import Repeats


class Clock:
    """Time passes where the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def repeats(clock: Clock) -> Repeats:
    return Repeats(period_s=10.0, clock=clock)


def test_the_first_line_is_logged_at_once(repeats: Repeats, caplog: pytest.LogCaptureFixture) -> None:
    """With its own level and error."""
    error = ValueError("trouble")
    repeats.say(logging.ERROR, "%s fails", "it", exc_info=error)
    (record,) = caplog.records
    assert (record.getMessage(), record.levelno) == ("it fails", logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_flood_is_two_lines_in_a_period(
    repeats: Repeats, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """None of it is uncounted."""
    for number in range(100_000):
        repeats.say(logging.WARNING, "stranger %d", number)
        repeats.settle()
    clock.now += 9.9
    repeats.settle()
    assert caplog.messages == ["stranger 0"]
    clock.now += 0.1
    repeats.settle()
    repeats.settle()
    assert caplog.messages == ["stranger 0", "99999 more within 10 s like: stranger 0"]
    assert caplog.records[-1].levelno == logging.WARNING


def test_who_has_no_clock_that_ticks_is_told_of_the_sum_with_the_next_line(
    repeats: Repeats, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        repeats.say(logging.WARNING, "stranger %d", number)
    clock.now += 10
    repeats.say(logging.WARNING, "stranger %d", 3)
    assert caplog.messages == ["stranger 0", "stranger 3 (2 more like the line before it)"]


def test_a_sum_begins_a_period_of_its_own(
    repeats: Repeats, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """So that a flood that goes on is one line for each."""
    for _ in range(30):
        for _ in range(5):
            repeats.say(logging.WARNING, "again")
        clock.now += 2.0
        repeats.settle()
    assert caplog.messages == [
        "again",
        "24 more within 10 s like: again",
        *["25 more within 10 s like: again"] * 5,
    ]


def test_after_quiet_times_a_line_is_a_first_one(
    repeats: Repeats, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    repeats.say(logging.WARNING, "first")
    clock.now += 10
    repeats.settle()
    repeats.say(logging.WARNING, "second")
    assert caplog.messages == ["first", "second"]
