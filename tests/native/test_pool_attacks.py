"""What a peer may say of a pool, and do to its memory: refused by name, or no harm but to its own."""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import struct

import pytest

from echo_core._c.links import Mapping, Pool
from echo_core.errors import WireError
from tests.native.pools import (
    BLOCK_BYTES,
    BLOCKS,
    DATA_AT,
    GOOD_SEALS,
    GOOD_SIZE,
    HOLDERS,
    HOLDERS_AT,
    STREAM,
    bytes_in,
    lent,
    loan_of,
    memory_file,
    opened,
)

F_SEAL_FUTURE_WRITE = 16  # the module fcntl does not have it


@pytest.mark.parametrize(
    ("block", "size", "words"),
    [
        (BLOCKS, 1, "no such block"),
        (0xFFFFFFFF, 1, "no such block"),
        (2, 0, "size"),
        (2, BLOCK_BYTES * (BLOCKS - 2) + 1, "size"),
        (2, 1 << 63, "size"),
        (2, 0xFFFFFFFFFFFFFFFF, "size"),
        (3, 1, "not lent"),
    ],
)
def test_loan_that_cannot_be_is_refused(pool: Pool, block: int, size: int, words: str) -> None:
    """Nothing is read outside the mapping."""
    mapping = Mapping(pool.fileno(), pool.attach())
    blocks = [loan_of(pool) for _ in range(3)]
    lent(blocks[2], 0)
    with pytest.raises(WireError, match=words):
        mapping.open(struct.pack("=IIQ", STREAM, block, size))
    assert opened(mapping, struct.pack("=IIQ", STREAM, 2, BLOCK_BYTES * (BLOCKS - 2)))


@pytest.mark.parametrize("size", [0, 15, 17, 1000])
def test_frame_of_another_size_is_refused(pool: Pool, size: int) -> None:
    """It has 16 bytes."""
    mapping = Mapping(pool.fileno(), pool.attach())
    with pytest.raises(WireError, match="16 bytes"):
        mapping.open(bytes(size))


def test_noise_in_the_holders_harms_the_content_alone(pool: Pool) -> None:
    """A pool whose readers set and clear what they like goes on; what it has lent in here stays its own."""
    source = random.Random(11)
    holder = pool.attach()
    memory = mmap.mmap(pool.fileno(), os.fstat(pool.fileno()).st_size)
    kept = loan_of(pool)
    bytes_in(kept)[:] = 1
    for _ in range(2000):
        place = source.randrange(0, HOLDERS_AT + 64 * BLOCKS)
        memory[place] = source.randrange(256)
        block = pool.loan(source.randrange(1, 3 * BLOCK_BYTES))
        if block is not None:
            bytes_in(block)[:] = 2
            block.lend(holder, STREAM)
        assert 1 <= pool.used <= BLOCKS
        del block
    assert bytes_in(kept).sum() == BLOCK_BYTES
    pool.detach(holder)
    assert pool.used == 1
    memory.close()


def test_who_has_the_memory_can_seal_it_against_nobody(pool: Pool) -> None:
    """Sealed against writing it could not be mapped by the next reader."""
    received = os.dup(pool.fileno())
    with pytest.raises(PermissionError):
        fcntl.fcntl(received, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE)
    os.close(received)
    assert Mapping(pool.fileno(), pool.attach())


@pytest.mark.parametrize(
    ("size", "seals", "words"),
    [
        (GOOD_SIZE, 0, "not sealed"),
        (GOOD_SIZE, fcntl.F_SEAL_SHRINK, "not sealed"),
        (GOOD_SIZE, fcntl.F_SEAL_GROW, "not sealed"),
        (0, GOOD_SEALS, "too small"),
        (DATA_AT - 1, GOOD_SEALS, "too small"),
        (DATA_AT, GOOD_SEALS, "size"),
        (GOOD_SIZE - 1, GOOD_SEALS, "size"),
        (GOOD_SIZE + 1, GOOD_SEALS, "size"),
    ],
)
def test_memory_of_another_shape_is_refused(size: int, seals: int, words: str) -> None:
    """Before anything in it is used."""
    fd = memory_file(size, seals)
    with pytest.raises(WireError, match=words):
        Mapping(fd, 0)
    os.close(fd)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, b"E", "begin"),
        (8, b"\2", "version"),
        (12, b"\0", "size"),
        (12, b"\xff\xff\xff\xff", "size"),
        (16, b"\1", "size"),
        (23, b"\x80", "size"),
    ],
)
def test_memory_that_begins_otherwise_is_refused(place: int, value: bytes, words: str) -> None:
    """Another magic number, version, number or size of blocks."""
    fd = memory_file(GOOD_SIZE, GOOD_SEALS)
    assert Mapping(fd, 0)
    os.pwrite(fd, value, place)
    with pytest.raises(WireError, match=words):
        Mapping(fd, 0)
    os.close(fd)


def test_peer_cannot_change_the_shape_later(pool: Pool) -> None:
    """The header is read once."""
    mapping = Mapping(pool.fileno(), pool.attach())
    memory = mmap.mmap(pool.fileno(), os.fstat(pool.fileno()).st_size)
    memory[12:24] = b"\xff" * 12
    with pytest.raises(WireError, match="no such block"):
        mapping.open(struct.pack("=IIQ", STREAM, BLOCKS, 1))
    memory.close()


@pytest.mark.parametrize("holder", [HOLDERS, 64, 1 << 20])
def test_holder_beyond_the_mask_is_refused(pool: Pool, holder: int) -> None:
    """There are 63."""
    with pytest.raises(WireError, match="below 63"):
        Mapping(pool.fileno(), holder)
