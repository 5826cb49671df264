"""Conversions as calls from Python, beside memcpy and numpy doing the same; what each makes is checked.

It needs nothing but the public names of `echo_core`, so it also measures other commits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import echo_core as echo
from bench.convert.senders import PARTICLE, aligned, check, many, particles
from bench.timing import Call
from bench.workload import Particle


@echo.event
class Doubles:
    """What array codes send."""

    values: echo.Array[echo.Float64, ...]


@echo.event
class Floats:
    """The same in single precision."""

    values: echo.Array[echo.Float32, ...]


ARRAYS = ((Doubles, "f8"), (Floats, "f4"))
ARRAY_KIB = (16, 256, 4096)


def record_calls(sender: echo.Format, count: int) -> dict[str, Call]:
    """So many records as a call from Python, into room that is there; each is checked."""
    convert = echo.converter(sender, PARTICLE, tier="compiled")
    data = many(sender, count)
    ours, floor, theirs = (aligned(count * PARTICLE.size_bytes) for _ in range(3))
    into, source = theirs.view(PARTICLE.dtype), np.frombuffer(data, sender.dtype)
    pairs = [(into[name], source[name]) for name in PARTICLE.dtype.names or ()]
    calls: dict[str, Call] = {
        "ours": (convert, data, ours),
        "memcpy": (np.copyto, floor, ours),
        "numpy": (_copy_fields, pairs),
    }
    for function, *arguments in calls.values():
        function(*arguments)
    for made in (ours, floor, theirs):
        check(made.tobytes(), count)
    return calls


def _copy_fields(pairs: list[tuple[Any, Any]]) -> None:
    """numpy's astype would make a new array, and goes by position."""
    for into, source in pairs:
        np.copyto(into, source)


def array_calls(cls: type[Any], dtype: str, kib: int) -> dict[str, Call]:
    """One array by us, by memcpy and by numpy, into room that is there; each is checked."""
    convert = echo.converter(echo.format_of(cls, abi="s390x"), echo.format_of(cls), tier="compiled")
    values = np.arange(kib * 1024 // int(dtype[1]), dtype=dtype)
    data = echo.encoder(cls, abi="s390x")(cls(values))
    source, swapped, native = np.frombuffer(data, np.uint8), values.astype(f">{dtype}"), np.zeros_like(values)
    target, floor = np.zeros(len(data), np.uint8), np.zeros(len(data), np.uint8)
    calls: dict[str, Call] = {
        "ours": (convert, data, target),
        "memcpy": (np.copyto, floor, source),
        "numpy": (np.copyto, native, swapped),
    }
    for function, *arguments in calls.values():
        function(*arguments)
    assert target.tobytes() == echo.encoder(cls)(cls(values))
    assert floor.tobytes() == data
    assert np.array_equal(native, values)
    return calls


def one_record_calls() -> dict[str, Call]:
    """One record, the whole call from Python, beside one that does nothing; each is checked."""
    sender = echo.format_of(Particle, abi="s390x")
    convert = echo.converter(sender, PARTICLE, tier="compiled")
    data, target = many(sender, 1), bytearray(96)

    def by_numpy(data: bytes) -> Any:
        return np.frombuffer(data, sender.dtype).astype(PARTICLE.dtype)

    convert(data, target)
    check(bytes(target), 1)
    assert by_numpy(data).tolist() == particles()[:1].tolist()
    return {"empty": (callable, data), "ours": (convert, data, target), "numpy": (by_numpy, data)}


def view_calls() -> dict[str, Call]:
    """A sender of the same layout is not converted at all: records in two sizes."""
    decode = echo.array_decoder(Particle)
    small, large = particles().tobytes(), particles().tobytes() * 1000
    assert decode(large).shape == (1_000_000,)
    assert np.shares_memory(decode(large), np.frombuffer(large, np.uint8))
    return {"1000": (decode, small), "1000000": (decode, large)}
