"""Pools and processes: how much of a peer's is taken, and whose it is after a fork."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from echo_core._c.links import Mapping, Outlet, Pool
from echo_core.errors import ClosedError, WireError
from tests.forks import forks

BLOCK_BYTES = 16384
STREAM = 64


def in_a_child(action: Callable[[], object]) -> int:
    """What a forked child's action comes to, as its status; 99: it raised."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            status = int(bool(action()))
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_memory_that_is_larger_than_wanted_is_refused() -> None:
    """A loan may be as large as all blocks, and its content is copied at times."""
    pool = Pool(block_bytes=BLOCK_BYTES, blocks=4)
    holder = pool.attach()
    assert Mapping(pool.fileno(), holder, max_bytes=4 * BLOCK_BYTES)
    with pytest.raises(WireError, match="larger than is taken"):
        Mapping(pool.fileno(), holder, 4 * BLOCK_BYTES - 1)
    with pytest.raises(ValueError, match="from 0 on"):
        Mapping(pool.fileno(), holder, -1)
    pool.close()


@forks
def test_forked_child_frees_no_block_of_its_parent() -> None:
    """Whatever it calls: the holders are in memory that both have."""
    pool = Pool(block_bytes=BLOCK_BYTES, blocks=4)
    process_fd = os.pidfd_open(os.getpid())
    gone, here = pool.attach(process_fd), pool.attach(process_fd)
    block = pool.loan(1)
    assert block is not None
    payload = block.lend(gone, STREAM)
    assert payload is not None
    assert block.lend(here, STREAM)
    del block
    pool.detach(gone)

    def meddle() -> bool:
        pool.take_back(here, payload)
        pool.detach(here)
        return pool.attach() == -1 and pool.used == 1

    assert in_a_child(meddle) == 1
    assert pool.used == 1
    held = [pool.loan(1)]
    assert in_a_child(lambda: held[0] is not None and held[0].lend(here, STREAM) is None) == 1
    held.clear()
    assert pool.used == 1
    pool.detach(here)
    os.close(process_fd)
    pool.close()


def test_closed_outlet_keeps_nothing() -> None:
    """What another thread gives it as it is closed would stay for good."""
    pool = Pool(block_bytes=BLOCK_BYTES, blocks=4)
    outlet = Outlet(bytes, bytes)
    outlet.pool = pool
    outlet.close()
    for name, value in {"pool": pool, "outgoing": (), "direct": (), "converting": ()}.items():
        with pytest.raises(ClosedError, match="source"):
            setattr(outlet, name, value)
    kept = [getattr(outlet, name) for name in ("pool", "outgoing", "direct", "converting")]
    assert kept == [None, (), (), ()]
    pool.close()
