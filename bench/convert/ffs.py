"""Batches of particles from foreign senders, beside FFS, whose conversions are compiled too.

Both are called from C and make a native batch out of the same bytes; FFS checks none of them, we check all.
Where FFS is not to be had, what was measured with it elsewhere stands in: as multiples of memcpy, which
travel better than times.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import echo_core as echo
from bench.convert.ffs_library import Decoder, library
from bench.convert.loops import copy_ns, record_ns
from bench.convert.senders import aligned, placed, with_extra
from bench.report import Row
from bench.timing import best_in_turn
from bench.workload import Batch, Particle, particle
from echo_core.codegen.conversion import Conversion

GOAL = 10  # times faster, from 10 particles on
COUNTS = (1, 10, 100, 1000)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends particles, and how many times memcpy FFS was measured to take for a thousand of them."""

    name: str
    particle: Any
    abi: str
    stated: float


@functools.cache
def _batch_of(particle_: Any) -> Any:
    """`Batch` of a sender's particles."""
    fields: list[Any] = [
        ("step", int),
        ("count", echo.Int32),
        ("particles", echo.Array.__class_getitem__((particle_, "count"))),
    ]
    return dataclasses.make_dataclass("Batch", fields)


SENDERS = (
    Sender("big-endian", Particle, "s390x", 21.0),
    Sender("an extra field at the front", with_extra(Particle), "native", 8.5),
)


def measure(*, quick: bool) -> Iterator[Row]:
    """Ours and FFS's in turn, and memcpy of what they write."""
    rounds = 15 if quick else 50
    for sender in SENDERS:
        for count in COUNTS if library() else COUNTS[-1:]:
            taken = best_in_turn(timed(sender, count), rounds)
            yield _row(sender, count, taken)


def _row(sender: Sender, count: int, taken: dict[str, float]) -> Row:
    ours, copied = taken["ours"], taken["memcpy"]
    if "FFS" in taken:
        group = f"Batch from a foreign sender, beside FFS in the same run: {sender.name}"
        theirs, said = taken["FFS"], f"FFS {taken['FFS'] / copied:.3g}"
    else:
        group = f"Batch from a foreign sender, beside what was stated of FFS: {sender.name}"
        theirs, said = sender.stated * copied, f"FFS {sender.stated:g} as stated, not in this run"
    what = f"{count} particles, {ours / copied:.3g} times memcpy ({said}): faster"
    return Row(what, theirs / ours, GOAL if count >= 10 else None, "x", at_least=True, group=group)


def timed(sender: Sender, count: int) -> dict[str, Callable[[], float]]:
    """Nanoseconds for a batch by us, by memcpy and, where it is there, by FFS; all are checked."""
    record, expected = _records(sender, count)
    loaded = Conversion(
        echo.format_of(_batch_of(sender.particle), abi=sender.abi), echo.format_of(Batch)
    ).loaded()
    source = placed(record)
    target, floor = aligned(len(expected)), aligned(len(expected))
    calls = max(1, 20_000 // count)

    def ours() -> float:
        return record_ns(loaded.addresses, source, target, verified=True, calls=calls, repeats=1)

    def copied() -> float:
        return copy_ns(target, floor, calls=calls, repeats=1)

    ours()
    assert target.tobytes() == expected
    found = {"ours": ours, "memcpy": copied}
    return found | {"FFS": _by_ffs(sender, record, expected, calls)} if library() else found


def _records(sender: Sender, count: int) -> tuple[bytes, bytes]:
    """A batch as its sender lays it out, and as it has to become."""
    events = [particle(i) for i in range(count)]
    sent = [_sent(sender.particle, it) for it in events]
    native: Any = Batch
    batch = _batch_of(sender.particle)
    data = echo.encoder(batch, abi=sender.abi)(batch(7, count, sent))
    return data, echo.encoder(Batch)(native(7, count, events))


def _sent(cls: type[Any], it: Particle) -> Any:
    if cls is Particle:
        return it
    return cls(extra=1.5, **{field.name: getattr(it, field.name) for field in dataclasses.fields(Particle)})


def _by_ffs(sender: Sender, record: bytes, expected: bytes, calls: int) -> Callable[[], float]:
    native = echo.format_of(Particle).dtype
    sent = echo.format_of(sender.particle).dtype  # of this machine's order: the decoder is told of another
    decoder = Decoder(sent, native, record, big=sender.abi == "s390x")
    decoder.nanoseconds(1)
    assert decoder.particles().tolist() == np.frombuffer(expected[24:], native).tolist()
    return lambda: decoder.nanoseconds(calls)
