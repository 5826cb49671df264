"""What it costs to believe nothing: the checks of sizes and offsets, beside the conversions behind them.

A conversion with its checks is timed in a loop of C, in turn with the same compiled code without them. A
record with variable parts has all of its parts passed; records of fixed size have one check for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import echo_core as echo
from bench.convert.loops import checked_ns, convert_ns, record_ns
from bench.convert.senders import PARTICLE, aligned, check, many, odd, placed, rows
from bench.report import Row
from bench.timing import best_in_turn, median_ratio
from bench.workload import Message, Odd, Particle
from echo_core.codegen.conversion import Conversion

GROUP = "bounds checks, big-endian to native: time added to the conversion"
FIRST_CACHE_BYTES = 16 * 1024  # for either side, out of 32 KiB
Timed = dict[str, Callable[[], float]]


def measure(*, quick: bool) -> Iterator[Row]:
    """In percent of the time without checks; noise may take it below 0."""
    rounds = 20 if quick else 100
    for what, timed in _cases():
        checked, unchecked = timed["checked"], timed["unchecked"]
        added = median_ratio(checked, unchecked, rounds) - 1
        label = f"{what}, added to {best_in_turn({'': unchecked}, rounds)['']:.3g} ns"
        yield Row(label, 100 * added, 2, "%", group=GROUP)


def _cases() -> Iterator[tuple[str, Timed]]:
    for count in (1, 10, 1000):
        yield f"{count} of fixed size", timed_fixed(count)
    for count in (8, 1000, 100_000):
        yield f"Odd with {count} numbers and half as long a text", timed_record(Odd, odd(count))
    for count in (2, 100):
        message = Message(7, "a name of some length", np.arange(10.0), ["a tag"] * count)
        yield f"Message with {count} tags", timed_record(Message, message)


def timed_fixed(count: int) -> Timed:
    """Nanoseconds for so many particles in one call, their size checked or known."""
    sender = echo.format_of(Particle, abi="s390x")
    loaded = Conversion(sender, PARTICLE).loaded()
    source, target = placed(many(sender, count)), aligned(count * PARTICLE.size_bytes)
    sizes = sender.size_bytes, PARTICLE.size_bytes
    calls = max(1, 100_000 // count)

    def checked() -> float:
        address = loaded.addresses["convert_many"]  # `loaded` keeps the code there
        return checked_ns(address, source, target, sizes, calls=calls, repeats=1)

    def unchecked() -> float:
        return convert_ns(loaded.addresses["convert_many"], source, target, count, calls=calls, repeats=1)

    for run in (checked, unchecked):
        target[:] = 0
        run()
        check(target.tobytes(), count)
    return {"checked": checked, "unchecked": unchecked}


def timed_record(cls: type[Any], event: Any) -> Timed:
    """Nanoseconds for a record with variable parts, verified or believed.

    There are as many of a small one as the first cache holds with ease. Over and over from one place to
    another, the same code takes 8 ns or 15: a call's loads meet the stores of the call before.
    """
    data, expected = echo.encoder(cls, abi="s390x")(event), echo.encoder(cls)(event)
    copies = 1 << max(0, (FIRST_CACHE_BYTES // len(data)).bit_length() - 1)
    source, target = rows(copies, len(data)), rows(copies, len(expected))
    source[:] = np.frombuffer(data, np.uint8)
    loaded = Conversion(echo.format_of(cls, abi="s390x"), echo.format_of(cls)).loaded()
    calls = max(copies, 1_000_000 // len(data))

    def run(verified: bool) -> float:
        return record_ns(loaded.addresses, source, target, verified=verified, calls=calls, repeats=1)

    for verified in (True, False):
        target[:] = 0
        run(verified)
        assert target.tobytes() == expected * copies
    return {"checked": lambda: run(True), "unchecked": lambda: run(False)}
