"""Blocks that other processes read in place: who has one keeps it, and a peer that is gone keeps none."""

from __future__ import annotations

import fcntl
import gc
import mmap
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_core._links import Block, Loan, Mapping, Pool, RingWire, ring_memory
from echo_core.errors import ClosedError, WireError

BLOCK_BYTES = 16384
BLOCKS = 8
STREAM = 64
HOLDERS = 63
PATIENCE_NS = 30_000_000_000
ROOT = Path(__file__).parents[2]

# Where native/link_pool.h has what a peer could change.
HOLDERS_AT = 128
DATA_AT = 65536


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Of eight blocks."""
    pool = Pool(block_bytes=BLOCK_BYTES, blocks=BLOCKS)
    yield pool
    pool.close()


def bytes_in(buffer: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A view, which keeps the buffer."""
    return np.frombuffer(buffer, dtype=np.uint8)


def loan_of(pool: Pool, size: int = BLOCK_BYTES) -> Block:
    """One that must be there."""
    block = pool.loan(size)
    assert block is not None
    return block


def lent(block: Block, holder: int) -> bytes:
    """The frame's payload, which must be there."""
    payload = block.lend(holder, STREAM)
    assert payload is not None
    return payload


def opened(mapping: Mapping, payload: bytes) -> Loan:
    """What a frame refers to."""
    stream, loan = mapping.open(payload)
    assert stream == STREAM
    return loan


READER = """
import numpy as np
from echo_core._links import Mapping, RingWire
wire, held = RingWire({ring}, 1), []
mapping = Mapping({pool}, wire.read(1)[0])
while payload := wire.read(16):
    if payload == bytes(16):
        held.clear()
        wire.write(bytes(8))
        continue
    held.append(np.frombuffer(mapping.open(payload)[1], dtype=np.uint8))
    wire.write(int(held[-1].sum()).to_bytes(8, "little"))
    del payload
del mapping, held
"""


class Reader:
    """A process that opens what it is told of, says the sum of the bytes, and holds it until `forget`."""

    def __init__(self, pool: Pool) -> None:
        ring = ring_memory(4096)
        self.wire = RingWire(ring, 0)
        text = READER.format(ring=ring, pool=pool.fileno())
        command = [sys.executable, "-c", text]
        self.process = subprocess.Popen(command, cwd=ROOT, pass_fds=[ring, pool.fileno()])
        os.close(ring)
        process_fd = os.pidfd_open(self.process.pid)
        self.holder = pool.attach(process_fd)
        os.close(process_fd)
        self.wire.write(bytes([self.holder]))

    def see(self, payload: bytes) -> int:
        """The sum of the bytes that the reader sees."""
        self.wire.write(payload)
        return int.from_bytes(self.wire.read(8, PATIENCE_NS), "little")

    def forget(self) -> None:
        """All that the reader holds is given back when this returns."""
        assert self.see(bytes(16)) == 0

    def leave(self) -> None:
        """The process ends by itself."""
        self.wire.close()
        assert self.process.wait(30) == 0

    def kill(self) -> None:
        """The process ends without a word."""
        self.process.kill()
        self.process.wait()
        self.wire.close()


# --- the owner's side ---


def test_loan_is_a_writable_buffer_of_its_size(pool: Pool) -> None:
    """At the start of a page."""
    for size in (1, 100, BLOCK_BYTES, BLOCK_BYTES + 1, BLOCK_BYTES * BLOCKS):
        view = bytes_in(loan_of(pool, size))
        assert view.nbytes == size
        assert view.flags.writeable
        assert view.ctypes.data % mmap.PAGESIZE == 0
        view[:] = 1
        del view


def test_block_is_used_as_long_as_a_view_lives(pool: Pool) -> None:
    """Of the Block itself, or of a part of it."""
    view = bytes_in(loan_of(pool))
    part = view[10:20]
    assert pool.used == 1
    del view
    assert pool.used == 1
    del part
    assert pool.used == 0


