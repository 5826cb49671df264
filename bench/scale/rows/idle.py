"""Links on which nothing happens: what each takes of a process, and of a round trip over one of them."""

from __future__ import annotations

import contextlib
import gc
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import echo_core as echo
from bench.codec.peer import Slots, values
from bench.scale.growth import Growth, Judged, Study, marginal, medians
from bench.scale.rows.turns import in_its_turn, resident_kib, rounds_of
from bench.transport.processes import session
from bench.transport.processes.worker import Station, Task
from bench.workload import particle

_WAIT_S = 100.0
_NODES = 50  # of one process at the far ends: a link for each, and not an interpreter for each
_MORE_THREADS = 8.0


@dataclass(frozen=True, slots=True)
class Idle:
    """While nothing happens."""

    cpu_share: float
    wake_ups_per_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """By the process in the middle."""

    trips_s: list[float]
    idle: list[Idle]
    kib: float
    threads: int


def idle_links(quick: bool) -> Study:
    """One process in the middle, with a channel for each link; over shared memory and over TCP."""
    sizes = (1, 5, 20) if quick else (1, 10, 50, 100, 200)
    transports: tuple[echo.Transport, ...] = ("shm", "tcp")
    growths = [growth for each in transports for growth in _growths(each, sizes, quick)]
    note = (
        f"Far ends are nodes, {_NODES} of a process. Threads: those of the process in the middle beyond what"
        " it has with one link. Processor time, and wake-ups (voluntary switches), while no event is sent."
    )
    return Study("idle-links", "links of a process on which nothing happens", growths, (note,))


def _growths(transport: echo.Transport, sizes: Sequence[int], quick: bool) -> list[Growth]:
    its: dict[str, Any] = {"turns": len(sizes), "rounds": 2 if quick else 5}
    tasks: list[Task] = []
    middle: list[int] = []
    for turn, size in enumerate(sizes):
        middle.append(len(tasks))
        idle_s, trips = (0.3, 50) if quick else (2.0, 1000)
        arguments = its | {
            "transport": transport,
            "size": size,
            "turn": turn,
            "trips": trips,
            "idle_s": idle_s,
        }
        tasks.append(Task(stand_in_the_middle, arguments))
        ends = {**its, "transport": transport, "middle": middle[-1]}
        tasks += [
            Task(be_far_ends, {**ends, "first": first, "count": min(_NODES, size - first)})
            for first in range(0, size, _NODES)
        ]
    all_seen = session.run(tasks, limit_s=400)
    seen: list[Seen] = [all_seen[index] for index in middle]
    amounts = {size: size for size in sizes}
    trip = medians(rounds_of(sizes, [it.trips_s for it in seen]), 1e6)
    memory = marginal(rounds_of(sizes, [[it.kib] for it in seen]), amounts)
    threads = {size: float(it.threads - seen[0].threads) for size, it in zip(sizes, seen, strict=True)}
    share = medians(rounds_of(sizes, [[each.cpu_share for each in it.idle] for it in seen]), 100)
    wakes = medians(rounds_of(sizes, [[each.wake_ups_per_s for each in it.idle] for it in seen]))
    return [
        Growth(f"{transport}: round trip over one of them", "us", trip),
        Growth(f"{transport}: memory", "KiB per link", memory),
        Growth(
            f"{transport}: threads more than with one",
            "threads",
            threads,
            judged=Judged.LAST,
            goal=_MORE_THREADS,
        ),
        Growth(f"{transport}: processor of an idle process", "% of a core", share, resolution=0.1),
        Growth(f"{transport}: wake-ups of an idle process", "per second", wakes, resolution=4.0),
    ]


def stand_in_the_middle(
    station: Station,
    *,
    transport: echo.Transport,
    size: int,
    trips: int,
    idle_s: float,
    turn: int,
    turns: int,
    rounds: int,
) -> Seen:
    """Has a channel, a source and a sink for every link."""
    with echo.Node(transports=[transport]) as node:
        node.create_channel("warm", Slots).source(Slots)
        gc.collect()
        before = resident_kib()
        there = [node.create_channel(f"there {i}", Slots) for i in range(size)]
        back = [node.create_channel(f"back {i}", Slots) for i in range(size)]
        station.exchange([(one.id, other.id) for one, other in zip(there, back, strict=True)])
        sources = [channel.source(Slots) for channel in there]
        sinks = [channel.sink(Slots) for channel in back]
        for source, sink in zip(sources, sinks, strict=True):
            source.wait_matched(1, _WAIT_S)
            sink.wait_matched(1, _WAIT_S)
        _await_links(node, size)
        station.exchange()
        gc.collect()
        kib = resident_kib() - before

        def seen_s() -> tuple[float, Idle]:
            idle = _idle(idle_s)
            return _trip_s(sources[-1], sinks[-1], trips), idle

        _trip_s(sources[-1], sinks[-1], trips)
        for source, sink in zip(sources, sinks, strict=True):
            _trip_s(source, sink, 1)
        measured = in_its_turn(station, turn, turns, rounds, seen_s)
        return Seen([trip for trip, _ in measured], [idle for _, idle in measured], kib, _threads())


def _await_links(node: echo.Node, count: int) -> None:
    """Where two nodes have linked to each other at a time, one of the links goes again."""
    limit = time.monotonic() + _WAIT_S
    while (links := len(node.statistics().links)) != count:
        assert time.monotonic() < limit, f"Expected {count} links, got {links}"
        threading.Event().wait(0.01)


def _trip_s(source: Any, sink: Any, trips: int) -> float:
    event = Slots(*values(particle()))
    taken: list[float] = []
    for k in range(trips):
        event.id = k
        start = time.perf_counter()
        source.submit(event)
        back = sink.get(_WAIT_S)
        taken.append(time.perf_counter() - start)
        assert back.id == k
    return statistics.median(taken)


def _idle(idle_s: float) -> Idle:
    """This process while it sleeps for so long; its own sleep is one wake-up."""
    wakes, cpu_s, began = _switches(), time.process_time(), time.monotonic()
    threading.Event().wait(idle_s)
    passed_s = time.monotonic() - began
    return Idle((time.process_time() - cpu_s) / passed_s, (_switches() - wakes - 1) / passed_s)


def _switches() -> int:
    """How often threads of this process have gone to sleep of their own will."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            status = (task / "status").read_text()
            total += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return total


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def be_far_ends(
    station: Station,
    *,
    transport: echo.Transport,
    middle: int,
    first: int,
    count: int,
    turns: int,
    rounds: int,
) -> None:
    """Nodes that answer over their own links."""
    with contextlib.ExitStack() as kept:
        ids = station.exchange()[middle][first : first + count]
        for there_id, back_id in ids:
            node = kept.enter_context(echo.Node(transports=[transport]))
            back = node.open_channel(back_id, timeout_s=_WAIT_S).source(Slots)
            node.open_channel(there_id, timeout_s=_WAIT_S).sink(Slots, back.submit)
        station.exchange()
        in_its_turn(station, -1, turns, rounds, _nothing)


def _nothing() -> None:
    """It answers when it is asked."""
