"""What a field costs that the sender has and the receiver does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import echo_core as echo
from bench.convert.loops import convert_ns, record_ns
from bench.convert.senders import (
    PARTICLE,
    aligned,
    check,
    many,
    odd,
    placed,
    senders_with_and_without,
    with_extra,
)
from bench.report import Row
from bench.timing import best_in_turn
from bench.workload import Odd
from echo_core.codegen.conversion import Conversion

GROUP = "extra field at the front, against the same without it, per byte moved"
LATER_ODD = with_extra(Odd)


def measure(*, quick: bool) -> Iterator[Row]:
    """Foreign particles in cache and beyond, and odd records, per byte that is read or written."""
    rounds = 15 if quick else 50
    for name, senders in senders_with_and_without().items():
        for count in (10, 100, 1000, 100_000):
            without, with_it = best_in_turn(
                {sender.token.hex(): timed_many(sender, count) for sender in senders}, rounds
            ).values()
            moved = [PARTICLE.size_bytes + sender.size_bytes for sender in senders]
            ratio = (with_it / moved[1]) / (without / moved[0])
            yield Row(f"{name}, {count} records", ratio, 1.1, "x", group=GROUP)
    for count in (8, 1000):
        odds = {"without": timed_odd(Odd, count), "with": timed_odd(LATER_ODD, count)}
        best = best_in_turn({name: timed for name, (timed, _) in odds.items()}, rounds)
        without, with_it = (best[name] / moved for name, (_, moved) in odds.items())
        yield Row(f"big-endian Odd with {count} numbers", with_it / without, 1.1, "x", group=GROUP)


def timed_many(sender: echo.Format, count: int) -> Callable[[], float]:
    """Nanoseconds for so many particles of a sender, after a check of what they become."""
    loaded = Conversion(sender, PARTICLE).loaded()
    source, target = placed(many(sender, count)), aligned(count * PARTICLE.size_bytes)
    calls = max(1, 100_000 // count)

    def timed() -> float:
        return convert_ns(loaded.addresses["convert_many"], source, target, count, calls=calls, repeats=1)

    timed()
    check(target.tobytes(), count)
    return timed


def timed_odd(cls: type[Any], count: int) -> tuple[Callable[[], float], int]:
    """Nanoseconds for an odd record of a class like it, and how many bytes are read and written."""
    event = odd(count)
    fields: dict[str, Any] = {name: getattr(event, name) for name in Odd.__annotations__}
    if cls is LATER_ODD:
        fields["extra"] = 1.5
    source = placed(echo.encoder(cls, abi="s390x")(cls(**fields)))
    expected = echo.encoder(Odd)(event)
    target = aligned(len(expected))
    loaded = Conversion(echo.format_of(cls, abi="s390x"), echo.format_of(Odd)).loaded()

    def timed() -> float:
        return record_ns(loaded.addresses, source, target, verified=True, calls=10_000, repeats=1)

    timed()
    assert target.tobytes() == expected
    return timed, source.nbytes + target.nbytes
