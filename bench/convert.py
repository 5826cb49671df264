"""Conversions from foreign layouts, beside memcpy of the same bytes and numpy doing the same."""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from typing import Any

import numpy as np

import echo_core as echo
from bench.loops import convert_ns, copy_ns
from bench.report import Row
from bench.workload import Particle, particle
from echo_core.codegen.conversion import Conversion

ILP32 = """
struct Particle {
    long id; double x, y, z; float vx, vy, vz, temp; int cell; short kind; unsigned char flags; _Bool active;
    double mass, charge; char tag[16]; unsigned owner;
};
"""
EXTRA_AND_REORDERED = """
struct Particle {
    double charge, mass; long long extra1; char tag[16]; long long id; float temp, vz, vy, vx; double extra2;
    double z, y, x; unsigned owner; int cell; short kind; unsigned char flags; _Bool active; double extra3;
};
"""
DTYPE = echo.format_of(Particle).dtype
IN_CACHE, IN_MEMORY = (10, 100, 1000), (100_000, 1_000_000)


def senders() -> dict[str, tuple[echo.Format, float, float]]:
    """Foreign layouts of Particle, with the goals in cache and beyond: how many times memcpy."""
    return {
        "big-endian": (echo.format_of(Particle, abi="s390x"), 1.5, 1.1),
        "32-bit, widened": (echo.Format.from_c(ILP32, abi="i386"), 1.5, 1.1),
        "32-bit big-endian, widened": (echo.Format.from_c(ILP32, abi="ppc"), 1.5, 1.1),
        "extra and reordered fields": (echo.Format.from_c(EXTRA_AND_REORDERED), 1.75, 1.5),
    }


def measure(*, quick: bool) -> list[Row]:
    """All figures of the table "Conversion"."""
    return [*_records(quick), *_arrays(quick), *_calls(quick), *_views(quick)]


def _records(quick: bool) -> Iterator[Row]:
    receiver = echo.format_of(Particle)
    for name, (sender, cached, beyond) in senders().items():
        conversion = Conversion(sender, receiver)
        loaded = conversion.loaded()  # holds the code
        address = loaded.addresses["convert_many"]
        for count in IN_CACHE + IN_MEMORY[: 1 if quick else 2]:
            data = _many(sender, count)
            source, target, floor = (
                aligned(size) for size in (len(data), *[count * receiver.size_bytes] * 2)
            )
            source[:] = np.frombuffer(data, np.uint8)
            calls = max(1, 100_000 // count)
            repeats = 5 if quick else 15
            taken = convert_ns(address, source, target, count, calls=calls, repeats=repeats)
            _check(target.tobytes(), count)
            copied = copy_ns(target, floor, calls=calls, repeats=repeats)
            goal = cached if count in IN_CACHE else beyond
            yield Row(f"{name}, {count} records", taken / copied, goal, "x memcpy")


def aligned(size: int) -> np.ndarray[Any, Any]:
    """Room on a cache line of its own: memcpy is twice as fast or slow by where its ends lie."""
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size]


def _many(sender: echo.Format, count: int) -> bytes:
    """So many records of a sender: a thousand different ones, over and over."""
    native = particles()
    rows = np.zeros(len(native), sender.dtype)
    for name in native.dtype.names or ():
        rows[name] = native[name]
    whole, rest = divmod(count, len(rows))
    return rows.tobytes() * whole + rows[:rest].tobytes()


def particles() -> np.ndarray[Any, Any]:
    """A thousand particles as native records."""
    data = echo.codec(Particle, tier="compiled").encode_many([particle(i) for i in range(1000)])
    return np.frombuffer(data, echo.format_of(Particle).dtype)


def _check(converted: bytes, count: int) -> None:
    """Every value is the one that the sender meant."""
    native = particles().tobytes()
    whole, rest = divmod(count, 1000)
    assert converted == native * whole + native[: rest * echo.format_of(Particle).size_bytes]


@echo.event
class Doubles:
    """What array codes send."""

    values: echo.Array[echo.Float64, ...]


@echo.event
class Floats:
    """The same in single precision."""

    values: echo.Array[echo.Float32, ...]


def _arrays(quick: bool) -> Iterator[Row]:
    """Swapped arrays of numbers: the call from C, with its slot, as a conversion makes it."""
    for cls, dtype in ((Doubles, "f8"), (Floats, "f4")):
        conversion = Conversion(echo.format_of(cls, abi="s390x"), echo.format_of(cls))
        convert = echo.converter(conversion.sender, conversion.receiver, tier="compiled")
        encode = echo.encoder(cls, abi="s390x")
        for kib in (16, 256, 4096):
            values = np.arange(kib * 1024 // int(dtype[1]), dtype=dtype)
            data = encode(cls(values))
            target = np.zeros(len(data), np.uint8)
            floor = np.zeros(len(data), np.uint8)
            source = np.frombuffer(data, np.uint8)
            assert convert(data) == echo.encoder(cls)(cls(values))
            calls, repeat = max(1, 20_000 // kib), 5 if quick else 15
            taken = _best("f(x, y)", calls, repeat, f=convert, x=data, y=target)
            copied = _best("f(x, y)", calls, repeat, f=np.copyto, x=floor, y=source)
            yield Row(f"swapped {dtype}[], {kib} KiB, from Python", taken / copied, 1.1, "x memcpy")


def _calls(quick: bool) -> Iterator[Row]:
    """One record, the whole call from Python."""
    sender = echo.format_of(Particle, abi="s390x")
    convert = echo.converter(sender, echo.format_of(Particle), tier="compiled")
    data, target = _many(sender, 1), bytearray(96)
    convert(data, target)
    _check(bytes(target), 1)
    number, repeat = (20_000, 5) if quick else (200_000, 15)

    empty = _best("f(x)", number, repeat, f=callable, x=data)  # makes nothing
    whole = _best("f(x, y)", number, repeat, f=convert, x=data, y=target)
    by_numpy = _best("f(x, d).astype(t)", number, repeat, f=np.frombuffer, x=data, d=sender.dtype, t=DTYPE)
    yield Row("one record, call from Python over an empty call", 1e9 * (whole - empty), 40, "ns")
    yield Row("one record, faster than numpy", by_numpy / whole, 50, "x", at_least=True)


def _best(call: str, number: int, repeat: int, **names: object) -> float:
    """Seconds for one call."""
    return min(timeit.repeat(call, globals=names, number=number, repeat=repeat)) / number


def _views(quick: bool) -> Iterator[Row]:
    """A sender of the same layout is not converted at all."""
    decode = echo.array_decoder(Particle)
    small, large = particles().tobytes(), particles().tobytes() * 1000
    assert decode(large).shape == (1_000_000,)
    calls, repeat = 1000, 5 if quick else 15
    times = [_best("f(x)", calls, repeat, f=decode, x=data) for data in (small, large)]
    yield Row("same layout, a million records over a thousand", times[1] / times[0], 1.5, "x")
