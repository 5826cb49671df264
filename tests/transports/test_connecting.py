"""What two processes share beside a socket: what they offer each other, and what is left where that fails."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from echo_core._c import links
from echo_core.transports.handshake.exchange import Established
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.wires.connecting import RING_BYTES, Connection, Memory, accept_shared, share
from tests.echo_core.hostile_peer import identity
from tests.native.link_ends import open_files

LIMIT_S = 30.0

STRANGERS = """
import socket, sys
one, other = socket.socketpair()
with socket.socket(fileno=int(sys.argv[1])) as carrier:
    socket.send_fds(carrier, [b"!"], [one.fileno(), other.fileno()])
"""


def established(role: Role) -> Established:
    return Established(role, 1, identity(), bytes(16), b"")


def no_pool() -> links.Pool:
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
    ring, pool = links.ring_memory(RING_BYTES), links.Pool(block_bytes=4096, blocks=1)
    before = open_files()
    socket.send_fds(ends[0], [bytes([1, 0])], [ring, pool.fileno()])
    with pytest.raises(OSError, match="Too many"):
        accept_shared(ends[1], established(Role.RESPONDER), "", Memory(no_pool, 0))
    assert sorted(open_files()) == sorted(before)
    os.close(ring)
    pool.close()


def sockets_of_a_process_that_is_gone() -> tuple[socket.socket, socket.socket]:
    """Of each the system names a process at the other end that cannot be found, as from another namespace."""
    here, there = socket.socketpair()
    with here, there:
        command = [sys.executable, "-c", STRANGERS, str(there.fileno())]
        subprocess.run(command, pass_fds=[there.fileno()], check=True, timeout=LIMIT_S)
        _, descriptors, _, _ = socket.recv_fds(here, 1, 2)
    one, other = descriptors
    return socket.socket(fileno=one), socket.socket(fileno=other)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_process_that_cannot_be_watched_is_lent_nothing(*, is_known: bool) -> None:
    """Whether it still reads would not be known when its link has ended. It has the ring all the same."""
    one, other = socket.socketpair() if is_known else sockets_of_a_process_that_is_gone()
    pools = [links.Pool(block_bytes=4096, blocks=1) for _ in range(2)]
    made: list[Connection] = []

    def start() -> None:
        limit = time.monotonic() + LIMIT_S
        made.append(share(one, established(Role.INITIATOR), "", Memory(lambda: pools[0], 0), limit))

    with one, other:
        starting = threading.Thread(target=start)
        starting.start()
        made.append(accept_shared(other, established(Role.RESPONDER), "", Memory(lambda: pools[1], 0)))
        starting.join()
    for connection in made:
        assert (connection.pool is not None) is is_known
        assert (connection.mapping is not None) is is_known
    made[0].wire.write(b"bytes")
    assert made[1].wire.read(5) == b"bytes"
    for connection in made:
        connection.wire.close()
