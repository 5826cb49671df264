"""Objects to bytes and back, beside what a Python user would take today, in one process and one run.

The event classes are a dataclass with slots and an `@echo.event` record of the same fields. All data is hot.
Cold data costs everyone a cache miss for each object, beside which the differences shrink.
"""

from __future__ import annotations

import functools
import timeit
from collections.abc import Iterator
from typing import Any

import echo_core as echo
from bench.available import made_by
from bench.codec import messages
from bench.codec.ours import (
    DECODE,
    DECODE_LIST,
    ENCODE,
    ENCODE_LIST,
    OPERATIONS,
    check_bytes,
    ours,
    particles,
)
from bench.codec.peer import FIELDS, Slots, Task, values
from bench.codec.peers import peers
from bench.codec.schema_peers import protobuf_messages
from bench.report import Row
from bench.timing import medians_in_turn, seconds_each
from bench.workload import Particle, particle

# How many times faster than each peer. A peer that is not named has no goal, and a row all the same.
GOALS: dict[tuple[str, str], dict[str, float]] = {
    ("dataclass", ENCODE): {
        "pickle": 50,
        "msgpack": 12,
        "msgspec": 6,
        "msgspec array_like": 2.5,
        "protobuf": 40,
        "XML by ElementTree": 60,
        "XML by expat": 60,
    },
    ("dataclass", ENCODE_LIST): {"pickle": 100, "msgpack": 35, "msgspec": 20, "msgspec array_like": 4},
    ("dataclass", DECODE): {"pickle": 15, "msgpack": 3, "msgspec": 3, "msgspec array_like": 1.5},
    ("dataclass", DECODE_LIST): {"pickle": 5},
    ("@echo.event", DECODE): {"pickle": 60, "msgpack": 12, "msgspec array_like": 5},
    ("@echo.event", DECODE_LIST): {"pickle": 70, "msgspec array_like": 15, "protobuf, parsing alone": 4},
}


def measure(*, quick: bool) -> list[Row]:
    """All figures of the table "Codec"."""
    return [*_particles_rows(quick), *_attribute(quick), *messages.measure(quick=quick)]


def checked_tasks() -> dict[str, dict[str, Task]]:
    """What everyone is timed at, by name and operation, after each was checked to keep every value."""
    events = particles()
    everyone = [*ours(), *peers()]
    for peer in everyone:
        peer.check(events)
    check_bytes(events)
    parsing = made_by({"protobuf": lambda: [("protobuf, parsing alone", {DECODE_LIST: _parsing(events)})]})
    return {peer.name: peer.tasks(events) for peer in everyone} | dict(parsing)


def _parsing(events: list[Particle]) -> Task:
    """protobuf without making Python objects, beside records that are objects already."""
    one, many = protobuf_messages()
    messages_ = [one(**dict(zip(FIELDS, values(it), strict=True))) for it in events]
    data = many(particles=messages_).SerializeToString()
    assert len(many.FromString(data).particles) == len(events)
    return Task(many.FromString, data, len(events))


def _particles_rows(quick: bool) -> Iterator[Row]:
    tasks = checked_tasks()
    for operation in OPERATIONS:
        timed = {
            name: functools.partial(
                seconds_each, its[operation].call, its[operation].argument, its[operation].count, quick=quick
            )
            for name, its in tasks.items()
            if operation in its
        }
        taken = medians_in_turn(timed, 1 if quick else 5)
        mine = {peer: taken.pop(peer) for peer in ("dataclass", "@echo.event")}
        for name, seconds in mine.items():
            yield from _beside(name, operation, seconds, taken)


def _beside(name: str, operation: str, mine: float, theirs: dict[str, float]) -> Iterator[Row]:
    group = f"{name}: {operation}, {1e9 * mine:.3g} ns each"
    goals = GOALS.get((name, operation), {})
    for peer, seconds in theirs.items():
        what = f"faster than {peer}, {1e9 * seconds:.4g} ns"
        yield Row(what, seconds / mine, goals.get(peer), "x", at_least=True, group=group)


def _attribute(quick: bool) -> Iterator[Row]:
    """Reading a field of a record, beside a slot: in a function, as the goal was set, and alone."""
    number, repeat = (100_000, 5) if quick else (1_000_000, 15)
    times: dict[str, list[float]] = {"f()": [], "e.x": []}
    for cls in (Particle, Slots):
        codec = echo.codec(cls, tier="compiled")
        event: Any = codec.decode(codec.encode(cls(*values(particle(7)))))
        for read, taken in times.items():
            names = {"e": event, "f": lambda event=event: event.x}
            taken.append(min(timeit.repeat(read, globals=names, number=number, repeat=repeat)))
    for read, what in (("f()", "in a function"), ("e.x", "alone")):
        record, slot = times[read]
        yield Row(f"{what}, against a slot", record / slot, 1.8, "x", group="@echo.event: read an attribute")
