"""What machine code costs: the time until it is there, from nothing and from the cache, and its memory."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import echo_core as echo
from bench.report import Row
from bench.workload import Particle, particle
from echo_core.codegen import cache
from echo_core.codegen.conversion import Conversion


def measure(*, quick: bool) -> list[Row]:
    """The figures for first events, with a cache of its own that is thrown away."""
    kept = cache.default_cache()
    with tempfile.TemporaryDirectory() as folder:
        cache.set_cache(cache.Cache(Path(folder) / "cache"))
        try:
            return [*_times(quick), _memory(50 if quick else 200)]
        finally:
            cache.set_cache(kept)


def _times(quick: bool) -> list[Row]:
    runs = 5 if quick else 20
    wide = _wide(200)
    Conversion(*_pair(Particle, 0)).compile()  # what the first compilation of a process costs besides
    return [
        Row("first event, interpreted, 16 fields", 1e3 * _first_event(runs), 5, "ms"),
        Row("code for a foreign layout, 16 fields", 1e3 * _compiling(Particle, runs), 5, "ms"),
        Row("code for a foreign layout, 200 fields", 1e3 * _compiling(wide, runs), 12, "ms"),
        Row("code from the disk cache, 16 fields", 1e3 * _cached(runs), 0.1, "ms"),
    ]


def _wide(count: int) -> type[Any]:
    """A class of so many fields of four sizes."""
    types = (float, echo.Int32, echo.Int16, echo.Float32)
    fields = [(f"f{i}", types[i % len(types)]) for i in range(count)]
    return dataclasses.make_dataclass("Wide", fields)


def _pair(cls: type[Any], run: int) -> tuple[echo.Format, echo.Format]:
    """A big-endian sender that nobody has met: it has a field of its own."""
    fields = [(f.name, cls.__annotations__[f.name]) for f in dataclasses.fields(cls)]
    fresh = dataclasses.make_dataclass(cls.__name__, [*fields, (f"extra{run}", float)])
    fresh.__module__ = cls.__module__
    return echo.format_of(fresh, abi="s390x"), echo.format_of(cls)


def _median(runs: int, measured: Callable[[int], float]) -> float:
    return statistics.median(measured(run) for run in range(1, runs + 1))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _first_event(runs: int) -> float:
    """From a sender's metadata and bytes to the first converted record, by the interpreter."""

    def once(run: int) -> float:
        sender, receiver = _pair(Particle, 1000 + run)
        data = bytes(sender.size_bytes)
        metadata = sender.metadata

        def first() -> bytes:
            convert = echo.converter(echo.Format.from_metadata(metadata), receiver, tier="interpreted")
            converted: bytes = convert(data)
            return converted

        return _seconds(first)

    return _median(runs, once)


def _compiling(cls: type[Any], runs: int) -> float:
    """From a stranger's metadata to machine code."""

    def once(run: int) -> float:
        sender, receiver = _pair(cls, run)
        metadata = sender.metadata

        def believed_and_compiled() -> None:
            conversion = Conversion(echo.Format.from_metadata(metadata), receiver)
            conversion.compile()
            assert conversion.routine.is_compiled

        return _seconds(believed_and_compiled)

    return _median(runs, once)


def _cached(runs: int) -> float:
    """From two formats that are known to code that is on the disk; the plan is made before."""

    def once(run: int) -> float:
        conversion = Conversion(*_pair(Particle, run))
        conversion.compile()
        again = Conversion(conversion.sender, conversion.receiver)
        return _seconds(again.compile)

    return _median(runs, once)


def _memory(count: int) -> Row:
    """Resident memory for each live conversion."""
    pairs = [_pair(Particle, 10_000 + i) for i in range(count + 5)]  # classes and formats are not counted
    warm = [Conversion(*pair) for pair in pairs[:5]]
    for conversion in warm:
        conversion.compile()
    before = _resident_kib()
    live = [Conversion(*pair) for pair in pairs[5:]]
    for conversion in live:
        conversion.compile()
    data = echo.encoder(Particle, abi="s390x")(particle())
    assert all(len(conversion.call(data + bytes(8))) == 96 for conversion in live)
    return Row(f"memory for each of {count} live conversions", (_resident_kib() - before) / count, 64, "KiB")


def _resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
