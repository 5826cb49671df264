"""From submit to a handler in the same process: no record, no copy, the event itself."""

from __future__ import annotations

import functools
from typing import Any

import echo_core as echo
from bench.codec.peer import Slots, values
from bench.report import Row
from bench.timing import medians_in_turn, timed
from bench.transport.outcome import Options, Outcome
from bench.workload import Particle, particle

# Microseconds for one submit.
_GOALS = {1: 0.17, 20: 2.0}
_RECEIPT_GOAL = 0.25  # and a receipt, beyond that


class Counter:
    """A handler that counts, as small as one in Python can be."""

    def __init__(self) -> None:
        self.count = 0
        self.latest: Any = None

    def handle(self, event: Any) -> None:
        self.count += 1
        self.latest = event


def measure(options: Options) -> Outcome:
    """Dataclasses and records, to one handler and to twenty, beside calls of the same handlers."""
    outcome = Outcome()
    number, rounds = (5000, 5) if options.quick else (50_000, 25)
    with echo.Node() as node:
        for name, cls in (("dataclass", Slots), ("record", Particle)):
            for handlers, goal in _GOALS.items():
                outcome.rows += _rows(node, name, cls, handlers, goal, number, rounds)
    return outcome


def _rows(
    node: echo.Node, name: str, cls: Any, handlers: int, goal: float, number: int, rounds: int
) -> list[Row]:
    event = cls(*values(particle(7)))
    counters = [Counter() for _ in range(handlers)]
    channel = node.create_channel(f"{name} to {handlers}", cls)
    for counter in counters:
        channel.sink(cls, counter.handle)
    source = channel.source(cls)
    check(source, counters, event)
    plain = functools.partial(_call_all, tuple(Counter().handle for _ in counters))
    calls = {
        "submit": timed((source.submit, event), number),
        "tracked": timed((source.submit_tracked, event), number),
        "calls": timed((plain, event), number),
    }
    medians = medians_in_turn(calls, rounds)
    assert all(counter.latest is event for counter in counters)
    group = f"in process, {name}, {handlers} handler{'s' * (handlers > 1)}"
    rows = [
        Row("submit", medians["submit"] * 1e6, goal, "us", group=group),
        Row("a loop in Python that calls them", medians["calls"] * 1e6, None, "us", group=group),
    ]
    if handlers == 1:  # beside many it is less than what these vary by
        receipt_s = medians["tracked"] - medians["submit"]
        rows.append(Row("a receipt, beyond submit", receipt_s * 1e6, _RECEIPT_GOAL, "us", group=group))
    return rows


def check(source: Any, counters: list[Counter], event: Any) -> None:
    """Each handler gets the event itself, before submit returns."""
    for _ in range(10):
        source.submit(event)
    assert all(counter.count == 10 and counter.latest is event for counter in counters)


def _call_all(handlers: tuple[Any, ...], event: Any) -> None:
    for handle in handlers:
        handle(event)
