"""Blocks that other processes read in place: who has one keeps it, and a peer that is gone keeps none."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

from echo_core._c.links import Mapping, Pool, RingWire, ring_memory
from tests.forks import forks
from tests.native.link_ends import PATIENCE_NS, ROOT
from tests.native.pools import (
    BLOCK_BYTES,
    BLOCKS,
    HOLDERS,
    bytes_in,
    lent,
    loan_of,
    opened,
)

READER = """
import numpy as np
from echo_core._c.links import Mapping, RingWire
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


@forks
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
