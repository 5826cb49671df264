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

from echo_core._c import links
from echo_core.errors import LinkError, WireError
from echo_core.transports.addresses import Address
from echo_core.transports.handshake.exchange import Established, Handshake, Initiator
from echo_core.transports.handshake.words import Identity
from echo_core.transports.wires import sockets

RING_BYTES = 1 << 20  # of each direction
POOL_BYTES = 64 << 20  # of a node; what a peer lends may be as much
POOL_BLOCK_BYTES = 1 << 20
_MEMO_BYTES = 2


@dataclass(frozen=True, slots=True)
class Memory:
    """How this process shares memory: `pool` is asked for when the first peer takes part."""

    pool: Callable[[], links.Pool | None]
    spin_ns: int


@dataclass(frozen=True, slots=True)
class Connection:
    """A wire to another process. `watched` is the socket whose end says that a peer with a ring is gone."""

    established: Established
    peer_name: str
    wire: links.Wire
    watched: socket.socket | None = None
    pool: links.Pool | None = None
    holder: int = 0
    mapping: links.Mapping | None = None


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
    return Connection(established, name, links.SocketWire(connection.detach()))


def _shake_hands(
    connection: socket.socket, handshake: Handshake, limit: float, address: Address
) -> Established:
    while True:
        _wait(connection, limit, address)
        _say(connection, handshake)
        if handshake.established is not None:
            return handshake.established
        _wait(connection, limit, address)
        try:
            handshake.receive(connection.recv(handshake.wanted_bytes))
        finally:
            _say(connection, handshake)


def _say(connection: socket.socket, handshake: Handshake) -> None:
    """To a side that has closed, too: what it has said before, REFUSED perhaps, is still to be read."""
    data = handshake.bytes_to_send()
    if data:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)


def _wait(connection: socket.socket, limit: float, address: Address) -> None:
    left = limit - time.monotonic()
    if left <= 0:
        msg = f"Expected {address} to answer a handshake in time, it did not"
        raise LinkError(msg)
    connection.settimeout(left)


# ---------------------------------------------------------------------------
# Memory


@dataclass(frozen=True, slots=True)
class _Offer:
    """What this side shares: its pool, with the other side's number in it.

    None where there are too many, or where the system does not say which process the other side is.
    """

    pool: links.Pool | None
    holder: int

    @classmethod
    def make(cls, memory: Memory, connection: socket.socket) -> _Offer:
        pool = memory.pool()
        if pool is None:
            return cls(None, 0)
        # What a process holds is free when it has died. One in another process namespace cannot be watched:
        # what it still reads would be lent anew when its link has ended. So it gets copies.
        with sockets.peer_process(connection) as process_fd:
            holder = -1 if process_fd < 0 else pool.attach(process_fd)
        return cls(None, 0) if holder < 0 else cls(pool, holder)

    def send(self, connection: socket.socket, *rings: int) -> None:
        descriptors = [*rings, *([] if self.pool is None else [self.pool.fileno()])]
        memo = bytes([self.pool is not None, self.holder])
        if descriptors:
            socket.send_fds(connection, [memo], descriptors)
        else:
            connection.sendall(memo)

    def take_back(self) -> None:
        if self.pool is not None:
            self.pool.detach(self.holder)


_NO_OFFER = _Offer(None, 0)


def share(
    connection: socket.socket, established: Established, name: str, memory: Memory, limit: float
) -> Connection:
    """The initiator's side: offers a ring and its pool, and takes the other's pool."""
    descriptors = [links.ring_memory(RING_BYTES)]
    offer = _NO_OFFER
    try:
        offer = _Offer.make(memory, connection)
        offer.send(connection, descriptors[0])
        connection.settimeout(max(1e-3, limit - time.monotonic()))
        holder, theirs = _receive(connection, rings=0)
        descriptors += theirs
        wire = links.RingWire(descriptors[0], 0, spin_ns=memory.spin_ns)
        return _shared(connection, established, name, wire, offer, holder, theirs)
    except BaseException:
        offer.take_back()
        raise
    finally:
        _close_all(descriptors)


def accept_shared(
    connection: socket.socket, established: Established, name: str, memory: Memory
) -> Connection:
    """The responder's side, when the initiator's offer can be read."""
    holder, descriptors = _receive(connection, rings=1)
    offer = _NO_OFFER
    try:
        offer = _Offer.make(memory, connection)
        wire = links.RingWire(descriptors[0], 1, spin_ns=memory.spin_ns)
        made = _shared(connection, established, name, wire, offer, holder, descriptors[1:])
        offer.send(connection)
        return made
    except BaseException:
        offer.take_back()
        raise
    finally:
        _close_all(descriptors)


def _shared(
    connection: socket.socket,
    established: Established,
    name: str,
    wire: links.Wire,
    offer: _Offer,
    holder: int,
    pools: list[int],
) -> Connection:
    try:
        mapping = links.Mapping(pools[0], holder, POOL_BYTES) if pools else None
    except BaseException:
        wire.close()
        raise
    connection.setblocking(False)
    return Connection(established, name, wire, connection, offer.pool, offer.holder, mapping)


def _receive(connection: socket.socket, *, rings: int) -> tuple[int, list[int]]:
    """Which holder of the other side's pool this is, and descriptors: of rings, and of the pool if any."""
    memo, descriptors, flags, _ = socket.recv_fds(connection, _MEMO_BYTES, 2)
    if not memo:
        msg = "the peer closed the connection where its memory was expected"
        raise ConnectionResetError(msg)
    is_whole = len(memo) == _MEMO_BYTES and not flags & socket.MSG_CTRUNC
    if not is_whole or len(descriptors) != rings + memo[0]:
        _close_all(descriptors)
        msg = f"Expected {rings} or {rings + 1} descriptors of memory, got {len(descriptors)}"
        raise WireError(msg)
    return memo[1], descriptors


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