def test_blocks_do_not_overlap(pool: Pool) -> None:
    """Whatever the order in which they are taken and given back."""
    source = random.Random(3)
    views: list[tuple[int, np.ndarray[Any, np.dtype[np.uint8]]]] = []
    for turn in range(2000):
        block = pool.loan(source.randrange(1, 3 * BLOCK_BYTES))
        if block is None or source.random() < 0.3:
            del block
            mark, view = views.pop(source.randrange(len(views))) if views else (0, np.zeros(1, np.uint8))
            assert (view == mark).all()
            del view
            continue
        bytes_in(block)[:] = turn % 256
        views.append((turn % 256, bytes_in(block)))
        del block
    assert all((view == mark).all() for mark, view in views)


def test_exhausted_pool_gives_none(pool: Pool) -> None:
    """Until a block is free, or so many side by side."""
    blocks: list[Block | None] = [loan_of(pool) for _ in range(BLOCKS)]
    assert pool.used == pool.blocks == BLOCKS
    assert pool.loan(1) is None
    assert pool.place(bytes(BLOCK_BYTES)) is None
    blocks[2] = blocks[4] = None
    assert pool.loan(BLOCK_BYTES + 1) is None
    blocks[3] = None
    block = loan_of(pool, 3 * BLOCK_BYTES)
    assert pool.used == BLOCKS
    del block
    assert pool.used == BLOCKS - 3
    assert pool.loan(BLOCKS * BLOCK_BYTES + 1) is None


@pytest.mark.parametrize("size", [0, -1])
def test_loan_has_a_size(pool: Pool, size: int) -> None:
    """Nothing cannot be lent."""
    with pytest.raises(ValueError, match="above 0"):
        pool.loan(size)


def test_place_copies_once(pool: Pool) -> None:
    """What begins a block is that block; all else is copied, unless it is small."""
    block = loan_of(pool)
    view = bytes_in(block)
    assert pool.place(block) is block
    assert pool.place(view[:100]) is block
    other = pool.place(view[0:].copy())
    assert other is not None
    assert other is not block
    shifted = pool.place(bytes_in(loan_of(pool, 2 * BLOCK_BYTES))[8 : BLOCK_BYTES + 8])
    assert shifted is not None
    assert pool.place(bytes(100)) is None
    del shifted, other
    for size in (BLOCK_BYTES, BLOCK_BYTES * 4):
        data = random.Random(size).randbytes(size)
        copy = pool.place(data)
        assert copy is not None
        assert bytes(copy) == data
        del copy


def test_closed_pool_lends_no_more(pool: Pool) -> None:
    """What is lent stays."""
    block = loan_of(pool)
    bytes_in(block)[:] = 5
    pool.close()
    pool.close()
    assert pool.loan(1) is None
    assert pool.place(bytes(BLOCK_BYTES)) is None
    with pytest.raises(ClosedError, match="pool is closed"):
        pool.fileno()
    del pool
    assert bytes_in(block).sum() == 5 * BLOCK_BYTES


@pytest.mark.parametrize(
    ("block_bytes", "blocks"),
    [
        (0, 1),
        (4095, 1),
        (4097, 1),
        (-4096, 1),
        (4096, 0),
        (4096, -1),
        (4096, 65537),
        (1 << 40, 2),
        (1 << 62, 4),
    ],
)
def test_pool_has_a_shape(block_bytes: int, blocks: int) -> None:
    """Whole pages, and not too many."""
    with pytest.raises(ValueError, match="Expected at most"):
        Pool(block_bytes=block_bytes, blocks=blocks)


def test_memory_is_touched_only_when_it_is_used() -> None:
    """A pool may be much larger than what is ever lent."""
    pool = Pool(block_bytes=1 << 20, blocks=4096)
    bytes_in(loan_of(pool))[:] = 1
    assert os.fstat(pool.fileno()).st_blocks * 512 < 1 << 20
    pool.close()


def test_forked_child_takes_no_block(pool: Pool) -> None:
    """The parent does not know of it."""
    process = os.fork()
    if process == 0:
        os._exit(0 if pool.loan(1) is None else 1)
    assert os.waitpid(process, 0)[1] == 0


# --- holders ---


def test_holders_are_given_out_and_used_again(pool: Pool) -> None:
    """A bit for each."""
    assert [pool.attach() for _ in range(HOLDERS)] == list(range(HOLDERS))
    assert pool.attach() == -1
    pool.detach(7)
    assert pool.attach() == 7


