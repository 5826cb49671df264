"""Connections: a socket, a handshake on it, and where both sides can, memory that they share.

What comes out is a wire that a link can use, and who is at its other end. `connect` does it in the calling
thread, for who starts; the doorkeeper (doorkeeper.py) a step at a time, for who is connected to.

Memory is agreed upon after READY: the initiator sends descriptors of the ring and of its pool, the responder
that of its own pool, each with two bytes: whether a pool is there, and which of its holders the other is.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from echo_core import _links
from echo_core.errors import LinkError, WireError
from echo_core.transports import sockets
from echo_core.transports.addresses import Address
from echo_core.transports.handshake import Established, Handshake, Initiator
from echo_core.transports.handshake_words import Identity

RING_BYTES = 1 << 20  # of each direction
_MEMO_BYTES = 2
_NO_HOLDER = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """How this process shares memory: `pool` is asked for when the first peer takes part."""

    pool: Callable[[], _links.Pool | None]
    spin_ns: int


@dataclass(frozen=True, slots=True)
class Connection:
    """A wire to another process. `watched` is the socket whose end says that a peer with a ring is gone."""

    established: Established
    peer_name: str
    wire: _links.Wire
    watched: socket.socket | None = None
    pool: _links.Pool | None = None
    holder: int = _NO_HOLDER
    mapping: _links.Mapping | None = None


def connect(
    address: Address,
    make_initiator: Callable[[], Initiator],
    *,
    own: Identity,
    memory: Memory | None,
    timeout_s: float,
) -> Connection:
    """A connection to the node at an address; LinkError says why there is none."""
    limit = time.monotonic() + timeout_s
    connection = sockets.connect(address, timeout_s)
    try:
        name = sockets.peer_name(connection)
        established = _shake_hands(connection, make_initiator(), limit, address)
        if memory is not None and is_shared(connection, own, established):
            return share(connection, established, name, memory, limit)
        return plain(connection, established, name)
    except OSError as error:
        connection.close()
        msg = f"Expected {address} to finish the handshake: {error.strerror or error}"
        raise LinkError(msg) from error
    except BaseException:
        connection.close()
        raise


def is_shared(connection: socket.socket, own: Identity, established: Established) -> bool:
    """Whether both sides of a Unix socket want to share memory."""
    is_local = connection.family == socket.AF_UNIX
    return is_local and own.can_share_memory and established.peer.can_share_memory


def plain(connection: socket.socket, established: Established, name: str) -> Connection:
    """A connection whose bytes go through its socket."""
    connection.setblocking(True)
    return Connection(established, name, _links.SocketWire(connection.detach()))


def _shake_hands(
    connection: socket.socket, handshake: Handshake, limit: float, address: Address
) -> Established:
    while True:
        _wait(connection, limit, address)
        connection.sendall(handshake.bytes_to_send())
        if handshake.established is not None:
            return handshake.established
        _wait(connection, limit, address)
        try:
            handshake.receive(connection.recv(handshake.wanted_bytes))
        finally:
            with contextlib.suppress(OSError):
                connection.sendall(handshake.bytes_to_send())


def _wait(connection: socket.socket, limit: float, address: Address) -> None:
    left = limit - time.monotonic()
    if left <= 0:
        msg = f"Expected {address} to answer a handshake in time, it did not"
        raise LinkError(msg)
    connection.settimeout(left)


# ---------------------------------------------------------------------------
# Memory


def share(
    connection: socket.socket, established: Established, name: str, memory: Memory, limit: float
) -> Connection:
    """The initiator's side: offers a ring and its pool, and takes the other's pool."""
    ring = _links.ring_memory(RING_BYTES)
    pool, holder = _attach(memory)
    try:
        shared = [ring] if pool is None else [ring, pool.fileno()]
        socket.send_fds(connection, [_memo(pool, holder)], shared)
        connection.settimeout(max(0.0, limit - time.monotonic()) or 1e-3)
        memo, theirs = receive_memory(connection, expected=0)
        wire = _links.RingWire(os.dup(ring), 0, spin_ns=memory.spin_ns)
        return _connection(connection, established, name, wire, pool, holder, memo, theirs)
    except BaseException:
        if pool is not None:
            pool.detach(holder)
        raise
    finally:
        os.close(ring)


def accept_shared(
    connection: socket.socket, established: Established, name: str, memory: Memory
) -> Connection:
    """The responder's side, when the initiator's offer can be read."""
    memo, theirs = receive_memory(connection, expected=1)
    pool, holder = _attach(memory)
    try:
        socket.send_fds(connection, [_memo(pool, holder)], [] if pool is None else [pool.fileno()])
        wire = _links.RingWire(theirs.pop(0), 1, spin_ns=memory.spin_ns)
        return _connection(connection, established, name, wire, pool, holder, memo, theirs)
    except BaseException:
        _close_all(theirs)
        if pool is not None:
            pool.detach(holder)
        raise


def receive_memory(connection: socket.socket, *, expected: int) -> tuple[bytes, list[int]]:
    """The other side's two bytes, and the descriptors that they are about."""
    memo, descriptors, flags, _ = socket.recv_fds(connection, _MEMO_BYTES, 2)
    found = expected + (memo[0] if len(memo) == _MEMO_BYTES else 0)
    if len(memo) != _MEMO_BYTES or len(descriptors) != found or flags & socket.MSG_CTRUNC:
        _close_all(descriptors)
        msg = f"Expected {expected} or {expected + 1} descriptors of memory, got {len(descriptors)}"
        raise WireError(msg)
    return memo, descriptors


def _connection(
    connection: socket.socket,
    established: Established,
    name: str,
    wire: _links.Wire,
    pool: _links.Pool | None,
    holder: int,
    memo: bytes,
    theirs: list[int],
) -> Connection:
    try:
        mapping = _links.Mapping(theirs.pop(), memo[1]) if theirs else None
    except BaseException:
        wire.close()
        raise
    connection.setblocking(False)
    return Connection(established, name, wire, connection, pool, holder, mapping)


def _attach(memory: Memory) -> tuple[_links.Pool | None, int]:
    """Our pool, with the next peer's number in it; neither where there are too many."""
    pool = memory.pool()
    holder = pool.attach() if pool is not None else -1
    return (None, _NO_HOLDER) if holder < 0 else (pool, holder)


def _memo(pool: _links.Pool | None, holder: int) -> bytes:
    return bytes([pool is not None, holder])


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
