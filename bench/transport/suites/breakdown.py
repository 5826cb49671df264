"""Where the time goes: what each part of the system takes of a round trip, and of a message one way."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import Table
from bench.transport import measuring
from bench.transport.choice import ours
from bench.transport.endpoint import Peer
from bench.transport.outcome import Options, Outcome
from bench.transport.processes import floors, session
from bench.transport.processes.placement import Placement
from bench.transport.processes.worker import Station, Task
from bench.transport.rounds import stride
from bench.transport.statistics import Trips
from bench.transport.suites import profiles
from bench.transport.suites.profiles import Part, Profile, Sample

_MOST = 10_000_000  # round trips: as many as the time allows
_FUNCTIONS = 8
_COMMAND_LENGTH = 15  # of a program's name, as the kernel keeps it


@dataclass(frozen=True, slots=True)
class Trip:
    """Round trips on one core: nobody runs but the two processes, so their parts make up the whole."""

    what: str
    n: int
    floor: str
    ours: tuple[str, ...]


TRIPS = (
    Trip("TCP, a particle alone", 0, "tcp", ("echo-tcp/record", "echo-tcp/dataclass")),
    Trip("TCP, batch of 1", 1, "tcp", ("echo-tcp/array", "echo-tcp/batch")),
    Trip("TCP, batch of 1000", 1000, "tcp", ("echo-tcp/array", "echo-tcp/batch")),
    Trip("Unix socket, a particle alone", 0, "unix", ("echo-unix/record", "echo-unix/dataclass")),
    Trip("shared memory, a particle alone", 0, "shm-futex", ("echo-shm/record", "echo-shm/dataclass")),
)


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages one way, to as many receivers."""

    peer: str
    n: int = 0
    receivers: int = 1

    @property
    def heading(self) -> str:
        size = f"batch of {self.n}" if self.n else "a particle alone"
        many = f", {self.receivers} receivers" if self.receivers > 1 else ""
        return f"ns of a message one way: {self.peer}, {size}{many}, two cores"


FLOWS = (
    Flow("echo-tcp/dataclass"),
    Flow("echo-tcp/record"),
    Flow("echo-tcp/batch", n=1000),
    Flow("echo-tcp/dataclass", receivers=4),
)


@dataclass(frozen=True, slots=True)
class Column:
    """What `count` messages took: in all, and by the samples, each of which stands for a period."""

    name: str
    total_ns: float
    count: int
    samples: Sequence[Sample]
    period_ns: float

    def cells(self) -> list[str]:
        """Nanoseconds of a message: the parts, what is none of them, and all."""
        parts_ns = [self.period_ns * hits for hits in profiles.counts(self.samples).values()]
        return [
            f"{each / self.count:.0f}" for each in (*parts_ns, self.total_ns - sum(parts_ns), self.total_ns)
        ]

    def functions(self, part: Part) -> str:
        found = profiles.costliest(self.samples, part, _FUNCTIONS)
        return ", ".join(f"{symbol} {self.period_ns * hits / self.count:.0f}" for symbol, hits in found)


def measure(options: Options) -> Outcome:
    """Round trips beside their floors, then streams, each with its costliest functions."""
    outcome = Outcome()
    reason = profiles.unavailable()
    if reason is not None:
        outcome.tables.append(Table("nothing was measured", ("reason",), [(reason,)]))
        return outcome
    budget_s = 0.5 if options.quick else 4.0
    for trip in TRIPS:
        columns = [_floor(trip, budget_s), *(_round_trips(it, trip.n, budget_s) for it in ours(trip.ours))]
        heading = f"ns of a round trip: {trip.what}, one core"
        _report(outcome, heading, columns, others="other programs on that core")
    for flow in FLOWS:
        _report(outcome, flow.heading, _flow(flow, budget_s), others="it waits, or others run")
    return outcome


def _floor(trip: Trip, budget_s: float) -> Column:
    program = floors.program()
    with Profile() as profile:
        trips = floors.round_trips(trip.floor, trip.n, Placement.ONE_CORE, budget_s=budget_s, most=_MOST)
    name = program.name[:_COMMAND_LENGTH]
    return _column(f"floor {trip.floor}", trips, profile, [name])


def _round_trips(peer: Peer, n: int, budget_s: float) -> Column:
    asked = {"peer": peer, "n": n, "budget_s": budget_s, "most": _MOST}
    tasks = [
        _task(measuring.ask, asked, Placement.ONE_CORE),
        _task(measuring.answer, {"peer": peer, "n": n}, Placement.ONE_CORE),
    ]
    with Profile() as profile:
        (asker, trips), (answerer, _) = session.run(tasks)
    return _column(peer.name, trips, profile, [asker, answerer])


def _column(name: str, trips: Trips, profile: Profile, processes: Sequence[int | str]) -> Column:
    samples = [it for process in processes for it in profile.of(process, trips.began_ns, trips.ended_ns)]
    return Column(name, trips.ended_ns - trips.began_ns, len(trips.times_ns), samples, profile.period_ns)


def _flow(flow: Flow, budget_s: float) -> list[Column]:
    """What the sender takes, and what each receiver does; the slowest has no time left."""
    its = {"peer": ours([flow.peer])[0], "n": flow.n, "receivers": flow.receivers}
    sending = its | {"budget_s": budget_s, "stride": stride(flow.n)}
    tasks = [_task(measuring.send, sending, Placement.ANYWHERE)]
    tasks += [_task(measuring.count, its, Placement.ANYWHERE) for _ in range(flow.receivers)]
    with Profile() as profile:
        (sender, (began_ns, sent)), *counted = session.run(tasks)
    ended_ns = max(ended for _, (ended, _, _) in counted)
    processes = {"sender": sender, **{f"receiver {i}": pid for i, (pid, _) in enumerate(counted, 1)}}
    return [
        Column(name, ended_ns - began_ns, sent, profile.of(process, began_ns, ended_ns), profile.period_ns)
        for name, process in processes.items()
    ]


def _task(call: Callable[..., Any], arguments: dict[str, Any], placement: Placement) -> Task:
    return Task(do, {"call": call, "arguments": arguments}, placement)


def do(station: Station, *, call: Callable[..., Any], arguments: dict[str, Any]) -> tuple[int, Any]:
    """A task: the number of the process that does another one, and what came out."""
    return os.getpid(), call(station, **arguments)


def _report(outcome: Outcome, heading: str, columns: Sequence[Column], *, others: str) -> None:
    """`others`: whose time is none of the columns'."""
    names = [*(part.value for part in Part), others, "in all"]
    lines = list(zip(names, *(column.cells() for column in columns), strict=True))
    outcome.tables.append(Table(heading, ("", *(column.name for column in columns)), lines))
    for column in columns:
        lines = [(part.value, column.functions(part)) for part in Part if column.functions(part)]
        outcome.tables.append(Table(f"{heading}: functions of {column.name}", ("", "ns"), lines))
