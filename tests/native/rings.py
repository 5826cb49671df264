"""Rings for tests, and their memory as a hostile peer would have it."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys

from echo_core._c import native
from echo_core._c.links import RingWire, ring_memory

_LAYOUT = native.ffi.new("struct echo_ring_layout *")
native.lib.echo_native_ring_layout(_LAYOUT)
_LIMITS = native.ffi.new("struct echo_limits *")
native.lib.echo_native_limits(_LIMITS)

RING_BYTES = _LIMITS.min_ring_bytes

# Where the memory has what a peer could change.
SHUT = _LAYOUT.shut
DIRECTIONS = _LAYOUT.directions
DIRECTION_BYTES = _LAYOUT.direction_bytes
WRITTEN, TAKEN = _LAYOUT.written, _LAYOUT.taken
BYTES_SIGNAL, ROOM_SIGNAL = _LAYOUT.bytes_signal, _LAYOUT.room_signal

Sides = tuple[RingWire, RingWire, mmap.mmap]


def sides(spin_ns: int = 0) -> Sides:
    """Both sides of new rings, and the memory as a hostile peer would have it."""
    fd = ring_memory(RING_BYTES)
    try:
        size = os.fstat(fd).st_size
        return RingWire(fd, 0, spin_ns=spin_ns), RingWire(fd, 1, spin_ns=spin_ns), mmap.mmap(fd, size)
    finally:
        os.close(fd)


def place_of(side: int, field: int) -> int:
    """Where a field of the direction that `side` writes stands."""
    return DIRECTIONS + side * DIRECTION_BYTES + field


def number_at(memory: mmap.mmap, place: int, size: int = 8) -> int:
    """A number in the memory."""
    return int.from_bytes(memory[place : place + size], sys.byteorder)


def put_number(memory: mmap.mmap, place: int, number: int, size: int = 8) -> None:
    """As a hostile peer would."""
    memory[place : place + size] = (number % (1 << 8 * size)).to_bytes(size, sys.byteorder)


def await_sleeper(memory: mmap.mmap, side: int, field: int) -> None:
    """Returns when somebody sleeps, or is about to."""
    while number_at(memory, place_of(side, field), 4) & 1 == 0:
        os.sched_yield()


def memory_file(size: int, seals: int) -> int:
    """Memory of a peer's making that begins as rings do."""
    fd = os.memfd_create("rings", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    model = ring_memory(RING_BYTES)
    os.pwrite(fd, os.pread(model, 64, 0), 0)
    os.close(model)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


GOOD_SIZE = _LAYOUT.rings + 2 * RING_BYTES
GOOD_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
