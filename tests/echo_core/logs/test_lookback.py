"""What is kept until it is wanted, in memory that does not suffice: what a log has of it is in order."""

from __future__ import annotations

import ctypes
import struct
from random import Random
from typing import Any

import pytest

from echo_core._c import logs as c
from echo_core.logs.layout import Kind
from echo_core.logs.salvage import parts_of
from echo_core.logs.scanning import scan
from tests.echo_core.logs.logs import PARTICLE, particles

SIZE = PARTICLE.size_bytes
ATTRIBUTE = "__echo_record_taker_1__"
_TAKE: Any = ctypes.PYFUNCTYPE(
    ctypes.c_int64,
    ctypes.py_object,
    ctypes.c_char_p,
    ctypes.c_ssize_t,
    *[ctypes.c_uint64] * 2,
    ctypes.c_int64,
)


def take(stream: c.LookbackStream, first: int, count: int) -> int:
    """As C code does, which has the first function of the table; how many found no room."""
    pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(getattr(stream, ATTRIBUTE), ATTRIBUTE.encode())
    function = _TAKE(ctypes.c_void_p.from_address(table).value)
    return int(function(stream, particles(count, first).tobytes(), count * SIZE, count, first, 1))


def drained(staging: c.Staging) -> list[tuple[int, int, bool]]:
    """First and last number of each block, and whether it has records."""
    staging.flush()
    found: list[tuple[int, int, bool]] = []
    while (batch := staging.take(1, 0, 1 << 30, True)) is not None:
        data = batch.tobytes()
        batch.done()
        for row in scan(data, 1, start=0, end=len(data), verify=True).rows:
            first, is_gap = int(row["first"]), row["kind"] == Kind.GAP
            last = struct.unpack_from("<Q", data, parts_of(row).payload)[0] if is_gap else 0
            found.append((first, last if is_gap else first + int(row["count"]) - 1, not is_gap))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_finds_no_memory_is_told_in_its_place(seed: int) -> None:
    """Once all is wanted: between what came before it and what comes later, whoever takes it when."""
    chance = Random(seed)
    staging = c.Staging(1 << 21, 0)
    lookback = c.Lookback(3600 * 10**9, 1 << 20)
    stream = lookback.stream(c.Stage(staging, 1, 1, SIZE))
    lookback.trigger()
    number = lost = told = 0
    found: list[tuple[int, int, bool]] = []
    for _ in range(300):
        count = chance.randint(1, 4000)
        if chance.random() < 0.1:
            stream.gap(number, number + count - 1, "told")
            told += count
        else:
            lost += take(stream, number, count)
        number += count
        if chance.random() < 0.2:
            lookback.hand_on()
        if chance.random() < 0.1:
            found += drained(staging)
    while not lookback.hand_on():
        found += drained(staging)
    found += drained(staging)
    assert lost > 0
    behind = 0
    for first, last, _ in found:
        assert first == behind
        behind = last + 1
    assert behind == number
    gaps = sum(last - first + 1 for first, last, has_records in found if not has_records)
    assert gaps == lost + told
