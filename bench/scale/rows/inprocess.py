"""Within a process: hand-overs to many sinks, and events that wait in a queue."""

from __future__ import annotations

import functools
import gc
import queue
import time
import timeit
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import echo_core as echo
from bench.codec.peer import Slots, values
from bench.scale.growth import Costs, Growth, Study, in_turn, marginal
from bench.scale.rows.records import NS, repeated
from bench.workload import Message, particle

_WARM_S = 0.2


class Counter:
    """A handler that counts, as small as one in Python can be."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self, event: Any) -> None:
        self.count += 1


def sinks(quick: bool) -> Study:
    """One submit to so many handlers, beside a loop that calls them."""
    sizes = (1, 10, 100) if quick else (1, 10, 30, 100, 300, 1000)
    budget_s, rounds = (0.001, 3) if quick else (0.02, 15)
    growths: list[Growth] = []
    with echo.Node() as node:
        for name, event in events().items():
            submits: dict[int, Callable[[], float]] = {}
            loops: dict[int, Callable[[], float]] = {}
            for size in sizes:
                submit = _submit(node, f"{name} {size}", event, size)
                _warm(submit)
                submits[size] = repeated(submit, budget_s)
                handlers = tuple(Counter().handle for _ in range(size))
                names = {"call_all": functools.partial(_call_all, handlers), "event": event}
                loops[size] = repeated(timeit.Timer("call_all(event)", globals=names), budget_s)
            amounts = {size: size for size in sizes}
            costs = marginal(in_turn(submits, rounds), amounts, NS)
            peer = marginal(in_turn(loops, rounds), amounts, NS)
            growths.append(Growth(name, "ns per hand-over", costs, {"a loop in Python": peer}))
    note = (
        "Events with variable parts are encoded once and decoded for each sink, which the loop does not do."
    )
    return Study("sinks", "sinks in the source's process", growths, (note,))


def events() -> dict[str, Any]:
    """One of each way: by reference, and decoded for each sink."""
    return {
        "dataclass": Slots(*values(particle())),
        "@echo.event": particle(),
        "@echo.event with variable parts": Message(
            7, "a name of some length", np.arange(10.0), ["one", "two"]
        ),
    }


def _submit(node: echo.Node, name: str, event: Any, count: int) -> timeit.Timer:
    cls: Any = event.__class__
    channel = node.create_channel(name, cls)
    counters = [Counter() for _ in range(count)]
    for counter in counters:
        channel.sink(cls, counter.handle)
    source = channel.source(cls)
    source.submit(event)
    assert all(counter.count == 1 for counter in counters)
    return timeit.Timer("submit(event)", globals={"submit": source.submit, "event": event})


def _warm(timer: timeit.Timer) -> None:
    """Until code is compiled in the background, which takes no longer than this."""
    stop = time.monotonic() + _WARM_S
    while time.monotonic() < stop:
        timer.timeit(10)


def _call_all(handlers: tuple[Any, ...], event: Any) -> None:
    for handle in handlers:
        handle(event)


def queued(quick: bool) -> Study:
    """So many events put into a sink's queue, then taken out of it."""
    sizes = (100, 1000, 10_000) if quick else (1000, 10_000, 100_000, 1_000_000)
    rounds = 3 if quick else 7
    growths: list[Growth] = []
    with echo.Node() as node:
        for name, event in events().items():
            cls: Any = event.__class__
            channel = node.create_channel(name, cls)
            room = echo.Backlog(events=max(sizes) + 1, size_bytes=1 << 40)
            sink = channel.sink(cls, backlog=room)
            source = channel.source(cls)
            peer: queue.SimpleQueue[Any] = queue.SimpleQueue()
            ours = _in_and_out(source.submit, sink.get, event, sizes, rounds)
            theirs = _in_and_out(peer.put, peer.get, event, sizes, rounds)
            for what, costs, beside in zip(("submit", "get"), ours, theirs, strict=True):
                growths.append(Growth(f"{name}: {what}", "ns per event", costs, {"SimpleQueue": beside}))
    note = "A queue of Python's own holds references; events with variable parts are encoded and decoded."
    return Study("queue", "events that wait in a queue", growths, (note,))


def _in_and_out(
    put: Callable[[Any], Any], get: Callable[[], Any], event: Any, sizes: Sequence[int], rounds: int
) -> tuple[Costs, Costs]:
    """What an event more costs on its way in, and on its way out. The first round warms up."""
    puts: dict[int, list[float]] = {size: [] for size in sizes}
    gets: dict[int, list[float]] = {size: [] for size in sizes}
    gc.collect()
    gc.disable()  # as timeit does
    for _ in range(rounds + 1):
        for size in sizes:
            repeats = max(1, 10_000 // size)
            taken = [_seconds(put, get, event, size) for _ in range(repeats)]
            puts[size].append(sum(put_s for put_s, _ in taken) / repeats)
            gets[size].append(sum(get_s for _, get_s in taken) / repeats)
    gc.enable()
    amounts = {size: size for size in sizes}
    ins, outs = ({size: taken[1:] for size, taken in each.items()} for each in (puts, gets))
    return marginal(ins, amounts, NS), marginal(outs, amounts, NS)


def _seconds(
    put: Callable[[Any], Any], get: Callable[[], Any], event: Any, count: int
) -> tuple[float, float]:
    began = time.perf_counter()
    for _ in range(count):
        put(event)
    filled = time.perf_counter()
    for _ in range(count - 1):
        get()
    last = get()
    ended = time.perf_counter()
    assert last.id == event.id
    return filled - began, ended - filled
