"""Blocks of a pool as their owner has them: lent, placed, given to holders, and free again."""

from __future__ import annotations

import gc
import mmap
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_core._c.links import Block, Mapping, Pool
from echo_core.errors import ClosedError, WireError
from tests.forks import forks
from tests.native.link_ends import eventually, open_files
from tests.native.pools import (
    BLOCK_BYTES,
    BLOCKS,
    GOOD_SEALS,
    GOOD_SIZE,
    HOLDERS,
    STREAM,
    bytes_in,
    lent,
    loan_of,
    memory_file,
    opened,
)

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


@forks
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


# --- nothing is left behind ---


def mapped_pools() -> int:
    """How many parts of this process's memory are pools."""
    return Path("/proc/self/maps").read_text().count("echo_core pool")


def open_pools() -> int:
    """How many descriptors are of memory, or of processes that hold some."""
    return sum("/memfd:" in target or "pidfd" in target for target in open_files())


def test_memory_is_given_back() -> None:
    """Descriptors and mappings, whether a pool is closed or just dropped, or refused."""
    gc.collect()
    descriptors, mapped = open_pools(), mapped_pools()  # what an earlier test has left may go meanwhile
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
    eventually(lambda: open_pools() <= descriptors and mapped_pools() <= mapped)
