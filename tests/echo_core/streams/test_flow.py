"""What is logged of streams that drop events, or stand still: each once, with its counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from echo_core.streams.flow import LOOK_S, SELDOM_S, Counts, Drops, Flow
from echo_core.transports.repeats import PERIOD_S

TICK_S = 0.25


class Watch:
    """Looks as a tick does, four times a second, and keeps what was said."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.flow = Flow()
        self.said: list[str] = []

    def for_(self, seconds: float, waiting: int, moved: int, dropped: int, *, sent: int = 0) -> list[str]:
        """All stays like that; what is said meanwhile."""
        said: list[str] = []
        for _ in range(round(seconds / TICK_S)):
            said += self.flow.look(self.now, Counts(waiting, sent, moved, dropped))
            self.now += TICK_S
        self.said += said
        return said


def test_a_stream_that_flows_is_not_spoken_of() -> None:
    watch = Watch()
    for moved in range(100):
        watch.for_(TICK_S, 5, moved, 0)
    assert watch.for_(60, 0, 100, 0) == []
    assert watch.flow.finish(0) == ""


def test_a_stream_that_stands_still_for_a_second_is_told_of_once_and_when_it_goes_on() -> None:
    watch = Watch()
    assert watch.for_(1.0, 7, 10, 0) == []
    assert watch.for_(30, 7, 10, 0) == ["has stood still for 1.0 s: 7 events wait"]
    assert watch.for_(TICK_S, 7, 11, 0) == ["goes on after 31.0 s: 0 events were dropped"]
    assert watch.for_(60, 0, 12, 0) == []


def test_a_stream_of_which_nothing_is_confirmed_for_two_seconds_stands_still() -> None:
    """Its process is stopped, or its sink reads nothing."""
    watch = Watch()
    assert watch.for_(2.0, 0, 10, 0, sent=7) == []
    assert watch.for_(30, 0, 10, 0, sent=7) == ["has stood still for 2.0 s: 7 events wait"]
    assert watch.for_(TICK_S, 0, 17, 0) == ["goes on after 32.0 s: 0 events were dropped"]


def test_a_stream_that_stands_still_again_and_again_is_told_of_ever_more_seldom() -> None:
    """And at once when it has been well for long."""
    watch = Watch()
    for moved in range(1000):
        watch.for_(3.0, 0, moved, 0, sent=1)
    assert 10 < len(watch.said) < 30
    watch.for_(SELDOM_S, 0, 1000, 0)
    watch.for_(SELDOM_S, 0, 1000, 0)
    assert watch.for_(3.0, 0, 1001, 0, sent=1) == ["has stood still for 2.0 s: 1 events wait"]


def test_what_is_dropped_while_it_stands_still_is_summed_when_it_goes_on() -> None:
    watch = Watch()
    watch.for_(1.0, 7, 10, 0)
    assert watch.for_(0.5, 9, 10, 0) == ["has stood still for 1.0 s: 9 events wait"]
    assert watch.for_(0.5, 9, 10, 3) == ["has begun to drop events: 3 by now"]
    for dropped in range(4, 20):
        assert watch.for_(TICK_S, 9, 10, dropped) == []
    assert watch.for_(TICK_S, 9, 11, 20) == ["goes on after 6.0 s: 20 events were dropped"]
    assert watch.for_(60, 0, 12, 20) == []
    assert watch.flow.finish(20) == ""


def test_waiting_for_less_than_a_second_again_and_again_is_no_standstill() -> None:
    watch = Watch()
    for moved in range(20):
        watch.for_(0.75, 5, moved, 0)
        watch.for_(TICK_S, 0, moved, 0)
    assert watch.said == []


def test_a_stream_whose_events_all_went_away_stands_still_no_more() -> None:
    watch = Watch()
    watch.for_(2, 7, 10, 0)
    assert watch.for_(TICK_S, 0, 10, 7) == ["goes on after 2.0 s: 7 events were dropped"]


def test_the_first_drop_is_said_and_the_sum_once_a_second_has_passed_without_one() -> None:
    drops = Drops()
    assert drops.look(0.0, 0) == ""
    assert drops.look(1.0, 5) == "has begun to drop events: 5 by now"
    assert [drops.look(1.5, 6), drops.look(2.0, 9), drops.look(2.75, 9)] == ["", "", ""]
    assert drops.look(3.0, 9) == "drops no more events: 9 were dropped within 1.0 s"
    assert drops.look(50.0, 9) == drops.finish(9) == ""


def test_a_drop_that_remains_the_only_one_is_said_once() -> None:
    drops = Drops()
    assert drops.look(0.0, 1) != ""
    assert [drops.look(seconds, 1) for seconds in (1.0, 2.0, 30.0)] == ["", "", ""]
    assert drops.finish(1) == ""


def test_the_sum_is_said_at_the_end_of_a_stream() -> None:
    """What was dropped with its end, too."""
    drops = Drops()
    drops.look(0.0, 5)
    assert drops.finish(105) == "has ended: 105 events were dropped"
    assert Drops().finish(3) == "has ended: 3 events were dropped"


def test_drops_that_begin_again_within_ten_seconds_are_said_when_these_have_passed() -> None:
    drops = Drops()
    drops.look(0.0, 1)
    drops.look(2.0, 1)
    assert drops.look(3.0, 4) == ""
    assert drops.look(PERIOD_S - TICK_S, 4) == ""
    assert drops.look(PERIOD_S, 4) == "has begun to drop events: 3 by now"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), max_size=400))
def test_a_stream_that_is_always_in_trouble_says_little(changes: list[tuple[int, int, int]]) -> None:
    """Whatever happens to it: in ten seconds two troubles and their ends, and nothing once it is well."""
    watch, moved, dropped = Watch(), 0, 0
    for waiting, moves, drops in changes:
        moved, dropped = moved + moves // 3, dropped + drops
        watch.for_(TICK_S, waiting, moved, dropped)
    watch.for_(LOOK_S, 0, moved, dropped)
    assert len(watch.said) <= 4 * (1 + (len(changes) * TICK_S + LOOK_S) / PERIOD_S)
    assert watch.for_(60, 0, moved, dropped) == []
    assert watch.flow.finish(dropped) == ""
