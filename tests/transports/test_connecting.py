"""What two processes share beside a socket: what they offer each other, and what is left where that fails."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator

import pytest

from echo_core import _links
from echo_core.transports.connecting import RING_BYTES, Memory, accept_shared, share
from echo_core.transports.handshake import Established
from echo_core.transports.proofs import Role
from tests.echo_core.hostile_peer import identity
from tests.native.link_ends import open_files

LIMIT_S = 30.0


def established(role: Role) -> Established:
    return Established(role, 1, identity(), bytes(16), b"")


def no_pool() -> _links.Pool:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_who_starts_and_has_no_pool_keeps_no_descriptor(ends: tuple[socket.socket, socket.socket]) -> None:
    before = open_files()
    with pytest.raises(OSError, match="Too many"):
        share(ends[0], established(Role.INITIATOR), "", Memory(no_pool, 0), time.monotonic() + LIMIT_S)
    assert sorted(open_files()) == sorted(before)


def test_who_is_asked_and_has_no_pool_keeps_no_descriptor(ends: tuple[socket.socket, socket.socket]) -> None:
    """Of those that came with the question."""
    ring, pool = _links.ring_memory(RING_BYTES), _links.Pool(block_bytes=4096, blocks=1)
    before = open_files()
    socket.send_fds(ends[0], [bytes([1, 0])], [ring, pool.fileno()])
    with pytest.raises(OSError, match="Too many"):
        accept_shared(ends[1], established(Role.RESPONDER), "", Memory(no_pool, 0))
    assert sorted(open_files()) == sorted(before)
    os.close(ring)
    pool.close()
