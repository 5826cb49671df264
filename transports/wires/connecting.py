"""Setting up connections: a socket, a handshake on it, and shared memory if both sides support it.

The result is a wire for a link, and the identity of the peer. The initiator uses `connect`, which blocks the
calling thread. For the responder the doorkeeper (doorkeeper.py) does the same steps without blocking.

Shared memory is set up after READY: the initiator sends file descriptors of the ring and of its pool, the
responder that of its own pool. Each adds two bytes: whether it sends a pool, and the peer's holder number in
it.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

from echo_core._c import links
from echo_core.errors import LinkError, WireError, unexpected
from echo_core.transports.addresses import Address
from echo_core.transports.handshake.exchange import Established, Handshake, Initiator
from echo_core.transports.wires import sockets

RING_BYTES = 1 << 20  # of each direction
POOL_BYTES = 64 << 20  # of a node; a peer's pool may have the same size
POOL_BLOCK_BYTES = 1 << 20
_MEMO_BYTES = 2
_PING, _UNCONFIRMED = 1 / 4, 3 / 4  # of stall_s: together the time in which a host's loss is noticed


@dataclass(frozen=True, slots=True)
class Memory:
    """Settings for shared memory; `pool` is called when the first peer uses it."""

    pool: Callable[[], links.Pool | None]
    spin_ns: int


@dataclass(frozen=True, slots=True)
class Connection:
    """A wire to another process.

    After `ping_s` in which nothing was sent something has to be: else nobody notices that the host is gone.
    """

    established: Established
    peer_name: str
    wire: links.Wire
    pool: links.Pool | None = None
    holder: int = 0
    mapping: links.Mapping | None = None
    ping_s: float = math.inf


def connect(
    address: Address,
    make_initiator: Callable[[], Initiator],
    *,
    memory: Memory | None,
    timeout_s: float,
    stall_s: float = math.inf,
) -> Connection:
    """Connect to the node at an address; LinkError says why that fails.

    `stall_s`: in which the loss of another host is to be noticed.
    """
    limit = time.monotonic() + timeout_s
    connection = sockets.connect(address, timeout_s)
    with sockets.closed_on_failure(connection, f"{address} to finish the handshake"):
        name = sockets.peer_name(connection)
        established = _shake_hands(connection, make_initiator(), limit, address)
        if memory is not None and is_shared(connection, established):
            return share(connection, established, name, memory, limit)
        return plain(connection, established, name, stall_s)


def is_shared(connection: socket.socket, established: Established) -> bool:
    """Whether memory can be shared with the other side, where this one wants to."""
    return connection.family == socket.AF_UNIX and established.peer.can_share_memory


def plain(connection: socket.socket, established: Established, name: str, stall_s: float) -> Connection:
    """A connection without shared memory. By TCP the loss of the other host is noticed within `stall_s`."""
    connection.setblocking(True)
    ping_s = math.inf
    if connection.family != socket.AF_UNIX:
        ping_s = _PING * stall_s
        sockets.end_unconfirmed_after(connection, _UNCONFIRMED * stall_s)
    return Connection(established, name, links.SocketWire(connection.detach()), ping_s=ping_s)


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
    """Send; ignore a closed connection, because an earlier message, such as REFUSED, is still to be read."""
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
    """The pool that this side shares, if any, and the peer's holder number in it."""

    pool: links.Pool | None = None
    holder: int = 0

    def send(self, connection: socket.socket, *rings: int) -> None:
        descriptors = [*rings, *([] if self.pool is None else [self.pool.fileno()])]
        memo = bytes([self.pool is not None, self.holder])
        if descriptors:
            socket.send_fds(connection, [memo], descriptors)
        else:
            connection.sendall(memo)


@contextlib.contextmanager
def _offered(memory: Memory, connection: socket.socket) -> Generator[_Offer]:
    """No pool if it has no free holder number, or if the kernel cannot identify the peer's process.

    Blocks that a process holds are reclaimed when it dies. A process in another PID namespace cannot be
    watched: blocks that it still reads would be reused once its link ends. So it gets copies.
    """
    pool, holder = memory.pool(), -1
    if pool is not None:
        with sockets.peer_process(connection) as process_fd:
            holder = -1 if process_fd < 0 else pool.attach(process_fd)
    try:
        yield _Offer() if holder < 0 else _Offer(pool, holder)
    except BaseException:
        if pool is not None and holder >= 0:
            pool.detach(holder)
        raise


def share(
    connection: socket.socket, established: Established, name: str, memory: Memory, limit: float
) -> Connection:
    """Set up shared memory as the initiator: send a ring and the own pool, receive the peer's pool."""
    ring = links.ring_memory(RING_BYTES)
    with _closing([ring]) as descriptors, _offered(memory, connection) as offer:
        offer.send(connection, ring)
        connection.settimeout(max(1e-3, limit - time.monotonic()))
        holder, theirs = _receive(connection, rings=0)
        descriptors += theirs
        wire = _ring_wire(ring, 0, memory, connection)
        made = _shared(established, name, wire, offer, holder, theirs)
    connection.close()  # the wire has it
    return made


def accept_shared(
    connection: socket.socket, established: Established, name: str, memory: Memory
) -> Connection:
    """Set up shared memory as the responder, once the initiator's message can be read."""
    holder, (ring, *pools) = _receive(connection, rings=1)
    with _closing([ring, *pools]), _offered(memory, connection) as offer:
        wire = _ring_wire(ring, 1, memory, connection)
        made = _shared(established, name, wire, offer, holder, pools)
        offer.send(connection)
        return made


def _ring_wire(ring: int, side: int, memory: Memory, connection: socket.socket) -> links.Wire:
    """With a descriptor of its own for the connection: that wakes it, and tells that the peer is gone."""
    bell = os.dup(connection.fileno())
    try:
        return links.RingWire(ring, side, spin_ns=memory.spin_ns, bell=bell)
    except BaseException:
        os.close(bell)
        raise


def _shared(
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
    return Connection(established, name, wire, offer.pool, offer.holder, mapping)


def _receive(connection: socket.socket, *, rings: int) -> tuple[int, list[int]]:
    """Receive the holder number in the peer's pool, and descriptors: of rings, then of the pool if any."""
    memo, descriptors, flags, _ = socket.recv_fds(connection, _MEMO_BYTES, 2)
    if not memo:
        msg = "the peer closed the connection where its memory was expected"
        raise ConnectionResetError(msg)
    is_whole = len(memo) == _MEMO_BYTES and not flags & socket.MSG_CTRUNC
    if not is_whole or len(descriptors) != rings + memo[0]:
        with _closing(descriptors):
            raise unexpected(WireError, f"{rings} or {rings + 1} descriptors of memory", len(descriptors))
    return memo[1], descriptors


@contextlib.contextmanager
def _closing(descriptors: list[int]) -> Generator[list[int]]:
    """Also those that are added meanwhile."""
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
