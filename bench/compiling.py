"""What machine code costs: the time until it is there, from nothing and from the cache, and its memory.

Each way prepares a sender that nobody has met and returns what is then timed: a call that ends with a
conversion, which is checked after the clock has stopped.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import echo_core as echo
from bench.convert.senders import stranger
from bench.memory import live_conversions
from bench.private_cache import private_cache
from bench.report import Row
from bench.workload import Particle
from echo_core.codegen.conversion import Conversion

# Converts a record of the sender, which is given, into that of the receiver.
Convert = Callable[[bytes], bytes]
Prepared = tuple[Callable[[], Convert], Callable[[Convert], None]]  # what is timed, and what checks it


def measure(*, quick: bool) -> list[Row]:
    """The figures for first events, with a cache of its own that is thrown away."""
    with private_cache():
        return [*_times(5 if quick else 20), live_conversions(50 if quick else 200)]


def ways() -> dict[str, tuple[Callable[[type[Any], int], Prepared], type[Any], float]]:
    """How a conversion comes to be, of which class, and the goal in ms."""
    return {
        "first event, interpreted, 16 fields": (interpreted_event, Particle, 5),
        "code for a foreign layout, 16 fields": (compiled, Particle, 5),
        "code for a foreign layout, 200 fields": (compiled, wide(200), 12),
        "code from the disk cache, 16 fields": (cached, Particle, 0.1),
    }


def _times(runs: int) -> Iterator[Row]:
    Conversion(*stranger(Particle, 0)).compile()  # what the first compilation of a process costs besides
    for what, (prepare, cls, goal) in ways().items():
        seconds = statistics.median(_seconds(*prepare(cls, run)) for run in range(1, runs + 1))
        yield Row(what, 1e3 * seconds, goal, "ms")


def _seconds(make: Callable[[], Convert], check: Callable[[Convert], None]) -> float:
    start = time.perf_counter()
    convert = make()
    taken = time.perf_counter() - start
    check(convert)
    return taken


def wide(count: int) -> type[Any]:
    """A class of so many fields of four sizes."""
    types = (float, echo.Int32, echo.Int16, echo.Float32)
    fields = [(f"f{i}", types[i % len(types)]) for i in range(count)]
    return dataclasses.make_dataclass("Wide", fields)


def interpreted_event(cls: type[Any], run: int) -> Prepared:
    """From a sender's metadata and bytes to the first converted record, by the interpreter."""
    sender, receiver = stranger(cls, 1000 + run)
    metadata, data = sender.metadata, _record(sender)

    def make() -> Convert:
        convert = echo.converter(echo.Format.from_metadata(metadata), receiver, tier="interpreted")
        convert(data)
        return convert

    return make, _checker(sender, receiver)


def compiled(cls: type[Any], run: int) -> Prepared:
    """From a stranger's metadata to machine code."""
    sender, receiver = stranger(cls, run)
    metadata = sender.metadata

    def make() -> Convert:
        conversion = Conversion(echo.Format.from_metadata(metadata), receiver)
        conversion.compile()
        assert conversion.routine.is_compiled
        return conversion.call

    return make, _checker(sender, receiver)


def cached(cls: type[Any], run: int) -> Prepared:
    """From two formats that are known to code that is on the disk; the plan is made before."""
    conversion = Conversion(*stranger(cls, run))
    conversion.compile()
    again = Conversion(conversion.sender, conversion.receiver)

    def make() -> Convert:
        again.compile()
        assert again.routine.is_compiled
        return again.call

    return make, _checker(conversion.sender, conversion.receiver)


def _record(format_: echo.Format) -> bytes:
    """A record whose fields are 1, 2, 3, and so on."""
    row = np.zeros(1, format_.dtype)
    for i, name in enumerate(format_.dtype.names or (), 1):
        row[name] = i % 2 if format_.dtype[name].kind == "b" else i
    return row.tobytes()


def _checker(sender: echo.Format, receiver: echo.Format) -> Callable[[Convert], None]:
    """The receiver's fields come first in the sender's, so they get the same numbers."""
    data, expected = _record(sender), _record(receiver)

    def check(convert: Convert) -> None:
        assert convert(data) == expected

    return check
