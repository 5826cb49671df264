"""Round trips: typed in, typed out, on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.report import Row
from bench.transport.choice import chosen, ours
from bench.transport.outcome import Chart, Options, Outcome, times_table
from bench.transport.placement import Placement
from bench.transport.rounds import Results, in_rounds, latency_of, latency_of_floor
from bench.transport.statistics import Times


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of round trip, and at most how many times the floor's it may take."""

    what: str
    n: int
    placement: Placement
    floor: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    goal: float

    @property
    def heading(self) -> str:
        size = f"batch of {self.n}" if self.n else "a particle alone"
        return f"round trip {self.what}, {size}, {self.placement.value}"


CELLS = (
    Cell(
        "TCP",
        0,
        Placement.ONE_CORE,
        "tcp",
        ("echo-tcp/dataclass", "echo-tcp/record"),
        ("tcp/msgspec", "tcp/numpy", "zmq-pair/msgspec", "zenoh/msgspec", "dds/typed"),
        1.12,
    ),
    Cell(
        "TCP",
        1,
        Placement.ONE_CORE,
        "tcp",
        ("echo-tcp/array", "echo-tcp/batch"),
        ("tcp/msgspec", "tcp/numpy"),
        1.12,
    ),
    Cell(
        "TCP",
        1000,
        Placement.ONE_CORE,
        "tcp",
        ("echo-tcp/array", "echo-tcp/batch"),
        ("tcp/numpy", "tcp/msgspec", "zmq-pair/numpy"),
        1.10,
    ),
    Cell(
        "Unix socket",
        0,
        Placement.ONE_CORE,
        "unix",
        ("echo-unix/dataclass", "echo-unix/record"),
        ("unix/msgspec", "zmq-pair-ipc/msgspec"),
        1.2,
    ),
    Cell(
        "shared memory, blocking",
        0,
        Placement.ONE_CORE,
        "shm-futex",
        ("echo-shm/dataclass", "echo-shm/record"),
        ("iceoryx2-event/in-place",),
        1.3,
    ),
    Cell(
        "shared memory, spinning",
        0,
        Placement.TWO_CORES,
        "shm-spin",
        ("echo-shm-spin/dataclass", "echo-shm-spin/record"),
        ("mpi/numpy", "mpi/msgspec", "iceoryx2-poll/in-place"),
        2.0 / 0.7,
    ),
)


def measure(options: Options) -> Outcome:
    """Every cell, each with its floor and its peers in the same rounds."""
    outcome = Outcome()
    for cell in CELLS:
        results = _results(cell, options)
        floor = f"floor {cell.floor}"
        outcome.tables.append(times_table(cell.heading, results, floor))
        outcome.rows += _rows(cell, results, floor)
        outcome.charts.append(Chart(cell.heading, _all_times(results)))
    return outcome


def _results(cell: Cell, options: Options) -> Results[Times]:
    taking_part = [*ours(cell.ours), *chosen(cell.peers, options, without=("zmq-pubsub",))]
    contenders = [latency_of(peer, cell.n, cell.placement, options.budget_s) for peer in taking_part]
    floor = latency_of_floor(cell.floor, cell.n, cell.placement, options.budget_s)
    return in_rounds([floor, *contenders], options.rounds)


def _rows(cell: Cell, results: Results[Times], floor: str) -> Iterator[Row]:
    """Ours have the goal; a peer's is the bar."""
    group = f"{cell.heading}: times the floor"
    for name in results.rounds_by_name:
        if name != floor:
            goal = cell.goal if name in cell.ours else None
            yield Row(name, results.ratio(name, floor, lambda it: it.us(0.5)), goal, "x", group=group)


def _all_times(results: Results[Times]) -> dict[str, list[int]]:
    return {
        name: [time_ns for times in rounds for time_ns in times.ordered_ns]
        for name, rounds in results.rounds_by_name.items()
    }
