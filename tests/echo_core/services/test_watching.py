"""What is decided about a component: every cell of the table, and what holds whatever happens."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.errors import ChannelError
from echo_core.services.watching import Act, Acts, Patience, State, Watching

KILL, START = Act.KILL, Act.START
PATIENCE = Patience(silences=3, start_s=10.0, rest_s=1.0, most_rest_s=4.0, restarts=2, within_s=60.0)
HAPPENINGS = ("answer", "silence", "exit", "time is up")

CELLS: dict[tuple[State, str], tuple[State, Acts]] = {
    (State.RUNNING, "silence"): (State.SUSPECT, ()),
    (State.RUNNING, "exit"): (State.STARTING, (START,)),
    (State.SUSPECT, "answer"): (State.RUNNING, ()),
    (State.SUSPECT, "silence"): (State.SUSPECT, ()),
    (State.SUSPECT, "exit"): (State.STARTING, (START,)),
    (State.STARTING, "answer"): (State.RUNNING, ()),
    (State.STARTING, "exit"): (State.RESTING, ()),
    (State.STARTING, "time is up"): (State.RESTING, (KILL,)),
    (State.RESTING, "time is up"): (State.STARTING, (START,)),
}


def go(watching: Watching, happening: str, now: float) -> Acts:
    if happening == "answer":
        return watching.answered(now)
    if happening == "silence":
        return watching.silent(now)
    if happening == "exit":
        return watching.exited(now, "it has ended")
    return watching.passed(now)


def brought_to(state: State) -> Watching:
    """By the shortest way; at 100 s in any case."""
    ways = {
        State.RUNNING: ["answer"],
        State.SUSPECT: ["answer", "silence"],
        State.STARTING: ["answer", "exit"],
        State.RESTING: ["answer", "exit", "exit"],
        State.GAVE_UP: ["answer", "exit", "answer", "exit", "answer", "exit"],
    }
    watching = Watching(PATIENCE)
    for happening in ways[state]:
        go(watching, happening, 100.0)
    assert watching.state is state
    return watching


@pytest.mark.parametrize("happening", HAPPENINGS)
@pytest.mark.parametrize("state", State)
def test_every_cell(state: State, happening: str) -> None:
    """Also those that are empty."""
    watching = brought_to(state)
    now = 100.0 if watching.due is None else watching.due
    expected, acts = CELLS.get((state, happening), (state, ()))
    assert go(watching, happening, now) == acts
    assert watching.state is expected


def test_who_is_there_already_is_not_started() -> None:
    """It answers before the third silence."""
    watching = Watching(PATIENCE)
    assert (*watching.silent(1.0), *watching.silent(2.0), *watching.answered(2.5)) == ()
    assert watching.state is State.RUNNING


def test_the_third_silence_in_a_row_kills() -> None:
    """An answer between them begins anew."""
    watching = brought_to(State.RUNNING)
    watching.silent(101.0)
    watching.silent(102.0)
    watching.answered(102.5)
    assert (*watching.silent(103.0), *watching.silent(104.0)) == ()
    assert watching.silent(105.0) == (KILL, START)
    assert (watching.state, watching.why, watching.restarts) == (
        State.STARTING,
        "it has not answered 3 times",
        1,
    )


def test_the_first_start_is_no_restart() -> None:
    """Where nobody was there."""
    watching = Watching(PATIENCE)
    assert (*watching.silent(1.0), *watching.silent(2.0), *watching.silent(3.0)) == (KILL, START)
    assert watching.restarts == 0


def test_rests_grow_until_it_answers() -> None:
    """To the longest there is."""
    watching = Watching(Patience(rest_s=1.0, most_rest_s=4.0, restarts=100))
    watching.answered(0.0)
    watching.exited(0.0, "it has ended")
    now, rests = 0.0, list[float]()
    for _ in range(4):
        watching.exited(now, "it has ended")
        assert watching.due is not None
        rests.append(watching.due - now)
        now = watching.due
        assert watching.passed(now) == (START,)
    assert rests == [1.0, 2.0, 4.0, 4.0]
    watching.answered(now)
    watching.exited(now, "it has ended")
    watching.exited(now, "it has ended")
    assert watching.due == now + 1.0


def test_time_is_not_up_before_it_is() -> None:
    """The thread may wake at any time."""
    watching = brought_to(State.STARTING)
    assert watching.passed(109.9) == ()
    assert watching.passed(110.0) == (KILL,)


def test_restarts_of_long_ago_do_not_count() -> None:
    """Two in a minute are too many, two in an hour are not."""
    watching = brought_to(State.RUNNING)
    for now in (200.0, 300.0, 400.0, 500.0):
        assert watching.exited(now, "it has ended") == (START,)
        watching.answered(now)
    assert watching.state is State.RUNNING


def test_one_that_was_given_up_is_tried_again_after_a_reset() -> None:
    """And not before, whatever happens; others have nothing to be reset."""
    watching = brought_to(State.GAVE_UP)
    assert watching.why == "it has ended; started again 2 times"
    assert watching.reset(101.0) == (START,)
    assert watching.restarts == 1
    assert watching.reset(102.0) == ()


@pytest.mark.parametrize(
    "wrong",
    [{"silences": 0}, {"restarts": 0}, {"start_s": 0.0}, {"rest_s": -1.0}, {"within_s": math.nan}],
)
def test_patience_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    """By the name of what is wrong."""
    with pytest.raises(ChannelError, match=next(iter(wrong))):
        Patience(**wrong)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.floats(0.0, 30.0)), max_size=60))
def test_whatever_happens(happenings: list[tuple[str, float]]) -> None:
    """Nobody is started twice without an end between, nor too often; and each wait has its end."""
    watching, now, is_up = Watching(PATIENCE), 0.0, False
    starts: list[float] = []
    for happening, later in happenings:
        now += later
        is_up = is_up and happening != "exit"
        for act in go(watching, happening, now):
            if act is START:
                assert not is_up
                starts.append(now)
            is_up = act is START
        assert (watching.due is not None) == (watching.state in (State.STARTING, State.RESTING))
    for first, fourth in zip(starts, starts[3:], strict=False):
        assert fourth - first > PATIENCE.within_s or first == starts[0]