@pytest.mark.parametrize("holder", [-1, 1, HOLDERS, 1 << 20])
def test_holder_that_is_not_attached_is_refused(pool: Pool, holder: int) -> None:
    """By detach; and nothing is lent to it."""
    pool.attach()
    with pytest.raises(ValueError, match="attached"):
        pool.detach(holder)
    if holder == 1:
        assert loan_of(pool).lend(holder, STREAM) is None


def test_block_is_lent_once_to_each_holder(pool: Pool) -> None:
    """Who gives back one of two would free the other."""
    holders = [pool.attach(), pool.attach()]
    block = loan_of(pool)
    assert lent(block, holders[0])
    assert block.lend(holders[0], STREAM) is None
    assert lent(block, holders[1])


def test_frame_that_is_not_sent_is_taken_back(pool: Pool) -> None:
    """For its holder alone."""
    holders = [pool.attach(), pool.attach()]
    block = loan_of(pool)
    payloads = [lent(block, holder) for holder in holders]
    del block
    pool.take_back(holders[0], payloads[0])
    assert pool.used == 1
    pool.take_back(holders[1], payloads[1])
    assert pool.used == 0


def test_holder_has_half_of_the_pool_at_most(pool: Pool) -> None:
    """One that gives nothing back leaves the rest to the others; one that does goes on."""
    slow, other = pool.attach(), pool.attach()
    mapping = Mapping(pool.fileno(), slow)
    payloads = [lent(loan_of(pool, 2 * BLOCK_BYTES), slow) for _ in range(2)]
    assert loan_of(pool).lend(slow, STREAM) is None
    assert lent(loan_of(pool), other)
    opened(mapping, payloads[0])
    assert lent(loan_of(pool), slow)


def test_holder_of_nothing_may_have_a_large_loan(pool: Pool) -> None:
    """Even if it is the whole pool."""
    assert lent(loan_of(pool, BLOCKS * BLOCK_BYTES), pool.attach())


# --- readers ---


def test_several_processes_read_in_place(pool: Pool) -> None:
    """The block is free when the last of them has given it back."""
    readers = [Reader(pool) for _ in range(3)]
    for turn in range(1, 20):
        block = loan_of(pool, BLOCK_BYTES * 2 - 5)
        bytes_in(block)[:] = turn
        payloads = [lent(block, reader.holder) for reader in readers]
        del block
        for reader, payload in zip(readers, payloads, strict=True):
            assert reader.see(payload) == turn * (BLOCK_BYTES * 2 - 5)
        for reader in readers:
            assert pool.used == 2
            reader.forget()
        assert pool.used == 0
    for reader in readers:
        reader.leave()


def test_reader_sees_what_is_written_later(pool: Pool) -> None:
    """It is the same memory, not a copy."""
    mapping = Mapping(pool.fileno(), pool.attach())
    block = loan_of(pool)
    view = bytes_in(opened(mapping, lent(block, 0)))
    bytes_in(block)[17] = 3
    assert view[17] == 3


def test_reader_cannot_write(pool: Pool) -> None:
    """Not even around the buffer: the mapping is read-only."""
    mapping = Mapping(pool.fileno(), pool.attach())
    loan = opened(mapping, lent(loan_of(pool), 0))
    address = bytes_in(loan).ctypes.data
    assert not bytes_in(loan).flags.writeable
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, permissions = line.split()[:2]
        first, end = (int(part, 16) for part in extent.split("-"))
        if first <= address < end:
            assert permissions == "r--s"


def test_views_outlive_their_mapping(pool: Pool) -> None:
    """And are given back all the same."""
    mapping = Mapping(pool.fileno(), pool.attach())
    block = loan_of(pool)
    bytes_in(block)[:] = 9
    view = bytes_in(opened(mapping, lent(block, 0)))[5:]
    del mapping, block
    gc.collect()
    assert view.sum() == 9 * (BLOCK_BYTES - 5)
    assert pool.used == 1
    del view
    assert pool.used == 0


def test_views_outlive_the_pool() -> None:
    """The memory goes with who reads it last."""
    pool = Pool(block_bytes=BLOCK_BYTES, blocks=BLOCKS)
    mapping = Mapping(pool.fileno(), pool.attach())
    block = loan_of(pool)
    bytes_in(block)[:] = 9
    view = bytes_in(opened(mapping, lent(block, 0)))
    pool.close()
    del pool, mapping, block
    gc.collect()
    assert view.sum() == 9 * BLOCK_BYTES


