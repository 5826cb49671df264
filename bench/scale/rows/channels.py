"""Channels that two processes share: a round trip over one, and what each takes to open and to have."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import echo_core as echo
from bench.codec.peer import Slots, values
from bench.scale.growth import Costs, Growth, Study, marginal, medians
from bench.scale.rows.turns import in_its_turn, resident_kib, rounds_of
from bench.transport.processes import session
from bench.transport.processes.worker import Station, Task
from bench.workload import particle

_WAIT_S = 200.0


@dataclass(frozen=True, slots=True)
class Seen:
    """By one process of a pair."""

    trips_s: list[float]
    kib: float
    opening_s: float


def channels(quick: bool) -> Study:
    """Each has a source in one process and a sink in the other; all of two processes go over one link."""
    sizes = (1, 10, 30, 100) if quick else (1, 100, 1000, 3000, 10_000)
    rounds, trips = (3, 100) if quick else (9, 2000)
    tasks: list[Task] = []
    for turn, size in enumerate(sizes):
        its = {"turn": turn, "turns": len(sizes), "rounds": rounds}
        tasks += [Task(ask, {**its, "size": size, "trips": trips}), Task(answer, {**its, "size": size})]
    seen: list[Seen] = session.run(tasks, limit_s=600)
    asking, answering = seen[::2], seen[1::2]
    trip = medians(rounds_of(sizes, [it.trips_s for it in asking]), 1e6)
    growths = [
        Growth("round trip over one of them", "us", trip),
        Growth(
            "memory of the process with sources", "KiB per channel", _each(sizes, [it.kib for it in asking])
        ),
        Growth(
            "memory of the process with sinks", "KiB per channel", _each(sizes, [it.kib for it in answering])
        ),
        Growth(
            "opened, with source and sink",
            "us per channel",
            _each(sizes, [1e6 * it.opening_s for it in asking]),
        ),
    ]
    return Study("channels", "channels of one link", growths)


def _each(sizes: Sequence[int], measured: list[float]) -> Costs:
    """What one more takes. The first step is left out: it fits into memory that a process has in any case."""
    rounds = rounds_of(sizes[1:], [[it] for it in measured[1:]])
    return marginal(rounds, {size: size for size in sizes})


def ask(station: Station, *, size: int, trips: int, turn: int, turns: int, rounds: int) -> Seen:
    """Creates all channels, with a source on each, and asks over the last one."""
    with echo.Node() as node:
        back = node.create_channel("back", Slots)  # with what is there once for all of them
        answers = back.sink(Slots)
        station.exchange(back.id)
        answers.wait_matched(1, _WAIT_S)
        gc.collect()
        before, began = resident_kib(), time.perf_counter()
        kept = [node.create_channel(f"channel {i}", Slots) for i in range(size)]
        station.exchange([channel.id for channel in kept])
        sources = [channel.source(Slots) for channel in kept]
        for source in sources:
            source.wait_matched(1, _WAIT_S)
        opening_s = time.perf_counter() - began
        gc.collect()
        kib = resident_kib() - before
        station.exchange()
        event = Slots(*values(particle()))

        def trip_s() -> float:
            taken: list[float] = []
            for k in range(trips):
                event.id = k
                start = time.perf_counter()
                sources[-1].submit(event)
                back = answers.get(_WAIT_S)
                taken.append(time.perf_counter() - start)
                assert back.id == k
            return statistics.median(taken)

        trip_s()
        return Seen(in_its_turn(station, turn, turns, rounds, trip_s), kib, opening_s)


def answer(station: Station, *, size: int, turn: int, turns: int, rounds: int) -> Seen:
    """Opens them all, with a sink on each, and answers over the last one."""
    with echo.Node() as node:
        back = node.open_channel(station.exchange()[station.index - 1], timeout_s=_WAIT_S).source(Slots)
        back.wait_matched(1, _WAIT_S)
        gc.collect()
        before, began = resident_kib(), time.perf_counter()
        ids = station.exchange()[station.index - 1]
        opened = [node.open_channel(id_, timeout_s=_WAIT_S) for id_ in ids]
        for channel in opened[:-1]:
            channel.sink(Slots, _ignore)
        opened[-1].sink(Slots, back.submit)
        station.exchange()
        opening_s = time.perf_counter() - began
        gc.collect()
        kib = resident_kib() - before
        in_its_turn(station, -1, turns, rounds, _nothing)
        return Seen([], kib, opening_s)


def _ignore(event: Any) -> None:
    """An idle channel's."""


def _nothing() -> None:
    """It answers when it is asked."""
