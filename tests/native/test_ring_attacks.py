"""What a peer may do to the memory of rings: nothing leads astray, and what cannot be is refused by name."""

from __future__ import annotations

import errno
import fcntl
import os
import random

import pytest

from echo_core._c.links import RingWire, ring_memory
from echo_core.errors import WireError
from tests.native.link_ends import PATIENCE_NS
from tests.native.rings import (
    DIRECTION_BYTES,
    DIRECTIONS,
    GOOD_SEALS,
    GOOD_SIZE,
    RING_BYTES,
    SHUT,
    TAKEN,
    WRITTEN,
    Sides,
    memory_file,
    place_of,
    put_number,
    sides,
)

IMPOSSIBLE = pytest.mark.parametrize("change", [1 << 63, RING_BYTES + 1, -1, -5, 1 << 32])


@IMPOSSIBLE
def test_reader_refuses_a_count_that_cannot_be(pair: Sides, change: int) -> None:
    """More bytes than the ring holds, or fewer than there were."""
    one, other, memory = pair
    one.write(b"12345")
    assert other.read(1) == b"1"
    put_number(memory, place_of(0, WRITTEN), 5 + change)
    with pytest.raises(OSError, match=os.strerror(errno.EPROTO)):
        other.read(1, PATIENCE_NS)


@IMPOSSIBLE
def test_writer_refuses_a_count_that_cannot_be(pair: Sides, change: int) -> None:
    """More bytes taken than were written, or fewer than there were."""
    one, other, memory = pair
    one.write(b"12345")
    assert other.read(5) == b"12345"
    assert one.write(bytes(2 * RING_BYTES)) == RING_BYTES
    put_number(memory, place_of(0, TAKEN), 5 + change)
    with pytest.raises(OSError, match=os.strerror(errno.EPROTO)):
        one.write(b"x")


def test_noise_in_the_memory_harms_nobody() -> None:
    """Every word of the header, at random, between reads and writes: bytes or a named error."""
    source = random.Random(7)
    for _ in range(300):
        one, other, memory = sides()
        for _ in range(20):
            place = source.randrange(24, DIRECTIONS + 2 * DIRECTION_BYTES, 4)
            put_number(memory, place, source.choice([0, 1, source.getrandbits(32)]), 4)
            for wire in (one, other):
                try:
                    wire.write(bytes(source.randrange(1, 6000)))
                    wire.read(6000, 1000)
                    wire.await_bytes(1000)
                    wire.await_room(1000)
                except OSError as error:
                    assert error.errno in (errno.EPROTO, errno.EPIPE, errno.EAGAIN)  # noqa: PT017
        one.close()
        other.close()
        memory.close()


def test_peer_cannot_take_its_end_back(pair: Sides) -> None:
    """What has ended for a reader has ended."""
    one, other, memory = pair
    other.shut()
    assert one.read(1) == b""
    put_number(memory, SHUT + 4, 0, 4)
    assert one.read(1, PATIENCE_NS) == b""


@pytest.mark.parametrize(
    ("size", "seals", "words"),
    [
        (GOOD_SIZE, 0, "not sealed"),
        (GOOD_SIZE, fcntl.F_SEAL_SHRINK, "not sealed"),
        (GOOD_SIZE, fcntl.F_SEAL_GROW, "not sealed"),
        (0, GOOD_SEALS, "too small"),
        (65535, GOOD_SEALS, "too small"),
        (65536, GOOD_SEALS, "size"),
        (GOOD_SIZE - 1, GOOD_SEALS, "size"),
        (GOOD_SIZE + 1, GOOD_SEALS, "size"),
    ],
)
def test_memory_of_another_shape_is_refused(size: int, seals: int, words: str) -> None:
    """Before anything in it is used: what is not sealed could be cut off under its readers."""
    fd = memory_file(size, seals)
    with pytest.raises(WireError, match=words):
        RingWire(fd, 1)
    os.close(fd)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, b"E", "begin"),
        (8, b"\1", "version"),
        (16, b"\1", "size"),
        (17, b"\x20", "size"),
        (23, b"\x80", "size"),
    ],
)
def test_memory_that_begins_otherwise_is_refused(place: int, value: bytes, words: str) -> None:
    """Another magic number, version or ring size."""
    fd = memory_file(GOOD_SIZE, GOOD_SEALS)
    RingWire(fd, 1).close()
    assert os.pread(fd, 1, place) != value
    os.pwrite(fd, value, place)
    with pytest.raises(WireError, match=words):
        RingWire(fd, 1)
    os.close(fd)


def test_what_is_no_memory_is_refused() -> None:
    """A file, a pipe, a descriptor that is closed."""
    with open(__file__, "rb") as file, pytest.raises(WireError, match="sealed"):
        RingWire(file.fileno(), 0)
    reader, writer = os.pipe()
    os.close(writer)
    with pytest.raises(WireError, match="sealed"):
        RingWire(reader, 0)
    os.close(reader)
    with pytest.raises(WireError, match="sealed"):
        RingWire(-1, 0)


@pytest.mark.parametrize("ring_bytes", [0, 1, 2048, 4095, 4097, 6144, (1 << 30) + 1, 1 << 31, 1 << 63])
def test_ring_has_a_power_of_two(ring_bytes: int) -> None:
    """Neither too small nor too large."""
    with pytest.raises(ValueError, match="power of two"):
        ring_memory(ring_bytes)


@pytest.mark.parametrize(("side", "spin_ns"), [(2, 0), (-1, 0), (0, -1)])
def test_arguments_are_checked(side: int, spin_ns: int) -> None:
    """There are two sides, and no negative time."""
    fd = ring_memory(RING_BYTES)
    with pytest.raises(ValueError, match="side 0 or 1"):
        RingWire(fd, side, spin_ns=spin_ns)
    os.close(fd)
