"""When what was recorded is due, and in which order: by a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.errors import LogError
from echo_core.logs.blocks import Block
from echo_core.logs.described import Position, StreamInfo
from echo_core.logs.layout import MARK
from echo_core.logs.pacing import LATE_NS, End, Pace, Playback, Wait
from echo_core.logs.running_order import Run, RunningOrder
from tests.echo_core.logs.logs import PARTICLE, key_of, particles

MS = 1_000_000


def block(stream: int, times: list[int], first: int = 0) -> Block:
    """Of one event for each time."""
    marks = np.zeros(len(times), MARK)
    marks["index"], marks["time"] = np.arange(len(times)), times
    info = StreamInfo(stream, key_of(stream + 1), PARTICLE, 0, 0, 0)
    records = memoryview(particles(len(times), first).tobytes())
    return Block(
        info,
        Position(1, 0),
        first_sequence=first,
        count=len(times),
        marks=marks,
        records=records,
        ends=None,
        starts=None,
    )


def order_of(
    *streams: list[list[int]], since_ns: int | None = None, until_ns: int | None = None
) -> RunningOrder:
    """Of streams, each of them blocks, each of them times."""
    return RunningOrder(
        [iter([block(number, times) for times in blocks]) for number, blocks in enumerate(streams)],
        since_ns=since_ns,
        until_ns=until_ns,
    )


def all_of(order: RunningOrder) -> list[Run]:
    runs: list[Run] = []
    while order.time_ns is not None:
        runs.append(order.take())
    return runs


def times_of(run: Run) -> list[int]:
    return [int(time) for time in np.maximum.accumulate(run.block.times_ns())[run.first : run.last]]


def test_runs_of_streams_follow_their_times() -> None:
    """As long as another stream's next event is not earlier."""
    runs = all_of(order_of([[1, 2, 5, 6]], [[3, 4], [7]]))
    assert [(run.block.stream.number, run.first, run.last) for run in runs] == [
        (0, 0, 2),
        (1, 0, 2),
        (0, 2, 4),
        (1, 0, 1),
    ]


STREAMS = st.lists(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=8), max_size=4), max_size=4)


@given(streams=STREAMS, bounds=st.tuples(st.integers(-1, 51), st.integers(-1, 51)))
def test_each_event_between_two_times_is_played_once(
    streams: list[list[list[int]]], bounds: tuple[int, int]
) -> None:
    """In the order of a stream; and of times, as far as these do not go back from block to block."""
    since, until = bounds
    runs = all_of(order_of(*streams, since_ns=since, until_ns=until))
    for number, blocks in enumerate(streams):
        played = [time for run in runs if run.block.stream.number == number for time in times_of(run)]
        whole = [time for times in blocks for time in np.maximum.accumulate(times).tolist()]
        assert played == [time for time in whole if since <= time <= until]
    if all(times == sorted(times) for times in ([t for b in blocks for t in b] for blocks in streams)):
        everything = [time for run in runs for time in times_of(run)]
        assert everything == sorted(everything)


def played(playback: Playback, *, limit: int = 1000) -> list[tuple[int, list[int]]]:
    """When which events leave, by a clock that stands still but for waiting."""
    now, found = 0, list[tuple[int, list[int]]]()
    for _ in range(limit):
        step = playback.step(now)
        if isinstance(step, End):
            break
        if isinstance(step, Wait):
            assert step.until_ns is not None
            now = step.until_ns
        else:
            found.append((now, times_of(step)))
    return found


@pytest.mark.parametrize(("speed", "factor"), [(1.0, 1.0), (2.0, 0.5), (0.5, 2.0)])
def test_events_leave_as_far_apart_as_they_were_recorded(speed: float, factor: float) -> None:
    times = [1000 * MS, 1001 * MS, 1001 * MS, 1500 * MS]
    playback = Playback(lambda _at: order_of([times]), speed)
    assert played(playback) == [
        (0, [times[0]]),
        (int(MS * factor), times[1:3]),
        (int(500 * MS * factor), [times[3]]),
    ]
    assert playback.late == 0


def test_at_speed_0_all_is_due_at_once() -> None:
    playback = Playback(lambda _at: order_of([[1, 10**15]]), 0.0)
    assert played(playback) == [(0, [1, 10**15])]


def test_what_leaves_late_delays_nothing() -> None:
    """All that is due leaves at once, and those that are late are counted."""
    times = [i * 20 * MS for i in range(10)]
    playback = Playback(lambda _at: order_of([times]), 1.0)
    assert isinstance(playback.step(0), Run)
    step = playback.step(100 * MS)
    assert isinstance(step, Run)
    assert times_of(step) == times[1:6]
    assert (playback.late, playback.most_late_ns) == (4, 80 * MS)  # that of 90 ms is within LATE_NS
    assert LATE_NS == 10 * MS
    assert playback.step(100 * MS) == Wait(120 * MS)


def test_a_pause_moves_what_follows() -> None:
    playback = Playback(lambda _at: order_of([[0, 100 * MS, 200 * MS]]), 1.0)
    assert isinstance(playback.step(0), Run)
    playback.pause(50 * MS)
    playback.pause(60 * MS)  # it is
    assert playback.is_paused
    assert playback.step(500 * MS) == Wait(None)
    playback.resume(1000 * MS)
    assert playback.step(1000 * MS) == Wait(1050 * MS)


def test_a_seek_goes_either_way_and_begins_at_once() -> None:
    times = [i * 100 * MS for i in range(10)]
    playback = Playback(lambda at: order_of([times], since_ns=at), 1.0)
    for target in (550 * MS, 100 * MS):
        playback.seek(target)
        step = playback.step(7)
        assert isinstance(step, Run)
        assert step.time_ns == next(time for time in times if time >= target)
        assert playback.step(7) == Wait(100 * MS + 7)
    playback.seek(10**12)
    assert playback.step(7) == End()


def test_a_loop_begins_again_when_it_has_ended() -> None:
    playback = Playback(lambda _at: order_of([[0, 100 * MS]]), 1.0, loop=True)
    assert played(playback, limit=9) == [
        (0, [0]),
        (100 * MS, [100 * MS]),
        (100 * MS, [0]),
        (200 * MS, [100 * MS]),
        (200 * MS, [0]),
        (300 * MS, [100 * MS]),
    ]
    assert playback.rounds == 2
    assert Playback(lambda _at: order_of([]), 1.0, loop=True).step(0) == End()


@pytest.mark.parametrize("speed", [-1.0, float("inf"), float("nan")])
def test_a_speed_is_at_least_0(speed: float) -> None:
    with pytest.raises(LogError, match="speed"):
        Pace(speed)


def test_only_the_next_block_of_a_stream_is_held() -> None:
    """A log may be larger than memory."""
    read = 0

    def blocks() -> Iterator[Block]:
        nonlocal read
        for i in range(100):
            read += 1
            yield block(0, [i])

    order = RunningOrder([blocks()])
    assert read == 1
    order.take()
    assert read == 2
