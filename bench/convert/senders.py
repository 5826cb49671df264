"""Who sends: foreign layouts of the workload, and their records."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import echo_core as echo
from bench.workload import Odd, Particle, particle

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

PARTICLE = echo.format_of(Particle)


def senders() -> dict[str, tuple[echo.Format, float, float]]:
    """Foreign layouts of Particle, with the goals in cache and beyond: how many times memcpy."""
    return {
        "big-endian": (echo.format_of(Particle, abi="s390x"), 1.5, 1.1),
        "32-bit, widened": (echo.Format.from_c(ILP32, abi="i386"), 1.5, 1.1),
        "32-bit big-endian, widened": (echo.Format.from_c(ILP32, abi="ppc"), 1.5, 1.1),
        "extra and reordered fields": (echo.Format.from_c(EXTRA_AND_REORDERED), 1.75, 1.5),
    }


def senders_with_and_without() -> dict[str, tuple[echo.Format, echo.Format]]:
    """Foreign layouts of Particle, and the same with a field at the front that nobody here knows."""
    wider = ILP32.replace("long id", "double extra; long id")
    return {
        "big-endian": (
            echo.format_of(Particle, abi="s390x"),
            echo.format_of(with_extra(Particle), abi="s390x"),
        ),
        "32-bit big-endian, widened": (
            echo.Format.from_c(ILP32, abi="ppc"),
            echo.Format.from_c(wider, abi="ppc"),
        ),
    }


def with_extra(cls: type[Any]) -> type[Any]:
    """The class as a later version has it: every field stands 8 bytes further on."""
    annotations = [(field.name, cls.__annotations__[field.name]) for field in dataclasses.fields(cls)]
    return dataclasses.make_dataclass(cls.__name__, [("extra", float), *annotations])


def stranger(cls: type[Any], run: int) -> tuple[echo.Format, echo.Format]:
    """A big-endian sender that nobody has met: it has a field of its own."""
    fields = [(f.name, cls.__annotations__[f.name]) for f in dataclasses.fields(cls)]
    fresh = dataclasses.make_dataclass(cls.__name__, [*fields, (f"extra{run}", float)])
    fresh.__module__ = cls.__module__
    return echo.format_of(fresh, abi="s390x"), echo.format_of(cls)


def particles() -> np.ndarray[Any, Any]:
    """A thousand particles as native records."""
    data = echo.codec(Particle, tier="compiled").encode_many([particle(i) for i in range(1000)])
    return np.frombuffer(data, PARTICLE.dtype)


def many(sender: echo.Format, count: int) -> bytes:
    """So many records of a sender: a thousand different ones, over and over."""
    native = particles()
    rows = np.zeros(len(native), sender.dtype)
    for name in native.dtype.names or ():
        rows[name] = native[name]
    whole, rest = divmod(count, len(rows))
    return rows.tobytes() * whole + rows[:rest].tobytes()


def check(converted: bytes, count: int) -> None:
    """Every value is the one that the sender meant."""
    native = particles().tobytes()
    whole, rest = divmod(count, 1000)
    assert converted == native * whole + native[: rest * PARTICLE.size_bytes]


def odd(count: int) -> Odd:
    """An odd record with so many numbers, and half as long a text."""
    values = np.arange(count, dtype=np.float32)
    return Odd(c="c", l=-2, d=0.5, ll=2**40, s=-3, text="text" * (count // 8), n=count, values=values)


def aligned(size: int) -> np.ndarray[Any, Any]:
    """Room on a cache line of its own: memcpy is twice as fast or slow by where its ends lie."""
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size]


def rows(count: int, size: int) -> np.ndarray[Any, Any]:
    """So many of such rooms."""
    return aligned(count * (size + 63 & ~63)).reshape(count, -1)[:, :size]


def placed(data: bytes) -> np.ndarray[Any, Any]:
    """The bytes in such a room."""
    room = aligned(len(data))
    room[:] = np.frombuffer(data, np.uint8)
    return room