def test_killed_readers_blocks_come_back(pool: Pool) -> None:
    """Opened ones and those whose frame was still under way; the other readers keep theirs."""
    for _ in range(3):
        victim, survivor = Reader(pool), Reader(pool)
        first, second = loan_of(pool), loan_of(pool)
        bytes_in(first)[:] = 1
        payload = lent(first, survivor.holder)
        assert victim.see(lent(first, victim.holder)) == BLOCK_BYTES
        assert survivor.see(payload) == BLOCK_BYTES
        lent(second, victim.holder)
        del first, second
        victim.kill()
        assert pool.used == 2
        pool.detach(victim.holder)
        assert pool.used == 1
        survivor.forget()
        assert pool.used == 0
        survivor.leave()
        pool.detach(survivor.holder)


def test_ended_link_leaves_its_reader_what_it_reads(pool: Pool) -> None:
    """The link's end says nothing of the process, whose arrays must not change."""
    reader = Reader(pool)
    block = loan_of(pool)
    assert reader.see(lent(block, reader.holder)) == 0
    del block
    pool.detach(reader.holder)
    assert pool.used == 1
    assert reader.holder not in {pool.attach() for _ in range(HOLDERS - 1)}
    assert pool.attach() == -1
    reader.leave()
    assert pool.used == 0
    assert pool.attach() == reader.holder


def test_mapping_that_is_gone_frees_what_was_under_way(pool: Pool) -> None:
    """Though its process goes on."""
    process_fd = os.pidfd_open(os.getpid())
    holder = pool.attach(process_fd)
    os.close(process_fd)
    mapping = Mapping(pool.fileno(), holder)
    lent(loan_of(pool), holder)
    pool.detach(holder)
    assert pool.used == 1
    del mapping
    assert pool.used == 0
    assert pool.attach() == holder


def test_unknown_process_keeps_nothing_after_its_link(pool: Pool) -> None:
    """Nobody could tell when it ends."""
    holder = pool.attach()
    lent(loan_of(pool), holder)
    pool.detach(holder)
    assert pool.used == 0


def test_forked_child_gives_nothing_back(pool: Pool) -> None:
    """What it drops is still the parent's."""
    mapping = Mapping(pool.fileno(), pool.attach())
    loan = opened(mapping, lent(loan_of(pool), 0))
    process = os.fork()
    if process == 0:
        del loan, mapping
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
    assert pool.used == 1
    del loan
    assert pool.used == 0


# --- what a peer may say ---


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


def memory_file(size: int, seals: int) -> int:
    """Memory of a peer's making that begins as a pool does."""
    fd = os.memfd_create("pool", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    model = Pool(block_bytes=BLOCK_BYTES, blocks=BLOCKS)
    os.pwrite(fd, os.pread(model.fileno(), 64, 0), 0)
    model.close()
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


GOOD_SIZE = DATA_AT + BLOCK_BYTES * BLOCKS
GOOD_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


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


# --- nothing is left behind ---


def mapped_pools() -> int:
    """How many parts of this process's memory are pools."""
    return Path("/proc/self/maps").read_text().count("echo_core pool")


def test_memory_is_given_back() -> None:
    """Descriptors and mappings, whether a pool is closed or just dropped, or refused."""
    gc.collect()
    descriptors, mapped = len(os.listdir("/proc/self/fd")), mapped_pools()
    process_fd = os.pidfd_open(os.getpid())
    for turn in range(20):
        pool = Pool(block_bytes=BLOCK_BYTES, blocks=BLOCKS)
        mapping = Mapping(pool.fileno(), pool.attach(process_fd))
        view = bytes_in(opened(mapping, lent(loan_of(pool), 0)))
        if turn % 2:
            pool.detach(0)
            pool.close()
        del pool, mapping, view
        fd = memory_file(GOOD_SIZE + 1, GOOD_SEALS)
        with pytest.raises(WireError):
            Mapping(fd, 0)
        os.close(fd)
    os.close(process_fd)
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), mapped_pools()) == (descriptors, mapped)
