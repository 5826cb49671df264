"""Pools for tests: loans that must be there, and memory of a peer's making."""

from __future__ import annotations

import fcntl
import os
from typing import Any

import numpy as np

from echo_core._c import native
from echo_core._c.links import Block, Loan, Mapping, Pool

BLOCK_BYTES = 16384
BLOCKS = 8
STREAM = 64

_LAYOUT = native.ffi.new("struct echo_pool_layout *")
native.lib.echo_native_pool_layout(BLOCKS, _LAYOUT)
_LIMITS = native.ffi.new("struct echo_limits *")
native.lib.echo_native_limits(_LIMITS)

HOLDERS = _LIMITS.max_holders

# Where the memory has what a peer could change.
HOLDERS_AT = _LAYOUT.holders
DATA_AT = _LAYOUT.data


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
