"""Links that gather frames: how long they may, and what the thread that writes them costs."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest

from echo_core._c.links import DROP_NEWEST, SocketWire
from echo_core.errors import BacklogError
from tests.native.link_ends import (
    PATIENCE_NS,
    SECOND_NS,
    Peer,
    eventually,
    fill,
    link_over,
    numbered,
    repeat,
    source,
    wires,
)


def test_what_waited_in_a_backlog_does_not_wait_for_another_source(peer: tuple[SocketWire, Peer]) -> None:
    """Whose latency budget is what its frames were staged with."""
    wire, far = peer
    link = link_over(wire)
    patient, outgoing = source(link, 64, policy=DROP_NEWEST, delay_ns=100 * PATIENCE_NS)
    fill(patient, outgoing)
    hasty, _ = source(link, 65, policy=DROP_NEWEST)
    for number in range(3):
        hasty.submit(numbered(number))
    came = 0
    for kind, _ in far.frames():  # which fails after half a minute of silence
        came += kind == 65
        if came == 3:
            break
    assert came == 3


def seconds_of_writers() -> float:
    """How long a processor has been at the threads of links that write; others have work of earlier tests."""
    ticks = 0
    for stat in Path("/proc/self/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            name, _, fields = stat.read_text().rpartition(")")
            ticks += sum(map(int, fields.split()[11:13])) if name.endswith("(echo-writer") else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def test_thread_that_writes_rests_while_another_waits_for_room(peer: tuple[SocketWire, Peer]) -> None:
    """Also on a link that gathers nothing."""
    wire, _ = peer
    outlet, _ = source(link_over(wire, delay_ns=0), max_events=5, timeout_ns=500_000_000)
    begin = time.thread_time() + seconds_of_writers()
    with pytest.raises(BacklogError):
        repeat(outlet.submit, numbered(0))
    assert time.thread_time() + seconds_of_writers() - begin < 0.2


def writers() -> int:
    """Threads of links that write."""
    names: list[str] = []
    for name in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            names.append(name.read_text().strip())
    return names.count("echo-writer")


def test_thread_that_writes_ends_when_nobody_calls_it(peer: tuple[SocketWire, Peer]) -> None:
    """And another one is started for what waits later."""
    wire, far = peer
    link = link_over(wire)
    outlet, _ = source(link, delay_ns=SECOND_NS // 100)
    eventually(lambda: writers() == 0)  # those of earlier tests
    frames = far.frames()
    for round_ in range(2):
        for number in range(3):
            outlet.submit(numbered(number))
        eventually(lambda: writers() == 1)  # it names itself
        assert [next(frames) for _ in range(3)] == [(64, numbered(number)) for number in range(3)], round_
        eventually(lambda: writers() == 0)
    link.shut()


def test_rest_of_a_large_frame_is_written_though_nothing_follows(peer: tuple[SocketWire, Peer]) -> None:
    """Nothing else has started or called the thread that writes."""
    wire, far = peer
    link = link_over(wire)
    outlet, _ = source(link)
    outlet.submit(numbered(0, 1 << 20))
    assert link.queued_bytes > 0
    assert next(far.frames()) == (64, numbered(0, 1 << 20))


def test_what_costs_no_system_call_says_nothing_of_haste(peer: tuple[SocketWire, Peer]) -> None:
    """A source that has time is not taken for one in a hurry, since the first of its links was written to."""
    wire, far = peer
    cheap, other = wires("ring")  # at whose end nobody sleeps
    ring, link = (link_over(it, delay_ns=100 * PATIENCE_NS) for it in (cheap, wire))
    outlet, first = source(ring)
    _, second = source(link)
    outlet.outgoing = (first, second)
    frames = far.frames()
    for number in range(5):
        outlet.submit(numbered(number))
        assert next(frames) == (64, numbered(number))
        leisure = time.monotonic_ns() + 1_000_000
        while time.monotonic_ns() < leisure:
            pass
    assert first.queued_events == 0
    other.close()
