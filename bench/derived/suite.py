"""`python -m bench derived`: filtering at the source beside filtering elsewhere; each answer is checked.

Source and receiver are processes that are linked by TCP. Processor time is that of all threads of a process;
a figure is the best of several runs.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import echo_core as echo
from bench.against.children import Child
from bench.available import made_by
from bench.derived.part import COUNT
from bench.private_cache import private_cache
from bench.report import Row, best_of
from bench.scale.growth import Growth, Judged, Study
from bench.scale.plot import as_svg
from bench.workload import Particle, particle
from echo_core.codegen.machine import background

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "bench" / "results" / "derived" / "selectivity.svg"
PASSING = (1, 10, 100, 1000, 3000, 5000, 7000, 9000, COUNT)  # of 10,000
ONE_PERCENT = COUNT // 100
SHAPE = 1000  # derivations


def measure(*, quick: bool) -> list[Row]:
    """The figures; what is filtered where is also drawn, but for a quick look."""
    with private_cache():
        rows = list(_shapes(3 if quick else 7))
        rows += _one_percent(3 if quick else 15, 2 if quick else 7)
        points = {
            where: _points(where, 2 if quick else 10, 1 if quick else 5) for where in ("source", "receiver")
        }
    if not quick:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        PICTURE.write_text(as_svg(_study(points)))
    return [*rows, *_selectivities(points)]


# ---------------------------------------------------------------------------
# Processes


class Process:
    """One of the two, and what it is asked to do."""

    def __init__(self, child: Child, role: str) -> None:
        self._child = child
        child.ask("be", role)

    def do(self, what: str, *arguments: Any) -> Any:
        return self._child.ask("do", what, *arguments)

    def begin(self, what: str, *arguments: Any) -> None:
        self._child.begin("do", what, *arguments)

    def answer(self) -> Any:
        return self._child.answer()


@contextmanager
def _pair() -> Generator[tuple[Process, Process]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        Child("bench.derived.part", environment) as source,
        Child("bench.derived.part", environment) as receiver,
    ):
        yield Process(source, "source"), Process(receiver, "receiver")


@contextmanager
def _linked(taking: str) -> Generator[tuple[Process, Process]]:
    """On one channel, of which the receiver takes what that method of its says."""
    with _pair() as (source, receiver):
        receiver.do("open", source.do("id"))
        receiver.do(taking)
        source.do("wait_matched", 1)
        yield source, receiver


@dataclass(frozen=True)
class Point:
    """For one event: processor time at both ends in ns, and bytes on the wire."""

    source: float
    receiver: float
    wire: float


def _point(source: Process, receiver: Process, passing: int, rounds: int, repeats: int, *how: Any) -> Point:
    """The best of some runs, each of which has delivered what it should."""
    submit, *arguments = how or ("submit",)
    measured: list[Point] = []
    for _ in range(1 + repeats):  # the first is to get warm
        receiver.do("begin", passing)
        cost, size = source.do(submit, rounds, *arguments)
        taken_s, count, total = receiver.do("end")
        assert (count, total) == (rounds * passing, rounds * sum(range(passing))), (count, total)
        measured.append(Point(cost, 1e9 * taken_s / (rounds * COUNT), size))
    measured = measured[1:]
    wire = statistics.median(it.wire for it in measured)
    return Point(min(it.source for it in measured), min(it.receiver for it in measured), wire)


# ---------------------------------------------------------------------------
# One percent


def _one_percent(rounds: int, repeats: int) -> Iterator[Row]:
    group = "Processor time of the source for an event of which 1 % pass, remote sink"
    with _linked("take_derived") as ends:
        yield Row("derived", _point(*ends, ONE_PERCENT, rounds, repeats).source, 45, "ns", group=group)
    with _linked("take_all") as (source, receiver):
        tested = _point(source, receiver, ONE_PERCENT, rounds, repeats, "submit_tested", ONE_PERCENT)
        every = _point(source, receiver, ONE_PERCENT, rounds, repeats)
    yield Row("a Python test before submit", tested.source, None, "ns", group=group)
    yield Row("all are sent, and tested by who receives them", every.source, None, "ns", group=group)
    for taken in made_by({"ZeroMQ": lambda: [_published(rounds, repeats)]}):
        yield Row("ZeroMQ, which is told a prefix, and encodes all", taken, None, "ns", group=group)


def _published(rounds: int, repeats: int) -> float:
    import_module("zmq")  # ImportError: it is left out
    best: list[float] = []
    for _ in range(repeats):
        with _pair() as (source, receiver):
            receiver.do("subscribe", source.do("bind"))
            receiver.begin("receive", rounds * ONE_PERCENT)
            best.append(source.do("publish", rounds, ONE_PERCENT)[0])
            assert receiver.answer() == rounds * sum(range(ONE_PERCENT))
    return min(best)


# ---------------------------------------------------------------------------
# From hardly any to all


def _points(where: str, rounds: int, repeats: int) -> dict[int, Point]:
    with _linked("take_derived" if where == "source" else "take_all") as ends:
        return {passing: _point(*ends, passing, rounds, repeats) for passing in PASSING}


def _study(points: dict[str, dict[int, Point]]) -> Study:
    def growth(what: str, unit: str, value: Callable[[Point], float]) -> Growth:
        costs, other = (
            {size: value(it) for size, it in points[where].items()} for where in ("source", "receiver")
        )
        return Growth(what, unit, costs, {"filtered by the receiver": other}, Judged.MOST, None)

    return Study(
        "selectivity",
        "events that pass, of 10,000",
        [
            growth("Source's processor, by events that pass of 10,000", "ns an event", lambda it: it.source),
            growth("Receiver's processor", "ns an event", lambda it: it.receiver),
            growth("Both together", "ns an event", lambda it: it.source + it.receiver),
            growth("On the wire", "bytes an event", lambda it: it.wire),
        ],
    )


def _selectivities(points: dict[str, dict[int, Point]]) -> Iterator[Row]:
    for where, by_passing in points.items():
        group = f"Filtered at the {where}, for an event: processor at both ends, and the wire"
        for passing, it in by_passing.items():
            share = f"{100 * passing / COUNT:g} % pass"
            yield Row(f"{share}, source", it.source, None, "ns", group=group)
            yield Row(f"{share}, receiver", it.receiver, None, "ns", group=group)
            yield Row(f"{share}, wire", it.wire, None, "bytes", group=group)
    group = "From which share on filtering at the source costs more than sending all; 100: never"
    values: dict[str, Callable[[Point], float]] = {
        "the source's processor": lambda it: it.source,
        "both processors": lambda it: it.source + it.receiver,
        "bytes on the wire": lambda it: it.wire,
    }
    for what, value in values.items():
        yield Row(what, _crossover(points, value), None, "%", group=group)


def _crossover(points: dict[str, dict[int, Point]], value: Callable[[Point], float]) -> float:
    """Between the last share that is cheaper at the source and the first that is not, in proportion."""
    before = None
    for passing in PASSING:
        excess = value(points["source"][passing]) - value(points["receiver"][passing])
        if excess > 0:
            if before is None:
                return 100 * passing / COUNT
            share = before[1] / (before[1] - excess)
            return 100 * (before[0] + share * (passing - before[0])) / COUNT
        before = passing, excess
    return 100.0


# ---------------------------------------------------------------------------
# Many of one shape


def _shapes(repeats: int) -> Iterator[Row]:
    group = f"{SHAPE} derivations of one shape, each with a sink, ns an event"
    event = particle(SHAPE)
    plain = _submits(repeats, event, "", 0)[0]
    yield Row("submit without sinks and derivations", plain, None, "ns", group=group)
    for text, value, goal in (
        ("id == wanted", 0, 50),
        ("tag == wanted", "none", 50),
        ("temp > wanted", 1000.0, 100),
    ):
        one, _ = _submits(repeats, event, text, 1, value)
        taken, passed = _submits(repeats, event, text, SHAPE, value)
        assert passed == 0
        yield Row(f"`{text}`, one derivation, which it does not pass", one, None, "ns", group=group)
        yield Row(f"`{text}`, {SHAPE}, none of which it passes", taken, None, "ns", group=group)
        yield Row(f"`{text}`, {SHAPE}, beyond a submit", taken - plain, goal, "ns", group=group)
    taken, passed = _submits(repeats, particle(5), "id == wanted", SHAPE)
    assert passed == 1
    yield Row(f"`id == wanted`, {SHAPE}, one of which it passes", taken, None, "ns", group=group)
    tests = [_test_for(wanted) for wanted in range(SHAPE)]
    python = best_of(repeats, lambda: [test(event) for test in tests], calls=10)
    yield Row(f"{SHAPE} Python functions", 1e9 * python, None, "ns", group=group)


def _test_for(wanted: int) -> Callable[[Any], bool]:
    return lambda event: event.id == wanted


def _submits(repeats: int, event: Any, text: str, count: int, first: float | str = 0) -> tuple[float, float]:
    """The time of a submit, and how many sinks get the event."""
    came: list[Any] = []
    with echo.Node() as node:
        channel = node.create_channel("shape", Particle)
        source = channel.source()
        for i in range(count):
            wanted = f"{first}{i}" if isinstance(first, str) else first + i
            channel.derive(where=text, wanted=wanted).sink(Particle, came.append)
        source.submit(event)
        assert background.drain(60.0)  # what judges is compiled there
        submit = source.submit
        ns = 1e9 * best_of(repeats, lambda: [submit(event) for _ in range(1000)]) / 1000
        came.clear()
        submit(event)
        return ns, len(came)
