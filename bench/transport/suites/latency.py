"""Round trips: typed in, typed out, on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.report import Row
from bench.transport.choice import chosen, ours
from bench.transport.outcome import Chart, Options, Outcome, times_table
from bench.transport.processes.placement import Placement
from bench.transport.rounds import Results, in_rounds, latency_of, latency_of_floor
from bench.transport.statistics import Times


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of round trip, and how long it may take: so many times the floor's, or so much longer."""

    what: str
    n: int
    placement: Placement
    floors: tuple[str, ...]
    """Of which the first is the usual one."""
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    goal: float | None
    goal_beyond_us: float | None = None

    @property
    def heading(self) -> str:
        size = f"batch of {self.n}" if self.n else "a particle alone"
        return f"round trip {self.what}, {size}, {self.placement.value}"


CELLS = (
    Cell(
        "TCP",
        0,
        Placement.ONE_CORE,
        ("tcp",),
        ("echo-tcp/dataclass", "echo-tcp/record", "echo-tcp-waiting/record"),
        ("tcp/msgspec", "tcp/numpy", "zmq-pair/msgspec", "zenoh/msgspec", "dds/typed"),
        1.12,
    ),
    Cell(
        "TCP",
        1,
        Placement.ONE_CORE,
        ("tcp",),
        ("echo-tcp/array", "echo-tcp/batch"),
        ("tcp/msgspec", "tcp/numpy"),
        1.12,
    ),
    Cell(
        "TCP",
        1000,
        Placement.ONE_CORE,
        ("tcp",),
        ("echo-tcp/array", "echo-tcp/batch"),
        ("tcp/numpy", "tcp/msgspec", "zmq-pair/numpy"),
        1.10,
    ),
    Cell(
        "Unix socket",
        0,
        Placement.ONE_CORE,
        ("unix",),
        ("echo-unix/dataclass", "echo-unix/record", "echo-unix-waiting/record"),
        ("unix/msgspec", "zmq-pair-ipc/msgspec"),
        1.2,
    ),
    Cell(
        "shared memory, blocking",
        0,
        Placement.ONE_CORE,
        # The goal was set beside a floor whose waits have a limit.
        ("shm-timed", "shm-futex"),
        ("echo-shm/dataclass", "echo-shm/record"),
        ("iceoryx2-event/in-place",),
        1.3,
    ),
    Cell(
        "shared memory, spinning",
        0,
        Placement.TWO_CORES,
        ("shm-spin",),
        ("echo-shm-spin/dataclass", "echo-shm-spin/record"),
        ("mpi/numpy", "mpi/msgspec", "iceoryx2-poll/in-place"),
        None,
        # 2 us where the floor took 0.7: the floor is a matter of which cores share a cache, the rest is not.
        goal_beyond_us=1.3,
    ),
)


def measure(options: Options) -> Outcome:
    """Every cell, each with its floors and its peers in the same rounds."""
    outcome = Outcome()
    for cell in CELLS:
        results = _results(cell, options)
        outcome.tables.append(times_table(cell.heading, results, f"floor {cell.floors[0]}"))
        for floor in cell.floors:
            outcome.rows += _rows(cell, results, f"floor {floor}")
        outcome.charts.append(Chart(cell.heading, _all_times(results)))
    return outcome


def _results(cell: Cell, options: Options) -> Results[Times]:
    taking_part = [*ours(cell.ours), *chosen(cell.peers, options, without=("zmq-pubsub",))]
    contenders = [latency_of(peer, cell.n, cell.placement, options.budget_s) for peer in taking_part]
    floors = [latency_of_floor(floor, cell.n, cell.placement, options.budget_s) for floor in cell.floors]
    return in_rounds([*floors, *contenders], options.rounds)


def _rows(cell: Cell, results: Results[Times], floor: str) -> Iterator[Row]:
    """Ours have the goals; a peer's figure is the bar."""
    group = f"{cell.heading}: beside {floor}"
    for name in results.rounds_by_name:
        is_ours = name in cell.ours
        if name != floor:
            ratio = results.ratio(name, floor, middle_us)
            yield Row(name, ratio, cell.goal if is_ours else None, "x", group=group)
        if is_ours and cell.goal_beyond_us is not None:
            beyond_us = results.median(name, middle_us) - results.median(floor, middle_us)
            yield Row(f"{name}: more than the floor", beyond_us, cell.goal_beyond_us, "us", group=group)


def middle_us(times: Times) -> float:
    return times.us(0.5)


def _all_times(results: Results[Times]) -> dict[str, list[int]]:
    return {
        name: [time_ns for times in rounds for time_ns in times.ordered_ns]
        for name, rounds in results.rounds_by_name.items()
    }
