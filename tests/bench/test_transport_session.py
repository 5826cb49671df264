"""Processes that measure together, on real sockets."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

import pytest

from bench.transport.applications import camera, telemetry
from bench.transport.endpoint import Peer
from bench.transport.outcome import Options, Outcome
from bench.transport.peers import available
from bench.transport.processes import floors, session
from bench.transport.processes.placement import Placement
from bench.transport.processes.tcp_bytes import received_bytes
from bench.transport.processes.worker import Station, Task
from bench.transport.rounds import in_rounds, latency_of, stream_of
from bench.transport.suites import channels, inprocess, obvious, overload

ALONE = ("dataclass", "record")  # forms that are never a batch
CASES = [
    pytest.param(peer, n, id=f"{peer.name}-{n}")
    for peer in available()[0].values()
    for n in ((0,) if peer.form in ALONE else (0, 10) if peer.form != "batch" else (10,))
]
ABSENT = [
    pytest.param(None, 0, id=name, marks=pytest.mark.skip(reason=reason))
    for name, reason in available()[1].items()
]


def tell(station: Station, *, word: str) -> tuple[int, list[str], set[int]]:
    """What this process learns."""
    heard = station.exchange(word)
    return station.index, heard, os.sched_getaffinity(0)


def fail(station: Station) -> None:
    """Before the others, who wait."""
    msg = f"process {station.index} has a fault"
    raise OSError(msg)


def die(station: Station) -> None:
    """Without a word."""
    os._exit(3)


def wait_for_all(station: Station) -> None:
    """For those who never come."""
    station.exchange()


def leave(station: Station) -> None:
    """While the others wait."""


def test_processes_learn_what_the_others_bring() -> None:
    """In the order of their numbers, each on its core."""
    tasks = [Task(tell, {"word": word}, Placement.ONE_CORE) for word in "abc"]
    first = min(os.sched_getaffinity(0))
    assert session.run(tasks) == [(i, ["a", "b", "c"], {first}) for i in range(3)]


@pytest.mark.parametrize(("task", "words"), [(fail, "has a fault"), (die, "died"), (leave, "others wait")])
def test_a_process_that_fails_ends_the_session(task: object, words: str) -> None:
    """With its own words, and nobody is left waiting."""
    with pytest.raises(session.SessionError, match=words):
        session.run([Task(task, {}), Task(wait_for_all, {})])  # type: ignore[arg-type]


def test_bytes_over_tcp_are_counted() -> None:
    """Of every connection that the process has."""
    listening = socket.create_server(("127.0.0.1", 0))
    with (
        listening,
        socket.create_connection(listening.getsockname()) as first,
        listening.accept()[0] as second,
    ):
        before = received_bytes()
        first.sendall(bytes(1000))
        assert len(second.recv(1000, socket.MSG_WAITALL)) == 1000
        assert received_bytes() - before == 1000


def test_placements_name_cores() -> None:
    """Of those that there are."""
    cores = os.sched_getaffinity(0)
    assert Placement.ANYWHERE.core(0) is None
    assert Placement.ONE_CORE.core(0) == Placement.ONE_CORE.core(1) == min(cores)
    assert Placement.TWO_CORES.core(1) in cores
    assert (Placement.TWO_CORES.core(1) != min(cores)) == (len(cores) > 1)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(("peer", "n"), [*CASES, *ABSENT])
def test_peers_carry_every_message(peer: Peer, n: int) -> None:
    """There and back, and one way; each message is checked in the processes."""
    if peer.transport != "zmq-pubsub":
        times = in_rounds([latency_of(peer, n, Placement.ANYWHERE, 0.02)], 1)
        assert not times.failures
    streams = in_rounds([stream_of(peer, n, 0.02)], 1)
    assert not streams.failures
    assert streams.rounds_by_name[peer.name][0].per_s > 0


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("measure", [channels.measure, inprocess.measure, obvious.measure])
def test_suites_of_one_kind_have_figures(measure: Callable[[Options], Outcome]) -> None:
    """Whatever they are; what was measured is checked in the measurement."""
    assert all(row.measured > 0 for row in measure(Options(quick=True)).rows)


def test_an_application_whose_messages_are_wrong_is_found_out() -> None:
    """A frame that is missing, a pixel that is another, a list of another length."""
    screen, dashboard = camera.Screen(), telemetry.Dashboard()
    images = camera.images()
    screen.show(0, images[0])
    with pytest.raises(ValueError, match="frame 1"):
        screen.show(2, images[2])
    with pytest.raises(ValueError, match="pixel"):
        screen.show(1, images[2])
    status, motor = telemetry.CLASSES["dataclass"]
    assert dashboard.show(telemetry.made(status, motor, 0))
    with pytest.raises(ValueError, match="joints of 1"):
        dashboard.show(telemetry.made(status, motor, 2))


@pytest.mark.slow
@pytest.mark.once
def test_order_is_kept_under_overload() -> None:
    """Whatever is dropped; and a sink that stops is timed beside one that runs."""
    outcome = Outcome()
    overload.measure(Options(quick=True), outcome)
    in_order = [row for row in outcome.rows if row.unit == "%"]
    assert len(in_order) == 3
    assert all(row.is_reached for row in in_order)
    assert len(outcome.tables) == 2


@pytest.mark.slow
@pytest.mark.once
def test_a_length_before_each_message_is_counted() -> None:
    """numpy's particles over a plain socket take four bytes more than in C."""
    peer = available()[0]["tcp/numpy"]
    rounds = in_rounds([stream_of(peer, 0, 0.02, receivers=2)], 1).rounds_by_name["tcp/numpy"]
    assert rounds[0].added_bytes == 4


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("carrier", ["tcp", "unix", "shm-futex", "shm-timed", "shm-spin"])
def test_the_floor_times_trips_that_were_made(carrier: str) -> None:
    """None is faster than light, and together they take no longer than the program ran."""
    placement = Placement.TWO_CORES if carrier == "shm-spin" else Placement.ONE_CORE
    began_ns = time.perf_counter_ns()
    trips = floors.round_trips(carrier, 0, placement, budget_s=0.02, most=1000)
    assert min(trips.times_ns) > 10
    assert sum(trips.times_ns) < time.perf_counter_ns() - began_ns


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    "carrier", ["tcp", "tcp-gathered", "unix", "unix-gathered", "shm-futex", "shm-timed"]
)
@pytest.mark.parametrize("receivers", [1, 4])
def test_the_floor_streams_to_several(carrier: str, receivers: int) -> None:
    """It checks for itself that each gets everything, in order."""
    for n, stride in ((0, 64), (100, 8)):
        rate = floors.messages_per_s(
            carrier, n, Placement.ANYWHERE, budget_s=0.02, stride=stride, receivers=receivers
        )
        assert rate > 0
